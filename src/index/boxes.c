/* SPDX-License-Identifier: MIT
 *
 * Bounding boxes of blocks of points: the order that makes them small, building them bottom-up, and searching them
 * top-down.
 */
#include "index/boxes.h"

#include <math.h>
#include <string.h>

/* Dimensions whose terms are added side by side. */
enum { AT_ONCE = 8 };

/* ---- Per type -------------------------------------------------------------------------------- */

#define BOXES(T, suffix, ABS)                                                                                \
  static void widen_##T(T *to, const T *from, uint32_t dim) {                                                \
    for (uint32_t j = 0; j < dim; j++) {                                                                     \
      to[j] = from[j] < to[j] ? from[j] : to[j];                                                             \
      to[dim + j] = from[dim + j] > to[dim + j] ? from[dim + j] : to[dim + j];                               \
    }                                                                                                        \
  }                                                                                                          \
                                                                                                             \
  /* The box of count positions: the listed ones, or those from first on. */                                 \
  static inline __attribute__((always_inline)) void bound_##T(const adji_view *view, const uint32_t *listed, \
                                                              uint64_t first, uint64_t count, T *bounds) {   \
    for (uint32_t j = 0; j < view->dim; j++) {                                                               \
      const T *x = (const T *)view->coords + j * view->stride;                                               \
      T low = x[listed ? listed[0] : first], high = low;                                                     \
      for (uint64_t i = 1; i < count; i++) {                                                                 \
        T at = x[listed ? listed[i] : first + i];                                                            \
        low = at < low ? at : low;                                                                           \
        high = at > high ? at : high;                                                                        \
      }                                                                                                      \
      bounds[j] = low;                                                                                       \
      bounds[view->dim + j] = high;                                                                          \
    }                                                                                                        \
  }                                                                                                          \
                                                                                                             \
  /* A distance d in dimension j, the shorter way round a periodic box. */                                   \
  static inline T around_##T(const T *box, uint32_t j, T d) {                                                \
    return box && box[j] - d < d ? box[j] - d : d;                                                           \
  }                                                                                                          \
                                                                                                             \
  /* Like apart_ below, for L2 without a periodic box, with sums in any order: see adji_boxes_limit(). */    \
  static bool apart_l2_##T(const T *a, const T *b, uint32_t dim, T limit) {                                  \
    T sums[AT_ONCE] = {0}, s = 0;                                                                            \
    uint32_t j = 0;                                                                                          \
    for (; j + AT_ONCE <= dim; j += AT_ONCE)                                                                 \
      for (uint32_t i = j; i < j + AT_ONCE; i++) {                                                           \
        T above = a[i] - b[dim + i], below = b[i] - a[dim + i];                                              \
        T gap = above > below ? above : below;                                                               \
        gap = gap > 0 ? gap : 0;                                                                             \
        sums[i - j] += gap * gap;                                                                            \
      }                                                                                                      \
    for (uint32_t i = 0; i < AT_ONCE; i++)                                                                   \
      s += sums[i];                                                                                          \
    for (; j < dim; j++) {                                                                                   \
      T above = a[j] - b[dim + j], below = b[j] - a[dim + j];                                                \
      T gap = above > below ? above : below;                                                                 \
      if (gap > 0) s += gap * gap;                                                                           \
    }                                                                                                        \
    return s > limit;                                                                                        \
  }                                                                                                          \
                                                                                                             \
  /* Whether the smallest sum of any two points of the boxes a and b is above the limit. */                  \
  static bool apart_##T(const adji_measure *measure, const T *a, const T *b, uint32_t dim, T limit) {        \
    const T *box = measure->box;                                                                             \
    T s = 0;                                                                                                 \
    for (uint32_t j = 0; j < dim; j++) {                                                                     \
      T above = a[j] - b[dim + j], below = b[j] - a[dim + j];                                                \
      T gap = above > below ? above : below;                                                                 \
      if (box && gap > 0) {                                                                                  \
        T most = around_##T(box, j, above > below ? a[dim + j] - b[j] : b[dim + j] - a[j]);                  \
        gap = around_##T(box, j, gap);                                                                       \
        gap = most < gap ? most : gap;                                                                       \
      }                                                                                                      \
      if (gap > 0) s = adji_step_##suffix(measure, s, gap);                                                  \
      if (s > limit) return true;                                                                            \
    }                                                                                                        \
    return false;                                                                                            \
  }                                                                                                          \
                                                                                                             \
  /* Whether the largest sum of any two points of the boxes is within the limit. */                          \
  static bool within_##T(const adji_measure *measure, const T *a, const T *b, uint32_t dim, T limit) {       \
    const T *box = measure->box;                                                                             \
    T s = 0;                                                                                                 \
    for (uint32_t j = 0; j < dim; j++) {                                                                     \
      T one = ABS(a[dim + j] - b[j]), other = ABS(b[dim + j] - a[j]);                                        \
      T most = one > other ? one : other;                                                                    \
      if (box) {                                                                                             \
        T above = a[j] - b[dim + j], below = b[j] - a[dim + j], gap = above > below ? above : below;         \
        if (gap < 0) gap = 0;                                                                                \
        most = box[j] - gap < most ? box[j] - gap : most;                                                    \
      }                                                                                                      \
      s = adji_step_##suffix(measure, s, most);                                                              \
      if (!(s <= limit)) return false;                                                                       \
    }                                                                                                        \
    return true;                                                                                             \
  }
BOXES(float, f32, fabsf)
BOXES(double, f64, fabs)

/* ---- Build ----------------------------------------------------------------------------------- */

typedef struct build {
  const adji_view *view;
  adji_boxes *boxes;
  uint64_t slices;
} build;

static adj_status bound_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  const adji_view *view = b->view;
  uint64_t begin, end;
  adji_slice(b->boxes->level_blocks[0], b->slices, slice, &begin, &end);
  for (uint64_t block = begin; block < end; block++) {
    uint64_t first = block * ADJI_BLOCK, many = view->count - first < ADJI_BLOCK ? view->count - first : ADJI_BLOCK;
    if (b->boxes->type == ADJ_F64)
      bound_double(view, NULL, first, many, (double *)b->boxes->level_bounds[0] + block * 2 * view->dim);
    else
      bound_float(view, NULL, first, many, (float *)b->boxes->level_bounds[0] + block * 2 * view->dim);
  }
  return ADJ_OK;
}

static void pair_level(adji_boxes *boxes, uint32_t level) {
  size_t bytes = 2 * (size_t)boxes->dim * adji_type_size(boxes->type);
  const char *below = boxes->level_bounds[level - 1];
  char *here = boxes->level_bounds[level];
  for (uint64_t i = 0; i < boxes->level_blocks[level]; i++, here += bytes) {
    memcpy(here, below + 2 * i * bytes, bytes);
    if (2 * i + 1 == boxes->level_blocks[level - 1]) break;
    const char *other = below + (2 * i + 1) * bytes;
    if (boxes->type == ADJ_F64)
      widen_double((double *)(void *)here, (const double *)(const void *)other, boxes->dim);
    else
      widen_float((float *)(void *)here, (const float *)(const void *)other, boxes->dim);
  }
}

/* For L2 the sum of squared gaps is added up in any order. Let d^2 be the exact sum of squares of the rounded gaps.
 * Both bounds of adji_sum_error hold for any order: the computed sum is at most d^2 * factor + least, and d^2 is at
 * most factor times the canonical sum of the gaps + least. That canonical sum is a lower bound of the canonical sum of
 * every pair. So all canonical sums are above the limit if the computed sum is above
 * (limit * factor + least) * factor + least. The last factor covers the roundings of this function; the result is
 * rounded up to T. */
static double l2_drop_above(const adji_boxes *boxes, double limit) {
  adji_sum_error e = adji_sum_error_of(boxes->type, boxes->dim);
  double above = ((limit * e.factor + e.least) * e.factor + e.least) * (1 + 0x1p-50);
  return boxes->type == ADJ_F64 ? above : nextafterf((float)above, INFINITY);
}

/* The slack for powers that are not whole numbers. Let e be the relative slack of a power: power(x) is within a factor
 * 1 +- e of x^p, plus 4 tiny where it is denormal. If g <= t, then
 *   power(g) <= (power(t) + 4 tiny) (1 + e) / (1 - e) + 4 tiny.
 * A sum of dim terms rounds by at most a factor 1 + dim u. So the sum over g is at most 1 + 3e + 2 dim u times the sum
 * over t, plus 16 dim tiny. The slack below is wider, which covers rounding it to T. */
void adji_boxes_limit(adji_boxes *boxes, double limit) {
  boxes->drop_above = boxes->take_within = limit;
  if (boxes->measure->step == ADJI_STEP_L2) boxes->drop_above = l2_drop_above(boxes, limit);
  if (adji_plain_step(boxes->measure->step) != ADJI_STEP_LP || boxes->measure->power.whole) return;
  double u = boxes->type == ADJ_F32 ? 0x1p-24 : 0x1p-53, tiny = boxes->type == ADJ_F32 ? 0x1p-149 : 0x1p-1074;
  double slack = 4 * ADJI_POWER_SLACK(u) + 4 * boxes->dim * u;
  boxes->drop_above = limit * (1 + slack) + 32 * boxes->dim * tiny;
  boxes->take_within = limit * (1 - slack) - 32 * boxes->dim * tiny;
}

adj_status adji_boxes_build(adj_ctx *ctx, const adji_index *index, const adji_measure *measure, double limit,
                            adji_boxes *out) {
  const adji_view *view = &index->view;
  *out = (adji_boxes){.ctx = ctx, .type = index->set->type, .measure = measure, .dim = view->dim, .count = view->count};
  adji_boxes_limit(out, limit);
  uint64_t blocks = ((uint64_t)view->count + ADJI_BLOCK - 1) / ADJI_BLOCK;
  size_t bytes = 2 * (size_t)view->dim * adji_type_size(out->type);
  for (uint64_t many = blocks; many; many = many > 1 ? (many + 1) / 2 : 0) {
    out->level_blocks[out->levels] = many;
    out->level_bounds[out->levels] = adji_alloc(&ctx->memory, many, bytes, "bounding boxes");
    if (!out->level_bounds[out->levels++]) {
      adji_boxes_clear(out);
      return ADJ_E_MEMORY;
    }
  }
  build b = {view, out, blocks < 256 ? 1 : 4 * (uint64_t)ctx->threads};
  adj_status status = blocks ? adji_loop(ctx, b.slices, bound_slice, &b) : ADJ_OK;
  for (uint32_t level = 1; level < out->levels && !status; level++)
    pair_level(out, level);
  if (status) adji_boxes_clear(out);
  return status;
}

void adji_boxes_clear(adji_boxes *boxes) {
  for (uint32_t level = 0; level < boxes->levels; level++)
    adji_free(&boxes->ctx->memory, boxes->level_bounds[level]);
  *boxes = (adji_boxes){0};
}

void adji_box_of(const adji_view *view, adj_type type, const uint32_t *positions, uint32_t count, void *bounds) {
  if (type == ADJ_F64)
    bound_double(view, positions, 0, count, bounds);
  else
    bound_float(view, positions, 0, count, bounds);
}

/* ---- Split ----------------------------------------------------------------------------------- */

typedef struct split {
  const adji_boxes *boxes;
  const void *bounds;
  adji_range range;
  adji_split *out;
} split;

static void append(adji_range *ranges, uint32_t *count, uint32_t begin, uint32_t end) {
  if (*count && ranges[*count - 1].end == begin)
    ranges[*count - 1].end = end;
  else
    ranges[(*count)++] = (adji_range){begin, end};
}

static bool block_apart(const split *s, const void *box) {
  const adji_boxes *b = s->boxes;
  if (b->measure->step == ADJI_STEP_L2)
    return b->type == ADJ_F64 ? apart_l2_double(s->bounds, box, b->dim, b->drop_above)
                              : apart_l2_float(s->bounds, box, b->dim, (float)b->drop_above);
  return b->type == ADJ_F64 ? apart_double(b->measure, s->bounds, box, b->dim, b->drop_above)
                            : apart_float(b->measure, s->bounds, box, b->dim, (float)b->drop_above);
}

static bool block_within(const split *s, const void *box) {
  const adji_boxes *b = s->boxes;
  return b->type == ADJ_F64 ? within_double(b->measure, s->bounds, box, b->dim, b->take_within)
                            : within_float(b->measure, s->bounds, box, b->dim, (float)b->take_within);
}

static void split_block(const split *s, uint32_t level, uint64_t block) {
  const adji_boxes *boxes = s->boxes;
  uint64_t first = (block * ADJI_BLOCK) << level, last = ((block + 1) * ADJI_BLOCK) << level;
  if (first < s->range.begin) first = s->range.begin;
  if (last > s->range.end) last = s->range.end;
  if (first >= last) return;
  size_t bytes = 2 * (size_t)boxes->dim * adji_type_size(boxes->type);
  const void *box = (const char *)boxes->level_bounds[level] + block * bytes;
  if (block_apart(s, box)) return;
  bool whole = block_within(s, box);
  if (whole && !s->out->compare_all) {
    append(s->out->inside, &s->out->inside_count, (uint32_t)first, (uint32_t)last);
  } else if (whole || !level) {
    append(s->out->near, &s->out->near_count, (uint32_t)first, (uint32_t)last);
  } else {
    split_block(s, level - 1, 2 * block);
    if (2 * block + 1 < boxes->level_blocks[level - 1]) split_block(s, level - 1, 2 * block + 1);
  }
}

void adji_boxes_split(const adji_boxes *boxes, const void *bounds, adji_range range, adji_split *out) {
  if (range.begin >= range.end) return;
  split s = {boxes, bounds, range, out};
  /* Start at the level where one or two blocks cover the range. */
  uint32_t level = 0;
  uint64_t first = range.begin / ADJI_BLOCK, last = (range.end - 1) / ADJI_BLOCK;
  for (; last - first > 1; first /= 2, last /= 2)
    level++;
  split_block(&s, level, first);
  if (last != first) split_block(&s, level, last);
}

/* ---- Order ----------------------------------------------------------------------------------- */

typedef struct keyed {
  double x;
  uint32_t id;
} keyed;

typedef struct piece {
  uint32_t begin, end; /* positions */
} piece;

typedef struct ordering {
  adj_ctx *ctx;
  const adj_dataset *set;
  uint32_t *ids;
  piece *pieces;
  uint64_t count, room;
} ordering;

enum { SPREAD_SAMPLE = 128, LARGE_PIECE = 1 << 16 };

/* Finds the dimension with the widest spread among a sample of the piece's points. Returns false if all are equal. */
static bool widest(const ordering *o, piece p, uint32_t sample, uint32_t *dim) {
  double most = 0;
  uint32_t count = p.end - p.begin, step = count / sample + 1;
  for (uint32_t j = 0; j < o->set->dim; j++) {
    double low = adji_dataset_at(o->set, o->ids[p.begin], j), high = low;
    for (uint64_t i = p.begin; i < p.end; i += step) {
      double x = adji_dataset_at(o->set, o->ids[i], j);
      low = x < low ? x : low;
      high = x > high ? x : high;
    }
    if (high - low > most) {
      most = high - low;
      *dim = j;
    }
  }
  return most > 0;
}

static inline bool before(keyed a, keyed b) {
  return a.x < b.x || (a.x == b.x && a.id < b.id);
}

/* Moves the `middle` smallest entries to the front (quickselect). Ids break ties, so the result does not depend on the
 * input order, and equal coordinates cannot make it slow. */
static void select_smallest(keyed *v, uint64_t count, uint64_t middle) {
  uint64_t low = 0, high = count - 1;
  while (low < high) {
    keyed a = v[low], b = v[low + (high - low) / 2], c = v[high];
    keyed pivot = before(a, b) ? (before(b, c) ? b : before(a, c) ? c : a) : (before(a, c) ? a : before(b, c) ? c : b);
    uint64_t i = low, j = high;
    for (;; i++, j--) {
      while (before(v[i], pivot))
        i++;
      while (before(pivot, v[j]))
        j--;
      if (i >= j) break;
      keyed exchange = v[i];
      v[i] = v[j];
      v[j] = exchange;
    }
    if (middle <= j)
      high = j;
    else
      low = j + 1;
  }
}

/* Cuts a piece in two at a multiple of ADJI_BLOCK. Returns the cut, or 0 if there is nothing to cut. */
static uint32_t cut(const ordering *o, piece p, keyed *v) {
  uint32_t count = p.end - p.begin, dim = 0;
  uint32_t at = (p.begin + count / 2 + ADJI_BLOCK / 2) / ADJI_BLOCK * ADJI_BLOCK;
  if (at <= p.begin || at >= p.end) return 0;
  if (!widest(o, p, SPREAD_SAMPLE, &dim) && !widest(o, p, count, &dim)) return 0;
  for (uint32_t i = 0; i < count; i++)
    v[i] = (keyed){adji_dataset_at(o->set, o->ids[p.begin + i], dim), o->ids[p.begin + i]};
  select_smallest(v, count, at - p.begin);
  for (uint32_t i = 0; i < count; i++)
    o->ids[p.begin + i] = v[i].id;
  return at;
}

static void cut_down(const ordering *o, piece p, keyed *v) {
  while (p.end - p.begin > ADJI_BLOCK) {
    uint32_t at = cut(o, p, v);
    if (!at) return;
    cut_down(o, (piece){at, p.end}, v);
    p.end = at;
  }
}

static adj_status order_piece(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const ordering *o = user;
  piece p = o->pieces[task];
  keyed *v = adji_alloc(&o->ctx->memory, p.end - p.begin, sizeof *v, "order within a cell");
  if (!v) return ADJ_E_MEMORY;
  cut_down(o, p, v);
  adji_free(&o->ctx->memory, v);
  return ADJ_OK;
}

/* Lists the pieces of a cell. Pieces that are too large for one lane are cut here, before the lanes start. */
static adj_status add_cell(ordering *o, piece p) {
  if (p.end - p.begin > LARGE_PIECE) {
    keyed *v = adji_alloc(&o->ctx->memory, p.end - p.begin, sizeof *v, "order within a cell");
    if (!v) return ADJ_E_MEMORY;
    uint32_t at = cut(o, p, v);
    adji_free(&o->ctx->memory, v);
    if (!at) return ADJ_OK;
    adj_status status = add_cell(o, (piece){p.begin, at});
    return status ? status : add_cell(o, (piece){at, p.end});
  }
  if (o->count == o->room) {
    uint64_t room = o->room * 2 + 64;
    if (!adji_grow(&o->ctx->memory, (void **)&o->pieces, room, sizeof p, o->count * sizeof p, "long cells"))
      return ADJ_E_MEMORY;
    o->room = room;
  }
  o->pieces[o->count++] = p;
  return ADJ_OK;
}

adj_status adji_block_order(adj_ctx *ctx, const adj_dataset *set, adji_index *index) {
  if (index->largest_cell < ADJI_LONG_CELL) return ADJ_OK;
  uint64_t begin = adji_now_ns();
  ordering o = {.ctx = ctx, .set = set, .ids = (uint32_t *)index->view.ids};
  adj_status status = ADJ_OK;
  for (uint64_t c = 0; c < index->cell_count && !status; c++) {
    piece p = {index->cell_starts[c], index->cell_starts[c + 1]};
    if (p.end - p.begin >= ADJI_LONG_CELL) status = add_cell(&o, p);
    if (!status) status = adji_check_cancel(ctx);
  }
  if (!status) status = adji_loop(ctx, o.count, order_piece, &o);
  adji_free(&ctx->memory, o.pieces);
  adji_trace(ctx, "order", 0, begin, set->count);
  return status;
}
