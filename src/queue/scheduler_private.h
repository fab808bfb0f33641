/* SPDX-License-Identifier: MIT
 *
 * A pass at work: what the scheduler's files share.
 */
#ifndef ADJI_SCHEDULER_PRIVATE_H
#define ADJI_SCHEDULER_PRIVATE_H

#include "queue/scheduler.h"

typedef struct adji_drain {
  adji_run *run;
  adji_queue *queue;
  const adji_pass *pass;
  const adji_crew *crew;
  double total_work;
  pthread_mutex_t lock; /* guards what follows */
  double work_done;
  adji_tally tally;
  uint64_t batches;
  double busy_max, busy_sum;
} adji_drain;

/* After batches of so much work: add up, look at the limit, tell how far we are. */
adj_status adji_account_batch(adji_drain *d, double work, uint64_t batches, const adji_tally *tally);

/* The whole queue, by cores and devices (hybrid.c). */
adj_status adji_drain_with_devices(adji_drain *d);

#endif
