/* SPDX-License-Identifier: MIT
 *
 * The input of a launch of the kNN kernels (knn_pool.cuh, knn_dense.cu, knn_per_query.cu). All pointers are device
 * memory, except where noted.
 */
#ifndef ADJI_GPU_KNN_KNN_JOB_CUH
#define ADJI_GPU_KNN_KNN_JOB_CUH

#include "gpu/index/tree.cuh"

/* The part of the job that kernels read in this form. */
typedef struct adji_gpu_knn_task {
  /* The queries: positions in left; NULL: all. */
  const uint32_t *queries;
  uint64_t query_count;
  const unsigned long long *counted_queries; /* if not NULL: the number of queries, as written by an earlier launch */
  bool drop_self;
  bool root; /* report distances, not squared ones */
  uint32_t dim;
  /* The k nearest after the first `place` neighbours, which are already in the row. Rows have row_length entries and
   * start with row first_row. If places is not NULL, the row of query i is places[i]. ADJ_NO_ID follows the last
   * neighbour. */
  uint32_t k, row_length, place;
  uint64_t first_row;
  const uint32_t *places;
  uint32_t *ids;
  /* A warp that has searched more leaves than this gives up. Its queries go to hard, and their number is added to
   * hard_count. */
  uint32_t budget;
  uint32_t *hard;
  unsigned long long *hard_count;
  unsigned long long *candidates; /* candidates compared are added here, spread over ADJI_SPREAD counters */
} adji_gpu_knn_task;

typedef struct adji_knn_job : adji_gpu_knn_task {
  adj_type type;
  const adji_measure *measure;       /* host */
  const adji_gpu_tree *left, *right; /* if equal, a query is at its own position in the right tree */
  double limit;                      /* of sums; may be infinite */
  void *sums;                        /* same layout as ids */
  const void *bounds;                /* bounds of sums, by row, at most the limit; NULL: all rows have the limit */
  uint32_t most_blocks;              /* blocks that run at a time; 0: as many as fit */
} adji_knn_job;

/* The most neighbours that the kernels find: DENSE in the registers of a lane, PER_QUERY in those of a warp, SHORT and
 * POOLED by the pooled kernels. */
enum { ADJI_MOST_DENSE = 32, ADJI_MOST_SHORT = 14, ADJI_MOST_POOLED = 504, ADJI_MOST_PER_QUERY = 1024 };

#endif
