/* SPDX-License-Identifier: MIT
 *
 * A growing JSON text, for --stats and --trace.
 */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json_writer {
  char *text; /* the owner frees it */
  size_t length, room;
  bool failed; /* memory ran out: all later text is dropped */
} json_writer;

void json_raw(json_writer *json, const char *format, ...) __attribute__((format(printf, 2, 3)));
void json_text(json_writer *json, const char *text); /* a string, quoted and escaped; NULL: null */
void json_real(json_writer *json, double value);     /* reads back as the same value; null if not finite */

#endif
