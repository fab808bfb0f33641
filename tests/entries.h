/* SPDX-License-Identifier: MIT
 *
 * Candidates of a query in the order of neighbours, and random numbers, for tests of neighbour lists.
 */
#ifndef ADJI_TESTS_ENTRIES_H
#define ADJI_TESTS_ENTRIES_H

#include <stdint.h>

typedef struct entry {
  double sum;
  uint32_t id;
} entry;

static inline int by_sum_then_id(const void *x, const void *y) {
  const entry *a = x, *b = y;
  if (a->sum != b->sum) return a->sum < b->sum ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

static inline uint64_t random_of(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

#endif
