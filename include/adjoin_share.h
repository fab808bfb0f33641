/* SPDX-License-Identifier: MIT
 *
 * adjoin_share.h - one file for a result that is spread over several processes, such as the ranks of a cluster. They
 * write in parallel, and the file has the same bytes as if adj_write had written the whole result.
 *
 * Each process has a share: consecutive rows, which follow those of the shares before it. It may be empty. The library
 * moves nothing between processes: the caller adds up the sizes of the shares, for instance with MPI_Exscan.
 *
 *   every process       adj_share_create     what is written, where
 *   every process       adj_share_measure    only if adj_share_measures returns 1: all its rows, once
 *   ... the caller adds up rows, entries and bytes over the shares ...
 *   every process       adj_share_place      where its share begins
 *   the first process   adj_share_begin      makes a part file (adj_share_part returns its path)
 *   every other one     adj_share_join       opens that part file
 *   every process       adj_share_write      its rows, in ascending order, any number at a time
 *   every process       adj_share_finish     waits for the disk; returns the checksums of its share
 *   the first process   adj_share_complete   the file appears under its name
 *   every process       adj_share_destroy    without adj_share_complete, the first process removes the part file
 *
 * The file has to be in a folder that all processes reach by the same path. A single process with one share needs no
 * such folder: in this way each rank can write a file of its own.
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

/* Describes what is written. The same in every process. */
typedef struct adj_share_options {
  uint32_t struct_size;
  adj_join_kind kind; /* default ADJ_RANGE                                    */
  adj_type type;      /* of the distances; default ADJ_F32                    */
  uint32_t k;         /* ADJ_KNN: entries of every row                        */
  uint32_t flags;     /* ADJ_WITH_DISTANCE: rows have distances               */
  uint32_t reserved;
  uint64_t left_count, right_count;        /* points of the two whole sets, which ids refer to */
  adj_share_names left_names, right_names; /* names in text formats; the arrays must outlive the share */
} adj_share_options;

ADJ_API void adj_share_options_init(adj_share_options *options, size_t struct_size);

typedef struct adj_share adj_share;

/* path and write as in adj_write, but "-" is refused. Nothing is written yet. */
ADJ_API adj_status adj_share_create(adj_ctx *ctx, const char *path, const adj_write_options *write,
                                    const adj_share_options *options, adj_share **out);
ADJ_API void adj_share_destroy(adj_share *share);

/* Finished rows. If counts are written, only the number of neighbours of each row. */
typedef struct adj_share_rows {
  uint64_t first_row, row_count; /* among the rows of all shares                                        */
  const uint64_t *offsets;       /* row_count + 1 entries; row i: offsets[i] .. offsets[i + 1] - 1       */
  const int64_t *ids;            /* -1: padding of kNN                                                   */
  const void *distances;         /* NULL without ADJ_WITH_DISTANCE                                       */
  const uint64_t *counts;        /* adj_write_options.counts: one a row, instead of the three above      */
  const uint32_t *ids_32;        /* instead of ids; ADJ_NO_ID: padding of kNN                            */
} adj_share_rows;

/* The sizes of a share, or sums of them. */
typedef struct adj_share_size {
  uint64_t rows;
  uint64_t entries;  /* kNN: rows * k; "csr": without padding. With counts: 0 */
  uint64_t bytes[2]; /* of text, without the header; of the second file; else 0 */
} adj_share_size;

/* Whether the sizes depend on more than the numbers of rows and entries, as with text and "csr". Every process then
 * first passes its rows to adj_share_measure, which adds their sizes to *size. Time: that of formatting the rows. */
ADJ_API int adj_share_measures(const adj_share *share);
ADJ_API adj_status adj_share_measure(adj_share *share, const adj_share_rows *rows, adj_share_size *size);

/* number: the number of this share, from 0, among `shares`. before: the sum over the shares before this one; mine: this
 * share; all: the sum over all shares. */
ADJ_API adj_status adj_share_place(adj_share *share, uint32_t number, uint32_t shares, const adj_share_size *before,
                                   const adj_share_size *mine, const adj_share_size *all);

/* The first process creates the part files, and writes what precedes the rows. A result that cannot fit the disk is
 * ADJ_E_IO here. adj_share_part: the path of part file 0, or 1 (the distances), to pass to adj_share_join; NULL: there
 * is none. The string lives as long as the share. */
ADJ_API adj_status adj_share_begin(adj_share *share);
ADJ_API const char *adj_share_part(const adj_share *share, uint32_t file);
/* part, distances: the paths from adj_share_part in the first process; distances may be NULL. */
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

/* Called by the first process when all have finished. sums has one entry for each share, in order. The file appears; if
 * there are two, both appear or neither. adj_share_take_back removes the file again, or restores the file that it
 * replaced, where the file system can do that. */
ADJ_API adj_status adj_share_complete(adj_share *share, const adj_share_sums *sums);
ADJ_API void adj_share_take_back(adj_share *share);

#ifdef __cplusplus
}
#endif
#endif /* ADJOIN_SHARE_H */
