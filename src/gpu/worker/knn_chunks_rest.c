/* SPDX-License-Identifier: MIT
 *
 * kNN joins in chunks: one more search for all rows of the pool, if the right points around them fit the device.
 *
 *   1. slabs     each dimension is cut into slabs by the rows of the pool themselves. These rows lie along cuts and in
 *                sparse places, and slabs are thin where there are many of them
 *   2. mark      the cells of this grid within reach of a row, where there may be points that it has not seen
 *   3. find      the right points in marked cells, in one pass over the set, and gather them
 *   4. search    the rows search these points, and nothing else
 *
 * The result of a row is complete: its k-th sum so far, or the limit of the join, bounds the sums of its neighbours.
 * All points with no larger sum are within reach of the row in each dimension (adji_reach), and so in marked cells.
 */
#include <math.h>
#include <string.h>

#include "gpu/worker/knn_chunks_private.h"
#include "index/marked.h"

/* SAMPLED: rows that slabs are taken from. MARKS_A_ROW: words of cells that each row may mark, on average. MARK_TASKS:
 * tasks per thread. SLICE: points of a task, in words of 64 bits. */
enum { SAMPLED = 1024, MARKS_A_ROW = 512, MARK_TASKS = 8, SLICE = 512 };

typedef struct rest {
  adji_knn_chunks *c;
  uint64_t rows; /* of the pool */
  adji_marked marked;
  adji_marked_fn find;
  _Atomic uint64_t *lane_words; /* cells that each lane has marked */
  _Atomic uint64_t marks;       /* words of cells that were marked */
  uint64_t *found;              /* bits of right points */
  uint64_t *starts;             /* for each task, the number of points found by the tasks before it */
  uint64_t tasks, count;
  _Atomic uint64_t *open; /* in a self-join: bits of the rows of the pool */
  char *points;           /* the points found, and their ids */
  uint32_t *ids;
  adji_gpu_pick picked; /* instead, if found on the device; in a self-join own points are the rows of the pool */
} rest;

/* ---- 1. Slabs ----------------------------------------------------------------------------------------- */

/* The box of the points that a row of the pool may still need. The gap to such a point, rounded to double, is at most
 * the reach. So the point is at most reach (1 + 2^-52) away. x - reach and the subtraction of the slack are off by less
 * than 2^-52 of |x| + reach. All of these together are less than the slack. Among denormal numbers, where the slack is
 * 0, nothing is rounded. */
static void box_of(const adji_knn_chunks *c, uint64_t i, double *low, double *high) {
  const adji_knn_pool *p = &c->pool;
  const char *point = p->points + i * c->point;
  double bound = adji_knn_bound_above(c, p->sums + i * c->join.k * c->type, p->lengths[i]);
  double reach = adji_reach(&c->measure, c->join.left->type, bound);
  for (uint32_t j = 0; j < c->join.left->dim; j++) {
    double x =
        c->type == 8 ? ((const double *)(const void *)point)[j] : (double)((const float *)(const void *)point)[j];
    double slack = (fabs(x) + reach) * 0x1p-50;
    low[j] = x - reach - slack;
    high[j] = x + reach + slack;
  }
}

/* Cuts each dimension by where the boxes of sampled rows begin and end. */
static adj_status make_slabs(rest *r) {
  const adji_knn_chunks *c = r->c;
  adji_memory *memory = &c->join.ctx->memory;
  uint64_t dim = c->join.left->dim, count = r->rows < SAMPLED ? r->rows : SAMPLED;
  double *values = adji_alloc(memory, 2 * count * dim, sizeof *values, "open rows");
  adj_status status = adji_marked_open(c->join.ctx, (uint32_t)dim, 2 * count, &r->marked);
  if (!values) status = ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count && !status; i++) {
    double low[ADJI_MARKED_DIMS] = {0}, high[ADJI_MARKED_DIMS] = {0};
    box_of(c, i * r->rows / count, low, high);
    for (uint64_t j = 0; j < dim; j++) {
      values[(j * count + i) * 2] = low[j];
      values[(j * count + i) * 2 + 1] = high[j];
    }
  }
  for (uint64_t j = 0; j < dim && !status; j++)
    adji_marked_cut(&r->marked, (uint32_t)j, values + 2 * j * count, (uint32_t)(2 * count));
  adji_free(memory, values);
  return status;
}

/* ---- 2. Mark ------------------------------------------------------------------------------------------ */

/* The most words of cells that rows may mark. If they mark more, this search is not worth it. */
static uint64_t most_marks(const rest *r) {
  return MARKS_A_ROW * r->rows + (UINT64_C(1) << 22);
}

/* In a self-join the points are also rows, most of which are complete already. These bits tell which are not. */
static void note_row(rest *r, uint32_t row) {
  atomic_fetch_or_explicit(&r->open[row / 64], UINT64_C(1) << row % 64, memory_order_relaxed);
}

/* Marks the cells of some rows. Each lane has cells of its own, since cores that mark the same cells would wait for
 * each other. */
static adj_status mark_some(void *user, uint64_t task, uint32_t lane) {
  rest *r = user;
  adji_marked lane_marked = r->marked;
  double low[ADJI_MARKED_DIMS] = {0}, high[ADJI_MARKED_DIMS] = {0};
  uint64_t begin, end, marks = 0;
  lane_marked.words = r->lane_words + lane * (uint64_t)ADJI_MARKED_WORDS;
  adji_slice(r->rows, MARK_TASKS * (uint64_t)r->c->join.ctx->threads, task, &begin, &end);
  for (uint64_t i = begin; i < end; i++) {
    box_of(r->c, i, low, high);
    adji_cell_box box = adji_marked_box(&lane_marked, low, high);
    marks += box.words;
    if (marks > most_marks(r)) break;
    adji_marked_mark(&lane_marked, &box);
    if (r->open) note_row(r, r->c->pool.rows[i]);
  }
  atomic_fetch_add_explicit(&r->marks, marks, memory_order_relaxed);
  return ADJ_OK;
}

static void join_marks(void *user, uint64_t begin, uint64_t end) {
  rest *r = user;
  for (uint64_t word = begin; word < end; word++)
    for (uint32_t lane = 0; lane < r->c->join.ctx->threads; lane++)
      r->marked.words[word] |= r->lane_words[lane * (uint64_t)ADJI_MARKED_WORDS + word];
}

static adj_status mark_rows(rest *r) {
  adj_ctx *ctx = r->c->join.ctx;
  adji_memory *memory = &ctx->memory;
  r->lane_words = adji_alloc_zero(memory, ctx->threads * (uint64_t)ADJI_MARKED_WORDS, sizeof *r->lane_words, "cells");
  if (!r->lane_words) return ADJ_E_MEMORY;
  if (r->c->join.self_join) {
    r->open = adji_alloc_zero(memory, r->c->join.left->count / 64 + 1, sizeof *r->open, "open rows");
    if (!r->open) return ADJ_E_MEMORY;
  }
  adj_status status = adji_loop(ctx, MARK_TASKS * (uint64_t)ctx->threads, mark_some, r);
  return status ? status : adji_loop_slices(ctx, ADJI_MARKED_WORDS, ctx->threads, join_marks, r);
}

/* ---- 3. Find ------------------------------------------------------------------------------------------ */

static adj_status find_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  rest *r = user;
  uint64_t all = r->c->join.right->count, found = 0;
  for (uint64_t word = task * SLICE; word < (task + 1) * SLICE && word * 64 < all; word++) {
    uint64_t first = word * 64, count = all - first < 64 ? all - first : 64;
    r->found[word] = r->find(&r->marked, r->c->join.right, first, count);
    found += (uint64_t)__builtin_popcountll(r->found[word]);
  }
  r->starts[task + 1] = found;
  return ADJ_OK;
}

static adj_status gather_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  rest *r = user;
  const adj_dataset *set = r->c->join.right;
  uint64_t to = r->starts[task], type = r->c->type;
  for (uint64_t word = task * SLICE; word < (task + 1) * SLICE && word * 64 < set->count; word++)
    for (uint64_t bits = r->found[word]; bits; bits &= bits - 1, to++) {
      uint64_t row = word * 64 + (uint64_t)__builtin_ctzll(bits);
      r->ids[to] = (uint32_t)row;
      for (uint32_t j = 0; j < set->dim; j++)
        memcpy(r->points + to * r->c->point + j * type, set->data + row * set->row_stride + j * set->column_stride,
               type);
    }
  return ADJ_OK;
}

/* Lists the right points in marked cells. *few: there are no more than in a region. */
static adj_status find_points(rest *r, bool *few) {
  adji_knn_chunks *c = r->c;
  adj_ctx *ctx = c->join.ctx;
  uint64_t words = c->join.right->count / 64 + 1;
  r->tasks = words / SLICE + 1;
  r->found = adji_alloc(&ctx->memory, words, sizeof *r->found, "open rows");
  r->starts = adji_alloc_zero(&ctx->memory, r->tasks + 1, sizeof *r->starts, "open rows");
  adj_status status = r->found && r->starts ? adji_loop(ctx, r->tasks, find_some, r) : ADJ_E_MEMORY;
  for (uint64_t i = 0; i < r->tasks && !status; i++)
    r->starts[i + 1] += r->starts[i];
  if (!status) r->count = r->starts[r->tasks];
  *few = r->count <= c->size;
  if (status || !*few) return status;
  r->points = adji_alloc(&ctx->memory, r->count + 1, c->point, "points around open rows");
  r->ids = adji_alloc(&ctx->memory, r->count + 1, sizeof *r->ids, "points around open rows");
  return r->points && r->ids ? adji_loop(ctx, r->tasks, gather_some, r) : ADJ_E_MEMORY;
}

/* Picks the same points on the device. */
static adj_status pick_points(rest *r, bool *few) {
  adji_knn_chunks *c = r->c;
  adji_gpu_picking request = {.marked = &r->marked, .own = (const uint64_t *)r->open, .most = c->size};
  adj_status status = adji_gpu_pick_open(c->gpu, adji_gpu_right_rows(c->right_set), &request, &r->picked);
  if (status) return status;
  r->count = r->picked.rows.count;
  *few = r->count <= c->size;
  return ADJ_OK;
}

/* ---- 4. Search ---------------------------------------------------------------------------------------- */

static void place_rows(adji_knn_chunks *c, const adji_knn_rows *rows) {
  const rest *r = c->rest;
  uint64_t k = c->join.k, pairs = 0;
  for (uint64_t i = 0; i < rows->count; i++) {
    uint64_t at = rows->first + i;
    uint32_t row = rows->numbers ? rows->numbers[i] : r->open ? r->ids[at] : c->pool.rows[at], length;
    if (r->open && !(r->open[row / 64] >> row % 64 & 1)) continue;
    length = adji_padded_row_length(rows->ids + i * k, c->join.k);
    adji_knn_row_place(c, row, rows->ids + i * k, rows->sums + i * k * c->type, length);
    pairs += length;
  }
  atomic_fetch_add_explicit(&c->pairs, pairs, memory_order_relaxed);
}

static adj_dataset packed_set(const adji_knn_chunks *c, const adj_dataset *like, const char *points, uint64_t count) {
  adj_dataset set = {.ctx = like->ctx, .type = like->type, .dim = like->dim, .count = count};
  set.data = points;
  set.column_stride = c->type;
  set.row_stride = c->point;
  set.low = like->low;
  set.high = like->high;
  return set;
}

static adj_status search(rest *r) {
  adji_knn_chunks *c = r->c;
  adji_join join = c->join;
  adji_gpu_knn_options options = c->options;
  adji_gpu_knn *knn = NULL;
  adj_dataset right = packed_set(c, c->join.right, r->points, r->count);
  adj_dataset left = packed_set(c, c->join.left, c->pool.points, r->rows);
  join.right = &right;
  join.left = join.self_join ? &right : &left;
  join.style.measure = &c->sums;
  join.style.distances = true;
  options.join = &join;
  options.measure = &c->sums;
  options.right_names = r->ids;
  uint64_t rows = join.left->count;
  if (c->on_device) adji_knn_use_pick(&r->picked, &options);
  if (c->on_device && join.self_join) rows = r->picked.own;
  adj_status status = adji_gpu_knn_open(c->gpu, &options, &knn);
  for (uint64_t row = 0; row < rows && !status;) {
    adji_knn_found found = {.first = row};
    if (c->on_device && join.self_join) found.numbers = r->picked.own_ids;
    status = adji_gpu_knn_begin(knn, row, &found.table);
    if (!status && c->last) status = adji_knn_pairs_close(c); /* while the device searches */
    adj_status ended = adji_gpu_knn_end(knn);
    if (!status) status = ended;
    found.end = found.table.end_row;
    if (!status) status = adji_knn_rows_fetch(c, &found, place_rows);
    if (!status) status = adji_check_cancel(c->join.ctx);
    row = found.end;
  }
  if (status) adji_gpu_quiesce(c->gpu);
  adji_knn_chunks_close(c, knn);
  return status;
}

static void clear(rest *r) {
  void *blocks[] = {r->found, r->starts, (void *)r->open, (void *)r->lane_words, r->points, r->ids};
  adji_marked_clear(r->c->join.ctx, &r->marked);
  adji_gpu_pick_close(&r->picked);
  for (int i = 0; i < 6; i++)
    adji_free(&r->c->join.ctx->memory, blocks[i]);
  r->c->rest = NULL;
}

/* The most bytes of host memory that this takes. */
static uint64_t most_bytes(const adji_knn_chunks *c) {
  uint64_t bits = (c->join.right->count + c->join.left->count) / 8 +
                  (c->join.ctx->threads + UINT64_C(1)) * ADJI_MARKED_WORDS * sizeof(uint64_t);
  return bits + c->size * (c->point + sizeof(uint32_t)) + (UINT64_C(1) << 20);
}

adj_status adji_knn_rest_search(adji_knn_chunks *c, bool *done) {
  rest r = {.c = c, .rows = atomic_load(&c->pool.count)};
  r.find = adji_marked_find_for(c->join.ctx->isa, c->join.right);
  uint64_t start = adji_now_ns();
  *done = false;
  if (!r.rows || r.rows > c->size || !adji_fits(&c->join.ctx->memory, most_bytes(c))) return ADJ_OK;
  c->rest = &r;
  bool few = false;
  adj_status status = make_slabs(&r);
  if (!status) status = mark_rows(&r);
  uint64_t marked = adji_now_ns();
  adji_trace(c->join.ctx, "mark", 0, start, r.rows);
  if (!status && atomic_load(&r.marks) <= most_marks(&r))
    status = c->on_device ? pick_points(&r, &few) : find_points(&r, &few);
  adji_trace(c->join.ctx, "find", 0, marked, r.count);
  if (!status && few) {
    status = search(&r);
    *done = !status;
  }
  adji_trace(c->join.ctx, "rest", 0, start, r.count);
  clear(&r);
  return status;
}
