/* SPDX-License-Identifier: MIT
 *
 * kNN joins through the cells of a grid on a device. knn_grid.h describes the method, knn_grid.cu drives it.
 */
#ifndef ADJI_GPU_PAPERS_KNN_GRID_CUH
#define ADJI_GPU_PAPERS_KNN_GRID_CUH

#include "gpu/device/stopwatch.cuh"
#include "gpu/knn/knn_job.cuh"

extern "C" {
#include "gpu/papers/knn_grid.h"
#include "queue/join.h"
#include "queue/stats.h"
}

/* The state of such a join besides its trees. Queries are positions in the left tree and are searched in its order. */
typedef struct adji_knn_grid {
  /* These belong to the join, which outlives the grid. */
  adji_gpu *gpu;
  const adji_join *join;
  const adji_measure *measure;
  const adji_gpu_tree *left, *right;
  adji_knn_grid_options options;
  bool ready;           /* there is an index; otherwise the tree searches for all queries */
  double first_epsilon; /* epsilon grows by a fraction of this */
  double epsilon;
  double limit;           /* the limit of sums for epsilon */
  bool whole;             /* nothing beyond limit belongs to the join, so no query fails */
  adji_knn_values sample; /* of the right points, in host memory */
  adji_gpu_grid cells;
  adji_gpu_index index;
  adji_block failed[2]; /* failed queries of two alternating batches */
  /* In a join shared with cores: for each position in the left tree the position in the cores' order. Cores search for
   * the failed queries, and a batch is searched only once. */
  adji_block positions;
  bool returned; /* failed queries of the last batch are in failed[0], for the cores */
  adji_stopwatch choosing, indexing;
  adji_knn_grid_stats work;
} adji_knn_grid;

/* Chooses epsilon and builds the index, if the options ask for a grid. gpu, join and measure must be set. watch
 * measures the kernels: it runs while points are indexed. */
adj_status adji_knn_grid_open(adji_knn_grid *g, const adji_gpu_tree *left, const adji_gpu_tree *right,
                              const adji_knn_grid_options *options, adji_stopwatch *watch);
void adji_knn_grid_close(adji_knn_grid *g);
adji_knn_grid_stats adji_knn_grid_stats_of(adji_knn_grid *g);

/* Finds the rows of as many queries as it can, and leaves the other queries in the job, for the tree. */
adj_status adji_knn_grid_search(adji_knn_grid *g, adji_knn_job *job);
void adji_knn_grid_free_lists(adji_knn_grid *g); /* after a search */

/* From now on failed queries are returned to the cores, whose i-th query is at position order[i] of the left tree. A
 * search then leaves no query in the job, and g->returned says whether some queries may have failed. */
adj_status adji_knn_grid_return_failed(adji_knn_grid *g, const uint32_t *order);
/* Writes the failed queries to a block with room for them all, and their number to ADJI_ANSWER_HEAD. */
adj_status adji_knn_grid_report_failed(adji_knn_grid *g, uint64_t queries, const adji_block *to);
/* After a batch of the queue: epsilon grows if too many queries failed. If that does not help, the tree takes over. */
adj_status adji_knn_grid_judge(adji_knn_grid *g, uint64_t queries, uint64_t failed, bool *grew);
void adji_knn_grid_keep_failed(adji_knn_grid *g); /* the tree searches for failed queries again */

/* ---- Launches -------------------------------------------------------------------------------- */

/* A launch for the queries of a job. Queries with fewer than `enough` neighbours within the limit go to failed; the
 * others get their rows. */
typedef struct adji_knn_grid_job {
  const adji_knn_job *common; /* its limit is not used */
  const adji_gpu_grid *cells; /* host */
  const adji_gpu_index *index;
  double limit;
  uint32_t enough;
  adji_knn_grid_shape shape;
  uint32_t *failed;
  unsigned long long *failed_count; /* in, out: the number of failed queries is added */
} adji_knn_grid_job;

adj_status adji_knn_grid_run(adji_gpu *gpu, cudaStream_t stream, const adji_knn_grid_job *job);

/* The mean distance between samples of both sets, spread over the orders of the trees. Pairs of a point with itself are
 * left out. */
adj_status adji_knn_grid_mean(adji_gpu *gpu, const adji_knn_job *job, uint64_t left_sample, uint64_t right_sample,
                              double *mean);

/* Counts the distances of `sample` left points to all right points in bins from 0 to end. bins is in host memory. */
adj_status adji_knn_grid_bin(adji_gpu *gpu, const adji_knn_job *job, uint64_t sample, double end, uint64_t bin_count,
                             uint64_t *bins);

/* The largest sample that can be binned at once. */
uint64_t adji_knn_grid_most_sample(const adji_gpu *gpu, uint64_t right);

#endif
