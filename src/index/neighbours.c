/* SPDX-License-Identifier: MIT
 *
 * The candidates of a cell, by cursors that only move forward.
 */
#include "index/neighbours.h"

#include <string.h>

/* All combinations of -1, 0, 1 slabs along every axis but the last, in ascending order. */
static void list_offsets(adji_neighbours *n, const adji_grid *grid) {
  uint32_t count = 1;
  n->offsets[0] = 0;
  for (uint32_t a = grid->axis_count ? grid->axis_count - 1 : 0; a--;) {
    int64_t stride = (int64_t)grid->axes[a].stride;
    for (uint32_t i = 0; i < count; i++) {
      n->offsets[count + i] = n->offsets[i];
      n->offsets[2 * count + i] = n->offsets[i] + stride;
      n->offsets[i] -= stride;
    }
    count *= 3;
  }
  n->offset_count = count;
  if (!n->forward) return;
  /* The middle one is 0; those before it lead to earlier cells. */
  n->offset_count = count / 2 + 1;
  memmove(n->offsets, n->offsets + count / 2, n->offset_count * sizeof *n->offsets);
}

adj_status adji_neighbours_init(adji_neighbours *n, const adji_grid *grid, const adji_index *right, bool forward) {
  uint64_t room = 1;
  for (uint32_t a = 1; a < grid->axis_count; a++)
    room *= 3;
  *n = (adji_neighbours){.right = right, .forward = forward};
  n->reach = grid->axis_count ? grid->axes[grid->axis_count - 1].reach : 0;
  adji_memory *memory = &right->ctx->memory;
  n->offsets = adji_alloc(memory, room, sizeof *n->offsets, "neighbour cells");
  n->first = adji_alloc(memory, room, sizeof *n->first, "neighbour cells");
  n->last = adji_alloc(memory, room, sizeof *n->last, "neighbour cells");
  n->found = adji_alloc(memory, room, sizeof *n->found, "neighbour cells");
  if (!n->offsets || !n->first || !n->last || !n->found) {
    adji_neighbours_clear(n);
    return ADJ_E_MEMORY;
  }
  list_offsets(n, grid);
  return ADJ_OK;
}

void adji_neighbours_clear(adji_neighbours *n) {
  if (!n->right) return;
  adji_memory *memory = &n->right->ctx->memory;
  adji_free(memory, n->offsets);
  adji_free(memory, n->first);
  adji_free(memory, n->last);
  adji_free(memory, n->found);
  *n = (adji_neighbours){0};
}

/* The first cell from `from` on whose number is at least key; the last number is UINT64_MAX. */
static uint32_t search(const uint64_t *keys, uint64_t from, uint64_t count, uint64_t key) {
  uint64_t low = from, high = count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return (uint32_t)low;
}

/* Moves a cursor to the first cell whose number is at least key. Most moves are by a few cells; a
 * long one doubles its step. */
static inline uint32_t advance(const uint64_t *keys, uint32_t at, uint64_t count, uint64_t key) {
  for (int i = 0; i < 8; i++, at++)
    if (keys[at] >= key) return at;
  uint64_t step = 16, low = at;
  while (low + step < count && keys[low + step] < key) {
    low += step;
    step *= 2;
  }
  uint64_t high = low + step < count ? low + step : count;
  return search(keys, low, high, key);
}

/* key + offset, not below 0. */
static inline uint64_t shifted(uint64_t key, int64_t offset) {
  int64_t at = (int64_t)key + offset;
  return at < 0 ? 0 : (uint64_t)at;
}

static inline uint64_t lowest(const adji_neighbours *n, uint64_t key, uint32_t o) {
  int64_t back = n->forward && n->offsets[o] == 0 ? 0 : -(int64_t)n->reach;
  return shifted(key, n->offsets[o] + back);
}

static inline uint64_t behind(const adji_neighbours *n, uint64_t key, uint32_t o) {
  return shifted(key, n->offsets[o] + (int64_t)n->reach + 1);
}

void adji_neighbours_seek(adji_neighbours *n, uint64_t key) {
  for (uint32_t o = 0; o < n->offset_count; o++) {
    n->first[o] = search(n->right->cell_keys, 0, n->right->cell_count, lowest(n, key, o));
    n->last[o] = search(n->right->cell_keys, n->first[o], n->right->cell_count, behind(n, key, o));
  }
}

uint32_t adji_neighbours_find(adji_neighbours *n, uint64_t key) {
  const uint64_t *keys = n->right->cell_keys;
  const uint32_t *starts = n->right->cell_starts;
  uint64_t cells = n->right->cell_count;
  uint32_t many = 0;
  for (uint32_t o = 0; o < n->offset_count; o++) {
    uint32_t first = advance(keys, n->first[o], cells, lowest(n, key, o));
    uint32_t last = advance(keys, n->last[o] > first ? n->last[o] : first, cells, behind(n, key, o));
    n->first[o] = first;
    n->last[o] = last;
    n->found[many] = (adji_range){starts[first], starts[last]};
    many += first != last;
  }
  return many;
}
