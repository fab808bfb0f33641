/* SPDX-License-Identifier: MIT
 *
 * A run: one call of adj_count, adj_collect or adj_stream. Its passes share progress, limits and statistics.
 */
#ifndef ADJI_RUN_H
#define ADJI_RUN_H

#include <pthread.h>

#include "core/context.h"
#include "queue/share.h"
#include "queue/stats.h"

/* The memory that the rows of a run will go to, or most of it. A worker that waits for a device prefaults it. */
typedef struct adji_ahead {
  uint32_t *ids;   /* NULL: not known yet */
  void *distances; /* NULL: none          */
  uint64_t entries;
} adji_ahead;

typedef struct adji_run {
  adj_ctx *ctx;
  bool was_alone;  /* the thread's mode before this run, for plan/run.c */
  adji_call outer; /* the call that the thread worked for before, until the run is cleared */
  adj_run_control control;
  double progress_from, progress_to; /* the part of the whole run that the next pass covers */
  uint64_t last_report_ns;
  double last_fraction; /* the last one reported: it never decreases */
  pthread_mutex_t report_lock;
  const char *phase;         /* the name of the last pass; NULL: there was none */
  uint64_t phase_pairs;      /* pairs of the passes of that name, such as the windows of a stream */
  adji_tally tally;          /* sums of the passes so far                                     */
  uint64_t batches, redone;  /* redone: a buffer was too small                                */
  bool fills;                /* the counted rows will be filled                               */
  double busy_max, busy_sum; /* seconds of the slowest lane and of all lanes, over the passes */
  adji_device_stats device;
  /* Shared passes: the workers, the cores first; apart_s: seconds between the first and the last worker to finish;
   * shared_s: seconds of these passes. */
  adji_worker_stats workers[1 + ADJI_MOST_DEVICES];
  uint32_t worker_count;
  double apart_s, shared_s;
  double rates[1 + ADJI_MOST_DEVICES]; /* from each worker's last pass: work per second, of one lane for the cores */
  adji_ahead ahead;
} adji_run;

adj_status adji_run_init(adji_run *run, adj_ctx *ctx, const adj_run_control *control);
void adji_run_clear(adji_run *run);

/* A device's index among the run's workers, from any pass that it took part in; 0: it took part in none yet. */
uint32_t adji_run_worker(const adji_run *run, const void *who);

/* Adds the statistics of the workers of a run inside this one. Workers with the same name are the same worker. */
void adji_run_add_workers(adji_run *run, const adji_run *inner);

/* Calls the caller's progress function, at most every interval_ms. */
adj_status adji_run_report(adji_run *run, const char *phase, double fraction, uint64_t pairs, bool always);

/* ADJ_E_LIMIT when there are more pairs than the caller allows. */
adj_status adji_run_check_pairs(const adji_run *run, uint64_t pairs);

#endif
