/* SPDX-License-Identifier: MIT
 *
 * The work queue: batches of queries, sorted from most to least estimated work, taken from either
 * end. Ties stay in grid order, so that neighbours stay together.
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

/* Stretches of the queue that failed devices may return: eight devices hold eight each at most, and one that has
 * returned its stretches gets no more work. */
enum { ADJI_MOST_RETURNED = 64 };

/* Less work than any batch has. */
#define ADJI_ONE_BATCH (-1.0)

typedef struct adji_queue {
  adj_ctx *ctx;
  adji_batch *batches;
  uint64_t count, room;
  pthread_mutex_t lock;
  uint64_t head, tail; /* batches [head, tail) remain                 */
  double remaining;    /* their work, and that of what was returned   */
  adji_batch_run returned[ADJI_MOST_RETURNED];
  uint32_t returned_count;
  bool round_robin; /* no queue: worker i of n gets batches i, i + n, ... */
} adji_queue;

adj_status adji_queue_init(adji_queue *queue, adj_ctx *ctx, uint64_t room);
void adji_queue_clear(adji_queue *queue);

/* Before sorting. */
adj_status adji_queue_add(adji_queue *queue, adji_batch batch);
void adji_queue_sort(adji_queue *queue);
/* Beside devices: heaviest first only by factors of about two. What is taken at once are then neighbours, which a
 * device does faster. weights: of the batches as they were added; NULL: their work. */
adj_status adji_queue_sort_roughly(adji_queue *queue, const double *weights);

/* Starts over with all batches. */
void adji_queue_rewind(adji_queue *queue);

/* The next batch from the heavy end; false when none remains. Any thread. */
bool adji_queue_take_heavy(adji_queue *queue, adji_batch *out);

/* Consecutive batches from the heavy or from the light end: at least one, and no more than have so much work together;
 * ADJI_ONE_BATCH: one. Returned batches come last. False when none remains. Any thread. */
bool adji_queue_take_some(adji_queue *queue, bool heavy, double work, adji_batch_run *out);

/* Returns batches that were taken and not done: others will get them. */
void adji_queue_return(adji_queue *queue, adji_batch_run batches);

/* The remaining work, and the work of the batch at that end; false when nothing remains. */
bool adji_queue_look(adji_queue *queue, bool heavy, double *remaining, double *next);

/* The next batch for one of several workers: from the heavy end, or its own by turns. *turn: batches it had so
 * far. */
bool adji_queue_take(adji_queue *queue, uint64_t worker, uint64_t workers, uint64_t *turn, adji_batch *out);

#endif
