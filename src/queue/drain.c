/* SPDX-License-Identifier: MIT
 *
 * A pass at work: see drain.h.
 */
#include "queue/drain.h"

#include <stdio.h>

double adji_drain_now(const adji_drain *d) {
  return (double)(adji_now_ns() - d->begin_ns) * 1e-9;
}

adj_status adji_drain_account(adji_drain *d, double work, uint64_t batches, const adji_tally *tally) {
  pthread_mutex_lock(&d->tally_lock);
  d->work_done += work;
  d->batches += batches;
  d->tally.pairs += tally->pairs;
  d->tally.candidates += tally->candidates;
  double fraction = d->total_work > 0 ? d->work_done / d->total_work : 1;
  uint64_t pairs = d->tally.pairs;
  pthread_mutex_unlock(&d->tally_lock);
  adj_status status = adji_run_check_pairs(d->run, pairs);
  return status ? status : adji_run_report(d->run, d->pass->name, fraction, pairs, false);
}

void adji_drain_give_up(adji_drain *d, adj_status status) {
  if (!d->failed) {
    d->failed = status;
    snprintf(d->message, sizeof d->message, "%s", adj_last_error());
  }
  pthread_cond_broadcast(&d->changed);
}

double adji_drain_work_of(const adji_drain *d, adji_batch_run batches) {
  double work = 0;
  for (uint64_t i = batches.begin; i < batches.end; i++)
    work += d->queue->batches[i].work;
  return work;
}
