/* SPDX-License-Identifier: MIT
 *
 * The formats of a join's result. write.c calls begin once, rows for each block of rows in ascending order, and finish
 * once if all went well.
 */
#ifndef ADJI_WRITE_H
#define ADJI_WRITE_H

#include "data/dataset.h"
#include "io/output.h"

typedef struct adji_pair_writer {
  const struct adji_pair_format *format;
  adji_output *output;
  adj_ctx *ctx;
  const adj_dataset *left, *right; /* right == left for a self-join                        */
  adj_type type;                   /* of the distances                                     */
  uint32_t k;                      /* kNN: entries of every row, padding last; else 0      */
  bool with_distance;
  /* From begin on. Both counts are exact. degrees has one entry per row. In a kNN join pairs and degrees include
   * padding, as in adj_sink, except for the graph. */
  uint64_t rows, pairs;
  const uint32_t *degrees;
  void *state; /* of the format: one block, made by begin, freed by write.c         */
} adji_pair_writer;

typedef struct adji_pair_format {
  const char *name;   /* also the ending of the path                                     */
  bool needs_offsets; /* cannot be written to a pipe                                      */
  /* Of the file, about; or at least, which must never be too many. From `rows` and `pairs` alone. */
  uint64_t (*bytes)(const adji_pair_writer *writer, bool least);
  adj_status (*begin)(adji_pair_writer *writer);
  adj_status (*rows)(adji_pair_writer *writer, const adj_rows *rows);
  adj_status (*finish)(adji_pair_writer *writer); /* NULL: nothing follows the rows */
} adji_pair_format;

/* Formats of pairs. csv and tsv also write the neighbours of kNN joins. */
extern const adji_pair_format adji_format_npz, adji_format_csv, adji_format_tsv, adji_format_npy;

/* Formats of neighbours: tables of ids, tables of distances, and a sparse matrix. */
extern const adji_pair_format adji_table_npz, adji_table_npy, adji_table_ivecs;
extern const adji_pair_format adji_distances_npy, adji_distances_fvecs;
extern const adji_pair_format adji_table_graph;

/* What adji_write_block() passes to format as user. */
typedef struct adji_row_block {
  const adji_pair_writer *writer;
  const adj_rows *rows;
} adji_row_block;

/* adji_output_items() for a block of rows. */
adj_status adji_write_block(adji_pair_writer *writer, const adj_rows *rows, uint64_t count, uint64_t bytes_each,
                            adji_format_fn format);

/* Ids as int64, padding as -1. */
void adji_put_wide_ids(const uint32_t *ids, uint64_t count, void *to);

/* The row of a pair. Both are counted from the first of the block. */
uint64_t adji_row_of_pair(const adj_rows *rows, uint64_t pair);

#endif
