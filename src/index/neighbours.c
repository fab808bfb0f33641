/* SPDX-License-Identifier: MIT
 *
 * The candidates of a cell, by cursors that only move forward.
 */
#include "index/neighbours.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
  n->reach = grid->axis_count ? grid->axes[grid->axis_count - 1].reach : 0;
  n->row = grid->axis_count > 1 ? grid->axes[grid->axis_count - 2].stride : 0;
  adji_memory *memory = &right->ctx->memory;
  n->offsets = adji_alloc(memory, room, sizeof *n->offsets, "neighbour cells");
  n->first = adji_alloc_zero(memory, room, sizeof *n->first, "neighbour cells");
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

/* ---- Cursors --------------------------------------------------------------------------------- */

/* Cell numbers that a cursor compares at once. The table of cell numbers is padded with UINT64_MAX for this. */
enum { KEYS_AT_ONCE = 8 };
_Static_assert(3 * (int)KEYS_AT_ONCE <= (int)ADJI_CELL_PAD, "cursors may read past the last cell");

/* The first cell of [low, high) whose number is at least key; high if there is none. */
static uint32_t search_cell(const uint64_t *keys, uint64_t low, uint64_t high, uint64_t key) {
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return (uint32_t)low;
}

/* Moves a cursor by more than KEYS_AT_ONCE cells: by doubling steps, then a binary search. */
static __attribute__((noinline)) uint32_t advance_far(const uint64_t *keys, uint64_t low, uint64_t count,
                                                      uint64_t key) {
  uint64_t step = 16;
  while (low + step < count && keys[low + step] < key) {
    low += step;
    step *= 2;
  }
  return search_cell(keys, low, low + step < count ? low + step : count, key);
}

/* key + offset, clamped at 0. */
static inline uint64_t shifted(uint64_t key, int64_t offset) {
  int64_t at = (int64_t)key + offset;
  return at < 0 ? 0 : (uint64_t)at;
}

/* At offset o the cells [from, to] reach the cell numbers from first_key() to end_key(), exclusive. */
static inline uint64_t first_key(const adji_neighbours *n, uint64_t from, uint32_t o) {
  int64_t back = n->forward && n->offsets[o] == 0 ? 0 : -(int64_t)n->reach;
  return shifted(from, n->offsets[o] + back);
}
static inline uint64_t end_key(const adji_neighbours *n, uint64_t to, uint32_t o) {
  return shifted(to, n->offsets[o] + (int64_t)n->reach + 1);
}

/* Moves a cursor. Most moves are by a few cells. */
static inline uint32_t advance(const uint64_t *keys, uint32_t at, uint64_t count, uint64_t key) {
  for (int i = 0; i < KEYS_AT_ONCE; i++, at++)
    if (keys[at] >= key) return at;
  return advance_far(keys, at, count, key);
}

static inline uint32_t later(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

static uint32_t find_plain(adji_neighbours *n, uint64_t from, uint64_t to) {
  const uint64_t *keys = n->right->cell_keys;
  const uint32_t *starts = n->right->cell_starts;
  uint64_t cells = n->right->cell_count;
  uint32_t many = 0;
  for (uint32_t o = 0; o < n->offset_count; o++) {
    uint32_t first = n->first[o] = advance(keys, n->first[o], cells, first_key(n, from, o));
    uint32_t last = n->last[o] = advance(keys, later(first, n->last[o]), cells, end_key(n, to, o));
    n->found[many] = (adji_range){starts[first], starts[last]};
    many += first != last;
  }
  return many;
}

#if defined(__x86_64__)
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,bmi2,popcnt")))

/* Eight cell numbers are compared at once. The number of those that are too small is how far a cursor moves. The plain
 * loop spends its time on mispredicted branches; here hardly a branch depends on the data. */
AVX512 static inline uint32_t below_of_eight(const uint64_t *keys, __m512i key) {
  return _mm512_cmplt_epu64_mask(_mm512_loadu_si512(keys), key);
}

/* Groups of queries move a cursor by up to as many cells as they have queries. */
AVX512 static inline uint32_t advance_avx512(const uint64_t *keys, uint32_t at, uint64_t count, uint64_t key) {
  __m512i wanted = _mm512_set1_epi64((long long)key);
  uint32_t below = below_of_eight(keys + at, wanted) | below_of_eight(keys + at + KEYS_AT_ONCE, wanted) << KEYS_AT_ONCE;
  if (__builtin_expect(below != 0xffff, 1)) return at + (uint32_t)__builtin_popcount(below);
  return advance_far(keys, at + 2 * KEYS_AT_ONCE, count, key);
}

AVX512 static uint32_t find_avx512(adji_neighbours *n, uint64_t from, uint64_t to) {
  const uint64_t *keys = n->right->cell_keys;
  const uint32_t *starts = n->right->cell_starts;
  uint64_t cells = n->right->cell_count;
  uint32_t many = 0;
  for (uint32_t o = 0; o < n->offset_count; o++) {
    uint32_t first = n->first[o] = advance_avx512(keys, n->first[o], cells, first_key(n, from, o));
    uint32_t last = n->last[o] = advance_avx512(keys, n->last[o], cells, end_key(n, to, o));
    n->found[many] = (adji_range){starts[first], starts[last]};
    many += first != last;
  }
  return many;
}

/* Cells ascend by start and by number, so those that qualify come first. */
AVX512 static uint64_t last_cell_avx512(const adji_index *index, uint64_t cell, uint32_t position, uint64_t key) {
  for (;; cell += KEYS_AT_ONCE) {
    __m256i starts = _mm256_loadu_si256((const __m256i *)(const void *)(index->cell_starts + cell + 1));
    __m512i keys = _mm512_loadu_si512(index->cell_keys + cell + 1);
    uint32_t before = _mm256_cmplt_epu32_mask(starts, _mm256_set1_epi32((int)position));
    before &= _mm512_cmple_epu64_mask(keys, _mm512_set1_epi64((long long)key));
    if (before != 0xff) return cell + (uint32_t)__builtin_popcount(before);
  }
}
#endif

uint64_t adji_last_cell(const adji_index *index, uint64_t cell, uint64_t position, uint64_t key) {
  if (position > index->view.count) position = index->view.count;
#if defined(__x86_64__)
  if (index->wide) return last_cell_avx512(index, cell, (uint32_t)position, key);
#endif
  while (index->cell_starts[cell + 1] < position && index->cell_keys[cell + 1] <= key)
    cell++;
  return cell;
}

uint64_t adji_cell_of(const adji_index *index, uint32_t position, uint64_t near) {
  uint64_t cells = index->cell_count, low = near < cells && index->cell_starts[near] <= position ? near : 0;
  uint64_t high = low + 1;
  for (uint64_t step = 2; high < cells && index->cell_starts[high] <= position; step *= 2) {
    low = high;
    high += step;
  }
  if (high > cells) high = cells;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (index->cell_starts[middle] <= position)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* Searches from the place where the last batch left the cursor: batches of a sample are close together, and what they
 * read is then in the cache. */
static uint32_t search_from(const uint64_t *keys, uint32_t at, uint64_t count, uint64_t key) {
  if (at >= count || keys[at] >= key) return search_cell(keys, 0, at < count ? at : count, key);
  return advance_far(keys, at, count, key);
}

void adji_neighbours_seek(adji_neighbours *n, uint64_t key) {
  for (uint32_t o = 0; o < n->offset_count; o++)
    n->first[o] = n->last[o] =
        search_from(n->right->cell_keys, n->first[o], n->right->cell_count, first_key(n, key, o));
  n->found_from = n->found_to = UINT64_MAX;
}

static uint32_t find(adji_neighbours *n, uint64_t from, uint64_t to) {
#if defined(__x86_64__)
  if (n->right->wide) return find_avx512(n, from, to);
#endif
  return find_plain(n, from, to);
}

uint32_t adji_neighbours_find(adji_neighbours *n, uint64_t from, uint64_t to) {
  if (n->found_from == from && n->found_to == to) return n->found_count;
  n->found_count = find(n, from, to);
  n->found_from = from;
  n->found_to = to;
  return n->found_count;
}

void adji_neighbours_shorten(adji_neighbours *n) {
  memcpy(n->last, n->first, n->offset_count * sizeof *n->last);
  n->found_from = n->found_to = UINT64_MAX;
}
