/* SPDX-License-Identifier: MIT
 *
 * kNN joins in chunks: the rows of the pool, all of them in one more search, if the right points around them fit the
 * device.
 *
 *   1. slabs     each dimension is cut into slabs, by the rows of the pool themselves: these lie along cuts, in thin
 *                places, and slabs are thin where they are many
 *   2. mark      the cells of this grid that are within reach of a row: where points may be that it has not seen
 *   3. find      the right points in marked cells, in one pass over the set; gather them
 *   4. search    the rows search these points, and nothing else
 *
 * The result of a row is complete: its k-th sum so far, or the limit of the join, bounds those of its neighbours, all
 * points with no larger sum are within reach of it in each dimension (adji_reach), and so in marked cells.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/worker/knn_chunks_private.h"

/* BINS: of equal width, that slabs of a dimension consist of. CELL_BITS: of the number of a cell, at most. SAMPLED:
 * rows that slabs are taken from. SLICE: points of a task, in words of 64 bits. */
enum {
  BINS = 2048,
  CELL_BITS = 21,
  SLAB_BITS = 10,
  SAMPLED = 4096,
  MARKS_A_ROW = 512,
  SLICE = 512,
  DIMS = ADJI_MOST_TREE_DIM
};

typedef struct rest {
  adji_knn_chunks *c;
  uint64_t rows; /* of the pool */
  uint32_t bits; /* of the number of a slab */
  double low[DIMS], scale[DIMS];
  uint32_t *cells;          /* of each bin of each dimension: what its slab adds to the number of a cell */
  _Atomic uint64_t *marked; /* cells */
  _Atomic uint64_t marks;
  uint64_t *found;  /* bits of right points */
  uint64_t *starts; /* of each task: how many were found before */
  uint64_t tasks, count;
  uint64_t *open; /* one set: bits of the rows of the pool */
  char *points;   /* of those found, and their ids */
  uint32_t *ids;
} rest;

/* ---- 1. Slabs ----------------------------------------------------------------------------------------- */

/* Ascends with finite x: rounding is monotone, and scale is not negative. If it is 0, low is too. The first bin is
 * below `low`, the last one behind the others. */
static inline uint32_t bin_of(double low, double scale, double x) {
  double q = (x - low) * scale + 1;
  q = q > 0 ? q : 0;
  return (uint32_t)(q < BINS - 1 ? q : BINS - 1);
}

static double coordinate(const adji_knn_chunks *c, const char *point, uint32_t j) {
  return c->type == 8 ? ((const double *)(const void *)point)[j] : (double)((const float *)(const void *)point)[j];
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A little more than the gap in a dimension to points that a row of the pool may still need: see mark_row. */
static double reach_of(const adji_knn_chunks *c, uint64_t i) {
  const adji_knn_pool *p = &c->pool;
  const char *values = p->sums + i * c->join.k * c->type;
  double bound = adji_knn_bound_above(c, values, p->lengths[i]);
  double reach = adji_reach(&c->measure, c->join.left->type, bound);
  return nextafter(nextafter(reach, INFINITY), INFINITY);
}

/* Slabs with equally many of the values, between one below them and one above. Outliers are in the outermost bins. */
static void cut_slabs(rest *r, uint32_t j, double *values, uint32_t count) {
  uint32_t dim = r->c->join.left->dim, each = UINT32_C(1) << r->bits, shift = r->bits * (dim - 1 - j);
  uint32_t *cells = r->cells + (uint64_t)j * BINS;
  qsort(values, count, sizeof *values, compare);
  double low = values[count / 64], extent = values[count - 1 - count / 64] - low;
  bool sound = extent > 0 && isfinite(extent) && isfinite((BINS - 2) / extent);
  r->low[j] = sound ? low : 0;
  r->scale[j] = sound ? (BINS - 2) / extent : 0;
  memset(cells, 0, BINS * sizeof *cells);
  cells[1] = cells[BINS - 1] = 1;
  for (uint32_t t = 1; t < each - 2; t++)
    cells[bin_of(r->low[j], r->scale[j], values[(uint64_t)t * count / (each - 2)])]++;
  for (uint32_t bin = 0, slab = 0; bin < BINS; bin++) {
    slab += cells[bin];
    cells[bin] = slab << shift;
  }
}

/* From where the reaches of rows begin and end. */
static adj_status make_slabs(rest *r) {
  const adji_knn_chunks *c = r->c;
  adji_memory *memory = &c->join.ctx->memory;
  uint32_t dim = c->join.left->dim, count = r->rows < SAMPLED ? (uint32_t)r->rows : SAMPLED;
  double *values = adji_alloc(memory, 2 * (uint64_t)count, sizeof *values, "open rows");
  r->cells = adji_alloc(memory, (uint64_t)dim * BINS, sizeof *r->cells, "cells");
  r->marked = adji_alloc_zero(memory, UINT64_C(1) << (CELL_BITS - 6), sizeof *r->marked, "cells");
  adj_status status = values && r->cells && r->marked ? ADJ_OK : ADJ_E_MEMORY;
  for (r->bits = 2; r->bits < CELL_BITS / dim && UINT32_C(1) << r->bits < 2 * count && r->bits < SLAB_BITS;)
    r->bits++;
  for (uint32_t j = 0; j < dim && !status; j++) {
    for (uint32_t i = 0; i < count; i++) {
      uint64_t row = i * r->rows / count;
      double x = coordinate(c, c->pool.points + row * c->point, j), reach = reach_of(c, row);
      values[2 * i] = x - reach;
      values[2 * i + 1] = x + reach;
    }
    cut_slabs(r, j, values, 2 * count);
  }
  adji_free(memory, values);
  return status;
}

/* ---- 2. Mark ------------------------------------------------------------------------------------------ */

/* Words of cells. Rows that want more are not worth it. */
static uint64_t most_marks(const rest *r) {
  return MARKS_A_ROW * r->rows + (UINT64_C(1) << 22);
}

static void mark_word(rest *r, uint64_t word, uint64_t bits) {
  if ((atomic_load_explicit(&r->marked[word], memory_order_relaxed) & bits) != bits)
    atomic_fetch_or_explicit(&r->marked[word], bits, memory_order_relaxed);
}

static void mark_cells(rest *r, uint64_t first, uint64_t last) {
  uint64_t from = UINT64_MAX << first % 64, to = UINT64_MAX >> (63 - last % 64);
  if (first / 64 == last / 64) {
    mark_word(r, first / 64, from & to);
    return;
  }
  mark_word(r, first / 64, from);
  for (uint64_t word = first / 64 + 1; word < last / 64; word++)
    mark_word(r, word, UINT64_MAX);
  mark_word(r, last / 64, to);
}

/* Cells from low to high in each dimension, from the first dimension on. */
static void mark_box(rest *r, const uint32_t *low, const uint32_t *high, uint32_t j, uint64_t base) {
  uint32_t dim = r->c->join.left->dim, stride = UINT32_C(1) << r->bits * (dim - 1 - j);
  if (j + 1 == dim) {
    mark_cells(r, base + low[j], base + high[j]);
    return;
  }
  for (uint64_t at = low[j]; at <= high[j]; at += stride)
    mark_box(r, low, high, j + 1, base + at);
}

/* A point whose gap to x, rounded to double, is at most reach is not below x - next(next(reach)), whose rounded value
 * is at most one step too high; and the same above. Bins ascend, so the point's cell is within the box. */
static void mark_row(rest *r, uint64_t i) {
  const adji_knn_chunks *c = r->c;
  uint32_t dim = c->join.left->dim, low[DIMS], high[DIMS];
  double reach = reach_of(c, i);
  uint64_t words = 1;
  for (uint32_t j = 0; j < dim; j++) {
    double x = coordinate(c, c->pool.points + i * c->point, j);
    const uint32_t *cells = r->cells + (uint64_t)j * BINS;
    double first = fmax(nextafter(x - reach, -INFINITY), -DBL_MAX),
           last = fmin(nextafter(x + reach, INFINITY), DBL_MAX);
    low[j] = cells[bin_of(r->low[j], r->scale[j], first)];
    high[j] = cells[bin_of(r->low[j], r->scale[j], last)];
    uint32_t across = (high[j] - low[j]) >> r->bits * (dim - 1 - j);
    words *= (j + 1 < dim ? across : across / 64) + UINT64_C(1);
  }
  if (atomic_fetch_add_explicit(&r->marks, words, memory_order_relaxed) + words > most_marks(r)) return;
  mark_box(r, low, high, 0, 0);
}

static void mark_rows(void *user, uint64_t begin, uint64_t end) {
  rest *r = user;
  for (uint64_t i = begin; i < end; i++)
    mark_row(r, i);
}

/* ---- 3. Find ------------------------------------------------------------------------------------------ */

/* Which of up to 64 points are in marked cells. dim: a constant. */
#define FIND(T)                                                                                          \
  static inline __attribute__((always_inline))                                                           \
  uint64_t find_##T(const rest *r, uint64_t first, uint64_t count, uint32_t dim) {                       \
    const adj_dataset *set = r->c->join.right;                                                           \
    uint64_t bits = 0;                                                                                   \
    for (uint64_t i = 0; i < count; i++) {                                                               \
      const char *point = set->data + (first + i) * set->row_stride;                                     \
      uint64_t cell = 0;                                                                                 \
      for (uint32_t j = 0; j < dim; j++) {                                                               \
        T x = *(const T *)(const void *)(point + j * set->column_stride);                                \
        cell += r->cells[j * BINS + bin_of(r->low[j], r->scale[j], (double)x)];                          \
      }                                                                                                  \
      bits |= (atomic_load_explicit(&r->marked[cell / 64], memory_order_relaxed) >> cell % 64 & 1) << i; \
    }                                                                                                    \
    return bits;                                                                                         \
  }
FIND(float)
FIND(double)
#undef FIND

static uint64_t find_word(const rest *r, uint64_t first, uint64_t count) {
  uint32_t dim = r->c->join.right->dim;
  if (r->c->type == 8) return find_double(r, first, count, dim);
  return dim == 2   ? find_float(r, first, count, 2)
         : dim == 3 ? find_float(r, first, count, 3)
                    : find_float(r, first, count, dim);
}

static adj_status find_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  rest *r = user;
  uint64_t all = r->c->join.right->count, found = 0;
  for (uint64_t word = task * SLICE; word < (task + 1) * SLICE && word * 64 < all; word++) {
    uint64_t first = word * 64, count = all - first < 64 ? all - first : 64;
    r->found[word] = find_word(r, first, count);
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

/* Lists the right points in marked cells; *few: they fit a region. */
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

/* ---- 4. Search ---------------------------------------------------------------------------------------- */

/* One set: its points are also rows, of which most are complete already, and no row finds itself. */
static adj_status note_rows(rest *r) {
  adji_knn_chunks *c = r->c;
  r->open = adji_alloc_zero(&c->join.ctx->memory, c->join.left->count / 64 + 1, sizeof *r->open, "open rows");
  if (!r->open) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < r->rows; i++)
    r->open[c->pool.rows[i] / 64] |= UINT64_C(1) << c->pool.rows[i] % 64;
  return ADJ_OK;
}

static void place_rows(adji_knn_chunks *c, const adji_knn_rows *rows) {
  const rest *r = c->rest;
  uint64_t k = c->join.k, pairs = 0;
  for (uint64_t i = 0; i < rows->count; i++) {
    uint64_t at = rows->first + i;
    uint32_t row = r->open ? r->ids[at] : c->pool.rows[at], length;
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
  adj_status status = adji_gpu_knn_open(c->gpu, &options, &knn);
  for (uint64_t row = 0; row < join.left->count && !status;) {
    adji_knn_found found = {.first = row};
    status = adji_gpu_knn_begin(knn, row, &found.table);
    if (!status) status = adji_gpu_knn_end(knn);
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
  void *blocks[] = {r->cells, (void *)r->marked, r->found, r->starts, r->open, r->points, r->ids};
  for (int i = 0; i < 7; i++)
    adji_free(&r->c->join.ctx->memory, blocks[i]);
  r->c->rest = NULL;
}

/* Bytes of the host, at most. */
static uint64_t most_bytes(const adji_knn_chunks *c) {
  uint64_t bits = (c->join.right->count + c->join.left->count) / 8 + (UINT64_C(1) << CELL_BITS) / 8;
  return bits + c->size * (c->point + sizeof(uint32_t)) + (UINT64_C(1) << 20);
}

adj_status adji_knn_rest_search(adji_knn_chunks *c, bool *done) {
  rest r = {.c = c, .rows = atomic_load(&c->pool.count)};
  uint64_t begun = adji_now_ns(), tasks = 8 * (uint64_t)c->join.ctx->threads;
  *done = false;
  if (!r.rows || r.rows > c->size || !adji_fits(&c->join.ctx->memory, most_bytes(c))) return ADJ_OK;
  c->rest = &r;
  bool few = false;
  adj_status status = make_slabs(&r);
  if (!status) status = adji_loop_slices(c->join.ctx, r.rows, tasks, mark_rows, &r);
  if (!status && atomic_load(&r.marks) <= most_marks(&r)) status = find_points(&r, &few);
  if (!status && few && c->join.self_join) status = note_rows(&r);
  if (!status && few) {
    status = search(&r);
    *done = !status;
  }
  adji_trace(c->join.ctx, "rest", 0, begun, r.count);
  clear(&r);
  return status;
}
