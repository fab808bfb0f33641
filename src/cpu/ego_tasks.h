/* SPDX-License-Identifier: MIT
 *
 * The threads of Super-EGO (HEGJoin 3.2): producers and consumers share a queue of pairs of sequences. Every thread
 * takes a pair and joins it. When it cuts a pair while the queue holds fewer pairs than there are threads, the parts go
 * to the queue instead.
 */
#ifndef ADJI_EGO_TASKS_H
#define ADJI_EGO_TASKS_H

#include <pthread.h>

#include "cpu/ego_join.h"

typedef struct adji_ego_tasks {
  adj_ctx *ctx;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  adji_ego_pair *waiting; /* a ring of `room` entries */
  uint32_t room, first;
  ADJI_ATOMIC(uint32_t) count;
  uint32_t active; /* pairs being joined by threads */
  bool failed;     /* a join failed: no more pairs are handed out */
} adji_ego_tasks;

/* first: the whole join. */
adj_status adji_ego_tasks_init(adji_ego_tasks *tasks, adj_ctx *ctx, const adji_ego_pair *first);
void adji_ego_tasks_clear(adji_ego_tasks *tasks);

/* Offers a pair to the queue. True if the queue took it. Any thread may call this. */
bool adji_ego_tasks_offer(adji_ego_tasks *tasks, const adji_ego_pair *pair);
/* Joins pairs until the queue is empty and no thread is joining one. */
adj_status adji_ego_tasks_work(adji_ego_tasks *tasks, adji_ego_searcher *searcher);

#endif
