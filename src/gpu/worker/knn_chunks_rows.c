/* SPDX-License-Identifier: MIT
 *
 * kNN joins in chunks: fetches rows from the device, and puts complete ones into the window, all others into the pool.
 */
#include <math.h>
#include <string.h>

#include "gpu/device/conveyor.h"
#include "gpu/device/staging.h"
#include "gpu/worker/knn_chunks_private.h"
#include "gpu/worker/place.h"
#include "result/rows.h"

/* PIECES_A_LANE: pieces of a region's rows per lane. EXCHANGED: pairs of rows that a task exchanges. */
enum { HALF = ADJI_STAGE_BYTES / 2, PIECES_A_LANE = 4, EXCHANGED = 1 << 14 };

/* ---- Rows from the device ------------------------------------------------------------------------------ */

/* A piece passes through half a buffer: the numbers of its rows, if the device has them, then ids, then sums. A lane
 * has two halves, so that one is copied while the other is handled. */
typedef struct fetching {
  adji_knn_chunks *c;
  const adji_knn_found *found;
  uint64_t each;      /* rows of a piece */
  uint64_t ids, sums; /* where ids and sums begin in a half */
  adji_knn_rows_fn handle;
} fetching;

static uint64_t rows_of(const fetching *f, uint64_t piece, uint64_t *first) {
  *first = f->found->first + piece * f->each;
  return f->found->end - *first < f->each ? f->found->end - *first : f->each;
}

static adj_status copy_rows(void *user, uint64_t piece, uint32_t number) {
  const fetching *f = user;
  adji_gpu *gpu = f->c->gpu;
  const adji_gpu_table *table = &f->found->table;
  uint32_t buffer = adji_staging_half(f->c->join.ctx, number);
  uint64_t first, rows = rows_of(f, piece, &first), k = f->c->join.k, at = (first - table->first_row) * k;
  adj_status status = ADJ_OK;
  if (f->found->numbers) status = adji_staging_receive(gpu, buffer, 0, f->found->numbers + first, rows * 4);
  if (!status) status = adji_staging_receive(gpu, buffer, f->ids, table->ids + at, rows * k * 4);
  if (status) return status;
  const char *sums = (const char *)table->distances + at * f->c->type;
  return adji_staging_receive(gpu, buffer, f->sums, sums, rows * k * f->c->type);
}

static adj_status rows_are_here(void *user, uint32_t number, bool *here) {
  const fetching *f = user;
  return adji_staging_here(f->c->gpu, adji_staging_half(f->c->join.ctx, number), here);
}

static void handle_rows(void *user, uint64_t piece, uint32_t number) {
  const fetching *f = user;
  char *at = adji_staging_at(f->c->gpu, adji_staging_half(f->c->join.ctx, number));
  adji_knn_rows rows = {.of = f->found, .scratch = number};
  rows.count = rows_of(f, piece, &rows.first);
  if (f->found->part) rows.numbers = f->found->part->ids + rows.first;
  if (f->found->numbers) rows.numbers = (const uint32_t *)(const void *)at;
  rows.ids = (const uint32_t *)(const void *)(at + f->ids);
  rows.sums = at + f->sums;
  f->handle(f->c, &rows);
}

static uint64_t whole_lines(uint64_t bytes) {
  return (bytes + ADJI_LINE - 1) / ADJI_LINE * ADJI_LINE;
}

adj_status adji_knn_rows_fetch(adji_knn_chunks *c, const adji_knn_found *found, adji_knn_rows_fn handle) {
  uint64_t k = c->join.k, row = k * (4 + c->type) + 4, count = found->end - found->first;
  uint64_t share = count / (PIECES_A_LANE * (uint64_t)c->join.ctx->threads) + 1;
  fetching f = {.c = c, .found = found, .each = (HALF - 2 * ADJI_LINE) / row, .handle = handle};
  if (share < f.each) f.each = share;
  f.ids = found->numbers ? whole_lines(f.each * 4) : 0;
  f.sums = f.ids + whole_lines(f.each * k * 4);
  adji_conveyor conveyor = {.ctx = c->join.ctx, .user = &f, .buffers = 2 * c->join.ctx->threads};
  conveyor.pieces = (count + f.each - 1) / f.each;
  conveyor.copy = copy_rows;
  conveyor.here = rows_are_here;
  conveyor.handle = handle_rows;
  adji_conveyor_times times = {0};
  adj_status status = adji_staging_open(c->gpu, c->join.ctx->threads);
  if (!status) status = adji_convey(&conveyor, &times);
  if (status) adji_gpu_quiesce(c->gpu); /* copies in progress still use buffers */
  c->run->device.down_s += (double)times.wait_ns * 1e-9;
  c->run->device.place_s += (double)times.work_ns * 1e-9;
  c->run->device.bytes_down += count * k * (4 + c->type);
  return status;
}

adj_status adji_knn_fetch_waiting(adji_knn_chunks *c) {
  adji_knn_found waiting = c->waiting;
  if (!waiting.knn) return ADJ_OK;
  uint64_t start = adji_now_ns();
  adj_status status = adji_knn_rows_fetch(c, &waiting, adji_knn_rows_take);
  c->waiting.knn = NULL;
  adji_knn_chunks_close(c, waiting.knn);
  adji_trace(c->join.ctx, "fetch", 0, start, waiting.end - waiting.first);
  return status;
}

/* ---- Pairs of rows ------------------------------------------------------------------------------------- */

/* If a row's ids fill half of a cache line, and its distances too, writing a single row would read two lines and write
 * two. While the window is filled, rows are therefore kept in pairs: the first row of a pair, with ids and distances,
 * is where the ids of both will be, and the second row where the distances of both will be. So each row is written as
 * whole lines, past the caches. At the end one pass exchanges the halves.
 *
 *     ids        | ids 0   distances 0 | ids 2   distances 2 | ...   becomes   | ids 0   ids 1 | ids 2   ids 3 | ...
 *     distances  | ids 1   distances 1 | ids 3   distances 3 | ...             | distances 0 and 1 | 2 and 3 | ...
 */
void adji_knn_pairs_open(adji_knn_chunks *c) {
  const adji_window *w = c->pass->window;
  uint64_t bytes = c->join.k * sizeof *w->ids, rows = w->end_row - w->first_row;
  bool aligned = !((uintptr_t)w->ids % ADJI_LINE) && !((uintptr_t)w->distances % ADJI_LINE);
  bool halves = bytes % ADJI_LINE == ADJI_LINE / 2 && c->join.k <= ADJI_MOST_PAIRED && c->type == sizeof(float);
  c->paired = w->distances && aligned && halves ? rows / 2 * 2 : 0;
}

static void exchange_some(void *user, uint64_t begin, uint64_t end) {
  const adji_knn_chunks *c = user;
  uint64_t bytes = c->join.k * sizeof(uint32_t);
  char *ids = (char *)c->pass->window->ids, *distances = c->pass->window->distances;
  char half[ADJI_MOST_PAIRED * sizeof(uint32_t)];
  for (uint64_t pair = begin; pair < end; pair++) {
    char *first = ids + 2 * pair * bytes, *second = distances + 2 * pair * bytes;
    memcpy(half, first + bytes, bytes);
    memcpy(first + bytes, second, bytes);
    memcpy(second, half, bytes);
  }
}

/* The same for rows of eight, whose size is known at compile time. */
static void exchange_eights(void *user, uint64_t begin, uint64_t end) {
  const adji_knn_chunks *c = user;
  char *ids = (char *)c->pass->window->ids, *distances = c->pass->window->distances;
  for (uint64_t pair = begin; pair < end; pair++) {
    char *first = ids + pair * 64 + 32, *second = distances + pair * 64, half[32], other[32];
    memcpy(half, first, 32);
    memcpy(other, second, 32);
    memcpy(first, other, 32);
    memcpy(second, half, 32);
  }
}

adj_status adji_knn_pairs_close(adji_knn_chunks *c) {
  uint64_t begin = adji_now_ns(), pairs = c->paired / 2, tasks = pairs / EXCHANGED + 1;
  if (!pairs) return ADJ_OK;
  c->paired = 0;
  adj_status status = adji_loop_slices(c->join.ctx, pairs, tasks, c->join.k == 8 ? exchange_eights : exchange_some, c);
  adji_trace(c->join.ctx, "pairs", 0, begin, pairs);
  return status;
}

void adji_knn_row_place_as(adji_knn_chunks *c, const adji_measure *measure, uint32_t row, const uint32_t *ids,
                           const void *values, uint32_t length) {
  adji_row_style style = c->join.style;
  style.measure = measure;
  if (!adji_knn_is_paired(c, row)) {
    adji_row_place_padded(c->pass->window, &style, row, ids, values, length);
    return;
  }
  uint32_t both[2 * ADJI_MOST_PAIRED];
  adji_window one = *c->pass->window;
  one.first_row = row;
  one.end_row = (uint64_t)row + 1;
  one.ids = both;
  one.distances = both + c->join.k;
  adji_row_place_padded(&one, &style, row, ids, values, length);
  memcpy(adji_knn_paired_at(c, row), both, 2 * sizeof *both * c->join.k);
}

void adji_knn_row_place(adji_knn_chunks *c, uint32_t row, const uint32_t *ids, const void *sums, uint32_t length) {
  adji_knn_row_place_as(c, c->join.style.measure, row, ids, sums, length);
}

/* ---- Into the window ----------------------------------------------------------------------------------------- */

/* The least gap between a point and a face of its cell. */
#define GAP(T)                                                                                    \
  static inline double gap_##T(const T *x, const double *low, const double *high, uint32_t dim) { \
    double gap = INFINITY;                                                                        \
    for (uint32_t j = 0; j < dim; j++) {                                                          \
      double above = (double)x[j] - low[j], below = high[j] - (double)x[j];                       \
      gap = above < gap ? above : gap;                                                            \
      gap = below < gap ? below : gap;                                                            \
    }                                                                                             \
    return gap;                                                                                   \
  }
GAP(float)
GAP(double)
#undef GAP

/* Whether a row is complete after it has searched the right points of its region and within the margin: nothing beyond
 * the margin is in reach, or nothing outside the region. The faces of the cell are the cuts around the region. */
static bool is_complete(const adji_knn_chunks *c, uint32_t region, const char *point, const void *sums,
                        uint32_t length) {
  adj_type type = c->join.left->type;
  uint32_t dim = c->cuts.dim;
  const double *low = c->cells + (uint64_t)region * dim, *high = low + (uint64_t)c->cuts.count * dim;
  double reach = adji_reach(&c->measure, type, adji_knn_bound_above(c, sums, length));
  if (reach <= c->margins[region]) return true;
  return reach < (type == ADJ_F64 ? gap_double((const double *)(const void *)point, low, high, dim)
                                  : gap_float((const float *)(const void *)point, low, high, dim));
}

/* Rows that are handled at once, so that their sums stay in a core's cache. */
enum { AT_ONCE = 256 };

/* What is done with a row. OPEN: it goes to the pool. DONE: nothing, since it is in the window already or belongs to
 * another region. COMPLETE: it goes to the window. */
typedef enum row_state { OPEN, DONE, COMPLETE, UNDECIDED } row_state;

typedef struct some_rows {
  adji_knn_chunks *c;
  const adji_knn_rows *rows;
  const adji_knn_part *part;
  uint64_t first, count; /* some of these rows */
  uint32_t region;
  bool several; /* the region has several pieces */
  uint64_t open, pairs;
  uint8_t states[AT_ONCE];
} some_rows;

static uint32_t length_of(const some_rows *s, uint64_t i) {
  uint32_t k = s->c->join.k;
  const uint32_t *ids = s->rows->ids + i * k;
  return ids[k - 1] != ADJ_NO_ID ? k : adji_padded_row_length(ids, k);
}

/* A row that is not short, and whose neighbours are all within the margin, is complete. Most rows are such rows. */
static inline bool is_plain(const some_rows *s, uint64_t i, double near) {
  uint64_t last = i * s->c->join.k + s->c->join.k - 1;
  double value = s->c->type == 8 ? ((const double *)(const void *)s->rows->sums)[last]
                                 : (double)((const float *)(const void *)s->rows->sums)[last];
  return value <= near && s->rows->ids[last] != ADJ_NO_ID;
}

/* The point of a row. It is copied to `room` if points were picked on the device. */
static const char *point_at(const some_rows *s, uint64_t at, double *room) {
  const adji_knn_chunks *c = s->c;
  const adj_dataset *set = c->join.left;
  if (s->part->points) return s->part->points + at * c->point;
  const char *from = set->data + s->rows->numbers[at - s->rows->first] * set->row_stride;
  for (uint32_t j = 0; j < set->dim; j++)
    memcpy((char *)room + j * c->type, from + j * set->column_stride, c->type);
  return (const char *)room;
}

/* Decides about a row that is not plain. Complete rows that are short, which are few, are placed here. */
static row_state classify_row(some_rows *s, uint64_t i, uint64_t at) {
  adji_knn_chunks *c = s->c;
  uint64_t k = c->join.k;
  const char *sums = s->rows->sums + i * k * c->type;
  uint32_t length = length_of(s, i);
  double room[ADJI_MOST_TREE_DIM];
  bool complete = !s->several && is_complete(c, s->region, point_at(s, at, room), sums, length);
  s->open += !complete;
  if (!complete) return OPEN;
  s->pairs += length;
  if (length == k) return COMPLETE;
  adji_knn_row_place_as(c, c->rooted ? &c->sums : c->join.style.measure, s->rows->numbers[i], s->rows->ids + i * k,
                        sums, length);
  return DONE;
}

/* Decides about some rows. The points of rows that are not plain are far apart in memory, so they are prefetched before
 * they are read. */
static void classify_rows(some_rows *s) {
  const adj_dataset *set = s->c->join.left;
  double near = s->several ? -1 : s->c->near[s->region];
  uint64_t plain = 0, others = 0;
  s->open = 0;
  for (uint64_t n = 0; n < s->count; n++) {
    uint64_t i = s->first + n, at = s->rows->first + i;
    bool own = !s->part->own || s->part->own[at], quick = own && is_plain(s, i, near);
    plain += quick;
    others += own && !quick;
    s->states[n] = (uint8_t)(quick ? COMPLETE : own ? UNDECIDED : DONE);
    if (own && !quick && !s->part->points) __builtin_prefetch(set->data + s->rows->numbers[i] * set->row_stride);
  }
  for (uint64_t n = 0; n < s->count && others; n++)
    if (s->states[n] == UNDECIDED) s->states[n] = (uint8_t)classify_row(s, s->first + n, s->rows->first + s->first + n);
  s->pairs += plain * s->c->join.k;
}

/* Puts open rows into the pool. Their places are reserved at once, since all lanes share the counter. */
static void keep_open(const some_rows *s) {
  adji_knn_chunks *c = s->c;
  uint64_t k = c->join.k, to = s->open ? adji_knn_pool_reserve(c, s->open) : 0;
  for (uint64_t n = 0; n < s->count; n++) {
    if (s->states[n] != OPEN) continue;
    uint64_t i = s->first + n;
    adji_knn_pool_put(c, to++, s->rows->numbers[i], s->rows->of->home, s->rows->ids + i * k,
                      s->rows->sums + i * k * c->type, length_of(s, i));
  }
}

/* Writes a row to its place in its pair, past the caches. */
static void place_paired(const some_rows *s, uint64_t n, const char *distances) {
  const adji_knn_chunks *c = s->c;
  uint64_t k = c->join.k, bytes = k * sizeof(uint32_t);
  _Alignas(ADJI_LINE) char both[2 * sizeof(uint32_t) * ADJI_MOST_PAIRED];
  if (k == 8) { /* a size known at compile time */
    memcpy(both, s->rows->ids + (s->first + n) * 8, 32);
    memcpy(both + 32, distances, 32);
  } else {
    memcpy(both, s->rows->ids + (s->first + n) * k, bytes);
    memcpy(both + bytes, distances, bytes);
  }
  char *to = adji_knn_paired_at(c, s->rows->numbers[s->first + n]);
  c->join.style.kernels->stream_row(to, both, 2 * bytes);
}

static void prefetch_row(const adji_knn_chunks *c, uint32_t row) {
  const adji_window *to = c->pass->window;
  if (!adji_window_has(to, row)) return;
  uint64_t at = adji_window_at(to, row), k = c->join.k;
  adji_prefetch_row(to->ids + at, k * sizeof *to->ids);
  if (to->distances) adji_prefetch_row((const char *)to->distances + at * c->type, k * c->type);
}

/* Places complete rows. Sums, unless they are distances already, become distances all at once. Rows are written past
 * the caches, to places that are far apart. */
static void place_complete(const some_rows *s) {
  adji_knn_chunks *c = s->c;
  const adji_window *to = c->pass->window;
  adji_stream_fn stream = c->join.style.kernels->stream_row;
  uint64_t k = c->join.k, size = to->distances ? c->type : 0, from = s->first * k;
  float local[AT_ONCE * ADJI_MOST_PAIRED]; /* avoids writes to pinned memory */
  char *found = s->rows->sums + from * c->type, *sums = c->paired && !c->rooted ? (char *)local : found;
  const uint32_t *rows = s->rows->numbers + s->first;
  if (size && !c->rooted) adji_report_distances(&c->measure, c->join.left->type, found, s->count * k, sums);
  for (uint64_t n = 0; n < s->count; n++) {
    if (s->states[n] != COMPLETE) continue;
    if (adji_knn_is_paired(c, rows[n])) {
      place_paired(s, n, sums + n * k * size);
      continue;
    }
    uint64_t at = adji_window_at(to, rows[n]);
    if (n + ADJI_ROWS_AHEAD < s->count) prefetch_row(c, rows[n + ADJI_ROWS_AHEAD]);
    stream(to->ids + at, s->rows->ids + from + n * k, k * sizeof *to->ids);
    if (size) stream((char *)to->distances + at * size, sums + n * k * size, k * size);
  }
}

void adji_knn_rows_take(adji_knn_chunks *c, const adji_knn_rows *rows) {
  some_rows s = {.c = c, .rows = rows, .part = rows->of->part};
  s.region = c->left->each[s.part->piece].region;
  s.several = c->right.of_region[s.region + 1] - c->right.of_region[s.region] > 1;
  for (; s.first < rows->count; s.first += s.count) {
    s.count = rows->count - s.first < AT_ONCE ? rows->count - s.first : AT_ONCE;
    classify_rows(&s);
    keep_open(&s);
    place_complete(&s);
  }
  adji_stream_fence();
  atomic_fetch_add_explicit(&c->pairs, s.pairs, memory_order_relaxed);
}
