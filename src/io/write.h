/* SPDX-License-Identifier: MIT
 *
 * The formats of a join's result. A writer calls begin once, rows for each block of rows in ascending order, and finish
 * once if all succeeded. write.c writes the whole result of a plan. share.c writes the rows of one of several
 * processes, at their place in a file that all of them write.
 */
#ifndef ADJI_WRITE_H
#define ADJI_WRITE_H

#include "adjoin_share.h"
#include "data/dataset.h"
#include "io/output.h"

/* A block of finished rows, as adj_rows. */
typedef struct adji_rows {
  uint64_t first_row, row_count;
  const uint64_t *offsets;
  const uint32_t *ids; /* one of these; the other is NULL */
  const int64_t *wide;
  const void *distances;
} adji_rows;

/* The id of an entry; -1: padding. */
static inline int64_t adji_id_at(const adji_rows *rows, uint64_t entry) {
  if (rows->wide) return rows->wide[entry];
  return rows->ids[entry] == ADJ_NO_ID ? -1 : (int64_t)rows->ids[entry];
}

typedef struct adji_pair_writer {
  const struct adji_pair_format *format;
  adji_output *output;
  adj_ctx *ctx;
  uint64_t left_count, right_count;
  const adj_dataset *left, *right; /* their labels are names; NULL: names are numbers      */
  adj_type type;                   /* of the distances                                     */
  uint32_t k;                      /* kNN: entries of every row, padding last; else 0      */
  bool with_distance;
  /* Set before begin: exact, for the whole file. In a kNN join pairs include padding, as in adj_sink, except for the
   * graph. */
  uint64_t rows, pairs;
  /* The share of the file that this process writes: whether it is the first and the last one; the sizes of the shares
   * before it, and its own. bytes: of text, without the header. */
  struct {
    bool first, last;
    uint64_t rows_before, pairs_before, bytes_before, rows, pairs;
  } share;
  adj_share_sums sums; /* after finish: of what this process wrote; for complete: of all shares           */
  void *state;         /* of the format: one block, allocated by begin, freed by the caller               */
} adji_pair_writer;

/* Makes the share the whole file. Called after rows and pairs are set. */
static inline void adji_write_whole(adji_pair_writer *writer) {
  writer->share.first = writer->share.last = true;
  writer->share.rows = writer->rows;
  writer->share.pairs = writer->pairs;
}

typedef struct adji_pair_format {
  const char *name;   /* also the ending of the path                                     */
  bool needs_offsets; /* cannot be written to a pipe                                      */
  /* The estimated bytes of the file; with `least`, a lower bound. Uses only `rows` and `pairs`. */
  uint64_t (*bytes)(const adji_pair_writer *writer, bool least);
  adj_status (*begin)(adji_pair_writer *writer);
  adj_status (*rows)(adji_pair_writer *writer, const adji_rows *rows);
  /* NULL: nothing follows the rows. complete: once for the file, when all shares are finished; uses writer->sums. */
  adj_status (*finish)(adji_pair_writer *writer);
  adj_status (*complete)(adji_pair_writer *writer);
} adji_pair_format;

/* Chooses the format by the name in options, or by the ending of the path, among those for such a result. second: NULL
 * unless options ask for a separate file of distances, kNN only. */
adj_status adji_choose_formats(adj_join_kind kind, bool with_distance, const char *path,
                               const adj_write_options *options, const adji_pair_format **main,
                               const adji_pair_format **second);

/* Formats of pairs. csv and tsv also write the neighbours of kNN joins. */
extern const adji_pair_format adji_format_npz, adji_format_csv, adji_format_tsv, adji_format_npy;

/* Formats of neighbours: tables of ids, tables of distances, and a sparse matrix. */
extern const adji_pair_format adji_table_npz, adji_table_npy, adji_table_ivecs;
extern const adji_pair_format adji_distances_npy, adji_distances_fvecs;
extern const adji_pair_format adji_table_graph;

/* The user argument that adji_write_block() passes to format. */
typedef struct adji_row_block {
  const adji_pair_writer *writer;
  const adji_rows *rows;
} adji_row_block;

/* adji_output_items() for a block of rows. */
adj_status adji_write_block(adji_pair_writer *writer, const adji_rows *rows, uint64_t count, uint64_t bytes_each,
                            adji_format_fn format);

/* Writes the header; a share that is not the first instead seeks to its place, bytes_before after the header. */
adj_status adji_write_header(adji_pair_writer *writer, const void *header, uint64_t bytes, uint64_t bytes_before);

/* Ids of entries as int64, padding as -1. */
void adji_put_wide_ids(const adji_rows *rows, uint64_t first, uint64_t count, void *to);

/* The number of neighbours of each row, as npy, csv or tsv. adji_counts: degrees of `many` rows from first_row on, in
 * either narrow or wide. */
typedef struct adji_counts {
  const adji_pair_writer *writer;
  uint64_t first_row, many;
  const uint32_t *narrow;
  const uint64_t *wide;
} adji_counts;
uint64_t adji_counts_bytes(const adji_pair_writer *writer); /* lower bound for a row */
adj_status adji_counts_begin(adji_pair_writer *writer);
adj_status adji_counts_rows(const adji_counts *counts);

/* The row of a pair, both counted from the first of the block. */
uint64_t adji_row_of_pair(const adji_rows *rows, uint64_t pair);

#endif
