/* SPDX-License-Identifier: MIT
 *
 * The formats of a join's result. write.c calls begin once, rows for each block of rows in ascending order, finish once
 * if all went well, and end always.
 */
#ifndef ADJI_WRITE_H
#define ADJI_WRITE_H

#include "data/dataset.h"
#include "io/output.h"
#include "io/write_npy_header.h"

typedef struct adji_pair_writer {
  adji_output *output;
  adj_ctx *ctx;
  const adj_dataset *left, *right; /* right == left for a self-join                        */
  adj_type type;                   /* of the distances                                     */
  uint32_t k;                      /* kNN: entries of every row, padding last; else 0      */
  bool with_distance;
  void *state; /* of the format: made by begin, freed by end; NULL before      */
} adji_pair_writer;

typedef struct adji_pair_format {
  const char *name;   /* also the ending of the path                                     */
  bool needs_offsets; /* cannot be written to a pipe                                      */
  /* rows and pairs are exact. degrees has one entry per row and is valid until end. In a kNN join they include padding,
   * as in adj_sink, except for the graph. */
  adj_status (*begin)(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees);
  adj_status (*rows)(adji_pair_writer *writer, const adj_rows *rows);
  adj_status (*finish)(adji_pair_writer *writer);
  void (*end)(adji_pair_writer *writer);
} adji_pair_format;

/* Formats of pairs. csv and tsv also write the neighbours of kNN joins. */
extern const adji_pair_format adji_format_npz, adji_format_csv, adji_format_tsv, adji_format_npy;

/* Formats of neighbours: tables of ids, tables of distances, and a sparse matrix. */
extern const adji_pair_format adji_table_npz, adji_table_npy, adji_table_ivecs;
extern const adji_pair_format adji_distances_npy, adji_distances_fvecs;
extern const adji_pair_format adji_table_graph;

/* Writes the number of neighbours of each left point as "npy", "csv" or "tsv". */
adj_status adji_write_counts(adji_output *output, const char *format, const adj_dataset *left, const uint32_t *degrees);

/* Ids as int64, padding as -1. */
void adji_put_wide_ids(const uint32_t *ids, uint64_t count, void *to);

/* The row of a pair. Both are counted from the first of the block. */
uint64_t adji_row_of_pair(const adj_rows *rows, uint64_t pair);

#endif
