/* SPDX-License-Identifier: MIT
 *
 * kNN joins in chunks: several devices share the regions. Each searches some left pieces, as a single device does, with
 * a pool and buffers of its own. The host's lists of regions exist only once. So a device gets the right points of its
 * own regions, those around them, and those that the rows of its pool visit.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/worker/devices.h"
#include "gpu/worker/divide.h"
#include "gpu/worker/knn_chunks_private.h"

typedef struct sharing {
  adji_knn_chunks *c;
  adji_knn_chunks *each[ADJI_MOST_GPUS]; /* the state of each device that takes part */
  adji_run runs[ADJI_MOST_GPUS];         /* what each device does */
} sharing;

/* Makes the state of a device. It shares the regions of c; everything that a search changes is its own. */
static adji_knn_chunks *copy_of(const adji_knn_chunks *c, adji_gpu *gpu, adji_run *run) {
  adji_knn_chunks *d = aligned_alloc(ADJI_LINE, sizeof *d);
  if (!d) return NULL;
  memcpy(d, c, sizeof *d);
  d->gpu = gpu;
  d->run = run;
  d->right_set = d->left_set = NULL;
  d->right.gather = d->left_pieces.gather = (adji_gather){0};
  d->inner_pieces = (adji_knn_pieces){0};
  d->inner = NULL;
  d->left = c->left == &c->right ? &d->right : &d->left_pieces;
  return d;
}

/* Prepares a device. The first one is locked already, by the worker's begin(). */
static adj_status begin(void *state, uint32_t device) {
  sharing *s = state;
  adji_knn_chunks *c = s->c;
  adji_gpu *gpu = c->gpu;
  adj_status status = device ? adji_gpu_at(c->join.ctx, device, &gpu) : ADJ_OK;
  if (status) return status;
  s->runs[device] = (adji_run){.ctx = c->join.ctx};
  s->each[device] = copy_of(c, gpu, &s->runs[device]);
  if (!s->each[device]) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  if (device) {
    adji_gpu_lock(gpu);
    return ADJ_OK;
  }
  s->each[0]->right_set = c->right_set; /* which exist if regions were counted on the device */
  s->each[0]->left_set = c->left_set;
  c->right_set = c->left_set = NULL;
  return ADJ_OK;
}

static void end(void *state, uint32_t device) {
  sharing *s = state;
  adji_knn_chunks *d = s->each[device];
  adji_gpu_use(d->gpu);
  adji_knn_release(d);
  if (device) adji_gpu_unlock(d->gpu);
  adji_gpu_use(s->c->gpu);
  adji_knn_inner_clear(d);
  adji_device_stats_add(&s->c->run->device, &s->runs[device].device);
  s->c->run->batches += s->runs[device].batches;
  s->c->candidates += d->candidates;
  free(d);
}

static adj_status work(void *state, uint32_t device, uint64_t first, uint64_t end, adji_tally *tally) {
  sharing *s = state;
  adji_knn_chunks *d = s->each[device];
  adji_gpu_use(d->gpu);
  atomic_store(&d->pairs, 0);
  adj_status status = d->on_device ? adji_knn_hold_sets(d) : ADJ_OK;
  if (!status) status = adji_knn_pieces_search(d, first, end);
  if (!status) tally->pairs += atomic_load(&d->pairs);
  return status;
}

/* The queries of a left piece. Regions of several pieces have no points around them. */
static uint64_t queries(const void *state, uint64_t piece) {
  const adji_knn_pieces *left = ((const sharing *)state)->c->left;
  const adji_knn_piece *left_piece = &left->each[piece];
  uint64_t members = left_piece->end - left_piece->first;
  return members == left->regions.all[left_piece->region] ? left->regions.own[left_piece->region] : members;
}

adj_status adji_knn_share(adji_knn_chunks *c) {
  sharing *s = calloc(1, sizeof *s);
  if (!s) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  s->c = c;
  adji_tally tally = {0};
  adji_division division = {.state = s,
                            .name = "join",
                            .parts = c->left->count,
                            .queries = queries,
                            .devices = c->devices,
                            .takes = 1, /* each take ends by completing the rows of the pool */
                            .begin = begin,
                            .end = end,
                            .work = work};
  adj_status status = adji_divide(&division, c->run, &tally);
  atomic_fetch_add(&c->pairs, tally.pairs);
  free(s);
  return status;
}
