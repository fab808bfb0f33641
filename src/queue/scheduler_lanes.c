/* SPDX-License-Identifier: MIT
 *
 * The cores' side of a pass.
 *
 * Without devices, every lane takes batches from the heavy end until none remains, so that the lanes finish together.
 *
 * Beside devices, lanes take from the light end (HEGJoin 4.1). A lane does the first of these that is possible: run a
 * task of a device's loop that has too few lanes; process a batch; process queries that a device returned; run a task
 * of any device's loop; wait until something changes. Loops come first because copying a device's row to its place
 * takes a lane a fraction of the time of finding that row. Lanes stay until the devices are done, since a device that
 * fails returns its batches.
 *
 * Where every core has a lane, some lanes give way to those device threads that are mostly awake. With one thread more
 * than there are cores, the system always keeps one thread off the cores for milliseconds. If that is a device's
 * thread, or a lane with a task of its loop, the device waits as well.
 */
#include <math.h>

#include "queue/scheduler_private.h"

/* Returned batches that a lane takes at once: with shares by rates, and with fixed sizes. */
enum { RETURNED_AT_ONCE = 16, RETURNED_FIXED = 256 };

/* At most one lane in GIVE_WAY gives way to devices, and only to threads that sleep for less than this part of the
 * time. */
enum { GIVE_WAY = 4 };
static const double MOSTLY_AWAKE = 0.2;

static adj_status process_batch(const adji_drain *d, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  const adji_worker *cores = d->active->workers[0];
  adj_status status = adji_check_cancel(d->run->ctx);
  if (status) return status;
  uint64_t begin = d->run->ctx->trace ? adji_now_ns() : 0;
  status = cores->process(cores->state, batch, lane, tally);
  adji_trace(d->run->ctx, d->pass->name, lane, begin, batch->end - batch->begin);
  return status;
}

static void add_busy(adji_drain *d, double busy) {
  pthread_mutex_lock(&d->tally_lock);
  d->busy_sum += busy;
  if (busy > d->busy_max) d->busy_max = busy;
  pthread_mutex_unlock(&d->tally_lock);
}

/* ---- Alone ------------------------------------------------------------------------------------------ */

static adj_status drain_alone(void *user, uint64_t task, uint32_t lane) {
  adji_drain *d = user;
  adji_batch batch;
  adj_status status = ADJ_OK;
  uint64_t begin = adji_now_ns(), turn = 0;
  while (!status && adji_queue_take(d->queue, task, d->run->ctx->threads, &turn, &batch)) {
    adji_tally tally = {0};
    status = process_batch(d, &batch, lane, &tally);
    if (!status) status = adji_drain_account(d, batch.work, 1, &tally);
  }
  add_busy(d, (double)(adji_now_ns() - begin) * 1e-9);
  return status;
}

/* ---- Beside devices --------------------------------------------------------------------------------- */

/* False until the thread has slept once: nothing is known before. */
static bool mostly_awake(const adji_drain *d, const adji_feed *feed) {
  return feed->slept_s > 0 && feed->slept_s < MOSTLY_AWAKE * adji_drain_now(d) && !d->share.device[feed->device].gone;
}

static bool gives_way(const adji_drain *d, uint32_t lane) {
  uint32_t count = d->share.lanes, yields = 0;
  if (!count) return false; /* lanes that only place rows sleep while there are none */
  for (uint32_t i = 0; i < d->share.devices; i++)
    yields += mostly_awake(d, &d->feeds[i]);
  if (yields > count / GIVE_WAY) yields = count / GIVE_WAY;
  return d->full && lane + yields >= count;
}

static adj_status process_batches(adji_drain *d, adji_batch_run claimed, uint32_t lane, uint64_t *queries) {
  adj_status status = ADJ_OK;
  for (uint64_t i = claimed.begin; i < claimed.end && !status; i++) {
    const adji_batch *batch = &d->queue->batches[i];
    adji_tally tally = {0};
    status = process_batch(d, batch, lane, &tally);
    *queries += batch->end - batch->begin;
    if (!status) status = adji_drain_account(d, batch->work, 1, &tally);
  }
  return status;
}

/* Takes and processes batches, if this lane should. The lock is held, but not while it works. */
static bool do_batches(adji_drain *d, uint32_t lane) {
  double remaining, next, begin = adji_drain_now(d);
  adji_batch_run claimed;
  if (!adji_queue_look(d->queue, false, &remaining, &next)) return false;
  double work = adji_share_for_lane(&d->share, begin, remaining, next);
  if (work < 0 && d->running) return false;
  if (!d->share.options.fixed) work = ADJI_ONE_BATCH;
  if (!adji_queue_take_some(d->queue, false, work, &claimed)) return false;
  pthread_mutex_unlock(&d->lock);
  uint64_t queries = 0;
  adj_status status = process_batches(d, claimed, lane, &queries);
  pthread_mutex_lock(&d->lock);
  double end = adji_drain_now(d), did = adji_drain_work_of(d, claimed);
  adji_share_lane_did(&d->share, did, end - begin);
  d->work[0] += did;
  d->lanes_s += end - begin;
  d->workers[0].queries += queries;
  d->workers[0].batches += claimed.end - claimed.begin;
  d->workers[0].busy_s += (end - begin) / d->share.lanes;
  d->last_end[0] = fmax(d->last_end[0], end);
  if (status) adji_drain_give_up(d, status);
  return true;
}

/* Processes some returned batches, if there are any. The lock is held, but not while it works. */
static bool do_returned(adji_drain *d, uint32_t lane) {
  const adji_worker *cores = d->active->workers[0];
  adji_batch claimed[RETURNED_FIXED];
  uint64_t waiting = d->returned_count - d->returned_taken, many = 0, queries = 0;
  bool fixed = d->share.options.fixed;
  double most = fixed ? adji_share_for_lane(&d->share, adji_drain_now(d), 0, 0) : (double)d->pass->queries;
  if (!waiting) return false;
  while (many < waiting && many < (fixed ? RETURNED_FIXED : RETURNED_AT_ONCE) && (!many || (double)queries < most)) {
    claimed[many] = d->returned[d->returned_taken + many].batch;
    queries += claimed[many].end - claimed[many].begin;
    many++;
  }
  d->returned_taken += many;
  pthread_mutex_unlock(&d->lock);
  uint64_t begin = adji_now_ns();
  adji_tally tally = {0};
  adj_status status = adji_check_cancel(d->run->ctx);
  for (uint64_t i = 0; i < many && !status; i++)
    status = cores->process(cores->state, &claimed[i], lane, &tally);
  adji_trace(d->run->ctx, "again", lane, begin, queries);
  if (!status) status = adji_drain_account(d, 0, 0, &tally);
  double took = (double)(adji_now_ns() - begin) * 1e-9;
  pthread_mutex_lock(&d->lock);
  adji_share_lane_spent(&d->share, took);
  d->workers[0].queries += queries;
  d->workers[0].busy_s += took / d->share.lanes;
  d->last_end[0] = fmax(d->last_end[0], adji_drain_now(d));
  if (status) adji_drain_give_up(d, status);
  return true;
}

static adj_status drain_beside_devices(void *user, uint64_t task, uint32_t lane) {
  (void)task;
  adji_drain *d = user;
  bool devices_only = !adji_active_computes(d->active);
  double idle = 0, begin = adji_drain_now(d);
  pthread_mutex_lock(&d->lock);
  while (!d->failed) {
    bool yields = gives_way(d, lane);
    adji_feed *feed = yields ? NULL : adji_feed_needs_help(d, true);
    if (!feed && !yields && !devices_only && (do_batches(d, lane) || do_returned(d, lane))) continue;
    if (!feed && !yields) feed = adji_feed_needs_help(d, false);
    if (feed) {
      adji_feed_help(feed, lane);
    } else {
      if (!d->running) break;
      double from = adji_drain_now(d);
      pthread_cond_wait(&d->changed, &d->lock);
      idle += adji_drain_now(d) - from;
    }
  }
  adj_status status = d->failed;
  if (status) adji_fail(status, "%s", d->message);
  pthread_mutex_unlock(&d->lock);
  add_busy(d, adji_drain_now(d) - begin - idle);
  return status;
}

adj_status adji_lanes_drain(adji_drain *d) {
  return adji_loop(d->run->ctx, d->run->ctx->threads, d->pass->alone ? drain_alone : drain_beside_devices, d);
}
