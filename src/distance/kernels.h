/* SPDX-License-Identifier: MIT
 *
 * The canonical distance, in kernels that compare queries with many candidates. This is the one place that decides
 * whether a pair belongs (docs/exactness.md):
 *
 *   t = a[j] - b[j];  L2: s = fma(t, t, s);  L1: s = s + |t|;  Linf: s = max(s, |t|);  Lp: s = s + |t|^p
 *   in a periodic box of length L, with min(|t|, L - |t|) in place of |t|
 *   inner product: s = fma(a[j], b[j], s), and 0 - s in the end
 *
 * in the type of the data, over the dimensions in input order. A pair belongs iff s <= limit. steps.h lists all steps.
 *
 * SIMD lanes run over candidates or, to count in few dimensions, over queries. Each lane sums its own dimensions in
 * order, so every instruction set gives the same bits. Each instruction set fills one table from the same body
 * (kernels_body.h).
 */
#ifndef ADJI_KERNELS_H
#define ADJI_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "distance/knn.h"

/* Points in index order, one array per dimension: coordinate j of position i is ((T *)coords)[j * stride + i]. Every
 * array can be read ADJI_PAD entries past count. */
typedef struct adji_view {
  const void *coords;
  uint64_t stride;
  const uint32_t *ids; /* position -> row number; also readable ADJI_PAD entries past count */
  uint32_t dim, count;
} adji_view;

typedef struct adji_range {
  uint32_t begin, end; /* positions */
} adji_range;

enum {
  ADJI_PAD = 64,     /* slack entries after every array a kernel reads or writes */
  ADJI_LIST_MAX = 4, /* queries per call of list */
  ADJI_FEW_DIMS = 6  /* the most dimensions in which a query stays in registers */
};

typedef struct adji_task {
  const adji_view *left, *right;
  const uint32_t *queries;  /* positions in left, ascending */
  const adji_range *ranges; /* ranges of positions in right, disjoint */
  uint32_t query_count, range_count;
  double limit; /* exact in the type of the data */
  bool forward; /* left is right: only candidates at positions after the query's */
  const adji_measure *measure;
  /* To count for both points of a pair, with `forward` and at most 255 queries: one entry for each candidate, range
   * after range. The number of queries that the candidate belongs to is added to it. NULL: counts queries only. */
  uint8_t *mirrored;
} adji_task;

/* Adds the number of candidates that belong to query k to counts[k]. */
typedef void (*adji_count_fn)(const adji_task *task, uint32_t *counts);

/* For each of at most ADJI_LIST_MAX queries: appends the ids of the candidates that belong to ids[k], from entry
 * found[k] on, and their s to sums[k] unless sums is NULL. Advances found[k]. May overwrite up to ADJI_PAD entries
 * past the last. */
typedef void (*adji_list_fn)(const adji_task *task, uint32_t *const *ids, void *const *sums, uint32_t *found);

/* The sums (L2) of one query with listed points stored row by row. Prefilters produce such lists: short and
 * scattered. */
typedef struct adji_rows_task {
  const void *query; /* dim coordinates, packed */
  const void *rows;  /* row i begins at entry i * stride */
  uint64_t stride;
  uint32_t dim;
  uint32_t count;
  const uint32_t *list; /* row numbers */
  double limit;         /* exact in the type of the data */
} adji_rows_task;

/* The kernels of one instruction set and type, by step. */
typedef struct adji_typed_kernels {
  const adji_count_fn *count;
  const adji_list_fn *list;
  adji_tree_kernels tree[ADJI_STEPS]; /* none for inner products */
  /* sums[i] receives the sum of row list[i]. A sum may be abandoned early, but only once it is above the limit. */
  void (*rows)(const adji_rows_task *task, void *sums);
  /* Appends the leaves in `mask` of a chunk of the tree. There must be room for ADJI_BOX_LANES. boxes, least_ids: those
   * of the chunk, whose first leaf is number `first`. */
  void (*add_leaves)(adji_leaves *leaves, uint32_t dim, uint32_t mask, uint32_t first, const void *boxes,
                     const uint32_t *least_ids);
  adji_knn_tree_fn knn_tree;
  adji_knn_near_fn knn_near;
  adji_knn_select_fn knn_select;
  adji_locate_fn locate;
} adji_typed_kernels;

typedef struct adji_kernels {
  const char *isa;
  const adji_typed_kernels *typed[2];              /* [0]: f32, [1]: f64 */
  void (*sort_ids)(uint32_t *ids, uint32_t count); /* ascending; may write ADJI_PAD entries past count */
  bool sorts_in_registers;                         /* sort_ids is fast for rows of up to a few hundred ids */
  /* Finishes a row: copies the ids except `drop` to `to`, sorted if requested. `drop` is among the ids, or ADJ_NO_ID.
   * Returns the number of ids copied, and writes no entry of `to` beyond them. May overwrite ids. */
  uint32_t (*place_ids)(uint32_t *ids, uint32_t count, uint32_t drop, bool sort, uint32_t *to);
  /* Copies a row to memory that is not read soon. Both addresses and bytes are multiples of 4. The stores may bypass
   * the caches: the caller must issue a store fence before it publishes the row to other threads. */
  void (*stream_row)(void *row, const void *from, uint64_t bytes);
} adji_kernels;

/* The table for an instruction set of adj_isa_name(). */
const adji_kernels *adji_kernels_for(const char *isa);

extern const adji_kernels adji_kernels_scalar;
#if defined(__x86_64__)
extern const adji_kernels adji_kernels_avx2;
extern const adji_kernels adji_kernels_avx512;
void adji_sort_ids_avx2(uint32_t *ids, uint32_t count);
uint32_t adji_place_ids_avx2(uint32_t *ids, uint32_t count, uint32_t drop, bool sort, uint32_t *to);
/* In files of their own, since they take long to compile. */
extern const adji_typed_kernels adji_kernels_f64_avx2, adji_kernels_f64_avx512;
/* The kernels for range joins, in files of their own for the same reason. */
extern const adji_count_fn adji_counts_f32_avx2[ADJI_STEPS], adji_counts_f64_avx2[ADJI_STEPS],
    adji_counts_f32_avx512[ADJI_STEPS], adji_counts_f64_avx512[ADJI_STEPS];
extern const adji_list_fn adji_lists_f32_avx2[ADJI_STEPS], adji_lists_f64_avx2[ADJI_STEPS],
    adji_lists_f32_avx512[ADJI_STEPS], adji_lists_f64_avx512[ADJI_STEPS];
#elif defined(__aarch64__)
extern const adji_kernels adji_kernels_neon;
#endif

/* For tables without better ones. Short rows are sorted by insertion, long ones by their leading bits, in place
 * (American flag sort), so that no row needs memory that was not accounted for. Rows are streamed 16 bytes at a time,
 * or copied if the CPU has no such stores. */
void adji_sort_ids_portable(uint32_t *ids, uint32_t count);
uint32_t adji_place_ids_portable(uint32_t *ids, uint32_t count, uint32_t drop, bool sort, uint32_t *to);
void adji_stream_row_portable(void *row, const void *from, uint64_t bytes);

/* The sum s of one pair, given by pointers and strides in entries: for uses where vectors do not pay. */
float adji_sum_f32(const adji_measure *measure, const float *a, uint64_t a_stride, const float *b, uint64_t b_stride,
                   uint32_t dim);
double adji_sum_f64(const adji_measure *measure, const double *a, uint64_t a_stride, const double *b, uint64_t b_stride,
                    uint32_t dim);

#endif
