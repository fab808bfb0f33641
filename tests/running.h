/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests that run joins: a sink that counts, a progress function that checks, a thread that cancels, and
 * checks that hold for a plan of any kind.
 */
#ifndef ADJOIN_TEST_RUNNING_H
#define ADJOIN_TEST_RUNNING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

static inline adj_run_control control_of(void) {
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  control.interval_ms = 0;
  return control;
}

/* ---- A sink that counts, and fails where it is told to ----------------------------------------------- */

typedef struct counter {
  uint64_t rows, pairs, told_rows, told_pairs;
  int begun, ended, writes;
  int fail_begin, fail_write; /* fail_write: the write that fails, from 1 */
  adj_status with, outcome;
  adj_ctx *cancel; /* cancelled in the first write */
} counter;

static inline adj_status begin(void *user, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  counter *c = user;
  c->begun++;
  c->told_rows = rows;
  c->told_pairs = pairs;
  uint64_t sum = 0;
  for (uint64_t i = 0; degrees && i < rows; i++)
    sum += degrees[i];
  if (degrees) assert_int_equal(sum, pairs); /* kNN joins have none */
  return c->fail_begin ? c->with : ADJ_OK;
}

static inline adj_status write_rows(void *user, const adj_rows *rows) {
  counter *c = user;
  assert_int_equal(rows->first_row, c->rows);
  c->rows += rows->row_count;
  c->pairs += rows->offsets[rows->row_count] - rows->offsets[0];
  c->writes++;
  if (c->cancel) adj_cancel(c->cancel);
  return c->writes == c->fail_write ? c->with : ADJ_OK;
}

static inline void end(void *user, adj_status outcome) {
  counter *c = user;
  c->ended++;
  c->outcome = outcome;
}

static inline adj_sink sink_of(counter *c) {
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = c;
  sink.begin = begin;
  sink.write = write_rows;
  sink.end = end;
  return sink;
}

/* Fails begin, then each of the first writes, then nothing. The plan must fill its buffer more than three times. */
static inline void refuse_everywhere(adj_ctx *ctx, adj_plan *plan, uint64_t rows) {
  uint64_t used = adj_ctx_memory_used(ctx);
  counter c = {.fail_begin = 1, .with = ADJ_E_IO};
  adj_sink sink = sink_of(&c);
  must_fail(ADJ_E_IO, "sink: begin returned ADJ_E_IO", adj_stream(plan, &sink, NULL, NULL));
  assert_int_equal(c.writes, 0);
  assert_int_equal(c.ended, 1);
  assert_int_equal(c.outcome, ADJ_E_IO);
  for (int at = 1; at <= 3; at++) {
    c = (counter){.fail_write = at, .with = at == 1 ? ADJ_E_SINK : at == 2 ? ADJ_CANCELLED : ADJ_E_FORMAT};
    must_fail(c.with, "sink: write returned ", adj_stream(plan, &sink, NULL, NULL));
    assert_non_null(strstr(adj_last_error(), adj_status_name(c.with)));
    assert_int_equal(c.writes, at);
    assert_int_equal(c.ended, 1);
    assert_int_equal(c.outcome, c.with);
    assert_int_equal(adj_ctx_memory_used(ctx), used);
  }
  c = (counter){0};
  must(adj_stream(plan, &sink, NULL, NULL)); /* the plan still works */
  assert_int_equal(c.rows, rows);
  assert_int_equal(c.pairs, c.told_pairs);
  assert_true(c.writes > 3);
  sink.begin = NULL; /* both are optional */
  sink.end = NULL;
  c = (counter){0};
  must(adj_stream(plan, &sink, NULL, NULL));
  assert_int_equal(c.rows, rows);
}

/* A limit of exactly as many pairs as there are stops nothing. A lower limit stops every kind of run. */
static inline void limit_pairs(adj_ctx *ctx, adj_plan *plan, uint64_t pairs) {
  uint64_t total = 0, untouched = 77, used = adj_ctx_memory_used(ctx);
  adj_run_control control = control_of();
  control.max_pairs = pairs;
  adj_result *result = NULL;
  counter c = {0};
  adj_sink sink = sink_of(&c);
  must(adj_count(plan, NULL, &total, &control, NULL));
  assert_int_equal(total, pairs);
  must(adj_collect(plan, &result, &control, NULL));
  adj_result_destroy(result);
  must(adj_stream(plan, &sink, &control, NULL));
  control.max_pairs = pairs - 1;
  adj_result *none = result = (adj_result *)ctx;
  must_fail(ADJ_E_LIMIT, "pairs", adj_count(plan, NULL, &untouched, &control, NULL));
  assert_int_equal(untouched, 77);
  must_fail(ADJ_E_LIMIT, "pairs", adj_collect(plan, &result, &control, NULL));
  assert_ptr_equal(result, none);
  c = (counter){0};
  must_fail(ADJ_E_LIMIT, "pairs", adj_stream(plan, &sink, &control, NULL));
  assert_int_equal(c.writes, 0); /* the sink got no rows before the limit was known to be passed */
  assert_int_equal(c.begun, c.ended);
  assert_int_equal(adj_ctx_memory_used(ctx), used);
}

/* Collecting is refused, and the message says how many MiB it would take. */
static inline void refuse_to_collect(adj_ctx *ctx, adj_plan *plan, double least_mib, double most_mib) {
  uint64_t used = adj_ctx_memory_used(ctx);
  adj_result *result = NULL;
  must_fail(ADJ_E_MEMORY, "MiB", adj_collect(plan, &result, NULL, NULL));
  assert_null(result);
  const char *needs = strstr(adj_last_error(), "would need ");
  double size = needs ? strtod(needs + strlen("would need "), NULL) : 0;
  if (!(size > least_mib && size < most_mib)) fail_msg("%s", adj_last_error());
  assert_int_equal(adj_ctx_memory_used(ctx), used);
}

/* ---- Progress and cancelling ---------------------------------------------------------------------------- */

typedef struct watcher {
  double last;
  const char *phase;
  uint64_t pairs;
  int calls, wrong, cancel_at;
  atomic_int inside; /* calls must not overlap */
} watcher;

static inline int watch(void *user, const adj_progress *where) {
  watcher *w = user;
  if (atomic_fetch_add(&w->inside, 1)) w->wrong++;
  if (!where->phase || !(where->fraction >= w->last && where->fraction <= 1)) w->wrong++;
  if (w->phase && !strcmp(w->phase, where->phase) && where->pairs < w->pairs)
    w->wrong++; /* also in a stream's windows */
  w->phase = where->phase;
  w->pairs = where->pairs;
  w->last = where->fraction;
  w->calls++;
  atomic_fetch_sub(&w->inside, 1);
  return w->calls == w->cancel_at;
}

/* Checks that progress only goes forward, in every kind of run. */
static inline void watch_runs(adj_plan *plan) {
  watcher w = {0};
  adj_run_control control = control_of();
  control.progress = watch;
  control.user = &w;
  adj_result *result;
  must(adj_collect(plan, &result, &control, NULL));
  assert_true(w.calls > 1);
  assert_int_equal(w.wrong, 0);
  adj_result_destroy(result);
  counter c = {0};
  adj_sink sink = sink_of(&c);
  w = (watcher){0};
  must(adj_stream(plan, &sink, &control, NULL));
  assert_true(w.calls > 1);
  assert_int_equal(w.wrong, 0);
}

/* Cancels at the at-th report of progress, while collecting and while streaming. */
static inline void cancel_by_progress(adj_ctx *ctx, adj_plan *plan, int at) {
  uint64_t used = adj_ctx_memory_used(ctx);
  watcher w = {.cancel_at = at};
  adj_run_control control = control_of();
  control.progress = watch;
  control.user = &w;
  adj_result *result = NULL;
  assert_int_equal(adj_collect(plan, &result, &control, NULL), ADJ_CANCELLED);
  assert_null(result);
  w = (watcher){.cancel_at = at};
  counter c = {0};
  adj_sink sink = sink_of(&c);
  assert_int_equal(adj_stream(plan, &sink, &control, NULL), ADJ_CANCELLED);
  assert_int_equal(c.begun, c.ended);
  assert_int_equal(adj_ctx_memory_used(ctx), used);
}

/* A sink cancels the context in its first write, before all rows are written. */
static inline void cancel_by_sink(adj_ctx *ctx, adj_plan *plan, uint64_t rows) {
  counter c = {.cancel = ctx};
  adj_sink sink = sink_of(&c);
  assert_int_equal(adj_stream(plan, &sink, NULL, NULL), ADJ_CANCELLED);
  assert_int_equal(c.ended, 1);
  assert_int_equal(c.outcome, ADJ_CANCELLED);
  assert_true(c.rows < rows);
  c = (counter){0};
  must(adj_stream(plan, &sink, NULL, NULL));
  assert_int_equal(c.rows, rows);
}

static inline void *cancel_soon(void *argument) {
  struct timespec pause = {0, 30000000};
  nanosleep(&pause, NULL);
  adj_cancel(argument);
  return NULL;
}

static inline double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
