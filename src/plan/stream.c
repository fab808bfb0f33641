/* SPDX-License-Identifier: MIT
 *
 * Streams the result of a plan: rows go through a buffer to the caller's sink, in windows of consecutive rows. While
 * the sink processes a window, a device may compute the next one.
 */
#include <stdatomic.h>

#include "plan/recover.h"
#include "plan/run.h"
#include "result/offsets.h"

ADJI_DEFINE_INIT(adj_sink, 0)

typedef struct stream {
  adj_plan *plan;
  adji_run *run;
  const adj_sink *sink;
  adji_layout layout;
  uint64_t room; /* entries of the buffer */
  uint32_t *ids;
  void *distances;
  uint64_t *relative; /* offsets of the rows of a window, from 0 */
  uint64_t relative_room;
  double sink_s;
} stream;

static double seconds_since(uint64_t begin_ns) {
  return (double)(adji_now_ns() - begin_ns) * 1e-9;
}

/* ---- The buffer --------------------------------------------------------------------------------------- */

typedef struct longest_search {
  const uint32_t *degrees;
  _Atomic uint64_t longest;
} longest_search;

static void find_longest(void *user, uint64_t begin, uint64_t end) {
  longest_search *s = user;
  uint64_t longest = 0, before = atomic_load(&s->longest);
  for (uint64_t i = begin; i < end; i++)
    if (s->degrees[i] > longest) longest = s->degrees[i];
  while (longest > before && !atomic_compare_exchange_weak(&s->longest, &before, longest))
    ;
}

/* The buffer has room for at least the longest row. */
static adj_status choose_room(stream *s) {
  uint64_t entry = adji_plan_entry_bytes(s->plan);
  if (s->layout.k) {
    s->room = adji_mul(adji_knn_buffer_rows(s->plan), s->layout.k);
    return ADJ_OK;
  }
  longest_search longest = {.degrees = s->layout.degrees};
  adj_status status = adji_each_row(s->plan->ctx, s->plan->left->count, find_longest, &longest);
  s->room = adji_stream_buffer(s->plan) / entry;
  if (s->room < atomic_load(&longest.longest)) s->room = atomic_load(&longest.longest);
  if (s->room > s->layout.entries) s->room = s->layout.entries;
  return status;
}

static adj_status make_buffer(stream *s) {
  adji_memory *memory = &s->plan->ctx->memory;
  adj_status status = choose_room(s);
  if (status) return status;
  s->ids = adji_alloc(memory, s->room, sizeof *s->ids, "stream buffer");
  if (!s->ids) return ADJ_E_MEMORY;
  if (!s->plan->join.style.distances) return ADJ_OK;
  s->distances = adji_alloc(memory, s->room, adji_type_size(s->plan->left->type), "stream buffer");
  return s->distances ? ADJ_OK : ADJ_E_MEMORY;
}

/* ---- The sink ----------------------------------------------------------------------------------------- */

/* If a sink stops the run without setting a message, this is the message. */
static adj_status begin_sink(stream *s) {
  uint64_t begin = adji_now_ns();
  if (!s->sink->begin) return ADJ_OK;
  adji_fail(ADJ_OK, "%s", "");
  adj_status status;
  ADJI_CALL_BACK(status = s->sink->begin(s->sink->user, s->plan->left->count, s->layout.entries, s->layout.degrees));
  if (status && !*adj_last_error()) adji_fail(status, "sink: begin returned %s", adj_status_name(status));
  s->sink_s += seconds_since(begin);
  return status;
}

static adj_status write_rows(stream *s, const adj_rows *rows) {
  uint64_t begin = adji_now_ns();
  adji_fail(ADJ_OK, "%s", "");
  adj_status status;
  ADJI_CALL_BACK(status = s->sink->write(s->sink->user, rows));
  if (status && !*adj_last_error())
    adji_fail(status, "sink: write returned %s for the %llu rows from row %llu on", adj_status_name(status),
              (unsigned long long)rows->row_count, (unsigned long long)rows->first_row);
  s->sink_s += seconds_since(begin);
  adji_trace(s->plan->ctx, "write", 0, begin, rows->row_count);
  return status;
}

static void end_sink(stream *s, adj_status status) {
  uint64_t begin = adji_now_ns();
  if (s->sink->end) ADJI_CALL_BACK(s->sink->end(s->sink->user, status));
  s->sink_s += seconds_since(begin);
}

typedef struct offsets_job {
  const adji_window *window;
  uint64_t *relative;
} offsets_job;

static void make_relative(void *user, uint64_t begin, uint64_t end) {
  const offsets_job *r = user;
  for (uint64_t i = begin; i < end; i++)
    r->relative[i] = adji_window_at(r->window, r->window->first_row + i);
}

static adj_status deliver(stream *s, const adji_window *window) {
  uint64_t rows = window->end_row - window->first_row;
  if (rows + 1 > s->relative_room) {
    s->relative_room = rows + 1;
    if (!adji_grow(&s->plan->ctx->memory, (void **)&s->relative, s->relative_room, sizeof *s->relative, 0,
                   "stream buffer"))
      return ADJ_E_MEMORY;
  }
  offsets_job r = {window, s->relative};
  adj_status status = adji_each_row(s->plan->ctx, rows + 1, make_relative, &r);
  adj_rows block = {window->first_row, rows, s->relative, window->ids, window->distances};
  return status ? status : write_rows(s, &block);
}

/* ---- Windows ------------------------------------------------------------------------------------------ */

/* As many rows as fit the buffer, from `first` on. */
static adji_window window_from(const stream *s, uint64_t first) {
  uint64_t low = first, high = s->plan->left->count; /* rows up to low fit */
  adji_window w = {.first_row = first,
                   .end_row = first,
                   .offsets = s->layout.offsets,
                   .ids = s->ids,
                   .distances = s->distances,
                   .k = s->layout.k};
  while (low < high) {
    w.end_row = low + (high - low + 1) / 2;
    if (adji_window_entries(&w) <= s->room)
      low = w.end_row;
    else
      high = w.end_row - 1;
  }
  w.end_row = low;
  return w;
}

/* The progress of the whole run when a row begins. */
static double progress_at(const stream *s, uint64_t row) {
  if (s->layout.k) return (double)row / (double)s->plan->left->count;
  return ADJI_COUNTING_SHARE +
         (1 - ADJI_COUNTING_SHARE) * (double)s->layout.offsets[row] / ((double)s->layout.entries + 1);
}

static adj_status stream_rows(stream *s) {
  adj_plan *plan = s->plan;
  uint64_t count = plan->left->count;
  adj_status status = make_buffer(s);
  if (status || !count) return status;
  for (adji_window window = window_from(s, 0), next; !status; window = next) {
    s->run->progress_from = progress_at(s, window.first_row);
    s->run->progress_to = progress_at(s, window.end_row);
    if (adji_window_entries(&window)) status = adji_fill_rows(plan, s->run, &window);
    if (status) break;
    next = window_from(s, window.end_row);
    if (window.k) adji_near_rows(plan, &window);
    if (window.end_row < count) adji_engine_prefetch(&plan->engine, s->run, &next);
    status = deliver(s, &window);
    if (!status) status = adji_check_cancel(plan->ctx);
    if (window.end_row == count) break;
  }
  return status;
}

/* ---- Small results are collected ---------------------------------------------------------------------- */

/* A result is collected if it fits this size together with the memory of single evaluation: saving evaluations is worth
 * a larger buffer than usual. */
#define SINGLE_BUFFER ((uint64_t)640 << 20)

static bool small_enough(const adj_plan *plan) {
  uint64_t buffer = plan->tuning.buffer, half = adji_memory_available(&plan->ctx->memory) / 2;
  if (!buffer) buffer = SINGLE_BUFFER < half ? SINGLE_BUFFER : half;
  double bytes = adji_collect_once_entries(plan) * (double)adji_plan_entry_bytes(plan);
  bool known = plan->sampled || plan->choice.algorithm != ADJI_ALGORITHM_KDTREE; /* few queries are not sampled */
  return known && adji_collects_once(plan) && bytes < (double)buffer;
}

typedef struct degrees_job {
  const uint64_t *offsets;
  uint32_t *degrees;
} degrees_job;

static void find_degrees(void *user, uint64_t begin, uint64_t end) {
  const degrees_job *d = user;
  for (uint64_t i = begin; i < end; i++)
    d->degrees[i] = (uint32_t)(d->offsets[i + 1] - d->offsets[i]);
}

/* Collects rows and their lengths. */
static adj_status collect_once(stream *s, adj_result *result) {
  adj_plan *plan = s->plan;
  uint64_t count = plan->left->count;
  adj_status status = adji_engine_collect(&plan->engine, s->run, result);
  if (status) return status;
  s->layout.entries = result->pairs;
  s->layout.degrees = adji_alloc(&plan->ctx->memory, count, sizeof *s->layout.degrees, "neighbour counts");
  if (!s->layout.degrees) return ADJ_E_MEMORY;
  degrees_job d = {result->offsets, s->layout.degrees};
  return adji_each_row(plan->ctx, count, find_degrees, &d);
}

static adj_status deliver_collected(stream *s, const adj_result *result) {
  adj_plan *plan = s->plan;
  uint64_t count = plan->left->count;
  adj_status status = begin_sink(s);
  adji_window all = {.end_row = count, .offsets = result->offsets, .ids = result->ids, .distances = result->distances};
  if (!status && count) status = deliver(s, &all);
  if (!status) status = adji_check_cancel(plan->ctx);
  end_sink(s, status);
  return status;
}

/* ---- All of it ---------------------------------------------------------------------------------------- */

/* Checks max_pairs before the first row is delivered, if necessary by counting. */
static adj_status check_knn(stream *s) {
  adj_plan *plan = s->plan;
  uint64_t pairs, most = s->run->control.max_pairs;
  if (!plan->join.k) return ADJ_OK;
  if (!adji_knn_is_bounded(plan)) return adji_run_check_pairs(s->run, adji_knn_most_pairs(plan));
  if (!most || adji_knn_most_pairs(plan) <= most) return ADJ_OK;
  adji_run counting;
  adj_status status = adji_plan_begin(plan, &counting, &s->run->control);
  if (!status) status = adji_knn_count(plan, &counting, NULL, &pairs);
  adji_plan_end(&counting);
  return status;
}

static adj_status stream_to_sink(stream *s) {
  adj_plan *plan = s->plan;
  if (small_enough(plan)) {
    adj_result *result = adji_result_create(plan->ctx, plan->left->count, plan->left->type);
    if (!result) return ADJ_E_MEMORY;
    adj_status status = collect_once(s, result);
    bool instead = adji_counts_instead(plan, s->run, status);
    if (!status) status = deliver_collected(s, result);
    adj_result_destroy(result);
    if (!instead) return status;
    adji_free(&plan->ctx->memory, s->layout.degrees);
    s->layout = (adji_layout){0};
  }
  adj_status status = check_knn(s);
  if (!status) status = adji_lay_out(plan, s->run, true, &s->layout);
  if (status) return status;
  status = begin_sink(s);
  if (!status) status = stream_rows(s);
  end_sink(s, status);
  return status;
}

adj_status adj_stream(adj_plan *plan, const adj_sink *sink, const adj_run_control *control, adj_stats *stats) {
  if (!plan || !sink) return adji_fail(ADJ_E_ARGUMENT, "plan and sink: neither may be NULL");
  adj_sink copy;
  adj_sink_init(&copy, sizeof copy);
  adji_run run;
  uint64_t begin = adji_now_ns();
  adj_status status = adji_take_struct(&copy, sizeof copy, sink, "adj_sink");
  if (!status && !copy.write) status = adji_fail(ADJ_E_ARGUMENT, "sink: write must not be NULL");
  if (!status) status = adji_plan_begin(plan, &run, control);
  if (status) return status;
  stream s = {.plan = plan, .run = &run, .sink = &copy};
  status = stream_to_sink(&s);
  uint64_t pairs = plan->join.k ? run.tally.pairs : s.layout.entries;
  if (!status) status = adji_finish_run(plan, &run, begin, s.sink_s, pairs, stats);
  adji_free(&plan->ctx->memory, s.ids);
  adji_free(&plan->ctx->memory, s.distances);
  adji_free(&plan->ctx->memory, s.relative);
  adji_layout_clear(plan, &s.layout);
  adji_plan_end(&run);
  return status;
}
