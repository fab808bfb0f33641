/* SPDX-License-Identifier: MIT
 *
 * kNN joins through the cells of a grid on a device: gpu/papers/knn_grid.h says how, knn_grid.cu puts it together.
 */
#ifndef ADJI_GPU_PAPERS_KNN_GRID_CUH
#define ADJI_GPU_PAPERS_KNN_GRID_CUH

#include "gpu/device/stopwatch.cuh"
#include "gpu/knn/knn_job.cuh"

extern "C" {
#include "gpu/papers/knn_grid.h"
#include "queue/join.h"
}

/* What such a join has besides its trees. Queries are positions of the left tree, in whose order they are searched. */
typedef struct adji_knn_grid {
  /* Of the join, which outlives it. */
  adji_gpu *gpu;
  const adji_join *join;
  const adji_measure *measure;
  const adji_gpu_tree *left, *right;
  adji_knn_grid_options options;
  bool ready;           /* there is an index; otherwise the tree searches for all */
  double first_epsilon; /* by whose parts it grows                                */
  double epsilon;
  double limit;           /* of sums, that epsilon is                               */
  bool whole;             /* nothing beyond limit belongs anyway: no query fails    */
  adji_knn_values sample; /* of the right points, in host memory */
  adji_gpu_grid cells;
  adji_gpu_index index;
  adji_block failed[2]; /* queries, of two batches in turns */
  /* With cores that have a part in the join: of each position of the left tree that in the cores' order. They search
   * for what fails, and a batch is searched once. */
  adji_block positions;
  bool handed; /* what failed of the last batch is in failed[0], for the cores */
  adji_stopwatch choosing, indexing;
  adji_knn_grid_stats work;
} adji_knn_grid;

/* Chooses epsilon and builds the index, where the options ask for it; the members of the join but the trees are set
 * before. watch: of kernels, runs while points are indexed. */
adj_status adji_knn_grid_open(adji_knn_grid *g, const adji_gpu_tree *left, const adji_gpu_tree *right,
                              const adji_knn_grid_options *options, adji_stopwatch *watch);
void adji_knn_grid_close(adji_knn_grid *g);
adji_knn_grid_stats adji_knn_grid_stats_of(adji_knn_grid *g);

/* Finds what it can and leaves the other queries in the job, for the tree. */
adj_status adji_knn_grid_search(adji_knn_grid *g, adji_knn_job *job);
void adji_knn_grid_free_lists(adji_knn_grid *g); /* after a search */

/* From now on cores search for the queries that fail; their i-th query is at position order[i] of the left tree. A
 * search leaves nothing in the job, and g->handed says whether some of it may have failed. */
adj_status adji_knn_grid_hand_back(adji_knn_grid *g, const uint32_t *order);
/* The queries that failed, to a block with room for all of the search's: as many as ADJI_ANSWER_HEAD says. */
adj_status adji_knn_grid_tell(adji_knn_grid *g, uint64_t queries, const adji_block *to);
/* How many of a list failed; indexed: how often points had been indexed again when it was searched. Epsilon grows where
 * too many fail, and where that does not help the tree searches from then on. A list that was searched before epsilon
 * grew says nothing of the present one. */
adj_status adji_knn_grid_listed(adji_knn_grid *g, uint64_t queries, uint64_t failed, uint64_t indexed);
void adji_knn_grid_keep(adji_knn_grid *g); /* what fails is for the tree again */

/* ---- Launches ------------------------------------------------------------------------------------------ */

/* A launch for the queries of a job: those that find fewer than `enough` within the limit go to failed, the others have
 * their rows. */
typedef struct adji_knn_grid_job {
  const adji_knn_job *common; /* its limit is not used */
  const adji_gpu_grid *cells; /* host                  */
  const adji_gpu_index *index;
  double limit;
  uint32_t enough;
  adji_knn_grid_shape shape;
  uint32_t *failed;
  unsigned long long *failed_count; /* added to */
} adji_knn_grid_job;

adj_status adji_knn_grid_run(adji_gpu *gpu, cudaStream_t stream, const adji_knn_grid_job *job);

/* The mean distance between so many points of each side, which are spread over the orders of the trees. The query
 * itself is left out. */
adj_status adji_knn_grid_mean(adji_gpu *gpu, const adji_knn_job *job, uint64_t left_sample, uint64_t right_sample,
                              double *mean);

/* Counts the distances of `sample` left points to all right points in bins from 0 to end: to bins, in host memory. */
adj_status adji_knn_grid_bin(adji_gpu *gpu, const adji_knn_job *job, uint64_t sample, double end, uint64_t bin_count,
                             uint64_t *bins);

/* The most queries that can be binned at once. */
uint64_t adji_knn_grid_most_sample(const adji_gpu *gpu, uint64_t right);

#endif
