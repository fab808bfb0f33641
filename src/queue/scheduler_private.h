/* SPDX-License-Identifier: MIT
 *
 * A running pass: what scheduler.c, scheduler_feed.c (a device's side) and scheduler_lanes.c (the cores' side) share.
 */
#ifndef ADJI_SCHEDULER_PRIVATE_H
#define ADJI_SCHEDULER_PRIVATE_H

#include "queue/scheduler.h"

/* Stretches of the queue that a device may hold: one in progress, one that waits, and those with no work. */
enum { ADJI_MOST_HELD = ADJI_MOST_RETURNED / ADJI_MOST_DEVICES };

typedef struct adji_drain adji_drain;

/* Queries that a device could not answer. The same device may get them again once its epoch is later than this one. */
typedef struct adji_returned {
  adji_batch batch;
  uint32_t device, epoch;
} adji_returned;

/* A worker's side of a pass. It is written with the drain's lock held, and by the worker's thread only, except for the
 * parallel loop. */
struct adji_feed {
  adji_drain *drain;
  uint32_t device; /* its number among the devices of the pass */
  /* The stretches that the device holds, oldest first. The first `handed` were handed to the worker; the first `found`
   * of these are computed. An empty stretch stands for queries that this or another device had returned. */
  adji_batch_run held[ADJI_MOST_HELD];
  uint32_t held_count, handed, found;
  uint32_t epoch; /* how often adji_feed_again was called */
  adji_batch *again;
  uint64_t again_count, again_room, again_queries;
  uint64_t since_ns;           /* when it began its oldest stretch, or finished the one before */
  double fell_asleep, slept_s; /* its thread: when it last fell asleep, from the start of the pass; its total sleep */
  /* The running parallel loop; guarded by the lock. */
  adji_task_fn fn;
  void *user;
  uint64_t (*enough)(const void *user);
  uint64_t count, next, busy;
  adj_status status;
  char message[512];
};

struct adji_drain {
  adji_run *run;
  adji_queue *queue;
  const adji_pass *pass;
  const adji_active *active;
  uint64_t begin_ns;
  double total_work;
  uint64_t pairs_before; /* of earlier passes of this name, for progress */

  pthread_mutex_t tally_lock; /* guards the sums that batches add to */
  double work_done;
  adji_tally tally;
  uint64_t batches;
  double busy_max, busy_sum;

  pthread_mutex_t lock; /* guards what follows, where several workers share the queue */
  pthread_cond_t changed;
  adji_share share;
  uint32_t running;        /* devices that have not finished */
  adji_returned *returned; /* returned queries; the first returned_taken are done or in progress */
  uint64_t returned_count, returned_taken, returned_room;
  adj_status failed; /* why the pass was given up */
  char message[512];
  adj_status device_failed; /* why the device that failed last did so */
  char device_message[512];
  adji_worker_stats workers[1 + ADJI_MOST_DEVICES];
  double last_end[1 + ADJI_MOST_DEVICES]; /* when each worker last finished batches, from the start */
  double work[1 + ADJI_MOST_DEVICES];     /* work that each worker has done */
  double lanes_s;                         /* seconds that lanes spent on work[0] */
  adji_feed feeds[ADJI_MOST_DEVICES];
  bool full; /* there is a lane for each core */
};

/* Seconds from the start of the pass. */
double adji_drain_now(const adji_drain *d);

/* Accounts finished batches: adds to the sums, checks the limit of pairs, reports progress. */
adj_status adji_drain_account(adji_drain *d, double work, uint64_t batches, const adji_tally *tally);

/* Ends the pass for all workers, with the message of the caller's failure. The lock is held. */
void adji_drain_give_up(adji_drain *d, adj_status status);

double adji_drain_work_of(const adji_drain *d, adji_batch_run batches);

/* All lanes take batches until none remains. Without cores among the workers lanes only help devices. */
adj_status adji_lanes_drain(adji_drain *d);

/* Takes the first batches for a device, before its thread runs; false: there are none. The lock is held. */
bool adji_feed_open(adji_feed *feed, adji_drain *drain, uint32_t device);
/* Called after the worker's drain has returned. */
void adji_feed_close(adji_feed *feed, adj_status status);

/* A feed whose loop has tasks left to start; needed: only one with too few lanes. The lock is held. */
adji_feed *adji_feed_needs_help(adji_drain *drain, bool needed);
/* Runs one task of the feed's loop. The lock is held, but not while the task runs. */
void adji_feed_help(adji_feed *feed, uint32_t lane);

#endif
