/* SPDX-License-Identifier: MIT
 *
 * Files for the tests of the readers: written, opened, compared and removed.
 */
#ifndef ADJOIN_TEST_FILES_H
#define ADJOIN_TEST_FILES_H

#include <stdbool.h>

#include "check.h"

/* Options with all defaults. */
adj_open_options open_defaults(void);

/* Writes size bytes to a file of this name, opens it and removes it. Messages begin with the name, without a folder. */
adj_status open_bytes(adj_ctx *ctx, const char *name, const void *bytes, uint64_t size, const adj_open_options *options,
                      adj_dataset **out);
adj_status open_text(adj_ctx *ctx, const char *name, const char *text, const adj_open_options *options,
                     adj_dataset **out);

/* The same bytes as a source in memory, without a file. */
adj_status read_bytes(adj_ctx *ctx, const char *name, const void *bytes, uint64_t size, const adj_open_options *options,
                      adj_dataset **out);

/* A file of tests/readers/data. */
adj_status open_golden(adj_ctx *ctx, const char *name, const adj_open_options *options, adj_dataset **out);

/* Whether this machine has an HDF5 library. */
bool have_hdf5(adj_ctx *ctx);

/* Destroys the dataset after checking its shape and every coordinate, exactly. */
void check_and_destroy(adj_dataset *dataset, adj_type type, uint64_t count, uint32_t dim, const double *values);

/* What the library logged to a context made with these notes. */
typedef struct notes {
  char text[4096];
} notes;
adj_ctx *context_with_notes(notes *heard);

#endif
