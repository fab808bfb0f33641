/* SPDX-License-Identifier: MIT
 *
 * A join that several GPUs share, without cores: entity partitioning (GPU-Join, section 6). Each has all points and an
 * index of them, and takes queries from one queue (gpu/worker/partition.h). The queries are in the order of the first
 * device's index, since neighbouring queries are faster together; the other devices follow it.
 *
 * share=entities is the papers' method: the queries of a set are spread over all rows, and all sets are of equal size.
 * With as many sets as devices, each device has one set, which is the static division; with more sets, each device
 * takes the next one when it is done.
 */
#include <stdio.h>

#include "gpu/worker/devices.h"
#include "gpu/worker/partition.h"
#include "plan/pending_devices.h"
#include "plan/plan.h"

bool adji_may_share_devices(const adj_plan *plan, adj_status can, adj_status *status) {
  char why[256];
  bool asked = plan->tuning.share, one = adji_gpu_worker_count(plan->ctx) == 1;
  *status = ADJ_OK;
  if (!one && !can) return true;
  if (!asked) return false;
  snprintf(why, sizeof why, "%s", one ? "there is one GPU to use, and several are needed" : adj_last_error());
  *status = adji_fail(ADJ_E_UNSUPPORTED, "tuning: share=%s with the backend gpu: %s",
                      plan->tuning.share == ADJI_SHARE_ENTITIES ? "entities" : "rates", why);
  return false;
}

void adji_describe_chunks(adj_plan *plan, bool regions) {
  uint32_t devices = adji_gpu_worker_count(plan->ctx);
  if (devices > 1)
    snprintf(plan->choice.division, sizeof plan->choice.division, "%u share %s", devices,
             regions ? "regions of space, and have the points in and around their own"
                     : "the chunks of the left points, and all right ones go through each");
}

double adji_others_open_seconds(const adj_plan *plan) {
  uint32_t count = adji_gpu_worker_count(plan->ctx);
  bool open = true;
  pthread_mutex_lock(&plan->ctx->device_lock);
  for (uint32_t i = 1; i < count; i++)
    open = open && plan->ctx->gpus[i];
  pthread_mutex_unlock(&plan->ctx->device_lock);
  return open ? 0 : plan->ctx->costs.device_open_s;
}

/* The number of GPU-Join's sets: no fewer than devices, no more than queries. */
static uint64_t query_sets(const adj_plan *plan, uint32_t devices) {
  uint64_t sets = plan->tuning.query_sets ? plan->tuning.query_sets : devices, most = plan->join.left->count;
  if (sets < devices) sets = devices;
  return sets < most ? sets : most ? most : 1;
}

static adj_status make_order(const adj_plan *plan, const adji_several *how, uint32_t devices, adji_worker *leader,
                             uint32_t **out) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t rows = plan->join.left->count;
  bool entities = plan->tuning.share == ADJI_SHARE_ENTITIES && !how->by_rows;
  uint32_t *order = adji_alloc(memory, rows ? rows : 1, sizeof *order, "order of queries");
  if (!order) return ADJ_E_MEMORY;
  adj_status status = ADJ_OK;
  if (entities)
    adji_partition_entities(rows, query_sets(plan, devices), order);
  else
    status = how->order(leader, order);
  if (status)
    adji_free(memory, order);
  else
    *out = order;
  return status;
}

/* The first open device; *open receives the number of open devices. */
static adji_pending_device *find_open(adji_pending_devices *all, uint32_t *open) {
  adji_pending_device *first = NULL;
  *open = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    if (adji_pending_wait(&all->each[i])) continue;
    if (!first) first = &all->each[i];
    (*open)++;
  }
  return first;
}

static void describe(adj_plan *plan, uint32_t devices) {
  char *text = plan->choice.division;
  size_t room = sizeof plan->choice.division;
  uint64_t sets = query_sets(plan, devices);
  if (plan->tuning.share != ADJI_SHARE_ENTITIES)
    snprintf(text, room, "%u have all points each, and share the queries by what each gets done", devices);
  else if (sets == devices)
    snprintf(text, room, "%u have all points each, and one set of the queries", devices);
  else
    snprintf(text, room, "%u have all points each, and take %llu sets of the queries in turn", devices,
             (unsigned long long)sets);
}

/* Makes an engine of the open devices if there are several. A device that fails meanwhile is left out. */
static adj_status make_engine(adj_plan *plan, const adji_several *how, adji_pending_devices *all) {
  uint32_t open, added = 0;
  uint32_t *order = NULL;
  adj_status status = ADJ_OK;
  adji_pending_device *leader = find_open(all, &open);
  while (leader && (status = make_order(plan, how, open, &leader->worker, &order))) {
    if (status == ADJ_E_MEMORY) return status;
    adji_pending_note(leader, status);
    leader = find_open(all, &open);
  }
  if (!leader) return adji_pending_wait(&all->each[0]);
  adji_worker host;
  status = adji_partition_create(&plan->join, order, open, &host);
  if (status) return status;
  adji_engine_init(&plan->engine, &plan->join, &host);
  plan->engine.order = adji_partition_order(&host);
  all->by_rows = how->by_rows;
  if (plan->tuning.share != ADJI_SHARE_ENTITIES) all->leader = leader;
  status = adji_pending_add(all, &plan->engine, &added);
  if (!status && !added) status = adji_pending_wait(leader); /* which returns the recorded failure */
  if (status) {
    adji_engine_clear(&plan->engine);
    return status;
  }
  if (plan->tuning.share == ADJI_SHARE_ENTITIES)
    plan->engine.share.equal = (double)plan->join.left->count / (double)query_sets(plan, added) + 1;
  describe(plan, added);
  return ADJ_OK;
}

static void warn_of_others(const adj_plan *plan, adji_pending_devices *all) {
  for (uint32_t i = 0; i < all->count; i++)
    if (adji_pending_wait(&all->each[i]))
      adji_log(plan->ctx, ADJ_LOG_WARN, "a GPU takes no part: %s", adj_last_error());
}

adj_status adji_share_devices(adj_plan *plan, const adji_several *how, const adji_worker *first) {
  adji_pending_devices all = {.open = how->open, .follow = how->follow, .options = how->options};
  all.count = adji_gpu_worker_count(plan->ctx);
  if (first)
    adji_pending_open_others(&all, first);
  else
    adji_pending_open(&all, true);
  uint32_t open;
  adji_pending_device *one = find_open(&all, &open);
  adj_status status = ADJ_OK;
  if (!open) {
    status = adji_pending_wait(&all.each[0]);
  } else if (open == 1) {
    warn_of_others(plan, &all);
    adji_pending_give(one, &plan->engine, &plan->join);
  } else {
    status = make_engine(plan, how, &all);
  }
  adji_pending_drop(&all);
  return status;
}
