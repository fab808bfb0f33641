/* SPDX-License-Identifier: MIT
 *
 * Times kNN by brute force on a GPU: one command, one table.
 *
 *   bench/gpu --brute [--case TEXT] [--neighbours K] [--repeats N] [--tuning TEXT] [--quick] [--check]
 *
 * The k nearest of q queries among n points, f32, uniform in the unit cube, with distances; points and result in device
 * memory (adj_cuda_knn_join), the smallest time of the repeats. Each way is asked for by name (prefilter=gemm: if
 * cuBLAS is found), or by --tuning:
 *
 *   ms       from the call to the result; also the survey of the points (whether all are finite) and the search in it
 *   G/s      pairs per second
 *   steps    of the canonical distance, one for each dimension of a pair, in 10^12 per second
 *   peer     the best exact search of other programs on an H200, in f32 (cuVS, cuBLAS and RAFT), if one is known
 *   mem      most device memory held at once, in MiB
 *
 * --case: only shapes whose names contain this text. --quick: only k = 32, and no shape that takes long. --check
 * compares 64 rows, every id and distance, with those that the CPU finds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "gpu_values.h"

enum { CHECKED = 64, MOST_KS = 3 };

typedef struct shape {
  const char *name;
  uint64_t q, n;
  uint32_t dim;
  uint32_t ks[MOST_KS]; /* 0: none */
  double peer_ms;       /* 0: not known */
  bool slow;
} shape;

static const shape SHAPES[] = {
    {"8192x1M, 8-D", 8192, 1000000, 8, {8, 32, 128}, 24, false},
    {"8192x1M, 32-D", 8192, 1000000, 32, {8, 32, 128}, 37, false},
    {"8192x1M, 128-D", 8192, 1000000, 128, {8, 32, 128}, 66, false},
    {"8192x1M, 768-D", 8192, 1000000, 768, {8, 32, 128}, 257, true},
    {"8192x128k, 16-D", 8192, 131072, 16, {32, 0, 0}, 3.7, false},
    {"1x16M, 32-D", 1, 16000000, 32, {32, 0, 0}, 0, false},
    {"16x16M, 32-D", 16, 16000000, 32, {32, 0, 0}, 0, false},
};
static const char *const WAYS[] = {"prefilter=tensor", "prefilter=gemm", "prefilter=off"};

/* The current shape: n points, followed by q queries. */
typedef struct table {
  bench *b;
  const shape *s;
  float *values;
  const char *tuning;
} table;

static adj_cuda_points rows_of(const table *t, uint64_t first, uint64_t count) {
  adj_cuda_points points;
  adj_cuda_points_init(&points, sizeof points);
  points.dim = t->s->dim;
  points.count = count;
  points.type = ADJ_F32;
  points.data = t->values + first * t->s->dim;
  return points;
}

static adj_join_spec brute_spec(const table *t, uint32_t k) {
  adj_join_spec spec = spec_of(t->b, ADJ_ORDER_DISTANCE);
  spec.kind = ADJ_KNN;
  spec.radius = INFINITY;
  spec.k = k;
  spec.flags |= ADJ_WITH_DISTANCE;
  spec.algorithm = "brute";
  spec.tuning = t->tuning;
  return spec;
}

static adj_cuda_result *find(const table *t, uint32_t k) {
  adj_cuda_points points = rows_of(t, 0, t->s->n), queries = rows_of(t, t->s->n, t->s->q);
  adj_join_spec spec = brute_spec(t, k);
  adj_cuda_result *result;
  stop_on(adj_cuda_knn_join(t->b->ctx, &spec, &queries, &points, NULL, &result));
  stop_on_cuda(cudaDeviceSynchronize());
  return result;
}

/* Whether the way is available: some need a library that may be missing. */
static bool is_there(const table *t) {
  adj_cuda_points points = rows_of(t, 0, t->s->n), query = rows_of(t, t->s->n, 1);
  adj_join_spec spec = brute_spec(t, 1);
  adj_cuda_result *result;
  adj_status status = adj_cuda_knn_join(t->b->ctx, &spec, &query, &points, NULL, &result);
  if (status == ADJ_E_UNSUPPORTED) return false;
  stop_on(status);
  adj_cuda_result_destroy(result, NULL);
  return true;
}

/* Milliseconds, smallest of the repeats. split: the times of that repeat. */
static double time_shape(const table *t, uint32_t k, adj_cuda_times *split) {
  double best = INFINITY;
  for (int i = 0; i <= t->b->options.repeats; i++) {
    stop_on_cuda(cudaDeviceSynchronize());
    double begin = now();
    adj_cuda_result *result = find(t, k);
    double took = (now() - begin) * 1e3;
    adj_cuda_result_destroy(result, NULL);
    if (!i || !(took < best)) continue; /* the first run allocates memory */
    best = took;
    adj_cuda_times_init(split, sizeof *split);
    stop_on(adj_cuda_last_times(t->b->ctx, split));
  }
  return best;
}

/* ---- Checking ---------------------------------------------------------------------------------------- */

static adj_dataset *set_of(const bench *b, const float *values, uint64_t count, uint32_t dim) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = dim;
  points.count = count;
  points.data = values;
  adj_dataset *set;
  stop_on(adj_dataset_create(b->ctx, &points, &set));
  return set;
}

/* Finds the rows of some queries on the CPU. */
static adj_result *find_on_cpu(const table *t, uint32_t k, const float *points, const float *queries, uint64_t count) {
  adj_join_spec spec = brute_spec(t, k);
  spec.backend = ADJ_BACKEND_CPU;
  spec.tuning = NULL;
  adj_dataset *left = set_of(t->b, queries, count, t->s->dim), *right = set_of(t->b, points, t->s->n, t->s->dim);
  adj_plan *plan;
  adj_result *result;
  stop_on(adj_plan_create(t->b->ctx, &spec, left, right, &plan));
  stop_on(adj_collect(plan, &result, NULL, NULL));
  adj_plan_destroy(plan);
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  return result;
}

static void *to_host(const void *device, size_t bytes) {
  void *host = malloc(bytes);
  if (!host) stop_on(ADJ_E_MEMORY);
  stop_on_cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  return host;
}

static bool same_as_cpu(const table *t, uint32_t k) {
  const shape *s = t->s;
  uint64_t count = s->q < CHECKED ? s->q : CHECKED, step = s->q / count;
  size_t row = s->dim * sizeof(float), entries = (size_t)s->q * k;
  float *points = to_host(t->values, s->n * row), *queries = malloc(count * row);
  for (uint64_t i = 0; i < count; i++) {
    const float *from = t->values + (s->n + i * step) * s->dim;
    stop_on_cuda(cudaMemcpy(queries + i * s->dim, from, row, cudaMemcpyDeviceToHost));
  }
  adj_cuda_result *gpu = find(t, k);
  uint32_t *ids = to_host(adj_cuda_result_ids(gpu), entries * sizeof *ids);
  float *distances = to_host(adj_cuda_result_distances(gpu), entries * sizeof *distances);
  adj_result *cpu = find_on_cpu(t, k, points, queries, count);
  bool same = true;
  for (uint64_t i = 0; i < count; i++)
    same = same && !memcmp(ids + i * step * k, adj_result_ids(cpu) + i * k, k * sizeof *ids) &&
           !memcmp(distances + i * step * k, (const float *)adj_result_distances(cpu) + i * k, k * sizeof *distances);
  adj_cuda_result_destroy(gpu, NULL);
  adj_result_destroy(cpu);
  free(points);
  free(queries);
  free(ids);
  free(distances);
  return same;
}

/* ---- The table --------------------------------------------------------------------------------------- */

static void run_k(const table *t, uint32_t k) {
  const shape *s = t->s;
  adj_cuda_times split = {0};
  double ms = time_shape(t, k, &split), pairs = (double)s->q * (double)s->n;
  bool same = !t->b->options.check || same_as_cpu(t, k);
  t->b->faults += !same;
  printf("%-16s %5u %-12s | %9.3f %7.3f %9.3f %8.1f %6.2f |", s->name, k, t->tuning ? t->tuning : "-", ms,
         split.plan_s * 1e3, split.count_s * 1e3, pairs / ms * 1e-6, pairs * s->dim / ms * 1e-9);
  if (s->peer_ms > 0)
    printf(" %6.1f %5.1f", s->peer_ms, s->peer_ms / ms);
  else
    printf(" %6s %5s", "-", "-");
  printf(" | %7.0f%s\n", (double)split.peak_bytes / 1048576, !t->b->options.check ? "" : same ? " same" : " DIFFERS");
  fflush(stdout);
}

static void run_shape(bench *b, const shape *s) {
  const options *o = &b->options;
  table t = {.b = b, .s = s};
  uint64_t values = (s->n + s->q) * s->dim;
  stop_on_cuda(cudaMalloc((void **)&t.values, values * sizeof *t.values));
  stop_on_cuda(fill_values(t.values, values, values, 0));
  for (int w = 0; w < (o->tuning ? 1 : (int)(sizeof WAYS / sizeof *WAYS)); w++) {
    t.tuning = o->tuning ? o->tuning : WAYS[w];
    if (!is_there(&t)) {
      printf("%-16s %5s %-12s | %s\n", s->name, "-", t.tuning, adj_last_error());
      continue;
    }
    for (int i = 0; i < MOST_KS; i++)
      if (s->ks[i] && !o->neighbours && (!o->quick || s->ks[i] == 32)) run_k(&t, s->ks[i]);
    if (o->neighbours) run_k(&t, o->neighbours);
  }
  cudaFree(t.values);
}

void run_brute(bench *b) {
  printf("%-16s %5s %-12s | %9s %7s %9s %8s %6s | %6s %5s | %7s\n", "shape", "k", "way", "ms", "survey", "search",
         "G/s", "steps", "peer", "times", "mem");
  for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
    if (b->options.name ? !strstr(SHAPES[i].name, b->options.name) : b->options.quick && SHAPES[i].slow) continue;
    run_shape(b, &SHAPES[i]);
  }
}
