/* SPDX-License-Identifier: MIT
 *
 * Times points of different spread on a GPU: what a few points far from all others cost, and other spreads that boxes
 * do not fit.
 *
 *   bench/gpu --spread [--case NAME] [--repeats N] [--points N] [--quick] [--check]
 *
 * For each set, milliseconds from points to the result on the device, index construction included:
 *
 *   plain    as generated
 *   1e6      one point at 10^6 in all dimensions; and this time over that of plain
 *   1e30     the same at 10^30
 *   -9999    one row in 1,000 has -9999 as its first coordinate
 *   long     the first axis is a million times longer: kNN only
 *   line     all coordinates of a point are equal: kNN only
 *
 * The joins: k = 8 with distances; and the number of neighbours, and all pairs in any order, with the radius at which
 * plain has a mean of 10. Then eight clusters of side 1 to 10^-7 and a point at 10^6 (`generate scales`), k = 8, in f32
 * and f64: on the device, from host to host, and on the cores. --check compares every result with that of the cores.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

typedef enum spread { PLAIN, AT_1E6, AT_1E30, SENTINELS, LONG_AXIS, LINE, SPREADS } spread;

/* Writes the points of a spread to the device. They are made in `changed`; b->host keeps those as generated. */
static void put_spread(bench *b, spread s, float *changed) {
  size_t bytes = b->count * b->dim * sizeof(float);
  memcpy(changed, b->host, bytes);
  for (uint32_t j = 0; j < b->dim && (s == AT_1E6 || s == AT_1E30); j++)
    changed[b->count / 3 * b->dim + j] = s == AT_1E6 ? 1e6f : 1e30f;
  for (uint64_t i = 0; i < b->count && s >= SENTINELS; i++) {
    float *row = changed + i * b->dim;
    if (s == SENTINELS && i % 1000 == 500) row[0] = -9999;
    if (s == LONG_AXIS) row[0] *= 1e6f;
    for (uint32_t j = 1; j < b->dim && s == LINE; j++)
      row[j] = row[0];
  }
  stop_on_cuda(cudaMemcpy(b->device, changed, bytes, cudaMemcpyHostToDevice));
}

typedef enum question { NEAREST, COUNT, PAIRS } question;

static adj_join_spec question_spec(const bench *b, question q) {
  adj_join_spec spec = spec_of_any(b, q == NEAREST ? 8 : 0);
  if (q != NEAREST) spec.order = ADJ_ORDER_ANY;
  return spec;
}

/* Milliseconds, smallest of the repeats. */
static double time_question(const bench *b, question q, const adj_cuda_points *points) {
  adj_join_spec spec = question_spec(b, q);
  double best = INFINITY;
  for (int i = 0; i <= b->options.repeats; i++) { /* the first run warms up */
    adj_cuda_result *result = NULL;
    uint64_t pairs;
    stop_on_cuda(cudaDeviceSynchronize());
    double begin = now();
    if (q == NEAREST) stop_on(adj_cuda_knn_join(b->ctx, &spec, points, NULL, NULL, &result));
    if (q == PAIRS) stop_on(adj_cuda_range_join(b->ctx, &spec, points, NULL, NULL, &result));
    if (q == COUNT) stop_on(adj_cuda_range_count(b->ctx, &spec, points, NULL, NULL, NULL, &pairs));
    stop_on_cuda(cudaDeviceSynchronize());
    double took = (now() - begin) * 1e3;
    adj_cuda_result_destroy(result, NULL);
    if (i) best = fmin(best, took);
  }
  return best;
}

static adj_result *collect(const bench *b, question q, const adj_dataset *set, adj_backend backend, double *ms) {
  adj_join_spec spec = question_spec(b, q);
  spec.backend = backend;
  if (q != NEAREST) spec.order = ADJ_ORDER_ID;
  if (backend != ADJ_BACKEND_GPU) spec.tuning = NULL;
  adj_plan *plan;
  adj_result *result;
  double begin = now();
  stop_on(adj_plan_create(b->ctx, &spec, set, NULL, &plan));
  stop_on(adj_collect(plan, &result, NULL, NULL));
  *ms = (now() - begin) * 1e3;
  adj_plan_destroy(plan);
  return result;
}

static bool same(const adj_result *x, const adj_result *y, uint64_t rows, size_t size) {
  uint64_t entries = adj_result_offsets(x)[rows];
  return adj_result_pairs(x) == adj_result_pairs(y) && entries == adj_result_offsets(y)[rows] &&
         !memcmp(adj_result_offsets(x), adj_result_offsets(y), (rows + 1) * sizeof(uint64_t)) &&
         !memcmp(adj_result_ids(x), adj_result_ids(y), entries * sizeof(uint32_t)) &&
         (!adj_result_distances(x) || !memcmp(adj_result_distances(x), adj_result_distances(y), entries * size));
}

/* Compares the rows of the device with those of the cores. */
static void check_spread(bench *b, question q, const float *points) {
  adj_points mine;
  adj_points_init(&mine, sizeof mine);
  mine.dim = b->dim;
  mine.count = b->count;
  mine.data = points;
  mine.type = ADJ_F32;
  mine.ownership = ADJ_BORROW;
  adj_dataset *set;
  double ms;
  stop_on(adj_dataset_create(b->ctx, &mine, &set));
  adj_result *gpu = collect(b, q, set, ADJ_BACKEND_GPU, &ms), *cpu = collect(b, q, set, ADJ_BACKEND_CPU, &ms);
  bool right = same(gpu, cpu, b->count, sizeof(float));
  if (!right) printf(" DIFFERS");
  b->faults += !right;
  adj_result_destroy(gpu);
  adj_result_destroy(cpu);
  adj_dataset_destroy(set);
}

static void run_question(bench *b, question q, float *changed) {
  static const char *const names[] = {"k=8", "count", "pairs"};
  int most = q == NEAREST ? SPREADS : SENTINELS + 1;
  double plain = 0;
  printf("%-14s %-6s |", b->name, names[q]);
  for (int s = 0; s < (b->options.quick ? SENTINELS : most); s++) {
    put_spread(b, (spread)s, changed);
    adj_cuda_points points = on_device(b);
    double ms = time_question(b, q, &points);
    if (!s) plain = ms;
    printf(s ? " %8.3f %5.2f" : " %8.3f", ms, ms / plain);
    if (b->options.check) check_spread(b, q, changed);
    fflush(stdout);
  }
  printf("\n");
}

static void run_set(bench *b, const char *name, bool nearest) {
  if (b->options.name && strcmp(b->options.name, name)) return;
  b->name = name;
  open_points(b);
  float *changed = malloc(b->count * b->dim * sizeof *changed);
  if (!changed) exit(1);
  if (nearest) {
    run_question(b, NEAREST, changed);
  } else {
    find_radius(b, 10);
    run_question(b, COUNT, changed);
    run_question(b, PAIRS, changed);
  }
  free(changed);
  close_points(b);
}

/* ---- Scales ------------------------------------------------------------------------------------------ */

static void run_scales(bench *b, adj_type type, uint32_t dim) {
  adj_generate_options generate;
  adj_generate_options_init(&generate, sizeof generate);
  generate.name = "scales";
  generate.count = 400001;
  generate.dim = dim;
  generate.type = type;
  size_t size = type == ADJ_F64 ? 8 : 4;
  stop_on(adj_dataset_generate(b->ctx, &generate, &b->set));
  adj_cuda_points points;
  adj_cuda_points_init(&points, sizeof points);
  points.dim = dim;
  points.count = generate.count;
  points.type = type;
  stop_on_cuda(cudaMalloc(&b->device, generate.count * dim * size));
  points.data = b->device;
  char *host = malloc(generate.count * dim * size);
  if (!host) exit(1);
  for (uint64_t i = 0; i < generate.count; i++)
    stop_on(adj_dataset_row(b->set, i, host + i * dim * size));
  stop_on_cuda(cudaMemcpy(b->device, host, generate.count * dim * size, cudaMemcpyHostToDevice));
  free(host);
  double device = time_question(b, NEAREST, &points), cores = INFINITY, whole = INFINITY, ms;
  bool right = true;
  for (int i = 0; i <= b->options.repeats; i++) {
    adj_result *gpu = collect(b, NEAREST, b->set, ADJ_BACKEND_GPU, &ms);
    if (i) whole = fmin(whole, ms);
    adj_result *cpu = collect(b, NEAREST, b->set, ADJ_BACKEND_CPU, &ms);
    if (i) cores = fmin(cores, ms);
    right = right && same(gpu, cpu, generate.count, size);
    adj_result_destroy(gpu);
    adj_result_destroy(cpu);
  }
  printf("scales %u-D %s | %8.3f %8.3f %8.3f | %6.1f %s\n", dim, type == ADJ_F64 ? "f64" : "f32", device, whole, cores,
         cores / device, right ? "same" : "DIFFERS");
  fflush(stdout);
  b->faults += !right;
  cudaFree(b->device);
  adj_dataset_destroy(b->set);
}

void run_spread(bench *b) {
  static const char *const nearest[] = {"Unif2D10M",     "Expo2D10M", "Unif3D10M", "Expo3D10M",
                                        "Clusters3D10M", "Unif6D10M", "Expo6D10M"};
  static const char *const within[] = {"Unif2D2M",   "Expo2D2M", "Unif3D2M", "Expo3D2M",
                                       "Sphere3D2M", "Unif6D2M", "Expo6D2M"};
  printf("%-14s %-6s | %8s %14s %14s %14s %14s %14s\n", "points", "join", "plain", "1e6", "1e30", "-9999", "long",
         "line");
  for (size_t i = 0; i < sizeof nearest / sizeof *nearest; i++)
    run_set(b, nearest[i], true);
  for (size_t i = 0; i < sizeof within / sizeof *within; i++)
    run_set(b, within[i], false);
  if (b->options.name && strcmp(b->options.name, "scales")) return;
  printf("%-14s | %8s %8s %8s | %6s\n", "k=8", "device", "host", "cores", "times");
  for (uint32_t dim = 2; dim <= 6; dim += dim < 3 ? 1 : 3) {
    run_scales(b, ADJ_F32, dim);
    run_scales(b, ADJ_F64, dim);
  }
}
