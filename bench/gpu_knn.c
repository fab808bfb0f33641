/* SPDX-License-Identifier: MIT
 *
 * Times kNN joins on a GPU: one command, one table.
 *
 *   bench/gpu --nearest [--case NAME] [--neighbours K] [--repeats N] [--points N] [--tuning TEXT] [--quick] [--check]
 *
 * Each point's k nearest others among 10 M, f32, with distances:
 *
 *   device   points and result on the device, index construction included; split into the survey of the points, the
 *            tree and the search; cand/q: candidates per query
 *   peer     the best of other programs on an H200, index and queries (cudaKDTree, ArborX), if one is known
 *   host     from host memory to host memory (adj_plan_create and adj_collect); /copy: how much longer that takes than
 *            device, over the time of copying points and result at the rate of pinned memory
 *
 * --check compares every id and distance with those of the CPU. --quick: only k = 8.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

static const struct {
  const char *name;
  double peer_ms[2]; /* k = 8 and 32; 0: not known */
} SETS[] = {{"Unif2D10M", {19.5, 99}}, {"Expo2D10M", {19.7, 104}}, {"Unif3D10M", {26, 125}},
            {"Expo3D10M", {28, 145}},  {"Unif6D10M", {410, 867}},  {"Expo6D10M", {0, 0}}};
static const uint32_t KS[] = {8, 32};

static adj_join_spec knn_spec(const bench *b, uint32_t k) {
  adj_join_spec spec = spec_of(b, ADJ_ORDER_DISTANCE);
  spec.kind = ADJ_KNN;
  spec.radius = INFINITY;
  spec.k = k;
  spec.flags |= ADJ_WITH_DISTANCE;
  return spec;
}

/* Milliseconds from points to rows on the device, smallest of the repeats. split: the times of that repeat. */
static double time_on_device(const bench *b, uint32_t k, adj_cuda_times *split) {
  adj_cuda_points points = on_device(b);
  adj_join_spec spec = knn_spec(b, k);
  double best = INFINITY;
  for (int i = 0; i <= b->options.repeats; i++) {
    adj_cuda_result *result;
    stop_on_cuda(cudaDeviceSynchronize());
    double begin = now();
    stop_on(adj_cuda_knn_join(b->ctx, &spec, &points, NULL, NULL, &result));
    stop_on_cuda(cudaDeviceSynchronize());
    double took = (now() - begin) * 1e3;
    adj_cuda_result_destroy(result, NULL);
    if (!i || !(took < best)) continue; /* the first run allocates memory */
    best = took;
    adj_cuda_times_init(split, sizeof *split);
    stop_on(adj_cuda_last_times(b->ctx, split));
  }
  return best;
}

static adj_result *collect(const bench *b, uint32_t k, adj_backend backend, double *ms, adj_stats *stats) {
  adj_join_spec spec = knn_spec(b, k);
  spec.backend = backend;
  if (backend != ADJ_BACKEND_GPU) spec.tuning = NULL;
  adj_plan *plan;
  adj_result *result;
  double begin = now();
  stop_on(adj_plan_create(b->ctx, &spec, b->set, NULL, &plan));
  stop_on(adj_collect(plan, &result, NULL, stats));
  *ms = (now() - begin) * 1e3;
  adj_plan_destroy(plan);
  return result;
}

static double time_on_host(const bench *b, uint32_t k) {
  double best = INFINITY, took;
  for (int i = 0; i < b->options.repeats; i++) {
    adj_result_destroy(collect(b, k, ADJ_BACKEND_GPU, &took, NULL));
    if (took < best) best = took;
  }
  return best;
}

static bool same_as_cpu(const bench *b, uint32_t k, double *cpu_ms) {
  double ms;
  adj_result *gpu = collect(b, k, ADJ_BACKEND_GPU, &ms, NULL), *cpu = collect(b, k, ADJ_BACKEND_CPU, cpu_ms, NULL);
  size_t entries = b->count * k;
  bool same = !memcmp(adj_result_ids(gpu), adj_result_ids(cpu), entries * sizeof(uint32_t)) &&
              !memcmp(adj_result_distances(gpu), adj_result_distances(cpu), entries * sizeof(float));
  adj_result_destroy(gpu);
  adj_result_destroy(cpu);
  return same;
}

static void run_k(bench *b, uint32_t k, double peer_ms) {
  adj_cuda_times split;
  double device = time_on_device(b, k, &split), host = time_on_host(b, k), cpu_ms = 0;
  double points = 4.0 * b->dim * (double)b->count, rows = 8.0 * k * (double)b->count;
  double copy = (points + rows) / b->pinned_gbs * 1e-6;
  bool same = !b->options.check || same_as_cpu(b, k, &cpu_ms);
  b->faults += !same;
  printf("%-10s %5u | %8.3f %6.3f %6.3f %8.3f %7.0f |", b->name, k, device, split.plan_s * 1e3, split.index_s * 1e3,
         split.count_s * 1e3, (double)split.candidates / (double)b->count);
  if (peer_ms > 0 && !b->options.points)
    printf(" %6.1f %5.1f", peer_ms, peer_ms / device);
  else
    printf(" %6s %5s", "-", "-");
  printf(" | %8.2f %5.2f | %5.2f", host, (host - device) / copy, ((double)split.peak_bytes - rows) / points);
  if (b->options.check) printf(" %s, CPU %.0f ms", same ? "same" : "DIFFERS", cpu_ms);
  printf("\n");
  fflush(stdout);
}

void run_nearest(bench *b) {
  printf("%-10s %5s | %8s %6s %6s %8s %7s | %6s %5s | %8s %5s | %5s\n", "points", "k", "device", "plan", "tree",
         "search", "cand/q", "peer", "times", "host", "/copy", "mem");
  for (size_t n = 0; n < sizeof SETS / sizeof *SETS; n++) {
    if (b->options.name && strcmp(b->options.name, SETS[n].name)) continue;
    b->name = SETS[n].name;
    open_points(b);
    if (b->options.neighbours)
      run_k(b, b->options.neighbours, 0);
    else
      for (int i = 0; i < (b->options.quick ? 1 : 2); i++)
        run_k(b, KS[i], SETS[n].peer_ms[i]);
    close_points(b);
  }
}
