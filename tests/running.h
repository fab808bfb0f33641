/* SPDX-License-Identifier: MIT
 *
 * What the tests of running joins share: points, a sink that counts, a progress function that watches,
 * and a thread that cancels.
 */
#ifndef ADJOIN_TEST_RUNNING_H
#define ADJOIN_TEST_RUNNING_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"

static inline adj_dataset *uniform(adj_ctx *ctx, uint64_t count, uint32_t dim) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = count;
  options.dim = dim;
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &options, &set));
  return set;
}

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
  int fail_begin, fail_write; /* fail_write: at that write, from 1 */
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

/* ---- Progress and cancelling ---------------------------------------------------------------------------- */

typedef struct watcher {
  double last;
  int calls, wrong, cancel_at;
  atomic_int inside; /* calls must not overlap */
} watcher;

static inline int watch(void *user, const adj_progress *where) {
  watcher *w = user;
  if (atomic_fetch_add(&w->inside, 1)) w->wrong++;
  if (!where->phase || !(where->fraction >= w->last && where->fraction <= 1)) w->wrong++;
  w->last = where->fraction;
  w->calls++;
  atomic_fetch_sub(&w->inside, 1);
  return w->calls == w->cancel_at;
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
