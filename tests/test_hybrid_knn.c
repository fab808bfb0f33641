/* SPDX-License-Identifier: MIT
 *
 * kNN joins that cores share with a device: the worker of gpu/hybrid/knn_worker.h, with a device that is made of C
 * functions and knows the answer. Results are those of cores alone, with lists, ranges and buffers of all sizes, a
 * device that fails, misses queries or takes no part, streams, limits and cancelling.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/knn.h"
#include "gpu/hybrid/knn_worker.h"
#include "plan/plan.h"
#include "running.h"

/* A device with lists and buffers as a GPU has them, which knows the answer: the table of the cores. */
typedef struct oracle {
  adj_ctx *ctx;
  const adj_result *answer;
  const uint32_t *order; /* rows of the cores' queries */
  uint32_t k;
  uint64_t size; /* of a distance */
  adji_list_device device;
  adji_knn_worker worker;
  uint64_t list_queries;
  uint32_t *lists[ADJI_LISTS];     /* rows          */
  uint32_t *positions[ADJI_LISTS]; /* their queries */
  uint32_t *missed, misses;        /* queries that it has no rows of: all whose number is a multiple; 0: none */
  uint64_t counts[ADJI_LISTS];
  bool under_way[ADJI_LISTS];
  char **buffers;
  int begins, fails_at, calls, refuses_at; /* lists that fail, passes that are refused, from 1 */
  uint64_t rows;                           /* that were listed */
  int settled;
} oracle;

static adj_status oracle_list(void *state, const adji_batch *ranges, uint64_t count, uint32_t slot, uint64_t *rows) {
  oracle *o = state;
  const adji_table *t = o->worker.table;
  uint64_t listed = 0, all = 0;
  assert_true(slot < ADJI_LISTS && !o->under_way[slot]);
  assert_true(count >= 1 && count <= o->worker.list_ranges);
  if (++o->calls == o->fails_at) return adji_fail(ADJ_E_DEVICE, "device 0: fails");
  for (uint64_t i = 0; i < count; i++)
    for (uint32_t q = ranges[i].begin; q < ranges[i].end; q++, all++)
      if (o->order[q] >= t->first_row && o->order[q] < t->end_row) {
        o->positions[slot][listed] = q;
        o->lists[slot][listed++] = o->order[q];
      }
  assert_true(all >= 1 && all <= o->list_queries);
  o->under_way[slot] = true;
  o->counts[slot] = *rows = listed;
  o->rows += listed;
  return ADJ_OK;
}

static adj_status oracle_listed(void *state, uint32_t slot, uint64_t *candidates) {
  oracle *o = state;
  *candidates += o->counts[slot];
  assert_true(o->under_way[slot]);
  o->under_way[slot] = false;
  return ADJ_OK;
}

static adj_status oracle_fetch(void *state, uint32_t slot, uint64_t first, uint64_t rows, uint32_t buffer) {
  oracle *o = state;
  uint64_t size = o->worker.table->distances ? o->size : 0;
  adji_list_piece piece = adji_list_piece_of(rows, o->k, size);
  assert_true(buffer <= o->ctx->threads);
  assert_true(first + rows <= o->counts[slot]);
  assert_true(piece.bytes <= o->worker.buffer_bytes);
  char *to = o->buffers[buffer];
  memcpy(to, o->lists[slot] + first, rows * 4);
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t row = o->lists[slot][first + i];
    if (o->misses && o->positions[slot][first + i] % o->misses == 0) row = 0; /* anything */
    memcpy(to + piece.ids + i * o->k * 4, adj_result_ids(o->answer) + row * o->k, o->k * sizeof(uint32_t));
    if (size)
      memcpy(to + piece.distances + i * o->k * size, (const char *)adj_result_distances(o->answer) + row * o->k * size,
             o->k * size);
  }
  return ADJ_OK;
}

static adj_status oracle_missed(void *state, uint32_t slot, const uint32_t **positions, uint64_t *count) {
  oracle *o = state;
  *positions = o->missed;
  *count = 0;
  for (uint64_t i = 0; i < o->counts[slot]; i++)
    if (o->positions[slot][i] % o->misses == 0) o->missed[(*count)++] = o->positions[slot][i];
  return ADJ_OK;
}

static adj_status oracle_wait(void *state, uint32_t buffer) {
  (void)state;
  (void)buffer;
  return ADJ_OK;
}

static const void *oracle_buffer(void *state, uint32_t buffer) {
  return ((oracle *)state)->buffers[buffer];
}

static void oracle_settle(void *state) {
  oracle *o = state;
  o->settled++;
  for (int i = 0; i < ADJI_LISTS; i++)
    o->under_way[i] = false;
}

static adj_status oracle_begin(void *state, const adji_shared_work *shared) {
  oracle *o = state;
  if (++o->begins == o->refuses_at) return adji_fail(ADJ_E_DEVICE_MEMORY, "device 0: no room");
  o->worker.table = shared->table;
  o->worker.order = shared->order;
  o->worker.group = shared->group;
  return adji_knn_worker_begin(&o->worker);
}

static adj_status oracle_drain(void *state, adji_help *help) {
  return adji_knn_worker_drain(&((oracle *)state)->worker, help);
}

static void oracle_end(void *state, adji_device_stats *did) {
  adji_knn_worker_end(&((oracle *)state)->worker, did);
}

static void oracle_destroy(void *state) {
  oracle *o = state;
  for (int i = 0; i < ADJI_LISTS; i++) {
    free(o->lists[i]);
    free(o->positions[i]);
  }
  free(o->missed);
  for (uint32_t i = 0; i <= o->ctx->threads; i++)
    free(o->buffers[i]);
  free(o->buffers);
}

/* How a join is shared. */
typedef struct sharing {
  uint64_t batch, list_queries, list_ranges, buffer_rows;
  int fails_at, refuses_at;
  uint32_t misses;
  adji_share_options share;
} sharing;

static adji_partner partner_of(oracle *o, const adj_plan *plan, const adji_tree *left, const adj_result *answer,
                               const sharing *how) {
  *o = (oracle){.ctx = plan->ctx,
                .answer = answer,
                .order = left->ids,
                .k = plan->join.k,
                .size = adji_type_size(plan->left->type),
                .list_queries = how->list_queries,
                .fails_at = how->fails_at,
                .refuses_at = how->refuses_at,
                .misses = how->misses};
  o->device = (adji_list_device){
      o,           oracle_list,   oracle_listed, oracle_fetch,
      oracle_wait, oracle_buffer, oracle_settle, how->misses ? oracle_missed : NULL,
  };
  o->worker.device = &o->device;
  o->worker.join = &plan->join;
  o->worker.list_queries = how->list_queries;
  o->worker.list_ranges = how->list_ranges;
  o->worker.buffer_bytes = 16 + how->buffer_rows * (4 + o->k * (4 + o->size));
  o->buffers = calloc(plan->ctx->threads + 1, sizeof *o->buffers);
  for (uint32_t i = 0; i <= plan->ctx->threads; i++)
    o->buffers[i] = malloc(o->worker.buffer_bytes);
  for (int i = 0; i < ADJI_LISTS; i++) {
    o->lists[i] = malloc(how->list_queries * sizeof(uint32_t));
    o->positions[i] = malloc(how->list_queries * sizeof(uint32_t));
  }
  o->missed = malloc(how->list_queries * sizeof(uint32_t));
  return (adji_partner){o, "gpu", oracle_begin, oracle_drain, oracle_end, oracle_destroy, NULL, NULL, NULL};
}

/* A plan of the cores whose engine gets a partner. */
static void share_plan(adj_plan *plan, oracle *o, const adj_result *answer, const sharing *how) {
  const adji_tree *left = plan->self_join ? &plan->right_tree : &plan->left_tree;
  adji_partner partner = partner_of(o, plan, left, answer, how);
  plan->engine.destroy(plan->engine.state);
  plan->engine = (adji_engine){0};
  adji_knn_options options = {.left = left,
                              .right = &plan->right_tree,
                              .batch = how->batch,
                              .partners = &partner,
                              .partner_count = 1,
                              .share = how->share};
  must(adji_knn_create(&plan->join, &options, &plan->engine));
}

typedef struct question {
  uint32_t k;
  double radius; /* 0: none */
  uint32_t flags;
  const char *tuning;
} question;

static adj_plan *plan_for(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right, const question *q) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = q->k;
  spec.algorithm = "kdtree";
  spec.tuning = q->tuning;
  if (q->radius > 0) spec.radius = q->radius;
  spec.flags = q->flags;
  adj_plan *plan = NULL;
  must(adj_plan_create(ctx, &spec, left, right, &plan));
  return plan;
}

static void check_same(const adj_result *a, const adj_result *b, uint64_t size) {
  uint64_t pairs = adj_result_pairs(a);
  assert_int_equal(pairs, adj_result_pairs(b));
  if (pairs) assert_memory_equal(adj_result_ids(a), adj_result_ids(b), pairs * sizeof(uint32_t));
  if (pairs && adj_result_distances(a))
    assert_memory_equal(adj_result_distances(a), adj_result_distances(b), pairs * size);
}

/* Rows of a stream, compared with a table. */
static const adj_result *streamed_answer;
static uint32_t streamed_k;
static adj_status compare_rows(void *user, const adj_rows *rows) {
  uint64_t *next = user, at = rows->first_row * streamed_k;
  assert_int_equal(rows->first_row, *next);
  assert_memory_equal(rows->ids, adj_result_ids(streamed_answer) + at, rows->row_count * streamed_k * 4);
  *next += rows->row_count;
  return ADJ_OK;
}

static void check_stream(adj_plan *plan, const adj_result *answer, uint32_t k, uint64_t rows) {
  uint64_t next = 0;
  streamed_answer = answer;
  streamed_k = k;
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &next;
  sink.write = compare_rows;
  must(adj_stream(plan, &sink, NULL, NULL));
  assert_int_equal(next, rows);
}

/* Collected, counted and streamed as the cores do it alone. */
static void check_shared(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right, const question *asked,
                         const sharing *how) {
  question q = *asked;
  q.flags = ADJ_WITH_DISTANCE;
  adj_plan *plan = plan_for(ctx, left, right, &q);
  adj_result *answer = NULL, *result = NULL;
  adj_stats alone, stats;
  adj_stats_init(&alone, sizeof alone);
  adj_stats_init(&stats, sizeof stats);
  must(adj_collect(plan, &answer, NULL, &alone));
  uint64_t total = 0, shared = 0;
  must(adj_count(plan, NULL, &total, NULL, NULL));
  adj_plan_destroy(plan);

  plan = plan_for(ctx, left, right, asked);
  uint64_t size = adji_type_size(left->type), queries = 0;
  oracle o;
  share_plan(plan, &o, answer, how);
  must(adj_collect(plan, &result, NULL, &stats));
  check_same(result, answer, size);
  assert_int_equal(stats.pairs, alone.pairs);
  assert_int_equal(stats.worker_count, !o.begins || o.begins == how->refuses_at ? 0 : 2);
  for (uint64_t w = 0; w < stats.worker_count; w++)
    queries += stats.workers[w].queries;
  assert_int_equal(queries, stats.worker_count ? adj_dataset_count(left) : 0);
  assert_true(!how->fails_at || how->refuses_at || o.settled == (o.calls >= how->fails_at));
  must(adj_count(plan, NULL, &shared, NULL, NULL));
  assert_int_equal(shared, total);
  check_stream(plan, answer, q.k, adj_dataset_count(left));
  char text[4096];
  must(adj_plan_explain(plan, text, sizeof text, NULL));
  adj_plan_destroy(plan);
  adj_result_destroy(result);
  adj_result_destroy(answer);
}

static const sharing WITH_MISSES = {.batch = 16, .list_queries = 50, .list_ranges = 8, .buffer_rows = 7, .misses = 37};

static const sharing SHARINGS[] = {
    {.batch = 16, .list_queries = 1, .list_ranges = 1, .buffer_rows = 1},
    {.batch = 16, .list_queries = 77, .list_ranges = 3, .buffer_rows = 5},
    {.batch = 0, .list_queries = 100000, .list_ranges = 1000, .buffer_rows = 4000},
    {.batch = 64, .list_queries = 1000, .list_ranges = 2, .buffer_rows = 100, .share = {.fixed = true}},
    {.batch = 16, .list_queries = 50, .list_ranges = 64, .buffer_rows = 7, .share = {true, 1, 1e-6, 0.005, 0.005}},
    {.batch = 16, .list_queries = 50, .list_ranges = 8, .buffer_rows = 7, .fails_at = 1},
    {.batch = 16, .list_queries = 20, .list_ranges = 8, .buffer_rows = 7, .fails_at = 3, .share = {.fixed = true}},
    {.batch = 16, .list_queries = 50, .list_ranges = 8, .buffer_rows = 7, .refuses_at = 1},
    {.batch = 64, .list_queries = 77, .list_ranges = 3, .buffer_rows = 5, .misses = 1, .share = {.fixed = true}},
    {.batch = 64,
     .list_queries = 500,
     .list_ranges = 99,
     .buffer_rows = 50,
     .misses = 3,
     .share = {true, 1, 1e-6, 1, 1}},
    {.batch = 64, .list_queries = 20, .list_ranges = 8, .buffer_rows = 7, .misses = 5, .fails_at = 7},
};
enum { SHARING_COUNT = sizeof SHARINGS / sizeof *SHARINGS };

static void shared_joins_are_those_of_cores(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    adj_ctx *ctx = context_of(threads, NULL);
    adj_dataset *points = uniform(ctx, 1500, 3), *others = uniform(ctx, 333, 3), *one = uniform(ctx, 1, 3);
    adj_points empty;
    adj_points_init(&empty, sizeof empty);
    empty.dim = 3;
    adj_dataset *none = NULL;
    must(adj_dataset_create(ctx, &empty, &none));
    for (int i = 0; i < SHARING_COUNT; i++) {
      check_shared(ctx, points, points, &(question){5, 0, ADJ_WITH_DISTANCE, "buffer=9999"}, &SHARINGS[i]);
      check_shared(ctx, points, points, &(question){9, 0.1, 0, "buffer=20000"}, &SHARINGS[i]);
      check_shared(ctx, others, points, &(question){40, 0.2, ADJ_WITH_DISTANCE, "test.leaf=32"}, &SHARINGS[i]);
      check_shared(ctx, one, points, &(question){1600, 0, ADJ_WITH_DISTANCE, NULL}, &SHARINGS[i]);
      check_shared(ctx, points, one, &(question){2, 0, 0, NULL}, &SHARINGS[i]);
      check_shared(ctx, none, points, &(question){2, 0, 0, NULL}, &SHARINGS[i]);
    }
    check_shared(ctx, points, points, &(question){5, 0, ADJ_WITH_DISTANCE, "buffer=9999"}, &WITH_MISSES);
    check_shared(ctx, others, points, &(question){40, 0.2, 0, "test.leaf=32"}, &WITH_MISSES);
    adj_dataset_destroy(points);
    adj_dataset_destroy(others);
    adj_dataset_destroy(one);
    adj_dataset_destroy(none);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

/* Points of which most are in one place, and duplicates: batches of no volume. */
static void dense_queries_come_first(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  enum { COUNT = 2000 };
  static double data[COUNT][2];
  for (int i = 0; i < COUNT; i++) {
    double where = i * 0.618034 - floor(i * 0.618034), width = i % 4 ? 0.01 : 100;
    data[i][0] = i % 5 ? width * where : 7;
    data[i][1] = i % 5 ? width * (where * 37 - floor(where * 37)) : 7;
  }
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = ADJ_F64;
  points.dim = 2;
  points.count = COUNT;
  points.data = data;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &points, &set));
  for (int i = 0; i < SHARING_COUNT; i++)
    check_shared(ctx, set, set, &(question){6, 0, ADJ_WITH_DISTANCE, "buffer=9999"}, &SHARINGS[i]);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* The at-th report of progress cancels; limits on pairs; and the plan goes on after that. */
static void shared_joins_can_be_stopped(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *points = uniform(ctx, 1500, 3);
  question q = {5, 0.1, ADJ_WITH_DISTANCE, "buffer=9999"};
  adj_plan *plan = plan_for(ctx, points, points, &q);
  adj_result *answer = NULL, *result = NULL;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  must(adj_collect(plan, &answer, NULL, &stats));
  oracle o;
  share_plan(plan, &o, answer, &SHARINGS[1]);
  watch_runs(plan);
  for (int at = 1; at <= 2; at++)
    cancel_by_progress(ctx, plan, at);
  cancel_by_sink(ctx, plan, 1500);
  limit_pairs(ctx, plan, stats.pairs);
  must(adj_collect(plan, &result, NULL, NULL));
  check_same(result, answer, sizeof(float));
  adj_result_destroy(result);
  adj_result_destroy(answer);
  adj_plan_destroy(plan);
  adj_dataset_destroy(points);
  adj_ctx_destroy(ctx);
}

/* The n-th allocation of a run fails, for all n: the run fails, or the cores do without the device. */
static void run_out_of_memory(const sharing *how) {
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *points = uniform(ctx, 700, 3);
  question q = {5, 0, ADJ_WITH_DISTANCE, NULL};
  adj_plan *plan = plan_for(ctx, points, points, &q);
  adj_result *answer = NULL;
  must(adj_collect(plan, &answer, NULL, NULL));
  oracle o;
  share_plan(plan, &o, answer, how);
  uint64_t used = adj_ctx_memory_used(ctx);
  bool hit = true;
  for (int64_t n = 0; hit; n++) {
    adj_result *result = NULL;
    atomic_store(&ctx->memory.fail_at, n);
    adj_status status = adj_collect(plan, &result, NULL, NULL);
    hit = atomic_load(&ctx->memory.fail_at) < 0;
    atomic_store(&ctx->memory.fail_at, -1);
    if (status)
      assert_int_equal(status, ADJ_E_MEMORY);
    else
      check_same(result, answer, sizeof(float));
    adj_result_destroy(result);
    assert_int_equal(adj_ctx_memory_used(ctx), used);
    assert_true(n < 1000);
  }
  adj_result_destroy(answer);
  adj_plan_destroy(plan);
  adj_dataset_destroy(points);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void memory_can_run_out(void **state) {
  (void)state;
  run_out_of_memory(&SHARINGS[1]);
  run_out_of_memory(&WITH_MISSES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shared_joins_are_those_of_cores),
      cmocka_unit_test(dense_queries_come_first),
      cmocka_unit_test(shared_joins_can_be_stopped),
      cmocka_unit_test(memory_can_run_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
