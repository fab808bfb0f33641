/* SPDX-License-Identifier: MIT
 *
 * Runs inside a run, for a worker that does its join as several smaller joins, of chunks or regions.
 */
#ifndef ADJI_GPU_WORKER_INNER_RUN_H
#define ADJI_GPU_WORKER_INNER_RUN_H

#include "queue/run.h"

/* A run of the joins of chunks, which reports its progress to the whole run. */
typedef struct adji_inner_run {
  adji_run run, *whole;
  const char *phase;
  double done, share, all; /* the current call is `share` of `all`, and `done` was done before it */
  uint64_t pairs;          /* found before the current call */
} adji_inner_run;

void adji_inner_run_begin(adji_inner_run *r, adji_run *whole, const char *phase);
/* Adds its statistics to the whole run, and its candidates to tally. */
void adji_inner_run_end(adji_inner_run *r, adji_tally *tally);
/* Called before each pass of a smaller join: sets what is done, the share of the pass, and the pairs found. */
void adji_inner_run_next(adji_inner_run *r, double done, double share, uint64_t pairs);

#endif
