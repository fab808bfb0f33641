/* SPDX-License-Identifier: MIT
 *
 * What a launch of the kernels of kNN joins does.
 */
#ifndef ADJI_GPU_KNN_KNN_JOB_CUH
#define ADJI_GPU_KNN_KNN_JOB_CUH

#include "gpu/index/tree.cuh"

/* What a launch does. All memory is the device's. */
typedef struct adji_knn_job {
  adj_type type;
  const adji_measure *measure; /* host */
  uint32_t dim;
  const adji_gpu_tree *left, *right; /* the same: a query is where it is itself */
  /* The queries: positions in left; NULL: all. */
  const uint32_t *queries;
  uint64_t query_count;
  const unsigned long long *counted_queries; /* so many of them instead: a number that an earlier launch leaves */
  bool drop_self;
  bool root;    /* distances are wanted, not their squares */
  double limit; /* of sums */
  /* The k nearest behind the first `place`, which are there; in rows of row_length, from row first_row on; or, where
   * there are places, those of row i in row places[i]. */
  uint32_t k, place, row_length;
  uint64_t first_row;
  const uint32_t *places;
  uint32_t *ids;
  void *sums;
  /* A warp that has searched so many leaves gives up: its queries go to hard, and how many is added to hard_count. */
  uint32_t budget;
  uint32_t *hard;
  unsigned long long *hard_count;
  unsigned long long *candidates; /* that were compared: added to ADJI_SPREAD places */
  uint32_t most_blocks;           /* that run at a time; 0: as many as there is room for */
} adji_knn_job;

/* The most neighbours that a lane, or a warp, keeps in registers. */
enum { ADJI_MOST_DENSE = 32, ADJI_MOST_PER_QUERY = 1024 };

#endif
