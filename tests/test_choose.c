/* SPDX-License-Identifier: MIT
 *
 * Where a join is computed: when a device is used at all, when cores help it, and how long cores are expected to take
 * before they have an index.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/range.h"
#include "gpu/brute/prefilter_tensor.h"
#include "plan/plan.h"

/* ---- Asking a device ------------------------------------------------------------------------------------ */

/* The longer the cores take, the sooner a device pays: at first an open one, then opening one, then starting CUDA. */
static void test_the_longer_the_sooner(void **state) {
  (void)state;
  const double cores[] = {0, 0.00001, 0.0001, 0.001, 0.01, 0.04, 0.1, 0.2, 0.3, 1, 100};
  const int few[] = {[ADJI_NOT_STARTED] = 8, [ADJI_STARTED] = 6, [ADJI_OPEN] = 2};
  for (int ready = ADJI_NOT_STARTED; ready <= ADJI_OPEN; ready++)
    for (int i = 0; i < 11; i++)
      assert_true(adji_worth_a_device(&adji_built_in_costs, cores[i], (adji_readiness)ready) == (i >= few[ready]));
}

/* ---- Helping it ------------------------------------------------------------------------------------------ */

static void test_equals_share(void **state) {
  (void)state;
  adji_share_times t = {.extra = 0.002, .cores = 1, .device = 1, .alone = 1};
  double shared = adji_shared_seconds(&t);
  assert_true(shared > 0.5 && shared < 0.51);
  assert_true(adji_sharing_pays(&t));
  t.index = 0.45; /* the gain is lost to the index of the cores */
  assert_false(adji_sharing_pays(&t));
}

static void test_measured_joins(void **state) {
  (void)state;
  /* From docs/performance.md, for cores and a GPU limited to some blocks: 2 G pairs, and k = 32 of 10 M points. */
  adji_share_times range = {.extra = 0.002, .cores = 1.83, .device = 2.589, .place = 0.267, .alone = 2.589};
  adji_share_times nearest = {.extra = 0.002, .cores = 0.736, .device = 1.02, .place = 0.085, .alone = 1.02};
  assert_true(fabs(adji_shared_seconds(&range) / 1.146 - 1) < 0.05);
  assert_true(fabs(adji_shared_seconds(&nearest) / 0.512 - 1) < 0.15);
}

/* If the cores need all their time to put rows into place, they have no time for queries. */
static void test_a_device_that_waits_for_cores_is_alone(void **state) {
  (void)state;
  const double cores[] = {0.001, 0.01, 0.1, 1, 10, 100};
  for (int i = 0; i < 6; i++) {
    adji_share_times t = {.extra = 0.002, .cores = cores[i], .device = 0.03, .place = 0.03, .alone = 0.03};
    assert_false(adji_sharing_pays(&t));
    t.place = 1; /* or if they are even slower */
    assert_false(adji_sharing_pays(&t));
  }
}

static void test_small_joins_are_not_shared(void **state) {
  (void)state;
  adji_share_times t = {.extra = 0.002, .cores = 0.001, .device = 0.002, .alone = 0.002};
  assert_false(adji_sharing_pays(&t));
  assert_false(adji_sharing_pays(&(adji_share_times){0}));
}

/* Several devices share the lists. But rows go to host memory at a limited rate, and one device that keeps what it
 * counts may be as quick. */
static void test_several_devices(void **state) {
  (void)state;
  adji_share_times t = {.extra = 0.002, .device = 1, .place = 0.1, .alone = 1};
  assert_true(adji_several_pay(&t, 2, 0));
  assert_true(fabs(adji_several_seconds(&t, 4, 0.04) - 0.292) < 1e-9);
  assert_false(adji_several_pay(&t, 2, 0.45)); /* the gain is lost to opening the others */
  t.alone = 0.5;
  assert_false(adji_several_pay(&t, 2, 0));
  assert_true(adji_several_pay(&t, 4, 0));
  t.place = 1;
  assert_false(adji_several_pay(&t, 4, 0));
  adji_share_times small = {.extra = 0.002, .device = 0.002, .alone = 0.002};
  assert_false(adji_several_pay(&small, 8, 0));
}

/* Therefore an upper bound of the device's time is enough to leave the cores out. */
static void test_a_quicker_device_needs_less_help(void **state) {
  (void)state;
  bool paid = true;
  for (int i = 6; i > -14; i--) {
    double device = ldexp(1, i);
    adji_share_times t = {
        .extra = 0.002, .index = 0.05, .cores = 1, .device = device, .place = 0.00005, .alone = device};
    bool pays = adji_sharing_pays(&t);
    assert_true(paid || !pays);
    paid = pays;
  }
  assert_false(paid);
}

/* ---- What cores take ------------------------------------------------------------------------------------- */

typedef struct points {
  const char *name;
  double radius;
} points;

static adj_plan *plan_of(adj_ctx *ctx, adj_dataset *set, const adj_join_spec *spec) {
  adj_plan *plan = NULL;
  assert_int_equal(adj_plan_create(ctx, spec, set, NULL, &plan), ADJ_OK);
  return plan;
}

static adj_dataset *points_of(adj_ctx *ctx, const char *name) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = name;
  adj_dataset *set = NULL;
  assert_int_equal(adj_dataset_generate(ctx, &options, &set), ADJ_OK);
  return set;
}

/* The forecast from a sample is near that from the index. In clusters it is higher, because the cells around a point's
 * own cell are emptier. */
static void test_seconds_without_an_index(void **state) {
  (void)state;
  static const points all[] = {
      {"Unif2D50K", 0.008}, {"Unif2D50K", 0.08}, {"Expo2D50K", 0.0004}, {"Unif3D50K", 0.04},  {"Expo3D50K", 0.004},
      {"Unif6D50K", 0.2},   {"Expo6D50K", 0.01}, {"Expo6D50K", 0.03},   {"Unif1D50K", 0.001}, {"Clusters3D50K", 0.001}};
  adj_ctx *ctx = NULL;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    adj_dataset *set = points_of(ctx, all[i].name);
    adj_join_spec spec;
    adj_join_spec_init(&spec, sizeof spec);
    spec.radius = all[i].radius;
    spec.backend = ADJ_BACKEND_CPU;
    adj_plan *plan = plan_of(ctx, set, &spec);
    adji_grid_choice grid;
    must(adji_choose_grid(&plan->question, false, &grid));
    double ratio = adji_sampled_seconds(&plan->question, &grid) / plan->estimated_seconds;
    adji_grid_choice_clear(ctx, &grid);
    if (!(ratio > 0.3 && ratio < 4)) fail_msg("%s, radius %g: %g", all[i].name, all[i].radius, ratio);
    adj_plan_destroy(plan);
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

/* The seconds grow with everything that makes a join larger. */
static void test_seconds_of_nearest(void **state) {
  (void)state;
  static const char *const names[] = {"Unif2D1K", "Unif2D10K", "Unif3D10K", "Unif6D10K"};
  adj_ctx *ctx = NULL;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  double before = 0;
  for (int i = 0; i < 4; i++) {
    adj_dataset *set = points_of(ctx, names[i]);
    double few = 0;
    for (uint32_t k = 8; k <= 128; k *= 4) {
      adj_join_spec spec;
      adj_join_spec_init(&spec, sizeof spec);
      spec.kind = ADJ_KNN;
      spec.k = k;
      spec.backend = ADJ_BACKEND_CPU;
      adj_plan *plan = plan_of(ctx, set, &spec);
      double seconds = adji_knn_seconds(&plan->join, true);
      assert_true(seconds > 0 && seconds >= few);
      if (k == 8) assert_true(seconds > before);
      if (k == 8) before = seconds;
      few = seconds;
      adj_plan_destroy(plan);
    }
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

/* Brute force on a device takes longer with more points, dimensions and neighbours, and by costlier metrics. */
static void test_seconds_of_brute_force_on_a_device(void **state) {
  (void)state;
  adj_ctx *ctx = NULL;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  static const adj_metric metrics[] = {ADJ_L2, ADJ_L1, ADJ_LP};
  static const char *const names[] = {"Unif16D1K", "Unif16D10K", "Unif128D10K"};
  double before = 0, slower = 0;
  for (int i = 0; i < 5; i++) {
    adj_dataset *set = points_of(ctx, names[i < 3 ? i : 2]);
    adj_join_spec spec;
    adj_join_spec_init(&spec, sizeof spec);
    spec.kind = ADJ_KNN;
    spec.k = 8;
    spec.p = 3;
    spec.metric = metrics[i < 3 ? 0 : i - 2];
    spec.backend = ADJ_BACKEND_CPU;
    adj_plan *plan = plan_of(ctx, set, &spec);
    double seconds = adji_device_brute_seconds(&plan->join, false);
    assert_true(seconds > before);
    if (i < 3) assert_true(adji_device_brute_seconds(&plan->join, true) < seconds);
    before = seconds;
    slower = seconds;
    adj_plan_destroy(plan);
    adj_dataset_destroy(set);
  }
  assert_true(slower < 1);
  adj_ctx_destroy(ctx);
}

/* Tensor cores pay for many queries and points, if k is a small part of the points. */
static void test_when_tensor_cores_pay(void **state) {
  (void)state;
  assert_true(adji_tensor_pays(1000, 10000, 32));
  assert_false(adji_tensor_pays(10000, 10000, 1000));
  assert_true(adji_tensor_pays(10000, 100000, 1000));
  assert_false(adji_tensor_pays(8, 100000, 8));
  assert_false(adji_tensor_pays(1000, 1000, 8));
}

/* A join that is too small for a device is planned for the cores, without asking any device. */
static void test_auto_keeps_small_joins(void **state) {
  (void)state;
  adj_ctx *ctx = NULL;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  adj_dataset *set = points_of(ctx, "Expo3D10K");
  for (int knn = 0; knn < 2; knn++) {
    adj_join_spec spec;
    adj_join_spec_init(&spec, sizeof spec);
    spec.kind = knn ? ADJ_KNN : ADJ_RANGE;
    spec.k = 8;
    if (!knn) spec.radius = 0.005;
    adj_plan *plan = plan_of(ctx, set, &spec);
    assert_int_equal(plan->choice.backend, ADJ_BACKEND_CPU);
    assert_null(ctx->gpus[0]);
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- Grids of both --------------------------------------------------------------------------------------- */

/* Points in `dim` dimensions. The first `wide` dimensions are 30 across, the others 1. One point in a hundred is far
 * away: too many to count as outliers. */
static adj_dataset *uneven_points(adj_ctx *ctx, uint64_t count, uint32_t dim, uint32_t wide, float outlier,
                                  float **values_out) {
  float *values = *values_out = malloc(count * dim * sizeof *values);
  uint32_t seed = 1;
  for (uint64_t i = 0; i < count * dim; i++) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(seed >> 8) * 0x1p-24f * (i % dim < wide ? 30 : 1);
  }
  for (uint64_t i = 0; i < count; i += 100)
    values[i * dim] = outlier;
  adj_points from;
  adj_points_init(&from, sizeof from);
  from.type = ADJ_F32;
  from.dim = dim;
  from.count = count;
  from.data = values;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &from, &set));
  return set;
}

static adj_join_spec range_spec(double radius, adj_backend backend, const char *tuning) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = radius;
  spec.backend = backend;
  spec.tuning = tuning;
  return spec;
}

/* A device that needs no axes does not take over those of the cores, and both do not free the same axes. Without a
 * device, the cores still have their plan. */
static void test_grids_are_apart(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  float *values;
  adj_dataset *set = uneven_points(ctx, 20000, 8, 1, 1e13f, &values);
  adj_join_spec spec = range_spec(0.001, ADJ_BACKEND_CPU, NULL);
  uint64_t before = adj_ctx_memory_used(ctx);
  adj_plan *plan = plan_of(ctx, set, &spec);
  const adji_grid *grid = &adji_range_index_of(&plan->engine)->grid;
  assert_true(grid->axis_count && grid->axes[grid->axis_count - 1].breaks);
  plan->tuning.prefilter = ADJI_PREFILTER_TENSOR; /* with it the device needs no axes */
  adj_status helped = adji_plan_range_helped(plan, ADJI_ALGORITHM_AUTO);
  assert_true(!helped || helped == ADJ_E_UNSUPPORTED);
  uint64_t total = 0;
  must(adj_count(plan, NULL, &total, NULL, NULL));
  adj_plan_destroy(plan);
  assert_int_equal(adj_ctx_memory_used(ctx), before);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
  free(values);
}

/* The choice of the cores does not depend on the prefilter chosen for a device before, and does not change it. */
static void test_filter_is_the_devices(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  float *values;
  adj_dataset *set = uneven_points(ctx, 100000, 16, 2, 30, &values);
  adj_join_spec spec = range_spec(0.5, ADJ_BACKEND_CPU, "prefilter=off");
  adj_plan *plan = plan_of(ctx, set, &spec);
  adji_tuning tuning = {0};
  adji_range_question question = plan->question;
  adji_device_choice device;
  adji_grid_choice cores;
  question.tuning = &tuning;
  must(adji_choose_for_device(&question, ADJI_ALGORITHM_AUTO, &device));
  assert_true(device.grid.tensor.use);
  must(adji_choose_grid(&plan->question, false, &cores));
  assert_false(cores.tensor.use);
  assert_int_equal(cores.grid.axis_count, adji_range_index_of(&plan->engine)->grid.axis_count);
  assert_string_equal(cores.reason, plan->choice.reason);
  adji_grid_choice_clear(ctx, &device.grid);
  adji_grid_choice_clear(ctx, &cores);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
  free(values);
}

/* ---- Many dimensions ------------------------------------------------------------------------------------- */

static adj_dataset *generated(adj_ctx *ctx, const char *name, uint64_t count, uint32_t dim) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = name;
  options.count = count;
  options.dim = dim;
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &options, &set));
  return set;
}

/* Codes are made if they drop most pairs. If a quarter of all pairs belong, codes drop nothing, and a recursion over
 * boxes finds nothing to exclude either. */
static void test_codes_and_boxes_must_pay(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = generated(ctx, "normal", 3000, 128);
  adj_join_spec selective = range_spec(12, ADJ_BACKEND_CPU, NULL), many = range_spec(15.5, ADJ_BACKEND_CPU, NULL);
  adj_plan *plan = plan_of(ctx, set, &selective);
  bool codes = adji_prefilter_codes_for(adj_ctx_isa(ctx));
  assert_int_equal(adji_range_index_of(&plan->engine)->prefilter.filter != NULL, codes);
  adj_plan_destroy(plan);
  plan = plan_of(ctx, set, &many);
  assert_null(adji_range_index_of(&plan->engine)->prefilter.filter);
  assert_int_equal(plan->choice.algorithm, ADJI_ALGORITHM_BRUTE);
  adj_plan_destroy(plan);
  many.tuning = "prefilter=codes"; /* codes that are asked for are made */
  plan = plan_of(ctx, set, &many);
  assert_int_equal(adji_range_index_of(&plan->engine)->prefilter.filter != NULL, codes);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

typedef struct device_case {
  const char *points;
  uint64_t count;
  uint32_t dim;
  adj_metric metric;
  double radius;
  const char *tuning;
  bool all_pairs, mirrored, axes, tensor;
} device_case;

/* A device compares all pairs if that takes less time than looking for something better, and if there is nothing
 * better: for inner products, and for radii that many pairs are within. */
static void test_all_pairs_on_a_device(void **state) {
  (void)state;
  static const device_case cases[] = {
      {"normal", 1000, 384, ADJ_L2, 27, "", true, true, false, false},
      {"normal", 8000, 64, ADJ_L1, 40, "", true, true, false, false},
      {"normal", 8000, 64, ADJ_L1, 40, "test.mirrored=off", true, false, false, false},
      {"normal", 3000, 20, ADJ_DOT, 3, "", true, true, false, false},
      {"normal", 3000, 20, ADJ_DOT, 3, "test.all_pairs=off", false, false, false, false},
      {"unif", 3000, 6, ADJ_L2, 0.1, "", false, true, true, false},
      {"unif", 100000, 16, ADJ_L2, 0.4, "", false, false, true, true},
      {"unif", 100000, 16, ADJ_L2, 1.5, "", true, true, false, false},
  };
  adj_ctx *ctx = context_of(2, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const device_case *c = &cases[i];
    adj_dataset *set = generated(ctx, c->points, c->count, c->dim);
    adj_join_spec spec = range_spec(c->radius, ADJ_BACKEND_CPU, NULL);
    spec.metric = c->metric;
    adj_plan *plan = plan_of(ctx, set, &spec);
    adji_tuning tuning;
    must(adji_tuning_parse(c->tuning, &tuning));
    adji_range_question question = plan->question;
    adji_device_choice device;
    question.tuning = &tuning;
    must(adji_choose_for_device(&question, ADJI_ALGORITHM_AUTO, &device));
    assert_int_equal(device.options.range.all_pairs, c->all_pairs);
    assert_int_equal(device.options.range.mirrored, c->mirrored);
    assert_int_equal(device.grid.grid.axis_count > 0, c->axes);
    assert_int_equal(device.grid.tensor.use, c->tensor);
    adji_grid_choice_clear(ctx, &device.grid);
    adj_plan_destroy(plan);
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

/* An estimate takes a small part of the join's work. For small joins in few dimensions it may use more queries. */
static void test_samples_are_small(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_join_spec spec = range_spec(20, ADJ_BACKEND_CPU, NULL);
  const struct {
    uint64_t count;
    uint32_t dim;
    uint64_t most;
  } sizes[] = {{2000, 256, 50}, {6000, 384, 150}, {1000, 2, 256}};
  for (int i = 0; i < 3; i++) {
    adj_dataset *set = generated(ctx, "normal", sizes[i].count, sizes[i].dim);
    adj_plan *plan = plan_of(ctx, set, &spec);
    assert_in_range(plan->sampled, 16, sizes[i].most);
    adj_plan_destroy(plan);
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

/* A sample of a large set rarely has two points in one cell. Cells must not become wider for that reason. With ten
 * neighbours and cells as wide as the radius, a cell has about three other points, or more in the middle of an
 * exponential set. */
static void test_large_sets_have_narrow_cells(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  const struct {
    const char *name;
    uint32_t dim;
    double radius;
    uint64_t population;
  } sets[] = {{"expo", 3, 0.0006753, 1000000},    {"expo", 3, 0.00031347, 10000000}, {"expo", 3, 0.0001455, 100000000},
              {"expo", 3, 0.00009166, 400000000}, {"unif", 2, 0.0000892, 400000000}, {"unif", 3, 0.00181, 400000000}};
  for (int i = 0; i < 6; i++) {
    adj_dataset *set = generated(ctx, sets[i].name, 20000, sets[i].dim);
    adj_join_spec spec = range_spec(sets[i].radius, ADJ_BACKEND_CPU, NULL);
    adj_plan *plan = plan_of(ctx, set, &spec);
    adji_range_question question = plan->question;
    question.population = sets[i].population;
    adji_grid_choice grid;
    must(adji_choose_grid(&question, false, &grid));
    assert_int_equal(grid.grid.axis_count, sets[i].dim);
    if (!strstr(grid.reason, "cells 1 times as wide") || !(grid.cell_population > 1 && grid.cell_population < 12))
      fail_msg("%s, %llu points: %s", sets[i].name, (unsigned long long)sets[i].population, grid.reason);
    adji_grid_choice_clear(ctx, &grid);
    adj_plan_destroy(plan);
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

/* Forecasts use the time of some batches, because in 384 dimensions the cost of a candidate depends on the radius.
 * Bounds are wide, because the machine may be busy. */
static void test_forecasts_are_near(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = generated(ctx, "normal", 2500, 384);
  const double radii[] = {24, 27, 60};
  for (int i = 0; i < 3; i++) {
    adj_join_spec spec = range_spec(radii[i], ADJ_BACKEND_CPU, NULL);
    adj_plan *plan = plan_of(ctx, set, &spec);
    adj_estimate estimate;
    adj_estimate_init(&estimate, sizeof estimate);
    must(adj_plan_estimate(plan, &estimate));
    uint32_t *degrees = calloc(2500, sizeof *degrees);
    uint64_t begin = adji_thread_ns();
    must(adj_count(plan, degrees, NULL, NULL, NULL));
    double ratio = estimate.count_seconds / ((double)(adji_thread_ns() - begin) * 1e-9);
    if (!(ratio > 0.25 && ratio < 4)) fail_msg("radius %g: forecast over time %g", radii[i], ratio);
    assert_true(estimate.seconds > 0);
    free(degrees);
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* In many dimensions it depends on the points whether a tree is worth a trial. */
static void test_trees_for_clusters(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  const struct {
    const char *name;
    uint32_t dim;
    adji_algorithm chosen;
  } sets[] = {{"clusters", 64, ADJI_ALGORITHM_AUTO},
              {"normal", 64, ADJI_ALGORITHM_BRUTE},
              {"unif", 200, ADJI_ALGORITHM_BRUTE},
              {"normal", 16, ADJI_ALGORITHM_AUTO},
              {"normal", 4, ADJI_ALGORITHM_KDTREE}};
  for (int i = 0; i < 5; i++) {
    adj_dataset *set = generated(ctx, sets[i].name, 8192, sets[i].dim);
    adji_measure measure = {.step = ADJI_STEP_L2};
    adji_join join = {.ctx = ctx, .left = set, .right = set, .self_join = true, .k = 8, .style = {.measure = &measure}};
    assert_int_equal(adji_choose_knn(&join).algorithm, sets[i].chosen);
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_longer_the_sooner),
      cmocka_unit_test(test_equals_share),
      cmocka_unit_test(test_measured_joins),
      cmocka_unit_test(test_a_device_that_waits_for_cores_is_alone),
      cmocka_unit_test(test_several_devices),
      cmocka_unit_test(test_small_joins_are_not_shared),
      cmocka_unit_test(test_a_quicker_device_needs_less_help),
      cmocka_unit_test(test_seconds_without_an_index),
      cmocka_unit_test(test_large_sets_have_narrow_cells),
      cmocka_unit_test(test_seconds_of_nearest),
      cmocka_unit_test(test_seconds_of_brute_force_on_a_device),
      cmocka_unit_test(test_when_tensor_cores_pay),
      cmocka_unit_test(test_all_pairs_on_a_device),
      cmocka_unit_test(test_auto_keeps_small_joins),
      cmocka_unit_test(test_grids_are_apart),
      cmocka_unit_test(test_filter_is_the_devices),
      cmocka_unit_test(test_codes_and_boxes_must_pay),
      cmocka_unit_test(test_samples_are_small),
      cmocka_unit_test(test_forecasts_are_near),
      cmocka_unit_test(test_trees_for_clusters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
