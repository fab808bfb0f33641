/* SPDX-License-Identifier: MIT
 *
 * The work queue. Batches hold about a thousand queries, so one lock for both ends costs nothing measurable.
 */
#include "queue/queue.h"

#include <math.h>
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

typedef struct ranked {
  adji_batch batch;
  double rank;
} ranked;

static int higher_first(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (a->rank != b->rank) return a->rank > b->rank ? -1 : 1;
  return a->batch.begin < b->batch.begin ? -1 : a->batch.begin > b->batch.begin;
}

/* Ranks are octaves relative to the mean logarithm, so that batches of about equal weight share one rank. */
static void rank_by_octaves(ranked *all, uint64_t count, const double *weights) {
  double sum = 0;
  for (uint64_t i = 0; i < count; i++) {
    double weight = weights ? weights[i] : all[i].batch.work;
    all[i].rank = log2(fmin(fmax(weight, 1e-300), 1e300));
    sum += all[i].rank;
  }
  for (uint64_t i = 0; i < count; i++)
    all[i].rank = floor(all[i].rank - sum / (double)count + 0.5);
}

adj_status adji_queue_sort_roughly(adji_queue *queue, const double *weights) {
  adji_memory *memory = &queue->ctx->memory;
  uint64_t count = queue->count;
  if (!count) return ADJ_OK;
  ranked *all = adji_alloc(memory, count, sizeof *all, "work queue");
  if (!all) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count; i++)
    all[i].batch = queue->batches[i];
  rank_by_octaves(all, count, weights);
  qsort(all, count, sizeof *all, higher_first);
  for (uint64_t i = 0; i < count; i++)
    queue->batches[i] = all[i].batch;
  adji_free(memory, all);
  return ADJ_OK;
}

void adji_queue_rewind(adji_queue *queue) {
  queue->head = 0;
  queue->tail = queue->count;
  queue->returned_count = 0;
  queue->remaining = 0;
  for (uint64_t i = 0; i < queue->count; i++)
    queue->remaining += queue->batches[i].work;
}

bool adji_queue_take_heavy(adji_queue *queue, adji_batch *out) {
  adji_batch_run one;
  if (!adji_queue_take_some(queue, true, ADJI_ONE_BATCH, &one)) return false;
  *out = queue->batches[one.begin];
  return true;
}

/* ---- Several at once -------------------------------------------------------------------------------- */

/* Cuts batches off one end of *from, which is not empty: at least one, and further ones while their total is at most
 * `work`. */
static adji_batch_run cut_off(adji_queue *queue, adji_batch_run *from, bool heavy, double work) {
  adji_batch_run cut = heavy ? (adji_batch_run){from->begin, from->begin} : (adji_batch_run){from->end, from->end};
  double sum = 0;
  while (cut.end - cut.begin < from->end - from->begin) {
    double next = queue->batches[heavy ? cut.end : cut.begin - 1].work;
    if (cut.begin < cut.end && sum + next > work) break;
    sum += next;
    if (heavy)
      cut.end++;
    else
      cut.begin--;
  }
  if (heavy)
    from->begin = cut.end;
  else
    from->end = cut.begin;
  queue->remaining -= sum;
  return cut;
}

bool adji_queue_take_some(adji_queue *queue, bool heavy, double work, adji_batch_run *out) {
  pthread_mutex_lock(&queue->lock);
  adji_batch_run all = {queue->head, queue->tail};
  bool first = all.begin < all.end, some = first || queue->returned_count;
  if (first) {
    *out = cut_off(queue, &all, heavy, work);
    queue->head = all.begin;
    queue->tail = all.end;
  } else if (some) {
    adji_batch_run *last = &queue->returned[queue->returned_count - 1];
    *out = cut_off(queue, last, heavy, work);
    if (last->begin == last->end) queue->returned_count--;
  }
  pthread_mutex_unlock(&queue->lock);
  return some;
}

void adji_queue_return(adji_queue *queue, adji_batch_run batches) {
  pthread_mutex_lock(&queue->lock);
  queue->returned[queue->returned_count++] = batches;
  for (uint64_t i = batches.begin; i < batches.end; i++)
    queue->remaining += queue->batches[i].work;
  pthread_mutex_unlock(&queue->lock);
}

bool adji_queue_look(adji_queue *queue, bool heavy, double *remaining, double *next) {
  pthread_mutex_lock(&queue->lock);
  adji_batch_run where = {queue->head, queue->tail};
  if (where.begin == where.end && queue->returned_count) where = queue->returned[queue->returned_count - 1];
  bool some = where.begin < where.end;
  *remaining = some ? queue->remaining : 0;
  *next = some ? queue->batches[heavy ? where.begin : where.end - 1].work : 0;
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
