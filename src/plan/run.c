/* SPDX-License-Identifier: MIT
 *
 * Running a plan: count, collect, stream. Counting comes first, so that every row's place is known
 * before a pair is written: a result is filled in place, in one window or in several.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/run_knn.h"
#include "result/offsets.h"
#include "result/result.h"

void adj_stats_init(adj_stats *stats, size_t struct_size) {
  adj_stats defaults = {0};
  adji_init_struct(stats, struct_size, &defaults, sizeof defaults);
}

void adj_sink_init(adj_sink *sink, size_t struct_size) {
  adj_sink defaults = {0};
  adji_init_struct(sink, struct_size, &defaults, sizeof defaults);
}

static double seconds_since(uint64_t begin_ns) {
  return (double)(adji_now_ns() - begin_ns) * 1e-9;
}

/* ---- Figures ----------------------------------------------------------------------------------------- */

static void tell_device(const adj_plan *plan, const adji_run *run, adj_stats *stats) {
  const adji_device_stats *device = &run->device;
  double threads = plan->ctx->threads;
  stats->kernel_s = device->kernel_s;
  stats->upload_s = device->up_s / threads;
  stats->download_s = device->down_s / threads;
  stats->place_s = device->place_s / threads;
  stats->bytes_up = device->bytes_up;
  stats->bytes_down = device->bytes_down;
  stats->warp_efficiency = device->slots ? (double)run->tally.candidates / (double)device->slots : 0;
  stats->prefilter_queries = device->sift.queries;
  stats->prefilter_sums = device->sift.sums;
  stats->prefilter_again = device->sift.again;
  stats->prefilter_failed = device->sift.failed;
  stats->grid_queries = device->grid.queries;
  stats->grid_failed = device->grid.failed;
  stats->grid_reindexed = device->grid.reindexed;
  stats->grid_epsilon = device->grid.epsilon;
  stats->grid_epsilon_s = device->grid.epsilon_s;
  stats->grid_reindex_s = device->grid.reindex_s;
}

static void tell_workers(const adji_run *run, adj_stats *stats) {
  _Static_assert(ADJ_MOST_WORKERS == 1 + ADJI_MOST_DEVICES, "a place for each worker");
  stats->worker_count = run->worker_count;
  stats->worker_imbalance = run->shared_s > 0 ? run->apart_s / run->shared_s : 0;
  for (uint32_t w = 0; w < run->worker_count; w++) {
    const adji_worker_stats *from = &run->workers[w];
    stats->workers[w] = (adj_worker){.name = from->name,
                                     .queries = from->queries,
                                     .batches = from->batches,
                                     .failed = from->failed,
                                     .busy_s = from->busy_s,
                                     .rate = from->busy_s > 0 ? (double)from->queries / from->busy_s : 0};
  }
}

adj_status adji_finish_run(adj_plan *plan, adji_run *run, uint64_t begin_ns, double sink_s, uint64_t pairs,
                           adj_stats *stats) {
  adj_stats mine = {.struct_size = sizeof mine};
  mine.threads = plan->ctx->threads;
  mine.backend = adji_backend_name(plan->choice.backend);
  mine.algorithm = adji_algorithm_name(plan->choice.algorithm);
  mine.isa = plan->ctx->isa;
  mine.plan_s = plan->plan_s;
  mine.index_s = plan->index_s;
  mine.write_s = sink_s;
  mine.join_s = seconds_since(begin_ns) - sink_s;
  mine.pairs = pairs;
  mine.candidates = run->tally.candidates;
  mine.batches = run->batches;
  mine.batches_redone = run->redone;
  uint64_t peak = atomic_load(&plan->ctx->memory.peak);
  mine.peak_bytes = peak > plan->plan_peak ? peak : plan->plan_peak;
  mine.cells = plan->cells;
  double mean = run->busy_sum / plan->ctx->threads;
  mine.imbalance = mean > 0 ? (run->busy_max - mean) / mean : 0;
  mine.estimated_pairs = plan->estimated_pairs;
  mine.estimated_candidates = plan->estimated_candidates;
  tell_device(plan, run, &mine);
  tell_workers(run, &mine);
  plan->last = mine;
  plan->ran = true;
  return stats ? adji_give_struct(stats, &mine, sizeof mine, "adj_stats") : ADJ_OK;
}

/* ---- Count ---------------------------------------------------------------------------------------------- */

adj_status adj_count(adj_plan *plan, uint32_t *degrees, uint64_t *total, const adj_run_control *control,
                     adj_stats *stats) {
  if (!plan) return adji_fail(ADJ_E_ARGUMENT, "plan: must not be NULL");
  if (plan->spec.kind == ADJ_KNN) return adji_knn_count(plan, degrees, total, control, stats);
  adji_run run;
  uint64_t begin = adji_now_ns(), pairs = 0, left = plan->left->count;
  uint32_t *mine = NULL;
  adj_status status = adji_run_init(&run, plan->ctx, control);
  if (status) return status;
  if (degrees) {
    /* The caller's array stays untouched on failure. */
    mine = adji_alloc(&plan->ctx->memory, left, sizeof *mine, "neighbour counts");
    if (!mine) status = ADJ_E_MEMORY;
  }
  if (!status) status = plan->engine.count(plan->engine.state, &run, mine, &pairs);
  if (!status) status = adji_finish_run(plan, &run, begin, 0, pairs, stats);
  if (!status && degrees && left) memcpy(degrees, mine, left * sizeof *mine);
  if (!status && total) *total = pairs;
  adji_free(&plan->ctx->memory, mine);
  adji_run_clear(&run);
  return status;
}

/* ---- Offsets ---------------------------------------------------------------------------------------------- */

/* Degrees, and the offsets they add up to, as far as they are needed by a run that fills rows. */
typedef struct rows_ahead {
  uint32_t *degrees;
  uint64_t *offsets; /* left count + 1 */
  uint64_t pairs;
} rows_ahead;

static void rows_clear(adj_plan *plan, rows_ahead *rows) {
  adji_free(&plan->ctx->memory, rows->degrees);
  adji_free(&plan->ctx->memory, rows->offsets);
}

/* An engine that has the offsets itself hands them over; with degrees only where they are wanted. */
static adj_status take_offsets(adj_plan *plan, adji_run *run, rows_ahead *rows) {
  adj_status status = plan->engine.count(plan->engine.state, run, rows->degrees, &rows->pairs);
  if (status) return status;
  rows->offsets = adji_alloc(&plan->ctx->memory, plan->left->count + 1, sizeof *rows->offsets, "row offsets");
  return rows->offsets ? plan->engine.offsets(plan->engine.state, run, rows->offsets) : ADJ_E_MEMORY;
}

static adj_status add_up_degrees(adj_plan *plan, adji_run *run, rows_ahead *rows) {
  uint64_t count = plan->left->count;
  adj_status status = plan->engine.count(plan->engine.state, run, rows->degrees, &rows->pairs);
  if (status) return status;
  rows->offsets = adji_alloc(&plan->ctx->memory, count + 1, sizeof *rows->offsets, "row offsets");
  if (!rows->offsets) return ADJ_E_MEMORY;
  return adji_offsets_add_up(plan->ctx, rows->degrees, count, rows->offsets);
}

static adj_status count_rows(adj_plan *plan, adji_run *run, rows_ahead *rows, bool degrees) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t count = plan->left->count;
  if (degrees || !plan->engine.offsets) {
    rows->degrees = adji_alloc(memory, count, sizeof *rows->degrees, "neighbour counts");
    if (!rows->degrees) return ADJ_E_MEMORY;
  }
  run->progress_to = 0.4;
  run->fills = true;
  adj_status status = plan->engine.offsets ? take_offsets(plan, run, rows) : add_up_degrees(plan, run, rows);
  if (status) return status;
  if (rows->offsets[count] != rows->pairs) return adji_fail(ADJ_E_INTERNAL, "the counts of the rows do not add up");
  run->progress_from = 0.4;
  run->progress_to = 1;
  return ADJ_OK;
}

/* ---- Collect ------------------------------------------------------------------------------------------------ */

/* Says how large the result would be when it cannot be held. */
adj_status adji_check_fits(adj_plan *plan, double pairs, bool exact) {
  double bytes = pairs * (double)adji_plan_entry_bytes(plan);
  const adji_memory *memory = &plan->ctx->memory;
  if (bytes < 0x1p62 && adji_fits(memory, (uint64_t)bytes)) return ADJ_OK;
  char need[32], limit[32];
  return adji_fail(ADJ_E_MEMORY,
                   "the result has %s%.0f pairs and would need %s; the memory limit is %s: stream it, write it to a "
                   "file, or count only",
                   exact ? "" : "about ", pairs, adji_bytes_text(bytes, need),
                   adji_bytes_text((double)memory->limit, limit));
}

static uint64_t distance_size(const adj_plan *plan) {
  return plan->join.style.distances ? adji_type_size(plan->left->type) : 0;
}

static void drop_rows(adj_plan *plan, adj_result *result) {
  adji_free(&plan->ctx->memory, result->ids);
  adji_free(&plan->ctx->memory, result->distances);
  result->ids = NULL;
  result->distances = NULL;
}

/* While a device counts, cores have nothing to do but to get the memory that the rows will take, or the most of it: by
 * the estimate, which may be off. The room is for as much as it may be off, and takes no memory. A device that compares
 * so few candidates has counted before a core has got a huge page. */
static const double FEW_CANDIDATES = 5e9;

static void get_ahead(adj_plan *plan, adji_run *run, adj_result *result) {
  enum { LEAST = 64 << 20, ROOM = 4 };
  adji_memory *memory = &plan->ctx->memory;
  uint64_t size = distance_size(plan);
  double entries = 0.9 * plan->estimated_pairs, bytes = entries * (double)adji_plan_entry_bytes(plan);
  double beside = 8 * ((double)plan->left->count + 1); /* offsets, which must not want for it */
  uint64_t most = run->control.max_pairs;
  if (!plan->engine.offsets || plan->estimated_candidates < FEW_CANDIDATES || (most && entries > (double)most)) return;
  if (bytes < LEAST || bytes > 0x1p50 || !adji_fits(memory, (uint64_t)(1.1 * bytes + beside))) return;
  uint64_t ids = (uint64_t)entries * sizeof *result->ids, distances = (uint64_t)entries * size;
  result->ids = adji_alloc_ahead(memory, ids, ROOM * ids);
  if (result->ids && size) result->distances = adji_alloc_ahead(memory, distances, ROOM * distances);
  if (result->ids && (result->distances || !size))
    run->ahead = (adji_ahead){result->ids, result->distances, (uint64_t)entries};
  else
    drop_rows(plan, result);
}

/* False: there is none, or it has no room for so many. */
static bool take_ahead(adj_plan *plan, adji_run *run, uint64_t pairs) {
  adji_memory *memory = &plan->ctx->memory;
  const adji_ahead *ahead = &run->ahead;
  return ahead->ids && adji_resize(memory, ahead->ids, pairs * sizeof *ahead->ids) &&
         (!ahead->distances || adji_resize(memory, ahead->distances, pairs * distance_size(plan)));
}

static adj_status make_rows(adj_plan *plan, uint64_t pairs, adj_result *result) {
  adji_memory *memory = &plan->ctx->memory;
  drop_rows(plan, result);
  adj_status status = adji_check_fits(plan, (double)pairs, true);
  if (status) return status;
  result->ids = adji_alloc(memory, pairs, sizeof *result->ids, "result");
  if (result->ids && plan->join.style.distances)
    result->distances = adji_alloc(memory, pairs, distance_size(plan), "result");
  return result->ids && (result->distances || !plan->join.style.distances) ? ADJ_OK : ADJ_E_MEMORY;
}

static adj_status fill_result(adj_plan *plan, adji_run *run, rows_ahead *rows, adj_result *result) {
  adj_status status = take_ahead(plan, run, rows->pairs) ? ADJ_OK : make_rows(plan, rows->pairs, result);
  if (status) return status;
  adji_window window = {0, plan->left->count, rows->offsets, result->ids, result->distances};
  return plan->engine.fill(plan->engine.state, run, &window);
}

static bool estimate_fits(const adj_plan *plan, double factor) {
  double bytes = plan->estimated_pairs * factor * (double)adji_plan_entry_bytes(plan);
  return bytes < 0x1p62 && adji_fits(&plan->ctx->memory, (uint64_t)bytes);
}

/* A result four times too large by the estimate is refused before any work is done. Closer ones are
 * counted first, and refused by the count: estimates are never trusted. */
static adj_status refuse_early(adj_plan *plan) {
  return estimate_fits(plan, 0.25) ? ADJ_OK : adji_check_fits(plan, plan->estimated_pairs, false);
}

/* Evaluating once holds half of the pairs a second time, and those of a device all; without room for that, they are
 * counted. */
static double single_factor(const adj_plan *plan) {
  return plan->choice.backend != ADJ_BACKEND_HYBRID ? 1.6 : 2.1;
}
static bool collect_at_once(const adj_plan *plan) {
  return plan->choice.once && plan->engine.collect && estimate_fits(plan, single_factor(plan));
}

adj_status adj_collect(adj_plan *plan, adj_result **out, const adj_run_control *control, adj_stats *stats) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  if (plan->spec.kind == ADJ_KNN) return adji_knn_collect(plan, out, control, stats);
  adji_run run;
  uint64_t begin = adji_now_ns();
  rows_ahead rows = {0};
  adj_status status = adji_run_init(&run, plan->ctx, control);
  if (status) return status;
  adj_result *result = adji_result_create(plan->ctx, plan->left->count, plan->left->type);
  if (!result) status = ADJ_E_MEMORY;
  if (!status) status = refuse_early(plan);
  if (!status && collect_at_once(plan)) {
    status = plan->engine.collect(plan->engine.state, &run, result);
    rows.pairs = result->pairs;
  } else if (!status) {
    get_ahead(plan, &run, result);
    status = count_rows(plan, &run, &rows, false);
    adji_free(&plan->ctx->memory, rows.degrees);
    rows.degrees = NULL;
    if (!status) status = fill_result(plan, &run, &rows, result);
    result->offsets = rows.offsets;
    result->pairs = rows.pairs;
  }
  if (!status) status = adji_finish_run(plan, &run, begin, 0, rows.pairs, stats);
  if (status)
    adj_result_destroy(result);
  else
    *out = result;
  adji_run_clear(&run);
  return status;
}

/* ---- Stream --------------------------------------------------------------------------------------------------- */

typedef struct stream {
  adj_plan *plan;
  adji_run *run;
  const adj_sink *sink;
  rows_ahead rows;
  uint64_t room; /* entries of the buffer */
  uint32_t *ids;
  void *distances;
  uint64_t *relative; /* offsets of the rows of a window, from 0 */
  uint64_t relative_room;
  double sink_s;
} stream;

/* The buffer: what the tuning says, or a fair share of what the limit leaves; at least the longest
 * row. */
static adj_status make_buffer(stream *s) {
  adji_memory *memory = &s->plan->ctx->memory;
  uint64_t entry = adji_plan_entry_bytes(s->plan), count = s->plan->left->count, longest = 1;
  for (uint64_t i = 0; i < count; i++)
    if (s->rows.degrees[i] > longest) longest = s->rows.degrees[i];
  uint64_t left = memory->limit - atomic_load(&memory->used);
  uint64_t bytes = s->plan->tuning.buffer ? s->plan->tuning.buffer : ADJI_DEFAULT_BUFFER;
  if (!s->plan->tuning.buffer && (bytes > left / 2 || s->plan->engine.large_windows)) bytes = left / 2;
  s->room = bytes / entry > longest ? bytes / entry : longest;
  if (s->room > s->rows.pairs) s->room = s->rows.pairs;
  s->ids = adji_alloc(memory, s->room, sizeof *s->ids, "stream buffer");
  if (!s->ids) return ADJ_E_MEMORY;
  if (entry > 4) {
    s->distances = adji_alloc(memory, s->room, entry - 4, "stream buffer");
    if (!s->distances) return ADJ_E_MEMORY;
  }
  return ADJ_OK;
}

static uint64_t window_end(const stream *s, uint64_t first) {
  uint64_t end = first, count = s->plan->left->count;
  while (end < count && s->rows.offsets[end + 1] - s->rows.offsets[first] <= s->room)
    end++;
  return end;
}

adj_status adji_sink_begin(const adj_sink *sink, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  if (!sink->begin) return ADJ_OK;
  adji_fail(ADJ_OK, "%s", "");
  adj_status status = sink->begin(sink->user, rows, pairs, degrees);
  if (status && !*adj_last_error()) adji_fail(status, "sink: begin returned %s", adj_status_name(status));
  return status;
}

adj_status adji_sink_write(const adj_sink *sink, const adj_rows *rows) {
  adji_fail(ADJ_OK, "%s", "");
  adj_status status = sink->write(sink->user, rows);
  if (status && !*adj_last_error())
    adji_fail(status, "sink: write returned %s for the %llu rows from row %llu on", adj_status_name(status),
              (unsigned long long)rows->row_count, (unsigned long long)rows->first_row);
  return status;
}

static adj_status deliver(stream *s, const adji_window *window) {
  uint64_t rows = window->end_row - window->first_row;
  if (rows + 1 > s->relative_room) {
    s->relative_room = rows + 1;
    if (!adji_grow(&s->plan->ctx->memory, (void **)&s->relative, s->relative_room, sizeof *s->relative, 0,
                   "stream buffer"))
      return ADJ_E_MEMORY;
  }
  for (uint64_t i = 0; i <= rows; i++)
    s->relative[i] = window->offsets[window->first_row + i] - window->offsets[window->first_row];
  adj_rows block = {window->first_row, rows, s->relative, window->ids, window->distances};
  uint64_t begin = adji_now_ns();
  adj_status status = adji_sink_write(s->sink, &block);
  s->sink_s += seconds_since(begin);
  adji_trace(s->plan->ctx, "write", 0, begin, rows);
  return status;
}

static adj_status stream_rows(stream *s) {
  uint64_t count = s->plan->left->count;
  adj_status status = make_buffer(s);
  for (uint64_t first = 0; first < count && !status;) {
    uint64_t end = window_end(s, first);
    adji_window window = {first, end, s->rows.offsets, s->ids, s->distances};
    double pairs = (double)s->rows.pairs + 1;
    s->run->progress_from = 0.4 + 0.6 * (double)s->rows.offsets[first] / pairs;
    s->run->progress_to = 0.4 + 0.6 * (double)s->rows.offsets[end] / pairs;
    if (s->rows.offsets[end] > s->rows.offsets[first])
      status = s->plan->engine.fill(s->plan->engine.state, s->run, &window);
    if (!status) status = deliver(s, &window);
    if (!status) status = adji_check_cancel(s->plan->ctx);
    first = end;
  }
  return status;
}

static adj_status begin_sink(stream *s) {
  uint64_t begin = adji_now_ns();
  adj_status status = adji_sink_begin(s->sink, s->plan->left->count, s->rows.pairs, s->rows.degrees);
  s->sink_s += seconds_since(begin);
  return status;
}

static void end_sink(stream *s, adj_status status) {
  uint64_t begin = adji_now_ns();
  if (s->sink->end) s->sink->end(s->sink->user, status);
  s->sink_s += seconds_since(begin);
}

/* Whether the whole result, and what evaluating once needs beside it, is small: then it is collected,
 * in a fraction of the evaluations, which is worth a larger buffer than the usual one. */
static bool small_enough(const adj_plan *plan) {
  const adji_memory *memory = &plan->ctx->memory;
  uint64_t buffer = plan->tuning.buffer, left = memory->limit - atomic_load(&memory->used);
  if (!buffer) buffer = ADJI_SINGLE_BUFFER < left / 2 ? ADJI_SINGLE_BUFFER : left / 2;
  double bytes = plan->estimated_pairs * (double)adji_plan_entry_bytes(plan);
  return collect_at_once(plan) && single_factor(plan) * bytes < (double)buffer;
}

static adj_status stream_collected(stream *s, adj_result *result) {
  uint64_t count = s->plan->left->count;
  adj_status status = s->plan->engine.collect(s->plan->engine.state, s->run, result);
  if (status) return status;
  s->rows.pairs = result->pairs;
  s->rows.degrees = adji_alloc(&s->plan->ctx->memory, count, sizeof *s->rows.degrees, "neighbour counts");
  if (!s->rows.degrees) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count; i++)
    s->rows.degrees[i] = (uint32_t)(result->offsets[i + 1] - result->offsets[i]);
  status = begin_sink(s);
  adji_window all = {0, count, result->offsets, result->ids, result->distances};
  if (!status && count) status = deliver(s, &all);
  end_sink(s, status);
  return status;
}

static adj_status stream_to_sink(stream *s) {
  if (small_enough(s->plan)) {
    adj_result *result = adji_result_create(s->plan->ctx, s->plan->left->count, s->plan->left->type);
    if (!result) return ADJ_E_MEMORY;
    adj_status status = stream_collected(s, result);
    adj_result_destroy(result);
    return status;
  }
  adj_status status = count_rows(s->plan, s->run, &s->rows, true);
  if (status) return status;
  status = begin_sink(s);
  if (!status) status = stream_rows(s);
  end_sink(s, status);
  return status;
}

adj_status adj_stream(adj_plan *plan, const adj_sink *sink, const adj_run_control *control, adj_stats *stats) {
  if (!plan || !sink) return adji_fail(ADJ_E_ARGUMENT, "plan and sink: neither may be NULL");
  adj_sink mine;
  adj_sink_init(&mine, sizeof mine);
  adji_run run;
  uint64_t begin = adji_now_ns();
  adj_status status = adji_take_struct(&mine, sizeof mine, sink, "adj_sink");
  if (!status && !mine.write) status = adji_fail(ADJ_E_ARGUMENT, "sink: write must not be NULL");
  if (!status && plan->spec.kind == ADJ_KNN) return adji_knn_stream(plan, &mine, control, stats);
  if (!status) status = adji_run_init(&run, plan->ctx, control);
  if (status) return status;
  stream s = {.plan = plan, .run = &run, .sink = &mine};
  status = stream_to_sink(&s);
  if (!status) status = adji_finish_run(plan, &run, begin, s.sink_s, s.rows.pairs, stats);
  adji_free(&plan->ctx->memory, s.ids);
  adji_free(&plan->ctx->memory, s.distances);
  adji_free(&plan->ctx->memory, s.relative);
  rows_clear(plan, &s.rows);
  adji_run_clear(&run);
  return status;
}
