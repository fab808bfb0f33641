/* SPDX-License-Identifier: MIT
 *
 * A pass with devices: cores from the light end of the queue, devices from the heavy one, until both meet
 * (HEGJoin 4.1). What each takes is decided by share.h.
 *
 * A lane has one thing after the other to do, in this order: a piece of what a device worker wants help with, if fewer
 * are at it than it has use for; a batch; such a piece in any case; nothing, until something changes. Putting a row of
 * a device into place takes a lane a fraction of what finding it would. It stays until the devices are done, since one
 * that fails gives its batches back. Single queries that a device cannot find come back too, and are done by lanes that
 * find no other batch.
 *
 * Where there is a lane for each core, one of them gives way to the thread of a device that is mostly awake: with a
 * thread more than cores one is always without, for milliseconds, and where that is a device's, or has a piece of its
 * loop, the device waits too.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "queue/scheduler_private.h"

/* Stretches of the queue that a device has at most: one at work, one that waits for it, and those without any work. */
enum { MOST_TAKEN = ADJI_MOST_RETURNED / ADJI_MOST_DEVICES };

/* Batches of queries that came back which a lane takes at a time. */
enum { BACK_AT_ONCE = 16 };

/* One lane in so many gives way to devices, at most, and only to threads that sleep for less of the time than this. */
enum { GIVE_WAY = 4 };
static const double MOSTLY_AWAKE = 0.2;

struct adji_help {
  struct hybrid *hybrid;
  uint32_t device;
  /* Written by the device's thread only, with the lock held. What the device has, the oldest first: the worker was
   * handed so many, and the device is through with so many of these. */
  adji_batch_run taken[MOST_TAKEN];
  uint32_t taken_count, handed, found;
  uint64_t since_ns;           /* when it began the oldest one, or was done with the one before */
  double fell_asleep, slept_s; /* its thread: when, from the beginning; how long until it last woke */
  /* The loop that runs; guarded by the lock. */
  adji_task_fn fn;
  void *user;
  uint64_t (*enough)(const void *user);
  uint64_t count, next, busy;
  adj_status status;
  char message[512];
};

typedef struct hybrid {
  adji_drain *drain;
  uint64_t begin_ns;
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t changed;
  adji_share share;
  uint32_t active;  /* devices that are not done */
  adji_batch *back; /* of queries that came back; the first back_done are done, or being done */
  uint64_t back_count, back_done, back_room;
  adj_status failed; /* why the pass is given up, and what it says */
  char message[512];
  adji_worker_stats workers[1 + ADJI_MOST_DEVICES];
  double last_end[1 + ADJI_MOST_DEVICES]; /* when each was last busy with batches, from the beginning */
  double work[1 + ADJI_MOST_DEVICES];     /* that each has done */
  double lanes_s;                         /* seconds of lanes for theirs */
  adji_help help[ADJI_MOST_DEVICES];
  pthread_t threads[ADJI_MOST_DEVICES];
  bool started[ADJI_MOST_DEVICES];
  bool full; /* there is a lane for each core */
} hybrid;

static double seconds_now(const hybrid *h) {
  return (double)(adji_now_ns() - h->begin_ns) * 1e-9;
}

/* The lock is held. */
static void give_up(hybrid *h, adj_status status) {
  if (!h->failed) {
    h->failed = status;
    snprintf(h->message, sizeof h->message, "%s", adj_last_error());
  }
  pthread_cond_broadcast(&h->changed);
}

/* ---- Help ------------------------------------------------------------------------------------------- */

/* One piece of a loop; the lock is held, and not meanwhile. */
static void help_once(hybrid *h, adji_help *help, uint32_t lane) {
  uint64_t piece = help->next++;
  help->busy++;
  pthread_mutex_unlock(&h->lock);
  adj_status status = help->fn(help->user, piece, lane);
  pthread_mutex_lock(&h->lock);
  if (status && !help->status) {
    help->status = status;
    help->next = help->count;
    snprintf(help->message, sizeof help->message, "%s", adj_last_error());
  }
  if (--help->busy == 0 && help->next >= help->count) pthread_cond_broadcast(&h->changed);
}

/* needed: only where there are not enough. */
static adji_help *find_help(hybrid *h, bool needed) {
  for (uint32_t d = 0; d < h->share.devices; d++) {
    adji_help *help = &h->help[d];
    if (help->next < help->count && !(needed && help->busy >= help->enough(help->user))) return help;
  }
  return NULL;
}

adj_status adji_help_loop(adji_help *help, uint64_t count, adji_task_fn fn, uint64_t (*enough)(const void *user),
                          void *user) {
  hybrid *h = help->hybrid;
  uint32_t lane = h->drain->run->ctx->threads + help->device;
  pthread_mutex_lock(&h->lock);
  help->fn = fn;
  help->enough = enough;
  help->user = user;
  help->status = ADJ_OK;
  help->next = 0;
  help->count = count;
  pthread_cond_broadcast(&h->changed);
  while (help->next < help->count && !h->failed)
    help_once(h, help, lane);
  help->next = help->count; /* nobody begins another */
  while (help->busy)
    pthread_cond_wait(&h->changed, &h->lock);
  help->count = help->next = 0;
  adj_status status = help->status;
  if (status)
    adji_fail(status, "%s", help->message);
  else if (h->failed)
    status = adji_fail(ADJ_CANCELLED, "the run was given up");
  pthread_mutex_unlock(&h->lock);
  return status;
}

void adji_help_sleep(adji_help *help, bool asleep) {
  hybrid *h = help->hybrid;
  pthread_mutex_lock(&h->lock);
  if (asleep) help->fell_asleep = seconds_now(h);
  if (!asleep) help->slept_s += seconds_now(h) - help->fell_asleep;
  if (!asleep) pthread_cond_broadcast(&h->changed); /* a lane that gave way to it may have done so for too long */
  pthread_mutex_unlock(&h->lock);
}

/* ---- Lanes ------------------------------------------------------------------------------------------ */

/* Whether a lane should give way to the thread of a device. Nothing is known before that has slept. */
static bool mostly_awake(const hybrid *h, const adji_help *help) {
  return help->slept_s > 0 && help->slept_s < MOSTLY_AWAKE * seconds_now(h) && !h->share.device[help->device].gone;
}

/* Whether it is this lane that does. */
static bool gives_way(const hybrid *h, uint32_t lane) {
  uint32_t lanes = h->share.lanes, away = 0;
  for (uint32_t d = 0; d < h->share.devices; d++)
    away += mostly_awake(h, &h->help[d]);
  if (away > lanes / GIVE_WAY) away = lanes / GIVE_WAY;
  return h->full && lane + away >= lanes;
}

/* The batches of a stretch, one after the other. */
static adj_status process_here(hybrid *h, adji_batch_run stretch, uint32_t lane, uint64_t *queries) {
  adji_drain *d = h->drain;
  const adji_pass *pass = d->pass;
  adj_status status = ADJ_OK;
  for (uint64_t i = stretch.begin; i < stretch.end && !status; i++) {
    const adji_batch *batch = &d->queue->batches[i];
    adji_tally tally = {0};
    uint64_t begin = adji_now_ns();
    status = adji_check_cancel(d->run->ctx);
    if (!status) status = pass->process(pass->user, batch, lane, &tally);
    adji_trace(d->run->ctx, pass->name, lane, begin, batch->end - batch->begin);
    *queries += batch->end - batch->begin;
    if (!status) status = adji_account_batch(d, batch->work, 1, &tally);
  }
  return status;
}

static double work_of(const adji_queue *queue, adji_batch_run stretch) {
  double work = 0;
  for (uint64_t i = stretch.begin; i < stretch.end; i++)
    work += queue->batches[i].work;
  return work;
}

/* Takes and does batches, if it should; the lock is held, and not meanwhile. */
static bool work_once(hybrid *h, uint32_t lane) {
  adji_queue *queue = h->drain->queue;
  double left, next, begin = seconds_now(h);
  adji_batch_run mine;
  if (!adji_queue_look(queue, false, &left, &next)) return false;
  double work = adji_share_for_lane(&h->share, begin, left, next);
  if (work < 0 && h->active) return false;
  if (!h->share.options.fixed) work = ADJI_ONE_BATCH; /* whatever it is thought to be */
  if (!adji_queue_take_some(queue, false, work, &mine)) return false;
  pthread_mutex_unlock(&h->lock);
  uint64_t queries = 0;
  adj_status status = process_here(h, mine, lane, &queries);
  pthread_mutex_lock(&h->lock);
  double end = seconds_now(h);
  double did = work_of(queue, mine);
  adji_share_lane_did(&h->share, did, end - begin);
  h->work[0] += did;
  h->lanes_s += end - begin;
  h->workers[0].queries += queries;
  h->workers[0].batches += mine.end - mine.begin;
  h->workers[0].busy_s += (end - begin) / h->share.lanes;
  if (end > h->last_end[0]) h->last_end[0] = end;
  if (status) give_up(h, status);
  return true;
}

/* Does some batches of queries that came back, if there are any; the lock is held, and not meanwhile. */
static bool redo_once(hybrid *h, uint32_t lane) {
  const adji_pass *pass = h->drain->pass;
  adji_batch mine[BACK_AT_ONCE];
  uint64_t many = h->back_count - h->back_done, queries = 0;
  if (!many) return false;
  if (many > BACK_AT_ONCE) many = BACK_AT_ONCE;
  memcpy(mine, h->back + h->back_done, many * sizeof *mine);
  h->back_done += many;
  pthread_mutex_unlock(&h->lock);
  uint64_t begin = adji_now_ns();
  adji_tally tally = {0};
  adj_status status = adji_check_cancel(h->drain->run->ctx);
  for (uint64_t i = 0; i < many && !status; i++) {
    status = pass->process(pass->user, &mine[i], lane, &tally);
    queries += mine[i].end - mine[i].begin;
  }
  adji_trace(h->drain->run->ctx, "again", lane, begin, queries);
  if (!status) status = adji_account_batch(h->drain, 0, 0, &tally);
  double took = (double)(adji_now_ns() - begin) * 1e-9;
  pthread_mutex_lock(&h->lock);
  adji_share_lane_spent(&h->share, took);
  h->workers[0].queries += queries;
  h->workers[0].busy_s += took / h->share.lanes;
  h->last_end[0] = fmax(h->last_end[0], seconds_now(h));
  if (status) give_up(h, status);
  return true;
}

/* Every lane has one such task. */
static adj_status drain_beside_devices(void *user, uint64_t task, uint32_t lane) {
  (void)task;
  hybrid *h = user;
  adji_drain *d = h->drain;
  double idle = 0, begin = seconds_now(h);
  pthread_mutex_lock(&h->lock);
  while (!h->failed) {
    bool away = gives_way(h, lane);
    adji_help *help = away ? NULL : find_help(h, true);
    if (!help && !away && (work_once(h, lane) || redo_once(h, lane))) continue;
    if (!help && !away) help = find_help(h, false);
    if (help) {
      help_once(h, help, lane);
    } else {
      if (!h->active) break;
      double from = seconds_now(h);
      pthread_cond_wait(&h->changed, &h->lock);
      idle += seconds_now(h) - from;
    }
  }
  adj_status status = h->failed;
  if (status) adji_fail(status, "%s", h->message);
  pthread_mutex_unlock(&h->lock);
  double busy = seconds_now(h) - begin - idle;
  pthread_mutex_lock(&d->lock);
  d->busy_sum += busy;
  if (busy > d->busy_max) d->busy_max = busy;
  pthread_mutex_unlock(&d->lock);
  return status;
}

/* ---- Devices ---------------------------------------------------------------------------------------- */

/* More for a device; false: nothing. The lock is held. */
static bool take_for_device(hybrid *h, adji_help *help) {
  adji_queue *queue = h->drain->queue;
  uint32_t d = help->device;
  double left, next;
  adji_batch_run *out = &help->taken[help->taken_count];
  if (h->failed || help->taken_count == MOST_TAKEN || !adji_queue_look(queue, true, &left, &next)) return false;
  double work = adji_share_for_device(&h->share, d, seconds_now(h), left, next);
  if (work < 0 || !adji_queue_take_some(queue, true, work, out)) return false;
  adji_share_took(&h->share, d, seconds_now(h), work_of(queue, *out));
  if (!help->taken_count++) help->since_ns = adji_now_ns();
  return true;
}

bool adji_help_take(adji_help *help, const adji_batch **batches, uint64_t *count) {
  hybrid *h = help->hybrid;
  pthread_mutex_lock(&h->lock);
  bool some = help->handed < help->taken_count || take_for_device(h, help);
  if (some) {
    adji_batch_run run = help->taken[help->handed++];
    *batches = h->drain->queue->batches + run.begin;
    *count = run.end - run.begin;
  }
  pthread_mutex_unlock(&h->lock);
  return some;
}

void adji_help_found(adji_help *help) {
  hybrid *h = help->hybrid;
  pthread_mutex_lock(&h->lock);
  adji_share_did(&h->share, help->device, seconds_now(h), work_of(h->drain->queue, help->taken[help->found++]));
  pthread_cond_broadcast(&h->changed); /* rates have changed, and with them what lanes should do */
  pthread_mutex_unlock(&h->lock);
}

static uint64_t queries_of(const adji_queue *queue, adji_batch_run stretch) {
  uint64_t queries = 0;
  for (uint64_t i = stretch.begin; i < stretch.end; i++)
    queries += queue->batches[i].end - queue->batches[i].begin;
  return queries;
}

/* What the device was at until now. */
static void trace_oldest(const adji_help *help) {
  const adji_drain *drain = help->hybrid->drain;
  adji_trace(drain->run->ctx, drain->pass->name, drain->run->ctx->threads + help->device, help->since_ns,
             queries_of(drain->queue, help->taken[0]));
}

adj_status adji_help_done(adji_help *help, const adji_tally *tally) {
  hybrid *h = help->hybrid;
  adji_drain *drain = h->drain;
  adji_batch_run stretch = help->taken[0];
  uint64_t queries = queries_of(drain->queue, stretch), now = adji_now_ns();
  trace_oldest(help);
  adj_status status = adji_account_batch(drain, work_of(drain->queue, stretch), 1, tally);
  pthread_mutex_lock(&h->lock);
  adji_worker_stats *figures = &h->workers[1 + help->device];
  h->work[1 + help->device] += work_of(drain->queue, stretch);
  figures->queries += queries;
  figures->batches++;
  figures->busy_s += (double)(now - help->since_ns) * 1e-9;
  h->last_end[1 + help->device] = seconds_now(h);
  help->since_ns = now;
  help->taken_count--;
  help->handed--;
  help->found--;
  memmove(help->taken, help->taken + 1, help->taken_count * sizeof *help->taken);
  for (uint64_t i = stretch.begin; drain->crew->done_by && i < stretch.end; i++)
    drain->crew->done_by[i] = (uint8_t)(1 + help->device);
  if (status) give_up(h, status);
  pthread_mutex_unlock(&h->lock);
  return status;
}

/* Room for so many more; the lock is held. */
static adj_status make_room_for_back(hybrid *h, uint64_t count) {
  uint64_t room = 2 * (h->back_count + count), keep = h->back_count * sizeof *h->back;
  if (h->back_count + count <= h->back_room) return ADJ_OK;
  if (!adji_grow(&h->drain->run->ctx->memory, (void **)&h->back, room, sizeof *h->back, keep, "work queue"))
    return ADJ_E_MEMORY;
  h->back_room = room;
  return ADJ_OK;
}

adj_status adji_help_give_back(adji_help *help, const adji_batch *batches, uint64_t count) {
  hybrid *h = help->hybrid;
  adji_worker_stats *figures = &h->workers[1 + help->device];
  pthread_mutex_lock(&h->lock);
  adj_status status = make_room_for_back(h, count);
  for (uint64_t i = 0; i < count && !status; i++) {
    uint64_t queries = batches[i].end - batches[i].begin;
    h->back[h->back_count++] = batches[i];
    figures->failed += queries;
    figures->queries -= queries; /* which are counted with the batches they are of */
  }
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->lock);
  return status;
}

/* Others do what it could not; unless the caller wants an end of it all. The lock is held. */
static void device_failed(hybrid *h, adji_help *help, adj_status status) {
  adji_drain *drain = h->drain;
  adji_worker_stats *figures = &h->workers[1 + help->device];
  uint64_t queries = 0;
  for (uint32_t i = help->taken_count; i--;) {
    queries += queries_of(drain->queue, help->taken[i]);
    adji_queue_give_back(drain->queue, help->taken[i]);
  }
  figures->failed += queries;
  h->last_end[1 + help->device] = seconds_now(h);
  if (h->failed) return; /* which is why */
  if (status == ADJ_CANCELLED || adji_check_cancel(drain->run->ctx)) {
    give_up(h, ADJ_CANCELLED);
    return;
  }
  adji_log(drain->run->ctx, ADJ_LOG_WARN, "%s failed, and its %llu queries go back to the queue: %s", figures->name,
           (unsigned long long)queries, adj_last_error());
}

static void *device_main(void *argument) {
  adji_help *mine = argument;
  hybrid *h = mine->hybrid;
  const adji_device_worker *worker = &h->drain->crew->devices[mine->device];
  adj_status status = worker->drain(worker->user, mine);
  if (mine->taken_count) trace_oldest(mine);
  pthread_mutex_lock(&h->lock);
  if (status) device_failed(h, mine, status);
  adji_share_gone(&h->share, mine->device);
  h->active--;
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->lock);
  return NULL;
}

/* A device has its first batches before the cores begin, however long a thread takes to start. The lock is held. */
static void start_device(hybrid *h, uint32_t d) {
  adji_help *help = &h->help[d];
  *help = (adji_help){.hybrid = h, .device = d};
  bool some = take_for_device(h, help);
  h->started[d] = some && !adji_thread_start(&h->threads[d], device_main, help);
  h->active += h->started[d];
  if (h->started[d]) return;
  adji_share_gone(&h->share, d);
  if (!some) return;
  adji_queue_give_back(h->drain->queue, help->taken[0]);
  adji_log(h->drain->run->ctx, ADJ_LOG_WARN, "%s takes no part: the system does not start a thread for it",
           h->workers[1 + d].name);
}

/* ---- The pass --------------------------------------------------------------------------------------- */

uint32_t adji_run_worker(const adji_run *run, const void *who) {
  for (uint32_t w = 1; w < run->worker_count; w++)
    if (run->workers[w].who == who) return w;
  return 0;
}

/* Where the figures of a worker of this pass go: passes need not have the same devices. */
static uint32_t place_of(adji_run *run, const adji_worker_stats *worker) {
  uint32_t at = worker->who ? adji_run_worker(run, worker->who) : 0;
  if (!run->worker_count) run->worker_count = 1; /* the cores are the first */
  if (worker->who && !at) at = run->worker_count++;
  run->workers[at].name = worker->name;
  run->workers[at].who = worker->who;
  return at;
}

static void tell_run(const hybrid *h, adji_run *run) {
  double first = h->last_end[0], last = first;
  for (uint32_t w = 0; w <= h->share.devices; w++) {
    const adji_worker_stats *more = &h->workers[w];
    uint32_t at = place_of(run, more);
    adji_worker_stats *to = &run->workers[at];
    double seconds = w ? more->busy_s : h->lanes_s;
    to->queries += more->queries;
    to->batches += more->batches;
    to->failed += more->failed;
    to->busy_s += more->busy_s;
    run->rates[at] = seconds > 0 ? h->work[w] / seconds : 0;
    if (h->last_end[w] < first) first = h->last_end[w];
    if (h->last_end[w] > last) last = h->last_end[w];
  }
  run->apart_s += last - first;
  run->shared_s += seconds_now(h);
}

/* What is known of the workers of this pass from those before. */
static void expect_rates(hybrid *h, const adji_run *run, const adji_crew *crew) {
  double rates[1 + ADJI_MOST_DEVICES] = {run->rates[0]};
  for (uint32_t d = 0; d < crew->count; d++) {
    uint32_t at = adji_run_worker(run, crew->devices[d].user);
    rates[1 + d] = at ? run->rates[at] : 0;
  }
  adji_share_expect(&h->share, rates);
}

adj_status adji_drain_with_devices(adji_drain *d) {
  adj_ctx *ctx = d->run->ctx;
  const adji_crew *crew = d->crew;
  hybrid h = {.drain = d, .begin_ns = adji_now_ns(), .workers = {{.name = "cpu"}}};
  h.full = ctx->threads >= adji_usable_cores();
  adji_share_init(&h.share, crew->share, d->total_work, ctx->threads, crew->count);
  expect_rates(&h, d->run, crew);
  pthread_mutex_init(&h.lock, NULL);
  pthread_cond_init(&h.changed, NULL);
  pthread_mutex_lock(&h.lock);
  for (uint32_t i = 0; i < crew->count; i++) {
    h.workers[1 + i].name = crew->devices[i].name;
    h.workers[1 + i].who = crew->devices[i].user;
    start_device(&h, i);
  }
  pthread_mutex_unlock(&h.lock);
  adj_status status = adji_loop(ctx, ctx->threads, drain_beside_devices, &h);
  if (status) { /* of a lane, or no lane was begun: devices must not go on */
    pthread_mutex_lock(&h.lock);
    give_up(&h, status);
    pthread_mutex_unlock(&h.lock);
  }
  for (uint32_t i = 0; i < crew->count; i++)
    if (h.started[i]) pthread_join(h.threads[i], NULL);
  if (h.failed) status = adji_fail(h.failed, "%s", h.message);
  tell_run(&h, d->run);
  adji_free(&ctx->memory, h.back);
  pthread_cond_destroy(&h.changed);
  pthread_mutex_destroy(&h.lock);
  return status;
}
