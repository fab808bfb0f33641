/* SPDX-License-Identifier: MIT
 *
 * Runs a plan: count and collect. plan/stream.c streams.
 *
 * The place of every row is known before a pair is written, so a result is filled in place. A range join counts its
 * rows first. In a kNN join every row has k entries.
 */
#include "plan/run.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/brute.h"
#include "cpu/knn.h"
#include "plan/recover.h"
#include "result/offsets.h"
#include "result/result.h"

ADJI_DEFINE_INIT(adj_stats, 0)

/* ---- Statistics ----------------------------------------------------------------------------------------- */

static void report_device(const adj_plan *plan, const adji_run *run, adj_stats *stats) {
  const adji_device_stats *device = &run->device;
  double threads = plan->ctx->threads;
  stats->kernel_s = device->kernel_s;
  stats->upload_s = device->up_s / threads;
  stats->download_s = device->down_s / threads;
  stats->place_s = device->place_s / threads;
  stats->bytes_up = device->bytes_up;
  stats->bytes_down = device->bytes_down;
  stats->warp_efficiency = device->slots ? (double)device->compared / (double)device->slots : 0;
  stats->prefilter_queries = device->prefilter.queries;
  stats->prefilter_sums = device->prefilter.sums;
  stats->prefilter_again = device->prefilter.again;
  stats->prefilter_failed = device->prefilter.failed;
  stats->prefilter_tiles = device->prefilter.tiles;
  stats->prefilter_tiles_scanned = device->prefilter.tiles_scanned;
  stats->grid_queries = device->grid.queries;
  stats->grid_failed = device->grid.failed;
  stats->grid_reindexed = device->grid.reindexed;
  stats->grid_epsilon = device->grid.epsilon;
  stats->grid_epsilon_s = device->grid.epsilon_s;
  stats->grid_reindex_s = device->grid.reindex_s;
}

/* Reports the order of queries by cells; epsilon is the device's if there is one. */
static void report_order(const adj_plan *plan, adj_stats *stats) {
  stats->grid_order_s = plan->queue_order.order_s;
  if (!(plan->queue_order.epsilon > 0)) return;
  stats->grid_epsilon = plan->queue_order.epsilon;
  stats->grid_epsilon_s = plan->queue_order.epsilon_s;
}

static void report_workers(const adji_run *run, adj_stats *stats, adj_worker *workers) {
  stats->worker_count = run->worker_count;
  stats->worker_imbalance = run->shared_s > 0 ? run->apart_s / run->shared_s : 0;
  for (uint32_t w = 0; w < run->worker_count; w++) {
    const adji_worker_stats *from = &run->workers[w];
    workers[w] = (adj_worker){.name = from->name,
                              .queries = from->queries,
                              .batches = from->batches,
                              .failed = from->failed,
                              .busy_s = from->busy_s,
                              .rate = from->busy_s > 0 ? (double)from->queries / from->busy_s : 0};
  }
}

/* Reports GPU-Join's choice of the number of indexed dimensions, and ours. */
static void report_indexed(const adj_plan *plan, adj_stats *stats) {
  const adji_grid_choice *grid = &plan->device.grid;
  if (plan->choice.backend == ADJ_BACKEND_CPU || !grid->memory_count) return;
  stats->indexed_count = grid->memory_count;
  stats->indexed_fewest = adji_fewest_memory_operations(grid);
  for (uint32_t k = 1; k <= grid->memory_count; k++) {
    stats->indexed_search[k - 1] = grid->memory[k].search;
    stats->indexed_compare[k - 1] = grid->memory[k].compare;
    stats->indexed_s[k - 1] = grid->memory[k].cost_s;
  }
}

adj_status adji_finish_run(adj_plan *plan, adji_run *run, uint64_t begin_ns, double sink_s, uint64_t pairs,
                           adj_stats *stats) {
  adj_stats local = {.struct_size = sizeof local};
  local.threads = plan->ctx->threads;
  local.backend = adji_backend_name(plan->choice.backend);
  local.algorithm = adji_algorithm_name(plan->choice.algorithm);
  local.isa = plan->ctx->isa;
  local.plan_s = plan->plan_s;
  local.index_s = plan->index_s;
  local.write_s = sink_s;
  local.join_s = (double)(adji_now_ns() - begin_ns) * 1e-9 - sink_s;
  local.pairs = pairs;
  local.candidates = run->tally.candidates;
  local.batches = run->batches;
  local.batches_redone = run->redone;
  uint64_t peak = atomic_load(&plan->ctx->memory.peak);
  local.peak_bytes = peak > plan->plan_peak ? peak : plan->plan_peak;
  local.cells = plan->cells;
  double mean = run->busy_sum / plan->ctx->threads;
  local.imbalance = mean > 0 ? (run->busy_max - mean) / mean : 0;
  local.estimated_pairs = plan->estimated_pairs;
  local.estimated_candidates = plan->estimated_candidates;
  local.ego_reorder_s = plan->ego.reorder;
  local.ego_sort_s = plan->ego.sort;
  local.ego_workload_s = plan->ego.workload;
  report_device(plan, run, &local);
  report_order(plan, &local);
  report_indexed(plan, &local);
  report_workers(run, &local, plan->last_workers);
  plan->last = local;
  plan->ran = true;
  adji_warn_near(plan);
  return stats ? adji_give_struct(stats, &local, sizeof local, "adj_stats") : ADJ_OK;
}

adj_status adji_plan_begin(const adj_plan *plan, adji_run *run, const adj_run_control *control) {
  adj_status status = adji_run_init(run, plan->ctx, control);
  if (!status) run->was_alone = adji_work_alone(plan->choice.alone);
  return status;
}

void adji_plan_end(adji_run *run) {
  adji_work_alone(run->was_alone);
  adji_run_clear(run);
}

/* ---- Layout ------------------------------------------------------------------------------------------ */

void adji_layout_clear(adj_plan *plan, adji_layout *layout) {
  adji_free(&plan->ctx->memory, layout->degrees);
  adji_free(&plan->ctx->memory, layout->offsets);
}

/* A worker that has the offsets already passes them on. */
static adj_status make_offsets(adj_plan *plan, adji_run *run, adji_layout *layout) {
  uint64_t count = plan->left->count;
  layout->offsets = adji_alloc(&plan->ctx->memory, count + 1, sizeof *layout->offsets, "row offsets");
  if (!layout->offsets) return ADJ_E_MEMORY;
  if (adji_engine_has_offsets(&plan->engine)) return adji_engine_offsets(&plan->engine, run, layout->offsets);
  return adji_offsets_add_up(plan->ctx, layout->degrees, count, layout->offsets);
}

static adj_status try_layout(adj_plan *plan, adji_run *run, bool degrees, adji_layout *layout) {
  uint64_t count = plan->left->count;
  if (degrees || !adji_engine_has_offsets(&plan->engine)) {
    layout->degrees = adji_alloc(&plan->ctx->memory, count, sizeof *layout->degrees, "neighbour counts");
    if (!layout->degrees) return ADJ_E_MEMORY;
  }
  run->progress_to = ADJI_COUNTING_SHARE;
  run->fills = true;
  adj_status status = adji_engine_count(&plan->engine, run, layout->degrees, &layout->entries);
  if (!status) status = make_offsets(plan, run, layout);
  if (status) return status;
  if (layout->offsets[count] != layout->entries)
    return adji_fail(ADJ_E_INTERNAL, "the counts of the rows do not add up");
  run->progress_from = ADJI_COUNTING_SHARE;
  run->progress_to = 1;
  return ADJ_OK;
}

/* A GPU may fail after it has counted, and take its offsets with it: then the cores start from the beginning. */
static adj_status lay_out_range(adj_plan *plan, adji_run *run, bool degrees, adji_layout *layout) {
  adj_status status = try_layout(plan, run, degrees, layout);
  if (!adji_recover(plan, &status)) return status;
  adji_layout_clear(plan, layout);
  *layout = (adji_layout){0};
  return try_layout(plan, run, degrees, layout);
}

adj_status adji_lay_out(adj_plan *plan, adji_run *run, bool degrees, adji_layout *layout) {
  *layout = (adji_layout){.k = plan->join.k, .entries = adji_mul(plan->left->count, plan->join.k)};
  return plan->join.k ? ADJ_OK : lay_out_range(plan, run, degrees, layout);
}

/* ---- Count ------------------------------------------------------------------------------------------- */

bool adji_knn_is_bounded(const adj_plan *plan) {
  return plan->join.limits || plan->join.limit < (double)INFINITY;
}

uint64_t adji_knn_most_pairs(const adj_plan *plan) {
  return plan->left->count * adji_join_reach(&plan->join);
}

#define DEFAULT_BUFFER ((uint64_t)256 << 20)

uint64_t adji_stream_buffer(const adj_plan *plan) {
  uint64_t half = adji_memory_available(&plan->ctx->memory) / 2;
  if (plan->tuning.buffer) return plan->tuning.buffer;
  return DEFAULT_BUFFER < half && !adji_engine_wants_large_windows(&plan->engine) ? DEFAULT_BUFFER : half;
}

uint64_t adji_knn_buffer_rows(const adj_plan *plan) {
  uint64_t row = adji_mul(plan->join.k, adji_plan_entry_bytes(plan)) + sizeof(uint64_t);
  uint64_t rows = adji_stream_buffer(plan) / row;
  if (!rows) rows = 1;
  return rows < plan->left->count ? rows : plan->left->count;
}

typedef struct lengths {
  const adji_window *window;
  uint32_t *degrees; /* of all rows; may be NULL */
  uint32_t all;      /* without a radius: the length of every row */
  _Atomic uint64_t pairs;
} lengths;

static void measure_rows(void *user, uint64_t begin, uint64_t end) {
  lengths *l = user;
  const adji_window *w = l->window;
  uint64_t pairs = 0;
  for (uint64_t i = begin; i < end; i++) {
    uint32_t length = adji_padded_row_length(w->ids + i * w->k, w->k);
    if (l->degrees) l->degrees[w->first_row + i] = length;
    pairs += length;
  }
  atomic_fetch_add(&l->pairs, pairs);
}

static void set_lengths(void *user, uint64_t begin, uint64_t end) {
  const lengths *l = user;
  for (uint64_t i = begin; i < end; i++)
    l->degrees[i] = l->all;
}

/* With a radius the neighbours must be found. */
static adj_status count_bounded(adj_plan *plan, adji_run *run, lengths *l) {
  uint64_t count = plan->left->count, rows = adji_knn_buffer_rows(plan);
  adji_memory *memory = &plan->ctx->memory;
  adji_window window = {.k = plan->join.k};
  window.ids = adji_alloc(memory, adji_mul(rows, window.k), sizeof *window.ids, "table of neighbours");
  adj_status status = window.ids ? ADJ_OK : ADJ_E_MEMORY;
  l->window = &window;
  for (uint64_t first = 0; first < count && !status; first = window.end_row) {
    window.first_row = first;
    window.end_row = count - first < rows ? count : first + rows;
    run->progress_from = (double)first / (double)count;
    run->progress_to = (double)window.end_row / (double)count;
    status = adji_fill_rows(plan, run, &window);
    if (!status) status = adji_each_row(plan->ctx, window.end_row - first, measure_rows, l);
    if (!status) status = adji_check_cancel(plan->ctx);
  }
  adji_free(memory, window.ids);
  l->window = NULL;
  return status;
}

adj_status adji_knn_count(adj_plan *plan, adji_run *run, uint32_t *degrees, uint64_t *pairs) {
  lengths l = {.degrees = degrees, .all = adji_join_reach(&plan->join)};
  adj_status status = ADJ_OK;
  if (adji_knn_is_bounded(plan)) {
    status = count_bounded(plan, run, &l);
  } else {
    atomic_store(&l.pairs, adji_knn_most_pairs(plan));
    if (degrees) status = adji_each_row(plan->ctx, plan->left->count, set_lengths, &l);
  }
  *pairs = atomic_load(&l.pairs);
  return status ? status : adji_run_check_pairs(run, *pairs);
}

typedef struct copying {
  uint32_t *to;
  const uint32_t *from;
} copying;

static void copy_some(void *user, uint64_t begin, uint64_t end) {
  const copying *c = user;
  memcpy(c->to + begin, c->from + begin, (end - begin) * sizeof *c->to);
}

/* Copies with all threads. The copy is completed even if the run is cancelled meanwhile. */
static void copy_degrees(adj_ctx *ctx, uint32_t *to, const uint32_t *from, uint64_t count) {
  copying c = {to, from};
  if (count && adji_each_row(ctx, count, copy_some, &c)) copy_some(&c, 0, count);
}

adj_status adj_count(adj_plan *plan, uint32_t *degrees, uint64_t *total, const adj_run_control *control,
                     adj_stats *stats) {
  if (!plan) return adji_fail(ADJ_E_ARGUMENT, "plan: must not be NULL");
  adji_run run;
  uint64_t begin = adji_now_ns(), pairs = 0, count = plan->left->count;
  uint32_t *local = NULL;
  adj_status status = adji_plan_begin(plan, &run, control);
  if (status) return status;
  if (degrees) {
    /* The caller's array stays untouched on failure. */
    local = adji_alloc(&plan->ctx->memory, count, sizeof *local, "neighbour counts");
    if (!local) status = ADJ_E_MEMORY;
  }
  if (!status)
    status = plan->join.k ? adji_knn_count(plan, &run, local, &pairs) : adji_count_rows(plan, &run, local, &pairs);
  if (!status) status = adji_finish_run(plan, &run, begin, 0, pairs, stats);
  if (!status && degrees) copy_degrees(plan->ctx, degrees, local, count);
  if (!status && total) *total = pairs;
  adji_free(&plan->ctx->memory, local);
  adji_plan_end(&run);
  return status;
}

/* ---- Collect ------------------------------------------------------------------------------------------ */

static bool fits(const adj_plan *plan, double pairs) {
  double bytes = pairs * (double)adji_plan_entry_bytes(plan);
  return bytes < 0x1p62 && adji_fits(&plan->ctx->memory, (uint64_t)bytes);
}

/* ADJ_E_MEMORY with the size of the result, if it does not fit. Unused grids are dropped to make room for it. */
static adj_status check_fits(const adj_plan *plan, double pairs, bool exact) {
  char need[32], limit[32];
  double bytes = pairs * (double)adji_plan_entry_bytes(plan);
  if (bytes < 0x1p62) adji_index_make_room(plan->index, (uint64_t)bytes);
  if (fits(plan, pairs)) return ADJ_OK;
  return adji_fail(ADJ_E_MEMORY,
                   "the result has %s%.0f pairs and would need %s; the memory limit is %s: stream it, write it to a "
                   "file, or count only",
                   exact ? "" : "about ", pairs, adji_bytes_text(pairs * (double)adji_plan_entry_bytes(plan), need),
                   adji_bytes_text((double)plan->ctx->memory.limit, limit));
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

/* While a device counts, the cores are idle, so they prefault memory for the rows: 0.9 of the estimate. ROOM is extra
 * address space in case the estimate is too low; it takes no memory. With fewer candidates than this, a device has
 * counted before a core has a huge page. */
static const double FEW_CANDIDATES = 5e9;

static void prefault_rows(adj_plan *plan, adji_run *run, adj_result *result) {
  enum { LEAST = 64 << 20, ROOM = 4 };
  adji_memory *memory = &plan->ctx->memory;
  uint64_t size = distance_size(plan);
  double entries = 0.9 * plan->estimated_pairs, bytes = entries * (double)adji_plan_entry_bytes(plan);
  double beside = 8 * ((double)plan->left->count + 1); /* offsets, which need memory too */
  uint64_t most = run->control.max_pairs;
  if (!adji_engine_has_offsets(&plan->engine) || plan->estimated_candidates < FEW_CANDIDATES ||
      (most && entries > (double)most))
    return;
  if (bytes < LEAST || bytes > 0x1p50 || !adji_fits(memory, (uint64_t)(1.1 * bytes + beside))) return;
  uint64_t ids = (uint64_t)entries * sizeof *result->ids, distances = (uint64_t)entries * size;
  result->ids = adji_alloc_ahead(memory, ids, ROOM * ids);
  if (result->ids && size) result->distances = adji_alloc_ahead(memory, distances, ROOM * distances);
  if (result->ids && (result->distances || !size))
    run->ahead = (adji_ahead){result->ids, result->distances, (uint64_t)entries};
  else
    drop_rows(plan, result);
}

/* Takes the prefaulted memory. False: there is none, or it has no room for `pairs` pairs. */
static bool take_prefaulted(adj_plan *plan, adji_run *run, uint64_t pairs) {
  adji_memory *memory = &plan->ctx->memory;
  const adji_ahead *ahead = &run->ahead;
  return ahead->ids && adji_resize(memory, ahead->ids, pairs * sizeof *ahead->ids) &&
         (!ahead->distances || adji_resize(memory, ahead->distances, pairs * distance_size(plan)));
}

static adj_status make_rows(adj_plan *plan, uint64_t pairs, adj_result *result) {
  adji_memory *memory = &plan->ctx->memory;
  drop_rows(plan, result);
  adj_status status = check_fits(plan, (double)pairs, true);
  if (status) return status;
  result->ids = adji_alloc(memory, pairs, sizeof *result->ids, "result");
  if (result->ids && plan->join.style.distances)
    result->distances = adji_alloc(memory, pairs, distance_size(plan), "result");
  return result->ids && (result->distances || !plan->join.style.distances) ? ADJ_OK : ADJ_E_MEMORY;
}

/* Whether kNN rows get their labels from the search. It labels the whole tree first, which needs a few bytes a right
 * point. If there are fewer entries than points, the caller replaces the ids in less time. */
static bool labels_pay(const adj_plan *plan) {
  uint64_t points = plan->right->count, entries = plan->left->count * plan->join.k;
  uint64_t bytes = entries * adji_plan_entry_bytes(plan) + 3 * points * sizeof(uint32_t);
  return adji_notes_lasts(plan) && entries >= points && adji_fits(&plan->ctx->memory, bytes);
}

/* Takes the caller's labels, and its choice of rows, if the search can use them. */
static void take_labels(const adj_plan *plan, const adji_extras *extras, adj_result *result) {
  if (!plan->join.k || (extras->labels && labels_pay(plan))) result->labels = extras->labels;
  bool by_leaves = plan->join.self_join && !plan->join.limits && plan->tuning.queue < ADJI_KNN_QUEUE_POINTS;
  if (!plan->join.k || !result->labels || !extras->rows || !by_leaves) return;
  result->wanted = extras->rows;
  result->rows = extras->row_count;
}

bool adji_notes_lasts(const adj_plan *plan) {
  const adji_choice *choice = &plan->choice;
  return plan->join.k && choice->backend == ADJ_BACKEND_CPU && choice->algorithm == ADJI_ALGORITHM_KDTREE;
}

bool adji_can_be_mutual(const adj_plan *plan) {
  const adji_choice *choice = &plan->choice;
  bool brute = choice->backend == ADJ_BACKEND_CPU && choice->algorithm == ADJI_ALGORITHM_BRUTE;
  return plan->join.k && brute && adji_brute_can_be_mutual(&plan->engine);
}

static adj_status fill_result(adj_plan *plan, adji_run *run, const adji_layout *layout, adj_result *result) {
  adj_status status = take_prefaulted(plan, run, layout->entries) ? ADJ_OK : make_rows(plan, layout->entries, result);
  if (status || !plan->left->count) return status;
  adji_window window = {.end_row = result->rows,
                        .offsets = layout->offsets,
                        .ids = result->ids,
                        .distances = result->distances,
                        .k = layout->k,
                        .labels = layout->k ? result->labels : NULL,
                        .wanted = result->wanted,
                        .lasts = result->lasts,
                        .mutual = result->mutual};
  status = adji_fill_rows(plan, run, &window);
  result->labelled = !status && window.labels;
  bool filled = !status && !(window.mutual && !window.mutual->filled);
  if (filled && layout->k) adji_near_rows(plan, &window);
  return status;
}

/* The memory of a collect in one pass, in entries. Single evaluation holds half of the pairs a second time, and all
 * pairs of a device; staging holds all rows a second time, each with two more numbers; a tree also stores sums, in
 * buffers that double. Without room for that, rows are counted first. */
double adji_collect_once_entries(const adj_plan *plan) {
  double pairs = plan->estimated_pairs, entry = (double)adji_plan_entry_bytes(plan);
  if (plan->choice.staged) return 2.2 * pairs + 8 * (double)plan->left->count / entry;
  if (plan->choice.algorithm == ADJI_ALGORITHM_KDTREE)
    return pairs * (1 + 3 * (double)(sizeof(uint32_t) + adji_type_size(plan->left->type)) / entry);
  return pairs * (plan->engine.worker_count > 1 ? 2.1 : 1.6);
}

bool adji_collects_once(const adj_plan *plan) {
  return (plan->choice.single || plan->choice.staged) && adji_engine_can_collect(&plan->engine) &&
         fits(plan, adji_collect_once_entries(plan));
}

/* The lengths of rows are counted first (in a kNN join they are known); then rows are filled in place. */
static adj_status collect_laid_out(adj_plan *plan, adji_run *run, adj_result *result) {
  adji_layout layout = {0};
  if (!plan->join.k) prefault_rows(plan, run, result);
  adj_status status = adji_lay_out(plan, run, false, &layout);
  adji_free(&plan->ctx->memory, layout.degrees);
  if (layout.k) layout.entries = result->rows * layout.k;
  if (!status) status = fill_result(plan, run, &layout, result);
  result->offsets = layout.offsets;
  result->pairs = layout.k ? run->tally.pairs : layout.entries; /* padding is not counted */
  if (status || !layout.k) return status;
  /* The offsets of a kNN result are rarely used: they are filled in when first asked for. There are none with labels.
   */
  result->each = layout.k;
  if (result->labels) return ADJ_OK;
  result->offsets = adji_alloc(&plan->ctx->memory, result->rows + 1, sizeof *result->offsets, "row offsets");
  return result->offsets ? ADJ_OK : ADJ_E_MEMORY;
}

/* Refuses results that are certainly too large before any work is done: a range join if it is four times too large by
 * the estimate. Others are counted first and refused by the count, as estimates are never trusted. */
static adj_status check_collect(adj_plan *plan, const adji_run *run, const adj_result *result) {
  double pairs = plan->estimated_pairs;
  if (!plan->join.k) return fits(plan, 0.25 * pairs) ? ADJ_OK : check_fits(plan, pairs, false);
  adj_status status = check_fits(plan, (double)result->rows * plan->join.k, true);
  return status || adji_knn_is_bounded(plan) ? status : adji_run_check_pairs(run, adji_knn_most_pairs(plan));
}

/* With a tree the size of a result is not known before it is complete, and staged rows may exceed the estimate. If they
 * do not fit beside the result, rows are counted first. */
bool adji_counts_instead(const adj_plan *plan, adji_run *run, adj_status status) {
  if (status != ADJ_E_MEMORY || (plan->choice.algorithm != ADJI_ALGORITHM_KDTREE && !plan->choice.staged)) return false;
  run->tally = (adji_tally){0};
  run->progress_from = 0;
  return true;
}

static adj_status collect(adj_plan *plan, adji_run *run, adj_result *result) {
  if (!adji_collects_once(plan)) return collect_laid_out(plan, run, result);
  adj_status status = adji_engine_collect(&plan->engine, run, result);
  if (!adji_counts_instead(plan, run, status)) return status;
  drop_rows(plan, result);
  adji_free(&plan->ctx->memory, result->offsets);
  result->offsets = NULL;
  return collect_laid_out(plan, run, result);
}

/* ---- Mutual joins --------------------------------------------------------------------------------------- */

/* Makes the limits and the rows of right points. The measure of the plan may report sums, so the limits are those of
 * the measure of the index. */
static adj_status open_back(adj_plan *plan, const adji_way_back *back, adji_mutual *mutual, adj_result **out) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t count = plan->right->count, entries = adji_mul(count, plan->join.k);
  adj_result *result = *out = adji_result_create(plan->ctx, count, plan->right->type);
  double *limits = adji_alloc(memory, count + 1, sizeof *limits, "radii");
  mutual->limits = limits;
  mutual->first = back->first;
  if (!result || !limits) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count; i++)
    limits[i] = adji_limit(&plan->index->measure, plan->right->type, back->radii[i]);
  result->each = plan->join.k;
  result->ids = mutual->ids = adji_alloc(memory, entries, sizeof *result->ids, "result");
  if (distance_size(plan)) result->distances = adji_alloc(memory, entries, distance_size(plan), "result");
  mutual->distances = result->distances;
  result->offsets = adji_alloc(memory, count + 1, sizeof *result->offsets, "row offsets");
  bool allocated = result->ids && (result->distances || !distance_size(plan)) && result->offsets;
  return allocated ? ADJ_OK : ADJ_E_MEMORY;
}

/* Collects into *result and the rows of right points, or destroys the result. */
static adj_status collect_mutual(adj_plan *plan, adji_run *run, adji_way_back *back, adj_result **result) {
  adji_mutual mutual = {0};
  adj_result *rows = NULL;
  back->result = NULL;
  adj_status status = open_back(plan, back, &mutual, &rows);
  (*result)->mutual = &mutual;
  if (!status) status = collect(plan, run, *result);
  (*result)->mutual = NULL;
  adji_free(&plan->ctx->memory, (void *)mutual.limits);
  if (!status && mutual.filled) {
    rows->pairs = mutual.pairs;
    back->result = rows;
    return ADJ_OK;
  }
  adj_result_destroy(rows);
  if (status) return status;
  adj_result_destroy(*result);
  *result = NULL;
  return ADJ_OK;
}

adj_status adji_collect_with(adj_plan *plan, const adji_extras *extras, adj_result **out,
                             const adj_run_control *control, adj_stats *stats) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  adji_run run;
  uint64_t begin = adji_now_ns();
  adj_status status = adji_plan_begin(plan, &run, control);
  if (status) return status;
  adj_result *result = adji_result_create(plan->ctx, plan->left->count, plan->left->type);
  if (!result) status = ADJ_E_MEMORY;
  if (result) {
    take_labels(plan, extras, result);
    result->binned = result->labels ? extras->binned : NULL;
    result->lasts = extras->lasts;
  }
  if (!status) status = check_collect(plan, &run, result);
  if (!status && !extras->back) status = collect(plan, &run, result);
  if (!status && extras->back) status = collect_mutual(plan, &run, extras->back, &result);
  if (!status) status = adji_finish_run(plan, &run, begin, 0, result ? result->pairs : 0, stats);
  if (status)
    adj_result_destroy(result);
  else
    *out = result;
  adji_plan_end(&run);
  return status;
}

adj_status adj_collect(adj_plan *plan, adj_result **out, const adj_run_control *control, adj_stats *stats) {
  return adji_collect_with(plan, &(adji_extras){0}, out, control, stats);
}
