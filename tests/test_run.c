/* SPDX-License-Identifier: MIT
 *
 * Running a join: progress and cancelling, limits on pairs and memory, sinks that fail, results larger than memory,
 * explanations and estimates, threads that share a context.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/run.h"
#include "result/offsets.h"
#include "result/result.h"
#include "running.h"

static adj_plan *plan_with(adj_ctx *ctx, const adj_dataset *set, double radius, const char *tuning) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_RANGE;
  spec.radius = radius;
  spec.tuning = tuning;
  adj_plan *plan = NULL;
  must(adj_plan_create(ctx, &spec, set, NULL, &plan));
  return plan;
}

static void sinks_may_refuse(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 3000, 2);
  adj_plan *plan = plan_with(ctx, set, 0.05, "buffer=4096");
  refuse_everywhere(ctx, plan, 3000);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* A result with labels, far larger than the ids and ascending with them, is the result with ids. */
static void check_labels(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                         bool expected) {
  uint64_t count = adj_dataset_count(right ? right : left);
  uint32_t *labels = malloc(count * sizeof *labels); /* no longer, so that sanitizers see reads past the end */
  assert_non_null(labels);
  for (uint64_t i = 0; i < count; i++)
    labels[i] = (uint32_t)(4000000000 + 977 * i);
  adj_plan *plan = NULL;
  adj_result *with_ids = NULL, *with_labels = NULL;
  must(adj_plan_create(ctx, spec, left, right, &plan));
  must(adj_collect(plan, &with_ids, NULL, NULL));
  must(adji_collect_with(plan, &(adji_extras){.labels = labels}, &with_labels, NULL, NULL));
  assert_true(with_labels->labelled == expected);
  uint64_t rows = adj_result_rows(with_ids), pairs = adj_result_offsets(with_ids)[rows], wrong = 0;
  assert_int_equal(adj_result_rows(with_labels), rows);
  if (spec->kind == ADJ_RANGE)
    assert_memory_equal(adj_result_offsets(with_labels), adj_result_offsets(with_ids), (rows + 1) * sizeof(uint64_t));
  for (uint64_t i = 0; i < pairs; i++)
    wrong += adj_result_ids(with_labels)[i] !=
             (expected ? labels[adj_result_ids(with_ids)[i]] : adj_result_ids(with_ids)[i]);
  assert_int_equal(wrong, 0);
  assert_true(pairs > 1000);
  if (spec->flags & ADJ_WITH_DISTANCE)
    assert_memory_equal(adj_result_distances(with_labels), adj_result_distances(with_ids),
                        pairs * (adj_result_type(with_ids) == ADJ_F64 ? 8 : 4));
  adj_result_destroy(with_ids);
  adj_result_destroy(with_labels);
  adj_plan_destroy(plan);
  free(labels);
}

static void labels_take_the_place_of_ids(void **state) {
  (void)state;
  static const struct {
    uint32_t dim, flags;
    double radius, box;
  } joins[] = {{2, 0, 0.01, 0},
               {2, 0, 0.1, 0},
               {2, ADJ_WITH_SELF, 0.1, 0},
               {2, ADJ_ONE_WAY, 0.1, 0},
               {3, 0, 0.05, 0},
               {3, 0, 0.2, 0},
               {2, 0, 0.1, 1},
               {3, ADJ_WITH_SELF, 0.2, 1},
               {6, 0, 0.35, 0},
               {2, ADJ_WITH_DISTANCE, 0.05, 0}};
  adj_ctx *ctx = context_of(2, NULL);
  for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
    adj_dataset *left = uniform(ctx, 3000, joins[i].dim), *right = uniform(ctx, 2000, joins[i].dim);
    adj_join_spec spec;
    adj_join_spec_init(&spec, sizeof spec);
    spec.radius = joins[i].radius;
    spec.flags = joins[i].flags;
    spec.box = joins[i].box > 0 ? &joins[i].box : NULL;
    spec.box_count = joins[i].box > 0;
    spec.tuning = "staged=on";
    spec.algorithm = "grid";
    check_labels(ctx, &spec, left, NULL, true);
    if (!(spec.flags & (ADJ_WITH_SELF | ADJ_ONE_WAY))) check_labels(ctx, &spec, left, right, true);
    adj_dataset_destroy(left);
    adj_dataset_destroy(right);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* With labels, a kNN self-join may be asked for some rows only. Joins that cannot do so make all rows. */
static void check_wanted(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *set, bool expected) {
  uint64_t count = adj_dataset_count(set), many = 0, k = spec->k, size = adj_dataset_type(set) == ADJ_F64 ? 8 : 4;
  uint32_t *labels = malloc(count * sizeof *labels), *wanted = malloc(count * sizeof *wanted);
  char *lasts = malloc(count * size);
  assert_true(labels && wanted && lasts);
  for (uint64_t i = 0; i < count; i++) {
    labels[i] = (uint32_t)(5 * i + 7);
    if (i * i % 7 < 3) wanted[many++] = (uint32_t)i;
  }
  adj_plan *plan = NULL;
  adj_result *all = NULL, *some = NULL;
  must(adj_plan_create(ctx, spec, set, NULL, &plan));
  must(adj_collect(plan, &all, NULL, NULL));
  adji_extras extras = {.labels = labels, .rows = wanted, .row_count = many};
  if (adji_notes_lasts(plan)) extras.lasts = lasts;
  must(adji_collect_with(plan, &extras, &some, NULL, NULL));
  assert_int_equal(adj_result_rows(some), expected ? many : count);
  for (uint64_t i = 0; i < many && expected; i++)
    for (uint64_t e = 0; e < k; e++) {
      uint32_t id = adj_result_ids(all)[wanted[i] * k + e], found = adj_result_ids(some)[i * k + e];
      assert_int_equal(found, id == ADJ_NO_ID ? id : labels[id]);
    }
  for (uint64_t i = 0; i < many && expected && (spec->flags & ADJ_WITH_SUM); i++) {
    const char *sums = (const char *)adj_result_distances(all) + wanted[i] * k * size;
    assert_memory_equal((const char *)adj_result_distances(some) + i * k * size, sums, k * size);
    if (extras.lasts) assert_memory_equal(lasts + i * size, sums + (k - 1) * size, size);
  }
  adj_result_destroy(all);
  adj_result_destroy(some);
  adj_plan_destroy(plan);
  free(labels);
  free(wanted);
  free(lasts);
}

static void some_rows_of_neighbours(void **state) {
  (void)state;
  static const uint32_t dims[] = {2, 3, 6, 20}, ks[] = {1, 5, 20, 70};
  adj_ctx *ctx = context_of(2, NULL);
  for (uint32_t d = 0; d < 4; d++)
    for (uint32_t i = 0; i < 16; i++) {
      adj_generate_options options;
      adj_generate_options_init(&options, sizeof options);
      options.name = "unif";
      options.count = 3000;
      options.dim = dims[d];
      options.type = i % 2 ? ADJ_F32 : ADJ_F64;
      adj_dataset *set = NULL;
      must(adj_dataset_generate(ctx, &options, &set));
      adj_join_spec spec;
      adj_join_spec_init(&spec, sizeof spec);
      spec.kind = ADJ_KNN;
      spec.k = ks[i / 4];
      spec.algorithm = "kdtree";
      spec.flags = (i % 4 / 2 ? ADJ_WITH_SELF : 0) | ADJ_WITH_SUM;
      check_wanted(ctx, &spec, set, true);
      spec.tuning = "paper.queue=points";
      if (!i) check_wanted(ctx, &spec, set, false);
      spec.tuning = NULL;
      spec.algorithm = "brute";
      if (!i) check_wanted(ctx, &spec, set, false);
      adj_dataset_destroy(set);
    }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* kNN joins with fewer and with more left points than right ones, through every kind of list and order of queries. If
 * there are few entries, the rows keep their ids. */
static void labels_of_neighbours(void **state) {
  (void)state;
  static const uint32_t ks[] = {1, 2, 8, 40, 100};
  static const char *tunings[] = {NULL, "paper.queue=points", "paper.queue=off"};
  adj_ctx *ctx = context_of(2, NULL);
  for (uint32_t dim = 2; dim < 7; dim += 2) {
    adj_dataset *few = uniform(ctx, 700, dim), *many = uniform(ctx, 3000, dim);
    for (size_t i = 0; i < 3 * sizeof ks / sizeof *ks; i++) {
      adj_join_spec spec;
      adj_join_spec_init(&spec, sizeof spec);
      spec.kind = ADJ_KNN;
      spec.k = ks[i / 3];
      spec.flags = ADJ_WITH_DISTANCE;
      spec.backend = ADJ_BACKEND_CPU;
      spec.algorithm = "kdtree";
      spec.tuning = tunings[i % 3];
      check_labels(ctx, &spec, many, NULL, true);
      check_labels(ctx, &spec, many, few, true);
      if (spec.k > 1) check_labels(ctx, &spec, few, many, 700 * spec.k >= 3000);
    }
    adj_dataset_destroy(few);
    adj_dataset_destroy(many);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* The last sums that a kNN join notes are those of its rows. */
static void check_lasts(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right) {
  adj_plan *plan = NULL;
  adj_result *with_sums = NULL, *with_lasts = NULL;
  must(adj_plan_create(ctx, spec, left, right, &plan));
  must(adj_collect(plan, &with_sums, NULL, NULL));
  assert_true(adji_notes_lasts(plan));
  uint64_t rows = adj_result_rows(with_sums), wrong = 0, padded = 0, k = spec->k;
  bool wide = adj_result_type(with_sums) == ADJ_F64;
  void *lasts = malloc(rows * (wide ? 8 : 4));
  assert_non_null(lasts);
  must(adji_collect_with(plan, &(adji_extras){.lasts = lasts}, &with_lasts, NULL, NULL));
  assert_memory_equal(adj_result_ids(with_lasts), adj_result_ids(with_sums), rows * k * sizeof(uint32_t));
  const void *sums = adj_result_distances(with_sums);
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t last = i * k + k - 1;
    double expected = wide ? ((const double *)sums)[last] : (double)((const float *)sums)[last];
    wrong += (wide ? ((const double *)lasts)[i] : (double)((const float *)lasts)[i]) != expected;
    padded += isinf(expected);
  }
  assert_int_equal(wrong, 0);
  assert_true(isinf(spec->radius) || (padded && padded < rows));
  free(lasts);
  adj_result_destroy(with_sums);
  adj_result_destroy(with_lasts);
  adj_plan_destroy(plan);
}

static void last_sums_are_noted(void **state) {
  (void)state;
  static const uint32_t ks[] = {1, 2, 8, 40, 150};
  adj_ctx *ctx = context_of(2, NULL);
  for (int wide = 0; wide < 2; wide++) {
    adj_dataset *set = uniform(ctx, 3000, 2), *others = uniform(ctx, 2000, 2), *sets[2] = {set, others};
    for (int i = 0; i < 2 && wide; i++)
      must(adj_dataset_convert(i ? others : set, ADJ_F64, &sets[i]));
    for (size_t i = 0; i < 2 * sizeof ks / sizeof *ks; i++) {
      adj_join_spec spec;
      adj_join_spec_init(&spec, sizeof spec);
      spec.kind = ADJ_KNN;
      spec.k = ks[i / 2];
      spec.flags = ADJ_WITH_SUM;
      spec.backend = ADJ_BACKEND_CPU;
      spec.algorithm = "kdtree";
      if (i % 2) spec.radius = sqrt((double)spec.k / 3000 / 3.14); /* as many neighbours on average */
      check_lasts(ctx, &spec, sets[0], NULL);
      if (i % 2) spec.radius = sqrt((double)spec.k / 2000 / 3.14);
      check_lasts(ctx, &spec, sets[0], sets[1]);
    }
    for (int i = 0; i < 2 && wide; i++)
      adj_dataset_destroy(sets[i]);
    adj_dataset_destroy(set);
    adj_dataset_destroy(others);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Rows that are collected in a cache before they go to their bins, and others that are too long for that. */
static void large_results_are_staged(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(3, NULL);
  adj_dataset *set = uniform(ctx, 300000, 2);
  adj_result *results[2];
  static const char *const tunings[] = {"staged=on", "staged=off"};
  for (int i = 0; i < 2; i++) {
    adj_plan *plan = plan_with(ctx, set, 0.0089, tunings[i]);
    must(adj_collect(plan, &results[i], NULL, NULL));
    adj_plan_destroy(plan);
  }
  uint64_t rows = adj_result_rows(results[0]), pairs = adj_result_pairs(results[0]), longest = 0, shortest = UINT64_MAX;
  const uint64_t *offsets = adj_result_offsets(results[0]);
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t length = offsets[i + 1] - offsets[i];
    longest = length > longest ? length : longest;
    shortest = length < shortest ? length : shortest;
  }
  assert_true(pairs * sizeof(uint32_t) > 64 << 20 && shortest < 40 && longest > 90);
  assert_memory_equal(adj_result_offsets(results[1]), offsets, (rows + 1) * sizeof *offsets);
  assert_memory_equal(adj_result_ids(results[1]), adj_result_ids(results[0]), pairs * sizeof(uint32_t));
  adj_result_destroy(results[0]);
  adj_result_destroy(results[1]);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Lengths of no rows, of few, and of enough rows that threads share them; sums beyond 32 bits. */
static void lengths_add_up(void **state) {
  (void)state;
  static const uint64_t counts[] = {0, 1, 2, 16383, 16384, 16385, 100000, 5000000};
  adj_ctx *ctx = context_of(3, NULL);
  for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
    uint64_t count = counts[n], sum = 0, wrong = 0;
    uint32_t *degrees = malloc((count + 1) * sizeof *degrees);
    uint64_t *offsets = malloc((count + 1) * sizeof *offsets);
    assert_true(degrees && offsets);
    for (uint64_t i = 0; i < count; i++)
      degrees[i] = i % 7 ? (uint32_t)(i * 2654435761u) : 0;
    must(adji_offsets_add_up(ctx, degrees, count, offsets));
    for (uint64_t i = 0; i < count; sum += degrees[i++])
      wrong += offsets[i] != sum;
    assert_int_equal(wrong, 0);
    assert_int_equal(offsets[count], sum);
    free(degrees);
    free(offsets);
  }
  adj_ctx_destroy(ctx);
}

/* Rows with 4000 neighbours come first, then rows with none. The long rows are too many for one buffer of the pass that
 * finds each pair once (cpu/single_bins.c). */
static void long_rows_lie_together(void **state) {
  (void)state;
  enum { ROWS = 100000, LONG = 4000 };
  adj_ctx *ctx = context_of(2, NULL);
  float *x = malloc((size_t)ROWS * 2 * sizeof *x);
  assert_non_null(x);
  for (size_t i = 0; i < ROWS; i++) {
    x[2 * i] = i < LONG ? 0.5f : 1 + (float)i;
    x[2 * i + 1] = 0.5f;
  }
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = 2;
  points.count = ROWS;
  points.data = x;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &points, &set));
  adj_plan *plan = plan_with(ctx, set, 0.25, "single=on");
  adj_result *result = NULL;
  must(adj_collect(plan, &result, NULL, NULL));
  const uint64_t *offsets = adj_result_offsets(result);
  const uint32_t *ids = adj_result_ids(result);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < ROWS; i++) {
    wrong += offsets[i + 1] - offsets[i] != (i < LONG ? LONG - 1 : 0);
    for (uint64_t k = 0; i < LONG && k < LONG - 1; k++)
      wrong += ids[i * (LONG - 1) + k] != k + (k >= i);
  }
  assert_int_equal(wrong, 0);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  free(x);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Limits --------------------------------------------------------------------------------------------- */

static void max_pairs_is_kept(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 2000, 2);
  adj_plan *plan = plan_with(ctx, set, 0.1, NULL);
  uint64_t pairs = 0;
  must(adj_count(plan, NULL, &pairs, NULL, NULL));
  assert_true(pairs > 1000);
  limit_pairs(ctx, plan, pairs);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* 5000 points that are all neighbours: 25 million pairs, 100 MB, in a context of 20 MB. */
static void memory_limit_is_kept(void **state) {
  (void)state;
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  options.memory_limit = 20 << 20;
  adj_ctx *ctx;
  must(adj_ctx_create(&options, &ctx));
  adj_dataset *set = uniform(ctx, 5000, 2);
  adj_plan *plan = plan_with(ctx, set, 2, "buffer=1000000");
  refuse_to_collect(ctx, plan, 80, 110); /* 5000 * 4999 ids of 4 bytes: 95.3 MiB */
  adj_result *result = NULL;
  uint64_t pairs = 0;
  must(adj_count(plan, NULL, &pairs, NULL, NULL));
  assert_int_equal(pairs, 5000 * 4999);
  counter c = {0};
  adj_sink sink = sink_of(&c);
  must(adj_stream(plan, &sink, NULL, NULL)); /* what does not fit can be streamed */
  assert_int_equal(c.pairs, pairs);
  adj_plan_destroy(plan);
  plan = plan_with(ctx, set, 0.01, NULL); /* the context still works */
  must(adj_collect(plan, &result, NULL, NULL));
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  assert_true(adj_ctx_memory_peak(ctx) <= options.memory_limit);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Progress and cancelling ---------------------------------------------------------------------------- */

static void progress_goes_forward(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(3, NULL);
  adj_dataset *set = uniform(ctx, 20000, 2);
  adj_plan *plan = plan_with(ctx, set, 0.02, "batch=64");
  watch_runs(plan);
  adj_plan_destroy(plan);
  plan = plan_with(ctx, set, 0.05, "batch=64,buffer=100000"); /* some 30 windows */
  watch_runs(plan);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

static void progress_can_cancel(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 20000, 2);
  adj_plan *plan = plan_with(ctx, set, 0.02, "batch=64");
  uint64_t total = 0, before = 5;
  for (int at = 1; at <= 20; at += 6) {
    cancel_by_progress(ctx, plan, at);
    watcher w = {.cancel_at = at};
    adj_run_control control = control_of();
    control.progress = watch;
    control.user = &w;
    assert_int_equal(adj_count(plan, NULL, &before, &control, NULL), ADJ_CANCELLED);
    assert_int_equal(before, 5);
  }
  must(adj_count(plan, NULL, &total, NULL, NULL)); /* the cancel was for one run, not for the context */
  assert_true(total > 0);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* A join that takes seconds ends at once when another thread cancels it. */
static void another_thread_can_cancel(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, "scalar");
  adj_dataset *set = uniform(ctx, 10000, 8);
  adj_plan *plan = plan_with(ctx, set, 0.9, NULL);
  pthread_t thread;
  double began = seconds();
  pthread_create(&thread, NULL, cancel_soon, ctx);
  uint64_t total = 0;
  must_fail(ADJ_CANCELLED, "stopped", adj_count(plan, NULL, &total, NULL, NULL));
  assert_true(seconds() - began < 5); /* generous: sanitizers slow things down */
  pthread_join(thread, NULL);
  adj_plan_destroy(plan);
  plan = plan_with(ctx, set, 0.1, NULL); /* calls that begin after the cancel run */
  must(adj_count(plan, NULL, &total, NULL, NULL));
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void sink_can_cancel(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 20000, 2);
  adj_plan *plan = plan_with(ctx, set, 0.02, "buffer=10000,batch=16");
  cancel_by_sink(ctx, plan, 20000);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- Explaining ------------------------------------------------------------------------------------------ */

static void plans_explain_themselves(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 5000, 3);
  adj_plan *plan = plan_with(ctx, set, 0.05, NULL);
  size_t needed = 0, after = 0;
  must(adj_plan_explain(plan, NULL, 0, &needed));
  assert_true(needed > 50);
  char *whole = malloc(needed), start[20];
  must(adj_plan_explain(plan, whole, needed, NULL));
  assert_int_equal(strlen(whole) + 1, needed);
  assert_non_null(strstr(whole, "5000"));
  assert_non_null(strstr(whole, "0.05"));
  must(adj_plan_explain(plan, start, sizeof start, &after));
  assert_int_equal(after, needed);
  assert_int_equal(strlen(start), sizeof start - 1);
  assert_memory_equal(start, whole, sizeof start - 1);
  must(adj_count(plan, NULL, NULL, NULL, NULL));
  must(adj_plan_explain(plan, NULL, 0, &after)); /* now it also says what happened */
  assert_true(after > needed);
  free(whole);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* Estimates of smooth data are within a factor of three; of empty data they are 0. */
static void estimates_are_sane(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  static const double radii[] = {0.005, 0.02, 0.1};
  adj_dataset *set = uniform(ctx, 20000, 2);
  for (int i = 0; i < 3; i++) {
    adj_plan *plan = plan_with(ctx, set, radii[i], NULL);
    adj_estimate estimate;
    adj_estimate_init(&estimate, sizeof estimate);
    must(adj_plan_estimate(plan, &estimate));
    uint64_t pairs = 0;
    adj_stats stats;
    adj_stats_init(&stats, sizeof stats);
    must(adj_count(plan, NULL, &pairs, NULL, &stats));
    assert_true(estimate.pairs > (double)pairs / 3 && estimate.pairs < (double)pairs * 3);
    assert_true(estimate.candidates >= estimate.pairs / 3);
    assert_true(estimate.result_bytes >= 4 * estimate.pairs);
    assert_true(estimate.seconds > 0 && isfinite(estimate.seconds));
    assert_true(stats.candidates >= pairs / 2);
    assert_true(stats.estimated_pairs == estimate.pairs);
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = 3;
  must(adj_dataset_create(ctx, &points, &set));
  adj_plan *plan = plan_with(ctx, set, 1, NULL);
  adj_estimate estimate;
  adj_estimate_init(&estimate, sizeof estimate);
  must(adj_plan_estimate(plan, &estimate));
  assert_true(estimate.pairs == 0);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

static void stats_add_up(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 20000, 2);
  adj_plan *plan = plan_with(ctx, set, 0.02, NULL);
  adj_result *result;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  double began = seconds();
  must(adj_collect(plan, &result, NULL, &stats));
  double took = seconds() - began;
  assert_string_equal(stats.backend, "cpu");
  assert_string_equal(stats.isa, adj_ctx_isa(ctx));
  assert_int_equal(stats.threads, 2);
  assert_int_equal(stats.pairs, adj_result_pairs(result));
  assert_true(stats.join_s > 0 && stats.join_s <= took);
  assert_true(stats.plan_s >= 0 && stats.index_s >= 0);
  assert_true(stats.peak_bytes >= 4 * stats.pairs);
  assert_true(stats.imbalance >= 0);
  assert_true(stats.batches >= 1);
  assert_true(stats.kernel_s == 0 && stats.upload_s == 0 && stats.download_s == 0 && stats.place_s == 0);
  assert_true(stats.bytes_up == 0 && stats.bytes_down == 0 && stats.warp_efficiency == 0);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- Sharing ---------------------------------------------------------------------------------------------- */

typedef struct sharer {
  adj_ctx *ctx;
  const adj_dataset *set;
  double radius;
  uint64_t pairs;
  adj_status status;
} sharer;

static void *join_repeatedly(void *argument) {
  sharer *s = argument;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_RANGE;
  spec.radius = s->radius;
  for (int i = 0; i < 10 && !s->status; i++) {
    adj_plan *plan = NULL;
    adj_result *result = NULL;
    s->status = adj_plan_create(s->ctx, &spec, s->set, NULL, &plan);
    if (!s->status) s->status = adj_collect(plan, &result, NULL, NULL);
    if (!s->status && i && adj_result_pairs(result) != s->pairs) s->status = ADJ_E_INTERNAL;
    if (!s->status) s->pairs = adj_result_pairs(result);
    adj_result_destroy(result);
    adj_plan_destroy(plan);
  }
  return NULL;
}

static void threads_share_a_context(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 3000, 2);
  sharer sharers[3] = {{ctx, set, 0.02, 0, ADJ_OK}, {ctx, set, 0.05, 0, ADJ_OK}, {ctx, set, 0.1, 0, ADJ_OK}};
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    pthread_create(&threads[i], NULL, join_repeatedly, &sharers[i]);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(sharers[i].status, ADJ_OK);
    adj_plan *plan = plan_with(ctx, set, sharers[i].radius, NULL);
    uint64_t pairs;
    must(adj_count(plan, NULL, &pairs, NULL, NULL));
    assert_int_equal(sharers[i].pairs, pairs);
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void count_event(void *user, const adj_trace_event *event) {
  atomic_int *events = user;
  if (event->name && event->end_ns >= event->begin_ns && event->lane < 2) atomic_fetch_add(events, 1);
}

static void traces_are_told(void **state) {
  (void)state;
  atomic_int events = 0;
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  options.trace = count_event;
  options.trace_user = &events;
  adj_ctx *ctx;
  must(adj_ctx_create(&options, &ctx));
  adj_dataset *set = uniform(ctx, 10000, 2);
  int after_data = atomic_load(&events);
  assert_true(after_data >= 2); /* generate, check */
  adj_plan *plan = plan_with(ctx, set, 0.02, NULL);
  must(adj_count(plan, NULL, NULL, NULL, NULL));
  assert_true(atomic_load(&events) > after_data);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sinks_may_refuse),
      cmocka_unit_test(labels_take_the_place_of_ids),
      cmocka_unit_test(labels_of_neighbours),
      cmocka_unit_test(some_rows_of_neighbours),
      cmocka_unit_test(max_pairs_is_kept),
      cmocka_unit_test(memory_limit_is_kept),
      cmocka_unit_test(progress_goes_forward),
      cmocka_unit_test(progress_can_cancel),
      cmocka_unit_test(another_thread_can_cancel),
      cmocka_unit_test(sink_can_cancel),
      cmocka_unit_test(plans_explain_themselves),
      cmocka_unit_test(estimates_are_sane),
      cmocka_unit_test(stats_add_up),
      cmocka_unit_test(threads_share_a_context),
      cmocka_unit_test(traces_are_told),
      cmocka_unit_test(lengths_add_up),
      cmocka_unit_test(long_rows_lie_together),
      cmocka_unit_test(last_sums_are_noted),
      cmocka_unit_test(large_results_are_staged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
