/* SPDX-License-Identifier: MIT
 *
 * The inner loop of index/neighbours.h, shared by all instruction sets: moving the cursors of one cell.
 */
#ifndef ADJI_NEIGHBOURS_FIND_H
#define ADJI_NEIGHBOURS_FIND_H

#include "index/neighbours.h"

/* Cell numbers a cursor looks at together. The table of cell numbers is padded with UINT64_MAX for this. */
enum { ADJI_KEYS_AT_ONCE = 8 };
_Static_assert((int)ADJI_KEYS_AT_ONCE <= (int)ADJI_CELL_PAD, "cursors may read past the last cell");

/* The first cell from `from` on whose number is at least key. */
uint32_t adji_search_cell(const uint64_t *keys, uint64_t from, uint64_t count, uint64_t key);

/* Moves a cursor that must move further than ADJI_KEYS_AT_ONCE cells: by doubling steps, then a binary search. */
uint32_t adji_advance_far(const uint64_t *keys, uint64_t at, uint64_t count, uint64_t key);

/* key + offset, clamped at 0. */
static inline uint64_t adji_shifted(uint64_t key, int64_t offset) {
  int64_t at = (int64_t)key + offset;
  return at < 0 ? 0 : (uint64_t)at;
}

/* Offset o reaches the cell numbers from adji_first_key() up to, but not including, adji_end_key(). */
static inline uint64_t adji_first_key(const adji_neighbours *n, uint64_t key, uint32_t o) {
  int64_t back = n->forward && n->offsets[o] == 0 ? 0 : -(int64_t)n->reach;
  return adji_shifted(key, n->offsets[o] + back);
}
static inline uint64_t adji_end_key(const adji_neighbours *n, uint64_t key, uint32_t o) {
  return adji_shifted(key, n->offsets[o] + (int64_t)n->reach + 1);
}

/* Moves a cursor to the first cell from `at` on whose number is at least key. */
typedef uint32_t (*adji_advance_fn)(const uint64_t *keys, uint32_t at, uint64_t count, uint64_t key);

/* adji_neighbours_find() with the given cursor function, which is inlined. */
static inline __attribute__((always_inline)) uint32_t adji_find_by(adji_neighbours *n, uint64_t key,
                                                                   const adji_advance_fn advance) {
  const uint64_t *keys = n->right->cell_keys;
  const uint32_t *starts = n->right->cell_starts;
  uint64_t cells = n->right->cell_count;
  uint32_t many = 0;
  for (uint32_t o = 0; o < n->offset_count; o++) {
    uint32_t first = advance(keys, n->first[o], cells, adji_first_key(n, key, o));
    uint32_t last = advance(keys, first, cells, adji_end_key(n, key, o));
    n->first[o] = first;
    n->found[many] = (adji_range){starts[first], starts[last]};
    many += first != last;
  }
  return many;
}

#if defined(__x86_64__)
uint32_t adji_neighbours_find_avx512(adji_neighbours *n, uint64_t key);
#endif

#endif
