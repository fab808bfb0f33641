/* SPDX-License-Identifier: MIT
 *
 * EGO-sort: rows in the lexicographic order of their cells, rows of one cell by number. See ego_order.h.
 */
#include <stdlib.h>

#include "index/ego_order_private.h"
#include "index/radix_sort.h"

/* ---- By qsort ---------------------------------------------------------------------------------------------- */

/* qsort passes no context to its comparison, so every item refers to the points. Cells are computed at each comparison,
 * as in Super-EGO. */
typedef struct item {
  const adji_ego_points *points;
  uint32_t row;
} item;

static int compare_items(const void *a, const void *b) {
  const item *x = a, *y = b;
  const adji_ego_order *order = x->points->order;
  const void *p = adji_ego_point(x->points, x->row), *q = adji_ego_point(x->points, y->row);
  for (uint32_t i = 0; i < order->axis_count; i++) {
    uint64_t c = adji_ego_cell(order, p, i), d = adji_ego_cell(order, q, i);
    if (c != d) return c < d ? -1 : 1;
  }
  return (x->row > y->row) - (x->row < y->row);
}

adj_status adji_ego_sort_by_qsort(const adji_ego_points *points, uint32_t *ids) {
  adji_memory *memory = &points->order->ctx->memory;
  item *items = adji_alloc(memory, points->count, sizeof *items, "points to sort");
  if (!items) return ADJ_E_MEMORY;
  for (uint32_t i = 0; i < points->count; i++)
    items[i] = (item){points, i};
  qsort(items, points->count, sizeof *items, compare_items);
  for (uint32_t i = 0; i < points->count; i++)
    ids[i] = items[i].row;
  adji_free(memory, items);
  return adji_check_cancel(points->order->ctx);
}

/* ---- In parallel ---------------------------------------------------------------------------------------------
 *
 * The cells of consecutive axes form keys of up to 64 bits. A stable sort by each of these keys, the last axes first,
 * gives the lexicographic order. */

typedef struct keys {
  const adji_ego_points *points;
  uint32_t first, end; /* axes of the key */
  adji_sorted sorted;
} keys;

static uint32_t bits_of(const adji_axis *axis) {
  return axis->slabs > 1 ? 64 - (uint32_t)__builtin_clzll(axis->slabs - 1) : 0;
}

static void make_keys(void *user, uint64_t begin, uint64_t end) {
  const keys *k = user;
  const adji_ego_order *order = k->points->order;
  for (uint64_t i = begin; i < end; i++) {
    const void *point = adji_ego_point(k->points, k->sorted.ids[i]);
    uint64_t key = 0;
    for (uint32_t a = k->first; a < k->end; a++)
      key = key << bits_of(&order->axes[a]) | adji_ego_cell(order, point, a);
    k->sorted.items[i] = key;
  }
}

static void number_rows(void *user, uint64_t begin, uint64_t end) {
  const keys *k = user;
  for (uint64_t i = begin; i < end; i++)
    k->sorted.ids[i] = (uint32_t)i;
}

static void copy_ids(void *user, uint64_t begin, uint64_t end) {
  const keys *k = user;
  for (uint64_t i = begin; i < end; i++)
    k->sorted.spare_ids[i] = k->sorted.ids[i];
}

enum { SLICE = 16384, KEY_BITS = 64 };

static adj_status sort_by_axes(keys *k) {
  const adji_ego_order *order = k->points->order;
  uint64_t count = k->points->count, slices = count / SLICE + 1;
  adj_status status = adji_loop_slices(order->ctx, count, slices, number_rows, k);
  for (k->end = order->axis_count; k->end && !status; k->end = k->first) {
    uint32_t bits = 0;
    for (k->first = k->end; k->first && bits + bits_of(&order->axes[k->first - 1]) <= KEY_BITS; k->first--)
      bits += bits_of(&order->axes[k->first - 1]);
    if (!bits) continue;
    status = adji_loop_slices(order->ctx, count, slices, make_keys, k);
    if (!status) status = adji_radix_sort(order->ctx, &k->sorted, count, 0, bits);
  }
  return status;
}

/* ids is one of the two arrays that the sort exchanges. */
adj_status adji_ego_sort_parallel(const adji_ego_points *points, uint32_t *ids) {
  adj_ctx *ctx = points->order->ctx;
  adji_memory *memory = &ctx->memory;
  uint64_t count = points->count;
  keys k = {.points = points};
  uint64_t *both = adji_alloc(memory, adji_mul(2, count), sizeof *both, "keys to sort");
  uint32_t *spare = adji_alloc(memory, count, sizeof *spare, "ids to sort");
  adj_status status = both && spare ? ADJ_OK : ADJ_E_MEMORY;
  k.sorted = (adji_sorted){.items = both, .spare = both ? both + count : NULL, .ids = ids, .spare_ids = spare};
  if (!status) status = sort_by_axes(&k);
  if (!status && k.sorted.ids != ids) status = adji_loop_slices(ctx, count, count / SLICE + 1, copy_ids, &k);
  adji_free(memory, both);
  adji_free(memory, spare);
  return status;
}
