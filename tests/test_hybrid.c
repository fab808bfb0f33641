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
#include "gpu/nearest_worker.h"
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
  assert_true(atomic_load(&device_events) >= calls && (calls || !t->queries));
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

/* ---- kNN joins ------------------------------------------------------------------------------------------------ */

/* A device with lists and buffers as a GPU has them, which knows the answer: the table of the cores. */
typedef struct oracle {
  adj_ctx *ctx;
  const adj_result *answer;
  const uint32_t *order; /* rows of the cores' queries */
  uint32_t k;
  uint64_t size; /* of a distance */
  adji_list_device device;
  adji_nearest_worker worker;
  uint64_t list_queries;
  uint32_t *lists[ADJI_LISTS]; /* rows */
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
      if (o->order[q] >= t->first_row && o->order[q] < t->end_row) o->lists[slot][listed++] = o->order[q];
  assert_true(all >= 1 && all <= o->list_queries);
  o->under_way[slot] = true;
  o->counts[slot] = *rows = listed;
  o->rows += listed;
  return ADJ_OK;
}

static adj_status oracle_listed(void *state, uint32_t slot) {
  oracle *o = state;
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
    memcpy(to + piece.ids + i * o->k * 4, adj_result_ids(o->answer) + row * o->k, o->k * sizeof(uint32_t));
    if (size)
      memcpy(to + piece.distances + i * o->k * size, (const char *)adj_result_distances(o->answer) + row * o->k * size,
             o->k * size);
  }
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

static adj_status oracle_begin(void *state, const adji_table *table) {
  oracle *o = state;
  if (++o->begins == o->refuses_at) return adji_fail(ADJ_E_DEVICE_MEMORY, "device 0: no room");
  o->worker.table = table;
  return adji_nearest_worker_begin(&o->worker);
}

static adj_status oracle_process(void *state, const adji_batch *batches, uint64_t count, adji_help *help,
                                 adji_tally *tally) {
  return adji_nearest_worker_process(&((oracle *)state)->worker, batches, count, help, tally);
}

static void oracle_end(void *state, adji_device_work *did) {
  adji_nearest_worker_end(&((oracle *)state)->worker, did);
}

static void oracle_destroy(void *state) {
  oracle *o = state;
  for (int i = 0; i < ADJI_LISTS; i++)
    free(o->lists[i]);
  for (uint32_t i = 0; i <= o->ctx->threads; i++)
    free(o->buffers[i]);
  free(o->buffers);
}

/* How a join is shared. */
typedef struct sharing {
  uint64_t batch, list_queries, list_ranges, buffer_rows;
  int fails_at, refuses_at;
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
                .refuses_at = how->refuses_at};
  o->device =
      (adji_list_device){o, oracle_list, oracle_listed, oracle_fetch, oracle_wait, oracle_buffer, oracle_settle};
  o->worker.device = &o->device;
  o->worker.join = &plan->join;
  o->worker.list_queries = how->list_queries;
  o->worker.list_ranges = how->list_ranges;
  o->worker.buffer_bytes = 16 + how->buffer_rows * (4 + o->k * (4 + o->size));
  o->buffers = calloc(plan->ctx->threads + 1, sizeof *o->buffers);
  for (uint32_t i = 0; i <= plan->ctx->threads; i++)
    o->buffers[i] = malloc(o->worker.buffer_bytes);
  for (int i = 0; i < ADJI_LISTS; i++)
    o->lists[i] = malloc(how->list_queries * sizeof(uint32_t));
  return (adji_partner){o, "gpu", oracle_begin, oracle_process, oracle_end, oracle_destroy};
}

/* A plan of the cores whose engine gets a partner. */
static void share_plan(adj_plan *plan, oracle *o, const adj_result *answer, const sharing *how) {
  const adji_tree *left = plan->self_join ? &plan->right_tree : &plan->left_tree;
  adji_partner partner = partner_of(o, plan, left, answer, how);
  plan->engine.destroy(plan->engine.state);
  plan->engine = (adji_engine){0};
  adji_nearest_options options = {.left = left,
                                  .right = &plan->right_tree,
                                  .batch = how->batch,
                                  .partners = &partner,
                                  .partner_count = 1,
                                  .share = how->share};
  must(adji_nearest_create(&plan->join, &options, &plan->engine));
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

static const sharing SHARINGS[] = {
    {.batch = 16, .list_queries = 1, .list_ranges = 1, .buffer_rows = 1},
    {.batch = 16, .list_queries = 77, .list_ranges = 3, .buffer_rows = 5},
    {.batch = 0, .list_queries = 100000, .list_ranges = 1000, .buffer_rows = 4000},
    {.batch = 64, .list_queries = 1000, .list_ranges = 2, .buffer_rows = 100, .share = {.fixed = true}},
    {.batch = 16, .list_queries = 50, .list_ranges = 64, .buffer_rows = 7, .share = {true, 1, 1e-6, 0.005, 0.005}},
    {.batch = 16, .list_queries = 50, .list_ranges = 8, .buffer_rows = 7, .fails_at = 1},
    {.batch = 16, .list_queries = 20, .list_ranges = 8, .buffer_rows = 7, .fails_at = 3, .share = {.fixed = true}},
    {.batch = 16, .list_queries = 50, .list_ranges = 8, .buffer_rows = 7, .refuses_at = 1},
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
      check_shared(ctx, others, points, &(question){40, 0.2, ADJ_WITH_DISTANCE, "leaf=32"}, &SHARINGS[i]);
      check_shared(ctx, one, points, &(question){1600, 0, ADJ_WITH_DISTANCE, NULL}, &SHARINGS[i]);
      check_shared(ctx, points, one, &(question){2, 0, 0, NULL}, &SHARINGS[i]);
      check_shared(ctx, none, points, &(question){2, 0, 0, NULL}, &SHARINGS[i]);
    }
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
      cmocka_unit_test(shared_joins_are_those_of_cores),
      cmocka_unit_test(dense_queries_come_first),
      cmocka_unit_test(shared_joins_can_be_stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
