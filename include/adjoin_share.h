/* SPDX-License-Identifier: MIT
 *
 * adjoin_share.h - a result that several processes have in parts, such as the ranks of a cluster, as one file. They
 * write side by side, and the file has the same bytes as one that adj_write made of the whole.
 *
 * Each process has a share: consecutive rows, which follow those of the shares before it. It may be empty. The library
 * moves nothing between processes: the caller sums up what the shares tell it, for instance with MPI_Exscan.
 *
 *   every process       adj_share_create     what is written, where
 *   every process       adj_share_measure    only if adj_share_measures: its rows, once
 *   ... the caller adds up rows, entries and bytes over the shares ...
 *   every process       adj_share_place      where its share begins
 *   the first process   adj_share_begin      makes a part file (adj_share_part tells its path)
 *   the other ones      adj_share_join       open it
 *   every process       adj_share_write      its rows, in ascending order, any number at a time
 *   every process       adj_share_finish     all is on the disk; what the first process needs to know
 *   the first process   adj_share_complete   the file appears
 *   every process       adj_share_destroy    without the step before, the first process removes the part file
 *
 * The file has to be in a folder that all processes reach by the same path. A process alone, with one share, needs no
 * such folder: that is how each rank writes a file of its own.
 */
#ifndef ADJOIN_SHARE_H
#define ADJOIN_SHARE_H

#include "adjoin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names of all points of a set: name i is text[ends[i - 1]] .. text[ends[i] - 1]. text NULL: names are numbers. */
typedef struct adj_share_names {
  const char *text;
  const uint64_t *ends;
} adj_share_names;

/* What is written. The same in every process. */
typedef struct adj_share_options {
  uint32_t struct_size;
  adj_join_kind kind; /* default ADJ_RANGE                                    */
  adj_type type;      /* of the distances; default ADJ_F32                    */
  uint32_t k;         /* ADJ_KNN: entries of every row                        */
  uint32_t flags;     /* ADJ_WITH_DISTANCE: rows have distances               */
  uint32_t reserved;
  uint64_t left_count, right_count;        /* points of the two sets in all, which ids refer to */
  adj_share_names left_names, right_names; /* in text; the arrays must outlive the share */
} adj_share_options;

ADJ_API void adj_share_options_init(adj_share_options *options, size_t struct_size);

typedef struct adj_share adj_share;

/* path and write as in adj_write, but "-" is refused. Nothing is written yet. */
ADJ_API adj_status adj_share_create(adj_ctx *ctx, const char *path, const adj_write_options *write,
                                    const adj_share_options *options, adj_share **out);
ADJ_API void adj_share_destroy(adj_share *share);

/* Finished rows. With counts, only their number of neighbours. */
typedef struct adj_share_rows {
  uint64_t first_row, row_count; /* among the rows of all shares                                        */
  const uint64_t *offsets;       /* row_count + 1 entries; row i: offsets[i] .. offsets[i + 1] - 1       */
  const int64_t *ids;            /* -1: padding of kNN                                                   */
  const void *distances;         /* NULL without ADJ_WITH_DISTANCE                                       */
  const uint64_t *counts;        /* adj_write_options.counts: one a row, and none of the three above     */
} adj_share_rows;

/* The sizes of a share, or sums of them. */
typedef struct adj_share_size {
  uint64_t rows;
  uint64_t entries;  /* kNN: rows * k; "csr": without padding. With counts: 0 */
  uint64_t bytes[2]; /* of text, without the header; the second file; else 0 */
} adj_share_size;

/* Whether the sizes depend on more than the numbers of rows and entries: text, and "csr". Then every process passes its
 * rows to adj_share_measure first, which adds them to *size. Time: that of formatting them. */
ADJ_API int adj_share_measures(const adj_share *share);
ADJ_API adj_status adj_share_measure(adj_share *share, const adj_share_rows *rows, adj_share_size *size);

/* number: of this share, from 0, of `shares`. before: the sum over the shares before this one; mine; all: over all. */
ADJ_API adj_status adj_share_place(adj_share *share, uint32_t number, uint32_t shares, const adj_share_size *before,
                                   const adj_share_size *mine, const adj_share_size *all);

/* The first process makes the part files, and writes what comes before all rows. A result that cannot fit the disk is
 * ADJ_E_IO here. adj_share_part: the path of the part file, file 0 or 1 (that of the distances), for
 * adj_share_join; NULL: there is none. It lives as long as the share. */
ADJ_API adj_status adj_share_begin(adj_share *share);
ADJ_API const char *adj_share_part(const adj_share *share, uint32_t file);
/* part, distances: those of the first process; distances may be NULL. */
ADJ_API adj_status adj_share_join(adj_share *share, const char *part, const char *distances);

ADJ_API adj_status adj_share_write(adj_share *share, const adj_share_rows *rows);

/* Checksums of a share. */
typedef struct adj_share_sums {
  uint64_t bytes[5];
  uint32_t crc[5];
  uint32_t reserved;
} adj_share_sums;

/* Waits until everything is on the disk, unless ADJ_NO_SYNC was given. */
ADJ_API adj_status adj_share_finish(adj_share *share, adj_share_sums *out);

/* The first process, when all have finished: sums has one for each share, in order. The file appears; with a second
 * one, both or none. adj_share_take_back: it disappears again, or what it replaced comes back, where the file system
 * can do that. */
ADJ_API adj_status adj_share_complete(adj_share *share, const adj_share_sums *sums);
ADJ_API void adj_share_take_back(adj_share *share);

#ifdef __cplusplus
}
#endif
#endif /* ADJOIN_SHARE_H */
