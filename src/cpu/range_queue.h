/* SPDX-License-Identifier: MIT
 *
 * The queue of HEGJoin, for the cores of a range join: see range_queue.c.
 */
#ifndef ADJI_RANGE_QUEUE_H
#define ADJI_RANGE_QUEUE_H

#include "queue/queue.h"

/* Memory: 8 bytes per query, and the sample. */
typedef struct adji_range_queue {
  uint64_t count;
  uint32_t *rows;         /* rows of the queries, most candidates first; NULL: there is no queue */
  uint32_t *counts;       /* neighbours of query 0, step, 2 step and so on */
  uint64_t samples, step; /* number of counts; queries from one to the next */
  uint32_t *positions;    /* positions of the queries in the index; ascending in each batch */
} adji_range_queue;

void adji_range_queue_clear(adji_memory *memory, adji_range_queue *queue);

/* Finds the positions. ids: the rows in the order of the index. each: queries per batch. */
adj_status adji_range_queue_map(adj_ctx *ctx, const uint32_t *ids, uint64_t each, adji_range_queue *queue);

/* Adds batches of `each` queries, in order. Their work is their estimated number of results. */
adj_status adji_range_queue_fill(adj_ctx *ctx, const adji_range_queue *from, uint64_t each, adji_queue *queue);
/* The estimated number of results of all queries. */
double adji_range_queue_results(const adji_range_queue *queue);

/* The end of the run of queries, from `begin` on, that are consecutive in the index. */
uint32_t adji_range_queue_run(const adji_range_queue *queue, uint32_t begin, uint32_t end);

#endif
