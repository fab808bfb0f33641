/* SPDX-License-Identifier: MIT
 *
 * A device's side of a pass: the batches it holds, its parallel loops, what it returns, how it fails.
 */
#include <stdio.h>
#include <string.h>

#include "queue/scheduler_private.h"

/* ---- Parallel loops --------------------------------------------------------------------------------- */

void adji_feed_help(adji_feed *feed, uint32_t lane) {
  adji_drain *d = feed->drain;
  uint64_t task = feed->next++;
  feed->busy++;
  pthread_mutex_unlock(&d->lock);
  adj_status status = feed->fn(feed->user, task, lane);
  pthread_mutex_lock(&d->lock);
  if (status && !feed->status) {
    feed->status = status;
    feed->next = feed->count;
    snprintf(feed->message, sizeof feed->message, "%s", adj_last_error());
  }
  if (--feed->busy == 0 && feed->next >= feed->count) pthread_cond_broadcast(&d->changed);
}

adji_feed *adji_feed_needs_help(adji_drain *d, bool needed) {
  for (uint32_t i = 0; i < d->share.devices; i++) {
    adji_feed *feed = &d->feeds[i];
    if (feed->next < feed->count && !(needed && feed->busy >= feed->enough(feed->user))) return feed;
  }
  return NULL;
}

adj_status adji_feed_parallel(adji_feed *feed, uint64_t count, adji_task_fn fn, uint64_t (*enough)(const void *user),
                              void *user) {
  adji_drain *d = feed->drain;
  uint32_t lane = d->run->ctx->threads + feed->device;
  pthread_mutex_lock(&d->lock);
  feed->fn = fn;
  feed->enough = enough;
  feed->user = user;
  feed->status = ADJ_OK;
  feed->next = 0;
  feed->count = count;
  pthread_cond_broadcast(&d->changed);
  while (feed->next < feed->count && !d->failed)
    adji_feed_help(feed, lane);
  feed->next = feed->count; /* no lane begins another task */
  while (feed->busy)
    pthread_cond_wait(&d->changed, &d->lock);
  feed->count = feed->next = 0;
  adj_status status = feed->status;
  if (status)
    adji_fail(status, "%s", feed->message);
  else if (d->failed)
    status = adji_fail(ADJ_CANCELLED, "the run was given up");
  pthread_mutex_unlock(&d->lock);
  return status;
}

void adji_feed_sleep(adji_feed *feed, bool asleep) {
  adji_drain *d = feed->drain;
  pthread_mutex_lock(&d->lock);
  if (asleep) feed->fell_asleep = adji_drain_now(d);
  if (!asleep) feed->slept_s += adji_drain_now(d) - feed->fell_asleep;
  if (!asleep) pthread_cond_broadcast(&d->changed); /* a lane that gave way to this thread may take work again */
  pthread_mutex_unlock(&d->lock);
}

/* ---- Batches ---------------------------------------------------------------------------------------- */

static bool is_empty(adji_batch_run run) {
  return run.begin == run.end;
}

/* Whether the device may try these queries. */
static bool may_try(const adji_feed *feed, const adji_returned *returned) {
  return returned->device != feed->device || returned->epoch < feed->epoch;
}

/* The most returned queries a device takes: as many as in one of its batches, or half of those that wait. */
static double most_again(const adji_feed *feed) {
  const adji_drain *d = feed->drain;
  if (d->share.options.fixed) return adji_share_for_device(&d->share, feed->device, adji_drain_now(d), 0, 0);
  return (double)(d->returned_count - d->returned_taken) / 2;
}

/* Takes returned queries for a device; false: none. The lock is held. */
static bool take_again(adji_feed *feed) {
  adji_drain *d = feed->drain;
  uint64_t waiting = d->returned_count - d->returned_taken, taken = 0, queries = 0;
  double most = most_again(feed);
  if (!feed->epoch || feed->again_count || !waiting) return false;
  if (waiting > feed->again_room) {
    if (!adji_grow(&d->run->ctx->memory, (void **)&feed->again, waiting, sizeof *feed->again, 0, "work queue"))
      return false; /* the cores answer them */
    feed->again_room = waiting;
  }
  while (taken < waiting && (!taken || (double)queries < most)) {
    const adji_returned *next = &d->returned[d->returned_taken + taken];
    if (!may_try(feed, next)) break;
    feed->again[taken++] = next->batch;
    queries += next->batch.end - next->batch.begin;
  }
  if (!taken) return false;
  d->returned_taken += taken;
  feed->again_count = taken;
  feed->again_queries = queries;
  feed->held[feed->held_count] = (adji_batch_run){0, 0};
  adji_share_took(&d->share, feed->device, adji_drain_now(d), 0);
  if (!feed->held_count++) feed->since_ns = adji_now_ns();
  return true;
}

/* Takes more work for a device; false: none. The lock is held. */
static bool take_more(adji_feed *feed) {
  adji_drain *d = feed->drain;
  double remaining, next;
  adji_batch_run *out = &feed->held[feed->held_count];
  if (d->failed || feed->held_count == ADJI_MOST_HELD) return false;
  if (!adji_queue_look(d->queue, true, &remaining, &next)) return take_again(feed);
  double work = adji_share_for_device(&d->share, feed->device, adji_drain_now(d), remaining, next);
  if (work < 0 || !adji_queue_take_some(d->queue, true, work, out)) return false;
  adji_share_took(&d->share, feed->device, adji_drain_now(d), adji_drain_work_of(d, *out));
  if (!feed->held_count++) feed->since_ns = adji_now_ns();
  return true;
}

/* Whether a device with nothing to do should wait. Without cores it stays until the others are done, since a device
 * that fails returns its batches. The lock is held. */
static bool may_get_more(const adji_feed *feed) {
  const adji_drain *d = feed->drain;
  bool others = false;
  for (uint32_t i = 0; i < d->share.devices; i++)
    others = others || (i != feed->device && d->feeds[i].held_count);
  return others && !feed->held_count && !d->failed && !adji_active_computes(d->active);
}

bool adji_feed_take(adji_feed *feed, const adji_batch **batches, uint64_t *count) {
  adji_drain *d = feed->drain;
  pthread_mutex_lock(&d->lock);
  bool some = feed->handed < feed->held_count || take_more(feed);
  while (!some && may_get_more(feed)) {
    pthread_cond_wait(&d->changed, &d->lock);
    some = take_more(feed);
  }
  if (some) {
    adji_batch_run run = feed->held[feed->handed++];
    *batches = is_empty(run) ? feed->again : d->queue->batches + run.begin;
    *count = is_empty(run) ? feed->again_count : run.end - run.begin;
  }
  pthread_mutex_unlock(&d->lock);
  return some;
}

void adji_feed_found(adji_feed *feed) {
  adji_drain *d = feed->drain;
  pthread_mutex_lock(&d->lock);
  adji_share_did(&d->share, feed->device, adji_drain_now(d), adji_drain_work_of(d, feed->held[feed->found++]));
  pthread_cond_broadcast(&d->changed); /* rates have changed, so lanes may decide otherwise */
  pthread_mutex_unlock(&d->lock);
}

static uint64_t queries_of(const adji_feed *feed, adji_batch_run batches) {
  const adji_drain *d = feed->drain;
  uint64_t queries = is_empty(batches) ? feed->again_queries : 0;
  for (uint64_t i = batches.begin; i < batches.end; i++)
    queries += d->queue->batches[i].end - d->queue->batches[i].begin;
  return queries;
}

static void trace_oldest(const adji_feed *feed) {
  const adji_drain *d = feed->drain;
  adji_trace(d->run->ctx, d->pass->name, d->run->ctx->threads + feed->device, feed->since_ns,
             queries_of(feed, feed->held[0]));
}

adj_status adji_feed_done(adji_feed *feed, const adji_tally *tally) {
  adji_drain *d = feed->drain;
  adji_batch_run batches = feed->held[0];
  uint64_t queries = queries_of(feed, batches), now = adji_now_ns();
  double work = adji_drain_work_of(d, batches);
  trace_oldest(feed);
  adj_status status = adji_drain_account(d, work, 1, tally);
  pthread_mutex_lock(&d->lock);
  adji_worker_stats *stats = &d->workers[1 + feed->device];
  d->work[1 + feed->device] += work;
  stats->queries += queries;
  stats->batches++;
  stats->busy_s += (double)(now - feed->since_ns) * 1e-9;
  d->last_end[1 + feed->device] = adji_drain_now(d);
  feed->since_ns = now;
  if (is_empty(batches)) feed->again_count = 0;
  feed->held_count--;
  feed->handed--;
  feed->found--;
  memmove(feed->held, feed->held + 1, feed->held_count * sizeof *feed->held);
  for (uint64_t i = batches.begin; d->active->done_by && i < batches.end; i++)
    d->active->done_by[i] = (uint8_t)(1 + feed->device);
  if (!feed->held_count) pthread_cond_broadcast(&d->changed); /* others may wait until this device is done or fails */
  if (status) adji_drain_give_up(d, status);
  pthread_mutex_unlock(&d->lock);
  return status;
}

/* Makes room for `count` more returned batches. The lock is held. */
static adj_status reserve_returned(adji_drain *d, uint64_t count) {
  uint64_t room = 2 * (d->returned_count + count), keep = d->returned_count * sizeof *d->returned;
  if (d->returned_count + count <= d->returned_room) return ADJ_OK;
  if (!adji_grow(&d->run->ctx->memory, (void **)&d->returned, room, sizeof *d->returned, keep, "work queue"))
    return ADJ_E_MEMORY;
  d->returned_room = room;
  return ADJ_OK;
}

/* Appends queries for other workers to answer. The lock is held. */
static adj_status add_returned(adji_feed *feed, const adji_batch *batches, uint64_t count) {
  adji_drain *d = feed->drain;
  adj_status status = reserve_returned(d, count);
  for (uint64_t i = 0; i < count && !status; i++)
    d->returned[d->returned_count++] = (adji_returned){batches[i], feed->device, feed->epoch};
  return status;
}

adj_status adji_feed_return(adji_feed *feed, const adji_batch *batches, uint64_t count) {
  adji_drain *d = feed->drain;
  adji_worker_stats *stats = &d->workers[1 + feed->device];
  pthread_mutex_lock(&d->lock);
  adj_status status = add_returned(feed, batches, count);
  for (uint64_t i = 0; i < count && !status; i++) {
    uint64_t queries = batches[i].end - batches[i].begin;
    stats->failed += queries;
    stats->queries -= queries; /* adji_feed_done will add them again with their batches */
  }
  pthread_cond_broadcast(&d->changed);
  pthread_mutex_unlock(&d->lock);
  return status;
}

void adji_feed_again(adji_feed *feed) {
  adji_drain *d = feed->drain;
  pthread_mutex_lock(&d->lock);
  feed->epoch++;
  pthread_mutex_unlock(&d->lock);
}

/* ---- Beginning and end ------------------------------------------------------------------------------ */

bool adji_feed_open(adji_feed *feed, adji_drain *d, uint32_t device) {
  *feed = (adji_feed){.drain = d, .device = device};
  return take_more(feed);
}

/* Leaves the device's unfinished work to other workers, unless the caller cancelled the run. The lock is held. */
static void device_failed(adji_feed *feed, adj_status status) {
  adji_drain *d = feed->drain;
  adji_worker_stats *stats = &d->workers[1 + feed->device];
  uint64_t queries = 0;
  for (uint32_t i = feed->held_count; i--;) {
    bool again = is_empty(feed->held[i]);
    queries += queries_of(feed, feed->held[i]);
    if (!again) adji_queue_return(d->queue, feed->held[i]);
    if (again && add_returned(feed, feed->again, feed->again_count)) adji_drain_give_up(d, ADJ_E_MEMORY);
  }
  feed->held_count = 0;
  stats->failed += queries;
  d->last_end[1 + feed->device] = adji_drain_now(d);
  d->device_failed = status;
  snprintf(d->device_message, sizeof d->device_message, "%s", adj_last_error());
  if (d->failed) return; /* the device stopped because the pass had failed */
  if (status == ADJ_CANCELLED || adji_check_cancel(d->run->ctx)) {
    adji_drain_give_up(d, ADJ_CANCELLED);
    return;
  }
  if (queries && d->running == 1 && !adji_active_computes(d->active)) return; /* no other worker is left */
  adji_log(d->run->ctx, ADJ_LOG_WARN, "%s failed, and its %llu queries go back to the queue: %s", stats->name,
           (unsigned long long)queries, adj_last_error());
}

void adji_feed_close(adji_feed *feed, adj_status status) {
  adji_drain *d = feed->drain;
  if (feed->held_count) trace_oldest(feed);
  pthread_mutex_lock(&d->lock);
  if (status) device_failed(feed, status);
  adji_free(&d->run->ctx->memory, feed->again);
  adji_share_gone(&d->share, feed->device);
  d->running--;
  pthread_cond_broadcast(&d->changed);
  pthread_mutex_unlock(&d->lock);
}
