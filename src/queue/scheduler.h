/* SPDX-License-Identifier: MIT
 *
 * The scheduler: workers drain the queue. CPU-only, GPU-only and hybrid runs are the same scheduler
 * with different workers; today there is one kind, a core.
 */
#ifndef ADJI_SCHEDULER_H
#define ADJI_SCHEDULER_H

#include "queue/queue.h"

/* What a pass over the queue counted. */
typedef struct adji_tally {
  uint64_t pairs, candidates;
} adji_tally;

/* One pass: every batch goes to one call of process. */
typedef struct adji_pass {
  const char *name; /* for the trace and progress: "count", "join" */
  void *user;
  /* lane < threads of the context. Adds to tally, which is the lane's own. */
  adj_status (*process)(void *user, const adji_batch *batch, uint32_t lane, adji_tally *tally);
} adji_pass;

/* What a device did for a run; all 0 where none took part. Waiting and placing are added up over the lanes. */
typedef struct adji_device_work {
  double kernel_s;               /* the device's time for kernels              */
  double up_s, down_s;           /* waiting for copies to the device, and back */
  double place_s;                /* putting what arrived into place            */
  uint64_t bytes_up, bytes_down; /* points; counts and pairs                   */
  uint64_t slots;                /* comparisons that there were lanes for      */
} adji_device_work;

void adji_device_work_add(adji_device_work *to, const adji_device_work *more);

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
  adji_device_work device;
} adji_run;

adj_status adji_run_init(adji_run *run, adj_ctx *ctx, const adj_run_control *control);
void adji_run_clear(adji_run *run);

/* Runs the pass over the whole queue with all threads. Returns the tally of this pass. */
adj_status adji_run_pass(adji_run *run, adji_queue *queue, const adji_pass *pass, adji_tally *tally);

/* Tells the caller's progress function, at most every interval_ms. */
adj_status adji_run_report(adji_run *run, const char *phase, double fraction, uint64_t pairs, bool always);

#endif
