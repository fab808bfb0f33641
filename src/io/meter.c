/* SPDX-License-Identifier: MIT
 *
 * Progress of a join and of writing its result, as one figure: see meter.h.
 */
#include "io/meter.h"

/* Assumed bytes a second, used until writing has taken long enough for a measured rate. */
static const double WRITE_RATE = 2e8, SYNC_RATE = 1e9, ENOUGH_SECONDS = 0.02;

static const double NS = 1e-9;

adj_status adji_meter_begin(adji_meter *meter, const adj_run_control *control) {
  *meter = (adji_meter){.begin_ns = adji_now_ns()};
  adj_run_control_init(&meter->caller, sizeof meter->caller);
  adj_status status = ADJ_OK;
  if (control) status = adji_take_struct(&meter->caller, sizeof meter->caller, control, "adj_run_control");
  if (!status) pthread_mutex_init(&meter->lock, NULL);
  return status;
}

void adji_meter_end(adji_meter *meter) {
  pthread_mutex_destroy(&meter->lock);
}

void adji_meter_expect(adji_meter *meter, uint64_t bytes, uint64_t to_sync) {
  atomic_store(&meter->expected, bytes);
  atomic_store(&meter->to_sync, to_sync);
}

/* Seconds for the remaining bytes, at the rate so far. */
static double rest(uint64_t bytes, uint64_t done, double seconds, double usual_rate) {
  if (done >= bytes) return 0;
  double rate = done && seconds > ENOUGH_SECONDS ? (double)done / seconds : usual_rate;
  return (double)(bytes - done) / rate;
}

static double seconds_since(uint64_t since, uint64_t now) {
  return since && now > since ? (double)(now - since) * NS : 0;
}

/* The share of the whole time that has passed. */
static double share(adji_meter *meter, uint64_t now) {
  double passed = seconds_since(meter->begin_ns, now);
  double writing = (double)atomic_load(&meter->write_ns) * NS + seconds_since(atomic_load(&meter->write_since), now);
  double syncing = seconds_since(atomic_load(&meter->sync_since), now);
  double joining = passed > writing + syncing ? passed - writing - syncing : 0;
  if (meter->join <= 0) return 0;
  double follows = meter->join < 1 ? joining * (1 - meter->join) / meter->join : 0;
  follows += rest(atomic_load(&meter->expected), atomic_load(&meter->written), writing, WRITE_RATE);
  follows += rest(atomic_load(&meter->to_sync), atomic_load(&meter->synced), syncing, SYNC_RATE);
  return passed > 0 ? passed / (passed + follows) : 0;
}

/* The lock is held. */
static int call_progress(adji_meter *meter, const char *phase, uint64_t now) {
  meter->last_ns = now;
  adj_progress where = {.phase = phase, .fraction = share(meter, now), .pairs = meter->pairs};
  return meter->caller.progress(meter->caller.user, &where);
}

static int join_progress(void *user, const adj_progress *where) {
  adji_meter *meter = user;
  pthread_mutex_lock(&meter->lock);
  meter->join = where->fraction < 1 ? where->fraction : 1;
  meter->pairs = where->pairs;
  int stop = call_progress(meter, where->phase, adji_now_ns());
  pthread_mutex_unlock(&meter->lock);
  return stop;
}

adj_run_control adji_meter_control(adji_meter *meter) {
  adj_run_control control = meter->caller;
  if (control.progress) {
    control.progress = join_progress;
    control.user = meter;
  }
  return control;
}

static void end_join(adji_meter *meter) {
  pthread_mutex_lock(&meter->lock);
  meter->join = 1;
  pthread_mutex_unlock(&meter->lock);
}

void adji_meter_write_begin(adji_meter *meter, bool last) {
  if (last) end_join(meter);
  atomic_store(&meter->write_since, adji_now_ns());
}

void adji_meter_write_end(adji_meter *meter) {
  atomic_fetch_add(&meter->write_ns, adji_now_ns() - atomic_load(&meter->write_since));
  atomic_store(&meter->write_since, 0);
}

void adji_meter_sync_begin(adji_meter *meter) {
  end_join(meter);
  atomic_store(&meter->expected, 0);
  atomic_store(&meter->sync_since, adji_now_ns());
}

/* Reports progress at most every interval_ms, and not while another thread does. */
static adj_status report(adji_meter *meter, const char *phase) {
  if (!meter->caller.progress || pthread_mutex_trylock(&meter->lock)) return ADJ_OK;
  uint64_t now = adji_now_ns();
  int stop = 0;
  if (now - meter->last_ns >= meter->caller.interval_ms * UINT64_C(1000000)) stop = call_progress(meter, phase, now);
  pthread_mutex_unlock(&meter->lock);
  return stop ? adji_fail(ADJ_CANCELLED, "stopped by the progress function") : ADJ_OK;
}

adj_status adji_meter_wrote(adji_meter *meter, uint64_t bytes) {
  atomic_fetch_add(&meter->written, bytes);
  return report(meter, "write");
}

adj_status adji_meter_synced(void *user, uint64_t bytes) {
  adji_meter *meter = user;
  atomic_fetch_add(&meter->synced, bytes);
  return report(meter, "sync");
}
