/* SPDX-License-Identifier: MIT
 *
 * The configurations of the papers beside the default kernels (docs/tuning.md, "The papers' configurations"), on points
 * that are on the device, to CSR there with rows in any order. Milliseconds of the device, of the quickest of the
 * repeats; total: as a caller sees it, with planning and index. Ordering queries by their work is part of count.
 *
 *   --ablation       LBJoin's tables III to VI: access patterns, orders of the queries, threads a query. These index
 * all dimensions, as there; the default kernels as the planner decides
 *   --ablation-dims  GPU-Join's figures 6 to 9: how many dimensions are indexed, REORDER, SORTIDU, SHORTC
 *
 * warp: candidates compared, of those that the warps had lanes for (warp execution efficiency of the comparisons).
 * Every line must find as many pairs as the default kernels; with --check the same ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "gpu/device/device.h"

enum { DIM_POINTS = 200000 }; /* with one dimension indexed nearly all pairs are compared */

/* What a line found; that of the default kernels is what the others of a table are compared with. */
typedef struct yardstick {
  double total;
  uint64_t pairs, digest;
} yardstick;

/* Of offsets and ids, rows in ascending order; 0 where nothing is checked. */
static uint64_t digest(const bench *b) {
  if (!b->options.check) return 0;
  adj_cuda_points points = on_device(b);
  adj_join_spec spec = spec_of(b, ADJ_ORDER_ID);
  adj_cuda_result *result;
  stop_on(adj_cuda_range_join(b->ctx, &spec, &points, NULL, NULL, &result));
  uint64_t pairs = adj_cuda_result_pairs(result), sum = pairs;
  uint64_t *offsets = malloc((b->count + 1) * sizeof *offsets);
  uint32_t *ids = malloc(pairs * sizeof *ids + 1);
  if (!offsets || !ids) stop_on_cuda(cudaErrorMemoryAllocation);
  stop_on_cuda(
      cudaMemcpy(offsets, adj_cuda_result_offsets(result), (b->count + 1) * sizeof *offsets, cudaMemcpyDeviceToHost));
  stop_on_cuda(cudaMemcpy(ids, adj_cuda_result_ids(result), pairs * sizeof *ids, cudaMemcpyDeviceToHost));
  for (uint64_t i = 0; i <= b->count; i++)
    sum = (sum ^ offsets[i]) * UINT64_C(0x9e3779b97f4a7c15);
  for (uint64_t i = 0; i < pairs; i++)
    sum = (sum ^ ids[i]) * UINT64_C(0x9e3779b97f4a7c15);
  adj_cuda_result_destroy(result, NULL);
  free(offsets);
  free(ids);
  return sum;
}

static void print_heading(const bench *b, double mean, double pairs) {
  printf("\n%s, %llu points, radius %.4g, mean %.0f, %.1f Mpairs\n", b->name, (unsigned long long)b->count, b->radius,
         mean, pairs * 1e-6);
  printf("%-80s %8s %9s %9s %9s %8s %9s %7s\n", "configuration", "index", "count", "fill", "total", "/tiles", "cand/q",
         "warp");
}

static adj_cuda_times time_line(bench *b, const char *tuning, yardstick *found) {
  adj_cuda_times split;
  adj_cuda_times_init(&split, sizeof split);
  b->tuning = tuning;
  found->digest = digest(b);
  found->total = time_device(b, ADJ_ORDER_ANY, &split, &found->pairs);
  b->tuning = NULL;
  return split;
}

static uint64_t last_slots(const bench *b) {
  adji_gpu *gpu;
  stop_on(adji_gpu_of(b->ctx, &gpu));
  return adji_gpu_last_slots(gpu);
}

static void print_line(bench *b, const yardstick *tiles, const yardstick *found, const char *name,
                       const adj_cuda_times *split) {
  uint64_t slots = last_slots(b);
  printf("%-80s %8.3f %9.3f %9.3f %9.3f %8.2f %9.0f", name, split->index_s * 1e3, split->count_s * 1e3,
         split->fill_s * 1e3, found->total * 1e3, found->total / tiles->total,
         (double)split->candidates / (double)b->count);
  if (slots)
    printf(" %6.1f%%", 100 * (double)split->candidates / (double)slots);
  else
    printf(" %7s", "-");
  bool same = found->pairs == tiles->pairs && found->digest == tiles->digest;
  b->faults += !same;
  printf("%s\n", same ? "" : "  DIFFERS");
  fflush(stdout);
}

static void run_line(bench *b, const yardstick *tiles, const char *tuning) {
  yardstick found;
  adj_cuda_times split = time_line(b, tuning, &found);
  print_line(b, tiles, &found, tuning, &split);
}

/* The radius, and the first line: the default kernels. */
static yardstick begin_table(bench *b, double mean) {
  yardstick tiles;
  find_radius(b, mean);
  adj_cuda_times split = time_line(b, NULL, &tiles);
  print_heading(b, mean, (double)tiles.pairs);
  print_line(b, &tiles, &tiles, "tiles", &split);
  return tiles;
}

/* ---- LBJoin ------------------------------------------------------------------------------------------ */

static void run_accesses(bench *b, double mean) {
  static const char *const accesses[] = {"full", "unicomp", "lid-unicomp"};
  static const char *const orders[] = {"none", "sortbywl", "workqueue"};
  yardstick tiles = begin_table(b, mean);
  char tuning[160];
  for (int a = 0; a < 3; a++)
    for (int o = 0; o < 3; o++) {
      snprintf(tuning, sizeof tuning, "paper.access=%s,paper.order=%s,indexed=%u", accesses[a], orders[o], b->dim);
      run_line(b, &tiles, tuning);
    }
  snprintf(tuning, sizeof tuning, "paper.access=full,paper.point_threads=8,indexed=%u", b->dim);
  run_line(b, &tiles, tuning);
  for (int threads = 1; threads <= 32; threads *= 2) {
    snprintf(tuning, sizeof tuning, "paper.access=lid-unicomp,paper.order=workqueue,paper.point_threads=%d,indexed=%u",
             threads, b->dim);
    run_line(b, &tiles, tuning);
  }
}

void run_ablation(bench *b) {
  static const char *const names[] = {"Unif2D2M", "Expo2D2M", "Expo3D2M", "Unif6D2M", "Expo6D2M"};
  static const double means[] = {10, 100};
  for (int n = 0; n < 5; n++) {
    if (b->options.name && strcmp(b->options.name, names[n])) continue;
    b->name = names[n];
    open_points(b);
    for (int m = 0; m < 2; m++)
      if (!(b->options.mean > 0) || b->options.mean == means[m]) run_accesses(b, means[m]);
    close_points(b);
  }
}

/* ---- GPU-Join ---------------------------------------------------------------------------------------- */

void run_ablation_dims(bench *b) {
  static const char *const switches[] = {"off", "on"};
  uint64_t points = b->options.points;
  if (!points) b->options.points = DIM_POINTS;
  b->name = b->options.name ? b->options.name : "Syn16D2M";
  open_points(b);
  yardstick tiles = begin_table(b, b->options.mean > 0 ? b->options.mean : 10);
  for (int indexed = 1; indexed <= 6; indexed++)
    for (int i = 0; i < 8; i++) {
      char tuning[160];
      snprintf(tuning, sizeof tuning, "paper.access=full,indexed=%d,paper.reorder=%s,paper.sortidu=%s,paper.shortc=%s",
               indexed, switches[i / 4], switches[i / 2 % 2], switches[i % 2]);
      run_line(b, &tiles, tuning);
    }
  close_points(b);
  b->options.points = points;
}
