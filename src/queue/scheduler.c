/* SPDX-License-Identifier: MIT
 *
 * The scheduler: every lane takes batches from the heavy end until none is left, and adds up what it
 * did. Heavy batches go first so that the lanes finish together. With devices: hybrid.c.
 */
#include "queue/scheduler_private.h"

void adj_run_control_init(adj_run_control *control, size_t struct_size) {
  adj_run_control defaults = {.interval_ms = 100};
  adji_init_struct(control, struct_size, &defaults, sizeof defaults);
}

adj_status adji_run_init(adji_run *run, adj_ctx *ctx, const adj_run_control *control) {
  *run = (adji_run){.ctx = ctx, .progress_to = 1};
  adj_run_control_init(&run->control, sizeof run->control);
  if (control) {
    adj_status status = adji_take_struct(&run->control, sizeof run->control, control, "adj_run_control");
    if (status) return status;
  }
  pthread_mutex_init(&run->report_lock, NULL);
  adji_memory_reset_peak(&ctx->memory);
  return adji_check_cancel(ctx);
}

void adji_run_clear(adji_run *run) {
  pthread_mutex_destroy(&run->report_lock);
}

void adji_device_stats_add(adji_device_stats *to, const adji_device_stats *more) {
  to->kernel_s += more->kernel_s;
  to->up_s += more->up_s;
  to->down_s += more->down_s;
  to->place_s += more->place_s;
  to->bytes_up += more->bytes_up;
  to->bytes_down += more->bytes_down;
  to->slots += more->slots;
  to->prefilter.queries += more->prefilter.queries;
  to->prefilter.sums += more->prefilter.sums;
  to->prefilter.again += more->prefilter.again;
  to->prefilter.failed += more->prefilter.failed;
  to->grid.queries += more->grid.queries;
  to->grid.failed += more->grid.failed;
  to->grid.reindexed += more->grid.reindexed;
  to->grid.epsilon_s += more->grid.epsilon_s;
  to->grid.reindex_s += more->grid.reindex_s;
  if (more->grid.epsilon > 0) to->grid.epsilon = more->grid.epsilon;
}

void adji_device_stats_report(const adji_device_stats *now, adji_device_stats *told, adji_device_stats *to) {
  adji_device_stats more = *now;
  more.kernel_s -= told->kernel_s;
  more.up_s -= told->up_s;
  more.down_s -= told->down_s;
  more.place_s -= told->place_s;
  more.bytes_up -= told->bytes_up;
  more.bytes_down -= told->bytes_down;
  more.slots -= told->slots;
  more.prefilter.queries -= told->prefilter.queries;
  more.prefilter.sums -= told->prefilter.sums;
  more.prefilter.again -= told->prefilter.again;
  more.prefilter.failed -= told->prefilter.failed;
  more.grid.queries -= told->grid.queries;
  more.grid.failed -= told->grid.failed;
  more.grid.reindexed -= told->grid.reindexed;
  more.grid.epsilon_s -= told->grid.epsilon_s;
  more.grid.reindex_s -= told->grid.reindex_s;
  *told = *now;
  adji_device_stats_add(to, &more);
}

adj_status adji_run_report(adji_run *run, const char *phase, double fraction, uint64_t pairs, bool always) {
  if (!run->control.progress) return ADJ_OK;
  if (pthread_mutex_trylock(&run->report_lock)) return ADJ_OK; /* someone else is telling */
  uint64_t now = adji_now_ns();
  int stop = 0;
  double whole = run->progress_from + (run->progress_to - run->progress_from) * fraction;
  if (whole > 1) whole = 1; /* parts that were added up in another order than their total */
  /* A lane that was overtaken on its way here has old news. */
  bool due = whole >= run->last_fraction && now - run->last_report_ns >= run->control.interval_ms * UINT64_C(1000000);
  if (always || due) {
    run->last_report_ns = now;
    run->last_fraction = whole;
    adj_progress where = {.phase = phase, .fraction = whole, .pairs = pairs};
    stop = run->control.progress(run->control.user, &where);
  }
  pthread_mutex_unlock(&run->report_lock);
  return stop ? adji_fail(ADJ_CANCELLED, "stopped by the progress function") : ADJ_OK;
}

adj_status adji_account_batch(adji_drain *d, double work, uint64_t batches, const adji_tally *tally) {
  pthread_mutex_lock(&d->lock);
  d->work_done += work;
  d->batches += batches;
  d->tally.pairs += tally->pairs;
  d->tally.candidates += tally->candidates;
  double fraction = d->total_work > 0 ? d->work_done / d->total_work : 1;
  uint64_t pairs = d->tally.pairs;
  pthread_mutex_unlock(&d->lock);
  uint64_t most = d->run->control.max_pairs;
  if (most && pairs > most)
    return adji_fail(ADJ_E_LIMIT, "max_pairs: the result has more than the %llu pairs allowed",
                     (unsigned long long)most);
  return adji_run_report(d->run, d->pass->name, fraction, pairs, false);
}

static adj_status drain_queue(void *user, uint64_t task, uint32_t lane) {
  adji_drain *d = user;
  adji_batch batch;
  adj_status status = ADJ_OK;
  uint64_t begin = adji_now_ns();
  uint64_t turn = 0;
  while (!status && adji_queue_take(d->queue, task, d->run->ctx->threads, &turn, &batch)) {
    status = adji_check_cancel(d->run->ctx);
    if (status) break;
    adji_tally tally = {0};
    uint64_t batch_begin = d->run->ctx->trace ? adji_now_ns() : 0;
    status = d->pass->process(d->pass->user, &batch, lane, &tally);
    adji_trace(d->run->ctx, d->pass->name, lane, batch_begin, batch.end - batch.begin);
    if (!status) status = adji_account_batch(d, batch.work, 1, &tally);
  }
  double busy = (double)(adji_now_ns() - begin) * 1e-9;
  pthread_mutex_lock(&d->lock);
  d->busy_sum += busy;
  if (busy > d->busy_max) d->busy_max = busy;
  pthread_mutex_unlock(&d->lock);
  return status;
}

adj_status adji_run_pass(adji_run *run, adji_queue *queue, const adji_pass *pass, adji_tally *tally) {
  return adji_run_shared_pass(run, queue, pass, &(adji_crew){0}, tally);
}

adj_status adji_run_shared_pass(adji_run *run, adji_queue *queue, const adji_pass *pass, const adji_crew *crew,
                                adji_tally *tally) {
  adji_drain d = {.run = run, .queue = queue, .pass = pass, .crew = crew};
  adji_queue_rewind(queue);
  d.total_work = queue->left;
  pthread_mutex_init(&d.lock, NULL);
  adj_status status =
      crew->count ? adji_drain_with_devices(&d) : adji_loop(run->ctx, run->ctx->threads, drain_queue, &d);
  pthread_mutex_destroy(&d.lock);
  run->tally.pairs += d.tally.pairs;
  run->tally.candidates += d.tally.candidates;
  run->batches += d.batches;
  run->busy_max += d.busy_max;
  run->busy_sum += d.busy_sum;
  run->lanes_counted = run->ctx->threads;
  if (!status) status = adji_run_report(run, pass->name, 1, d.tally.pairs, false);
  if (tally) *tally = d.tally;
  return status;
}
