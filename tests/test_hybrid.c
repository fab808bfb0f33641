/* SPDX-License-Identifier: MIT
 *
 * Cores and devices that share a queue, with devices that are C functions: the queue as a model says; how much each
 * gets, by a clock of the test's own; passes with devices that are slow, quick, fail or are cancelled, in which every
 * query is done exactly once; and kNN joins, compared with those of cores alone.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu/nearest.h"
#include "cpu/nearest_group.h"
#include "plan/plan.h"
#include "queue/scheduler.h"
#include "running.h"

/* ---- The queue ------------------------------------------------------------------------------------------- */

/* Batches of each queries, all but the last, and of work that differs. */
static void fill_queue(adj_ctx *ctx, adji_queue *queue, uint32_t queries, uint32_t each) {
  must(adji_queue_init(queue, ctx, 4));
  for (uint32_t begin = 0; begin < queries; begin += each) {
    uint32_t end = begin + each < queries ? begin + each : queries;
    must(adji_queue_add(queue, (adji_batch){begin, end, 1 + begin * 7919u % 13}));
  }
  adji_queue_sort(queue);
  adji_queue_rewind(queue);
}

static double work_between(const adji_queue *queue, adji_batch_run s) {
  double work = 0;
  for (uint64_t i = s.begin; i < s.end; i++)
    work += queue->batches[i].work;
  return work;
}

/* Stretches from both ends, some of which come back: each batch is out once at any time, and all at the end. */
static void a_queue_hands_out_each_batch_once(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  uint32_t seed = 1;
  for (uint32_t round = 0; round < 200; round++) {
    adji_queue queue;
    fill_queue(ctx, &queue, 1 + round * 5, 3);
    int *out = calloc(queue.count, sizeof *out);
    double left = queue.left, next;
    uint32_t returned = 0;
    adji_batch_run s;
    while (adji_queue_look(&queue, seed & 64, &left, &next)) {
      seed = seed * 1664525u + 1013904223u;
      bool heavy = seed & 64;
      double work = seed >> 16 & 31;
      assert_true(adji_queue_look(&queue, heavy, &left, &next));
      assert_true(adji_queue_take_some(&queue, heavy, work, &s));
      assert_true(s.begin < s.end);
      assert_true(work_between(&queue, s) <= work || s.end == s.begin + 1);
      assert_true(queue.batches[heavy ? s.begin : s.end - 1].work == next);
      double now = 0;
      adji_queue_look(&queue, heavy, &now, &next);
      assert_true(fabs(left - work_between(&queue, s) - now) < 1e-9);
      if (seed >> 24 < 60 && returned < 8) {
        adji_queue_give_back(&queue, s);
        returned++;
        continue;
      }
      for (uint64_t i = s.begin; i < s.end; i++)
        assert_int_equal(out[i]++, 0);
    }
    for (uint64_t i = 0; i < queue.count; i++)
      assert_int_equal(out[i], 1);
    assert_false(adji_queue_take_some(&queue, true, 1e9, &s));
    adji_batch batch;
    assert_false(adji_queue_take_light(&queue, &batch));
    free(out);
    adji_queue_clear(&queue);
  }
  adj_ctx_destroy(ctx);
}

/* ---- How much, by a clock of our own -------------------------------------------------------------------------- */

typedef struct machine {
  uint32_t lanes, devices;
  double lane_rate, device_rate[2]; /* work a second */
  double start_s;                   /* what a device needs to begin a batch */
  const adji_share_options *options;
} machine;

typedef struct outcome {
  double end;
  uint32_t device_batches;
  double device_work;
} outcome;

enum { MOST_SIMULATED = 66, IDLE = -1 };

/* Lanes and devices take turns in the order of time; lanes that are told to wait look again when a device is done. */
static outcome simulate(adji_queue *queue, const machine *m) {
  adji_share share;
  double until[MOST_SIMULATED] = {0}, begun[MOST_SIMULATED] = {0}, has[MOST_SIMULATED] = {0};
  bool gone[MOST_SIMULATED] = {false}, waits[MOST_SIMULATED] = {false};
  outcome result = {0};
  adji_queue_rewind(queue);
  adji_share_init(&share, m->options, queue->left, m->lanes, m->devices);
  for (;;) {
    uint32_t who = UINT32_MAX, all = m->devices + m->lanes;
    for (uint32_t w = 0; w < all; w++)
      if (!gone[w] && !waits[w] && (who == UINT32_MAX || until[w] < until[who])) who = w;
    if (who == UINT32_MAX) break;
    double now = until[who], left, next;
    bool device = who < m->devices;
    if (has[who] > 0) {
      if (device)
        adji_share_did(&share, who, now);
      else
        adji_share_lane_did(&share, has[who], now - begun[who]);
      if (now > result.end) result.end = now;
      has[who] = 0;
      for (uint32_t w = 0; w < all; w++)
        if (device && waits[w]) {
          waits[w] = false;
          until[w] = now;
        }
    }
    adji_batch_run s;
    bool some = adji_queue_look(queue, device, &left, &next);
    double work = !some    ? 0
                  : device ? adji_share_for_device(&share, who, now, left, next)
                           : adji_share_for_lane(&share, now, left, next);
    if (some && !(work > 0) && !device) {
      waits[who] = true;
      continue;
    }
    if (!(work > 0)) {
      gone[who] = true;
      if (device) adji_share_left(&share, who);
      for (uint32_t w = 0; w < all && device; w++)
        if (waits[w]) {
          waits[w] = false;
          until[w] = now;
        }
      continue;
    }
    assert_true(adji_queue_take_some(queue, device, work, &s));
    has[who] = work_between(queue, s);
    begun[who] = now;
    until[who] = now + (device ? m->start_s + has[who] / m->device_rate[who] : has[who] / m->lane_rate);
    if (device) {
      adji_share_took(&share, who, now, has[who]);
      result.device_batches++;
      result.device_work += has[who];
    }
  }
  double left, next;
  assert_false(adji_queue_look(queue, true, &left, &next)); /* nothing stays behind */
  return result;
}

static void all_are_done_at_the_same_time(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adji_queue queue;
  must(adji_queue_init(&queue, ctx, 16));
  for (uint32_t i = 0; i < 8192; i++) /* 1 s of all cores, 1,024 queries a batch */
    must(adji_queue_add(&queue, (adji_batch){1024 * i, 1024 * i + 1024, 1024}));
  double total = 8192.0 * 1024;
  static const double ratios[] = {0.02, 0.1, 0.5, 1, 2, 10, 50};
  for (uint32_t lanes = 1; lanes <= 64; lanes *= 4)
    for (int i = 0; i < 7; i++)
      for (uint32_t devices = 1; devices <= 2; devices++) {
        double cores = total, each = ratios[i] * cores / devices;
        machine m = {lanes, devices, cores / lanes, {each, each}, 200e-6, NULL};
        outcome o = simulate(&queue, &m);
        double ideal = total / (cores + ratios[i] * cores), alone = total / (ratios[i] * cores);
        double batch = 1024 / m.lane_rate, slowest = 1024 / each; /* what the last to finish may have just begun */
        double granule = batch > slowest ? slowest : batch;
        if (!(o.end < ideal * 1.03 + granule + 0.002) || !(o.end < alone * 1.02 + 4 * devices * m.start_s))
          fail_msg("%u lanes, %u devices, %g: %g s, %g at best, %u batches", lanes, devices, ratios[i], o.end, ideal,
                   o.device_batches);
        assert_true(o.device_batches < 60 * devices);
      }
  adji_queue_clear(&queue);
  adj_ctx_destroy(ctx);
}

/* The sizes of the papers: 0.4, then as much as leaves 0.4 to the cores, then 0.005. */
static void fixed_sizes_are_those_of_the_papers(void **state) {
  (void)state;
  adji_share share;
  adji_share_options fixed = {.fixed = true};
  adji_share_init(&share, &fixed, 1000, 4, 1);
  assert_true(adji_share_for_device(&share, 0, 1, 1000, 1) == 400);
  assert_true(adji_share_for_lane(&share, 0, 1000, 1) == 5);
  adji_share_took(&share, 0, 0, 400);
  adji_share_did(&share, 0, 1);
  double second = adji_share_for_device(&share, 0, 1, 550, 1); /* 0.15 is not reserved */
  assert_true(fabs(second - 150) < 1e-9);
  adji_share_took(&share, 0, 1, second);
  adji_share_did(&share, 0, 2);
  assert_true(adji_share_for_device(&share, 0, 1, 390, 1) == 5);
  adji_share_took(&share, 0, 2, 5);
  adji_share_did(&share, 0, 3);
  assert_true(adji_share_for_device(&share, 0, 1, 900, 1) == 5); /* large ones do not come back */
  assert_true(adji_share_for_device(&share, 0, 1, 49, 1) == 2.5);
  assert_true(adji_share_for_lane(&share, 4, 49, 1) == 2.5);
  fixed = (adji_share_options){true, 0.2, 0.1, 0.01, 0.02};
  adji_share_init(&share, &fixed, 1000, 4, 1);
  assert_true(adji_share_for_device(&share, 0, 1, 1000, 1) == 200);
  assert_true(adji_share_for_device(&share, 0, 1, 90, 1) == 10);
  assert_true(adji_share_for_lane(&share, 0, 1000, 1) == 20);
}

/* ---- Passes --------------------------------------------------------------------------------------------------- */

/* Counts how often each query was done. A device asks for help with its queries, piece by piece. */
typedef struct work {
  adj_ctx *ctx;
  atomic_int *done;  /* by query, of what was settled */
  uint32_t lane_us;  /* a batch takes a core so long  */
  int lane_fails_at; /* its so many-th batch fails, from 1 */
  atomic_int lane_batches, lane_queries;
} work;

typedef struct device {
  work *work;
  uint32_t batch_us;
  int fails_at, piece_fails_at, cancels_at; /* its so many-th call, from 1; 0: never */
  uint32_t most_lane;
  int calls;
  uint64_t queries;
  /* The loop at work. */
  const adji_batch *batches;
  atomic_int pieces;
} device;

static void pause_us(uint32_t us) {
  struct timespec pause = {us / 1000000, (long)(us % 1000000) * 1000};
  if (us) nanosleep(&pause, NULL);
}

static void do_queries(work *w, const adji_batch *batch) {
  for (uint32_t q = batch->begin; q < batch->end; q++)
    atomic_fetch_add(&w->done[q], 1);
}

static adj_status process_here(void *user, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  work *w = user;
  assert_true(lane < w->ctx->threads);
  pause_us(w->lane_us);
  if (atomic_fetch_add(&w->lane_batches, 1) + 1 == w->lane_fails_at) return adji_fail(ADJ_E_IO, "a core fails");
  atomic_fetch_add(&w->lane_queries, (int)(batch->end - batch->begin));
  do_queries(w, batch);
  tally->pairs += batch->end - batch->begin;
  return ADJ_OK;
}

static adj_status do_piece(void *user, uint64_t piece, uint32_t lane) {
  device *d = user;
  assert_true(lane <= d->most_lane);
  if (d->calls == d->piece_fails_at && piece == 0) return adji_fail(ADJ_E_DEVICE, "a piece fails");
  pause_us(20);
  (void)piece;
  atomic_fetch_add(&d->pieces, 1);
  return ADJ_OK;
}

static adj_status process_there(void *user, const adji_batch *batches, uint64_t count, adji_help *help,
                                adji_tally *tally) {
  device *d = user;
  d->calls++;
  d->batches = batches;
  atomic_store(&d->pieces, 0);
  pause_us(d->batch_us * (uint32_t)count);
  if (d->calls == d->cancels_at) adj_cancel(d->work->ctx);
  adj_status status = adji_check_cancel(d->work->ctx);
  if (!status) status = adji_help_loop(help, count, do_piece, d);
  if (status) return status;
  assert_int_equal(atomic_load(&d->pieces), count);
  if (d->calls == d->fails_at) return adji_fail(ADJ_E_DEVICE, "device 0: fails");
  for (uint64_t i = 0; i < count; i++) {
    do_queries(d->work, &batches[i]);
    d->queries += batches[i].end - batches[i].begin;
    tally->pairs += batches[i].end - batches[i].begin;
  }
  return ADJ_OK;
}

typedef struct trial {
  uint32_t threads, queries, each, devices;
  work work;
  device device[2];
  const adji_share_options *share;
  uint64_t max_pairs;
  adj_status wanted;
} trial;

static atomic_int warned;
static void count_warnings(void *user, adj_log_level level, const char *line) {
  (void)user;
  (void)line;
  if (level == ADJ_LOG_WARN) atomic_fetch_add(&warned, 1);
}

static atomic_int device_events;
static void watch_trace(void *user, const adj_trace_event *event) {
  const uint32_t *threads = user;
  if (event->lane >= *threads) atomic_fetch_add(&device_events, 1);
}

static adj_ctx *watched_context(uint32_t *threads) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = *threads;
  options.device_count = 0;
  options.log = count_warnings;
  options.trace = watch_trace;
  options.trace_user = threads;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  return ctx;
}

/* Devices that got as far as the call at which they fail. */
static int failures_of(const trial *t) {
  int failures = 0;
  for (uint32_t d = 0; d < t->devices; d++) {
    const device *it = &t->device[d];
    failures += (it->fails_at && it->calls == it->fails_at) || (it->piece_fails_at && it->calls == it->piece_fails_at);
  }
  return failures;
}

static void check_pass(trial *t, const adji_run *run, const adji_tally *tally) {
  uint64_t failed = 0, queries = 0;
  for (uint32_t q = 0; q < t->queries; q++)
    if (atomic_load(&t->work.done[q]) != 1) fail_msg("query %u: done %d times", q, atomic_load(&t->work.done[q]));
  assert_int_equal(tally->pairs, t->queries);
  assert_int_equal(run->worker_count, 1 + t->devices);
  for (uint32_t w = 0; w < run->worker_count; w++) {
    queries += run->workers[w].queries;
    failed += run->workers[w].failed;
    assert_true(run->workers[w].busy_s >= 0);
  }
  assert_int_equal(queries, t->queries);
  assert_int_equal(run->workers[0].queries, atomic_load(&t->work.lane_queries));
  for (uint32_t d = 0; d < t->devices; d++)
    assert_int_equal(run->workers[1 + d].queries, t->device[d].queries);
  assert_true(run->apart_s >= 0 && run->apart_s <= run->shared_s);
  int failures = failures_of(t);
  assert_true(failures ? failed > 0 : failed == 0);
  assert_int_equal(atomic_load(&warned), failures);
}

static void run_trial(trial *t) {
  adj_ctx *ctx = watched_context(&t->threads);
  adji_queue queue;
  adji_run run;
  adji_tally tally = {0};
  adji_device_worker workers[2];
  fill_queue(ctx, &queue, t->queries, t->each);
  t->work.ctx = ctx;
  t->work.done = calloc(t->queries + 1, sizeof *t->work.done);
  for (uint32_t d = 0; d < t->devices; d++) {
    t->device[d].work = &t->work;
    t->device[d].most_lane = t->threads + d;
    workers[d] = (adji_device_worker){d ? "device 1" : "device 0", &t->device[d], process_there};
  }
  atomic_store(&warned, 0);
  atomic_store(&device_events, 0);
  adj_run_control control = control_of();
  control.max_pairs = t->max_pairs;
  must(adji_run_init(&run, ctx, &control));
  adji_pass pass = {"join", &t->work, process_here};
  adji_crew crew = {workers, t->devices, t->share};
  adj_status status = adji_run_shared_pass(&run, &queue, &pass, &crew, &tally);
  if (status != t->wanted) fail_msg("%s: %s", adj_status_name(status), adj_last_error());
  int calls = 0;
  for (uint32_t d = 0; d < t->devices; d++)
    calls += t->device[d].calls;
  assert_true(atomic_load(&device_events) >= calls);
  if (!status) check_pass(t, &run, &tally);
  adji_run_clear(&run);
  free(t->work.done);
  adji_queue_clear(&queue);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static const adji_share_options PAPERS = {.fixed = true};

static void each_query_is_done_once(void **state) {
  (void)state;
  static const uint32_t queries[] = {0, 1, 2, 17, 1000, 4001};
  for (int q = 0; q < 6; q++)
    for (uint32_t threads = 1; threads <= 4; threads += 3)
      for (uint32_t devices = 1; devices <= 2; devices++)
        for (int fixed = 0; fixed < 2; fixed++)
          run_trial(&(trial){.threads = threads,
                             .queries = queries[q],
                             .each = 5,
                             .devices = devices,
                             .work.lane_us = q == 3 ? 300 : 0,
                             .device[0].batch_us = q == 4 ? 20 : 0,
                             .share = fixed ? &PAPERS : NULL});
}

static void a_slow_worker_does_not_keep_the_others_waiting(void **state) {
  (void)state;
  double begin = seconds();
  /* 200 batches: 100 ms of two cores, or 20 s of the device. */
  run_trial(&(trial){
      .threads = 2, .queries = 1000, .each = 5, .devices = 1, .work.lane_us = 1000, .device[0].batch_us = 100000});
  assert_true(seconds() - begin < 2);
  begin = seconds();
  /* The same the other way round: 20 s of the cores. */
  run_trial(&(trial){
      .threads = 2, .queries = 1000, .each = 5, .devices = 1, .work.lane_us = 200000, .device[0].batch_us = 100});
  assert_true(seconds() - begin < 2);
}

static void what_a_device_fails_at_is_done_by_others(void **state) {
  (void)state;
  for (int at = 1; at <= 4; at++)
    for (int fixed = 0; fixed < 2; fixed++)
      for (uint32_t devices = 1; devices <= 2; devices++) {
        const adji_share_options *share = fixed ? &PAPERS : NULL;
        run_trial(&(trial){.threads = 2,
                           .queries = 3000,
                           .each = 5,
                           .devices = devices,
                           .work.lane_us = 300,
                           .device = {{.fails_at = at, .batch_us = 10}, {.batch_us = 10}},
                           .share = share});
        run_trial(&(trial){.threads = 1,
                           .queries = 3000,
                           .each = 5,
                           .devices = devices,
                           .work.lane_us = 300,
                           .device = {{.piece_fails_at = at, .batch_us = 10}, {.fails_at = at}},
                           .share = share});
      }
}

static void the_last_batch_can_fail(void **state) {
  (void)state;
  /* The device takes longest, and fails when the cores have nothing left to do. */
  run_trial(&(trial){.threads = 2,
                     .queries = 320,
                     .each = 5,
                     .devices = 1,
                     .work.lane_us = 2000,
                     .device[0] = {.fails_at = 1, .batch_us = 50000}});
}

static void a_run_is_given_up_by_any_worker(void **state) {
  (void)state;
  for (int at = 1; at <= 3; at++) {
    run_trial(&(trial){.threads = 2,
                       .queries = 3000,
                       .each = 5,
                       .devices = 2,
                       .work.lane_us = 300,
                       .device = {{.cancels_at = at, .batch_us = 10}, {.batch_us = 10}},
                       .wanted = ADJ_CANCELLED});
    run_trial(&(trial){.threads = 2,
                       .queries = 3000,
                       .each = 5,
                       .devices = 1,
                       .work = {.lane_us = 300, .lane_fails_at = at},
                       .device[0].batch_us = 300,
                       .wanted = ADJ_E_IO});
    run_trial(&(trial){.threads = 2,
                       .queries = 3000,
                       .each = 5,
                       .devices = 1,
                       .work.lane_us = 300,
                       .device[0].batch_us = 10,
                       .max_pairs = 700 * (uint64_t)at,
                       .wanted = ADJ_E_LIMIT});
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_queue_hands_out_each_batch_once),
      cmocka_unit_test(all_are_done_at_the_same_time),
      cmocka_unit_test(fixed_sizes_are_those_of_the_papers),
      cmocka_unit_test(each_query_is_done_once),
      cmocka_unit_test(a_slow_worker_does_not_keep_the_others_waiting),
      cmocka_unit_test(what_a_device_fails_at_is_done_by_others),
      cmocka_unit_test(the_last_batch_can_fail),
      cmocka_unit_test(a_run_is_given_up_by_any_worker),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
