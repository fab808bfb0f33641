/* SPDX-License-Identifier: MIT
 *
 * The range join of Super-EGO and SEGO-New: a worker that counts neighbours, and fills rows. See ego_range.h.
 *
 * The neighbours of a query come from many pairs of short sequences and, with producers, from many threads. So a row
 * has a cursor: a thread that finds some of the row's neighbours advances it by their number, and writes them there. A
 * complete row is put into order: with the batch of its query or, with producers, after the pass.
 */
#include "cpu/ego_range.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/ego_tasks.h"
#include "cpu/ego_workload.h"
#include "result/offsets.h"

/* Queries per batch (HEGJoin 5.1). */
enum { DEFAULT_BATCH = 1024 };

struct ego_range;

typedef struct lane {
  struct ego_range *range;
  adji_ego_searcher searcher;
  adji_row_room room;
  uint32_t *queries; /* positions of a batch, ascending */
  uint64_t unreported;
  double area; /* part of searcher.area that was reported */
} lane;

typedef struct ego_range {
  adji_join join;
  adji_ego_range_options options;
  adji_ego_seconds seconds;
  adji_ego_order order;
  adji_ego_points right, own_left;
  const adji_ego_points *left;
  /* Without producers. rows: the queue Q of HEGJoin's figure 3, the queries by workload. positions: the mapping M, the
   * positions of these rows in epsilon grid order. work: by position. NULL where a device makes the queue. */
  uint32_t *rows, *positions, *work;
  adji_range_queue queue; /* made by a device; if it has rows, it replaces those above */
  /* The current pass. */
  adji_ego_job job;
  adji_run *run;
  const adji_pass *pass;
  lane *lanes;
  ADJI_ATOMIC(uint32_t) * cursors; /* by row of the window */
  void *sums;                      /* sums of the window's entries, until they become distances */
  void *own_sums;                  /* the same array, if the result has no distances */
  adji_ego_tasks tasks;
  ADJI_ATOMIC(uint64_t) found;
  pthread_mutex_t area_lock;
  double area; /* pairs of points compared or dropped so far */
} ego_range;

/* ---- Neighbours ------------------------------------------------------------------------------------------- */

/* Pairs per report. With producers one batch lasts as long as the pass, so the limit of pairs is checked and progress
 * is reported here. */
enum { REPORTED = 1 << 16 };

static adj_status report(lane *l) {
  ego_range *r = l->range;
  uint64_t pairs = atomic_fetch_add(&r->found, l->unreported) + l->unreported;
  l->unreported = 0;
  pthread_mutex_lock(&r->area_lock);
  r->area += l->searcher.area - l->area;
  double part = r->area / ((double)r->left->count * (double)r->right.count);
  pthread_mutex_unlock(&r->area_lock);
  l->area = l->searcher.area;
  adj_status status = adji_run_check_pairs(r->run, pairs);
  return status ? status : adji_run_report(r->run, r->pass->name, part < 1 ? part : 1, pairs, false);
}

static adj_status account(lane *l, uint32_t count) {
  l->unreported += count;
  return l->range->options.producers && l->unreported >= REPORTED ? report(l) : ADJ_OK;
}

/* Adds by a builtin, since degrees is the caller's array of plain integers. */
static adj_status count_found(void *user, uint32_t row, const uint32_t *ids, const void *sums, uint32_t count) {
  (void)ids;
  (void)sums;
  lane *l = user;
  uint32_t *degrees = l->range->pass->degrees;
  if (degrees) __atomic_fetch_add(&degrees[row], count, __ATOMIC_RELAXED);
  return account(l, count);
}

static adj_status fill_found(void *user, uint32_t row, const uint32_t *ids, const void *sums, uint32_t count) {
  lane *l = user;
  ego_range *r = l->range;
  const adji_window *window = r->pass->window;
  size_t size = adji_type_size(r->join.style.type);
  uint64_t at = atomic_fetch_add_explicit(&r->cursors[row - window->first_row], count, memory_order_relaxed);
  uint64_t length = adji_window_length(window, row);
  if (at + count > length)
    return adji_fail(ADJ_E_INTERNAL, "row %u: more neighbours found than the %llu that were counted", row,
                     (unsigned long long)length);
  at += adji_window_at(window, row);
  memcpy(window->ids + at, ids, count * sizeof *ids);
  if (sums) memcpy((char *)r->sums + at * size, sums, count * size);
  return account(l, count);
}

static bool offer(void *user, const adji_ego_pair *pair) {
  const lane *l = user;
  return adji_ego_tasks_offer(&l->range->tasks, pair);
}

/* Puts a complete row into its order, with distances. The search has already dropped unwanted pairs. */
static adj_status finish_row(ego_range *r, lane *l, uint32_t row) {
  const adji_window *window = r->pass->window;
  adji_row_style style = r->join.style;
  size_t size = adji_type_size(style.type);
  uint64_t length = adji_window_length(window, row), at = adji_window_at(window, row);
  uint32_t found = atomic_load_explicit(&r->cursors[row - window->first_row], memory_order_relaxed);
  if (found != length)
    return adji_fail(ADJ_E_INTERNAL, "row %u: %u neighbours found where %llu were counted", row, found,
                     (unsigned long long)length);
  if (style.order == ADJ_ORDER_ANY && !window->distances) return ADJ_OK;
  adj_status status = adji_row_room_reserve(&l->room, &r->join.ctx->memory, &style, length);
  if (status || !length) return status;
  style.drop_self = style.one_way = false;
  memcpy(l->room.ids[0], window->ids + at, length * sizeof *window->ids);
  if (r->sums) memcpy(l->room.sums[0], (const char *)r->sums + at * size, length * size);
  adji_row_order(&style, &l->room, 0, row, found);
  return adji_row_place(&style, &l->room, 0, row, found, window);
}

/* ---- A batch of queries ----------------------------------------------------------------------------------- */

static bool is_filled(const ego_range *r, uint32_t row) {
  return !r->pass->window || adji_window_length(r->pass->window, row);
}

/* The position, in epsilon grid order, of query i of the queue. Without a queue, queries are in that order. */
static uint32_t position_of(const ego_range *r, uint32_t i) {
  const uint32_t *positions = r->queue.rows ? r->queue.positions : r->positions;
  return positions ? positions[i] : i;
}

static adj_status join_batch(ego_range *r, lane *l, const adji_batch *batch) {
  uint32_t many = 0, *degrees = r->pass->degrees;
  for (uint32_t i = batch->begin; i < batch->end; i++) {
    uint32_t position = position_of(r, i), row = r->left->ids[position];
    if (degrees) degrees[row] = 0;
    l->queries[many] = position;
    many += is_filled(r, row);
  }
  r->join.style.kernels->sort_ids(l->queries, many);
  adj_status status = adji_ego_join_queries(&l->searcher, l->queries, many);
  for (uint32_t i = 0; i < many && r->pass->window && !status; i++)
    status = finish_row(r, l, r->left->ids[l->queries[i]]);
  return status;
}

static adj_status process(void *state, const adji_batch *batch, uint32_t lane_number, adji_tally *tally) {
  ego_range *r = state;
  lane *l = &r->lanes[lane_number];
  adj_status status = r->options.producers ? adji_ego_tasks_work(&r->tasks, &l->searcher) : join_batch(r, l, batch);
  tally->pairs += l->searcher.tally.pairs;
  tally->candidates += l->searcher.tally.candidates;
  l->searcher.tally = (adji_tally){0};
  return status;
}

/* ---- Passes ------------------------------------------------------------------------------------------------ */

enum { SLICE_ROWS = 4096 };

static adj_status finish_rows(void *user, uint64_t task, uint32_t lane_number) {
  ego_range *r = user;
  const adji_window *window = r->pass->window;
  uint64_t row = window->first_row + task * SLICE_ROWS, end = row + SLICE_ROWS;
  adj_status status = ADJ_OK;
  for (; row < end && row < window->end_row && !status; row++)
    status = finish_row(r, &r->lanes[lane_number], (uint32_t)row);
  return status;
}

static adj_status gather(void *state, adji_run *run, const adji_active *active) {
  (void)active;
  ego_range *r = state;
  const adji_window *window = r->pass->window;
  if (!r->options.producers || !window) return ADJ_OK;
  return adji_loop(run->ctx, (window->end_row - window->first_row + SLICE_ROWS - 1) / SLICE_ROWS, finish_rows, r);
}

static void end(void *state, adji_run *run) {
  ego_range *r = state;
  adji_memory *memory = &run->ctx->memory;
  for (uint32_t i = 0; r->lanes && i < run->ctx->threads; i++) {
    adji_ego_searcher_clear(&r->lanes[i].searcher);
    adji_row_room_clear(&r->lanes[i].room);
    adji_free(memory, r->lanes[i].queries);
  }
  adji_free(memory, r->lanes);
  adji_free(memory, (void *)r->cursors);
  adji_free(memory, r->own_sums);
  adji_ego_tasks_clear(&r->tasks);
  r->lanes = NULL;
  r->cursors = NULL;
  r->sums = r->own_sums = NULL;
}

static uint64_t batch_queries(const ego_range *r) {
  return r->options.batch ? r->options.batch : DEFAULT_BATCH;
}

static adj_status open_lanes(ego_range *r, uint64_t batch) {
  adj_ctx *ctx = r->join.ctx;
  adj_status status = ADJ_OK;
  r->lanes = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof *r->lanes, "workers");
  if (!r->lanes) return ADJ_E_MEMORY;
  for (uint32_t i = 0; i < ctx->threads && !status; i++) {
    lane *l = &r->lanes[i];
    l->range = r;
    status = adji_ego_searcher_init(&l->searcher, &r->job, l);
    if (status || r->options.producers) continue;
    l->queries = adji_alloc(&ctx->memory, batch + ADJI_PAD, sizeof *l->queries, "queries of a batch");
    if (!l->queries) status = ADJ_E_MEMORY;
  }
  return status;
}

static adj_status open_rows(ego_range *r, const adji_window *window) {
  adji_memory *memory = &r->join.ctx->memory;
  r->cursors = adji_alloc_zero(memory, window->end_row - window->first_row, sizeof *r->cursors, "lengths of rows");
  if (!r->cursors) return ADJ_E_MEMORY;
  r->sums = window->distances;
  if (r->sums || !r->job.sums) return ADJ_OK;
  r->own_sums =
      adji_alloc(memory, adji_window_entries(window), adji_type_size(r->join.style.type), "distances to sort by");
  r->sums = r->own_sums;
  return r->sums ? ADJ_OK : ADJ_E_MEMORY;
}

static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  ego_range *r = state;
  bool fills = pass->kind == ADJI_PASS_FILL;
  uint64_t batch = batch_queries(r) < r->left->count ? batch_queries(r) : r->left->count;
  r->run = run;
  r->pass = pass;
  atomic_store(&r->found, 0);
  r->area = 0;
  r->job = (adji_ego_job){.join = &r->join,
                          .left = r->left,
                          .right = &r->right,
                          .leaf = r->options.leaf,
                          .sums = fills && adji_row_needs_sums(&r->join.style),
                          .window = pass->window,
                          .found = fills ? fill_found : count_found,
                          .offer = r->options.producers ? offer : NULL};
  adj_status status = open_lanes(r, batch);
  if (!status && fills) status = open_rows(r, pass->window);
  if (!status && r->options.producers)
    status = adji_ego_tasks_init(&r->tasks, run->ctx,
                                 &(adji_ego_pair){.left_end = r->left->count, .right_end = r->right.count});
  if (!status && r->options.producers && pass->degrees)
    memset(pass->degrees, 0, r->left->count * sizeof *pass->degrees);
  if (status) end(r, run);
  return status;
}

/* ---- The queue --------------------------------------------------------------------------------------------- */

/* With producers a batch stands for a thread that takes part. Its queries only tell how many queries there are. */
static adj_status fill_with_threads(const ego_range *r, adji_queue *queue) {
  uint64_t count = r->left->count, threads = r->join.ctx->threads < count ? r->join.ctx->threads : count;
  adj_status status = adji_queue_init(queue, r->join.ctx, threads + 1);
  for (uint64_t i = 0; i < threads && !status; i++) {
    uint64_t from, to;
    adji_slice(count, threads, i, &from, &to);
    status = adji_queue_add(queue, (adji_batch){(uint32_t)from, (uint32_t)to, 1});
  }
  return status;
}

/* Makes batches of queries with their work. The heaviest queries come first already. */
static adj_status fill_queue(void *state, bool shared, adji_queue *queue) {
  (void)shared;
  const ego_range *r = state;
  if (r->options.producers) return fill_with_threads(r, queue);
  uint64_t count = r->left->count, each = batch_queries(r);
  if (r->queue.rows) return adji_range_queue_fill(r->join.ctx, &r->queue, each, queue);
  adj_status status = adji_queue_init(queue, r->join.ctx, count / each + 1);
  for (uint64_t p = 0; p < count && !status; p += each) {
    adji_batch batch = {(uint32_t)p, (uint32_t)(count - p < each ? count : p + each), 0};
    for (uint32_t i = batch.begin; i < batch.end; i++)
      batch.work += r->work ? (double)r->work[r->positions[i]] + 1 : 1;
    status = adji_queue_add(queue, batch);
  }
  return status;
}

/* ---- The worker -------------------------------------------------------------------------------------------- */

static void destroy(void *state) {
  ego_range *r = state;
  adji_memory *memory = &r->join.ctx->memory;
  adji_free(memory, r->rows);
  adji_free(memory, r->positions);
  adji_free(memory, r->work);
  adji_range_queue_clear(memory, &r->queue);
  adji_ego_points_clear(&r->own_left);
  adji_ego_points_clear(&r->right);
  adji_ego_order_clear(&r->order);
  pthread_mutex_destroy(&r->area_lock);
  free(r);
}

static double seconds_since(uint64_t *from) {
  uint64_t now = adji_now_ns(), before = *from;
  *from = now;
  return (double)(now - before) * 1e-9;
}

static adj_status sort_by_workload(ego_range *r) {
  adji_memory *memory = &r->join.ctx->memory;
  uint64_t count = r->left->count;
  r->rows = adji_alloc_zero(memory, count + ADJI_PAD, sizeof *r->rows, "queries by workload");
  r->positions = adji_alloc(memory, count + ADJI_PAD, sizeof *r->positions, "queries by workload");
  r->work = adji_alloc(memory, count, sizeof *r->work, "workload of queries");
  if (!r->rows || !r->positions || !r->work) return ADJ_E_MEMORY;
  adj_status status = adji_ego_workload(r->left, &r->right, r->positions, r->work);
  for (uint64_t i = 0; i < count && !status; i++)
    r->rows[i] = r->left->ids[r->positions[i]];
  return status;
}

static adj_status build(ego_range *r) {
  const adji_join *join = &r->join;
  uint64_t at = adji_now_ns();
  adj_status status = adji_ego_order_init(join->ctx, join->left, join->right, join->style.measure, join->limit,
                                          &r->options.order, &r->order);
  r->seconds.reorder = seconds_since(&at);
  if (!status) status = adji_ego_points_build(&r->order, join->right, r->options.by_qsort, &r->right);
  if (!status && !join->self_join)
    status = adji_ego_points_build(&r->order, join->left, r->options.by_qsort, &r->own_left);
  r->left = join->self_join ? &r->right : &r->own_left;
  r->seconds.sort = seconds_since(&at);
  if (!status && !r->options.producers && !r->options.unsorted) status = sort_by_workload(r);
  r->seconds.workload = seconds_since(&at);
  return status;
}

adji_ego_seconds adji_ego_range_seconds(const adji_engine *engine) {
  return ((const ego_range *)engine->workers[0].state)->seconds;
}

adj_status adji_ego_range_create(const adji_join *join, const adji_ego_range_options *options, adji_engine *out) {
  ego_range *r = calloc(1, sizeof *r);
  if (!r) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  r->join = *join;
  r->options = *options;
  if (!r->options.leaf) r->options.leaf = ADJI_EGO_LEAF;
  pthread_mutex_init(&r->area_lock, NULL);
  adj_status status = build(r);
  if (status) {
    destroy(r);
    return status;
  }
  adji_engine_init(out, join,
                   &(adji_worker){.state = r,
                                  .name = "cpu",
                                  .fill_queue = fill_queue,
                                  .begin = begin,
                                  .process = process,
                                  .gather = gather,
                                  .end = end,
                                  .destroy = destroy});
  out->order = r->rows ? r->rows : r->left->ids;
  return ADJ_OK;
}

adj_status adji_ego_range_set_queue(adji_engine *engine, adji_range_queue *queue, double *results) {
  ego_range *r = engine->workers[0].state;
  adji_range_queue_clear(&r->join.ctx->memory, &r->queue);
  engine->order = r->rows ? r->rows : r->left->ids;
  if (!queue) return ADJ_OK;
  adj_status status = adji_range_queue_map(r->join.ctx, r->left->ids, batch_queries(r), queue);
  if (status) return status;
  r->queue = *queue;
  *queue = (adji_range_queue){0};
  *results = adji_range_queue_results(&r->queue);
  engine->order = r->queue.rows;
  return ADJ_OK;
}

/* ---- Estimate ------------------------------------------------------------------------------------------------ */

static adj_status ignore_found(void *user, uint32_t row, const uint32_t *ids, const void *sums, uint32_t count) {
  (void)user, (void)row, (void)ids, (void)sums, (void)count;
  return ADJ_OK;
}

adj_status adji_ego_range_try(const adji_engine *engine, uint64_t queries, adji_ego_sample *out) {
  const ego_range *r = engine->workers[0].state;
  uint64_t count = r->left->count;
  *out = (adji_ego_sample){0};
  if (queries > count) queries = count;
  if (!queries) return ADJ_OK;
  adji_memory *memory = &r->join.ctx->memory;
  adji_ego_job job = {
      .join = &r->join, .left = r->left, .right = &r->right, .leaf = r->options.leaf, .found = ignore_found};
  adji_ego_searcher searcher;
  adj_status status = adji_ego_searcher_init(&searcher, &job, NULL);
  uint32_t *sample = adji_alloc(memory, queries, sizeof *sample, "sample");
  if (!sample) status = ADJ_E_MEMORY;
  for (uint64_t i = 0; i < queries && !status; i++)
    sample[i] = (uint32_t)(i * count / queries);
  uint64_t begin_ns = adji_now_ns();
  if (!status) status = adji_ego_join_queries(&searcher, sample, (uint32_t)queries);
  double scale = (double)count / (double)queries;
  out->pairs = (double)searcher.tally.pairs * scale;
  out->candidates = (double)searcher.tally.candidates * scale;
  out->query_ns = (double)(adji_now_ns() - begin_ns) / (double)queries;
  adji_free(memory, sample);
  adji_ego_searcher_clear(&searcher);
  return status;
}
