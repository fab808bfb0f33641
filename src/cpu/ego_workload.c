/* SPDX-License-Identifier: MIT
 *
 * Queries by workload: see ego_workload.h.
 *
 * Points in epsilon grid order are also in the order of their cells along the first axes. So each cell is a run of
 * positions. For one offset, the neighbours of ascending cells ascend as well, so two cursors per offset only move
 * forward.
 */
#include "cpu/ego_workload.h"

#include <string.h>

#include "index/radix_sort.h"

typedef struct cells {
  uint64_t count;
  uint32_t axes;
  uint32_t *starts;  /* count + 1 entries: first position          */
  uint32_t *numbers; /* the slab of cell i along axis a is numbers[i * axes + a] */
} cells;

/* ---- Cells ----------------------------------------------------------------------------------------------- */

static void clear_cells(adj_ctx *ctx, cells *c) {
  adji_free(&ctx->memory, c->starts);
  adji_free(&ctx->memory, c->numbers);
}

static adj_status append_cell(adj_ctx *ctx, cells *c, uint64_t *room, uint32_t start, const uint32_t *numbers) {
  if (c->count == *room) {
    uint64_t more = *room ? 2 * *room : 1024;
    if (!adji_grow(&ctx->memory, (void **)&c->starts, more + 1, sizeof *c->starts, *room * sizeof *c->starts,
                   "cells") ||
        !adji_grow(&ctx->memory, (void **)&c->numbers, more * c->axes, sizeof *c->numbers,
                   *room * c->axes * sizeof *c->numbers, "cells"))
      return ADJ_E_MEMORY;
    *room = more;
  }
  c->starts[c->count] = start;
  memcpy(c->numbers + c->count * c->axes, numbers, c->axes * sizeof *numbers);
  c->count++;
  return ADJ_OK;
}

static adj_status find_cells(const adji_ego_points *points, uint32_t axes, cells *c) {
  adj_ctx *ctx = points->order->ctx;
  uint32_t numbers[ADJI_EGO_WORKLOAD_AXES];
  uint64_t room = 0;
  adj_status status = ADJ_OK;
  *c = (cells){.axes = axes};
  for (uint32_t i = 0; i < points->count && !status; i++) {
    const void *point = adji_ego_point(points, i);
    for (uint32_t a = 0; a < axes; a++)
      numbers[a] = (uint32_t)adji_ego_cell(points->order, point, a);
    if (i && !memcmp(numbers, c->numbers + (c->count - 1) * axes, axes * sizeof *numbers)) continue;
    status = append_cell(ctx, c, &room, i, numbers);
  }
  if (!status && c->count) c->starts[c->count] = points->count;
  return status;
}

/* ---- Populations around cells ------------------------------------------------------------------------------ */

typedef struct counting {
  const cells *left, *right;
  uint32_t *work; /* by left position */
} counting;

/* Whether a right cell comes before the left cell `numbers` moved by `offset`: -1, 0 or 1 for each axis. */
static bool is_before(const cells *right, uint64_t r, const uint32_t *numbers, const int32_t *offset) {
  const uint32_t *right_cell = right->numbers + r * right->axes;
  for (uint32_t a = 0; a < right->axes; a++) {
    int64_t wanted = (int64_t)numbers[a] + offset[a];
    if (right_cell[a] != wanted) return right_cell[a] < wanted;
  }
  return false;
}

static uint64_t first_not_before(const cells *right, const uint32_t *numbers, const int32_t *offset) {
  uint64_t low = 0, high = right->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (is_before(right, middle, numbers, offset))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Adds the populations of the right cells at one offset along all axes but the last, and up to one cell away along the
 * last. */
static void count_offset(const counting *c, uint64_t begin, uint64_t end, int32_t *offset) {
  const cells *left = c->left, *right = c->right;
  uint32_t last = left->axes - 1;
  int32_t after[ADJI_EGO_WORKLOAD_AXES];
  memcpy(after, offset, sizeof after);
  offset[last] = -1;
  after[last] = 2;
  uint64_t from = first_not_before(right, left->numbers + begin * left->axes, offset), to = from;
  for (uint64_t i = begin; i < end; i++) {
    const uint32_t *numbers = left->numbers + i * left->axes;
    while (from < right->count && is_before(right, from, numbers, offset))
      from++;
    if (to < from) to = from;
    while (to < right->count && is_before(right, to, numbers, after))
      to++;
    c->work[left->starts[i]] += right->starts[to] - right->starts[from];
  }
}

/* All queries of a cell have the same work. */
static void count_slice(void *user, uint64_t begin, uint64_t end) {
  const counting *c = user;
  const cells *left = c->left;
  uint32_t offsets = 1;
  if (begin == end) return;
  for (uint32_t a = 0; a + 1 < left->axes; a++)
    offsets *= 3;
  for (uint64_t i = begin; i < end; i++)
    c->work[left->starts[i]] = 0;
  for (uint32_t o = 0; o < offsets && c->right->count; o++) {
    int32_t offset[ADJI_EGO_WORKLOAD_AXES] = {0};
    for (uint32_t a = 0, rest = o; a + 1 < left->axes; a++, rest /= 3)
      offset[a] = (int32_t)(rest % 3) - 1;
    count_offset(c, begin, end, offset);
  }
  for (uint64_t i = begin; i < end; i++)
    for (uint32_t p = left->starts[i] + 1; p < left->starts[i + 1]; p++)
      c->work[p] = c->work[left->starts[i]];
}

/* ---- The order ----------------------------------------------------------------------------------------------- */

static adj_status sort_by_work(adj_ctx *ctx, uint32_t count, const uint32_t *work, uint32_t *order) {
  uint64_t *both = adji_alloc(&ctx->memory, adji_mul(2, count), sizeof *both, "queries by workload");
  if (!both) return ADJ_E_MEMORY;
  adji_sorted sorted = {.items = both, .spare = both + count};
  for (uint32_t i = 0; i < count; i++)
    both[i] = (uint64_t)(UINT32_MAX - work[i]) << 32 | i;
  adj_status status = adji_radix_sort(ctx, &sorted, count, 32, 32);
  for (uint32_t i = 0; i < count && !status; i++)
    order[i] = (uint32_t)sorted.items[i];
  adji_free(&ctx->memory, both);
  return status;
}

adj_status adji_ego_workload(const adji_ego_points *left, const adji_ego_points *right, uint32_t *order,
                             uint32_t *work) {
  enum { SLICE = 4096 };
  adj_ctx *ctx = left->order->ctx;
  uint32_t axes = left->order->axis_count < ADJI_EGO_WORKLOAD_AXES ? left->order->axis_count : ADJI_EGO_WORKLOAD_AXES;
  cells both[2] = {{0}, {0}};
  bool one = left == right;
  adj_status status = find_cells(left, axes, &both[0]);
  if (!status && !one) status = find_cells(right, axes, &both[1]);
  counting c = {&both[0], one ? &both[0] : &both[1], work};
  if (!status) status = adji_loop_slices(ctx, both[0].count, both[0].count / SLICE + 1, count_slice, &c);
  if (!status) status = sort_by_work(ctx, left->count, work, order);
  clear_cells(ctx, &both[0]);
  clear_cells(ctx, &both[1]);
  return status;
}
