/* SPDX-License-Identifier: MIT
 *
 * adj_dbscan, compared with the definition: rows from the reference, and clusters grown one after another from their
 * lowest core points, as in scikit-learn. On cores, on software devices and on both; with rows in many blocks, so that
 * clusters merge after border points were near both of them; memory that runs out; cancels; wrong use.
 */
#include <math.h>

#include "cases.h"
#include "core/context.h"
#include "running.h"
#include "software/scene.h"

typedef struct clusters {
  int64_t *labels;
  uint8_t *core;
  uint64_t many;
} clusters;

static clusters no_clusters(uint64_t count) {
  clusters out = {malloc((count + 1) * sizeof *out.labels), malloc(count + 1), 12345};
  assert_true(out.labels && out.core);
  memset(out.labels, 77, count * sizeof *out.labels);
  memset(out.core, 77, count);
  return out;
}

static void forget(clusters c) {
  free(c.labels);
  free(c.core);
}

/* ---- The definition ---------------------------------------------------------------------------------------- */

/* Gives the label to every point reached from a core point that has no label yet. */
static void grow(const reference_rows *rows, clusters *out, uint32_t first, int64_t label, uint32_t *stack) {
  uint64_t depth = 0;
  stack[depth++] = first;
  out->labels[first] = label;
  while (depth) {
    uint32_t i = stack[--depth];
    if (!out->core[i]) continue;
    for (uint64_t e = rows->offsets[i]; e < rows->offsets[i + 1]; e++) {
      uint32_t j = rows->ids[e];
      if (out->labels[j] != -1) continue;
      out->labels[j] = label;
      stack[depth++] = j;
    }
  }
}

static clusters defined(const point_set *set, adj_join_spec spec, uint64_t min_points, const double *weights) {
  reference_rows rows = {0};
  clusters out = no_clusters(set->count);
  uint32_t *stack = malloc((set->count + 1) * sizeof *stack);
  spec.flags = ADJ_WITH_SELF;
  assert_true(stack && reference_join(set, NULL, &spec, &rows, NULL));
  for (uint64_t i = 0; i < set->count; i++) {
    double sum = 0;
    for (uint64_t e = rows.offsets[i]; e < rows.offsets[i + 1]; e++)
      sum += weights ? weights[rows.ids[e]] : 1;
    out.core[i] = sum >= (double)min_points;
    out.labels[i] = -1;
  }
  out.many = 0;
  for (uint64_t i = 0; i < set->count; i++)
    if (out.core[i] && out.labels[i] == -1) grow(&rows, &out, (uint32_t)i, (int64_t)out.many++, stack);
  reference_free(&rows);
  free(stack);
  return out;
}

/* ---- The library against it -------------------------------------------------------------------------------- */

static adj_dbscan_job job_for(clusters *out, uint64_t min_points, const double *weights, uint64_t count) {
  adj_dbscan_job job;
  adj_dbscan_job_init(&job, sizeof job);
  job.min_points = min_points;
  job.weights = weights;
  job.weight_count = weights ? count : 0;
  job.labels = out->labels;
  job.core = out->core;
  job.clusters = &out->many;
  return job;
}

static void must_be(const char *name, const clusters *found, const clusters *expected, uint64_t count) {
  if (found->many != expected->many)
    fail_msg("%s: %llu clusters, not %llu", name, (unsigned long long)found->many, (unsigned long long)expected->many);
  for (uint64_t i = 0; i < count; i++)
    if (found->labels[i] != expected->labels[i] || found->core[i] != expected->core[i])
      fail_msg("%s: point %llu: cluster %lld, core %d; not %lld, %d", name, (unsigned long long)i,
               (long long)found->labels[i], found->core[i], (long long)expected->labels[i], expected->core[i]);
}

static void check_set(adj_ctx *ctx, const char *name, const point_set *set, const adj_join_spec *spec,
                      uint64_t min_points, const double *weights) {
  clusters expected = defined(set, *spec, min_points, weights), found = no_clusters(set->count);
  adj_dataset *points = dataset_with(ctx, set);
  adj_dbscan_job job = job_for(&found, min_points, weights, set->count);
  must(adj_dbscan(ctx, spec, points, &job, NULL, NULL));
  must_be(name, &found, &expected, set->count);
  adj_dataset_destroy(points);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  forget(found);
  forget(expected);
}

/* Checks every case that fits DBSCAN: range joins of one set. */
static void check_cases(adj_ctx *ctx, adj_backend backend, uint32_t step) {
  uint32_t checked = 0;
  for (uint32_t n = 0; n < case_count(); n += step) {
    join_case c;
    assert_true(case_build(n, &c));
    adj_join_spec spec = case_spec(&c);
    spec.flags = 0;
    spec.backend = backend;
    if (!c.k && c.self_join && !c.radii && c.left.count < 1500) {
      check_set(ctx, c.name, &c.left, &spec, 1 + n % 5, NULL);
      checked++;
    }
    case_free(&c);
  }
  print_message("%u cases\n", checked);
  assert_true(checked > 15);
}

static void cases_on_cores(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(3, NULL);
  check_cases(ctx, ADJ_BACKEND_CPU, 7);
  adj_ctx_destroy(ctx);
}

static void cases_on_devices(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(2, 2, 0);
  check_cases(ctx, ADJ_BACKEND_GPU, 17);
  check_cases(ctx, ADJ_BACKEND_HYBRID, 19);
  adj_ctx_destroy(ctx);
}

/* Points in the plane, on a grid with `side` places per side: few neighbours, and clusters of every shape. */
static void scatter(float *at, uint64_t count, uint32_t side, uint64_t seed) {
  uint64_t x = seed * 2 + 1;
  for (uint64_t i = 0; i < 2 * count; i++) {
    x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    at[i] = (float)((x >> 33) % side);
  }
}

/* Rows come in blocks of a few hundred, so most clusters are merged across many blocks. Weights are multiples of 1/8,
 * so that sums are exact, and some are negative. */
static void rows_in_many_blocks(void **state) {
  (void)state;
  enum { COUNT = 2000 };
  float *at = malloc((size_t)2 * COUNT * sizeof *at);
  double *weights = malloc(COUNT * sizeof *weights);
  assert_true(at && weights);
  adj_ctx *ctx = context_of(3, NULL), *devices = software_context(2, 1, 0);
  point_set set = {ADJ_F32, 2, COUNT, at};
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 1;
  for (uint32_t round = 0; round < 6; round++) {
    scatter(at, COUNT, 40 + 8 * round, round);
    for (uint64_t i = 0; i < COUNT; i++)
      weights[i] = (double)((i * 2654435761u) % 19) / 8 - 0.5;
    bool gpu = round % 3 == 2;
    spec.backend = gpu ? ADJ_BACKEND_GPU : ADJ_BACKEND_CPU;
    spec.tuning = round % 2 ? "buffer=4096" : "buffer=800";
    for (uint64_t min_points = 2; min_points < 6; min_points++)
      check_set(gpu ? devices : ctx, "blocks", &set, &spec, min_points, min_points % 2 ? weights : NULL);
  }
  adj_ctx_destroy(ctx);
  adj_ctx_destroy(devices);
  free(weights);
  free(at);
}

static void threads_agree(void **state) {
  (void)state;
  enum { COUNT = 30000 };
  clusters one = no_clusters(COUNT);
  for (uint32_t threads = 1; threads < 9; threads += 3) {
    adj_ctx *ctx = context_of(threads, NULL);
    adj_dataset *set = uniform(ctx, COUNT, 2);
    adj_join_spec spec;
    adj_join_spec_init(&spec, sizeof spec);
    spec.radius = 0.0062;
    if (threads > 1) spec.tuning = "buffer=65536";
    clusters found = no_clusters(COUNT);
    adj_dbscan_job job = job_for(threads == 1 ? &one : &found, 5, NULL, COUNT);
    must(adj_dbscan(ctx, &spec, set, &job, NULL, NULL));
    if (threads > 1) must_be("threads", &found, &one, COUNT);
    forget(found);
    adj_dataset_destroy(set);
    adj_ctx_destroy(ctx);
  }
  assert_true(one.many > 50);
  forget(one);
}

/* All pairs of 4,000 points belong: 61 MiB of ids, through a buffer of 1 MiB. */
static void pairs_are_not_kept(void **state) {
  (void)state;
  enum { COUNT = 4000 };
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, COUNT, 2);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 2;
  spec.tuning = "buffer=1048576";
  clusters found = no_clusters(COUNT);
  adj_dbscan_job job = job_for(&found, COUNT, NULL, COUNT);
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  must(adj_dbscan(ctx, &spec, set, &job, NULL, &stats));
  assert_int_equal(stats.pairs, COUNT * COUNT);
  assert_int_equal(found.many, 1);
  assert_true(stats.peak_bytes < 3 << 20);
  forget(found);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- What goes wrong --------------------------------------------------------------------------------------- */

/* Memory runs out at every allocation in turn. Outputs do not change. */
static void memory_runs_out(void **state) {
  (void)state;
  enum { COUNT = 900 };
  float *at = malloc((size_t)2 * COUNT * sizeof *at);
  assert_non_null(at);
  scatter(at, COUNT, 30, 3);
  adj_ctx *ctx = context_of(2, NULL);
  point_set set = {ADJ_F32, 2, COUNT, at};
  adj_dataset *points = dataset_with(ctx, &set);
  uint64_t used = adj_ctx_memory_used(ctx);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 1;
  spec.tuning = "buffer=4096";
  clusters expected = defined(&set, spec, 4, NULL), before = no_clusters(COUNT);
  int64_t n = 0;
  for (bool done = false; !done; n++) {
    clusters found = no_clusters(COUNT);
    adj_dbscan_job job = job_for(&found, 4, NULL, COUNT);
    atomic_store(&ctx->memory.fail_at, n);
    adj_status status = adj_dbscan(ctx, &spec, points, &job, NULL, NULL);
    done = atomic_exchange(&ctx->memory.fail_at, -1) >= 0;
    assert_true(status == ADJ_OK || status == ADJ_E_MEMORY);
    must_be("memory", &found, status ? &before : &expected, COUNT);
    assert_int_equal(adj_ctx_memory_used(ctx), used);
    forget(found);
  }
  print_message("%lld allocations can fail\n", (long long)n - 1);
  assert_true(n > 10);
  forget(before);
  forget(expected);
  adj_dataset_destroy(points);
  adj_ctx_destroy(ctx);
  free(at);
}

typedef struct reports {
  double last;
  int calls, stop_at; /* 0: never */
} reports;

static int follow(void *user, const adj_progress *where) {
  reports *r = user;
  assert_true(where->fraction >= r->last && where->fraction <= 1);
  r->last = where->fraction;
  return ++r->calls == r->stop_at;
}

static void progress_and_cancel(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, COUNT, 2);
  clusters found = no_clusters(COUNT), before = no_clusters(COUNT);
  double *weights = malloc(COUNT * sizeof *weights);
  assert_non_null(weights);
  for (int i = 0; i < COUNT; i++)
    weights[i] = 1;
  adj_dbscan_job job = job_for(&found, 5, weights, COUNT);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 0.008;
  spec.tuning = "buffer=65536";
  reports seen = {0};
  adj_run_control control = control_of();
  control.progress = follow;
  control.user = &seen;
  must(adj_dbscan(ctx, &spec, set, &job, &control, NULL));
  assert_true(seen.calls > 3 && seen.last > 0.9);
  forget(found);
  found = no_clusters(COUNT);
  job = job_for(&found, 5, weights, COUNT);
  for (int at = 1; at < seen.calls; at += seen.calls / 5 + 1) {
    reports stopping = {.stop_at = at};
    control.user = &stopping;
    assert_int_equal(adj_dbscan(ctx, &spec, set, &job, &control, NULL), ADJ_CANCELLED);
    must_be("cancelled", &found, &before, COUNT);
  }
  control = control_of();
  control.max_pairs = COUNT;
  must_fail(ADJ_E_LIMIT, "pairs", adj_dbscan(ctx, &spec, set, &job, &control, NULL));
  forget(found);
  forget(before);
  free(weights);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

static void wrong_use_is_named(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = uniform(ctx, 3, 2);
  clusters found = no_clusters(3);
  double weights[3] = {1, NAN, 1}, radii[3] = {1, 1, 1};
  adj_join_spec spec, wrong;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 2;
  adj_dbscan_job job = job_for(&found, 5, NULL, 3), bad = job;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  must(adj_dbscan(ctx, &spec, set, &job, NULL, &stats));
  assert_int_equal(stats.pairs, 9); /* each point with itself too */
  must_fail(ADJ_E_ARGUMENT, "job", adj_dbscan(ctx, &spec, set, NULL, NULL, NULL));
  wrong = spec;
  wrong.kind = ADJ_KNN;
  must_fail(ADJ_E_ARGUMENT, "kind", adj_dbscan(ctx, &wrong, set, &job, NULL, NULL));
  wrong = spec;
  wrong.flags = ADJ_ONE_WAY;
  must_fail(ADJ_E_ARGUMENT, "flags", adj_dbscan(ctx, &wrong, set, &job, NULL, NULL));
  wrong = spec;
  wrong.radii = radii;
  wrong.radius_count = 3;
  must_fail(ADJ_E_ARGUMENT, "radii", adj_dbscan(ctx, &wrong, set, &job, NULL, NULL));
  wrong = spec;
  wrong.radius = NAN;
  must_fail(ADJ_E_ARGUMENT, "radius", adj_dbscan(ctx, &wrong, set, &job, NULL, NULL));
  bad.min_points = 0;
  must_fail(ADJ_E_ARGUMENT, "min_points", adj_dbscan(ctx, &spec, set, &bad, NULL, NULL));
  bad = job;
  bad.labels = NULL;
  must_fail(ADJ_E_ARGUMENT, "labels", adj_dbscan(ctx, &spec, set, &bad, NULL, NULL));
  bad = job;
  bad.weights = weights;
  bad.weight_count = 2;
  must_fail(ADJ_E_ARGUMENT, "2 weights, but 3 points", adj_dbscan(ctx, &spec, set, &bad, NULL, NULL));
  bad.weight_count = 3;
  must_fail(ADJ_E_ARGUMENT, "row 2", adj_dbscan(ctx, &spec, set, &bad, NULL, NULL));
  bad = job;
  bad.struct_size = 3;
  must_fail(ADJ_E_STRUCT, "adj_dbscan_job", adj_dbscan(ctx, &spec, set, &bad, NULL, NULL));
  forget(found);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cases_on_cores),      cmocka_unit_test(cases_on_devices),
      cmocka_unit_test(rows_in_many_blocks), cmocka_unit_test(threads_agree),
      cmocka_unit_test(pairs_are_not_kept),  cmocka_unit_test(memory_runs_out),
      cmocka_unit_test(progress_and_cancel), cmocka_unit_test(wrong_use_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
