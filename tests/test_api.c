/* SPDX-License-Identifier: MIT
 *
 * The public interface as a caller meets it: the simple calls, wrong arguments and the messages they
 * give, structs of older and newer callers, limits, and a context that goes on after a failure.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "adjoin_cuda.h"
#include "check.h"
#include "compare.h"

/* ---- What most tests begin with ------------------------------------------------------------------------ */

static adj_join_spec range_spec(double radius) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_RANGE;
  spec.radius = radius;
  return spec;
}

static adj_plan *range_plan(adj_ctx *ctx, const adj_dataset *set, double radius) {
  adj_join_spec spec = range_spec(radius);
  adj_plan *plan = NULL;
  must(adj_plan_create(ctx, &spec, set, NULL, &plan));
  return plan;
}

static uint64_t count_pairs(adj_plan *plan) {
  uint64_t total = 0;
  must(adj_count(plan, NULL, &total, NULL, NULL));
  return total;
}

/* ---- Status, version, context --------------------------------------------------------------------------- */

static void statuses_have_names(void **state) {
  (void)state;
  assert_string_equal(adj_status_name(ADJ_OK), "ADJ_OK");
  assert_string_equal(adj_status_name(ADJ_E_LIMIT), "ADJ_E_LIMIT");
  assert_string_equal(adj_status_text(ADJ_CANCELLED), "stopped by the caller");
  assert_string_equal(adj_status_name((adj_status)-7), "ADJ_UNKNOWN");
  assert_string_equal(adj_status_text((adj_status)-7), "unknown status");
  assert_non_null(adj_last_error());
  assert_int_equal(adj_version_number(), ADJ_VERSION_MAJOR * 10000 + ADJ_VERSION_MINOR * 100 + ADJ_VERSION_PATCH);
  assert_string_equal(adj_version_string(), ADJ_VERSION_STRING);
  assert_non_null(adj_build_features());
  size_t length = strlen(adj_build_features());
  assert_false(length && (adj_build_features()[0] == ' ' || adj_build_features()[length - 1] == ' '));
}

static void contexts_say_what_they_are(void **state) {
  (void)state;
  adj_ctx *ctx;
  must(adj_ctx_create(NULL, &ctx));
  assert_true(adj_ctx_threads(ctx) >= 1);
  assert_true(adj_ctx_memory_limit(ctx) > 0);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  assert_string_equal(adj_ctx_isa(ctx), adj_isa_name(0));
  adj_ctx_destroy(ctx);
  adj_ctx_destroy(NULL);
  ctx = context_of(3, "scalar");
  assert_int_equal(adj_ctx_threads(ctx), 3);
  assert_string_equal(adj_ctx_isa(ctx), "scalar");
  adj_ctx_destroy(ctx);

  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  adj_ctx *untouched = (adj_ctx *)&options;
  ctx = untouched;
  options.isa = "mmx";
  must_fail(ADJ_E_ARGUMENT, "\"mmx\" is none of", adj_ctx_create(&options, &ctx));
  options.isa = NULL;
  options.threads = 5000;
  must_fail(ADJ_E_ARGUMENT, "threads: 5000", adj_ctx_create(&options, &ctx));
  must_fail(ADJ_E_ARGUMENT, "out", adj_ctx_create(NULL, NULL));
  assert_ptr_equal(ctx, untouched);
}

static void structs_of_other_versions(void **state) {
  (void)state;
  /* An older caller knows only the first fields. The others keep their defaults. */
  adj_ctx_options older;
  memset(&older, 0xee, sizeof older);
  adj_ctx_options_init(&older, 8);
  older.threads = 2;
  adj_ctx *ctx;
  must(adj_ctx_create(&older, &ctx));
  assert_int_equal(adj_ctx_threads(ctx), 2);
  /* Unknown fields of a newer caller are refused if they are used. */
  struct {
    adj_join_spec known;
    uint64_t unknown;
  } newer;
  adj_join_spec_init(&newer.known, sizeof newer);
  newer.known.kind = ADJ_RANGE;
  newer.known.radius = 0.1;
  adj_dataset *set = uniform(ctx, 100, 2);
  adj_plan *plan;
  must(adj_plan_create(ctx, &newer.known, set, NULL, &plan));
  adj_plan_destroy(plan);
  newer.unknown = 1;
  must_fail(ADJ_E_STRUCT, "adj_join_spec", adj_plan_create(ctx, &newer.known, set, NULL, &plan));
  adj_join_spec spec = range_spec(0.1);
  spec.struct_size = 0;
  must_fail(ADJ_E_STRUCT, "adj_join_spec_init", adj_plan_create(ctx, &spec, set, NULL, &plan));
  adj_points points;
  memset(&points, 0, sizeof points);
  must_fail(ADJ_E_STRUCT, "adj_points", adj_dataset_create(ctx, &points, &set));
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* Nothing is written beyond the end of an older caller's struct. */
static void results_fit_older_structs(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 1000, 2);
  adj_plan *plan = range_plan(ctx, set, 0.05);
  adj_stats stats, before;
  memset(&stats, 0xee, sizeof stats);
  adj_stats_init(&stats, offsetof(adj_stats, pairs));
  before = stats;
  must(adj_count(plan, NULL, NULL, NULL, &stats));
  assert_int_equal(stats.struct_size, offsetof(adj_stats, pairs));
  assert_int_equal(stats.threads, 2);
  assert_non_null(stats.backend);
  assert_non_null(stats.algorithm);
  size_t known = offsetof(adj_stats, pairs);
  assert_memory_equal((char *)&stats + known, (char *)&before + known, sizeof stats - known);
  adj_run_control control;
  memset(&control, 0, sizeof control);
  must_fail(ADJ_E_STRUCT, "adj_run_control", adj_count(plan, NULL, NULL, &control, NULL));
  memset(&stats, 0, sizeof stats);
  must_fail(ADJ_E_STRUCT, "adj_stats", adj_count(plan, NULL, NULL, NULL, &stats));
  adj_estimate estimate;
  memset(&estimate, 0, sizeof estimate);
  must_fail(ADJ_E_STRUCT, "adj_estimate", adj_plan_estimate(plan, &estimate));
  adj_worker worker;
  adj_worker_init(&worker, sizeof worker);
  must_fail(ADJ_E_ARGUMENT, "worker 0",
            adj_plan_worker(plan, 0, &worker)); /* a join on cores alone has no list of workers */
  must_fail(ADJ_E_ARGUMENT, "NULL", adj_plan_worker(NULL, 0, &worker));
  must_fail(ADJ_E_ARGUMENT, "NULL", adj_plan_worker(plan, 0, NULL));
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- Datasets ---------------------------------------------------------------------------------------------- */

static adj_points points_of(const void *data, uint64_t count, uint32_t dim) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.data = data;
  points.count = count;
  points.dim = dim;
  return points;
}

static void datasets_are_checked(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  float data[6] = {1, 2, 3, 4, NAN, 6};
  adj_points points = points_of(data, 3, 2);
  adj_dataset *untouched = (adj_dataset *)ctx, *set = untouched;
  must_fail(ADJ_E_DATA, "row 3, column 1", adj_dataset_create(ctx, &points, &set));
  data[4] = -INFINITY;
  must_fail(ADJ_E_DATA, "infinity", adj_dataset_create(ctx, &points, &set));
  data[4] = 5;
  points.dim = 0;
  must_fail(ADJ_E_ARGUMENT, "dim: 0", adj_dataset_create(ctx, &points, &set));
  points = points_of(data, ADJ_MAX_COUNT + 1, 2);
  must_fail(ADJ_E_ARGUMENT, "count", adj_dataset_create(ctx, &points, &set));
  points = points_of(NULL, 3, 2);
  must_fail(ADJ_E_ARGUMENT, "data", adj_dataset_create(ctx, &points, &set));
  points = points_of(data, 3, 2);
  points.type = (adj_type)9;
  must_fail(ADJ_E_ARGUMENT, "type: 9", adj_dataset_create(ctx, &points, &set));
  points = points_of(data, 3, 2);
  points.row_stride = 7;
  must_fail(ADJ_E_ARGUMENT, "row_stride", adj_dataset_create(ctx, &points, &set));
  points = points_of(data, 3, 2);
  points.ownership = (adj_ownership)0;
  must_fail(ADJ_E_ARGUMENT, "ownership", adj_dataset_create(ctx, &points, &set));
  must_fail(ADJ_E_ARGUMENT, "ctx", adj_dataset_create(NULL, &points, &set));
  assert_ptr_equal(set, untouched);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_dataset_destroy(NULL);
  adj_ctx_destroy(ctx);
}

static void datasets_answer(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  double data[6] = {1, -2, 3, 4, -5, 6}, row[2], low, high;
  adj_points points = points_of(data, 3, 2);
  points.type = ADJ_F64;
  adj_dataset *set;
  must(adj_dataset_create(ctx, &points, &set));
  data[0] = 99; /* the points were copied */
  assert_int_equal(adj_dataset_count(set), 3);
  assert_int_equal(adj_dataset_dim(set), 2);
  assert_int_equal(adj_dataset_type(set), ADJ_F64);
  must(adj_dataset_row(set, 0, row));
  assert_true(row[0] == 1 && row[1] == -2);
  must_fail(ADJ_E_ARGUMENT, "row: 3", adj_dataset_row(set, 3, row));
  adj_dataset_bounds(set, 0, &low, &high);
  assert_true(low == -5 && high == 3);
  adj_dataset_bounds(set, 1, &low, &high);
  assert_true(low == -2 && high == 6);
  size_t length;
  assert_null(adj_dataset_label(set, 0, &length));
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* The same points by rows, by columns and out of a wider record give the same join. */
static void strides_do_not_matter(void **state) {
  (void)state;
  enum { N = 300 };
  static float packed[N][3], columns[3][N], wide[N][8];
  join_case random = {.random = 7};
  for (int i = 0; i < N; i++)
    for (int j = 0; j < 3; j++)
      packed[i][j] = columns[j][i] = wide[i][7 - 2 * j] = (float)case_random_unit(&random);
  adj_ctx *ctx = context_of(2, NULL);
  adj_result *results[4];
  for (int k = 0; k < 4; k++) {
    adj_points points = points_of(k == 0 ? (void *)packed : k == 1 ? (void *)columns : (void *)wide[0], N, 3);
    points.ownership = k == 3 ? ADJ_COPY : ADJ_BORROW;
    if (k == 1) points.row_stride = sizeof(float), points.column_stride = N * sizeof(float);
    if (k >= 2) {
      points.row_stride = sizeof wide[0];
      points.column_stride = 2 * sizeof(float);
      for (int i = 0; k == 2 && i < N; i++) /* coordinates are in columns 1, 3, 5 */
        for (int j = 0; j < 3; j++)
          wide[i][1 + 2 * j] = packed[i][j];
      points.data = &wide[0][1];
    }
    adj_dataset *set;
    must(adj_dataset_create(ctx, &points, &set));
    adj_plan *plan = range_plan(ctx, set, 0.2);
    must(adj_collect(plan, &results[k], NULL, NULL));
    adj_plan_destroy(plan);
    adj_dataset_destroy(set);
  }
  uint64_t pairs = adj_result_pairs(results[0]);
  assert_true(pairs > 1000);
  for (int k = 1; k < 4; k++) {
    assert_int_equal(adj_result_pairs(results[k]), pairs);
    assert_memory_equal(adj_result_offsets(results[k]), adj_result_offsets(results[0]), (N + 1) * sizeof(uint64_t));
    assert_memory_equal(adj_result_ids(results[k]), adj_result_ids(results[0]), pairs * sizeof(uint32_t));
  }
  for (int k = 0; k < 4; k++)
    adj_result_destroy(results[k]);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- The simple calls ---------------------------------------------------------------------------------------- */

static void simple_call(void **state) {
  (void)state;
  const double points[] = {0, 0, 3, 4, 3, 4, 10, 10};
  const uint64_t offsets[] = {0, 2, 4, 6, 6};
  const uint32_t ids[] = {1, 2, 0, 2, 0, 1};
  adj_result *result;
  must(adj_range_join(ADJ_F64, points, 4, 2, 5, &result));
  assert_int_equal(adj_result_rows(result), 4);
  assert_int_equal(adj_result_pairs(result), 6);
  assert_memory_equal(adj_result_offsets(result), offsets, sizeof offsets);
  assert_memory_equal(adj_result_ids(result), ids, sizeof ids);
  assert_null(adj_result_distances(result));
  assert_int_equal(adj_result_type(result), ADJ_F64);
  adj_result_destroy(result);
  must(adj_range_join(ADJ_F32, NULL, 0, 2, 5, &result));
  assert_int_equal(adj_result_rows(result), 0);
  assert_int_equal(adj_result_pairs(result), 0);
  assert_int_equal(adj_result_offsets(result)[0], 0);
  adj_result_destroy(result);
  adj_result_destroy(NULL);
  adj_result *untouched = (adj_result *)&result;
  result = untouched;
  must_fail(ADJ_E_ARGUMENT, "radius", adj_range_join(ADJ_F64, points, 4, 2, -1, &result));
  must_fail(ADJ_E_ARGUMENT, "radius", adj_range_join(ADJ_F64, points, 4, 2, NAN, &result));
  must_fail(ADJ_E_ARGUMENT, "data", adj_range_join(ADJ_F64, NULL, 4, 2, 1, &result));
  must_fail(ADJ_E_ARGUMENT, "dim", adj_range_join(ADJ_F64, points, 4, 0, 1, &result));
  must_fail(ADJ_E_ARGUMENT, "out", adj_range_join(ADJ_F64, points, 4, 2, 1, NULL));
  assert_ptr_equal(result, untouched);
}

static void simple_knn_join(void **state) {
  (void)state;
  const float points[] = {0, 1, 3, 3};
  const uint32_t expected[] = {1, 2, 3, 0, 2, 3, 3, 1, 0, 2, 1, 0};
  adj_result *result;
  assert_int_equal(adj_knn_join(ADJ_F32, points, 4, 1, 3, &result), ADJ_OK);
  assert_int_equal(adj_result_rows(result), 4);
  assert_int_equal(adj_result_offsets(result)[4], 12);
  assert_memory_equal(adj_result_ids(result), expected, sizeof expected);
  adj_result_destroy(result);
  /* If k is larger than the number of neighbours, rows are padded. */
  assert_int_equal(adj_knn_join(ADJ_F32, points, 2, 1, 2, &result), ADJ_OK);
  const uint32_t padded[] = {1, ADJ_NO_ID, 0, ADJ_NO_ID};
  assert_memory_equal(adj_result_ids(result), padded, sizeof padded);
  assert_int_equal(adj_result_pairs(result), 2); /* padding is not counted */
  assert_int_equal(adj_result_offsets(result)[2], 4);
  adj_result_destroy(result);
  must_fail(ADJ_E_ARGUMENT, "k:", adj_knn_join(ADJ_F32, points, 2, 1, 0, &result));
}

/* From points to a result in one call, with one set and with two. */
static void joins_in_one_call(void **state) {
  (void)state;
  const double near[] = {0, 0, 3, 4, 3, 4, 10, 10}, far[] = {3, 3, 9, 9};
  const uint64_t offsets[] = {0, 1, 2, 3, 4}, own_offsets[] = {0, 0, 1, 2, 2};
  const uint32_t ids[] = {0, 0, 0, 1}, own_ids[] = {2, 1};
  adj_ctx *ctx = context_of(1, NULL);
  adj_points left, right;
  adj_points_init(&left, sizeof left);
  left.type = ADJ_F64;
  left.dim = 2;
  left.count = 4;
  left.data = near;
  left.ownership = ADJ_BORROW;
  right = left;
  right.count = 2;
  right.data = far;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 4.5;
  adj_result *result;
  must(adj_join(ctx, &spec, &left, &right, &result));
  assert_memory_equal(adj_result_offsets(result), offsets, sizeof offsets);
  assert_memory_equal(adj_result_ids(result), ids, sizeof ids);
  adj_result_destroy(result);
  must(adj_join(ctx, &spec, &left, NULL, &result));
  assert_memory_equal(adj_result_offsets(result), own_offsets, sizeof own_offsets);
  assert_memory_equal(adj_result_ids(result), own_ids, sizeof own_ids);
  adj_result_destroy(result);
  adj_result *untouched = result = (adj_result *)&result;
  must_fail(ADJ_E_ARGUMENT, "points", adj_join(ctx, &spec, NULL, NULL, &result));
  must_fail(ADJ_E_ARGUMENT, "out", adj_join(ctx, &spec, &left, NULL, NULL));
  right.dim = 1;
  must_fail(ADJ_E_ARGUMENT, "dimensions", adj_join(ctx, &spec, &left, &right, &result));
  assert_ptr_equal(result, untouched);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Every way to run a join reports the same number of pairs, with and without a radius. */
static void pairs_are_neighbours(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 500, 2);
  for (int bounded = 0; bounded < 2; bounded++) {
    adj_join_spec spec;
    adj_join_spec_init(&spec, sizeof spec);
    spec.kind = ADJ_KNN;
    spec.k = bounded ? 10 : 600;
    if (bounded) spec.radius = 0.05;
    adj_plan *plan = NULL;
    adj_result *result = NULL;
    adj_stats stats;
    adj_stats_init(&stats, sizeof stats);
    must(adj_plan_create(ctx, &spec, set, NULL, &plan));
    must(adj_collect(plan, &result, NULL, &stats));
    uint64_t entries = adj_result_rows(result) * spec.k, pairs = 0;
    assert_int_equal(adj_result_offsets(result)[500], entries);
    for (uint64_t i = 0; i < entries; i++)
      pairs += adj_result_ids(result)[i] != ADJ_NO_ID;
    assert_true(pairs > 0 && pairs < entries);
    assert_int_equal(adj_result_pairs(result), pairs);
    assert_int_equal(stats.pairs, pairs);
    assert_int_equal(count_pairs(plan), pairs);
    adj_result_destroy(result);
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- Metrics ------------------------------------------------------------------------------------------------ */

/* A set of f64 coordinates that the caller keeps. */
static adj_dataset *set_of(adj_ctx *ctx, const double *data, uint64_t count, uint32_t dim) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = ADJ_F64;
  points.data = data;
  points.count = count;
  points.dim = dim;
  points.ownership = ADJ_BORROW;
  adj_dataset *set;
  must(adj_dataset_create(ctx, &points, &set));
  return set;
}

/* The one distance of a join of two points. */
static double distance_of(const double *points, uint32_t dim, adj_join_spec spec) {
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = set_of(ctx, points, 2, dim);
  adj_plan *plan;
  adj_result *result;
  spec.flags = ADJ_WITH_DISTANCE | ADJ_ONE_WAY;
  must(adj_plan_create(ctx, &spec, set, NULL, &plan));
  must(adj_collect(plan, &result, NULL, NULL));
  assert_int_equal(adj_result_pairs(result), 1);
  double distance = *(const double *)adj_result_distances(result);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
  return distance;
}

/* Values that can be checked by hand. Other tests check exactness. */
static void metrics_mean_what_they_say(void **state) {
  (void)state;
  static const double corner[] = {0, 0, 3, 4}, across[] = {1, 0, 0, 2}, opposite[] = {0, 90, 77, -90};
  static const double quarter[] = {-135, 0, -225, 0}, ends[] = {0.25, 5, 9.75, 5}, lengths[] = {10, 0};
  adj_join_spec spec = range_spec(100);
  spec.metric = ADJ_LP;
  spec.p = 3;
  assert_true(fabs(distance_of(corner, 2, spec) - cbrt(27 + 64)) < 1e-14);
  spec.p = 2;
  assert_true(distance_of(corner, 2, spec) == 5);
  spec.p = INFINITY;
  assert_true(distance_of(corner, 2, spec) == 4);
  spec.metric = ADJ_COSINE;
  assert_true(distance_of(across, 2, spec) == 1);
  spec.metric = ADJ_DOT;
  spec.radius = -1;
  assert_true(distance_of(corner, 2, spec) == 0);
  assert_false(signbit(distance_of(corner, 2, spec)));
  spec = range_spec(180);
  spec.metric = ADJ_HAVERSINE;
  spec.unit = ADJ_UNIT_DEGREES;
  assert_true(fabs(distance_of(opposite, 2, spec) - 180) < 1e-13);
  assert_true(fabs(distance_of(quarter, 2, spec) - 90) < 1e-13);
  spec.unit = ADJ_UNIT_METRES;
  spec.sphere_radius = 2;
  assert_true(fabs(distance_of(quarter, 2, spec) - 3.14159265358979) < 1e-13);
  spec = range_spec(1);
  spec.box = lengths;
  spec.box_count = 2;
  assert_true(distance_of(ends, 2, spec) == 0.5);
}

/* ---- Wrong joins ------------------------------------------------------------------------------------------------ */

static void refuse(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right, adj_join_spec spec,
                   adj_status status, const char *word) {
  adj_plan *untouched = (adj_plan *)ctx, *plan = untouched;
  must_fail(status, word, adj_plan_create(ctx, &spec, left, right, &plan));
  assert_ptr_equal(plan, untouched);
}

static void wrong_specs_are_named(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = uniform(ctx, 50, 2), *other = uniform(ctx, 50, 3);
  const adj_join_spec good = range_spec(0.1);
  adj_join_spec spec = good;
  spec.radius = -1e-9;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "radius: -1e-09");
  spec.radius = NAN;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "radius");
  spec.radius = INFINITY;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "radius");
  spec = good;
  spec.kind = (adj_join_kind)0;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "kind");
  spec = good;
  spec.metric = (adj_metric)99;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "metric");
  spec.metric = ADJ_LP;
  spec.p = 0.5;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "p: 0.5");
  spec.p = NAN;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "p: ");
  spec = good;
  spec.order = (adj_order)3;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "order");
  spec = good;
  spec.backend = (adj_backend)17;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "backend");
  spec.backend = ADJ_BACKEND_GPU; /* the context was made with device_count 0 */
  refuse(ctx, set, NULL, spec, ADJ_E_UNSUPPORTED, "GPU");
  spec = good;
  spec.flags = 1u << 20;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "flags");
  spec.flags = ADJ_ONE_WAY | ADJ_WITH_SELF;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "ADJ_WITH_SELF");
  spec = good;
  spec.algorithm = "magic";
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "magic");
  spec = good;
  spec.tuning = "speed=11";
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "speed");
  spec.tuning = "batch=many";
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "many");
  spec.tuning = "batch";
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "batch");
  refuse(ctx, set, other, good, ADJ_E_ARGUMENT, "dim");
  adj_dataset_destroy(other);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void wrong_metrics_are_named(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  static const double rows[] = {1, 2, 0, 0, 4, 95}, length = 3, lengths[] = {3, 0, 3}, wrong[] = {1, -1};
  adj_dataset *set = set_of(ctx, rows, 3, 2), *flat = set_of(ctx, rows, 2, 2), *wide = set_of(ctx, rows, 2, 3);
  adj_dataset *good = set_of(ctx, rows, 1, 2);
  adj_join_spec spec = range_spec(0.1);
  spec.metric = ADJ_COSINE;
  refuse(ctx, set, NULL, spec, ADJ_E_DATA, "row 2: all coordinates are 0");
  refuse(ctx, flat, set, spec, ADJ_E_DATA, "right: row 2");
  refuse(ctx, set, good, spec, ADJ_E_DATA, "left: row 2");
  spec.metric = ADJ_HAVERSINE;
  refuse(ctx, set, NULL, spec, ADJ_E_DATA, "row 3, column 2: latitude 95");
  refuse(ctx, flat, set, spec, ADJ_E_DATA, "right: row 3");
  refuse(ctx, wide, NULL, spec, ADJ_E_ARGUMENT, "2 columns");
  spec.sphere_radius = -1;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "sphere_radius: -1");
  spec.unit = (adj_unit)3;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "unit: 3");
  spec.angle = (adj_angle)2;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "angle: 2");
  spec = range_spec(0.1);
  spec.metric = ADJ_DOT;
  spec.algorithm = "ego";
  refuse(ctx, set, NULL, spec, ADJ_E_UNSUPPORTED, "brute");
  spec = range_spec(0.1);
  spec.box_count = 1;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "box: is NULL");
  spec.box = &length;
  refuse(ctx, set, NULL, spec, ADJ_E_DATA, "row 3, column 1: 4 is outside of the box, 0 to 3");
  refuse(ctx, flat, set, spec, ADJ_E_DATA, "right: row 3, column 1");
  spec.metric = ADJ_COSINE;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "box: only L2");
  spec.metric = ADJ_L1;
  spec.box = lengths;
  spec.box_count = 3;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "box: 3 lengths for points of 2");
  spec.box = wrong;
  spec.box_count = 2;
  refuse(ctx, set, NULL, spec, ADJ_E_ARGUMENT, "box: length 2 is -1");
  adj_dataset_destroy(good);
  adj_dataset_destroy(wide);
  adj_dataset_destroy(flat);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void two_sets_must_match(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = uniform(ctx, 50, 2), *same = uniform(ctx, 50, 2), *wide;
  const double data[] = {0, 0};
  adj_points points = points_of(data, 1, 2);
  points.type = ADJ_F64;
  must(adj_dataset_create(ctx, &points, &wide));
  adj_join_spec spec = range_spec(0.1);
  refuse(ctx, set, wide, spec, ADJ_E_ARGUMENT, "type");
  spec.flags = ADJ_ONE_WAY;
  refuse(ctx, set, same, spec, ADJ_E_ARGUMENT, "ADJ_ONE_WAY");
  /* The same dataset on both sides is a self-join: no point is its own neighbour. */
  adj_plan *self, *twice;
  spec.flags = 0;
  must(adj_plan_create(ctx, &spec, set, set, &twice));
  self = range_plan(ctx, set, 0.1);
  assert_int_equal(count_pairs(twice), count_pairs(self));
  adj_plan_destroy(twice);
  /* Equal points of two datasets are neighbours, whatever ADJ_WITH_SELF says. */
  for (uint32_t flags = 0; flags <= ADJ_WITH_SELF; flags += ADJ_WITH_SELF) {
    spec.flags = flags;
    must(adj_plan_create(ctx, &spec, set, same, &twice));
    assert_int_equal(count_pairs(twice), count_pairs(self) + 50);
    adj_plan_destroy(twice);
  }
  adj_plan_destroy(self);
  adj_dataset_destroy(wide);
  adj_dataset_destroy(same);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

static void nulls_are_named(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = uniform(ctx, 50, 2);
  adj_plan *plan = range_plan(ctx, set, 0.1), *out;
  adj_join_spec spec = range_spec(0.1);
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  adj_result *result;
  adj_estimate estimate;
  adj_estimate_init(&estimate, sizeof estimate);
  char text[10];
  must_fail(ADJ_E_ARGUMENT, "ctx", adj_plan_create(NULL, &spec, set, NULL, &out));
  must_fail(ADJ_E_ARGUMENT, "spec", adj_plan_create(ctx, NULL, set, NULL, &out));
  must_fail(ADJ_E_ARGUMENT, "left", adj_plan_create(ctx, &spec, NULL, set, &out));
  must_fail(ADJ_E_ARGUMENT, "out", adj_plan_create(ctx, &spec, set, NULL, NULL));
  must_fail(ADJ_E_ARGUMENT, "plan", adj_count(NULL, NULL, NULL, NULL, NULL));
  must_fail(ADJ_E_ARGUMENT, "plan", adj_collect(NULL, &result, NULL, NULL));
  must_fail(ADJ_E_ARGUMENT, "out", adj_collect(plan, NULL, NULL, NULL));
  must_fail(ADJ_E_ARGUMENT, "plan", adj_stream(NULL, &sink, NULL, NULL));
  must_fail(ADJ_E_ARGUMENT, "sink", adj_stream(plan, NULL, NULL, NULL));
  must_fail(ADJ_E_ARGUMENT, "write", adj_stream(plan, &sink, NULL, NULL));
  must_fail(ADJ_E_ARGUMENT, "plan", adj_plan_explain(NULL, text, sizeof text, NULL));
  must_fail(ADJ_E_ARGUMENT, "plan", adj_plan_estimate(NULL, &estimate));
  must_fail(ADJ_E_ARGUMENT, "out", adj_plan_estimate(plan, NULL));
  must(adj_count(plan, NULL, NULL, NULL, NULL)); /* allowed: all outputs are optional */
  adj_plan_destroy(NULL);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* Works with or without a GPU: existing devices are described, others are refused with a reason. */
static void devices_are_described(void **state) {
  (void)state;
  adj_device device;
  adj_device_init(&device, sizeof device);
  adj_status status = adj_device_describe(0, &device);
  if (status == ADJ_OK) {
    assert_true(device.name[0] && device.memory > 0 && device.major > 0);
    must_fail(ADJ_E_UNSUPPORTED, "device 1000", adj_device_describe(1000, &device));
  } else {
    assert_int_equal(status, ADJ_E_UNSUPPORTED);
    assert_true(strstr(adj_last_error(), "GPU") || strstr(adj_last_error(), "driver"));
  }
  must_fail(ADJ_E_ARGUMENT, "out", adj_device_describe(0, NULL));
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.device_count = -2;
  adj_ctx *ctx = NULL;
  must_fail(ADJ_E_ARGUMENT, "device_count", adj_ctx_create(&options, &ctx));
  options.device_count = 1;
  must_fail(ADJ_E_ARGUMENT, "devices", adj_ctx_create(&options, &ctx));
}

/* Points on a device need a device. A context without devices says so, whatever the machine has. */
static void device_joins_need_a_device(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_cuda_points points;
  adj_cuda_points_init(&points, sizeof points);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 1;
  adj_cuda_result *result = NULL;
  uint64_t total = 7;
  adj_cuda_times times;
  adj_cuda_times_init(&times, sizeof times);
  assert_int_equal(adj_cuda_range_join(ctx, &spec, &points, NULL, NULL, &result), ADJ_E_UNSUPPORTED);
  assert_int_equal(adj_cuda_range_count(ctx, &spec, &points, NULL, NULL, NULL, &total), ADJ_E_UNSUPPORTED);
  assert_int_equal(adj_cuda_last_times(ctx, &times), ADJ_E_UNSUPPORTED);
  assert_null(result);
  assert_int_equal(total, 7);
  adj_cuda_result_destroy(NULL, NULL);
  adj_ctx_destroy(ctx);
}

/* ---- Cancelling ---------------------------------------------------------------------------------------- */

/* Everything that the calls need, made in advance. */
typedef struct cancel_setup {
  adj_ctx *ctx;
  adj_dataset *set;
  adj_plan *plan;
} cancel_setup;

static adj_status call_create(const cancel_setup *s) {
  static float values[60000];
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.data = values;
  points.dim = 2;
  points.count = 30000;
  adj_dataset *set = NULL;
  adj_status status = adj_dataset_create(s->ctx, &points, &set);
  adj_dataset_destroy(set);
  return status;
}

static adj_status call_generate(const cancel_setup *s) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = 30000;
  options.dim = 2;
  adj_dataset *set = NULL;
  adj_status status = adj_dataset_generate(s->ctx, &options, &set);
  adj_dataset_destroy(set);
  return status;
}

static adj_status call_save(const cancel_setup *s) {
  return adj_dataset_save(s->set, "cancelled.csv", NULL);
}

static adj_status call_open(const cancel_setup *s) {
  adj_dataset *set = NULL;
  adj_status status = adj_dataset_open(s->ctx, "points.csv", NULL, &set);
  adj_dataset_destroy(set);
  return status;
}

static adj_status call_plan(const cancel_setup *s) {
  adj_join_spec spec = range_spec(0.01);
  adj_plan *plan = NULL;
  adj_status status = adj_plan_create(s->ctx, &spec, s->set, NULL, &plan);
  adj_plan_destroy(plan);
  return status;
}

static adj_status call_count(const cancel_setup *s) {
  return adj_count(s->plan, NULL, NULL, NULL, NULL);
}

static adj_status call_collect(const cancel_setup *s) {
  adj_result *result = NULL;
  adj_status status = adj_collect(s->plan, &result, NULL, NULL);
  adj_result_destroy(result);
  return status;
}

static adj_status ignore_rows(void *user, const adj_rows *rows) {
  (void)user, (void)rows;
  return ADJ_OK;
}

static adj_status call_stream(const cancel_setup *s) {
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.write = ignore_rows;
  return adj_stream(s->plan, &sink, NULL, NULL);
}

static adj_status call_write(const cancel_setup *s) {
  return adj_write(s->plan, "cancelled.csv", NULL, NULL, NULL);
}

static adj_status call_select(const cancel_setup *s) {
  static float values[100][1000];
  uint32_t columns[100][3];
  adj_matrix matrix;
  adj_matrix_init(&matrix, sizeof matrix);
  matrix.rows = 100;
  matrix.columns = 1000;
  matrix.values = values;
  return adj_select_k(s->ctx, &matrix, 3, ADJ_ORDER_ANY, columns[0], NULL);
}

typedef adj_status (*cancel_call)(const cancel_setup *s);
static const cancel_call CANCEL_CALLS[] = {call_create, call_generate, call_save,   call_open,  call_plan,
                                           call_count,  call_collect,  call_stream, call_write, call_select};
enum { CANCEL_CALL_COUNT = sizeof CANCEL_CALLS / sizeof *CANCEL_CALLS };

static cancel_setup set_up_cancels(uint32_t threads) {
  cancel_setup s = {.ctx = context_of(threads, NULL)};
  s.set = uniform(s.ctx, 10000, 2);
  s.plan = range_plan(s.ctx, s.set, 0.02);
  must(adj_dataset_save(s.set, "points.csv", NULL));
  return s;
}

static void tear_down_cancels(cancel_setup *s) {
  unlink("points.csv");
  unlink("cancelled.csv");
  adj_plan_destroy(s->plan);
  adj_dataset_destroy(s->set);
  assert_int_equal(adj_ctx_memory_used(s->ctx), 0);
  adj_ctx_destroy(s->ctx);
}

static void cancels_are_for_calls_under_way(void **state) {
  (void)state;
  cancel_setup s = set_up_cancels(2);
  for (int i = 0; i < CANCEL_CALL_COUNT; i++) {
    adj_cancel(s.ctx);
    must(CANCEL_CALLS[i](&s));
  }
  tear_down_cancels(&s);
}

typedef struct canceller {
  adj_ctx *ctx;
  atomic_bool done;
} canceller;

static void *cancel_always(void *user) {
  canceller *c = user;
  while (!atomic_load(&c->done))
    adj_cancel(c->ctx);
  return NULL;
}

/* Another thread cancels all the time. Every call is cancelled, unless that thread gets no core while it runs. */
static void every_call_can_be_cancelled(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    cancel_setup s = set_up_cancels(threads);
    canceller c = {.ctx = s.ctx};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_always, &c), 0);
    for (int i = 0; i < CANCEL_CALL_COUNT; i++) {
      adj_status status = ADJ_OK;
      unlink("cancelled.csv");
      for (time_t end = time(NULL) + 60; !status && time(NULL) < end;)
        status = CANCEL_CALLS[i](&s);
      if (status != ADJ_CANCELLED) fail_msg("call %d: %s", i, adj_status_name(status));
      if (!strstr(adj_last_error(), "stopped by the caller")) fail_msg("call %d: \"%s\"", i, adj_last_error());
    }
    atomic_store(&c.done, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < CANCEL_CALL_COUNT; i++)
      must(CANCEL_CALLS[i](&s));
    tear_down_cancels(&s);
  }
}

/* A stream that waits in its first write for permission to go on. */
typedef struct slow_stream {
  adj_plan *plan;
  atomic_bool waits, go_on;
  adj_status status;
} slow_stream;

static adj_status wait_in_write(void *user, const adj_rows *rows) {
  slow_stream *s = user;
  (void)rows;
  atomic_store(&s->waits, true);
  while (!atomic_load(&s->go_on))
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return ADJ_OK;
}

static void *stream_slowly(void *user) {
  slow_stream *s = user;
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = s;
  sink.write = wait_in_write;
  s->status = adj_stream(s->plan, &sink, NULL, NULL);
  return NULL;
}

/* A cancel ends all calls under way, even if another call of the context begins before they notice it. */
static void calls_that_share_a_context_are_cancelled(void **state) {
  (void)state;
  enum { STREAMS = 3 };
  cancel_setup s = set_up_cancels(2);
  slow_stream streams[STREAMS] = {{0}};
  pthread_t threads[STREAMS];
  for (int i = 0; i < STREAMS; i++) {
    adj_join_spec spec = range_spec(0.02);
    spec.tuning = "buffer=10000";
    must(adj_plan_create(s.ctx, &spec, s.set, NULL, &streams[i].plan));
    assert_int_equal(pthread_create(&threads[i], NULL, stream_slowly, &streams[i]), 0);
  }
  for (int i = 0; i < STREAMS; i++)
    while (!atomic_load(&streams[i].waits))
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  adj_cancel(s.ctx);
  must(call_count(&s));
  must(call_generate(&s));
  for (int i = 0; i < STREAMS; i++)
    atomic_store(&streams[i].go_on, true);
  for (int i = 0; i < STREAMS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(streams[i].status, ADJ_CANCELLED);
    adj_plan_destroy(streams[i].plan);
  }
  must(call_count(&s));
  tear_down_cancels(&s);
}

typedef struct last_write {
  adj_ctx *ctx;
  uint64_t rows;
  adj_status outcome;
} last_write;

static adj_status cancel_in_write(void *user, const adj_rows *rows) {
  last_write *w = user;
  w->rows += rows->row_count;
  adj_cancel(w->ctx);
  return ADJ_OK;
}

static void record_outcome(void *user, adj_status outcome) {
  ((last_write *)user)->outcome = outcome;
}

/* A stream is under way until its last write ends, even if there is only one. */
static void the_only_write_can_cancel(void **state) {
  (void)state;
  cancel_setup s = set_up_cancels(2);
  static const char *const tunings[] = {"single=off", "single=on", "staged=on", NULL};
  for (int i = 0; i < 4; i++) {
    adj_join_spec spec = range_spec(0.02);
    spec.kind = tunings[i] ? ADJ_RANGE : ADJ_KNN;
    spec.k = tunings[i] ? 0 : 3;
    spec.tuning = tunings[i];
    adj_plan *plan = NULL;
    last_write w = {.ctx = s.ctx};
    adj_sink sink;
    adj_sink_init(&sink, sizeof sink);
    sink.user = &w;
    sink.write = cancel_in_write;
    sink.end = record_outcome;
    must(adj_plan_create(s.ctx, &spec, s.set, NULL, &plan));
    must_fail(ADJ_CANCELLED, "stopped", adj_stream(plan, &sink, NULL, NULL));
    assert_int_equal(w.rows, 10000);
    assert_int_equal(w.outcome, ADJ_CANCELLED);
    adj_plan_destroy(plan);
  }
  tear_down_cancels(&s);
}

/* Calls inside a callback belong to the call that runs it; those in another context do not. */
typedef struct inside {
  const cancel_setup *same, *other;
  bool done;
} inside;

static adj_status call_inside(void *user, const adj_rows *rows) {
  inside *in = user;
  (void)rows;
  if (in->done) return ADJ_OK;
  in->done = true;
  adj_cancel(in->same->ctx);
  must_fail(ADJ_CANCELLED, "stopped", call_generate(in->same));
  must_fail(ADJ_CANCELLED, "stopped", call_select(in->same));
  must(call_count(in->other));
  must_fail(ADJ_CANCELLED, "stopped", call_generate(in->same));
  return ADJ_OK;
}

static void callbacks_belong_to_their_call(void **state) {
  (void)state;
  cancel_setup s = set_up_cancels(2), other = set_up_cancels(2);
  inside in = {&s, &other, false};
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &in;
  sink.write = call_inside;
  assert_int_equal(adj_stream(s.plan, &sink, NULL, NULL), ADJ_CANCELLED);
  assert_true(in.done);
  must(call_generate(&s));
  tear_down_cancels(&other);
  tear_down_cancels(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(devices_are_described),
      cmocka_unit_test(device_joins_need_a_device),
      cmocka_unit_test(statuses_have_names),
      cmocka_unit_test(contexts_say_what_they_are),
      cmocka_unit_test(structs_of_other_versions),
      cmocka_unit_test(results_fit_older_structs),
      cmocka_unit_test(datasets_are_checked),
      cmocka_unit_test(datasets_answer),
      cmocka_unit_test(strides_do_not_matter),
      cmocka_unit_test(simple_call),
      cmocka_unit_test(simple_knn_join),
      cmocka_unit_test(joins_in_one_call),
      cmocka_unit_test(pairs_are_neighbours),
      cmocka_unit_test(wrong_specs_are_named),
      cmocka_unit_test(two_sets_must_match),
      cmocka_unit_test(nulls_are_named),
      cmocka_unit_test(metrics_mean_what_they_say),
      cmocka_unit_test(wrong_metrics_are_named),
      cmocka_unit_test(cancels_are_for_calls_under_way),
      cmocka_unit_test(every_call_can_be_cancelled),
      cmocka_unit_test(calls_that_share_a_context_are_cancelled),
      cmocka_unit_test(callbacks_belong_to_their_call),
      cmocka_unit_test(the_only_write_can_cancel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
