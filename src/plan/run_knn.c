/* SPDX-License-Identifier: MIT
 *
 * Running a kNN plan. Every row has k entries, so there is nothing to count first: a result is filled
 * in place, in one table or, when it streams, in several.
 */
#include "plan/run_knn.h"

#include <math.h>

#include "result/result.h"

/* A table of rows with room of its own. */
typedef struct knn_run {
  adj_plan *plan;
  adji_run run;
  uint64_t begin_ns;
  uint64_t rows_at_once;
  adji_table table;
  uint64_t *offsets; /* of the rows of the table, from 0 */
  uint64_t pairs;    /* neighbours, padding not counted  */
  double sink_s;
} knn_run;

static adj_status open_run(knn_run *r, adj_plan *plan, const adj_run_control *control) {
  *r = (knn_run){.plan = plan, .begin_ns = adji_now_ns(), .table = {.k = plan->join.k}};
  return adji_run_init(&r->run, plan->ctx, control);
}

static adj_status close_run(knn_run *r, adj_status status, adj_stats *stats) {
  if (!status) status = adji_finish_run(r->plan, &r->run, r->begin_ns, r->sink_s, r->pairs, stats);
  adji_free(&r->plan->ctx->memory, r->table.ids);
  adji_free(&r->plan->ctx->memory, r->table.distances);
  adji_free(&r->plan->ctx->memory, r->offsets);
  adji_run_clear(&r->run);
  return status;
}

static bool is_bounded(const knn_run *r) {
  return r->plan->join.limit < (double)INFINITY;
}

/* The neighbours there are at most; without a radius, exactly so many. */
static uint64_t most_pairs(const knn_run *r) {
  return r->plan->left->count * adji_join_reach(&r->plan->join);
}

static adj_status check_pairs(knn_run *r, uint64_t pairs) {
  uint64_t most = r->run.control.max_pairs;
  if (!most || pairs <= most) return ADJ_OK;
  return adji_fail(ADJ_E_LIMIT, "max_pairs: the result has more than the %llu pairs allowed", (unsigned long long)most);
}

static adj_status make_table(knn_run *r, uint64_t rows, bool distances) {
  adji_memory *memory = &r->plan->ctx->memory;
  uint64_t entries = adji_mul(rows, r->table.k);
  r->rows_at_once = rows;
  r->table.ids = adji_alloc(memory, entries, sizeof *r->table.ids, "table of neighbours");
  if (!r->table.ids) return ADJ_E_MEMORY;
  if (!distances) return ADJ_OK;
  r->table.distances = adji_alloc(memory, entries, adji_type_size(r->plan->left->type), "table of neighbours");
  return r->table.distances ? ADJ_OK : ADJ_E_MEMORY;
}

/* Rows that go through the buffer at once. */
static uint64_t buffer_rows(const knn_run *r) {
  const adj_plan *plan = r->plan;
  const adji_memory *memory = &plan->ctx->memory;
  uint64_t row = adji_mul(r->table.k, adji_plan_entry_bytes(plan)) + sizeof *r->offsets;
  uint64_t left = adji_memory_available(memory);
  uint64_t bytes = plan->tuning.buffer ? plan->tuning.buffer : ADJI_DEFAULT_BUFFER;
  if (!plan->tuning.buffer && bytes > left / 2) bytes = left / 2;
  uint64_t rows = bytes / row ? bytes / row : 1;
  return rows < plan->left->count ? rows : plan->left->count;
}

/* Fills the rows from first on, as many as the table takes. */
static adj_status fill_rows(knn_run *r, uint64_t first) {
  uint64_t count = r->plan->left->count, end = first + r->rows_at_once;
  r->table.first_row = first;
  r->table.end_row = end < count ? end : count;
  r->run.progress_from = (double)first / (double)count;
  r->run.progress_to = (double)r->table.end_row / (double)count;
  adj_status status = r->plan->engine.nearest(r->plan->engine.state, &r->run, &r->table);
  return status ? status : adji_check_cancel(r->plan->ctx);
}

/* ---- Count ------------------------------------------------------------------------------------------- */

/* Without a radius the answer is known; with one, the neighbours must be found. */
static adj_status count_rows(knn_run *r, uint32_t *degrees) {
  uint64_t count = r->plan->left->count;
  uint32_t reach = adji_join_reach(&r->plan->join);
  if (!is_bounded(r)) {
    for (uint64_t i = 0; degrees && i < count; i++)
      degrees[i] = reach;
    r->pairs = most_pairs(r);
    return ADJ_OK;
  }
  adj_status status = make_table(r, buffer_rows(r), false);
  for (uint64_t first = 0; first < count && !status; first = r->table.end_row) {
    status = fill_rows(r, first);
    if (!status && degrees) status = adji_table_degrees(r->plan->ctx, &r->table, degrees);
  }
  r->pairs = r->run.tally.pairs;
  return status;
}

adj_status adji_knn_count(adj_plan *plan, uint32_t *degrees, uint64_t *total, const adj_run_control *control,
                          adj_stats *stats) {
  knn_run r;
  adj_status status = open_run(&r, plan, control);
  if (status) return status;
  uint64_t left = plan->left->count;
  uint32_t *mine = NULL;
  if (degrees) {
    /* The caller's array stays untouched on failure. */
    mine = adji_alloc(&plan->ctx->memory, left, sizeof *mine, "neighbour counts");
    if (!mine) status = ADJ_E_MEMORY;
  }
  if (!status) status = count_rows(&r, mine);
  if (!status) status = check_pairs(&r, r.pairs);
  uint64_t pairs = r.pairs;
  status = close_run(&r, status, stats);
  for (uint64_t i = 0; degrees && i < left && !status; i++)
    degrees[i] = mine[i];
  if (!status && total) *total = pairs;
  adji_free(&plan->ctx->memory, mine);
  return status;
}

/* ---- Collect ------------------------------------------------------------------------------------------ */

static adj_status collect_rows(knn_run *r, adj_result *result) {
  adj_plan *plan = r->plan;
  uint64_t count = plan->left->count;
  adj_status status = adji_check_fits(plan, (double)count * r->table.k, true);
  if (!status && !is_bounded(r)) status = check_pairs(r, most_pairs(r)); /* else the pass looks at what it finds */
  if (!status) status = make_table(r, count, plan->join.style.distances);
  if (status) return status;
  result->offsets = adji_alloc(&plan->ctx->memory, count + 1, sizeof *result->offsets, "row offsets");
  if (!result->offsets) return ADJ_E_MEMORY;
  result->each = r->table.k;
  if (count) status = fill_rows(r, 0);
  result->pairs = r->run.tally.pairs; /* padding is not counted */
  result->ids = r->table.ids;
  result->distances = r->table.distances;
  r->table.ids = NULL;
  r->table.distances = NULL;
  return status;
}

adj_status adji_knn_collect(adj_plan *plan, adj_result **out, const adj_run_control *control, adj_stats *stats) {
  knn_run r;
  adj_status status = open_run(&r, plan, control);
  if (status) return status;
  adj_result *result = adji_result_create(plan->ctx, plan->left->count, plan->left->type);
  status = result ? collect_rows(&r, result) : ADJ_E_MEMORY;
  r.pairs = r.run.tally.pairs;
  status = close_run(&r, status, stats);
  if (status)
    adj_result_destroy(result);
  else
    *out = result;
  return status;
}

/* ---- Stream --------------------------------------------------------------------------------------------- */

static adj_status make_offsets(knn_run *r) {
  r->offsets = adji_alloc(&r->plan->ctx->memory, r->rows_at_once + 1, sizeof *r->offsets, "stream buffer");
  if (!r->offsets) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i <= r->rows_at_once; i++)
    r->offsets[i] = i * r->table.k;
  return ADJ_OK;
}

static adj_status stream_rows(knn_run *r, const adj_sink *sink) {
  uint64_t count = r->plan->left->count, begin = adji_now_ns();
  adj_status status = adji_sink_begin(sink, count, count * r->table.k, NULL);
  r->sink_s += (double)(adji_now_ns() - begin) * 1e-9;
  for (uint64_t first = 0; first < count && !status; first = r->table.end_row) {
    status = fill_rows(r, first);
    if (status) break;
    begin = adji_now_ns();
    adj_rows block = {first, r->table.end_row - first, r->offsets, r->table.ids, r->table.distances};
    status = adji_sink_write(sink, &block);
    r->sink_s += (double)(adji_now_ns() - begin) * 1e-9;
    adji_trace(r->plan->ctx, "write", 0, begin, block.row_count);
  }
  if (!status) status = adji_check_cancel(r->plan->ctx);
  begin = adji_now_ns();
  if (sink->end) sink->end(sink->user, status);
  r->sink_s += (double)(adji_now_ns() - begin) * 1e-9;
  return status;
}

/* Too many pairs are found out before the first of them is handed out: by counting them, if need be. */
static adj_status check_stream(adj_plan *plan, const adj_run_control *control, knn_run *r) {
  uint64_t most = r->run.control.max_pairs;
  if (!is_bounded(r)) return check_pairs(r, most_pairs(r));
  return most && most_pairs(r) > most ? adji_knn_count(plan, NULL, NULL, control, NULL) : ADJ_OK;
}

adj_status adji_knn_stream(adj_plan *plan, const adj_sink *sink, const adj_run_control *control, adj_stats *stats) {
  knn_run r;
  adj_status status = open_run(&r, plan, control);
  if (status) return status;
  status = check_stream(plan, control, &r);
  if (!status) status = make_table(&r, buffer_rows(&r), plan->join.style.distances);
  if (!status) status = make_offsets(&r);
  if (!status) status = stream_rows(&r, sink);
  r.pairs = r.run.tally.pairs;
  return close_run(&r, status, stats);
}
