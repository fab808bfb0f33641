/* SPDX-License-Identifier: MIT
 *
 * The scheduler: see scheduler.h.
 */
#include "queue/scheduler.h"

#include <stdio.h>
#include <string.h>

#include "queue/scheduler_private.h"

/* ---- Begin and end ---------------------------------------------------------------------------------- */

static adj_status begin_worker(adji_run *run, const adji_worker *worker, adji_pass *pass, adji_active *out) {
  adj_status status = worker->begin(worker->state, run, pass);
  if (!status) {
    out->workers[out->count++] = worker;
    return ADJ_OK;
  }
  if (!worker->is_device || pass->alone) return status;
  pass->refused = status;
  adji_log(run->ctx, ADJ_LOG_WARN, "%s takes no part: %s", worker->name, adj_last_error());
  return ADJ_OK;
}

/* Devices begin first: what the cores do may depend on whether any device takes part. */
static adj_status begin_workers(adji_run *run, const adji_worker *workers, uint32_t count, adji_pass *pass,
                                adji_active *out) {
  uint32_t devices_from = !workers[0].is_device;
  adji_active devices = {.count = 0};
  adj_status status = ADJ_OK;
  pass->alone = count == 1;
  *out = (adji_active){.count = 0};
  for (uint32_t i = devices_from; i < count && !status; i++)
    status = begin_worker(run, &workers[i], pass, &devices);
  pass->alone = devices.count + devices_from == 1;
  if (!status && devices_from) status = begin_worker(run, &workers[0], pass, out);
  for (uint32_t i = 0; i < devices.count; i++)
    out->workers[out->count++] = devices.workers[i];
  return status;
}

adj_status adji_pass_begin(adji_run *run, const adji_worker *workers, uint32_t count, adji_pass *pass,
                           adji_active *out) {
  adj_status status = begin_workers(run, workers, count, pass, out);
  if (!status) return ADJ_OK;
  adji_pass_end(run, out);
  *out = (adji_active){.count = 0};
  return status;
}

void adji_pass_end(adji_run *run, const adji_active *active) {
  for (uint32_t i = 0; i < active->count; i++)
    if (active->workers[i]->end) active->workers[i]->end(active->workers[i]->state, run);
}

/* ---- A pass at work --------------------------------------------------------------------------------- */

double adji_drain_now(const adji_drain *d) {
  return (double)(adji_now_ns() - d->begin_ns) * 1e-9;
}

adj_status adji_drain_account(adji_drain *d, double work, uint64_t batches, const adji_tally *tally) {
  pthread_mutex_lock(&d->tally_lock);
  d->work_done += work;
  d->batches += batches;
  d->tally.pairs += tally->pairs;
  d->tally.candidates += tally->candidates;
  double fraction = d->total_work > 0 ? d->work_done / d->total_work : 1;
  uint64_t pairs = d->tally.pairs;
  pthread_mutex_unlock(&d->tally_lock);
  adj_status status = adji_run_check_pairs(d->run, pairs);
  return status ? status : adji_run_report(d->run, d->pass->name, fraction, d->pairs_before + pairs, false);
}

void adji_drain_give_up(adji_drain *d, adj_status status) {
  if (!d->failed) {
    d->failed = status;
    snprintf(d->message, sizeof d->message, "%s", adj_last_error());
  }
  pthread_cond_broadcast(&d->changed);
}

double adji_drain_work_of(const adji_drain *d, adji_batch_run batches) {
  double work = 0;
  for (uint64_t i = batches.begin; i < batches.end; i++)
    work += d->queue->batches[i].work;
  return work;
}

/* ---- Statistics of shared passes -------------------------------------------------------------------- */

/* The index, among the run's workers, of a worker of this pass. Passes need not have the same devices. */
static uint32_t place_of(adji_run *run, const adji_worker_stats *worker) {
  uint32_t at = worker->who ? adji_run_worker(run, worker->who) : 0;
  if (!run->worker_count) { /* the cores are the first */
    run->workers[0].name = "cpu";
    run->worker_count = 1;
  }
  if (worker->who && !at) at = run->worker_count++;
  run->workers[at].name = worker->name;
  run->workers[at].who = worker->who;
  return at;
}

static void report_workers(const adji_drain *d) {
  adji_run *run = d->run;
  uint32_t from = adji_active_computes(d->active) ? 0 : 1;
  double first = d->last_end[from], last = first;
  for (uint32_t w = from; w <= d->share.devices; w++) {
    const adji_worker_stats *more = &d->workers[w];
    uint32_t at = place_of(run, more);
    adji_worker_stats *to = &run->workers[at];
    double seconds = w ? more->busy_s : d->lanes_s;
    to->queries += more->queries;
    to->batches += more->batches;
    to->failed += more->failed;
    to->busy_s += more->busy_s;
    run->rates[at] = seconds > 0 ? d->work[w] / seconds : 0;
    if (d->last_end[w] < first) first = d->last_end[w];
    if (d->last_end[w] > last) last = d->last_end[w];
  }
  run->apart_s += last - first;
  run->shared_s += adji_drain_now(d);
}

/* Passes on the rates that the same workers had in earlier passes of the run. */
static void expect_rates(adji_drain *d) {
  const adji_run *run = d->run;
  double rates[1 + ADJI_MOST_DEVICES] = {run->rates[0]};
  for (uint32_t i = 0; i < d->share.devices; i++) {
    uint32_t at = adji_run_worker(run, d->workers[1 + i].who);
    rates[1 + i] = at ? run->rates[at] : 0;
  }
  adji_share_expect(&d->share, rates);
}

/* ---- Draining --------------------------------------------------------------------------------------- */

static adj_status device_alone(adji_drain *d) {
  const adji_worker *worker = d->active->workers[0];
  adji_tally tally = {0};
  uint64_t begin = adji_now_ns();
  adj_status status = worker->alone(worker->state, &tally);
  adji_trace(d->run->ctx, d->pass->name, 0, begin, d->pass->queries);
  return status || !d->pass->queries ? status : adji_drain_account(d, 0, 1, &tally);
}

static const adji_worker *device_of(const adji_drain *d, uint32_t number) {
  return d->active->workers[adji_active_devices_from(d->active) + number];
}

static void *device_main(void *argument) {
  adji_feed *feed = argument;
  const adji_worker *worker = device_of(feed->drain, feed->device);
  adji_trace_as(feed->drain->run->ctx->threads + feed->device);
  adji_feed_close(feed, worker->drain(worker->state, feed));
  return NULL;
}

/* Starts a device's thread. The device gets its first batches before the cores begin, however long its thread takes to
 * start. Without cores, a device that gets no batches waits for those of a device that fails. The lock is held. */
static bool start_device(adji_drain *d, uint32_t number, pthread_t *thread) {
  adji_feed *feed = &d->feeds[number];
  bool some = adji_feed_open(feed, d, number);
  if ((some || !adji_active_computes(d->active)) && !adji_thread_start(thread, device_main, feed)) {
    d->running++;
    return true;
  }
  adji_share_gone(&d->share, number);
  if (!some) return false;
  adji_queue_return(d->queue, feed->held[0]);
  feed->held_count = 0;
  adji_log(d->run->ctx, ADJ_LOG_WARN, "%s takes no part: the system does not start a thread for it",
           d->workers[1 + number].name);
  return false;
}

/* Fails if queries remain. This happens where no cores compute and every device has failed. */
static adj_status check_done(adji_drain *d) {
  double remaining, next;
  if (adji_active_computes(d->active) || !adji_queue_look(d->queue, true, &remaining, &next)) return ADJ_OK;
  if (!d->device_failed) return adji_fail(ADJ_E_DEVICE, "no GPU could be used: the system does not start a thread");
  return adji_fail(d->device_failed, "%s", d->device_message);
}

static adj_status drain_shared(adji_drain *d) {
  pthread_t threads[ADJI_MOST_DEVICES];
  bool started[ADJI_MOST_DEVICES] = {false};
  pthread_mutex_lock(&d->lock);
  for (uint32_t i = 0; i < d->share.devices; i++)
    started[i] = start_device(d, i, &threads[i]);
  pthread_mutex_unlock(&d->lock);
  bool idle = d->active->workers[0]->idle;
  adj_status status = idle ? ADJ_OK : adji_lanes_drain(d);
  if (status) { /* a lane failed, or none could start: devices must not go on */
    pthread_mutex_lock(&d->lock);
    adji_drain_give_up(d, status);
    pthread_mutex_unlock(&d->lock);
  }
  for (uint32_t i = 0; i < d->share.devices; i++)
    if (started[i]) pthread_join(threads[i], NULL);
  if (d->failed) status = adji_fail(d->failed, "%s", d->message);
  if (!status) status = check_done(d);
  report_workers(d);
  adji_free(&d->run->ctx->memory, d->returned);
  return status;
}

adj_status adji_pass_run(adji_run *run, const adji_pass *pass, const adji_active *active,
                         const adji_share_options *share, adji_tally *tally) {
  adj_ctx *ctx = run->ctx;
  adji_drain d = {.run = run, .queue = pass->queue, .pass = pass, .active = active, .begin_ns = adji_now_ns()};
  if (run->phase && !strcmp(run->phase, pass->name)) d.pairs_before = run->phase_pairs;
  adji_queue_rewind(pass->queue);
  d.total_work = pass->queue->remaining;
  d.full = ctx->threads >= ctx->cores;
  d.workers[0].name = "cpu";
  adji_share_init(&d.share, share, d.total_work, adji_active_computes(active) ? ctx->threads : 0,
                  adji_active_devices(active));
  for (uint32_t i = 0; i < d.share.devices; i++) {
    d.workers[1 + i].name = device_of(&d, i)->name;
    d.workers[1 + i].who = device_of(&d, i)->state;
  }
  expect_rates(&d);
  pthread_mutex_init(&d.tally_lock, NULL);
  pthread_mutex_init(&d.lock, NULL);
  pthread_cond_init(&d.changed, NULL);
  adj_status status = !pass->alone                    ? drain_shared(&d)
                      : active->workers[0]->is_device ? device_alone(&d)
                                                      : adji_lanes_drain(&d);
  pthread_cond_destroy(&d.changed);
  pthread_mutex_destroy(&d.lock);
  pthread_mutex_destroy(&d.tally_lock);
  run->tally.pairs += d.tally.pairs;
  run->tally.candidates += d.tally.candidates;
  run->batches += d.batches;
  run->busy_max += d.busy_max;
  run->busy_sum += d.busy_sum;
  run->phase = pass->name;
  run->phase_pairs = d.pairs_before + d.tally.pairs;
  if (!status) status = adji_run_report(run, pass->name, 1, run->phase_pairs, false);
  if (tally) *tally = d.tally;
  return status;
}
