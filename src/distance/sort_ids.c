/* SPDX-License-Identifier: MIT
 *
 * Sorting the ids of a row: insertion for short rows, in-place radix by leading bits for long ones (American flag
 * sort), so that no row needs memory that was not accounted for.
 */
#include "distance/sort_ids.h"

#include <string.h>

#include "adjoin.h"

static void insertion(uint32_t *ids, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    uint32_t id = ids[i], j = i;
    for (; j && ids[j - 1] > id; j--)
      ids[j] = ids[j - 1];
    ids[j] = id;
  }
}

enum { SHORT = 48, BITS = 8, BUCKETS = 1 << BITS };

/* Sorts ids that agree in all bits from shift + BITS upwards. */
static void radix(uint32_t *ids, uint32_t count, int shift) {
  uint32_t begin[BUCKETS + 1] = {0}, next[BUCKETS];
  for (uint32_t i = 0; i < count; i++)
    begin[(ids[i] >> shift & (BUCKETS - 1)) + 1]++;
  for (int b = 0; b < BUCKETS; b++) {
    next[b] = begin[b];
    begin[b + 1] += begin[b];
  }
  for (int b = 0; b < BUCKETS; b++) {
    while (next[b] < begin[b + 1]) {
      uint32_t id = ids[next[b]];
      uint32_t home = id >> shift & (BUCKETS - 1);
      ids[next[b]] = ids[next[home]];
      ids[next[home]++] = id;
    }
  }
  if (!shift) return;
  for (int b = 0; b < BUCKETS; b++) {
    uint32_t many = begin[b + 1] - begin[b];
    if (many <= SHORT)
      insertion(ids + begin[b], many);
    else
      radix(ids + begin[b], many, shift > BITS ? shift - BITS : 0);
  }
}

void adji_sort_ids_portable(uint32_t *ids, uint32_t count) {
  if (count <= SHORT) {
    insertion(ids, count);
    return;
  }
  uint32_t highest = 0;
  for (uint32_t i = 0; i < count; i++)
    highest |= ids[i];
  int bits = 32 - __builtin_clz(highest | 1);
  radix(ids, count, bits > BITS ? bits - BITS : 0);
}

uint32_t adji_place_ids_portable(uint32_t *ids, uint32_t count, uint32_t drop, bool sort, uint32_t *to) {
  for (uint32_t i = 0; drop != ADJ_NO_ID && i < count; i++) {
    if (ids[i] != drop) continue;
    ids[i] = ids[--count];
    break;
  }
  if (sort) adji_sort_ids_portable(ids, count);
  if (count) memcpy(to, ids, count * sizeof *ids);
  return count;
}
