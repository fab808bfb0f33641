/* SPDX-License-Identifier: MIT
 *
 * The scheduler, with C functions as devices: the queue is compared with a model, and passes run with devices that are
 * slow or quick, fail or are cancelled. Every query must be done exactly once.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/scheduler.h"
#include "running.h"

/* ---- The queue ------------------------------------------------------------------------------------------- */

/* Batches of `each` queries (the last may be smaller) with different work. */
static void fill_queue(adj_ctx *ctx, adji_queue *queue, uint32_t queries, uint32_t each) {
  must(adji_queue_init(queue, ctx, 4));
  for (uint32_t begin = 0; begin < queries; begin += each) {
    uint32_t end = begin + each < queries ? begin + each : queries;
    must(adji_queue_add(queue, (adji_batch){begin, end, begin * 7919u % 13}));
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

/* Takes stretches from both ends and returns some. Each batch is out at most once at any time, and all are out in the
 * end. */
static void a_queue_hands_out_each_batch_once(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  uint32_t seed = 1;
  for (uint32_t round = 0; round < 200; round++) {
    adji_queue queue;
    fill_queue(ctx, &queue, 1 + round * 5, 3);
    int *out = calloc(queue.count, sizeof *out);
    double remaining = queue.remaining, next;
    uint32_t returned = 0;
    adji_batch_run s;
    while (adji_queue_look(&queue, seed & 64, &remaining, &next)) {
      seed = seed * 1664525u + 1013904223u;
      bool heavy = seed & 64;
      double work = seed >> 16 & 31;
      assert_true(adji_queue_look(&queue, heavy, &remaining, &next));
      assert_true(adji_queue_take_some(&queue, heavy, work, &s));
      assert_true(s.begin < s.end);
      assert_true(work_between(&queue, s) <= work || s.end == s.begin + 1);
      assert_true(queue.batches[heavy ? s.begin : s.end - 1].work == next);
      double now = 0;
      adji_queue_look(&queue, heavy, &now, &next);
      assert_true(fabs(remaining - work_between(&queue, s) - now) < 1e-9);
      if (seed >> 24 < 60 && returned < 8) {
        adji_queue_return(&queue, s);
        returned++;
        continue;
      }
      for (uint64_t i = s.begin; i < s.end; i++)
        assert_int_equal(out[i]++, 0);
    }
    for (uint64_t i = 0; i < queue.count; i++)
      assert_int_equal(out[i], 1);
    assert_false(adji_queue_take_some(&queue, true, 1e9, &s));
    assert_false(adji_queue_take_some(&queue, false, ADJI_ONE_BATCH, &s));
    free(out);
    adji_queue_clear(&queue);
  }
  adj_ctx_destroy(ctx);
}

/* Batches without work are handed out too, one at a time from either end. */
static void no_work_is_handed_out_too(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adji_queue queue;
  adji_batch batch;
  adji_batch_run light;
  must(adji_queue_init(&queue, ctx, 4));
  for (uint32_t i = 0; i < 10; i++)
    must(adji_queue_add(&queue, (adji_batch){i, i + 1, 0}));
  adji_queue_rewind(&queue);
  for (uint32_t i = 0; i < 5; i++) {
    assert_true(adji_queue_take_heavy(&queue, &batch));
    assert_int_equal(batch.begin, i);
    assert_true(adji_queue_take_some(&queue, false, ADJI_ONE_BATCH, &light));
    assert_int_equal(queue.batches[light.begin].begin, 9 - i);
  }
  assert_false(adji_queue_take_heavy(&queue, &batch));
  adji_queue_clear(&queue);
  adj_ctx_destroy(ctx);
}

/* ---- Passes --------------------------------------------------------------------------------------------------- */

/* Counts how often each query was done. A device shares its queries out in pieces of a loop. */
typedef struct work {
  adj_ctx *ctx;
  atomic_int *done;  /* for each query, in accounted batches */
  uint32_t lane_us;  /* how long a core takes for a batch */
  int lane_fails_at; /* the core's batch that fails, from 1 */
  atomic_int lane_batches, lane_queries;
  uint32_t queries; /* in all, for devices without cores */
} work;

typedef struct device {
  work *work;
  uint32_t batch_us;
  int fails_at, piece_fails_at, cancels_at; /* number of the call, from 1; 0: never */
  uint32_t most_lane;
  int calls;
  uint64_t queries;
  bool ahead;
  bool misses; /* misses multiples of 5, until it was asked for them often enough */
  uint32_t epoch;
  atomic_int pieces; /* of the current loop */
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

static uint64_t two_are_enough(const void *user) {
  (void)user;
  return 2;
}

static bool is_missed(const device *d, uint32_t query) {
  return d->misses && query % 5 == 0 && query / 5 % 4 > d->epoch;
}

/* Does the queries that the device does not miss, and returns the others. */
static adj_status do_some(device *d, const adji_batch *batches, uint64_t count, adji_feed *feed, adji_tally *tally) {
  bool some = false;
  adj_status status = ADJ_OK;
  for (uint64_t i = 0; i < count && !status; i++)
    for (uint32_t q = batches[i].begin; q < batches[i].end && !status; q++) {
      adji_batch one = {q, q + 1, 0};
      bool missed = is_missed(d, q);
      some = some || missed;
      if (missed) {
        status = adji_feed_return(feed, &one, 1);
        continue;
      }
      do_queries(d->work, &one);
      d->queries++;
      tally->pairs++;
    }
  d->epoch += some;
  if (some) adji_feed_again(feed);
  return status;
}

static adj_status device_do(device *d, const adji_batch *batches, uint64_t count, adji_feed *feed) {
  atomic_store(&d->pieces, 0);
  adji_feed_sleep(feed, true);
  pause_us(d->batch_us * (uint32_t)count);
  adji_feed_sleep(feed, false);
  adji_feed_found(feed);
  if (d->calls == d->cancels_at) adj_cancel(d->work->ctx);
  adj_status status = adji_check_cancel(d->work->ctx);
  if (!status) status = adji_feed_parallel(feed, count, do_piece, two_are_enough, d);
  if (status) return status;
  assert_int_equal(atomic_load(&d->pieces), count);
  if (d->calls == d->fails_at) return adji_fail(ADJ_E_DEVICE, "device 0: fails");
  adji_tally tally = {0};
  status = do_some(d, batches, count, feed, &tally);
  return status ? status : adji_feed_done(feed, &tally);
}

/* Does stretches one after the other. A device that works ahead takes the next one before it is done with the first. */
static adj_status device_drain(void *user, adji_feed *feed) {
  device *d = user;
  const adji_batch *batches[2];
  uint64_t counts[2], taken = 0, done = 0;
  adj_status status = ADJ_OK;
  for (;;) {
    while (taken - done < (d->ahead ? 2 : 1) && adji_feed_take(feed, &batches[taken % 2], &counts[taken % 2]))
      taken++;
    if (taken == done) return ADJ_OK;
    d->calls++;
    status = device_do(d, batches[done % 2], counts[done % 2], feed);
    if (status) return status;
    done++;
  }
}

static adj_status device_alone(void *user, adji_tally *tally) {
  device *d = user;
  d->calls++;
  tally->pairs = d->work->queries;
  do_queries(d->work, &(adji_batch){0, d->work->queries, 0});
  return ADJ_OK;
}

static adj_status begin_pass(void *user, adji_run *run, const adji_pass *pass) {
  (void)user;
  (void)run;
  (void)pass;
  return ADJ_OK;
}

static void end_pass(void *user, adji_run *run) {
  (void)user;
  (void)run;
}

static adji_worker worker_of(const char *name, bool is_device, void *user) {
  return (adji_worker){.state = user,
                       .name = name,
                       .is_device = is_device,
                       .begin = begin_pass,
                       .process = is_device ? NULL : process_here,
                       .drain = is_device ? device_drain : NULL,
                       .alone = is_device ? device_alone : NULL,
                       .end = end_pass};
}

static adj_status run_pass(adji_run *run, adji_queue *queue, const adji_worker *workers, uint32_t count,
                           const adji_share_options *share, adji_tally *tally) {
  adji_pass pass = {.kind = ADJI_PASS_FILL, .name = "join", .queries = queue->count, .queue = queue};
  adji_active active;
  must(adji_pass_begin(run, workers, count, &pass, &active));
  assert_int_equal(active.count, count);
  adj_status status = adji_pass_run(run, &pass, &active, share, tally);
  adji_pass_end(run, &active);
  return status;
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

/* The number of devices that got as far as their failing call. */
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
  bool misses = t->device[0].misses || t->device[1].misses;
  assert_true(misses || (failures ? failed > 0 : failed == 0));
  assert_int_equal(atomic_load(&warned), failures);
}

static void run_trial(trial *t) {
  adj_ctx *ctx = watched_context(&t->threads);
  adji_queue queue;
  adji_run run;
  adji_tally tally = {0};
  adji_worker workers[3] = {worker_of("cpu", false, &t->work)};
  fill_queue(ctx, &queue, t->queries, t->each);
  t->work.ctx = ctx;
  t->work.done = calloc(t->queries + 1, sizeof *t->work.done);
  for (uint32_t d = 0; d < t->devices; d++) {
    t->device[d].work = &t->work;
    t->device[d].most_lane = t->threads + d;
    workers[1 + d] = worker_of(d ? "device 1" : "device 0", true, &t->device[d]);
  }
  atomic_store(&warned, 0);
  atomic_store(&device_events, 0);
  adj_run_control control = control_of();
  control.max_pairs = t->max_pairs;
  must(adji_run_init(&run, ctx, &control));
  adj_status status = run_pass(&run, &queue, workers, 1 + t->devices, t->share, &tally);
  if (status != t->wanted) fail_msg("%s: %s", adj_status_name(status), adj_last_error());
  int calls = 0;
  for (uint32_t d = 0; d < t->devices; d++)
    calls += t->device[d].calls;
  assert_true(atomic_load(&device_events) >= calls && (calls || !t->queries));
  if (!status) check_pass(t, &run, &tally);
  adji_run_clear(&run);
  free(t->work.done);
  adji_queue_clear(&queue);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Devices take turns, and some have no part in a pass. Each device has its own statistics. */
static void figures_are_of_the_device_that_did_it(void **state) {
  (void)state;
  static const uint32_t firsts[] = {0, 1, 0, 1}, counts[] = {2, 1, 1, 1};
  uint32_t threads = 2, queries = 1000;
  adj_ctx *ctx = watched_context(&threads);
  work w = {.ctx = ctx, .done = calloc(queries, sizeof *w.done), .lane_us = 200};
  device devices[2] = {{.work = &w, .most_lane = threads + 1}, {.work = &w, .most_lane = threads + 1}};
  adji_worker cores = worker_of("cpu", false, &w);
  adji_worker workers[2] = {worker_of("device 0", true, &devices[0]), worker_of("device 1", true, &devices[1])};
  adji_queue queue;
  adji_run run;
  fill_queue(ctx, &queue, queries, 5);
  must(adji_run_init(&run, ctx, NULL));
  for (int p = 0; p < 4; p++) {
    adji_worker some[3] = {cores};
    memcpy(some + 1, workers + firsts[p], counts[p] * sizeof *some);
    must(run_pass(&run, &queue, some, 1 + counts[p], NULL, NULL));
    assert_int_equal(run.worker_count, 3);
  }
  assert_int_equal(run.workers[0].queries, atomic_load(&w.lane_queries));
  for (uint32_t d = 0; d < 2; d++) {
    assert_string_equal(run.workers[1 + d].name, workers[d].name);
    assert_int_equal(run.workers[1 + d].queries, devices[d].queries);
    assert_true(devices[d].queries > 0);
  }
  adji_run_clear(&run);
  adji_queue_clear(&queue);
  free(w.done);
  adj_ctx_destroy(ctx);
}

/* A single device does everything at once, in the caller's thread. Two devices without cores share the work. */
static void devices_need_no_cores(void **state) {
  (void)state;
  uint32_t threads = 2, queries = 1000;
  for (uint32_t count = 1; count <= 2; count++) {
    adj_ctx *ctx = watched_context(&threads);
    work w = {.ctx = ctx, .done = calloc(queries, sizeof *w.done), .queries = queries};
    device devices[2] = {{.work = &w, .most_lane = threads + 1, .batch_us = 10},
                         {.work = &w, .most_lane = threads + 1, .batch_us = 10}};
    adji_worker workers[2] = {worker_of("device 0", true, &devices[0]), worker_of("device 1", true, &devices[1])};
    adji_queue queue;
    adji_run run;
    adji_tally tally;
    fill_queue(ctx, &queue, queries, 5);
    must(adji_run_init(&run, ctx, NULL));
    must(run_pass(&run, &queue, workers, count, NULL, &tally));
    assert_int_equal(tally.pairs, queries);
    for (uint32_t q = 0; q < queries; q++)
      assert_int_equal(atomic_load(&w.done[q]), 1);
    if (count == 1) assert_int_equal(devices[0].calls, 1);
    assert_int_equal(atomic_load(&w.lane_queries), 0);
    adji_run_clear(&run);
    adji_queue_clear(&queue);
    free(w.done);
    adj_ctx_destroy(ctx);
  }
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
                             .device = {{.batch_us = q == 4 ? 20 : 0, .ahead = q % 2}, {.ahead = true}},
                             .share = fixed ? &PAPERS : NULL});
}

/* Queries that a device returns are done by the cores, or by a device that is asked for them again. */
static void returned_queries_are_done_once(void **state) {
  (void)state;
  for (uint32_t lane_us = 0; lane_us <= 2000; lane_us += 1000)
    for (uint32_t devices = 1; devices <= 2; devices++)
      for (int fixed = 0; fixed < 2; fixed++)
        for (int at = 0; at < 3; at++) {
          trial t = {.threads = 2,
                     .queries = 1000,
                     .each = 5,
                     .devices = devices,
                     .work.lane_us = lane_us,
                     .device = {{.misses = true, .fails_at = 3 * at}, {.misses = true}},
                     .share = fixed ? &PAPERS : NULL};
          run_trial(&t);
          /* If the cores are slow, the device gets its missed queries again. */
          if (lane_us == 2000 && devices == 1 && !at) assert_true(t.device[0].epoch > 1);
        }
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
        run_trial(&(trial){.threads = 4, /* one of the threads may serve the device */
                           .queries = 3000,
                           .each = 5,
                           .devices = devices,
                           .work.lane_us = 300,
                           .device = {{.fails_at = at, .batch_us = 10, .ahead = fixed}, {.batch_us = 10}},
                           .share = share});
        run_trial(
            &(trial){.threads = 1,
                     .queries = 3000,
                     .each = 5,
                     .devices = devices,
                     .work.lane_us = 300,
                     .device = {{.piece_fails_at = at, .batch_us = 10, .ahead = true}, {.fails_at = at, .ahead = true}},
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

/* The other workers are slow, so that the one that ends the run gets its turn even on a busy machine. */
static void a_run_is_given_up_by_any_worker(void **state) {
  (void)state;
  for (int at = 1; at <= 3; at++) {
    run_trial(&(trial){.threads = 2,
                       .queries = 3000,
                       .each = 5,
                       .devices = 2,
                       .work.lane_us = 5000,
                       .device = {{.cancels_at = at, .batch_us = 10, .ahead = true}, {.batch_us = 5000}},
                       .wanted = ADJ_CANCELLED});
    run_trial(&(trial){.threads = 2,
                       .queries = 3000,
                       .each = 5,
                       .devices = 1,
                       .work = {.lane_us = 100, .lane_fails_at = at},
                       .device[0].batch_us = 5000,
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
      cmocka_unit_test(no_work_is_handed_out_too),
      cmocka_unit_test(each_query_is_done_once),
      cmocka_unit_test(devices_need_no_cores),
      cmocka_unit_test(figures_are_of_the_device_that_did_it),
      cmocka_unit_test(returned_queries_are_done_once),
      cmocka_unit_test(a_slow_worker_does_not_keep_the_others_waiting),
      cmocka_unit_test(what_a_device_fails_at_is_done_by_others),
      cmocka_unit_test(the_last_batch_can_fail),
      cmocka_unit_test(a_run_is_given_up_by_any_worker),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
