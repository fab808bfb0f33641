/* SPDX-License-Identifier: MIT
 *
 * kNN joins through the cells of a grid, after HybridKNN-Join (Gowanlock): what is asked for, and what is decided on
 * the host.
 *
 * A distance epsilon is chosen at which queries have k neighbours on the average (section 4.4 there). Cells are as
 * wide, so a query's neighbours within epsilon are in the cells around its own. One that finds fewer than k fails.
 * Where many fail, epsilon grows by a part of what it was at first, the points are indexed again, and those that failed
 * are searched again (4.5, Table 3). Where few are left, or a wider epsilon hardly helps, the tree searches for them:
 * the paper's GPU-only mode has a long tail there (5.4.12).
 */
#ifndef ADJI_GPU_PAPERS_KNN_GRID_H
#define ADJI_GPU_PAPERS_KNN_GRID_H

#include "index/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is asked for; 0: the default. */
typedef struct adji_knn_grid_options {
  bool use;         /* none of the others matters where this is not set                             */
  uint32_t threads; /* that share a query: a power of two up to 32; 8                               */
  uint64_t sample;  /* queries whose distances to all points are binned; 500                        */
  uint64_t bins;    /* 10,000                                                                       */
  double mean_part; /* of the points, whose mean distance is where bins end; 0.001                  */
  double epsilon;   /* so many times what is chosen; 1                                              */
  double widen;     /* by so much of the first epsilon it grows; 0.5                                */
  double failures;  /* of a batch, from which on it does; 0.25                                      */
  double tail;      /* of all queries: fewer are left to the tree; 0.01                             */
  double stall;     /* of a batch: where more fail after epsilon grew, they are left to it too; 0.9 */
} adji_knn_grid_options;

/* The same with defaults in their places. */
adji_knn_grid_options adji_knn_grid_defaults(const adji_knn_grid_options *asked);

/* Points of which the mean distance is taken, and those whose distances are binned, of `count`. */
uint64_t adji_knn_grid_mean_sample(const adji_knn_grid_options *options, uint64_t count);

/* Epsilon from bins of distances, each `width` wide, in which pairs were counted: the middle of the bin that ends with
 * `wanted` pairs, or more, in it and in those before it. *bin: which one. Negative: all together have fewer. */
double adji_knn_grid_epsilon(const uint64_t *bins, uint64_t count, double width, double wanted, uint64_t *bin);

/* Epsilon in one of the first bins is hardly told: then these are divided again. */
bool adji_knn_grid_is_coarse(uint64_t bin);

/* What comes next, when so many of `attempted` queries failed, of `all` in this pass; widened: how often epsilon grew
 * before. */
typedef enum adji_knn_grid_step {
  ADJI_GRID_DONE,
  ADJI_GRID_WIDEN, /* epsilon, index again, and search for those that failed */
  ADJI_GRID_TAIL   /* the tree searches for them                             */
} adji_knn_grid_step;
adji_knn_grid_step adji_knn_grid_next(const adji_knn_grid_options *options, uint64_t attempted, uint64_t failed,
                                      uint64_t all, uint32_t widened);

/* The limit of sums that a distance is, exact in the type. */
double adji_knn_grid_limit(adji_step step, adj_type type, double epsilon);

/* Threads a query and a block, and bytes of shared memory that a block's lists of k entries take. threads is 0 where
 * they do not fit. */
enum { ADJI_MOST_GRID = 1024, ADJI_GRID_BLOCK = 256 };
typedef struct adji_knn_grid_shape {
  uint32_t threads, block;
  uint64_t bytes;
} adji_knn_grid_shape;
adji_knn_grid_shape adji_knn_grid_shape_of(uint32_t k, uint64_t entry_bytes, uint32_t threads);

/* Where the list of a query ends: entries, so that those of neighbouring lists are in other banks of the memory. */
#define ADJI_GRID_STRIDE(k) ((k) | 1u)

/* Coordinates of a sample of points: `count` of each dimension, ascending, one dimension after the other. */
typedef struct adji_knn_values {
  double *values;
  uint64_t count;
} adji_knn_values;

/* Cells for points that belong under limit. The sample, of the right points, is for axes that cannot have slabs of
 * equal width. */
adj_status adji_knn_grid_cells(adj_ctx *ctx, const adj_dataset *right, const adji_measure *measure, double limit,
                               const adji_knn_values *sample, adji_grid *out);

/* Without an axis a query is compared with all points: whether that is too much. */
bool adji_knn_grid_is_worth(const adji_grid *grid, uint64_t right);

#ifdef __cplusplus
}
#endif
#endif
