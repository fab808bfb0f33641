/* SPDX-License-Identifier: MIT
 *
 * Shared by the tables of bench/gpu: gpu.c, gpu_auto.c, gpu_brute.c, gpu_dims.c, gpu_hybrid.c,
 * gpu_index.c, gpu_knn.c, gpu_select.c, gpu_skip.c, gpu_spread.c, gpu_sweep.c.
 */
#ifndef ADJOIN_BENCH_GPU_H
#define ADJOIN_BENCH_GPU_H

#include <adjoin.h>
#include <adjoin_cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "lanes.h"

typedef struct options {
  const char *name, *tuning, *backend;
  double mean;
  int repeats;
  uint64_t points, plain;
  double radius;
  bool check, quick;
  uint32_t neighbours, threads, seed;
  double seconds; /* 0: no limit */
  bool dims, nearest, brute, hybrid, hybrid_range, select, automatic, auto_sets, auto_cold, spread, index, skip;
} options;

typedef struct bench {
  adj_ctx *ctx;
  options options;
  const char *name;
  const char *tuning; /* for all joins, or NULL */
  adj_dataset *set;
  void *host, *device; /* the points */
  uint64_t count;
  uint32_t dim;
  double radius, pinned_gbs;
  int faults;
} bench;

/* End the program with the message of a call that has failed. */
void stop_on(adj_status status);
void stop_on_cuda(cudaError_t error);

/* Make the points of b->name: generate_points as a set, open_points also on the host and on the device. */
void generate_points(bench *b);
void open_points(bench *b);
void close_points(bench *b);

/* The points on the device, and the spec of a range join of them. */
adj_cuda_points on_device(const bench *b);
adj_join_spec spec_of(const bench *b, adj_order order);
adj_join_spec spec_of_any(const bench *b, uint32_t k); /* the k nearest, with distances; k 0: within b->radius, by id */

/* Figures of a join from host memory to host memory. */
typedef struct timed {
  double plan_s, join_s; /* of the plan, and of the join that follows   */
  double device_share;   /* share of queries done by devices, 0 .. 1    */
  adj_stats stats;
} timed;
adj_result *collect_timed(const bench *b, const adj_join_spec *spec, timed *out);

bool same_result(const bench *b, const adj_result *x, const adj_result *y);

/* Sets b->radius so that points have `mean` neighbours. */
void find_radius(bench *b, double mean);

/* Seconds from points to CSR on the device, smallest of the repeats. split: the times of that repeat. */
double time_device(bench *b, adj_order order, adj_cuda_times *split, uint64_t *pairs);

/* Many dimensions, compared with an exhaustive count. */
void run_dims(bench *b);

/* kNN joins in few dimensions. */
void run_nearest(bench *b);

/* Outliers, sentinels, clusters of many scales. */
void run_spread(bench *b);

/* Questions to a kept index. */
void run_index(bench *b);

/* kNN by brute force, in any number of dimensions. */
void run_brute(bench *b);

/* kNN in 7 to 32 dimensions with points in tree order, compared with brute force. */
void run_skip(bench *b);

/* kNN joins in few dimensions, and range joins, shared by cores and a GPU. */
void run_hybrid(bench *b);
void run_hybrid_range(bench *b);

/* How far auto is from the best way, over joins of all kinds. */
void run_sweep(bench *b);

/* How well auto chooses: with the device open; with each join in a process of its own; and one such join. */
void run_auto_sets(bench *b);
void run_auto_cold(bench *b);
int run_auto_once(bench *b);

/* The k smallest of the rows of matrices. */
void run_select(bench *b);

#endif
