/* SPDX-License-Identifier: MIT
 *
 * The fields of an output, for output.c and output_items.c only.
 */
#ifndef ADJI_OUTPUT_PRIVATE_H
#define ADJI_OUTPUT_PRIVATE_H

#include "io/output.h"

struct adji_output {
  adj_ctx *ctx;
  char *name;   /* for messages                                           */
  char *target; /* the final name; NULL: written in place                 */
  char *part;   /* the temporary file; NULL if target is                  */
  int fd;
  uint64_t size; /* appended so far                                        */
  void *scratch; /* the slots of output_items.c, reused by later calls     */
};

#endif
