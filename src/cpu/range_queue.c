/* SPDX-License-Identifier: MIT
 *
 * The queue of HEGJoin for the cores of a range join (sections 4.1 and 4.2): a device has sorted the queries by their
 * candidates, most first, and has counted the neighbours of some of them.
 *
 * A batch has consecutive queries of that order, which are scattered in the order of the cores' index. So each query of
 * the queue is mapped to its position in the index. The positions of a batch are sorted, and consecutive ones are
 * searched together.
 *
 * The work of a batch is its estimated number of results: a query between two that were counted gets the larger of
 * their counts, and each query is its own neighbour.
 */
#include "cpu/range_queue.h"

#include <stdlib.h>

#include "core/context.h"

void adji_range_queue_clear(adji_memory *memory, adji_range_queue *q) {
  adji_free(memory, q->rows);
  adji_free(memory, q->counts);
  adji_free(memory, q->positions);
  *q = (adji_range_queue){0};
}

/* ---- Positions of the queries ------------------------------------------------------------------------- */

typedef struct mapping {
  const adji_range_queue *queue;
  const uint32_t *ids; /* rows in the order of the index */
  uint32_t *places;    /* position of each row in the index */
  uint64_t each;       /* queries per batch */
} mapping;

static void find_places(void *user, uint64_t begin, uint64_t end) {
  const mapping *m = user;
  for (uint64_t i = begin; i < end; i++)
    m->places[m->ids[i]] = (uint32_t)i;
}

static void map_queries(void *user, uint64_t begin, uint64_t end) {
  const mapping *m = user;
  for (uint64_t i = begin; i < end; i++)
    m->queue->positions[i] = m->places[m->queue->rows[i]];
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static adj_status sort_batch(void *user, uint64_t batch, uint32_t lane) {
  (void)lane;
  const mapping *m = user;
  uint64_t begin = batch * m->each, end = begin + m->each < m->queue->count ? begin + m->each : m->queue->count;
  qsort(m->queue->positions + begin, end - begin, sizeof *m->queue->positions, ascending);
  return ADJ_OK;
}

adj_status adji_range_queue_map(adj_ctx *ctx, const uint32_t *ids, uint64_t each, adji_range_queue *q) {
  enum { SLICES = 64 };
  mapping m = {q, ids, NULL, each};
  q->positions = adji_alloc(&ctx->memory, q->count, sizeof *q->positions, "queue");
  m.places = adji_alloc(&ctx->memory, q->count, sizeof *m.places, "queue");
  adj_status status = q->positions && m.places ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_loop_slices(ctx, q->count, SLICES, find_places, &m);
  if (!status) status = adji_loop_slices(ctx, q->count, SLICES, map_queries, &m);
  if (!status) status = adji_loop(ctx, (q->count + each - 1) / each, sort_batch, &m);
  adji_free(&ctx->memory, m.places);
  return status;
}

/* ---- Work of the batches ------------------------------------------------------------------------------ */

/* Estimated results of query i. */
static double results_of(const adji_range_queue *q, uint64_t i) {
  uint64_t before = i / q->step, after = i % q->step && before + 1 < q->samples ? before + 1 : before;
  return 1 + (double)(q->counts[before] > q->counts[after] ? q->counts[before] : q->counts[after]);
}

adj_status adji_range_queue_fill(adj_ctx *ctx, const adji_range_queue *from, uint64_t each, adji_queue *queue) {
  adj_status status = adji_queue_init(queue, ctx, from->count / each + 16);
  for (uint64_t begin = 0; begin < from->count && !status; begin += each) {
    uint64_t end = begin + each < from->count ? begin + each : from->count;
    adji_batch batch = {(uint32_t)begin, (uint32_t)end, 0};
    for (uint64_t i = begin; i < end; i++)
      batch.work += results_of(from, i);
    status = adji_queue_add(queue, batch);
  }
  return status;
}

double adji_range_queue_results(const adji_range_queue *q) {
  double results = 0;
  for (uint64_t i = 0; i < q->count; i++)
    results += results_of(q, i);
  return results;
}

uint32_t adji_range_queue_run(const adji_range_queue *q, uint32_t begin, uint32_t end) {
  uint32_t at = begin + 1;
  while (at < end && q->positions[at] == q->positions[at - 1] + 1)
    at++;
  return at;
}
