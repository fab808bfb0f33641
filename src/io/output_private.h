/* SPDX-License-Identifier: MIT
 *
 * What output.c and output_items.c know about an output, and nobody else.
 */
#ifndef ADJI_OUTPUT_PRIVATE_H
#define ADJI_OUTPUT_PRIVATE_H

#include "io/output.h"

struct adji_output {
  adj_ctx *ctx;
  char *name;   /* for messages                                           */
  char *target; /* the name to take at the end; NULL: written in place    */
  char *part;   /* the file beside it, which exists; NULL as target       */
  int fd;
  uint64_t size; /* appended so far                                        */
  void *scratch; /* the slots of output_items.c, kept from call to call    */
};

#endif
