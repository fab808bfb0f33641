/* SPDX-License-Identifier: MIT
 *
 * Running a kNN join, with every algorithm: streams through buffers of any size give the collected result, and so does
 * every number of threads; sinks that fail, limits on pairs and memory, progress and cancelling, statistics.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "running.h"

static const char *const ALGORITHMS[] = {NULL, "kdtree", "brute"};
enum { ALGORITHM_COUNT = sizeof ALGORITHMS / sizeof *ALGORITHMS };

typedef struct question {
  uint32_t k;
  const char *algorithm, *tuning;
  double radius; /* 0: none */
} question;

static adj_plan *plan_for(adj_ctx *ctx, const adj_dataset *set, const question *q) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = q->k;
  spec.algorithm = q->algorithm;
  spec.tuning = q->tuning;
  if (q->radius > 0) spec.radius = q->radius;
  spec.flags = ADJ_WITH_DISTANCE;
  adj_plan *plan = NULL;
  must(adj_plan_create(ctx, &spec, set, NULL, &plan));
  return plan;
}

/* ---- Streams and threads -------------------------------------------------------------------------------- */

/* A table that blocks of rows are compared with. */
typedef struct table {
  uint64_t rows, k, next_row;
  int writes;
  const uint32_t *ids;
  const float *distances;
} table;

static table table_of(const adj_result *result, uint64_t k) {
  return (table){.rows = adj_result_rows(result),
                 .k = k,
                 .ids = adj_result_ids(result),
                 .distances = adj_result_distances(result)};
}

static adj_status compare_block(void *user, const adj_rows *rows) {
  table *whole = user;
  assert_int_equal(rows->first_row, whole->next_row);
  assert_true(rows->row_count > 0);
  for (uint64_t i = 0; i <= rows->row_count; i++)
    assert_int_equal(rows->offsets[i], rows->offsets[0] + i * whole->k);
  uint64_t at = whole->next_row * whole->k, entries = rows->row_count * whole->k;
  assert_memory_equal(rows->ids + rows->offsets[0], whole->ids + at, entries * sizeof *whole->ids);
  assert_memory_equal((const float *)rows->distances + rows->offsets[0], whole->distances + at,
                      entries * sizeof *whole->distances);
  whole->next_row += rows->row_count;
  whole->writes++;
  return ADJ_OK;
}

static void check_streams(adj_ctx *ctx, const adj_dataset *set, const question *asked) {
  static const char *const tunings[] = {"buffer=1", "buffer=1000", "buffer=9999", "buffer=100000000"};
  adj_plan *plan = plan_for(ctx, set, asked);
  adj_result *result = NULL;
  must(adj_collect(plan, &result, NULL, NULL));
  adj_plan_destroy(plan);
  for (int t = 0; t < 4; t++) {
    question q = *asked;
    q.tuning = tunings[t];
    table whole = table_of(result, q.k);
    adj_sink sink;
    adj_sink_init(&sink, sizeof sink);
    sink.user = &whole;
    sink.write = compare_block;
    plan = plan_for(ctx, set, &q);
    must(adj_stream(plan, &sink, NULL, NULL));
    assert_int_equal(whole.next_row, whole.rows);
    assert_true(t == 3 ? whole.writes == 1 : whole.writes > 1);
    adj_plan_destroy(plan);
  }
  adj_result_destroy(result);
}

static void streams_are_what_is_collected(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 300, 3);
  for (int a = 0; a < ALGORITHM_COUNT; a++) {
    check_streams(ctx, set, &(question){.k = 5, .algorithm = ALGORITHMS[a]});
    check_streams(ctx, set, &(question){.k = 60, .algorithm = ALGORITHMS[a], .radius = 0.2});
    check_streams(ctx, set, &(question){.k = 320, .algorithm = ALGORITHMS[a]}); /* rows are padded */
  }
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* More threads than cores or batches give the same table as one thread. */
static void threads_do_not_matter(void **state) {
  (void)state;
  adj_ctx *one = context_of(1, NULL);
  adj_dataset *points = uniform(one, 1500, 4);
  for (int a = 0; a < ALGORITHM_COUNT; a++) {
    question q = {.k = 12, .algorithm = ALGORITHMS[a]};
    adj_plan *plan = plan_for(one, points, &q);
    adj_result *right = NULL;
    must(adj_collect(plan, &right, NULL, NULL));
    adj_plan_destroy(plan);
    for (uint32_t threads = 2; threads <= 32; threads += threads < 5 ? 1 : 27) {
      adj_ctx *ctx = context_of(threads, NULL);
      adj_dataset *set = uniform(ctx, 1500, 4);
      adj_result *result = NULL;
      adj_stats stats;
      adj_stats_init(&stats, sizeof stats);
      plan = plan_for(ctx, set, &q);
      must(adj_collect(plan, &result, NULL, &stats));
      assert_int_equal(stats.threads, threads);
      table whole = table_of(right, q.k);
      adj_rows all = {0, adj_result_rows(result), adj_result_offsets(result), adj_result_ids(result),
                      adj_result_distances(result)};
      assert_int_equal(compare_block(&whole, &all), ADJ_OK);
      adj_result_destroy(result);
      adj_plan_destroy(plan);
      adj_dataset_destroy(set);
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
      adj_ctx_destroy(ctx);
    }
    adj_result_destroy(right);
  }
  adj_dataset_destroy(points);
  adj_ctx_destroy(one);
}

/* ---- Sinks and limits ------------------------------------------------------------------------------------- */

static void sinks_may_refuse(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 1000, 2);
  adj_plan *plan = plan_for(ctx, set, &(question){.k = 6, .tuning = "buffer=4096"});
  refuse_everywhere(ctx, plan, 1000);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void max_pairs_is_kept(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 500, 2);
  adj_plan *plan = plan_for(ctx, set, &(question){.k = 7});
  limit_pairs(ctx, plan, 3500);
  adj_plan_destroy(plan);
  /* With a radius rows have fewer than k neighbours. Only these are counted. */
  uint64_t found = 0;
  plan = plan_for(ctx, set, &(question){.k = 7, .radius = 0.04, .tuning = "buffer=4096"});
  must(adj_count(plan, NULL, &found, NULL, NULL));
  assert_in_range(found, 500, 2500);
  limit_pairs(ctx, plan, found);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* 1000 points with 4000 entries each, 8 bytes an entry: 30.6 MiB, in a context of 12 MiB. */
static void memory_limit_is_kept(void **state) {
  (void)state;
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  options.memory_limit = 12 << 20;
  adj_ctx *ctx;
  must(adj_ctx_create(&options, &ctx));
  adj_dataset *set = uniform(ctx, 1000, 2);
  for (int a = 0; a < ALGORITHM_COUNT; a++) {
    adj_plan *plan = plan_for(ctx, set, &(question){.k = 4000, .algorithm = ALGORITHMS[a]});
    uint64_t used = adj_ctx_memory_used(ctx);
    refuse_to_collect(ctx, plan, 30, 32);
    counter c = {0};
    adj_sink sink = sink_of(&c);
    must(adj_stream(plan, &sink, NULL, NULL)); /* what does not fit can be streamed */
    assert_int_equal(c.pairs, 4000000);
    assert_true(c.writes > 1);
    assert_true(adj_ctx_memory_peak(ctx) <= options.memory_limit);
    assert_int_equal(adj_ctx_memory_used(ctx), used);
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Progress and cancelling ---------------------------------------------------------------------------- */

static void progress_goes_forward(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(3, NULL);
  adj_dataset *set = uniform(ctx, 3000, 2);
  for (int a = 0; a < ALGORITHM_COUNT; a++) {
    adj_plan *plan = plan_for(ctx, set, &(question){.k = 4, .algorithm = ALGORITHMS[a], .tuning = "buffer=30000"});
    watch_runs(plan); /* the stream fills its buffer four times */
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

static void progress_can_cancel(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 3000, 2);
  for (int a = 0; a < ALGORITHM_COUNT; a++) {
    adj_plan *plan = plan_for(ctx, set, &(question){.k = 4, .algorithm = ALGORITHMS[a], .tuning = "batch=64"});
    for (int at = 1; at <= 3; at++)
      cancel_by_progress(ctx, plan, at);
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* A join that takes many seconds ends at once when another thread cancels it. */
static void another_thread_can_cancel(void **state) {
  (void)state;
  for (int a = 0; a < ALGORITHM_COUNT; a++) {
    adj_ctx *ctx = context_of(2, "scalar");
    adj_dataset *set = uniform(ctx, 30000, 40);
    adj_plan *plan = plan_for(ctx, set, &(question){.k = 30, .algorithm = ALGORITHMS[a]});
    pthread_t thread;
    double began = seconds();
    pthread_create(&thread, NULL, cancel_soon, ctx);
    adj_result *result = NULL;
    must_fail(ADJ_CANCELLED, "stopped", adj_collect(plan, &result, NULL, NULL));
    assert_true(seconds() - began < 5); /* generous: sanitizers slow things down */
    pthread_join(thread, NULL);
    assert_null(result);
    adj_plan_destroy(plan);
    adj_dataset_destroy(set);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

static void sink_can_cancel(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 1000, 2);
  adj_plan *plan = plan_for(ctx, set, &(question){.k = 4, .tuning = "buffer=3000"});
  cancel_by_sink(ctx, plan, 1000);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- Figures ---------------------------------------------------------------------------------------------- */

static void figures_add_up(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 2000, 3);
  for (int a = 0; a < ALGORITHM_COUNT; a++) {
    adj_plan *plan = plan_for(ctx, set, &(question){.k = 9, .algorithm = ALGORITHMS[a]});
    adj_estimate estimate;
    adj_estimate_init(&estimate, sizeof estimate);
    must(adj_plan_estimate(plan, &estimate));
    assert_true(estimate.pairs == 18000);
    assert_true(estimate.result_bytes >= 8 * estimate.pairs);
    adj_result *result = NULL;
    adj_stats stats;
    adj_stats_init(&stats, sizeof stats);
    double began = seconds();
    must(adj_collect(plan, &result, NULL, &stats));
    double took = seconds() - began;
    assert_string_equal(stats.backend, "cpu");
    if (ALGORITHMS[a]) assert_string_equal(stats.algorithm, ALGORITHMS[a]);
    assert_string_equal(stats.isa, adj_ctx_isa(ctx));
    assert_int_equal(stats.pairs, 18000);
    assert_true(stats.candidates >= stats.pairs);
    assert_true(stats.batches >= 1);
    assert_true(stats.join_s > 0 && stats.join_s <= took);
    assert_true(stats.peak_bytes >= 8 * stats.pairs);
    assert_true(stats.imbalance >= 0);
    char text[2000];
    must(adj_plan_explain(plan, text, sizeof text, NULL));
    assert_non_null(strstr(text, "k 9"));
    assert_non_null(strstr(text, "run: 18000 pairs"));
    adj_result_destroy(result);
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_are_what_is_collected),
      cmocka_unit_test(threads_do_not_matter),
      cmocka_unit_test(sinks_may_refuse),
      cmocka_unit_test(max_pairs_is_kept),
      cmocka_unit_test(memory_limit_is_kept),
      cmocka_unit_test(progress_goes_forward),
      cmocka_unit_test(progress_can_cancel),
      cmocka_unit_test(another_thread_can_cancel),
      cmocka_unit_test(sink_can_cancel),
      cmocka_unit_test(figures_add_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
