/* SPDX-License-Identifier: MIT
 *
 * Times joins that cores and a GPU share, and the same joins on each alone: one command, one table.
 *
 *   bench/gpu --hybrid [--case NAME] [--neighbours K] [--repeats N] [--points N] [--tuning TEXT] [--quick]
 *   bench/gpu --hybrid-range [--case NAME] [--mean N] [--repeats N] [--points N] [--tuning TEXT]
 *
 * Each point's k nearest others, f32, with distances, or the others within a radius, by id, from host memory to host
 * memory. Times are for adj_plan_create and adj_collect together (all) and for adj_collect alone (join). The device is
 * open:
 *
 *   cpu, gpu    each alone
 *   hybrid      as planned; +: how much longer it takes than the GPU alone, in per cent
 *   rates       with cores taking part in any case (share=rates); of bound: the rate of its join over the sum of the
 *               rates of both alone (HEGJoin, table 2), and the same for the hybrid as planned; gpu %: queries that the
 *               GPU did; apart: worker_imbalance in per cent; kernel: the share of kernels in the time of the join, in
 *               per cent
 *
 * Every result is compared with that of the CPU. --quick: only k = 8. --tuning test.device_blocks=132 limits the GPU to
 * a part of its power, alone and with cores.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

static const char *const SETS[] = {"Unif2D10M", "Expo2D10M", "Unif3D10M", "Expo3D10M", "Unif6D10M", "Expo6D10M"};
static const uint32_t KS[] = {8, 32};

/* Range joins that take 16 cores a second or more. */
static const char *const RANGE_SETS[] = {"Expo2D20M", "Unif2D20M", "Expo3D20M", "Unif3D20M", "Expo6D2M"};
static const double RANGE_MEAN = 100;

typedef enum way { CPU, GPU, HYBRID, RATES, WAYS } way;

typedef struct best {
  double all_ms, join_ms;
  timed quickest; /* the repeat with the quickest join */
} best;

/* k 0: a range join. */
static adj_result *collect(const bench *b, uint32_t k, way how, best *to) {
  static const adj_backend backends[] = {ADJ_BACKEND_CPU, ADJ_BACKEND_GPU, ADJ_BACKEND_HYBRID, ADJ_BACKEND_HYBRID};
  static const char *const tunings[] = {"", "", "", "share=rates"};
  char tuning[256];
  snprintf(tuning, sizeof tuning, "%s%s%s", tunings[how], *tunings[how] && b->tuning ? "," : "",
           b->tuning ? b->tuning : "");
  adj_join_spec spec = spec_of_any(b, k);
  spec.backend = backends[how];
  spec.tuning = spec.backend == ADJ_BACKEND_CPU ? NULL : tuning; /* the tuning is for the GPU */
  timed t;
  adj_result *result = collect_timed(b, &spec, &t);
  to->all_ms = fmin(to->all_ms, (t.plan_s + t.join_s) * 1e3);
  if (t.join_s * 1e3 < to->join_ms) {
    to->join_ms = t.join_s * 1e3;
    to->quickest = t;
  }
  return result;
}

static void print_shared(const best *it, const best *all) {
  double bound = 1 / all[CPU].join_ms + 1 / all[GPU].join_ms;
  printf(" | %8.2f %8.2f %7.2f %6.1f %6.1f %6.1f", it->all_ms, it->join_ms, 1 / it->join_ms / bound,
         100 * it->quickest.device_share, 100 * it->quickest.stats.worker_imbalance,
         1e5 * it->quickest.stats.kernel_s / it->join_ms);
}

/* The ways take turns, so that none has a warmer machine. k 0: a range join. */
static void run_k(bench *b, uint32_t k, double mean) {
  best all[WAYS];
  for (int w = 0; w < WAYS; w++)
    all[w] = (best){.all_ms = INFINITY, .join_ms = INFINITY};
  bool equal = true;
  for (int i = 0; i < b->options.repeats; i++) {
    adj_result *cpu = collect(b, k, CPU, &all[CPU]);
    for (int w = GPU; w < WAYS; w++) {
      adj_result *other = collect(b, k, (way)w, &all[w]);
      equal = equal && same_result(b, cpu, other);
      adj_result_destroy(other);
    }
    adj_result_destroy(cpu);
  }
  b->faults += !equal;
  printf("%-10s %3.0f | %8.2f %8.2f | %8.2f %8.2f | %+6.1f", b->name, k ? k : mean, all[CPU].all_ms, all[CPU].join_ms,
         all[GPU].all_ms, all[GPU].join_ms, 100 * (all[HYBRID].all_ms / all[GPU].all_ms - 1));
  print_shared(&all[HYBRID], all);
  print_shared(&all[RATES], all);
  printf(" %s\n", equal ? "same" : "DIFFERS");
  fflush(stdout);
}

static void print_heading(const char *of) {
  printf("%-14s | %-17s | %-17s | %6s | %-46s | rates\n", "", "cpu", "gpu", "hybrid", "hybrid");
  printf("%-10s %3s | %8s %8s | %8s %8s | %6s", "points", of, "all", "join", "all", "join", "+");
  for (int i = 0; i < 2; i++)
    printf(" | %8s %8s %7s %6s %6s %6s", "all", "join", "ofbound", "gpu %", "apart", "kernel");
  printf("\n");
}

void run_hybrid_range(bench *b) {
  double mean = b->options.mean > 0 ? b->options.mean : RANGE_MEAN;
  print_heading("mean");
  for (size_t n = 0; n < sizeof RANGE_SETS / sizeof *RANGE_SETS; n++) {
    if (b->options.name && strcmp(b->options.name, RANGE_SETS[n])) continue;
    b->name = RANGE_SETS[n];
    open_points(b);
    find_radius(b, mean);
    run_k(b, 0, mean);
    close_points(b);
  }
}

void run_hybrid(bench *b) {
  print_heading("k");
  for (size_t n = 0; n < sizeof SETS / sizeof *SETS; n++) {
    if (b->options.name && strcmp(b->options.name, SETS[n])) continue;
    b->name = SETS[n];
    open_points(b);
    if (b->options.neighbours)
      run_k(b, b->options.neighbours, 0);
    else
      for (int i = 0; i < (b->options.quick ? 1 : 2); i++)
        run_k(b, KS[i], 0);
    close_points(b);
  }
}
