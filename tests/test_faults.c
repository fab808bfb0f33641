/* SPDX-License-Identifier: MIT
 *
 * Memory runs out at every point where it can: the n-th allocation fails, for n from 0 until the call succeeds. Each
 * failure must be reported, leave outputs untouched and free everything.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "core/context.h"

/* The inputs of an action. */
typedef struct attempt {
  adj_ctx *ctx;
  const adj_dataset *left, *right;
  adj_join_spec spec;
  const char *generator;
} attempt;

typedef adj_status (*action)(attempt *a, uint64_t *result);

static void print_faults(const char *what, int64_t faults) {
  print_message("%s: %lld allocations can fail\n", what, (long long)faults);
}

/* Runs the action with the first, the second, ... allocation failing. If it succeeds, the result must be the same as
 * without faults. Returns how many failed allocations it could do without. */
static int64_t try_all_faults(const char *what, attempt *a, action act) {
  adji_memory *memory = &a->ctx->memory;
  uint64_t used = atomic_load(&memory->used), right = 0, result = 0;
  must(act(a, &right));
  assert_int_equal(atomic_load(&memory->used), used);
  int64_t n = 0, survived = 0;
  for (;; n++) {
    result = 12345;
    atomic_store(&memory->fail_at, n);
    adj_status status = act(a, &result);
    bool hit = atomic_load(&memory->fail_at) < 0;
    atomic_store(&memory->fail_at, -1);
    assert_int_equal(atomic_load(&memory->used), used);
    if (status == ADJ_OK) {
      assert_int_equal(result, right);
      if (!hit) break; /* there were fewer allocations */
      survived++;      /* it did without this block */
      continue;
    }
    if (status != ADJ_E_MEMORY) fail_msg("%s: allocation %lld: %s", what, (long long)n, adj_status_name(status));
    assert_non_null(strstr(adj_last_error(), "out of memory"));
    assert_int_equal(result, 12345);
    assert_true(n < 100000);
  }
  print_faults(what, n);
  assert_true(n > 0);
  return survived;
}

/* ---- The actions ----------------------------------------------------------------------------------------- */

/* A sum over a whole row, so that a wrong result is noticed. */
static uint64_t digest(uint64_t sum, uint64_t row, const uint32_t *ids, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    sum = (sum ^ (row * 2654435761u + ids[i])) * UINT64_C(0x100000001b3);
  return sum;
}

static adj_status act_count(attempt *a, uint64_t *result) {
  adj_plan *plan = NULL;
  adj_status status = adj_plan_create(a->ctx, &a->spec, a->left, a->right, &plan);
  uint64_t total = 0;
  uint32_t *degrees = calloc(adj_dataset_count(a->left) + 1, sizeof *degrees);
  if (!status) status = adj_count(plan, degrees, &total, NULL, NULL);
  if (!status) *result = digest(total, 0, degrees, adj_dataset_count(a->left));
  free(degrees);
  adj_plan_destroy(plan);
  return status;
}

static adj_status act_collect(attempt *a, uint64_t *result) {
  adj_plan *plan = NULL;
  adj_result *collected = NULL;
  adj_status status = adj_plan_create(a->ctx, &a->spec, a->left, a->right, &plan);
  if (!status) status = adj_collect(plan, &collected, NULL, NULL);
  if (!status) {
    uint64_t sum = 1;
    const uint64_t *offsets = adj_result_offsets(collected);
    for (uint64_t row = 0; row < adj_result_rows(collected); row++)
      sum = digest(sum, row, adj_result_ids(collected) + offsets[row], offsets[row + 1] - offsets[row]);
    *result = sum;
  }
  adj_result_destroy(collected);
  adj_plan_destroy(plan);
  return status;
}

static adj_status digest_rows(void *user, const adj_rows *rows) {
  uint64_t *sum = user;
  for (uint64_t i = 0; i < rows->row_count; i++)
    *sum = digest(*sum, rows->first_row + i, rows->ids + rows->offsets[i], rows->offsets[i + 1] - rows->offsets[i]);
  return ADJ_OK;
}

static adj_status act_stream(attempt *a, uint64_t *result) {
  adj_plan *plan = NULL;
  uint64_t sum = 1;
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &sum;
  sink.write = digest_rows;
  adj_status status = adj_plan_create(a->ctx, &a->spec, a->left, a->right, &plan);
  if (!status) status = adj_stream(plan, &sink, NULL, NULL);
  if (!status) *result = sum;
  adj_plan_destroy(plan);
  return status;
}

static adj_status act_generate(attempt *a, uint64_t *result) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = a->generator;
  options.count = 1000;
  options.dim = 3;
  adj_dataset *untouched = (adj_dataset *)a, *set = untouched;
  adj_status status = adj_dataset_generate(a->ctx, &options, &set);
  if (status) {
    if (set != untouched) return ADJ_E_INTERNAL;
    return status;
  }
  *result = adj_dataset_count(set);
  adj_dataset_destroy(set);
  return ADJ_OK;
}

static adj_status act_create(attempt *a, uint64_t *result) {
  static const float data[] = {1, 2, 3, 4, 5, 6};
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.data = data;
  points.count = 3;
  points.dim = 2;
  adj_dataset *set = NULL;
  adj_status status = adj_dataset_create(a->ctx, &points, &set);
  if (!status) *result = adj_dataset_count(set);
  adj_dataset_destroy(set);
  return status;
}

/* Plans for cores and a device. The context has no device, which is reported at the end. */
static adj_status act_plan_both(attempt *a, uint64_t *result) {
  adj_plan *plan = NULL;
  adj_status status = adj_plan_create(a->ctx, &a->spec, a->left, a->right, &plan);
  adj_plan_destroy(plan);
  if (status && status != ADJ_E_UNSUPPORTED) return status;
  *result = 1;
  return ADJ_OK;
}

/* ---- The tests -------------------------------------------------------------------------------------------- */

static adj_dataset *make(adj_ctx *ctx, const char *name, uint64_t count, uint32_t dim, uint64_t seed) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = name;
  options.count = count;
  options.dim = dim;
  options.seed = seed;
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &options, &set));
  return set;
}

static void making_points(void **state) {
  (void)state;
  attempt a = {.ctx = context_of(2, NULL)};
  try_all_faults("create", &a, act_create);
  static const char *const names[] = {"unif",       "expo",  "clusters", "normal", "sphere", "lattice",
                                      "duplicates", "codes", "repeats",  "flat",   "songs"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    a.generator = names[i];
    try_all_faults(names[i], &a, act_generate);
  }
  adj_ctx_destroy(a.ctx);
}

/* Joins of every algorithm and mode, with one thread and with two. k 0: range joins. */
static void try_joins(uint32_t k, uint32_t threads, const char *tuning) {
  static const char *const range[] = {NULL, "grid", "ego", "kdtree", "brute"}, *const nearest[] = {NULL, "kdtree",
                                                                                                   "brute"};
  const char *const *algorithms = k ? nearest : range;
  attempt a = {.ctx = context_of(threads, NULL)};
  adj_dataset *left = make(a.ctx, "clusters", 300, 3, 1), *right = make(a.ctx, "unif", 200, 3, 2);
  for (int i = 0; i < (k ? 3 : 5); i++)
    for (int mode = 0; mode < 6; mode++) {
      if (i == 3 && tuning && (strstr(tuning, "single") || strstr(tuning, "staged")))
        continue; /* trees do not have this setting */
      a.left = left;
      a.right = mode % 2 ? right : NULL;
      adj_join_spec_init(&a.spec, sizeof a.spec);
      a.spec.kind = k ? ADJ_KNN : ADJ_RANGE;
      a.spec.radius = k && k < 100 ? INFINITY : 0.1;
      a.spec.k = k;
      a.spec.algorithm = algorithms[i];
      a.spec.tuning = tuning;
      a.spec.order = (adj_order)(mode / 2 % 2); /* not ANY: the digest depends on the order */
      a.spec.flags = mode >= 2 ? ADJ_WITH_DISTANCE : 0;
      char what[80];
      snprintf(what, sizeof what, "%s %s, mode %d, %u threads", k ? "kNN" : "range",
               algorithms[i] ? algorithms[i] : "auto", mode, threads);
      int64_t survived = try_all_faults(what, &a, mode < 2 ? act_count : mode < 4 ? act_collect : act_stream);
      bool staged = tuning && strstr(tuning, "staged") && i < 2 && mode >= 2;
      assert_true(survived > 0 || !staged); /* without room for staged rows they are counted first */
    }
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  assert_int_equal(adj_ctx_memory_used(a.ctx), 0);
  adj_ctx_destroy(a.ctx);
}

static void joining_with_one_thread(void **state) {
  (void)state;
  try_joins(0, 1, NULL);
}

static void joining_with_two_threads(void **state) {
  (void)state;
  try_joins(0, 2, NULL);
}

static void joining_with_small_buffers(void **state) {
  (void)state;
  try_joins(0, 2, "batch=50,buffer=20000");
}

static void joining_each_pair_once(void **state) {
  (void)state;
  try_joins(0, 1, "single=on");
}

static void joining_with_staged_rows(void **state) {
  (void)state;
  try_joins(0, 2, "staged=on");
}

static void joining_by_pairs_of_sequences(void **state) {
  (void)state;
  static const char *const systems[] = {"super-ego", "sego-new"};
  attempt a = {.ctx = context_of(2, NULL)};
  adj_dataset *left = make(a.ctx, "clusters", 300, 3, 1), *right = make(a.ctx, "unif", 200, 3, 2);
  for (int i = 0; i < 6; i++) {
    a.left = left;
    a.right = i / 2 % 2 ? right : NULL;
    adj_join_spec_init(&a.spec, sizeof a.spec);
    a.spec.radius = 0.1;
    a.spec.system = systems[i % 2];
    a.spec.order = i < 4 ? ADJ_ORDER_DISTANCE : ADJ_ORDER_ID;
    try_all_faults(systems[i % 2], &a, i < 2 ? act_count : i < 4 ? act_collect : act_stream);
  }
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  assert_int_equal(adj_ctx_memory_used(a.ctx), 0);
  adj_ctx_destroy(a.ctx);
}

static void joining_the_nearest(void **state) {
  (void)state;
  try_joins(1, 1, NULL);
  try_joins(10, 2, NULL);
  try_joins(300, 2, "buffer=120000");
}

/* Metrics with derived points, and a periodic box whose points have images. */
static void joining_by_other_metrics(void **state) {
  (void)state;
  static const double box = 1;
  static const adj_metric metrics[] = {ADJ_COSINE, ADJ_HAVERSINE, ADJ_DOT, ADJ_L2};
  attempt a = {.ctx = context_of(2, NULL)};
  adj_dataset *left = make(a.ctx, "unif", 300, 2, 1), *right = make(a.ctx, "unif", 200, 2, 2);
  for (int i = 0; i < 8; i++) {
    a.left = left;
    a.right = i % 2 ? right : NULL;
    adj_join_spec_init(&a.spec, sizeof a.spec);
    a.spec.metric = metrics[i / 2];
    a.spec.radius = a.spec.metric == ADJ_HAVERSINE ? 5000 : 0.05;
    a.spec.box = &box;
    a.spec.box_count = a.spec.metric == ADJ_L2;
    char what[80];
    snprintf(what, sizeof what, "metric %d, %s", (int)a.spec.metric, i % 2 ? "two sets" : "self-join");
    try_all_faults(what, &a, act_collect);
  }
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  assert_int_equal(adj_ctx_memory_used(a.ctx), 0);
  adj_ctx_destroy(a.ctx);
}

/* A kept index: with and without a grid, with a radius for each query, and one query at a time. */
static adj_status ask_index(adj_index *index, const adj_question *question, const adj_dataset *left, uint64_t *sum) {
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  adj_status status = adj_index_plan(index, question, left, &plan);
  if (!status) status = adj_collect(plan, &result, NULL, NULL);
  if (!status) *sum = digest(*sum, 0, adj_result_ids(result), adj_result_pairs(result));
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  return status;
}

static adj_status act_index(attempt *a, uint64_t *result) {
  adj_index *index = NULL;
  adj_question question;
  uint32_t ids[20], found = 0;
  float point[3] = {0.5F, 0.5F, 0.5F};
  double radii[200];
  uint64_t sum = 1;
  for (int i = 0; i < 200; i++)
    radii[i] = 0.001 * i;
  adj_status status = adj_index_create(a->ctx, NULL, a->right, &index);
  adj_question_init(&question, sizeof question);
  question.k = 5;
  if (!status) status = ask_index(index, &question, a->left, &sum);
  if (!status) status = ask_index(index, &question, NULL, &sum);
  question.kind = ADJ_RANGE;
  question.radius = 0.1;
  question.flags = ADJ_WITH_DISTANCE;
  if (!status) status = ask_index(index, &question, a->left, &sum);
  if (!status) status = ask_index(index, &question, NULL, &sum);
  question.radii = radii;
  question.radius_count = 200;
  if (!status) status = ask_index(index, &question, NULL, &sum);
  if (!status) status = adj_index_nearest(index, point, 20, ids, NULL, &found);
  if (!status) sum = digest(sum, 1, ids, found);
  if (!status) status = adj_index_within(index, point, 0.3, 20, ids, NULL, &found);
  if (!status) *result = digest(sum, 2, ids, found < 20 ? found : 20);
  adj_index_destroy(index);
  return status;
}

static void asking_an_index(void **state) {
  (void)state;
  attempt a = {.ctx = context_of(2, NULL)};
  adj_dataset *left = make(a.ctx, "clusters", 3, 3, 1), *right = make(a.ctx, "unif", 200, 3, 2);
  a.left = left;
  a.right = right;
  try_all_faults("index", &a, act_index);
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  assert_int_equal(adj_ctx_memory_used(a.ctx), 0);
  adj_ctx_destroy(a.ctx);
}

/* With the tensor prefilter, and slabs of unequal width. */
static void planning_for_a_device_too(void **state) {
  (void)state;
  attempt a = {.ctx = context_of(1, NULL)};
  adj_dataset *set = make(a.ctx, "expo", 300, 8, 1);
  a.left = set;
  adj_join_spec_init(&a.spec, sizeof a.spec);
  a.spec.radius = 1e-7;
  a.spec.backend = ADJ_BACKEND_HYBRID;
  a.spec.tuning = "prefilter=tensor,indexed=3";
  try_all_faults("a plan for both", &a, act_plan_both);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(a.ctx), 0);
  adj_ctx_destroy(a.ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(making_points),
      cmocka_unit_test(joining_with_one_thread),
      cmocka_unit_test(joining_with_two_threads),
      cmocka_unit_test(joining_with_small_buffers),
      cmocka_unit_test(joining_each_pair_once),
      cmocka_unit_test(joining_with_staged_rows),
      cmocka_unit_test(joining_by_pairs_of_sequences),
      cmocka_unit_test(joining_the_nearest),
      cmocka_unit_test(joining_by_other_metrics),
      cmocka_unit_test(asking_an_index),
      cmocka_unit_test(planning_for_a_device_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
