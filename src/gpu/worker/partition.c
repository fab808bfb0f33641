/* SPDX-License-Identifier: MIT
 *
 * Several devices without cores: see partition.h.
 *
 * Memory: 4 bytes per query for the order, and 16 per batch.
 */
#include "gpu/worker/partition.h"

#include <stdlib.h>

/* A batch has at most MOST_QUERIES queries, and few enough for MANY_BATCHES batches per device. */
enum { MOST_QUERIES = 1024, MANY_BATCHES = 64 };

typedef struct partition {
  adji_join join;
  uint32_t *order;
  uint64_t batch; /* queries */
} partition;

/* The work of a query is not known before. Devices that get long queries take fewer of them. */
static adj_status fill_queue(void *state, bool shared, adji_queue *queue) {
  (void)shared;
  const partition *p = state;
  uint64_t all = p->join.left->count;
  adj_status status = adji_queue_init(queue, p->join.ctx, all / p->batch + 1);
  for (uint64_t begin = 0; begin < all && !status; begin += p->batch) {
    uint64_t end = begin + p->batch < all ? begin + p->batch : all;
    status = adji_queue_add(queue, (adji_batch){(uint32_t)begin, (uint32_t)end, (double)(end - begin)});
  }
  return status;
}

/* Devices begin before the host does. */
static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  (void)state;
  (void)run;
  return pass->alone ? pass->refused : ADJ_OK; /* with the message of the last device */
}

static void destroy(void *state) {
  partition *p = state;
  adji_free(&p->join.ctx->memory, p->order);
  free(p);
}

adj_status adji_partition_create(const adji_join *join, uint32_t *order, uint32_t devices, adji_worker *out) {
  partition *p = calloc(1, sizeof *p);
  if (!p) {
    adji_free(&join->ctx->memory, order);
    return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  }
  p->join = *join;
  p->order = order;
  p->batch = join->left->count / ((uint64_t)devices * MANY_BATCHES) + 1;
  if (p->batch > MOST_QUERIES) p->batch = MOST_QUERIES;
  *out = (adji_worker){.state = p, .name = "cpu", .fill_queue = fill_queue, .begin = begin, .destroy = destroy};
  return ADJ_OK;
}

const uint32_t *adji_partition_order(const adji_worker *worker) {
  return ((const partition *)worker->state)->order;
}

void adji_partition_entities(uint64_t rows, uint64_t sets, uint32_t *order) {
  uint64_t at = 0;
  for (uint64_t set = 0; set < sets; set++)
    for (uint64_t row = set; row < rows; row += sets)
      order[at++] = (uint32_t)row;
}
