/* SPDX-License-Identifier: MIT
 *
 * The state of a kNN join on a device, shared by knn.cu and knn_list.cu, and the launches of its kernels.
 */
#ifndef ADJI_GPU_KNN_KNN_PRIVATE_CUH
#define ADJI_GPU_KNN_KNN_PRIVATE_CUH

#include "gpu/brute/brute_join.cuh"
#include "gpu/device/stopwatch.cuh"
#include "gpu/index/right.cuh"
#include "gpu/knn/knn_job.cuh"
#include "gpu/papers/knn_grid.cuh"

extern "C" {
#include "gpu/device/staging.h"
#include "gpu/knn/knn.h"
}

/* The rows of a list of queries. */
typedef struct adji_knn_slot {
  adji_block ranges; /* ranges of the host's order, and where each begins in the list */
  adji_block rows, ids, sums;
  adji_block failed; /* queries, in the cores' order, for which the grid found no rows */
  bool returned;     /* failed queries are returned to the cores; there may be some */
  uint64_t count;
  uint64_t candidates; /* with brute force: of all lists since they were opened, up to this one */
  cudaEvent_t found;
} adji_knn_slot;

struct adji_gpu_knn {
  adji_gpu *gpu;
  adji_join join;
  adji_measure measure;
  adji_gpu_brute *brute; /* used instead of trees; NULL: trees are used */
  adji_gpu_right *right; /* lent, or own_right */
  adji_gpu_right *own_right;
  bool reports_right;      /* the work of making it counts for this join */
  adji_gpu_tree left_tree; /* up to ADJI_PACKED_QUERIES queries may be packed in it in their own order */
  const adji_gpu_tree *left;
  adji_block bounds, names; /* bounds: of left rows; names: of right points */
  const uint32_t *names_at; /* where names are, or those of picked points; NULL: none */
  const uint32_t *rows_at;  /* the rows of left points in the result; NULL: the same numbers */
  uint64_t row_count;       /* of the result */
  uint64_t rows_at_once;
  uint32_t budget, blocks;
  bool per_query, dense, cut, timed, grid_first;
  bool checks_left, cleared; /* cleared: all answers are 0 */
  adji_knn_grid grid;
  adji_block ids, sums; /* rows first_row .. end_row - 1 */
  uint64_t first_row, end_row;
  bool searching;                      /* rows are being found */
  adji_block queries, hard, temporary; /* during a search */
  /* Lists: the device's position of the host's i-th query, or empty; the place of a row in the current list; the
   * queries of a list, before and after they are sorted. */
  adji_block order, places, listed[2];
  adji_knn_slot slots[ADJI_LISTS];
  uint64_t list_first, list_end; /* the rows requested */
  uint64_t list_candidates;      /* with brute force, of the lists so far */
  adji_device_stats work;
  adji_stopwatch watch;
  adji_gpu_knn_effort effort;
};

/* The stopwatch costs a few microseconds, so it only runs if its result is read. */
static inline adj_status adji_knn_start_watch(adji_gpu_knn *n) {
  return n->timed ? adji_stopwatch_start(n->gpu, n->gpu->compute, &n->watch) : ADJ_OK;
}
static inline adj_status adji_knn_stop_watch(adji_gpu_knn *n) {
  return n->timed ? adji_stopwatch_stop(n->gpu, n->gpu->compute, &n->watch) : ADJ_OK;
}

/* Finds the rows of queries. The caller sets queries, query_count, first_row or places, ids and sums in the job.
 * n->hard has room for the queries. Adds the candidates to the device's counters. */
adj_status adji_knn_search(adji_gpu_knn *n, adji_knn_job *job);

/* The kernels: a warp for 32 queries that are near each other, with candidates in a pool or with lists in registers,
 * where there are such kernels; and a warp per query, which serves all joins through trees. */
bool adji_knn_has_pooled(adj_type type, int step, uint32_t dim, uint32_t k);
adj_status adji_knn_pooled(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job);
adj_status adji_knn_pooled_short(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job);
bool adji_knn_has_dense(adj_type type, int step, uint32_t dim, uint32_t k);
adj_status adji_knn_dense(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job);
adj_status adji_knn_per_query(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job);

#endif
