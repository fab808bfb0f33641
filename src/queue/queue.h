/* SPDX-License-Identifier: MIT
 *
 * The work queue: batches of queries, sorted from most to least estimated work, taken from either end. Ties stay in
 * grid order, so that neighbouring batches stay together.
 */
#ifndef ADJI_QUEUE_H
#define ADJI_QUEUE_H

#include <pthread.h>

#include "core/context.h"

typedef struct adji_batch {
  uint32_t begin, end; /* positions of queries in the left index */
  double work;         /* estimated, in candidates               */
} adji_batch;

/* Batches [begin, end) of the queue. */
typedef struct adji_batch_run {
  uint64_t begin, end;
} adji_batch_run;

/* Stretches of the queue that failed devices may return. Each of eight devices holds at most eight stretches. Once a
 * device has returned its stretches, it gets no more work. */
enum { ADJI_MOST_RETURNED = 64 };

/* A limit below the work of any batch: adji_queue_take_some then takes one batch. */
#define ADJI_ONE_BATCH (-1.0)

typedef struct adji_queue {
  adj_ctx *ctx;
  adji_batch *batches;
  uint64_t count, room;
  pthread_mutex_t lock;
  uint64_t head, tail; /* batches [head, tail) remain                  */
  double remaining;    /* their work, and that of the returned batches */
  adji_batch_run returned[ADJI_MOST_RETURNED];
  uint32_t returned_count;
  bool round_robin; /* not a shared queue: worker i of n gets batches i, i + n, ... */
} adji_queue;

adj_status adji_queue_init(adji_queue *queue, adj_ctx *ctx, uint64_t room);
void adji_queue_clear(adji_queue *queue);

/* Appends a batch. Call it before sorting. */
adj_status adji_queue_add(adji_queue *queue, adji_batch batch);
void adji_queue_sort(adji_queue *queue);
/* For queues shared with devices: sorts heaviest first, but only by factors of about two. Batches that are taken
 * together are then neighbours, which a device processes faster. weights: one per batch, in the order they were added;
 * NULL: their work. */
adj_status adji_queue_sort_roughly(adji_queue *queue, const double *weights);

/* Starts over with all batches. */
void adji_queue_rewind(adji_queue *queue);

/* The next batch from the heavy end; false when none remains. Any thread. */
bool adji_queue_take_heavy(adji_queue *queue, adji_batch *out);

/* Takes consecutive batches from the heavy or from the light end: at least one, and further ones while their total is
 * at most `work`; ADJI_ONE_BATCH: one. Returned batches come last. False when none remains. Any thread. */
bool adji_queue_take_some(adji_queue *queue, bool heavy, double work, adji_batch_run *out);

/* Returns batches that were taken and not finished, so that other workers get them. */
void adji_queue_return(adji_queue *queue, adji_batch_run batches);

/* Finds the remaining work, and the work of the next batch at that end; false when nothing remains. */
bool adji_queue_look(adji_queue *queue, bool heavy, double *remaining, double *next);

/* The next batch for one of several workers: from the heavy end, or the worker's next one in round robin. *turn: the
 * number of batches that it got so far. */
bool adji_queue_take(adji_queue *queue, uint64_t worker, uint64_t workers, uint64_t *turn, adji_batch *out);

#endif
