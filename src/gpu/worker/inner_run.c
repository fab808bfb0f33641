/* SPDX-License-Identifier: MIT
 *
 * Runs inside a run: see inner_run.h.
 */
#include "gpu/worker/inner_run.h"

static int report_progress(void *user, const adj_progress *inner_progress) {
  adji_inner_run *r = user;
  double fraction = r->all > 0 ? (r->done + r->share * inner_progress->fraction) / r->all : 1;
  uint64_t pairs = r->share > 0 ? r->pairs + inner_progress->pairs : r->pairs;
  return adji_run_report(r->whole, r->phase, fraction, pairs, false) != ADJ_OK;
}

void adji_inner_run_begin(adji_inner_run *r, adji_run *whole, const char *phase) {
  *r = (adji_inner_run){.whole = whole, .phase = phase};
  r->run = (adji_run){.ctx = whole->ctx, .outer = adji_call_current(), .progress_to = 1};
  adj_run_control_init(&r->run.control, sizeof r->run.control);
  r->run.control.interval_ms = 0; /* the whole run's interval counts */
  if (whole->control.progress) r->run.control.progress = report_progress;
  r->run.control.user = r;
  pthread_mutex_init(&r->run.report_lock, NULL);
}

void adji_inner_run_end(adji_inner_run *r, adji_tally *tally) {
  adji_run *whole = r->whole;
  tally->candidates += r->run.tally.candidates;
  whole->batches += r->run.batches;
  whole->redone += r->run.redone;
  whole->busy_max += r->run.busy_max;
  whole->busy_sum += r->run.busy_sum;
  adji_device_stats_add(&whole->device, &r->run.device);
  adji_run_clear(&r->run);
}

void adji_inner_run_next(adji_inner_run *r, double done, double share, uint64_t pairs) {
  r->done = done;
  r->share = share;
  r->pairs = pairs;
  r->run.last_fraction = 0;
}
