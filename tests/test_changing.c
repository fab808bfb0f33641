/* SPDX-License-Identifier: MIT
 *
 * Another thread writes to the points while they are joined. No caller may do this. Still every call must end, with a
 * result or an error, and nothing may be written out of bounds (this also runs under the address sanitizer). The result
 * itself is undefined. ADJOIN_VERBOSE=1 prints each join before it runs. Not for the thread sanitizer, which would
 * rightly report the data races.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

enum { MOST_VALUES = 10000, WRITES_AT_ONCE = 256, SECONDS_A_JOIN = 300 };

/* What the thread writes: points of the same kind, any bits, values that are not finite, or one value everywhere. */
typedef enum scribble { OTHER_POINTS, ANY_BITS, NOT_FINITE, ONE_VALUE, SCRIBBLES } scribble;
static const char *const SCRIBBLE_NAMES[] = {"other points", "any bits", "not finite", "one value"};

typedef struct shape {
  adj_type type;
  uint64_t count;
  uint32_t dim;
} shape;

/* The array, and the thread that writes to it. Both sides use words of the size of a value. */
typedef struct victim {
  shape is;
  scribble how;
  union {
    _Atomic uint32_t narrow[MOST_VALUES];
    _Atomic uint64_t wide[MOST_VALUES];
  } values;
  uint64_t random;
  atomic_bool stop;
} victim;

static uint64_t next(victim *v) {
  v->random = v->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return v->random ^ v->random >> 29;
}

static double point(victim *v) {
  return (double)(next(v) >> 11) * 0x1p-53;
}

static uint64_t bits_of(double x) {
  union {
    double value;
    uint64_t bits;
  } as = {.value = x};
  return as.bits;
}

static uint32_t narrow_bits_of(float x) {
  union {
    float value;
    uint32_t bits;
  } as = {.value = x};
  return as.bits;
}

static void write_value(victim *v, uint64_t at, double x) {
  if (v->is.type == ADJ_F64)
    atomic_store_explicit(&v->values.wide[at], bits_of(x), memory_order_relaxed);
  else
    atomic_store_explicit(&v->values.narrow[at], narrow_bits_of((float)x), memory_order_relaxed);
}

static void write_bits(victim *v, uint64_t at, uint64_t bits) {
  if (v->is.type == ADJ_F64)
    atomic_store_explicit(&v->values.wide[at], bits, memory_order_relaxed);
  else
    atomic_store_explicit(&v->values.narrow[at], (uint32_t)bits, memory_order_relaxed);
}

static void write_something(victim *v, uint64_t at) {
  const double odd[] = {NAN, INFINITY, -INFINITY, -NAN};
  switch (v->how) {
    case OTHER_POINTS:
      write_value(v, at, point(v));
      break;
    case ANY_BITS:
      write_bits(v, at, next(v));
      break;
    case NOT_FINITE:
      write_value(v, at, next(v) % 4 ? point(v) : odd[next(v) % 4]);
      break;
    default:
      write_value(v, at, 0.5);
  }
}

static void *scribble_on(void *user) {
  victim *v = user;
  uint64_t values = v->is.count * v->is.dim;
  while (!atomic_load(&v->stop)) {
    for (int i = 0; i < WRITES_AT_ONCE; i++)
      write_something(v, next(v) % values);
    sched_yield(); /* to the threads that read the points */
  }
  return NULL;
}

/* ---- Joins --------------------------------------------------------------------------------------------- */

typedef struct join_of {
  adj_join_kind kind;
  const char *algorithm, *tuning;
  adj_backend backend;
  adj_metric metric;
  double box;
  uint32_t k;
  adj_order order;
} join_of;

static adj_status take_rows(void *user, const adj_rows *rows) {
  uint64_t *entries = user;
  *entries += rows->offsets[rows->row_count] - rows->offsets[0];
  return ADJ_OK;
}

/* Any of these is a valid end. */
static void may_fail(const join_of *join, adj_status status) {
  if (status == ADJ_OK || status == ADJ_E_DATA || status == ADJ_E_INTERNAL || status == ADJ_E_MEMORY ||
      status == ADJ_E_UNSUPPORTED || status == ADJ_E_LIMIT)
    return;
  fail_msg("%s, tuning %s: %s: %s", join->algorithm ? join->algorithm : "auto", join->tuning ? join->tuning : "none",
           adj_status_name(status), adj_last_error());
}

static void run_join(adj_ctx *ctx, const join_of *join, const adj_dataset *set) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = join->kind;
  spec.k = join->k;
  spec.metric = join->metric ? join->metric : ADJ_L2;
  spec.p = 2.5;
  spec.radius = join->kind == ADJ_KNN ? INFINITY : 0.06;
  spec.algorithm = join->algorithm;
  spec.tuning = join->tuning;
  spec.backend = join->backend;
  spec.order = join->order;
  spec.flags = join->order == ADJ_ORDER_DISTANCE ? ADJ_WITH_DISTANCE : 0;
  spec.box = join->box > 0 ? &join->box : NULL;
  spec.box_count = join->box > 0;
  adj_plan *plan = NULL;
  adj_status status = adj_plan_create(ctx, &spec, set, NULL, &plan);
  may_fail(join, status);
  if (status) return;
  adj_result *result = NULL;
  uint64_t total = 0;
  may_fail(join, adj_collect(plan, &result, NULL, NULL));
  adj_result_destroy(result);
  may_fail(join, adj_count(plan, NULL, &total, NULL, NULL));
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &total;
  sink.write = take_rows;
  may_fail(join, adj_stream(plan, &sink, NULL, NULL));
  adj_plan_destroy(plan);
}

/* With ADJOIN_VERBOSE: the last line names the join that does not end, or that the sanitizer ends. */
static void print_join(const victim *v, const join_of *join) {
  print_message("  %s %s, tuning %s, backend %d, metric %d, box %g, %s, %llu x %u, %s\n",
                join->kind == ADJ_KNN ? "kNN" : "range", join->algorithm ? join->algorithm : "auto",
                join->tuning ? join->tuning : "none", (int)join->backend, (int)join->metric, join->box,
                v->is.type == ADJ_F64 ? "f64" : "f32", (unsigned long long)v->is.count, v->is.dim,
                SCRIBBLE_NAMES[v->how]);
}

static void join_changing(adj_ctx *ctx, victim *v, const join_of *join) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = v->is.type;
  points.count = v->is.count;
  points.dim = v->is.dim;
  points.data = &v->values;
  points.ownership = ADJ_BORROW;
  for (uint64_t i = 0; i < v->is.count * v->is.dim; i++)
    write_value(v, i, point(v));
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &points, &set));
  if (getenv("ADJOIN_VERBOSE")) print_join(v, join);
  atomic_store(&v->stop, false);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, scribble_on, v), 0);
  alarm(SECONDS_A_JOIN); /* a call that does not end fails the test */
  run_join(ctx, join, set);
  alarm(0);
  atomic_store(&v->stop, true);
  pthread_join(thread, NULL);
  adj_dataset_destroy(set);
}

static const join_of JOINS[] = {
    {ADJ_RANGE, "grid", NULL, ADJ_BACKEND_CPU, 0, 0, 0, ADJ_ORDER_ID},
    {ADJ_RANGE, "grid", "single=on", ADJ_BACKEND_CPU, ADJ_L1, 0, 0, ADJ_ORDER_DISTANCE},
    {ADJ_RANGE, "grid", "staged=on", ADJ_BACKEND_CPU, ADJ_L1, 0, 0, ADJ_ORDER_DISTANCE},
    {ADJ_RANGE, "grid", "single=off,test.boxes=on", ADJ_BACKEND_CPU, ADJ_LINF, 0, 0, ADJ_ORDER_ID},
    {ADJ_RANGE, "grid", "single=off", ADJ_BACKEND_CPU, ADJ_LINF, 1, 0, ADJ_ORDER_ID},
    {ADJ_RANGE, "grid", "indexed=3", ADJ_BACKEND_CPU, 0, 1, 0, ADJ_ORDER_DISTANCE},
    {ADJ_RANGE, "grid", "prefilter=codes", ADJ_BACKEND_CPU, 0, 0, 0, ADJ_ORDER_ANY},
    {ADJ_RANGE, "ego", "single=off", ADJ_BACKEND_CPU, ADJ_LP, 0, 0, ADJ_ORDER_ID},
    {ADJ_RANGE, "brute", NULL, ADJ_BACKEND_CPU, ADJ_DOT, 0, 0, ADJ_ORDER_ID},
    {ADJ_RANGE, "brute", "single=off", ADJ_BACKEND_CPU, ADJ_COSINE, 0, 0, ADJ_ORDER_DISTANCE},
    {ADJ_RANGE, NULL, NULL, ADJ_BACKEND_REFERENCE, 0, 0, 0, ADJ_ORDER_ID},
    {ADJ_RANGE, NULL, NULL, ADJ_BACKEND_GPU, 0, 1, 0, ADJ_ORDER_DISTANCE},
    {ADJ_RANGE, NULL, NULL, ADJ_BACKEND_HYBRID, 0, 0, 0, ADJ_ORDER_ID},
    {ADJ_KNN, "kdtree", NULL, ADJ_BACKEND_CPU, 0, 0, 1, ADJ_ORDER_ID},
    {ADJ_KNN, "kdtree", NULL, ADJ_BACKEND_CPU, ADJ_L1, 1, 10, ADJ_ORDER_DISTANCE},
    {ADJ_KNN, "kdtree", "test.leaf=16", ADJ_BACKEND_CPU, ADJ_LP, 0, 100, ADJ_ORDER_ID},
    {ADJ_KNN, "brute", "prefilter=off", ADJ_BACKEND_CPU, 0, 0, 10, ADJ_ORDER_ID},
    {ADJ_KNN, "brute", "prefilter=gemm", ADJ_BACKEND_CPU, 0, 0, 10, ADJ_ORDER_DISTANCE},
    {ADJ_KNN, "brute", "prefilter=vnni", ADJ_BACKEND_CPU, 0, 0, 40, ADJ_ORDER_ID},
    {ADJ_KNN, "brute", "prefilter=amx", ADJ_BACKEND_CPU, 0, 0, 100, ADJ_ORDER_ID},
    {ADJ_KNN, "brute", NULL, ADJ_BACKEND_CPU, ADJ_DOT, 0, 10, ADJ_ORDER_ID},
    {ADJ_KNN, NULL, NULL, ADJ_BACKEND_CPU, 0, 0, 5, ADJ_ORDER_ID},
    {ADJ_KNN, NULL, NULL, ADJ_BACKEND_REFERENCE, 0, 0, 5, ADJ_ORDER_ID},
    {ADJ_KNN, NULL, NULL, ADJ_BACKEND_GPU, 0, 0, 5, ADJ_ORDER_ID},
    {ADJ_KNN, NULL, NULL, ADJ_BACKEND_HYBRID, 0, 0, 5, ADJ_ORDER_ID},
};

static const shape SHAPES[] = {{ADJ_F32, 900, 3}, {ADJ_F64, 700, 2}, {ADJ_F32, 400, 24}, {ADJ_F64, 300, 9}};

/* Runs each join on each shape, with the kinds of writing in turn. ADJOIN_SEED: other points. ADJOIN_ROUNDS: runs each
 * join this many times with every kind of writing. */
static void calls_end_while_points_change(void **state) {
  (void)state;
  static victim v;
  const char *seed = getenv("ADJOIN_SEED"), *times = getenv("ADJOIN_ROUNDS");
  uint64_t rounds = times ? strtoull(times, NULL, 10) : 1, joins = 0;
  v.random = seed ? strtoull(seed, NULL, 10) : 1;
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  for (uint64_t r = 0; r < rounds; r++)
    for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
      for (size_t i = 0; i < sizeof JOINS / sizeof *JOINS; i++)
        for (uint64_t how = times ? 0 : SCRIBBLES - 1; how < SCRIBBLES; how++, joins++) {
          v.is = SHAPES[s];
          v.how = (scribble)((how + s + i) % SCRIBBLES);
          join_changing(ctx, &v, &JOINS[i]);
        }
  print_message("%llu joins of changing points ended\n", (unsigned long long)joins);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_end_while_points_change)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
