/* SPDX-License-Identifier: MIT
 *
 * Builds an index: cell numbers and sort (build_order.c), cells, coordinates. Each step is one parallel pass.
 */
#include <string.h>

#include "index/boxes.h"
#include "index/build_private.h"

typedef adji_build build;

/* ---- Cells ----------------------------------------------------------------------------------- */

/* The leading bits of the cell number at position i. *end: lowered to the end of the positions that share them. */
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

/* Writes the cells that begin at or after `begin`, and the ids unless they are in an array of their own. There is no
 * branch for cells: every item writes its cell, whose number is *cell. */
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

/* Items of a cell that begins in an earlier slice write only their ids. */
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
  if (!status) status = adji_build_cells(b, adji_slices_add_up(b));
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

/* Gathers a block of points. Returns whether all are finite: kernels rely on that, since a point must be at distance 0
 * of itself. The check is a separate loop over data in the cache, so that it is vectorised. */
#define GATHER(T)                                                                              \
  static bool all_finite_##T(const T *x, uint64_t count) {                                     \
    int not_finite = 0;                                                                        \
    for (uint64_t i = 0; i < count; i++)                                                       \
      not_finite |= !adji_is_finite(x[i]);                                                     \
    return !not_finite;                                                                        \
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

/* The columns of the dimensions are an odd number of cache lines apart. Otherwise the same position in many dimensions
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

/* Clears the entries after the last point. Vectors read them, but their values never count. */
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

/* Gathers the points of long cells again, since their order has changed. */
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

/* Replaces the cell count of each slice by the size of its largest cell. */
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

/* Sorts row numbers, then gathers coordinates. */
static adj_status sort_and_gather(build *b) {
  adj_ctx *ctx = b->ctx;
  uint64_t begin = adji_now_ns();
  adj_status status = adji_build_order(b);
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
  uint64_t part_starts[(1 << ADJI_MOST_PART_BITS) + 1] = {0};
  b.id_bits = count > 1 ? 64 - (uint32_t)__builtin_clzll(count - 1) : 1;
  b.low_bits = grid->key_bits;
  b.parts = 1;
  b.part_starts = part_starts;
  if (grid->key_bits + b.id_bits > 64 + ADJI_MOST_PART_BITS) {
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
