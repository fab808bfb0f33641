/* SPDX-License-Identifier: MIT
 *
 * The work queue. Batches hold about a thousand queries, so one lock for both ends is taken rarely
 * enough not to be seen.
 */
#include "queue/queue.h"

#include <stdlib.h>

adj_status adji_queue_init(adji_queue *queue, adj_ctx *ctx, uint64_t room) {
  *queue = (adji_queue){.ctx = ctx, .room = room};
  queue->batches = adji_alloc(&ctx->memory, room, sizeof *queue->batches, "work queue");
  if (!queue->batches) {
    queue->ctx = NULL;
    return ADJ_E_MEMORY;
  }
  pthread_mutex_init(&queue->lock, NULL);
  return ADJ_OK;
}

void adji_queue_clear(adji_queue *queue) {
  if (!queue->ctx) return;
  adji_free(&queue->ctx->memory, queue->batches);
  pthread_mutex_destroy(&queue->lock);
  *queue = (adji_queue){0};
}

adj_status adji_queue_add(adji_queue *queue, adji_batch batch) {
  if (queue->count == queue->room) {
    uint64_t room = queue->room * 2 + 16, keep = queue->count * sizeof batch;
    if (!adji_grow(&queue->ctx->memory, (void **)&queue->batches, room, sizeof batch, keep, "work queue"))
      return ADJ_E_MEMORY;
    queue->room = room;
  }
  queue->batches[queue->count++] = batch;
  queue->tail = queue->count;
  return ADJ_OK;
}

static int heavier_first(const void *left, const void *right) {
  const adji_batch *a = left, *b = right;
  if (a->work != b->work) return a->work > b->work ? -1 : 1;
  return a->begin < b->begin ? -1 : a->begin > b->begin;
}

void adji_queue_sort(adji_queue *queue) {
  qsort(queue->batches, queue->count, sizeof *queue->batches, heavier_first);
}

void adji_queue_rewind(adji_queue *queue) {
  queue->head = 0;
  queue->tail = queue->count;
}

bool adji_queue_take_heavy(adji_queue *queue, adji_batch *out) {
  pthread_mutex_lock(&queue->lock);
  bool some = queue->head < queue->tail;
  if (some) *out = queue->batches[queue->head++];
  pthread_mutex_unlock(&queue->lock);
  return some;
}

bool adji_queue_take_light(adji_queue *queue, adji_batch *out) {
  pthread_mutex_lock(&queue->lock);
  bool some = queue->head < queue->tail;
  if (some) *out = queue->batches[--queue->tail];
  pthread_mutex_unlock(&queue->lock);
  return some;
}

bool adji_queue_take(adji_queue *queue, uint64_t worker, uint64_t workers, uint64_t *turn, adji_batch *out) {
  if (!queue->round_robin) return adji_queue_take_heavy(queue, out);
  uint64_t next = worker + (*turn)++ * workers;
  if (next >= queue->count) return false;
  *out = queue->batches[next];
  return true;
}
