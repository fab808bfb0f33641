/* SPDX-License-Identifier: MIT
 *
 * Times the range join on a GPU in many dimensions: one command, one table.
 *
 *   bench/gpu --dims [--case NAME] [--repeats N] [--points N] [--plain N] [--radius R] [--quick] [--check]
 *
 * The sets and radii are those of Gowanlock and Karsin, "GPU accelerated self-join for the distance similarity metric"
 * for high dimensions, Figure 9: exponential points, for which an index can exclude little. Times of counting the
 * neighbours of all points, with points and counts on the device and index construction included, smallest of the
 * repeats:
 *
 *   ours     what the planner chooses
 *   filter   every pair through the tensor prefilter (algorithm brute, prefilter=tensor)
 *   tiles    the planner without that prefilter (prefilter=off)
 *   plain    every pair compared (algorithm brute, prefilter=off): the exhaustive count
 *
 * and csr: the whole join, from points on the device to CSR on the device, rows in any order. tiles and plain run once.
 * With --plain N they run on N points only, and their time is scaled up by the square. --quick: only the largest radius
 * of each set; --radius: another radius. --check compares every id of the join, and every count, with those of
 * prefilter=off.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* The first `count` of the points. */
static adj_cuda_points first_points(const bench *b, uint64_t count) {
  adj_cuda_points points = on_device(b);
  points.count = count;
  return points;
}

static adj_join_spec spec_with(const bench *b, const char *algorithm, const char *tuning, adj_order order) {
  adj_join_spec spec = spec_of(b, order);
  spec.algorithm = algorithm;
  spec.tuning = tuning;
  return spec;
}

/* ---- Times ----------------------------------------------------------------------------------------- */

typedef struct counted {
  double seconds;
  uint64_t pairs;
  adj_cuda_times times;
} counted;

static counted count(const bench *b, uint64_t points, const char *algorithm, const char *tuning, int repeats) {
  adj_cuda_points set = first_points(b, points);
  adj_join_spec spec = spec_with(b, algorithm, tuning, ADJ_ORDER_ANY);
  uint32_t *degrees;
  stop_on_cuda(cudaMalloc((void **)&degrees, points * sizeof *degrees));
  counted best = {.seconds = INFINITY};
  for (int i = 0; i < repeats; i++) {
    stop_on_cuda(cudaDeviceSynchronize());
    double begin = now();
    stop_on(adj_cuda_range_count(b->ctx, &spec, &set, NULL, NULL, degrees, &best.pairs));
    stop_on_cuda(cudaDeviceSynchronize());
    double took = now() - begin;
    if (!(took < best.seconds)) continue;
    best.seconds = took;
    adj_cuda_times_init(&best.times, sizeof best.times);
    stop_on(adj_cuda_last_times(b->ctx, &best.times));
  }
  cudaFree(degrees);
  return best;
}

/* ---- Checking -------------------------------------------------------------------------------------- */

/* The rows of a join, each in ascending order, in host memory. */
typedef struct rows {
  uint64_t *offsets;
  uint32_t *ids;
  uint64_t pairs;
} rows;

static rows rows_of(const bench *b, const char *tuning) {
  adj_cuda_points set = on_device(b);
  adj_join_spec spec = spec_with(b, NULL, tuning, ADJ_ORDER_ID);
  adj_cuda_result *result;
  stop_on(adj_cuda_range_join(b->ctx, &spec, &set, NULL, NULL, &result));
  rows r = {.pairs = adj_cuda_result_pairs(result)};
  size_t offsets = (b->count + 1) * sizeof *r.offsets, ids = r.pairs * sizeof *r.ids;
  r.offsets = malloc(offsets);
  r.ids = malloc(ids + 1);
  stop_on_cuda(cudaMemcpy(r.offsets, adj_cuda_result_offsets(result), offsets, cudaMemcpyDeviceToHost));
  stop_on_cuda(cudaMemcpy(r.ids, adj_cuda_result_ids(result), ids, cudaMemcpyDeviceToHost));
  adj_cuda_result_destroy(result, NULL);
  return r;
}

static bool same_rows(const bench *b) {
  rows left = rows_of(b, "prefilter=tensor"), right = rows_of(b, "prefilter=off"),
       again = rows_of(b, "prefilter=tensor,single=off");
  size_t offsets = (b->count + 1) * sizeof *left.offsets;
  bool same = left.pairs == right.pairs && left.pairs == again.pairs && !memcmp(left.offsets, right.offsets, offsets) &&
              !memcmp(left.ids, right.ids, left.pairs * sizeof *left.ids) &&
              !memcmp(left.ids, again.ids, left.pairs * sizeof *left.ids);
  rows all[] = {left, right, again};
  for (int i = 0; i < 3; i++) {
    free(all[i].offsets);
    free(all[i].ids);
  }
  return same;
}

/* ---- The table ------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  double radius[3];
  double paper_s; /* for the last radius, on a GP100, if the text states it */
} SETS[] = {
    {"Syn16D2M", {0.03, 0.04, 0.05}, 469.0}, {"Syn32D2M", {0.08, 0.09, 0.10}, 0}, {"Syn64D2M", {0.16, 0.17, 0.18}, 0}};

static void run_radius(bench *b, double radius, double paper_s) {
  b->radius = radius;
  uint64_t few = b->options.plain && b->options.plain < b->count ? b->options.plain : b->count;
  double scale = pow((double)b->count / (double)few, 2);
  counted ours = count(b, b->count, NULL, NULL, b->options.repeats + 1);
  counted filter = count(b, b->count, "brute", "prefilter=tensor", b->options.repeats);
  counted tiles = count(b, few, NULL, "prefilter=off", 1), plain = count(b, few, "brute", "prefilter=off", 1);
  adj_cuda_times csr;
  uint64_t pairs;
  double joined = time_device(b, ADJ_ORDER_ANY, &csr, &pairs);
  bool same = ours.pairs == filter.pairs && tiles.pairs == plain.pairs && (few < b->count || ours.pairs == plain.pairs);
  if (b->options.check) same = same && same_rows(b);
  b->faults += !same;
  printf("%-9s %5.2f %8.1f | %7.3f %7.3f %8.3f %8.3f %6.1f | %6.3f %6.3f %7.3f %6.3f | %7.3f %5.2f | ", b->name, radius,
         (double)ours.pairs / (double)b->count, ours.seconds, filter.seconds, tiles.seconds * scale,
         plain.seconds * scale, plain.seconds * scale / ours.seconds, ours.times.plan_s, ours.times.index_s,
         ours.times.count_s, (double)ours.times.candidates / (double)b->count / (double)b->count, joined,
         ((double)csr.peak_bytes - 4 * (double)ours.pairs) / (4.0 * b->dim * (double)b->count));
  if (paper_s > 0)
    printf("%5.0f", paper_s);
  else
    printf("%5s", "-");
  printf(" %s\n", same ? b->options.check ? "same" : "" : "DIFFERS");
  fflush(stdout);
}

void run_dims(bench *b) {
  printf("\nseconds; mem: device memory beyond the ids of the result, in sizes of the points\n");
  printf("%-9s %5s %8s | %7s %7s %8s %8s %6s | %6s %6s %7s %6s | %7s %5s | %5s\n", "set", "r", "mean", "ours", "filter",
         "tiles", "plain", "times", "plan", "index", "count", "share", "csr", "mem", "paper");
  for (size_t n = 0; n < sizeof SETS / sizeof *SETS; n++) {
    if (b->options.name && strcmp(b->options.name, SETS[n].name)) continue;
    b->name = SETS[n].name;
    open_points(b);
    for (int r = b->options.quick ? 2 : 0; r < 3 && !(b->options.radius > 0); r++)
      run_radius(b, SETS[n].radius[r], r == 2 && !b->options.points ? SETS[n].paper_s : 0);
    if (b->options.radius > 0) run_radius(b, b->options.radius, 0);
    close_points(b);
  }
}
