/* SPDX-License-Identifier: MIT
 *
 * A pass at work: what scheduler.c, scheduler_feed.c (a device's side) and scheduler_lanes.c (the cores') share.
 */
#ifndef ADJI_SCHEDULER_PRIVATE_H
#define ADJI_SCHEDULER_PRIVATE_H

#include "queue/scheduler.h"

/* Stretches of the queue that a device may hold: one at work, one that waits for it, and those without any work. */
enum { ADJI_MOST_HELD = ADJI_MOST_RETURNED / ADJI_MOST_DEVICES };

typedef struct adji_drain adji_drain;

/* Queries that a device could not answer. It may be asked again once it has a later epoch. */
typedef struct adji_returned {
  adji_batch batch;
  uint32_t device, epoch;
} adji_returned;

/* A worker's side of a pass. Written by the worker's thread only, with the drain's lock held. */
struct adji_feed {
  adji_drain *drain;
  uint32_t device; /* its number among the devices of the pass */
  /* What the device holds, the oldest first: so many were handed to the worker, and so many of these are computed. An
   * empty stretch stands for queries that it, or another device, had returned. */
  adji_batch_run held[ADJI_MOST_HELD];
  uint32_t held_count, handed, found;
  uint32_t epoch; /* how often adji_feed_again was called */
  adji_batch *again;
  uint64_t again_count, again_room, again_queries;
  uint64_t since_ns;           /* when it began the oldest one, or finished the one before               */
  double fell_asleep, slept_s; /* its thread: when, from the start of the pass; how long until it last woke */
  /* The parallel loop that runs; guarded by the lock. */
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

  pthread_mutex_t tally_lock; /* guards what batches add to */
  double work_done;
  adji_tally tally;
  uint64_t batches;
  double busy_max, busy_sum;

  pthread_mutex_t lock; /* guards what follows, where several workers share the queue */
  pthread_cond_t changed;
  adji_share share;
  uint32_t running;        /* devices that have not finished */
  adji_returned *returned; /* what devices returned; the first returned_taken are done or at work */
  uint64_t returned_count, returned_taken, returned_room;
  adj_status failed; /* why the pass was given up */
  char message[512];
  adj_status device_failed; /* why a device failed last, and took no more part */
  char device_message[512];
  adji_worker_stats workers[1 + ADJI_MOST_DEVICES];
  double last_end[1 + ADJI_MOST_DEVICES]; /* when each last finished batches, from the start */
  double work[1 + ADJI_MOST_DEVICES];     /* that each has done                              */
  double lanes_s;                         /* seconds of lanes for theirs                     */
  adji_feed feeds[ADJI_MOST_DEVICES];
  bool full; /* there is a lane for each core */
};

/* Seconds from the start of the pass. */
double adji_drain_now(const adji_drain *d);

/* After batches: adds up, checks the limit of pairs, reports progress. */
adj_status adji_drain_account(adji_drain *d, double work, uint64_t batches, const adji_tally *tally);

/* Ends the pass for everyone, with the message of the caller's failure. The lock is held. */
void adji_drain_give_up(adji_drain *d, adj_status status);

double adji_drain_work_of(const adji_drain *d, adji_batch_run batches);

/* All lanes take batches until none remains. Without cores among the workers lanes only help devices. */
adj_status adji_lanes_drain(adji_drain *d);

/* The first batches of a device, before its thread runs; false: there are none. The lock is held. */
bool adji_feed_open(adji_feed *feed, adji_drain *drain, uint32_t device);
/* After the worker's drain returned. */
void adji_feed_close(adji_feed *feed, adj_status status);

/* A loop with tasks left; needed: only one that has not enough lanes. The lock is held. */
adji_feed *adji_feed_needs_help(adji_drain *drain, bool needed);
/* One task of its loop. The lock is held, but not while the task runs. */
void adji_feed_help(adji_feed *feed, uint32_t lane);

#endif
