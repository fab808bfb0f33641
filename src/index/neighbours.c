/* SPDX-License-Identifier: MIT
 *
 * The candidates of a cell, by cursors that only move forward.
 */
#include "index/neighbours.h"

#include <string.h>

#include "index/neighbours_find.h"

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
  /* The middle offset is 0. Those before it lead to earlier cells. */
  n->offset_count = count / 2 + 1;
  memmove(n->offsets, n->offsets + count / 2, n->offset_count * sizeof *n->offsets);
}

adj_status adji_neighbours_init(adji_neighbours *n, const adji_grid *grid, const adji_index *right, bool forward) {
  uint64_t room = 1;
  for (uint32_t a = 1; a < grid->axis_count; a++)
    room *= 3;
  *n = (adji_neighbours){.right = right, .forward = forward};
  n->wide = !strcmp(right->ctx->isa, "avx512");
  n->reach = grid->axis_count ? grid->axes[grid->axis_count - 1].reach : 0;
  adji_memory *memory = &right->ctx->memory;
  n->offsets = adji_alloc(memory, room, sizeof *n->offsets, "neighbour cells");
  n->first = adji_alloc(memory, room, sizeof *n->first, "neighbour cells");
  n->found = adji_alloc(memory, room, sizeof *n->found, "neighbour cells");
  if (!n->offsets || !n->first || !n->found) {
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
  adji_free(memory, n->found);
  *n = (adji_neighbours){0};
}

/* ---- Cursors --------------------------------------------------------------------------------- */

uint32_t adji_search_cell(const uint64_t *keys, uint64_t from, uint64_t count, uint64_t key) {
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

uint32_t adji_advance_far(const uint64_t *keys, uint64_t at, uint64_t count, uint64_t key) {
  uint64_t step = 16, low = at;
  while (low + step < count && keys[low + step] < key) {
    low += step;
    step *= 2;
  }
  return adji_search_cell(keys, low, low + step < count ? low + step : count, key);
}

/* Most moves are by a few cells. */
static inline uint32_t advance(const uint64_t *keys, uint32_t at, uint64_t count, uint64_t key) {
  for (int i = 0; i < ADJI_KEYS_AT_ONCE; i++, at++)
    if (keys[at] >= key) return at;
  return adji_advance_far(keys, at, count, key);
}

void adji_neighbours_seek(adji_neighbours *n, uint64_t key) {
  for (uint32_t o = 0; o < n->offset_count; o++)
    n->first[o] = adji_search_cell(n->right->cell_keys, 0, n->right->cell_count, adji_first_key(n, key, o));
}

uint32_t adji_neighbours_find(adji_neighbours *n, uint64_t key) {
#if defined(__x86_64__)
  if (n->wide) return adji_neighbours_find_avx512(n, key);
#endif
  return adji_find_by(n, key, advance);
}
