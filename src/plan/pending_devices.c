/* SPDX-License-Identifier: MIT
 *
 * Devices that are being opened: see pending_devices.h.
 */
#include "plan/pending_devices.h"

#include <stdio.h>

void adji_pending_note(adji_pending_device *d, adj_status status) {
  d->status = status;
  if (status) snprintf(d->message, sizeof d->message, "%s", adj_last_error());
}

static void *open_device(void *argument) {
  adji_pending_device *d = argument;
  adji_pending_note(d, d->all->open(d->all->options, d->number, &d->worker));
  return NULL;
}

static void open_from(adji_pending_devices *all, uint32_t first, bool beside) {
  for (uint32_t i = first; i < all->count; i++) {
    adji_pending_device *d = &all->each[i];
    *d = (adji_pending_device){.all = all, .number = i};
    d->threaded = beside && !adji_inside_task() && !adji_thread_start(&d->thread, open_device, d);
    if (!d->threaded) open_device(d);
  }
}

void adji_pending_open(adji_pending_devices *all, bool beside) {
  open_from(all, 0, beside);
}

void adji_pending_open_others(adji_pending_devices *all, const adji_worker *first) {
  all->each[0] = (adji_pending_device){.all = all, .worker = *first};
  open_from(all, 1, true);
}

static void join_thread(adji_pending_device *d) {
  if (d->threaded) pthread_join(d->thread, NULL);
  d->threaded = false;
}

adj_status adji_pending_wait(adji_pending_device *d) {
  join_thread(d);
  return d->status ? adji_fail(d->status, "%s", d->message) : ADJ_OK;
}

adj_status adji_pending_add(adji_pending_devices *all, adji_engine *engine, uint32_t *added) {
  adj_status status = ADJ_OK;
  *added = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    adji_pending_device *d = &all->each[i];
    adj_status opened = adji_pending_wait(d);
    bool own = all->by_rows || d == all->leader;
    if (!opened) opened = all->follow(&d->worker, own ? NULL : engine->order);
    if (!opened) {
      adji_engine_add(engine, &d->worker);
      d->worker = (adji_worker){0};
      (*added)++;
      continue;
    }
    adji_pending_note(d, opened);
    if (opened != ADJ_E_DEVICE && opened != ADJ_E_DEVICE_MEMORY && all->count == 1) status = opened;
    if (!status) adji_log(engine->join.ctx, ADJ_LOG_WARN, "a GPU takes no part: %s", adj_last_error());
  }
  return status;
}

void adji_pending_give(adji_pending_device *d, adji_engine *engine, const adji_join *join) {
  adji_engine_init(engine, join, &d->worker);
  d->worker = (adji_worker){0};
}

void adji_pending_drop(adji_pending_devices *all) {
  for (uint32_t i = 0; i < all->count; i++) {
    adji_pending_device *d = &all->each[i];
    join_thread(d); /* its message must not replace that of the plan's failure */
    if (d->worker.destroy) d->worker.destroy(d->worker.state);
    d->worker = (adji_worker){0};
  }
}
