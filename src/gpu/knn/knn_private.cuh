/* SPDX-License-Identifier: MIT
 *
 * A kNN join on a device: what knn.cu and knn_list.cu share.
 */
#ifndef ADJI_GPU_KNN_KNN_PRIVATE_CUH
#define ADJI_GPU_KNN_KNN_PRIVATE_CUH

#include "gpu/brute/brute_join.cuh"
#include "gpu/device/stopwatch.cuh"
#include "gpu/knn/knn_job.cuh"
#include "gpu/papers/knn_grid.cuh"

extern "C" {
#include "gpu/device/staging.h"
#include "gpu/knn/knn.h"
}

/* Rows of a list of queries. */
typedef struct adji_knn_slot {
  adji_block ranges; /* of the host's order, and where each begins in the list */
  adji_block rows, ids, sums;
  adji_block failed; /* queries of the cores' order, where they search for them */
  bool handed;       /* there may be some                                       */
  uint64_t indexed;  /* how often points had been indexed again by then         */
  uint64_t count;
  cudaEvent_t found;
} adji_knn_slot;

struct adji_gpu_knn {
  adji_gpu *gpu;
  adji_join join;
  adji_measure measure;
  adji_gpu_brute *brute; /* in the place of trees; NULL: there are trees */
  adji_gpu_tree right, left_tree;
  const adji_gpu_tree *left;
  uint64_t rows_at_once;
  uint32_t budget, blocks;
  bool alone, together, cut;
  adji_knn_grid grid;
  adji_block ids, sums; /* rows first_row .. end_row - 1 */
  uint64_t first_row, end_row;
  bool begun;                          /* and not ended: they are being found */
  adji_block queries, hard, temporary; /* while they are found */
  /* Lists: the device's position of the host's i-th query, or nothing; the place of a row in the list at work; the
   * queries of a list, before and after they are put in order. */
  adji_block order, places, listed[2];
  adji_knn_slot slots[ADJI_LISTS];
  uint64_t list_first, list_end; /* the rows that are wanted */
  adji_device_stats work;
  adji_stopwatch watch;
  adji_gpu_knn_effort effort;
};

/* What a search is for, and where it goes, as adji_knn_job has it. n->hard has room for the queries. */
typedef struct adji_knn_target {
  const uint32_t *queries;
  uint64_t query_count;
  uint64_t first_row;
  const uint32_t *places;
  uint32_t *ids;
  void *sums;
} adji_knn_target;

/* Adds the candidates to the answers. */
adj_status adji_knn_search(adji_gpu_knn *n, const adji_knn_target *target);

#endif
