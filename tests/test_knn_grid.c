/* SPDX-License-Identifier: MIT
 *
 * The decisions of kNN joins through a grid (gpu/papers/knn_grid.h), and the settings that control them.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gpu/papers/knn_order.h"
#include "plan/systems.h"

static adji_knn_grid_options defaults(void) {
  adji_knn_grid_options asked = {.use = true};
  return adji_knn_grid_defaults(&asked);
}

/* ---- Epsilon ------------------------------------------------------------------------------------------ */

static void defaults_are_the_papers(void **state) {
  (void)state;
  adji_knn_grid_options o = defaults();
  assert_int_equal(o.threads, 8);
  assert_int_equal(o.sample, 500);
  assert_true(o.mean_part == 0.001 && o.widen == 0.5 && o.failures == 0.25 && o.tail == 0.01 && o.epsilon == 1);
  adji_knn_grid_options asked = {.threads = 2,
                                 .sample = 7,
                                 .bins = 3,
                                 .mean_part = 0.5,
                                 .epsilon = 2,
                                 .widen = 1,
                                 .failures = 0.1,
                                 .tail = 0.2,
                                 .stall = 1};
  o = adji_knn_grid_defaults(&asked);
  assert_true(!o.use && o.threads == 2 && o.sample == 7 && o.bins == 3);
  assert_true(o.mean_part == 0.5 && o.epsilon == 2 && o.widen == 1 && o.failures == 0.1 && o.tail == 0.2 &&
              o.stall == 1);
}

static void mean_samples_are_a_part_of_the_points(void **state) {
  (void)state;
  adji_knn_grid_options o = defaults();
  assert_int_equal(adji_knn_grid_mean_sample(&o, 1), 1);
  assert_int_equal(adji_knn_grid_mean_sample(&o, 100), 100);
  assert_int_equal(adji_knn_grid_mean_sample(&o, 10000), 128);
  assert_int_equal(adji_knn_grid_mean_sample(&o, 10000000), 10000);
  assert_int_equal(adji_knn_grid_mean_sample(&o, ADJ_MAX_COUNT), 1 << 14);
}

static void epsilon_is_the_middle_of_its_bin(void **state) {
  (void)state;
  const uint64_t bins[] = {0, 3, 0, 4, 1};
  uint64_t bin;
  assert_true(adji_knn_grid_epsilon(bins, 5, 0.5, 3, &bin) == 0.75);
  assert_int_equal(bin, 1);
  assert_true(adji_knn_grid_epsilon(bins, 5, 0.5, 3.5, &bin) == 1.75);
  assert_int_equal(bin, 3);
  assert_true(adji_knn_grid_epsilon(bins, 5, 0.5, 8, &bin) == 2.25);
  assert_true(adji_knn_grid_epsilon(bins, 5, 0.5, 9, &bin) < 0);
  assert_int_equal(bin, 5);
  const uint64_t many[] = {UINT64_C(1) << 40, 1};
  assert_true(adji_knn_grid_epsilon(many, 2, 1, 4e9, &bin) == 0.5);
}

static void limits_are_numbers_of_the_type(void **state) {
  (void)state;
  assert_true(adji_knn_grid_limit(ADJI_STEP_L2, ADJ_F64, 3) == 9);
  assert_true(adji_knn_grid_limit(ADJI_STEP_L1, ADJ_F64, 3) == 3);
  double limit = adji_knn_grid_limit(ADJI_STEP_L2, ADJ_F32, 0.1);
  assert_true(limit == (double)(float)limit && fabs(limit - 0.01) < 1e-8);
  limit = adji_knn_grid_limit(ADJI_STEP_LINF, ADJ_F32, 0.1);
  assert_true(limit == (double)0.1f);
  assert_true(isinf(adji_knn_grid_limit(ADJI_STEP_L2, ADJ_F32, 1e30)));
}

/* ---- Failures ----------------------------------------------------------------------------------------- */

static void many_failures_widen(void **state) {
  (void)state;
  adji_knn_grid_options o = defaults();
  assert_int_equal(adji_knn_grid_next(&o, 1000, 0, 1000, 0), ADJI_GRID_DONE);
  assert_int_equal(adji_knn_grid_next(&o, 1000, 1, 1000, 0), ADJI_GRID_TAIL);
  assert_int_equal(adji_knn_grid_next(&o, 1000, 249, 1000, 0), ADJI_GRID_TAIL);
  assert_int_equal(adji_knn_grid_next(&o, 1000, 250, 1000, 0), ADJI_GRID_WIDEN);
  assert_int_equal(adji_knn_grid_next(&o, 1000, 1000, 1000, 0), ADJI_GRID_WIDEN);
  /* A wider epsilon that hardly helped; and few remaining queries. */
  assert_int_equal(adji_knn_grid_next(&o, 1000, 900, 1000, 1), ADJI_GRID_WIDEN);
  assert_int_equal(adji_knn_grid_next(&o, 1000, 901, 1000, 1), ADJI_GRID_TAIL);
  assert_int_equal(adji_knn_grid_next(&o, 1000, 500, 50000, 1), ADJI_GRID_WIDEN);
  assert_int_equal(adji_knn_grid_next(&o, 1000, 500, 50001, 1), ADJI_GRID_TAIL);
  /* As in the paper's GPU-only mode: until all are found. */
  o.failures = o.tail = 1e-9;
  o.stall = 1;
  assert_int_equal(adji_knn_grid_next(&o, 1000, 1000, 1000000, 1), ADJI_GRID_WIDEN);
  assert_int_equal(adji_knn_grid_next(&o, 1000, 1, 1000000, 255), ADJI_GRID_WIDEN);
  assert_int_equal(adji_knn_grid_next(&o, 1000, 1, 1000000, 256), ADJI_GRID_TAIL);
  /* As published: a few failures form a batch of their own. It fails too, which makes epsilon grow. */
  o = defaults();
  o.no_tail = true;
  assert_int_equal(adji_knn_grid_next(&o, 1000, 249, 100000, 1), ADJI_GRID_AGAIN);
  assert_int_equal(adji_knn_grid_next(&o, 249, 249, 100000, 1), ADJI_GRID_WIDEN);
  assert_int_equal(adji_knn_grid_next(&o, 249, 0, 100000, 2), ADJI_GRID_DONE);
}

/* ---- Shapes ------------------------------------------------------------------------------------------- */

static void lists_fit_shared_memory(void **state) {
  (void)state;
  for (uint32_t k = 1; k <= ADJI_MOST_GRID; k++)
    for (uint32_t threads = 1; threads <= 32; threads *= 2)
      for (uint64_t entry = 8; entry <= 12; entry += 4) {
        adji_knn_grid_shape s = adji_knn_grid_shape_of(k, entry, threads);
        assert_true(s.threads >= threads && s.threads <= 32 && !(s.threads & (s.threads - 1)));
        assert_true(s.block >= 32 && s.block <= ADJI_GRID_BLOCK && s.block % 32 == 0);
        assert_int_equal(s.bytes, (uint64_t)(s.block / s.threads) * ADJI_GRID_STRIDE(k) * entry);
        assert_true(s.bytes <= (46 << 10));
        if (k <= 128 && threads == 8) assert_true(s.threads == 8 && s.block >= 128);
      }
  assert_int_equal(adji_knn_grid_shape_of(ADJI_MOST_GRID + 1, 8, 8).threads, 0);
  assert_int_equal(adji_knn_grid_shape_of(0, 8, 8).threads, 0);
}

/* ---- Cells -------------------------------------------------------------------------------------------- */

/* Points of the unit cube, and one far away if `far` is not 0. */
static double *make_points(uint64_t count, uint32_t dim, double far) {
  double *points = malloc(count * dim * sizeof *points);
  uint64_t hash = 88172645463325252u;
  for (uint64_t i = 0; i < count * dim; i++) {
    hash ^= hash << 13, hash ^= hash >> 7, hash ^= hash << 17;
    points[i] = (double)(hash >> 11) * 0x1p-53;
  }
  if (far != 0) points[0] = far;
  return points;
}

static int ascending(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

/* Points within epsilon are at most one slab apart along every axis. */
static void check_cells(adj_ctx *ctx, uint32_t dim, double epsilon, double far, uint32_t axes) {
  enum { COUNT = 300 };
  double *points = make_points(COUNT, dim, far), *values = malloc((size_t)COUNT * dim * sizeof *values);
  double low[ADJI_MAX_AXES], high[ADJI_MAX_AXES];
  for (size_t j = 0; j < dim; j++) {
    for (uint64_t i = 0; i < COUNT; i++)
      values[j * COUNT + i] = points[i * dim + j];
    qsort(values + j * COUNT, COUNT, sizeof *values, ascending);
    low[j] = values[j * COUNT];
    high[j] = values[j * COUNT + COUNT - 1];
  }
  adj_dataset set = {.type = ADJ_F64, .dim = dim, .count = COUNT, .low = low, .high = high};
  adji_measure measure = {.step = ADJI_STEP_LINF};
  adji_grid grid;
  adji_knn_values sample = {values, COUNT};
  must(adji_knn_grid_cells(ctx, &set, &measure, epsilon, &sample, &grid));
  assert_int_equal(grid.axis_count, axes);
  assert_true(grid.key_bits <= 62);
  for (uint64_t i = 0; i < COUNT; i++)
    for (uint64_t other = 0; other < i; other++)
      for (uint32_t a = 0; a < grid.axis_count; a++) {
        const adji_axis *axis = &grid.axes[a];
        double x = points[i * dim + axis->dim], y = points[other * dim + axis->dim];
        if (!(fabs(x - y) <= epsilon)) continue;
        uint64_t one = adji_axis_slab(axis, x), two = adji_axis_slab(axis, y);
        assert_true((one > two ? one - two : two - one) <= 1);
      }
  adji_knn_grid_options o = {0}, published = {.no_tail = true};
  assert_true(adji_knn_grid_is_worth(&o, &grid, 1000));
  assert_true(adji_knn_grid_is_worth(&o, &grid, 10000000) == (axes > 0));
  assert_true(adji_knn_grid_is_worth(&published, &grid, 10000000));
  adji_grid_clear(ctx, &grid);
  free(points);
  free(values);
}

static void cells_are_as_wide_as_epsilon(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  for (uint32_t dim = 1; dim <= 6; dim++) {
    check_cells(ctx, dim, 0.1, 0, dim);
    check_cells(ctx, dim, 0.01, 0, dim);
    check_cells(ctx, dim, 0, 0, dim);
    check_cells(ctx, dim, 0.6, 0, 0); /* all points are within three slabs */
    check_cells(ctx, dim, 0.01, 1e12, dim);
    check_cells(ctx, dim, 0.6, 1e12, 1);
    check_cells(ctx, dim, 1e-300, DBL_MAX, dim);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- The queue ---------------------------------------------------------------------------------------- */

/* How many right points are in the cell of a left one. */
static uint32_t population_of(const adj_dataset *left, const adj_dataset *right, const adji_grid *grid, uint64_t row) {
  uint32_t count = 0;
  for (uint64_t i = 0; i < right->count; i++) {
    bool same = true;
    for (uint32_t a = 0; a < grid->axis_count; a++) {
      const adji_axis *axis = &grid->axes[a];
      same = same && adji_axis_slab(axis, adji_dataset_at(left, row, axis->dim)) ==
                         adji_axis_slab(axis, adji_dataset_at(right, i, axis->dim));
    }
    count += same;
  }
  return count;
}

static void check_order(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right, double epsilon) {
  adji_measure measure = {.step = ADJI_STEP_L2};
  adji_join join = {.ctx = ctx, .left = left, .right = right, .self_join = left == right, .k = 5, .limit = INFINITY};
  double *values = malloc(2 * right->count * sizeof *values);
  for (uint32_t j = 0; j < 2; j++) {
    for (uint64_t i = 0; i < right->count; i++)
      values[j * right->count + i] = adji_dataset_at(right, i, j);
    qsort(values + j * right->count, right->count, sizeof *values, ascending);
  }
  adji_knn_values sample = {values, right->count};
  adji_grid grid;
  uint32_t *rows, before = UINT32_MAX;
  must(adji_knn_grid_cells(ctx, right, &measure, adji_knn_grid_limit(ADJI_STEP_L2, right->type, epsilon), &sample,
                           &grid));
  must(adji_knn_order_rows(&join, &measure, epsilon, &rows));
  bool *seen = calloc(left->count, sizeof *seen);
  for (uint64_t i = 0; i < left->count; i++) {
    assert_true(rows[i] < left->count && !seen[rows[i]]);
    seen[rows[i]] = true;
    uint32_t population = population_of(left, right, &grid, rows[i]);
    assert_true(population <= before);
    before = population;
  }
  free(seen);
  free(values);
  adji_free(&ctx->memory, rows);
  adji_grid_clear(ctx, &grid);
}

static void full_cells_come_first(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *a = uniform(ctx, 700, 2), *b = uniform(ctx, 500, 2);
  adji_measure measure = {.step = ADJI_STEP_L2};
  adji_join join = {.ctx = ctx, .left = a, .right = a, .self_join = true, .k = 5, .limit = INFINITY};
  join.style.drop_self = true;
  double epsilon;
  must(adji_knn_order_epsilon(&join, &measure, &(adji_knn_grid_options){0}, &epsilon));
  assert_true(epsilon > 0);
  uint64_t within = 0;
  for (uint64_t i = 0; i < a->count; i++)
    for (uint64_t j = 0; j < a->count; j++)
      within += i != j && hypot(adji_dataset_at(a, i, 0) - adji_dataset_at(a, j, 0),
                                adji_dataset_at(a, i, 1) - adji_dataset_at(a, j, 1)) <= epsilon;
  assert_true(fabs((double)within / (double)a->count - 5) < 1); /* of 500 queries, k neighbours on average */
  check_order(ctx, a, a, epsilon);
  check_order(ctx, a, b, epsilon);
  check_order(ctx, b, a, 100);
  adj_dataset_destroy(a);
  adj_dataset_destroy(b);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- The system --------------------------------------------------------------------------------------- */

static adj_status fits_system(uint32_t dim, uint32_t k, adj_metric metric, adj_backend backend, const char *tuning) {
  const adji_system *system;
  adj_join_spec spec;
  adji_algorithm algorithm = ADJI_ALGORITHM_AUTO;
  adji_tuning t;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = k;
  spec.metric = metric;
  spec.backend = backend;
  spec.tuning = tuning;
  must(adji_system_find("hybrid-knn", &system));
  adj_status status = adji_system_fit(system, dim, &spec, &algorithm);
  if (!status) status = adji_system_tuning(system, dim, &spec, &t);
  if (status) return status;
  bool cpu = spec.backend == ADJ_BACKEND_CPU;
  assert_int_equal(spec.backend, backend ? backend : ADJ_BACKEND_HYBRID);
  assert_int_equal(algorithm, cpu ? ADJI_ALGORITHM_KDTREE : ADJI_ALGORITHM_GRID);
  adji_tuning_scope scope = {ADJ_KNN, metric, spec.backend, algorithm, 0};
  return adji_tuning_fit(&t, &scope);
}

static void the_system_has_limits(void **state) {
  (void)state;
  must(fits_system(2, 8, ADJ_L2, ADJ_BACKEND_AUTO, NULL));
  must(fits_system(6, 1024, ADJ_L1, ADJ_BACKEND_GPU, "paper.failures=0.5"));
  must(fits_system(6, 8, ADJ_L2, ADJ_BACKEND_CPU, "paper.queue=points"));
  must(fits_system(6, 8, ADJ_L2, ADJ_BACKEND_HYBRID, "paper.n_large=1,paper.n_cwin=0"));
  assert_int_equal(fits_system(7, 8, ADJ_L2, ADJ_BACKEND_AUTO, NULL), ADJ_E_UNSUPPORTED);
  assert_non_null(strstr(adj_last_error(), "\"hybrid-knn\" is for up to 6 dimensions"));
  assert_int_equal(fits_system(2, 1025, ADJ_L2, ADJ_BACKEND_AUTO, NULL), ADJ_E_UNSUPPORTED);
  assert_non_null(strstr(adj_last_error(), "\"hybrid-knn\" is for k up to 1024"));
  assert_int_equal(fits_system(2, 8, ADJ_DOT, ADJ_BACKEND_AUTO, NULL), ADJ_E_UNSUPPORTED);
  assert_int_equal(fits_system(2, 8, ADJ_L2, ADJ_BACKEND_REFERENCE, NULL), ADJ_E_UNSUPPORTED);
  assert_int_equal(fits_system(2, 8, ADJ_L2, ADJ_BACKEND_HYBRID, "paper.queue=points"), ADJ_E_UNSUPPORTED);
  assert_int_equal(fits_system(2, 8, ADJ_L2, ADJ_BACKEND_CPU, "paper.n_large=1"), ADJ_E_ARGUMENT);
}

/* ---- Settings ----------------------------------------------------------------------------------------- */

static adj_status fits(const char *text, adj_join_kind kind, adji_algorithm algorithm) {
  adji_tuning t;
  must(adji_tuning_parse(text, &t));
  adji_tuning_scope scope = {kind, ADJ_L2, ADJ_BACKEND_GPU, algorithm, 0};
  adj_status status = adji_tuning_fit(&t, &scope);
  if (!status && kind == ADJ_KNN) assert_int_equal(scope.algorithm, ADJI_ALGORITHM_GRID);
  return status;
}

static void settings_are_for_the_grid(void **state) {
  (void)state;
  const char *all =
      "paper.point_threads=4,paper.sample=9,paper.bins=100,paper.mean_part=0.01,paper.epsilon=2,paper.widen=1,"
      "paper.failures=0.5,paper.tail=0.1,paper.stall=1";
  must(fits(all, ADJ_KNN, ADJI_ALGORITHM_GRID));
  must(fits("paper.tail=0.5", ADJ_KNN, ADJI_ALGORITHM_AUTO)); /* this setting implies the grid */
  must(fits("paper.point_threads=4", ADJ_KNN, ADJI_ALGORITHM_AUTO));
  must(fits("paper.access=full,paper.point_threads=4", ADJ_RANGE, ADJI_ALGORITHM_GRID));
  must_fail(ADJ_E_UNSUPPORTED, "paper.point_threads= is for the algorithm grid, not kdtree",
            fits(all, ADJ_KNN, ADJI_ALGORITHM_KDTREE));
  must_fail(ADJ_E_ARGUMENT, "paper.epsilon= is for kNN joins only",
            fits("paper.epsilon=2", ADJ_RANGE, ADJI_ALGORITHM_GRID));
  must_fail(ADJ_E_ARGUMENT, "paper.point_threads= is for",
            fits("paper.point_threads=4", ADJ_RANGE, ADJI_ALGORITHM_GRID));
  adji_tuning t;
  must_fail(ADJ_E_ARGUMENT, "\"paper.failures=1.5\": is no number from 1e-09 to 1",
            adji_tuning_parse("paper.failures=1.5", &t));
  must_fail(ADJ_E_ARGUMENT, "is no whole number from 1 to 10000", adji_tuning_parse("paper.bins=10001", &t));
  must_fail(ADJ_E_ARGUMENT, "is no whole number from 1 to 10000", adji_tuning_parse("paper.bins=2.5", &t));
  must_fail(ADJ_E_ARGUMENT, "is no whole number from 1 to 10000", adji_tuning_parse("paper.bins=many", &t));
}

static void the_grid_is_for_a_gpu(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  float coordinates[] = {0, 0, 1, 1, 2, 2};
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = 2;
  points.count = 3;
  points.type = ADJ_F32;
  points.data = coordinates;
  adj_dataset *set;
  must(adj_dataset_create(ctx, &points, &set));
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = 1;
  spec.algorithm = "grid";
  const adj_backend others[] = {ADJ_BACKEND_AUTO, ADJ_BACKEND_CPU};
  adj_plan *plan;
  for (int i = 0; i < 2; i++) {
    spec.backend = others[i];
    must_fail(ADJ_E_UNSUPPORTED, "with a GPU only", adj_plan_create(ctx, &spec, set, NULL, &plan));
  }
  spec.backend = ADJ_BACKEND_REFERENCE;
  must(adj_plan_create(ctx, &spec, set, NULL, &plan));
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(full_cells_come_first),
      cmocka_unit_test(the_system_has_limits),
      cmocka_unit_test(defaults_are_the_papers),
      cmocka_unit_test(mean_samples_are_a_part_of_the_points),
      cmocka_unit_test(epsilon_is_the_middle_of_its_bin),
      cmocka_unit_test(limits_are_numbers_of_the_type),
      cmocka_unit_test(many_failures_widen),
      cmocka_unit_test(lists_fit_shared_memory),
      cmocka_unit_test(cells_are_as_wide_as_epsilon),
      cmocka_unit_test(settings_are_for_the_grid),
      cmocka_unit_test(the_grid_is_for_a_gpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
