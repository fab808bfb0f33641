/* SPDX-License-Identifier: MIT
 *
 * Readable numbers, the clock, and small text files.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each writes to a buffer of 32 characters and returns it. */
const char *text_count(uint64_t value, char *buffer);    /* 1,234,567 */
const char *text_short(double value, char *buffer);      /* 1.23 M    */
const char *text_bytes(double bytes, char *buffer);      /* 1.5 GiB   */
const char *text_duration(double seconds, char *buffer); /* 0.42 s, 12 s, 3:05, 2:00:10; needs 24 */

double seconds_now(void); /* monotonic */

/* Writes the text to the path; "-" is standard output. The file appears when it is complete. False after an error
 * message. */
bool text_save(const char *path, const char *text, size_t length);

/* Whether text_save can write to the path: checked before a long run. False after an error message. */
bool text_can_save(const char *path);

#endif
