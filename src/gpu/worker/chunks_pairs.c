/* SPDX-License-Identifier: MIT
 *
 * Chunks, and the joins of two of them: see chunks_private.h.
 *
 * Of a self-join, a chunk with itself is a self-join too, which leaves out what the whole leaves out. A chunk with
 * another one is a join of two sets that leaves nothing out: no id is that of the row, and where only ids above the
 * row's are wanted, all ids of a later chunk are, and none of an earlier one.
 */
#include "gpu/worker/chunks_private.h"

/* Smaller chunks are not tried: a device that has no room for them has none for anything. */
enum { LEAST_SIZE = 256 };

/* ---- Chunks --------------------------------------------------------------------------------------------- */

uint64_t adji_chunk_count(const adji_chunks *c, const adj_dataset *set) {
  return (set->count + c->size - 1) / c->size;
}

adji_chunk adji_chunk_at(const adji_chunks *c, const adj_dataset *set, uint64_t i) {
  uint64_t first = i * c->size;
  return (adji_chunk){first, set->count - first < c->size ? set->count : first + c->size};
}

bool adji_chunk_own(const adji_chunks *c, adji_chunk rows, adji_chunk ids) {
  return c->join.self_join && rows.first >= ids.first && rows.end <= ids.end;
}

bool adji_chunk_skipped(const adji_chunks *c, adji_chunk rows, adji_chunk ids) {
  return c->join.style.one_way && ids.end <= rows.first;
}

bool adji_chunks_shrink(adji_chunks *c, adj_status status) {
  if (status != ADJ_E_DEVICE_MEMORY || c->size / 2 < LEAST_SIZE) return false;
  c->size = (c->size + 1) / 2;
  return true;
}

/* ---- Joins of two chunks ---------------------------------------------------------------------------------- */

/* Rows of a set as a set; what it owns stays the set's. */
static adj_dataset view_of(const adj_dataset *set, adji_chunk rows) {
  adj_dataset view = *set;
  view.data = set->count ? set->data + rows.first * set->row_stride : set->data;
  view.count = rows.end - rows.first;
  view.label_text = NULL;
  view.label_ends = NULL;
  view.release = NULL;
  return view;
}

adj_status adji_chunk_open(adji_chunks *c, adji_chunk rows, adji_chunk ids, adji_chunk_pair *p) {
  adj_status status = adji_check_cancel(c->join.ctx);
  if (status) return status;
  bool own = adji_chunk_own(c, rows, ids);
  *p = (adji_chunk_pair){.rows = own ? ids : rows, .ids = ids};
  p->left = view_of(c->join.left, p->rows);
  p->right = view_of(c->join.right, p->ids);
  adji_join join = c->join;
  join.self_join = own;
  join.left = &p->left;
  join.right = own ? &p->left : &p->right;
  join.style = c->style;
  join.style.drop_self = own && c->join.style.drop_self;
  join.style.one_way = own && c->join.style.one_way;
  adji_worker worker;
  status = c->source.open(c->source.state, &join, &worker);
  if (!status) adji_engine_init(&p->engine, &join, &worker);
  return status;
}

void adji_chunk_close(adji_chunk_pair *p) {
  adji_engine_clear(&p->engine);
}

/* ---- Runs of them ---------------------------------------------------------------------------------------------- */

static int hand_on(void *user, const adj_progress *where) {
  adji_chunk_run *r = user;
  double fraction = r->all > 0 ? (r->done + r->share * where->fraction) / r->all : 1;
  uint64_t pairs = r->share > 0 ? r->pairs + where->pairs : r->pairs;
  return adji_run_report(r->whole, r->phase, fraction, pairs, false) != ADJ_OK;
}

void adji_chunk_run_begin(adji_chunk_run *r, adji_run *whole, const char *phase) {
  *r = (adji_chunk_run){.whole = whole, .phase = phase};
  r->run = (adji_run){.ctx = whole->ctx, .outer = adji_call_current(), .progress_to = 1};
  adj_run_control_init(&r->run.control, sizeof r->run.control);
  r->run.control.interval_ms = 0; /* the whole run's interval counts */
  if (whole->control.progress) r->run.control.progress = hand_on;
  r->run.control.user = r;
  pthread_mutex_init(&r->run.report_lock, NULL);
}

void adji_chunk_run_end(adji_chunk_run *r, adji_tally *tally) {
  adji_run *whole = r->whole;
  tally->candidates += r->run.tally.candidates;
  whole->batches += r->run.batches;
  whole->redone += r->run.redone;
  whole->busy_max += r->run.busy_max;
  whole->busy_sum += r->run.busy_sum;
  adji_device_stats_add(&whole->device, &r->run.device);
  adji_run_clear(&r->run);
}

void adji_chunk_run_next(adji_chunk_run *r, double done, double share, uint64_t pairs) {
  r->done = done;
  r->share = share;
  r->pairs = pairs;
  r->run.last_fraction = 0;
}
