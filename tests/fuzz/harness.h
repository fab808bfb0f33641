/* SPDX-License-Identifier: MIT
 *
 * Shared by the fuzz targets: reads a file in memory and checks everything that comes of it, and makes a folder for
 * targets that write files.
 */
#ifndef ADJOIN_FUZZ_HARNESS_H
#define ADJOIN_FUZZ_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "adjoin.h"

/* What libFuzzer, or replay.c, calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stops with a message when something does not hold. */
#define require(condition)                                       \
  do {                                                           \
    if (!(condition)) fuzz_stop(__FILE__, __LINE__, #condition); \
  } while (0)
_Noreturn void fuzz_stop(const char *file, int line, const char *condition);

/* One context for all inputs: one thread, 64 MiB. */
adj_ctx *fuzz_context(void);

/* Reads size bytes as a file of this name. Whatever the outcome, no memory stays behind, a failure has
 * a message that begins with the name, and the points of a success are all finite. Returns a hash of
 * the outcome: status and message, or shape, points and labels. */
uint64_t fuzz_read(const char *name, const adj_open_options *options, const void *bytes, size_t size,
                   uint64_t chunk_bytes);

/* Makes an empty folder and goes there; later calls do nothing. The folder is removed when the process exits. */
void fuzz_enter_scratch(void);

/* Write and read a file of that folder. fuzz_load returns its bytes with a 0 after them, which the caller frees, or
 * NULL if there is no such file. */
void fuzz_save(const char *name, const void *bytes, size_t size);
char *fuzz_load(const char *name, size_t *size);

/* Calls visit with each name in that folder. */
void fuzz_visit_scratch(void (*visit)(const char *name, void *user), void *user);

#endif
