/* SPDX-License-Identifier: MIT
 *
 * Building an index: cell numbers, sort, cells, coordinates. Each step is one parallel pass.
 *
 * A point is sorted as one 64-bit item: its cell number above its row number. When a few bits are too many, points are
 * first put into parts by the leading bits of their cell numbers, which the items of a part share and do not hold. When
 * many are, the item is the cell number, and the row number moves with it in an array of its own. 400 million points
 * took 11 s when cell numbers were computed again after the sort, from points all over the set; 2.3 s with row numbers
 * apart.
 */
#include <string.h>

#include "index/boxes.h"
#include "index/build_private.h"
#include "index/slab.h"

/* So many bits too many make parts; more are not worth it. */
enum { MOST_PART_BITS = 6 };

typedef adji_build build;

/* ---- Cell numbers ---------------------------------------------------------------------------- */

static uint64_t cell_number(const adji_grid *grid, const adj_dataset *set, uint64_t row) {
  uint64_t key = 0;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const adji_axis *axis = &grid->axes[a];
    key += axis->stride * adji_axis_slab(axis, adji_dataset_at(set, row, axis->dim));
  }
  return key;
}

static inline uint64_t item_of(const build *b, uint64_t row, uint64_t key) {
  return key << b->id_bits | (b->id_bits ? row : 0); /* the leading bits are shifted out where there are parts */
}

/* Of consecutive rows, along axes with slabs of equal width. Constants of the axes are in registers. */
#define NUMBER_ROWS(T)                                                                                            \
  static inline __attribute__((always_inline)) void number_rows_##T(const build *b, uint64_t begin, uint64_t end, \
                                                                    uint64_t *keys, const uint32_t axes) {        \
    const adji_grid *grid = b->grid;                                                                              \
    uint64_t row_stride = b->set->row_stride, place[ADJI_MAX_AXES], stride[ADJI_MAX_AXES], slabs[ADJI_MAX_AXES];  \
    double low[ADJI_MAX_AXES], inverse[ADJI_MAX_AXES];                                                            \
    for (uint32_t a = 0; a < axes; a++) {                                                                         \
      const adji_axis *axis = &grid->axes[a];                                                                     \
      place[a] = axis->dim * b->set->column_stride;                                                               \
      stride[a] = axis->stride;                                                                                   \
      slabs[a] = axis->slabs;                                                                                     \
      low[a] = axis->low;                                                                                         \
      inverse[a] = axis->inverse;                                                                                 \
    }                                                                                                             \
    const char *row = b->set->data + begin * row_stride;                                                          \
    for (uint64_t i = 0; i < end - begin; i++, row += row_stride) {                                               \
      uint64_t key = 0;                                                                                           \
      for (uint32_t a = 0; a < axes; a++)                                                                         \
        key += stride[a] * adji_equal_slab((double)*(const T *)(row + place[a]), low[a], inverse[a], slabs[a]);   \
      keys[i] = key;                                                                                              \
    }                                                                                                             \
  }                                                                                                               \
                                                                                                                  \
  static void number_regular_##T(const build *b, uint64_t begin, uint64_t end, uint64_t *keys) {                  \
    if (b->grid->axis_count == 2)                                                                                 \
      number_rows_##T(b, begin, end, keys, 2);                                                                    \
    else if (b->grid->axis_count == 3)                                                                            \
      number_rows_##T(b, begin, end, keys, 3);                                                                    \
    else                                                                                                          \
      number_rows_##T(b, begin, end, keys, b->grid->axis_count);                                                  \
  }
NUMBER_ROWS(float)
NUMBER_ROWS(double)
#undef NUMBER_ROWS

static bool regular(const adji_grid *grid) {
  for (uint32_t a = 0; a < grid->axis_count; a++)
    if (grid->axes[a].breaks) return false;
  return true;
}

uint64_t adji_number_block(const build *b, uint64_t begin, uint64_t end, uint64_t *keys) {
  if (end - begin > ADJI_KEY_BLOCK) end = begin + ADJI_KEY_BLOCK;
  if (!regular(b->grid)) {
    for (uint64_t i = begin; i < end; i++)
      keys[i - begin] = cell_number(b->grid, b->set, i);
  } else if (b->set->type == ADJ_F64) {
    number_regular_double(b, begin, end, keys);
  } else {
    number_regular_float(b, begin, end, keys);
  }
  return end;
}

/* Items in the order of the rows. */
static adj_status number_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  uint64_t begin, end, next, keys[ADJI_KEY_BLOCK];
  adji_slice(b->set->count, b->slices, slice, &begin, &end);
  for (; begin < end; begin = next) {
    next = adji_number_block(b, begin, end, keys);
    for (uint64_t i = begin; i < next; i++)
      b->sorted.items[i] = item_of(b, i, keys[i - begin]);
    for (uint64_t i = begin; i < next && b->sorted.ids; i++)
      b->sorted.ids[i] = (uint32_t)i;
  }
  return ADJ_OK;
}

/* The same by parts: counts what a slice has of each; then puts it there. */
static adj_status count_parts(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  uint64_t begin, end, next, keys[ADJI_KEY_BLOCK], *counts = b->slice_parts + slice * b->parts;
  adji_slice(b->set->count, b->slices, slice, &begin, &end);
  for (; begin < end; begin = next) {
    next = adji_number_block(b, begin, end, keys);
    for (uint64_t i = begin; i < next; i++)
      counts[keys[i - begin] >> b->low_bits]++;
  }
  return ADJ_OK;
}

/* Points that are no longer what they were when they were counted are refused. */
static adj_status place_parts(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  uint64_t begin, end, next, keys[ADJI_KEY_BLOCK] = {0}, places[1 << MOST_PART_BITS] = {0},
                             ends[1 << MOST_PART_BITS] = {0};
  for (uint64_t part = 0; part < b->parts; part++) {
    const uint64_t *at = b->slice_parts + slice * b->parts + part;
    places[part] = *at;
    ends[part] = slice + 1 < b->slices ? at[b->parts] : b->part_starts[part + 1];
  }
  adji_slice(b->set->count, b->slices, slice, &begin, &end);
  for (; begin < end; begin = next) {
    next = adji_number_block(b, begin, end, keys);
    for (uint64_t i = begin; i < next; i++) {
      uint64_t part = keys[i - begin] >> b->low_bits;
      if (places[part] == ends[part]) return adji_points_changed();
      b->sorted.items[places[part]++] = item_of(b, i, keys[i - begin]);
    }
  }
  return ADJ_OK; /* all places are taken: there are as many as points */
}

static adj_status number_parts(build *b) {
  b->slice_parts = adji_alloc_zero(&b->ctx->memory, b->slices * b->parts, sizeof *b->slice_parts, "cell numbers");
  if (!b->slice_parts) return ADJ_E_MEMORY;
  adj_status status = adji_loop(b->ctx, b->slices, count_parts, b);
  uint64_t total = 0;
  for (uint64_t part = 0; part < b->parts && !status; part++) {
    b->part_starts[part] = total;
    for (uint64_t slice = 0; slice < b->slices; slice++) {
      uint64_t *at = &b->slice_parts[slice * b->parts + part], many = *at;
      *at = total;
      total += many;
    }
  }
  return status ? status : adji_loop(b->ctx, b->slices, place_parts, b);
}

/* Ids that are apart become those of the index. */
static adj_status make_items(build *b, uint64_t count) {
  adji_memory *memory = &b->ctx->memory;
  adji_sorted *s = &b->sorted;
  b->count = count;
  s->items = adji_alloc(memory, count, sizeof *s->items, "cell numbers");
  s->spare = adji_alloc(memory, count, sizeof *s->spare, "cell numbers");
  if (!s->items || !s->spare) return ADJ_E_MEMORY;
  if (b->id_bits) return ADJ_OK;
  s->ids = adji_alloc(memory, count + ADJI_PAD, sizeof *s->ids, "ids of the index");
  s->spare_ids = adji_alloc(memory, count + ADJI_PAD, sizeof *s->spare_ids, "ids of the index");
  return s->ids && s->spare_ids ? ADJ_OK : ADJ_E_MEMORY;
}

/* ---- Cell numbers of images ------------------------------------------------------------------ */

/* Images of points in a periodic box. The grid does not wrap round. Instead, a point within reach of a face of the box
 * gets a second entry in the index, in the cell where its image beyond the opposite face lies. Its coordinates stay the
 * original ones, so the kernels decide with the bits of the definition.
 *
 * Every pair that belongs is met exactly once. Let a be a query, in its cell inside the box, and b a candidate. On a
 * periodic axis of length L the margin m is at least the true distance, the shorter way round, of coordinates that
 * belong. The images of b are b; b + L if b <= m; and b - L if b >= L - m.
 *
 * At least once: if |a - b| <= m, the image b lies within m of a. Otherwise L - |a - b| <= m. If b > a, then
 * b >= L - m + a >= L - m, so b - L is an image and within m of a. If b < a, the same holds for b + L. So on every axis
 * some image is within reach, and the cell of this combination is visited (grid.c). An image's coordinate rounds by
 * 2^-53 of 2 L, with at most 2^20 slabs far less than the slack of a slab.
 *
 * At most once: an axis exists only where L is at least 4 cells, that is 4 * reach slabs. Two images on one axis are L
 * apart, so their slabs differ by at least 4 * reach - 1 > 2 * reach, and no query has both within reach. Nor are there
 * two images of b on one side: b <= m and b >= L - m together would need L <= 2 m. */

/* Writes the numbers of the cells that hold the point or one of its images to keys, which has room for 2^axes entries
 * (NULL: count only). Returns how many there are: 1 if the point is far from all faces. */
static uint32_t cells_of_images(const adji_grid *grid, const adj_dataset *set, uint64_t row, uint64_t *keys) {
  uint32_t count = 1;
  if (keys) keys[0] = 0;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const adji_axis *axis = &grid->axes[a];
    double x = adji_dataset_at(set, row, axis->dim), image = x;
    if (axis->period > 0 && x <= axis->margin) image = x + axis->period;
    if (axis->period > 0 && x >= axis->period - axis->margin) image = x - axis->period;
    bool second = image != x;
    if (keys) {
      uint64_t here = axis->stride * adji_axis_slab(axis, x), there = axis->stride * adji_axis_slab(axis, image);
      for (uint32_t i = 0; i < count; i++) {
        if (second) keys[count + i] = keys[i] + there;
        keys[i] += here;
      }
    }
    if (second) count *= 2;
  }
  return count;
}

static adj_status count_images(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  build *b = user;
  uint64_t begin, end, many = 0;
  adji_slice(b->set->count, b->slices, slice, &begin, &end);
  for (uint64_t i = begin; i < end; i++)
    many += cells_of_images(b->grid, b->set, i, NULL);
  b->slice_cells[slice] = many;
  return ADJ_OK;
}

/* Where the items of a slice end, once the counts are added up. */
static uint64_t slice_end(const build *b, uint64_t slice) {
  return slice + 1 < b->slices ? b->slice_cells[slice + 1] : b->count;
}

static adj_status number_images(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  build *b = user;
  uint64_t begin, end, at = b->slice_cells[slice], room = slice_end(b, slice), keys[1 << ADJI_MAX_AXES];
  adji_slice(b->set->count, b->slices, slice, &begin, &end);
  for (uint64_t i = begin; i < end; i++) {
    uint32_t many = cells_of_images(b->grid, b->set, i, keys);
    if (many > room - at) return adji_points_changed();
    for (uint32_t k = 0; k < many; k++)
      b->sorted.items[at++] = keys[k] << b->id_bits | i;
  }
  return at == room ? ADJ_OK : adji_points_changed();
}

/* Turns the counts of the slices into starting positions; returns the total. */
static uint64_t add_up(build *b) {
  uint64_t total = 0;
  for (uint64_t s = 0; s < b->slices; s++) {
    uint64_t many = b->slice_cells[s];
    b->slice_cells[s] = total;
    total += many;
  }
  return total;
}

/* The planner makes sure that a cell number and a row number fit into 64 bits together. */
static adj_status sort_images(build *b) {
  if (!b->id_bits || b->parts > 1)
    return adji_fail(ADJ_E_INTERNAL, "cells of a periodic grid have numbers of %u bits", b->grid->key_bits);
  adj_status status = adji_loop(b->ctx, b->slices, count_images, b);
  if (status) return status;
  uint64_t total = add_up(b);
  if (total > ADJ_MAX_COUNT)
    return adji_fail(ADJ_E_UNSUPPORTED, "box: with their images beyond its faces there are %llu points; use ego",
                     (unsigned long long)total);
  status = make_items(b, total);
  if (!status) status = adji_loop(b->ctx, b->slices, number_images, b);
  if (!status) status = adji_radix_sort(b->ctx, &b->sorted, total, b->id_bits, b->grid->key_bits);
  return status;
}

/* ---- Order ----------------------------------------------------------------------------------- */

static void copy_items(void *user, uint64_t begin, uint64_t end) {
  const adji_sorted *part = user;
  memcpy(part->spare + begin, part->items + begin, (end - begin) * sizeof *part->items);
}

/* All parts go to the spare array, where nearly all end up by themselves. */
static adj_status sort_parts(build *b) {
  adj_status status = number_parts(b);
  for (uint64_t i = 0; i < b->parts && !status; i++) {
    uint64_t begin = b->part_starts[i], count = b->part_starts[i + 1] - begin;
    adji_sorted part = {.items = b->sorted.items + begin, .spare = b->sorted.spare + begin};
    status = adji_radix_sort(b->ctx, &part, count, b->id_bits, b->low_bits);
    if (!status && count && part.items == b->sorted.items + begin)
      status = adji_loop_slices(b->ctx, count, b->ctx->threads, copy_items, &part);
  }
  b->sorted = (adji_sorted){.items = b->sorted.spare, .spare = b->sorted.items};
  return status;
}

static adj_status sort_points(build *b) {
  if (b->options->images) return sort_images(b);
  adj_status status = make_items(b, b->set->count);
  b->part_starts[b->parts] = b->count;
  if (!status && b->parts > 1) return sort_parts(b);
  if (!status) status = adji_loop(b->ctx, b->slices, number_slice, b);
  return status ? status : adji_radix_sort(b->ctx, &b->sorted, b->set->count, b->id_bits, b->low_bits);
}

/* ---- Cells ----------------------------------------------------------------------------------- */

/* The leading bits of cell numbers at position i; *end: up to where they are the same, at most. */
static uint64_t leading_bits(const build *b, uint64_t i, uint64_t *end) {
  uint64_t part = 0;
  if (b->parts == 1) return 0;
  while (b->part_starts[part + 1] <= i)
    part++;
  if (b->part_starts[part + 1] < *end) *end = b->part_starts[part + 1];
  return part << b->low_bits;
}

static inline uint64_t key_at(const build *b, uint64_t leading, uint64_t i) {
  return leading | b->sorted.items[i] >> b->id_bits;
}

static uint64_t key_before(const build *b, uint64_t i) {
  return i ? key_at(b, leading_bits(b, i - 1, &i), i - 1) : UINT64_MAX;
}

static adj_status count_cells(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  build *b = user;
  uint64_t begin, end, next, many = 0;
  adji_slice(b->count, b->slices, slice, &begin, &end);
  uint64_t before = key_before(b, begin);
  for (uint64_t i = begin; i < end;) {
    uint64_t leading = leading_bits(b, i, (next = end, &next));
    for (; i < next; i++) {
      uint64_t key = key_at(b, leading, i);
      many += key != before;
      before = key;
    }
  }
  b->slice_cells[slice] = many;
  return ADJ_OK;
}

/* Writes the cells that begin from `begin` on, and the ids unless they are apart. There is no branch for cells: every
 * item writes its cell, the number of which is *cell. */
static uint64_t write_run(const build *b, uint64_t leading, uint64_t begin, uint64_t end, uint64_t before,
                          uint64_t *cell) {
  uint64_t id_mask = (UINT64_C(1) << b->id_bits) - 1, at = *cell;
  uint32_t *ids = (uint32_t *)b->index->view.ids, start = 0;
  for (uint64_t i = begin; i < end; i++) {
    uint64_t key = key_at(b, leading, i);
    bool is_new = key != before;
    start = is_new ? (uint32_t)i : start;
    at += is_new;
    b->index->cell_keys[at] = before = key;
    b->index->cell_starts[at] = start;
    if (id_mask) ids[i] = (uint32_t)(b->sorted.items[i] & id_mask);
  }
  *cell = at;
  return before;
}

/* Items of a cell that begins in an earlier slice do not write it. */
static adj_status write_cells(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  uint64_t begin, end, next, id_mask = (UINT64_C(1) << b->id_bits) - 1, cell = b->slice_cells[slice] - 1;
  adji_slice(b->count, b->slices, slice, &begin, &end);
  uint32_t *ids = (uint32_t *)b->index->view.ids;
  if (begin == end) return ADJ_OK;
  uint64_t before = key_before(b, begin), leading = leading_bits(b, begin, (next = end, &next)), i = begin;
  for (; i < next && key_at(b, leading, i) == before; i++)
    if (id_mask) ids[i] = (uint32_t)(b->sorted.items[i] & id_mask);
  for (; i < end; i = next) {
    leading = leading_bits(b, i, (next = end, &next));
    before = write_run(b, leading, i, next, before, &cell);
  }
  return ADJ_OK;
}

adj_status adji_build_ids(const build *b) {
  adji_view *view = &b->index->view;
  view->ids = adji_alloc(&b->ctx->memory, b->count + ADJI_PAD, sizeof *view->ids, "ids of the index");
  if (!view->ids) return ADJ_E_MEMORY;
  memset((uint32_t *)view->ids + b->count, 0, ADJI_PAD * sizeof *view->ids);
  return ADJ_OK;
}

adj_status adji_build_cells(const build *b, uint64_t cells) {
  adji_index *index = b->index;
  index->cell_count = cells;
  index->cell_keys = adji_alloc(&b->ctx->memory, cells + ADJI_CELL_PAD, sizeof *index->cell_keys, "cells");
  index->cell_starts = adji_alloc(&b->ctx->memory, cells + ADJI_CELL_PAD, sizeof *index->cell_starts, "cells");
  if (!index->cell_keys || !index->cell_starts) return ADJ_E_MEMORY;
  for (int i = 0; i < ADJI_CELL_PAD; i++) {
    index->cell_keys[cells + i] = UINT64_MAX;
    index->cell_starts[cells + i] = (uint32_t)b->count;
  }
  return ADJ_OK;
}

static adj_status find_cells(build *b) {
  adj_status status = adji_loop(b->ctx, b->slices, count_cells, b);
  if (!status) status = adji_build_cells(b, add_up(b));
  if (status) return status;
  b->index->view.ids = b->sorted.ids;
  b->sorted.ids = NULL;
  if (!b->index->view.ids)
    status = adji_build_ids(b);
  else
    memset((uint32_t *)b->index->view.ids + b->count, 0, ADJI_PAD * sizeof(uint32_t));
  return status ? status : adji_loop(b->ctx, b->slices, write_cells, b);
}

/* ---- Coordinates ----------------------------------------------------------------------------- */

enum { GATHER_AHEAD = 24, GATHER_BLOCK = 256 };

/* A block of points at a time. Returns whether all are finite: kernels rely on it, because a point must be at distance
 * 0 of itself. The check is a loop of its own, over what is in the cache, because it is vectorised then. */
#define GATHER(T)                                                                              \
  static bool all_finite_##T(const T *x, uint64_t count) {                                     \
    int odd = 0;                                                                               \
    for (uint64_t i = 0; i < count; i++)                                                       \
      odd |= !adji_is_finite(x[i]);                                                            \
    return !odd;                                                                               \
  }                                                                                            \
                                                                                               \
  static bool gather_##T(const build *b, uint64_t begin, uint64_t end) {                       \
    const adj_dataset *set = b->set;                                                           \
    const adji_view *view = &b->index->view;                                                   \
    T *to = (T *)view->coords;                                                                 \
    for (uint64_t i = begin; i < end; i++) {                                                   \
      __builtin_prefetch(set->data + (uint64_t)view->ids[i + GATHER_AHEAD] * set->row_stride); \
      const char *row = set->data + (uint64_t)view->ids[i] * set->row_stride;                  \
      for (uint32_t j = 0; j < view->dim; j++)                                                 \
        to[j * view->stride + i] = *(const T *)(row + j * set->column_stride);                 \
    }                                                                                          \
    bool finite = true;                                                                        \
    for (uint32_t j = 0; j < view->dim; j++)                                                   \
      finite &= all_finite_##T(to + j * view->stride + begin, end - begin);                    \
    return finite;                                                                             \
  }
GATHER(float)
GATHER(double)

static bool gather_range(const build *b, uint64_t begin, uint64_t end) {
  bool finite = true;
  for (uint64_t first = begin; first < end; first += GATHER_BLOCK) {
    uint64_t last = first + GATHER_BLOCK < end ? first + GATHER_BLOCK : end;
    finite &= b->set->type == ADJ_F64 ? gather_double(b, first, last) : gather_float(b, first, last);
  }
  return finite;
}

static adj_status gather_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  uint64_t begin, end;
  adji_slice(b->count, b->slices, slice, &begin, &end);
  return gather_range(b, begin, end) ? ADJ_OK : adji_points_changed();
}

/* The columns of the dimensions lie an odd number of cache lines apart. Otherwise the same position of many dimensions
 * would fall into one set of the cache. */
adj_status adji_build_coords(const build *b) {
  adji_view *view = &b->index->view;
  size_t size = adji_type_size(b->set->type);
  uint64_t line = 64 / size;
  view->dim = b->set->dim;
  view->count = (uint32_t)b->count;
  view->stride = (((b->count + ADJI_PAD) / line + 1) | 1) * line;
  view->coords = adji_alloc(&b->ctx->memory, adji_mul(view->stride, view->dim), size, "points of the index");
  return view->coords ? ADJ_OK : ADJ_E_MEMORY;
}

/* Vectors read it; its values never count. */
void adji_clear_slack(const build *b) {
  const adji_view *view = &b->index->view;
  size_t size = adji_type_size(b->set->type);
  for (uint32_t j = 0; j < view->dim; j++)
    memset((char *)view->coords + (j * view->stride + view->count) * size, 0, (view->stride - view->count) * size);
}

static adj_status gather_points(build *b) {
  adj_status status = adji_build_coords(b);
  if (status) return status;
  adji_clear_slack(b);
  return adji_loop(b->ctx, b->slices, gather_slice, b);
}

/* Those of long cells, whose order has changed since. */
static adj_status gather_again(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  const uint32_t *starts = b->index->cell_starts;
  uint64_t begin, end;
  bool finite = true;
  adji_slice(b->index->cell_count, b->slices, slice, &begin, &end);
  for (uint64_t c = begin; c < end; c++)
    if (starts[c + 1] - starts[c] >= ADJI_LONG_CELL) finite &= gather_range(b, starts[c], starts[c + 1]);
  return finite ? ADJ_OK : adji_points_changed();
}

/* ---- Build ----------------------------------------------------------------------------------- */

static uint64_t slices_for(const adj_ctx *ctx, uint64_t count) {
  uint64_t slices = count / 8192 + 1;
  return slices < 4 * (uint64_t)ctx->threads ? slices : 4 * (uint64_t)ctx->threads;
}

/* Of each slice of the cells the largest, in place of how many begin there. */
static adj_status measure_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  const uint32_t *starts = b->index->cell_starts;
  uint64_t begin, end;
  uint32_t largest = 0;
  adji_slice(b->index->cell_count, b->slices, slice, &begin, &end);
  for (uint64_t c = begin; c < end; c++) {
    uint32_t many = starts[c + 1] - starts[c];
    largest = many > largest ? many : largest;
  }
  b->slice_cells[slice] = largest;
  return ADJ_OK;
}

static adj_status measure_cells(const build *b) {
  adj_status status = adji_loop(b->ctx, b->slices, measure_slice, (void *)b);
  for (uint64_t s = 0; s < b->slices && !status; s++)
    if (b->slice_cells[s] > b->index->largest_cell) b->index->largest_cell = (uint32_t)b->slice_cells[s];
  return status;
}

/* Row numbers are sorted, then coordinates are gathered. */
static adj_status sort_and_gather(build *b) {
  adj_ctx *ctx = b->ctx;
  uint64_t begin = adji_now_ns();
  adj_status status = sort_points(b);
  adji_trace(ctx, "sort", 0, begin, b->count);
  adji_free(&ctx->memory, b->sorted.spare);
  adji_free(&ctx->memory, b->sorted.spare_ids);
  b->sorted.spare = NULL;
  b->sorted.spare_ids = NULL;
  begin = adji_now_ns();
  if (!status) status = find_cells(b);
  adji_free(&ctx->memory, b->sorted.items);
  b->sorted.items = NULL;
  if (!status) status = measure_cells(b);
  if (!status && b->options->boxes) status = adji_block_order(ctx, b->set, b->index);
  if (!status) status = gather_points(b);
  adji_trace(ctx, "gather", 0, begin, b->count);
  return status;
}

static adj_status build_steps(build *b) {
  adj_ctx *ctx = b->ctx;
  bool done;
  uint64_t begin = adji_now_ns();
  b->slice_cells = adji_alloc(&ctx->memory, b->slices, sizeof *b->slice_cells, "cells");
  if (!b->slice_cells) return ADJ_E_MEMORY;
  adj_status status = adji_build_buckets(b, &done);
  if (!status && !done) return sort_and_gather(b);
  adji_trace(ctx, "sort", 0, begin, b->count);
  if (!status) status = measure_cells(b);
  if (status || !b->options->boxes || b->index->largest_cell < ADJI_LONG_CELL) return status;
  status = adji_block_order(ctx, b->set, b->index);
  return status ? status : adji_loop(ctx, b->slices, gather_again, b);
}

adj_status adji_index_build(adj_ctx *ctx, const adji_grid *grid, const adj_dataset *set,
                            const adji_order_options *options, adji_index *out) {
  *out = (adji_index){.ctx = ctx, .set = set, .wide = !strcmp(ctx->isa, "avx512")};
  uint64_t count = set->count;
  build b = {.ctx = ctx, .grid = grid, .set = set, .index = out, .count = count, .slices = slices_for(ctx, count)};
  b.options = options;
  uint64_t part_starts[(1 << MOST_PART_BITS) + 1] = {0};
  b.id_bits = count > 1 ? 64 - (uint32_t)__builtin_clzll(count - 1) : 1;
  b.low_bits = grid->key_bits;
  b.parts = 1;
  b.part_starts = part_starts;
  if (grid->key_bits + b.id_bits > 64 + MOST_PART_BITS) {
    b.id_bits = 0;
  } else if (grid->key_bits + b.id_bits > 64) {
    b.low_bits = 64 - b.id_bits;
    b.parts = UINT64_C(1) << (grid->key_bits - b.low_bits);
  }
  adj_status status = build_steps(&b);
  void *blocks[] = {b.sorted.items, b.sorted.spare, b.sorted.ids, b.sorted.spare_ids, b.slice_cells, b.slice_parts};
  for (int i = 0; i < 6; i++)
    adji_free(&ctx->memory, blocks[i]);
  if (status) adji_index_clear(out);
  return status;
}

void adji_index_clear(adji_index *index) {
  if (!index->ctx) return;
  adji_memory *memory = &index->ctx->memory;
  adji_free(memory, (void *)index->view.coords);
  adji_free(memory, (void *)index->view.ids);
  adji_free(memory, index->cell_keys);
  adji_free(memory, index->cell_starts);
  *index = (adji_index){0};
}
