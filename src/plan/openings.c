/* SPDX-License-Identifier: MIT
 *
 * Devices that are opened for a join that cores and GPUs share.
 */
#include "plan/openings.h"

#include <stdio.h>

bool adji_a_device_is_open(adj_ctx *ctx) {
  pthread_mutex_lock(&ctx->device_lock);
  bool open = ctx->gpus[0] != NULL;
  pthread_mutex_unlock(&ctx->device_lock);
  return open;
}

static void *open_partner(void *argument) {
  adji_opening *o = argument;
  o->status = o->all->open(o->all->request, o->number, &o->partner);
  if (o->status) snprintf(o->message, sizeof o->message, "%s", adj_last_error());
  return NULL;
}

void adji_openings_begin(adji_openings *all, bool beside) {
  for (uint32_t i = 0; i < all->count; i++) {
    adji_opening *o = &all->each[i];
    *o = (adji_opening){.all = all, .number = i};
    o->threaded = beside && !adji_inside_task() && !adji_thread_start(&o->thread, open_partner, o);
    if (!o->threaded) open_partner(o);
  }
}

static void await(adji_opening *o) {
  if (o->threaded) pthread_join(o->thread, NULL);
  o->threaded = false;
}

adj_status adji_opening_end(adji_opening *o) {
  await(o);
  return o->status ? adji_fail(o->status, "%s", o->message) : ADJ_OK;
}

adj_status adji_openings_take(adji_openings *all, adj_ctx *ctx, const uint32_t *rows, adji_partner *partners,
                              uint32_t *count) {
  adj_status status = ADJ_OK;
  *count = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    adji_opening *o = &all->each[i];
    adj_status opened = adji_opening_end(o);
    if (!opened) opened = all->follow(&o->partner, rows);
    if (!opened) {
      partners[(*count)++] = o->partner;
      continue;
    }
    if (opened != ADJ_E_DEVICE && opened != ADJ_E_DEVICE_MEMORY && all->count == 1) status = opened;
    if (!status) adji_log(ctx, ADJ_LOG_WARN, "a GPU takes no part: %s", adj_last_error());
  }
  return status;
}

void adji_openings_gave(adji_openings *all, const adji_partner *partners, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t j = 0; j < all->count; j++)
      if (all->each[j].partner.state == partners[i].state) all->each[j].partner = (adji_partner){0};
}

void adji_openings_drop(adji_openings *all) {
  for (uint32_t i = 0; i < all->count; i++) {
    adji_opening *o = &all->each[i];
    await(o); /* what it says of a failure is not what the plan has failed for */
    if (o->partner.destroy) o->partner.destroy(o->partner.state);
  }
}
