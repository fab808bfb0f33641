/* SPDX-License-Identifier: MIT
 *
 * kNN joins through the cells of a grid, after HybridKNN-Join (Gowanlock): the options, and the decisions made on the
 * host.
 *
 * 1. Choose a distance epsilon at which queries have k neighbours on average (section 4.4 there). Cells are that wide,
 *    so the neighbours of a query within epsilon are in the cells around its own.
 * 2. Search. A query that finds fewer than k neighbours fails.
 * 3. If many fail, epsilon grows by a fraction of its first value, the points are indexed again, and the failed queries
 *    are searched again (4.5, Table 3).
 * 4. If few remain, or a wider epsilon hardly helps, the tree searches for the failed queries. The paper's GPU-only
 *    mode has a long tail there (5.4.12), which no_tail brings back.
 */
#ifndef ADJI_GPU_PAPERS_KNN_GRID_H
#define ADJI_GPU_PAPERS_KNN_GRID_H

#include "index/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The options. 0 stands for the default, which each comment names last. */
typedef struct adji_knn_grid_options {
  bool use;         /* if not set, none of the others is used */
  uint32_t threads; /* per query: a power of two up to 32; 8 */
  uint64_t sample;  /* queries whose distances to all points are binned; 500 */
  uint64_t bins;    /* 10,000 */
  double mean_part; /* fraction of the points whose mean distance is where the bins end; 0.001 */
  double epsilon;   /* factor on the chosen epsilon; 1 */
  double widen;     /* fraction of the first epsilon by which it grows; 0.5 */
  double failures;  /* fraction of a batch: if more fail, epsilon grows; 0.25 */
  double tail;      /* fraction of all queries: fewer are left to the tree; 0.01 */
  double stall;     /* fraction of a batch: if more fail after epsilon grew, they go to the tree; 0.9 */
  bool no_tail;     /* as published: the tree gets no queries while epsilon can grow */
} adji_knn_grid_options;

/* The options with defaults filled in. */
adji_knn_grid_options adji_knn_grid_defaults(const adji_knn_grid_options *asked);

/* How many of `count` points the mean distance is taken from. */
uint64_t adji_knn_grid_mean_sample(const adji_knn_grid_options *options, uint64_t count);

/* Epsilon from a histogram of distances with bins of `width`: the middle of the first bin up to which at least `wanted`
 * pairs were counted. *bin: the number of that bin. Negative: all bins together have fewer pairs. */
double adji_knn_grid_epsilon(const uint64_t *bins, uint64_t count, double width, double wanted, uint64_t *bin);

/* Counts the distances of a sample in bins from 0 to end. */
typedef struct adji_knn_binning {
  adj_status (*count)(void *user, double end, uint64_t *bins);
  void *user;
  uint64_t *bins; /* room for options->bins of them */
  double wanted;  /* pairs up to epsilon */
} adji_knn_binning;

/* Finds epsilon by bins that reach to `end` at first. If that is not far enough, they reach twice as far, and so on. If
 * epsilon is in one of the first bins, these are divided again. *epsilon is negative if there is none. */
adj_status adji_knn_grid_find_epsilon(const adji_knn_grid_options *options, const adji_knn_binning *binning, double end,
                                      double *epsilon);

/* The next step after `failed` of `attempted` queries failed; this pass has `all` queries. widened: how often epsilon
 * has grown. */
typedef enum adji_knn_grid_step {
  ADJI_GRID_DONE,
  ADJI_GRID_WIDEN, /* grow epsilon, index again, and search for the failed queries */
  ADJI_GRID_AGAIN, /* the failed queries are the next batch, with the same epsilon; all of them will fail (5.3) */
  ADJI_GRID_TAIL   /* the tree searches for the failed queries */
} adji_knn_grid_step;
adji_knn_grid_step adji_knn_grid_next(const adji_knn_grid_options *options, uint64_t attempted, uint64_t failed,
                                      uint64_t all, uint32_t widened);

/* The limit of sums for a distance, exact in the type. */
double adji_knn_grid_limit(adji_step step, adj_type type, double epsilon);

/* Threads per query and per block, and bytes of shared memory for a block's lists of k entries. threads is 0 if they
 * do not fit. */
enum { ADJI_MOST_GRID = 1024, ADJI_GRID_BLOCK = 256 };
typedef struct adji_knn_grid_shape {
  uint32_t threads, block;
  uint64_t bytes;
} adji_knn_grid_shape;
adji_knn_grid_shape adji_knn_grid_shape_of(uint32_t k, uint64_t entry_bytes, uint32_t threads);

/* Entries between the lists of two queries: odd, so that neighbouring lists are in different banks of shared memory. */
#define ADJI_GRID_STRIDE(k) ((k) | 1u)

/* Coordinates of a sample of points: `count` of each dimension, ascending, one dimension after the other. */
typedef struct adji_knn_values {
  double *values;
  uint64_t count;
} adji_knn_values;

/* Makes cells in which neighbours within the limit are at most one slab apart on each axis. The sample of right points
 * is for axes that cannot have slabs of equal width. */
adj_status adji_knn_grid_cells(adj_ctx *ctx, const adj_dataset *right, const adji_measure *measure, double limit,
                               const adji_knn_values *sample, adji_grid *out);

/* Whether to use the grid. Without an axis every query is compared with all points, which is acceptable for few
 * points. */
bool adji_knn_grid_is_worth(const adji_knn_grid_options *options, const adji_grid *grid, uint64_t right);

#ifdef __cplusplus
}
#endif
#endif
