/* SPDX-License-Identifier: MIT
 *
 * The scheduler: workers drain the queue. CPU-only and hybrid runs are the same scheduler with different workers:
 * cores, and devices beside them.
 */
#ifndef ADJI_SCHEDULER_H
#define ADJI_SCHEDULER_H

#include "queue/queue.h"
#include "queue/share.h"

/* What a pass over the queue counted. */
typedef struct adji_tally {
  uint64_t pairs, candidates;
} adji_tally;

/* What a device worker is handed: where its batches come from, and the cores' help. */
typedef struct adji_help adji_help;

/* Batches from the heavy end of the queue, which may be asked for before others are done; false: there are none for
 * this device. One that has others not done may ask again: what it gets depends on how soon it is done. */
bool adji_help_take(adji_help *help, const adji_batch **batches, uint64_t *count);
/* The device is through with the oldest batches that it was not; they are in their place, and had so much: from then on
 * nobody else does them. */
void adji_help_found(adji_help *help);
adj_status adji_help_done(adji_help *help, const adji_tally *tally);

/* Queries of the oldest batches, all of which are in their place, that the device could not find: cores do these
 * batches, which are made of them. */
adj_status adji_help_give_back(adji_help *help, const adji_batch *batches, uint64_t count);

/* Runs pieces 0 .. count - 1 of what the device worker has to do on the host, each once: by the worker's own thread and
 * by cores that are between two batches, of which no more come than are enough as long as there are batches. lane <
 * threads + devices of the pass: for per-lane buffers. Returns when all of them are over, with the first failure;
 * ADJ_CANCELLED when the run was given up. */
adj_status adji_help_loop(adji_help *help, uint64_t count, adji_task_fn fn, uint64_t (*enough)(const void *user),
                          void *user);

/* The worker's own thread begins to wait for the device, or is done with that. */
void adji_help_sleep(adji_help *help, bool asleep);

/* A device that takes batches, many at a time, in a thread of its own. */
typedef struct adji_device_worker {
  const char *name; /* in warnings and figures */
  void *user;
  /* Takes batches and does them, until there are none. When it fails others do those that are not done. */
  adj_status (*drain)(void *user, adji_help *help);
} adji_device_worker;

/* One pass: every batch goes to one call of process. */
typedef struct adji_pass {
  const char *name; /* for the trace and progress: "count", "join" */
  void *user;
  /* lane < threads of the context. Adds to tally, which is the lane's own. */
  adj_status (*process)(void *user, const adji_batch *batch, uint32_t lane, adji_tally *tally);
} adji_pass;

/* Devices that take part, ADJI_MOST_DEVICES at most: their lanes are threads, threads + 1, ... */
typedef struct adji_crew {
  const adji_device_worker *devices;
  uint32_t count;
  const adji_share_options *share; /* NULL: by rates */
  uint8_t *done_by;                /* by number of a batch: 1 + the device that did it, if one did. NULL: not told */
} adji_crew;

/* What the cores together, or a device, did in the passes that devices took part in. */
typedef struct adji_worker_stats {
  const char *name;
  const void *who; /* user of the device; NULL: cores    */
  uint64_t queries, batches;
  uint64_t failed; /* queries that it gave back          */
  double busy_s;   /* of cores: the mean                 */
} adji_worker_stats;

/* What became of the queries of a kNN join through a grid (gpu/papers/knn_grid.h); all 0 for others. */
typedef struct adji_knn_grid_stats {
  uint64_t queries; /* that were searched for, those that failed again */
  uint64_t failed;
  uint64_t reindexed;
  double epsilon; /* the first one */
  double epsilon_s, reindex_s;
} adji_knn_grid_stats;

/* What became of the queries of a kNN join with a filter of products (gpu/brute/prefilter_tensor.cuh,
 * gpu/brute/prefilter_gemm.cuh); all 0 for others. */
typedef struct adji_prefilter_stats {
  uint64_t queries;
  uint64_t sums;          /* canonical ones, of what passed                                  */
  uint64_t again, failed; /* queries with longer lists; those that were left to another way */
} adji_prefilter_stats;

/* What a device did for a run; all 0 where none took part. Waiting and placing are added up over the lanes. */
typedef struct adji_device_stats {
  double kernel_s;               /* the device's time for kernels              */
  double up_s, down_s;           /* waiting for copies to the device, and back */
  double place_s;                /* putting what arrived into place            */
  uint64_t bytes_up, bytes_down; /* points; counts and pairs                   */
  uint64_t slots;                /* comparisons that there were lanes for      */
  adji_knn_grid_stats grid;
  adji_prefilter_stats prefilter;
} adji_device_stats;

void adji_device_stats_add(adji_device_stats *to, const adji_device_stats *more);
/* Adds what was done until now beyond what was told, which is then all of it. */
void adji_device_stats_report(const adji_device_stats *now, adji_device_stats *told, adji_device_stats *to);

/* Where the rows of a run will be, or the most of them: who waits for a device that counts them touches it. */
typedef struct adji_ahead {
  uint32_t *ids;   /* NULL: nobody knows */
  void *distances; /* NULL: there are none */
  uint64_t entries;
} adji_ahead;

/* A run: one or more passes with common progress, limits and figures. */
typedef struct adji_run {
  adj_ctx *ctx;
  adj_run_control control;
  double progress_from, progress_to; /* what part of the whole the next pass is */
  uint64_t last_report_ns;
  double last_fraction; /* what was told, which never goes back */
  pthread_mutex_t report_lock;
  adji_tally tally;          /* of the passes so far */
  uint64_t batches, redone;  /* redone: a buffer was too small */
  bool fills;                /* what is counted will be filled */
  double busy_max, busy_sum; /* seconds of the slowest lane and of all, over the passes */
  uint64_t lanes_counted;
  adji_device_stats device;
  /* Hybrid: cores first, then devices; seconds between the first and the last of them to be done, and of the passes. */
  adji_worker_stats workers[1 + ADJI_MOST_DEVICES];
  uint32_t worker_count;
  double apart_s, shared_s;
  double rates[1 + ADJI_MOST_DEVICES]; /* of the last pass of each: work a second of a lane, and of the devices */
  adji_ahead ahead;
} adji_run;

adj_status adji_run_init(adji_run *run, adj_ctx *ctx, const adj_run_control *control);
void adji_run_clear(adji_run *run);

/* Runs the pass over the whole queue with all threads. Returns the tally of this pass. */
adj_status adji_run_pass(adji_run *run, adji_queue *queue, const adji_pass *pass, adji_tally *tally);

/* The same with devices. One that fails is told by a warning; the others finish the pass. */
adj_status adji_run_shared_pass(adji_run *run, adji_queue *queue, const adji_pass *pass, const adji_crew *crew,
                                adji_tally *tally);

/* Which of the run's workers a device is, whoever has a part in a pass; 0: none yet. */
uint32_t adji_run_worker(const adji_run *run, const void *who);

/* Tells the caller's progress function, at most every interval_ms. */
adj_status adji_run_report(adji_run *run, const char *phase, double fraction, uint64_t pairs, bool always);

#endif
