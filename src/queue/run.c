/* SPDX-License-Identifier: MIT
 *
 * A run: see run.h.
 */
#include "queue/run.h"

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
  run->outer = adji_call_begin(&ctx->cancels);
  return ADJ_OK;
}

void adji_run_clear(adji_run *run) {
  pthread_mutex_destroy(&run->report_lock);
  adji_call_set(run->outer);
}

uint32_t adji_run_worker(const adji_run *run, const void *who) {
  for (uint32_t w = 1; w < run->worker_count; w++)
    if (run->workers[w].who == who) return w;
  return 0;
}

void adji_run_add_workers(adji_run *run, const adji_run *inner) {
  for (uint32_t w = 0; w < inner->worker_count; w++) {
    const adji_worker_stats *more = &inner->workers[w];
    uint32_t at = 0;
    while (at < run->worker_count && run->workers[at].name != more->name)
      at++;
    adji_worker_stats *to = &run->workers[at];
    if (at == run->worker_count) *to = (adji_worker_stats){.name = more->name, .who = more->name};
    if (at == run->worker_count) run->worker_count++;
    to->queries += more->queries;
    to->batches += more->batches;
    to->failed += more->failed;
    to->busy_s += more->busy_s;
  }
  run->apart_s += inner->apart_s;
  run->shared_s += inner->shared_s;
}

adj_status adji_run_report(adji_run *run, const char *phase, double fraction, uint64_t pairs, bool always) {
  if (!run->control.progress) return ADJ_OK;
  if (pthread_mutex_trylock(&run->report_lock)) return ADJ_OK; /* another lane is reporting */
  uint64_t now = adji_now_ns();
  int stop = 0;
  double whole = run->progress_from + (run->progress_to - run->progress_from) * fraction;
  if (whole > 1) whole = 1; /* rounding: the parts are summed in another order than the total */
  /* Another lane may have reported newer figures before this one got the lock. */
  bool due = whole >= run->last_fraction && now - run->last_report_ns >= run->control.interval_ms * UINT64_C(1000000);
  if (always || due) {
    run->last_report_ns = now;
    run->last_fraction = whole;
    adj_progress where = {.phase = phase, .fraction = whole, .pairs = pairs};
    ADJI_CALL_BACK(stop = run->control.progress(run->control.user, &where));
  }
  pthread_mutex_unlock(&run->report_lock);
  return stop ? adji_fail(ADJ_CANCELLED, "stopped by the progress function") : ADJ_OK;
}

adj_status adji_run_check_pairs(const adji_run *run, uint64_t pairs) {
  uint64_t most = run->control.max_pairs;
  if (!most || pairs <= most) return ADJ_OK;
  return adji_fail(ADJ_E_LIMIT, "max_pairs: the result has more than the %llu pairs allowed", (unsigned long long)most);
}
