/* SPDX-License-Identifier: MIT
 *
 * Super-EGO and SEGO-New: the order of points, the bounds for sums in another order of dimensions, what the recursion
 * excludes, and both ways in which threads share the work.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/ego_join.h"
#include "cpu/ego_workload.h"
#include "running.h"

static uint64_t state_of_random = 1;

static double next(void) {
  state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (double)(state_of_random >> 11) * 0x1p-53;
}

static adj_dataset *set_of(adj_ctx *ctx, adj_type type, uint32_t dim, uint64_t count, const void *data) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = type;
  points.dim = dim;
  points.count = count;
  points.data = data;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &points, &set));
  return set;
}

/* ---- The order ---------------------------------------------------------------------------------------------- */

static const adji_measure L2 = {.step = ADJI_STEP_L2, .report = ADJI_REPORT_ROOT};

static bool is_in_order(const adji_ego_points *points, uint32_t i) {
  const adji_ego_order *order = points->order;
  for (uint32_t a = 0; a < order->axis_count; a++) {
    uint64_t c = adji_ego_cell(order, adji_ego_point(points, i - 1), a);
    uint64_t d = adji_ego_cell(order, adji_ego_point(points, i), a);
    if (c != d) return c < d;
  }
  return points->ids[i - 1] < points->ids[i];
}

static void check_points(const adj_dataset *set, const adji_ego_points *points) {
  const adji_ego_order *order = points->order;
  for (uint32_t i = 0; i < points->count; i++) {
    if (i) assert_true(is_in_order(points, i));
    for (uint32_t j = 0; j < order->dim; j++)
      assert_true(adji_ego_coordinate(order, adji_ego_point(points, i), j) ==
                  adji_dataset_at(set, points->ids[i], order->dims[j]));
  }
}

/* Both sorts give identical bytes: in few and many dimensions, with hardly any cells and with too many for slabs of
 * equal width, and with points that share all cells. */
static void sorts_are_identical(void **state) {
  (void)state;
  static const struct {
    uint32_t dim;
    double radius, far;
  } cases[] = {{1, 0.01, 1}, {2, 1e-3, 1}, {3, 2, 1},       {4, 1e-4, 1},
               {9, 1e-7, 1}, {40, 0.3, 1}, {3, 1e-4, 1e30}, {2, 0, 1}};
  adj_ctx *ctx = context_of(3, NULL);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int wide = 0; wide < 2; wide++) {
      enum { COUNT = 20000 };
      uint64_t values = (uint64_t)COUNT * cases[c].dim;
      double *data = malloc(values * sizeof *data);
      assert_non_null(data);
      for (uint64_t i = 0; i < values; i++) {
        double x = i % 11 ? next() : floor(8 * next()) / 8;
        if (i % 1999 == 7) x *= cases[c].far;
        if (wide)
          data[i] = x;
        else
          ((float *)data)[i] = (float)x;
      }
      adj_dataset *set = set_of(ctx, wide ? ADJ_F64 : ADJ_F32, cases[c].dim, COUNT, data);
      adji_ego_order order;
      adji_ego_points parallel, sequential;
      double limit = adji_limit(&L2, set->type, cases[c].radius);
      must(adji_ego_order_init(ctx, set, set, &L2, limit, &(adji_ego_order_options){.reorder = true}, &order));
      must(adji_ego_points_build(&order, set, false, &parallel));
      must(adji_ego_points_build(&order, set, true, &sequential));
      assert_memory_equal(parallel.ids, sequential.ids, COUNT * sizeof *parallel.ids);
      assert_memory_equal(parallel.coords, sequential.coords, values * (wide ? 8 : 4));
      check_points(set, &parallel);
      adji_ego_points_clear(&parallel);
      adji_ego_points_clear(&sequential);
      adji_ego_order_clear(&order);
      adj_dataset_destroy(set);
      free(data);
    }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Extents of 0.01, 4, 0.3 and 1: an extent of few radii is not selective. Only the first axes have cells. */
static void selective_dimensions_come_first(void **state) {
  (void)state;
  enum { COUNT = 5000 };
  static const double widths[] = {0.01, 4, 0.3, 1};
  static const uint32_t expected[] = {1, 3, 2, 0};
  static double data[4 * COUNT];
  for (uint32_t i = 0; i < 4 * COUNT; i++)
    data[i] = widths[i % 4] * next();
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = set_of(ctx, ADJ_F64, 4, COUNT, data);
  adji_ego_order order;
  double limit = adji_limit(&L2, ADJ_F64, 0.1);
  must(
      adji_ego_order_init(ctx, set, set, &L2, limit, &(adji_ego_order_options){.reorder = true, .indexed = 3}, &order));
  assert_memory_equal(order.dims, expected, sizeof expected);
  assert_int_equal(order.axis_count, 3);
  adji_ego_order_clear(&order);
  must(adji_ego_order_init(ctx, set, set, &L2, limit, &(adji_ego_order_options){.cell = 3}, &order));
  for (uint32_t j = 0; j < 4; j++)
    assert_int_equal(order.dims[j], j);
  assert_int_equal(order.axes[1].slabs, 14); /* the extent of 0.3 */
  adji_ego_order_clear(&order);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- Workload ------------------------------------------------------------------------------------------------- */

static bool are_near(const adji_ego_order *order, const void *a, const void *b, uint32_t axes) {
  for (uint32_t i = 0; i < axes; i++) {
    int64_t gap = (int64_t)adji_ego_cell(order, a, i) - (int64_t)adji_ego_cell(order, b, i);
    if (gap < -1 || gap > 1) return false;
  }
  return true;
}

static void check_workload(adj_ctx *ctx, uint32_t dim, double radius, bool one) {
  enum { LEFT = 700, RIGHT = 900 };
  uint32_t order_of[LEFT + ADJI_PAD], work[LEFT], axes = dim < ADJI_EGO_WORKLOAD_AXES ? dim : ADJI_EGO_WORKLOAD_AXES;
  adj_dataset *left = uniform(ctx, LEFT, dim), *right = one ? left : uniform(ctx, RIGHT, dim);
  adji_ego_order order;
  adji_ego_points a, b;
  double limit = adji_limit(&L2, left->type, radius);
  must(adji_ego_order_init(ctx, left, right, &L2, limit, &(adji_ego_order_options){.reorder = true}, &order));
  must(adji_ego_points_build(&order, left, false, &a));
  must(adji_ego_points_build(&order, right, false, &b));
  must(adji_ego_workload(&a, one ? &a : &b, order_of, work));
  for (uint32_t i = 0; i < LEFT; i++) {
    uint32_t near = 0;
    for (uint32_t j = 0; j < b.count; j++)
      near += are_near(&order, adji_ego_point(&a, i), adji_ego_point(&b, j), axes);
    assert_int_equal(work[i], near);
    if (!i) continue;
    uint32_t p = order_of[i - 1], q = order_of[i];
    assert_true(work[p] > work[q] || (work[p] == work[q] && p < q));
  }
  adji_ego_points_clear(&a);
  adji_ego_points_clear(&b);
  adji_ego_order_clear(&order);
  if (!one) adj_dataset_destroy(right);
  adj_dataset_destroy(left);
}

/* The work of a query is the number of points in the cells around its own. The heaviest queries come first. */
static void heaviest_come_first(void **state) {
  (void)state;
  static const uint32_t dims[] = {1, 2, 3, 6, 8};
  adj_ctx *ctx = context_of(3, NULL);
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    for (int one = 0; one < 2; one++) {
      check_workload(ctx, dims[d], 0.05, one);
      check_workload(ctx, dims[d], 0.3, one);
    }
  adj_ctx_destroy(ctx);
}

/* ---- Bounds ------------------------------------------------------------------------------------------------- */

/* Sums in another order round differently. Limits are the canonical sum and the number before it: pairs that are
 * dropped must not belong, and pairs that are accepted must. Denormal, usual and huge coordinates. */
static void bounds_hold_for_ulps(void **state) {
  (void)state;
  static const double scales[] = {1, 1e-22, 3e-23, 1e15, 1e-3};
  static const uint32_t dims[] = {1, 2, 3, 8, 33, 200};
  uint32_t between = 0, decided = 0;
  for (int round = 0; round < 3000; round++) {
    float a[200], b[200];
    uint32_t dim = dims[round % 6];
    float scale = (float)scales[round / 6 % 5], sum = 0, other = 0;
    for (uint32_t j = 0; j < dim; j++) {
      a[j] = (float)next() * scale;
      b[j] = round % 4 ? (float)next() * scale : nextafterf(a[j], 1e30F);
    }
    for (uint32_t j = 0; j < dim; j++)
      sum = fmaf(a[j] - b[j], a[j] - b[j], sum);
    for (uint32_t j = dim; j--;)
      other += (a[j] - b[j]) * (a[j] - b[j]);
    for (int step = -2; step <= 2; step++) {
      float limit = sum;
      for (int i = 0; i < abs(step); i++)
        limit = nextafterf(limit, step < 0 ? 0 : INFINITY);
      adji_ego_bounds bounds = adji_ego_bounds_of(ADJ_F32, ADJI_STEP_L2, dim, (double)limit);
      if ((double)other > bounds.most) assert_true(sum > limit);
      if ((double)other <= bounds.least) assert_true(sum <= limit);
      between += (double)other <= bounds.most && (double)other > bounds.least;
    }
    adji_ego_bounds far = adji_ego_bounds_of(ADJ_F32, ADJI_STEP_L2, dim, (double)sum * 1.01);
    adji_ego_bounds near = adji_ego_bounds_of(ADJ_F32, ADJI_STEP_L2, dim, (double)sum / 1.01);
    decided += (double)other <= far.least && (double)other > near.most;
  }
  assert_true(between > 10000); /* sums this close to the limit are left to the canonical sum, */
  assert_true(decided > 1000);  /* and sums a per cent away are not */
}

/* Points whose sums differ between the two orders, with a radius between these sums. */
static void canonical_sums_decide(void **state) {
  (void)state;
  enum { COUNT = 300, DIM = 12 };
  static float data[COUNT * DIM];
  static const char *const systems[] = {"super-ego", "sego-new"};
  adj_ctx *ctx = context_of(2, NULL);
  for (int round = 0; round < 12; round++) {
    for (uint32_t i = 0; i < COUNT * DIM; i++) /* dimension 0 is the least selective, so it comes last */
      data[i] = (float)next() * (i % DIM ? (float)(i % DIM) : 0.01F);
    float sum = 0;
    for (uint32_t j = 0; j < DIM; j++)
      sum = fmaf(data[j] - data[DIM + j], data[j] - data[DIM + j], sum);
    adj_dataset *set = set_of(ctx, ADJ_F32, DIM, COUNT, data);
    float radius = sqrtf(sum);
    for (int step = -2; step <= 2; step++) {
      adj_join_spec spec;
      uint64_t counts[3];
      adj_join_spec_init(&spec, sizeof spec);
      spec.radius = (double)(radius + (float)step * (nextafterf(radius, 1e9F) - radius));
      for (int s = 0; s < 3; s++) {
        adj_plan *plan = NULL;
        spec.backend = s ? ADJ_BACKEND_CPU : ADJ_BACKEND_REFERENCE;
        spec.system = s ? systems[s - 1] : NULL;
        must(adj_plan_create(ctx, &spec, set, NULL, &plan));
        must(adj_count(plan, NULL, &counts[s], NULL, NULL));
        adj_plan_destroy(plan);
      }
      assert_int_equal(counts[1], counts[0]);
      assert_int_equal(counts[2], counts[0]);
    }
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

/* ---- The recursion ------------------------------------------------------------------------------------------ */

static adj_plan *plan_with(adj_ctx *ctx, const adj_dataset *set, double radius, const char *system,
                           const char *tuning) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = radius;
  spec.system = system;
  spec.tuning = tuning;
  adj_plan *plan = NULL;
  must(adj_plan_create(ctx, &spec, set, NULL, &plan));
  return plan;
}

static uint64_t candidates_of(adj_ctx *ctx, const adj_dataset *set, double radius, const char *system,
                              const char *tuning) {
  adj_plan *plan = plan_with(ctx, set, radius, system, tuning);
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  must(adj_count(plan, NULL, NULL, NULL, &stats));
  adj_plan_destroy(plan);
  return stats.candidates;
}

/* The recursion leaves few of all n^2 comparisons, fewer with shorter sequences and with the narrow dimension last. */
static void recursion_leaves_little(void **state) {
  (void)state;
  enum { COUNT = 20000, FEW = 2000 };
  static float data[3 * COUNT];
  for (uint32_t i = 0; i < 3 * COUNT; i++)
    data[i] = (float)next() * (i % 3 ? 1.0F : 0.02F);
  adj_ctx *ctx = context_of(3, NULL);
  adj_dataset *set = set_of(ctx, ADJ_F32, 3, COUNT, data), *few = set_of(ctx, ADJ_F32, 3, FEW, data);
  const double all = (double)COUNT * COUNT;
  for (int s = 0; s < 2; s++) {
    const char *system = s ? "sego-new" : "super-ego";
    double plain = (double)candidates_of(ctx, set, 0.01, system, NULL);
    assert_true(plain < 0.02 * all);
    assert_true((double)candidates_of(ctx, set, 0.01, system, "paper.leaf=4") < plain);
    assert_true((double)candidates_of(ctx, set, 0.01, system, "paper.leaf=2000") > 2 * plain);
    assert_true((double)candidates_of(ctx, set, 0.01, system, "paper.reorder=off") > 1.2 * plain);
    assert_true((double)candidates_of(ctx, set, 0.01, system, "indexed=1") > plain);
    assert_int_equal(candidates_of(ctx, few, 2, system, NULL), FEW * FEW);
  }
  adj_dataset_destroy(set);
  adj_dataset_destroy(few);
  adj_ctx_destroy(ctx);
}

/* Both ways to share the work, with any number of threads, give the bytes of the other algorithms. */
static void threads_share_it(void **state) {
  (void)state;
  static const char *const tunings[] = {"paper.threads=producer,paper.leaf=3",
                                        "paper.threads=producer,paper.sort=qsort", "paper.threads=queue,batch=17",
                                        "paper.threads=queue,paper.leaf=1,batch=1000", "paper.reorder=off,cell=2.5"};
  for (uint32_t threads = 1; threads <= 5; threads += 2) {
    adj_ctx *ctx = context_of(threads, NULL);
    adj_dataset *set = uniform(ctx, 4000, 3);
    adj_plan *plain = plan_with(ctx, set, 0.08, NULL, NULL);
    adj_result *expected = NULL;
    must(adj_collect(plain, &expected, NULL, NULL));
    for (size_t t = 0; t < sizeof tunings / sizeof *tunings; t++) {
      char text[128];
      snprintf(text, sizeof text, "paper.dual=on,%s", tunings[t]);
      adj_plan *plan = plan_with(ctx, set, 0.08, NULL, text);
      adj_result *result = NULL;
      must(adj_collect(plan, &result, NULL, NULL));
      assert_int_equal(adj_result_pairs(result), adj_result_pairs(expected));
      assert_memory_equal(adj_result_offsets(result), adj_result_offsets(expected), 4001 * sizeof(uint64_t));
      assert_memory_equal(adj_result_ids(result), adj_result_ids(expected),
                          adj_result_pairs(expected) * sizeof(uint32_t));
      adj_result_destroy(result);
      adj_plan_destroy(plan);
    }
    adj_result_destroy(expected);
    adj_plan_destroy(plain);
    adj_dataset_destroy(set);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

/* Runs that are cancelled, have too many pairs, or have a sink that fails, in both ways. */
static void runs_can_end_early(void **state) {
  (void)state;
  static const char *const systems[] = {"super-ego", "sego-new"};
  adj_ctx *ctx = context_of(3, NULL);
  adj_dataset *set = uniform(ctx, 20000, 2), *few = uniform(ctx, 3000, 2);
  for (int s = 0; s < 2; s++) {
    adj_plan *plan = plan_with(ctx, set, 0.2, systems[s], NULL);
    adj_run_control control = control_of();
    control.max_pairs = 200000;
    must_fail(ADJ_E_LIMIT, "200000", adj_count(plan, NULL, NULL, &control, NULL));
    adj_plan_destroy(plan);
    plan = plan_with(ctx, few, 0.05, systems[s], "buffer=4096");
    refuse_everywhere(ctx, plan, 3000);
    adj_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
  adj_dataset_destroy(few);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- What they cannot do ------------------------------------------------------------------------------------- */

static void others_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *system, *tuning, *message;
    adj_metric metric;
    adj_backend backend;
    bool box;
    adj_status status;
  } cases[] = {
      {"super-ego", NULL, "does not have this metric", ADJ_COSINE, 0, false, ADJ_E_UNSUPPORTED},
      {"sego-new", NULL, "is for the backend cpu, not gpu", ADJ_L2, ADJ_BACKEND_GPU, false, ADJ_E_UNSUPPORTED},
      {"sego-new", NULL, "without a periodic box", ADJ_L2, 0, true, ADJ_E_UNSUPPORTED},
      {"sego-new", "indexed=4", "of these 3 dimensions only 3", ADJ_L2, 0, false, ADJ_E_UNSUPPORTED},
      {"super-ego", "batch=10", "producer has no batches", ADJ_L2, 0, false, ADJ_E_ARGUMENT},
      {"sego-new", "single=on", "single=on is not for paper.dual=on", ADJ_L2, 0, false, ADJ_E_ARGUMENT},
      {"sego-new", "fine=2", "fine= is not for paper.dual=on", ADJ_L2, 0, false, ADJ_E_ARGUMENT},
      {"sego-new", "paper.dual=off", "paper.leaf= is for paper.dual=on only", ADJ_L2, 0, false, ADJ_E_ARGUMENT},
      {NULL, "paper.sort=qsort", "paper.sort= is for paper.dual=on only", ADJ_L2, 0, false, ADJ_E_ARGUMENT},
      {NULL, "paper.dual=on,paper.threads=producer", "producer is for the backend cpu, not hybrid", ADJ_L2,
       ADJ_BACKEND_HYBRID, false, ADJ_E_UNSUPPORTED},
      {NULL, "paper.dual=on", "paper.dual= is for the backend cpu and hybrid, not gpu", ADJ_L2, ADJ_BACKEND_GPU, false,
       ADJ_E_UNSUPPORTED},
      {NULL, "paper.dual=on,test.boxes=on", "which another setting is not for", ADJ_L2, 0, false, ADJ_E_UNSUPPORTED},
  };
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = uniform(ctx, 50, 3);
  double length = 2;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    adj_join_spec spec;
    adj_join_spec_init(&spec, sizeof spec);
    spec.radius = 0.1;
    spec.system = cases[i].system;
    spec.tuning = cases[i].tuning;
    spec.metric = cases[i].metric;
    spec.backend = cases[i].backend;
    spec.box = cases[i].box ? &length : NULL;
    spec.box_count = cases[i].box;
    adj_plan *plan = NULL;
    must_fail(cases[i].status, cases[i].message, adj_plan_create(ctx, &spec, set, NULL, &plan));
    assert_null(plan);
  }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sorts_are_identical),   cmocka_unit_test(selective_dimensions_come_first),
      cmocka_unit_test(heaviest_come_first),   cmocka_unit_test(bounds_hold_for_ulps),
      cmocka_unit_test(canonical_sums_decide), cmocka_unit_test(recursion_leaves_little),
      cmocka_unit_test(threads_share_it),      cmocka_unit_test(runs_can_end_early),
      cmocka_unit_test(others_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
