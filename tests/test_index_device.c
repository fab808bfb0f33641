/* SPDX-License-Identifier: MIT
 *
 * Indexes kept on a software device: what is made and what is reused, within a memory limit; questions with queries on
 * the device, for every case of the list; many threads; wrong use; failures.
 */
#include <math.h>
#include <pthread.h>

#include "adjoin_cuda.h"
#include "machine.h"
#include "plan/index.h"
#include "software/scene.h"

static adj_question nearest(uint32_t k) {
  adj_question question;
  adj_question_init(&question, sizeof question);
  question.k = k;
  question.flags = ADJ_WITH_DISTANCE;
  return question;
}

static adj_question within(double radius) {
  adj_question question = nearest(0);
  question.kind = ADJ_RANGE;
  question.radius = radius;
  return question;
}

static adj_index *index_on(adj_ctx *ctx, adj_backend backend, const adj_dataset *set) {
  adj_index_options options;
  adj_index_options_init(&options, sizeof options);
  options.backend = backend;
  adj_index *index = NULL;
  must(adj_index_create(ctx, &options, set, &index));
  return index;
}

static void must_equal(const adj_result *x, const adj_result *y) {
  uint64_t rows = adj_result_rows(x);
  assert_int_equal(adj_result_rows(y), rows);
  assert_int_equal(adj_result_pairs(x), adj_result_pairs(y));
  uint64_t entries = adj_result_offsets(x)[rows];
  assert_memory_equal(adj_result_offsets(x), adj_result_offsets(y), (rows + 1) * sizeof(uint64_t));
  if (!entries) return;
  assert_memory_equal(adj_result_ids(x), adj_result_ids(y), entries * sizeof(uint32_t));
  assert_memory_equal(adj_result_distances(x), adj_result_distances(y), entries * sizeof(float));
}

/* Checks that the answer is the same as on another index. word: what explain must say. Returns the bytes uploaded. */
static uint64_t ask(adj_index *index, adj_index *other, adj_question question, const adj_dataset *left,
                    const char *word) {
  adj_plan *plan = NULL, *plain = NULL;
  adj_result *result = NULL, *expected = NULL;
  char text[4096];
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  must(adj_index_plan(index, &question, left, &plan));
  must(adj_plan_explain(plan, text, sizeof text, NULL));
  if (!strstr(text, word)) fail_msg("\"%s\" does not say \"%s\"", text, word);
  must(adj_collect(plan, &result, NULL, &stats));
  question.algorithm = NULL;
  must(adj_index_plan(other, &question, left, &plain));
  must(adj_collect(plain, &expected, NULL, NULL));
  must_equal(result, expected);
  adj_result_destroy(result);
  adj_result_destroy(expected);
  adj_plan_destroy(plan);
  adj_plan_destroy(plain);
  return stats.bytes_up;
}

static void structures_are_reused(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(2, 1, 0);
  adj_dataset *set = some_points(ctx, "unif", 2000, 3, 1), *few = some_points(ctx, "unif", 40, 3, 2);
  adj_index *index = index_on(ctx, ADJ_BACKEND_GPU, set), *cores = index_on(ctx, ADJ_BACKEND_CPU, set);
  uint64_t points = UINT64_C(2000) * 3 * 4, queries = UINT64_C(40) * 3 * 4;
  assert_true(ask(index, cores, nearest(3), few, "tree on the GPU reused") >=
              points); /* the first question reports the upload of the points */
  assert_int_equal(ask(index, cores, nearest(100), few, "tree on the GPU reused"), queries);
  assert_int_equal(ask(index, cores, nearest(5), NULL, "tree on the GPU reused"), 0);
  assert_int_equal(ask(index, cores, within(0.1), few, "tree on the GPU reused"), queries);
  adj_question bounded = nearest(7);
  bounded.radius = 0.12;
  ask(index, cores, bounded, few, "tree on the GPU reused");
  ask(index, cores, within(0.1), NULL, "grid on the GPU built");
  assert_int_equal(ask(index, cores, within(0.1), NULL, "grid on the GPU reused"), 0);
  assert_int_equal(ask(index, cores, within(0.09), NULL, "grid on the GPU reused"), 0);
  ask(index, cores, within(0.03), NULL, "grid on the GPU built");
  adj_question brute = nearest(4);
  brute.algorithm = "brute";
  ask(index, cores, brute, few, "points on the GPU built");
  ask(index, cores, brute, few, "points on the GPU reused");
  ask(index, cores, within(0.25), NULL, "grid on the GPU built"); /* from points on the device */
  adj_index_destroy(index);
  adj_index_destroy(cores);
  adji_gpu *gpu;
  must(adji_gpu_of(ctx, &gpu));
  assert_int_equal(adji_gpu_used(gpu), 0);
  adj_dataset_destroy(few);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Grids are dropped if there is no room for another one. A tree stays. Without room for a tree, joins use chunks. */
static void memory_is_limited(void **state) {
  (void)state;
  uint64_t points = UINT64_C(3000) * 3 * 4;
  adj_ctx *ctx = software_context(2, 1, 6 * points), *cramped = software_context(2, 1, points * 3 / 4);
  adj_dataset *set = some_points(ctx, "unif", 3000, 3, 1), *small = some_points(cramped, "unif", 3000, 3, 1);
  adj_index *index = index_on(ctx, ADJ_BACKEND_GPU, set), *cores = index_on(ctx, ADJ_BACKEND_CPU, set);
  adji_gpu *gpu;
  must(adji_gpu_of(ctx, &gpu));
  for (int i = 0; i < 6; i++)
    ask(index, cores, within(0.2 * pow(0.6, i)), NULL, "grid on the GPU built");
  assert_true(adji_gpu_used(gpu) <= 6 * points);
  ask(index, cores, nearest(4), NULL, "tree on the GPU reused");
  adj_index *chunked = index_on(cramped, ADJ_BACKEND_GPU, small), *plain = index_on(cramped, ADJ_BACKEND_CPU, small);
  for (int i = 0; i < 2; i++)
    ask(chunked, plain, nearest(4), NULL, "chunks:");
  adj_index_destroy(chunked);
  adj_index_destroy(plain);
  adj_index_destroy(index);
  adj_index_destroy(cores);
  assert_int_equal(adji_gpu_used(gpu), 0);
  adj_dataset_destroy(set);
  adj_dataset_destroy(small);
  adj_ctx_destroy(ctx);
  adj_ctx_destroy(cramped);
}

/* ---- Queries on the device ------------------------------------------------------------------------------ */

static adj_cuda_points points_of(const point_set *set) {
  adj_cuda_points points;
  adj_cuda_points_init(&points, sizeof points);
  points.type = set->type;
  points.dim = set->dim;
  points.count = set->count;
  points.data = set->data;
  return points;
}

typedef struct device_run {
  const join_case *c;
  adj_index *index;
  const adj_cuda_points *queries; /* NULL: a self-join */
  adj_question question;
  const reference_rows *expected;
} device_run;

static void check_rows(const device_run *r) {
  const reference_rows *e = r->expected;
  uint64_t entries = e->offsets[e->rows], pairs = 0;
  adj_cuda_result *result = NULL;
  must(r->c->k ? adj_cuda_index_knn(r->index, &r->question, r->queries, NULL, &result)
               : adj_cuda_index_range(r->index, &r->question, r->queries, NULL, &result));
  for (uint64_t i = 0; i < entries; i++)
    pairs += e->ids[i] != ADJ_NO_ID;
  assert_int_equal(adj_cuda_result_rows(result), e->rows);
  assert_int_equal(adj_cuda_result_pairs(result), pairs);
  if (!r->c->k) assert_memory_equal(adj_cuda_result_offsets(result), e->offsets, (e->rows + 1) * sizeof *e->offsets);
  if (entries) assert_memory_equal(adj_cuda_result_ids(result), e->ids, entries * sizeof *e->ids);
  if (entries)
    assert_memory_equal(adj_cuda_result_distances(result), e->distances, entries * type_size(r->c->left.type));
  adj_cuda_result_destroy(result, NULL);
}

static void check_counts(const device_run *r) {
  const reference_rows *e = r->expected;
  uint32_t *degrees = calloc(e->rows + 1, sizeof *degrees);
  uint64_t total = 0;
  must(adj_cuda_index_count(r->index, &r->question, r->queries, NULL, degrees, &total));
  assert_int_equal(total, e->offsets[e->rows]);
  for (uint64_t i = 0; i < e->rows; i++)
    assert_int_equal(degrees[i], e->offsets[i + 1] - e->offsets[i]);
  free(degrees);
}

static adj_question question_of(const join_case *c) {
  adj_join_spec spec = case_spec(c);
  adj_question question;
  adj_question_init(&question, sizeof question);
  question.k = spec.k;
  question.radius = spec.radius;
  question.flags = spec.flags | ADJ_WITH_DISTANCE;
  question.radii = spec.radii;
  question.radius_count = spec.radius_count;
  return question;
}

static adj_index_options options_of(const join_case *c) {
  adj_join_spec spec = case_spec(c);
  adj_index_options options;
  adj_index_options_init(&options, sizeof options);
  options.metric = spec.metric;
  options.angle = spec.angle;
  options.unit = spec.unit;
  options.sphere_radius = spec.sphere_radius;
  options.p = spec.p;
  options.box = spec.box;
  options.box_count = spec.box_count;
  options.backend = ADJ_BACKEND_GPU;
  return options;
}

/* Asks twice: the second time reuses what the first made. With trees, also asks with a radius for each query. */
static void ask_case(adj_index *index, const join_case *c, const join_answer *answer, const adj_cuda_points *queries) {
  device_run r = {c, index, queries, question_of(c), &answer->by_id};
  for (int i = 0; i < 2; i++)
    check_rows(&r);
  if (!c->k) check_counts(&r);
  join_case own = *c;
  join_answer apart;
  own.radii = case_radii(c, answer);
  assert_true(answer_case(&own, &apart));
  r.question = question_of(&own);
  r.expected = &apart.by_id;
  bool trees = adji_gpu_has_tree(&index->measure, index->points->dim);
  adj_cuda_result *result = NULL;
  if (trees)
    check_rows(&r);
  else
    must_fail(ADJ_E_UNSUPPORTED, "radii",
              c->k ? adj_cuda_index_knn(index, &r.question, queries, NULL, &result)
                   : adj_cuda_index_range(index, &r.question, queries, NULL, &result));
  free(own.radii);
  answer_free(&apart);
}

/* Under a sanitizer everything takes ten times as long. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { EVERY = 61 };
#else
enum { EVERY = 5 };
#endif

static void cases_on_the_device(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(2, 1, 0);
  for (uint32_t i = 0; i < case_count(); i += EVERY) {
    join_case c;
    join_answer answer;
    assert_true(case_build(i, &c));
    if (c.quick) {
      assert_true(answer_case(&c, &answer));
      const point_set *right = c.self_join ? &c.left : &c.right;
      adj_cuda_points points = points_of(right), queries = points_of(&c.left);
      adj_index_options options = options_of(&c);
      adj_index *index = NULL;
      adj_dataset *set = NULL;
      must(adj_cuda_index_create(ctx, &options, &points, NULL, &index));
      ask_case(index, &c, &answer, c.self_join ? NULL : &queries);
      adj_index_destroy(index);
      adj_points host;
      adj_points_init(&host, sizeof host);
      host.type = right->type;
      host.dim = right->dim;
      host.count = right->count;
      host.data = right->data;
      must(adj_dataset_create(ctx, &host, &set));
      must(adj_index_create(ctx, &options, set, &index)); /* points in host memory, queries on the device */
      ask_case(index, &c, &answer, c.self_join ? NULL : &queries);
      adj_index_destroy(index);
      adj_dataset_destroy(set);
      answer_free(&answer);
    }
    case_free(&c);
  }
  adji_gpu *gpu;
  must(adji_gpu_of(ctx, &gpu));
  assert_int_equal(adji_gpu_used(gpu), 0);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Threads -------------------------------------------------------------------------------------------- */

enum { ASKERS = 4, QUESTIONS = 6 };

typedef struct asker {
  adj_index *index, *cores;
  const adj_dataset *left;
  uint32_t number;
} asker;

static void *ask_often(void *user) {
  asker *a = user;
  for (uint32_t i = 0; i < QUESTIONS; i++) {
    adj_question question = (a->number + i) % 2 ? nearest(1 + i) : within(0.06 + 0.04 * (double)i);
    ask(a->index, a->cores, question, i % 3 ? a->left : NULL, "on the GPU");
  }
  return NULL;
}

static void threads_ask_one_index(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(2, 1, 0);
  adj_dataset *set = some_points(ctx, "unif", 500, 3, 1), *few = some_points(ctx, "unif", 50, 3, 2);
  adj_index *index = index_on(ctx, ADJ_BACKEND_GPU, set), *cores = index_on(ctx, ADJ_BACKEND_CPU, set);
  pthread_t threads[ASKERS];
  asker askers[ASKERS];
  for (uint32_t t = 0; t < ASKERS; t++) {
    askers[t] = (asker){index, cores, few, t};
    assert_int_equal(pthread_create(&threads[t], NULL, ask_often, &askers[t]), 0);
  }
  for (uint32_t t = 0; t < ASKERS; t++)
    pthread_join(threads[t], NULL);
  adj_index_destroy(index);
  adj_index_destroy(cores);
  adj_dataset_destroy(few);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- Wrong use ------------------------------------------------------------------------------------------ */

static void wrong_use_is_named(void **state) {
  (void)state;
  float values[] = {1, 2, 3, 4, 5, 6, 7, 8}, bad[] = {0, 0, 1, INFINITY};
  double radii[] = {1, 2, 3};
  point_set four = {.type = ADJ_F32, .dim = 2, .count = 4, .data = values}, two = {ADJ_F32, 2, 2, bad};
  adj_cuda_points points = points_of(&four), queries = points;
  adj_ctx *ctx = software_context(1, 1, 0);
  adj_index *index = NULL;
  adj_cuda_result *result = NULL;
  uint64_t total;
  adj_question question = nearest(2), range = within(1);
  must_fail(ADJ_E_ARGUMENT, "points", adj_cuda_index_create(ctx, NULL, NULL, NULL, &index));
  adj_cuda_points unfit = points_of(&two);
  must_fail(ADJ_E_DATA, "points: row 2, column 2", adj_cuda_index_create(ctx, NULL, &unfit, NULL, &index));
  must(adj_cuda_index_create(ctx, NULL, &points, NULL, &index));
  must_fail(ADJ_E_ARGUMENT, "index", adj_cuda_index_knn(NULL, &question, &queries, NULL, &result));
  must_fail(ADJ_E_ARGUMENT, "question", adj_cuda_index_knn(index, NULL, &queries, NULL, &result));
  must_fail(ADJ_E_ARGUMENT, "out", adj_cuda_index_range(index, &range, &queries, NULL, NULL));
  must_fail(ADJ_E_DATA, "queries: row 2, column 2", adj_cuda_index_knn(index, &question, &unfit, NULL, &result));
  must_fail(ADJ_E_DATA, "queries: row 2, column 2", adj_cuda_index_range(index, &range, &unfit, NULL, &result));
  must_fail(ADJ_E_DATA, "queries: row 2, column 2", adj_cuda_index_count(index, &range, &unfit, NULL, NULL, &total));
  queries.dim = 1;
  must_fail(ADJ_E_ARGUMENT, "queries: 1 dimensions", adj_cuda_index_knn(index, &question, &queries, NULL, &result));
  queries = points;
  queries.type = ADJ_F64;
  must_fail(ADJ_E_ARGUMENT, "queries: f64", adj_cuda_index_knn(index, &question, &queries, NULL, &result));
  queries = points;
  queries.data = NULL;
  must_fail(ADJ_E_ARGUMENT, "queries: data", adj_cuda_index_knn(index, &question, &queries, NULL, &result));
  range.radii = radii;
  range.radius_count = 3;
  must_fail(ADJ_E_ARGUMENT, "radii: 3 radii for 4", adj_cuda_index_range(index, &range, &points, NULL, &result));
  question.k = 0;
  must_fail(ADJ_E_ARGUMENT, "k:", adj_cuda_index_knn(index, &question, &points, NULL, &result));
  uint32_t ids[2];
  adj_plan *plan = NULL;
  question.k = 2;
  must_fail(ADJ_E_UNSUPPORTED, "on a device", adj_index_plan(index, &question, NULL, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "on a device", adj_index_nearest(index, values, 2, ids, NULL, NULL));
  must_fail(ADJ_E_UNSUPPORTED, "on a device", adj_index_within(index, values, 1, 2, ids, NULL, ids));
  assert_null(result);
  adj_index_destroy(index);
  adj_ctx_destroy(ctx);
}

/* Radii for each query, if a GPU has no tree: an error that says so; the hybrid backend uses the cores. */
static void radii_without_trees(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(2, 1, 0);
  adj_dataset *set = some_points(ctx, "unif", 60, 8, 1);
  double radii[60];
  for (int i = 0; i < 60; i++)
    radii[i] = 40 + i;
  adj_plan *plan = NULL;
  adj_index *gpu = index_on(ctx, ADJ_BACKEND_GPU, set), *hybrid = index_on(ctx, ADJ_BACKEND_HYBRID, set);
  adj_index *cores = index_on(ctx, ADJ_BACKEND_CPU, set);
  adj_question range = within(1), bounded = nearest(3);
  range.radii = bounded.radii = radii;
  range.radius_count = bounded.radius_count = 60;
  must_fail(ADJ_E_UNSUPPORTED, "radii", adj_index_plan(gpu, &range, NULL, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "radii", adj_index_plan(gpu, &bounded, NULL, &plan));
  ask(hybrid, cores, range, NULL, "");
  ask(hybrid, cores, bounded, NULL, "");
  adj_index_destroy(gpu);
  adj_index_destroy(hybrid);
  adj_index_destroy(cores);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* Every operation of the device fails once. The call reports it, nothing leaks, and the next call succeeds. */
static void failures_of_a_device(void **state) {
  (void)state;
  float values[200];
  for (int i = 0; i < 200; i++)
    values[i] = (float)(i * 37 % 101);
  point_set set = {.type = ADJ_F32, .dim = 2, .count = 100, .data = values};
  adj_cuda_points points = points_of(&set);
  adj_ctx *ctx = software_context(2, 1, 0);
  adji_gpu *gpu;
  must(adji_gpu_of(ctx, &gpu));
  for (int kind = 0; kind < 2; kind++)
    for (int64_t n = 0;; n++) {
      adj_index *index = NULL;
      adj_cuda_result *result = NULL;
      adj_question question = kind ? within(20) : nearest(3);
      adji_gpu_fail_at(gpu, n);
      adj_status status = adj_cuda_index_create(ctx, NULL, &points, NULL, &index);
      if (!status)
        status = kind ? adj_cuda_index_range(index, &question, &points, NULL, &result)
                      : adj_cuda_index_knn(index, &question, &points, NULL, &result);
      bool done = adji_gpu_fail_at(gpu, -1) <= n;
      assert_true(done || status);
      adj_cuda_result_destroy(result, NULL);
      if (status && index) { /* the index still works */
        must(kind ? adj_cuda_index_range(index, &question, &points, NULL, &result)
                  : adj_cuda_index_knn(index, &question, &points, NULL, &result));
        adj_cuda_result_destroy(result, NULL);
      }
      adj_index_destroy(index);
      assert_int_equal(adji_gpu_used(gpu), 0);
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
      if (done) break;
    }
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(structures_are_reused), cmocka_unit_test(memory_is_limited),
      cmocka_unit_test(cases_on_the_device),   cmocka_unit_test(threads_ask_one_index),
      cmocka_unit_test(wrong_use_is_named),    cmocka_unit_test(radii_without_trees),
      cmocka_unit_test(failures_of_a_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
