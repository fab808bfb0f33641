/* SPDX-License-Identifier: MIT
 *
 * Rows: drop what is not wanted, sort, copy to the result.
 */
#include "result/rows.h"

#include <math.h>
#include <string.h>

/* An id and a sum to be sorted together. */
typedef struct entry {
  uint64_t major, minor;
} entry;

adj_status adji_row_room_reserve(adji_row_room *room, adji_memory *memory, const adji_row_style *style,
                                 uint64_t capacity) {
  room->memory = memory;
  if (capacity <= room->capacity) return ADJ_OK;
  bool sums = adji_row_needs_sums(style);
  uint64_t entries = capacity + ADJI_PAD;
  for (int k = 0; k < ADJI_LIST_MAX; k++) {
    if (!adji_grow(memory, (void **)&room->ids[k], entries, sizeof(uint32_t), 0, "row buffer")) return ADJ_E_MEMORY;
    if (sums && !adji_grow(memory, &room->sums[k], entries, style->type == ADJ_F64 ? 8 : 4, 0, "row buffer"))
      return ADJ_E_MEMORY;
  }
  if (sums && !adji_grow(memory, &room->entries, entries, sizeof(entry), 0, "row buffer")) return ADJ_E_MEMORY;
  room->capacity = capacity;
  return ADJ_OK;
}

void adji_row_room_clear(adji_row_room *room) {
  if (!room->memory) return;
  for (int k = 0; k < ADJI_LIST_MAX; k++) {
    adji_free(room->memory, room->ids[k]);
    adji_free(room->memory, room->sums[k]);
  }
  adji_free(room->memory, room->entries);
  *room = (adji_row_room){0};
}

/* ---- Sorting ids together with sums -------------------------------------------------------------- */

static inline bool before(const entry *a, const entry *b) {
  return a->major < b->major || (a->major == b->major && a->minor < b->minor);
}

static void sift_down(entry *entries, uint64_t root, uint64_t count) {
  entry moving = entries[root];
  for (;;) {
    uint64_t child = 2 * root + 1;
    if (child >= count) break;
    if (child + 1 < count && before(&entries[child], &entries[child + 1])) child++;
    if (!before(&moving, &entries[child])) break;
    entries[root] = entries[child];
    root = child;
  }
  entries[root] = moving;
}

static void heap_sort(entry *entries, uint64_t count) {
  for (uint64_t i = count / 2; i--;)
    sift_down(entries, i, count);
  for (uint64_t i = count; i-- > 1;) {
    entry top = entries[0];
    entries[0] = entries[i];
    entries[i] = top;
    sift_down(entries, 0, i);
  }
}

/* Quicksort with the median of three; insertion sort for short runs; heap sort when the pivots are bad. */
static void sort_entries(entry *entries, uint64_t count, int depth) {
  while (count > 24) {
    if (depth-- == 0) {
      heap_sort(entries, count);
      return;
    }
    entry a = entries[0], b = entries[count / 2], c = entries[count - 1];
    entry pivot = before(&a, &b) ? (before(&b, &c)   ? b
                                    : before(&a, &c) ? c
                                                     : a)
                                 : (before(&a, &c)   ? a
                                    : before(&b, &c) ? c
                                                     : b);
    uint64_t i = 0, j = count - 1;
    for (;; i++, j--) {
      while (before(&entries[i], &pivot))
        i++;
      while (before(&pivot, &entries[j]))
        j--;
      if (i >= j) break;
      entry exchange = entries[i];
      entries[i] = entries[j];
      entries[j] = exchange;
    }
    sort_entries(entries + j + 1, count - j - 1, depth);
    count = j + 1;
  }
  for (uint64_t i = 1; i < count; i++) {
    entry moving = entries[i];
    uint64_t j = i;
    for (; j && before(&moving, &entries[j - 1]); j--)
      entries[j] = entries[j - 1];
    entries[j] = moving;
  }
}

/* A sum as an integer with the same order. The bits of positive floats order as the floats do, those of negative ones
 * the other way round. A sum of 0 is never negative. */
static uint64_t sum_key(adj_type type, const void *sums, uint32_t i) {
  const uint64_t sign = (uint64_t)1 << 63;
  uint64_t bits;
  if (type == ADJ_F64) {
    memcpy(&bits, (const double *)sums + i, 8);
  } else {
    uint32_t half;
    memcpy(&half, (const float *)sums + i, 4);
    bits = (uint64_t)half << 32;
  }
  return bits & sign ? ~bits : bits | sign;
}

static void put_sum(adj_type type, void *sums, uint32_t i, uint64_t key) {
  const uint64_t sign = (uint64_t)1 << 63;
  uint64_t bits = key & sign ? key ^ sign : ~key;
  if (type == ADJ_F64) {
    memcpy((double *)sums + i, &bits, 8);
  } else {
    uint32_t half = (uint32_t)(bits >> 32);
    memcpy((float *)sums + i, &half, 4);
  }
}

static void order_with_sums(const adji_row_style *style, adji_row_room *room, uint32_t slot, uint32_t count) {
  entry *entries = room->entries;
  uint32_t *ids = room->ids[slot];
  bool by_distance = style->order == ADJ_ORDER_DISTANCE;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t key = sum_key(style->type, room->sums[slot], i);
    entries[i] = by_distance ? (entry){key, ids[i]} : (entry){ids[i], key};
  }
  sort_entries(entries, count, 48);
  for (uint32_t i = 0; i < count; i++) {
    ids[i] = (uint32_t)(by_distance ? entries[i].minor : entries[i].major);
    put_sum(style->type, room->sums[slot], i, by_distance ? entries[i].major : entries[i].minor);
  }
}

/* ---- Filtering -------------------------------------------------------------------------------------- */

static void copy_sum(const adji_row_style *style, void *sums, uint32_t to, uint32_t from) {
  if (style->type == ADJ_F64)
    ((double *)sums)[to] = ((double *)sums)[from];
  else
    ((float *)sums)[to] = ((float *)sums)[from];
}

static uint32_t keep_above(const adji_row_style *style, adji_row_room *room, uint32_t slot, uint32_t row,
                           uint32_t count) {
  uint32_t *ids = room->ids[slot], kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t id = ids[i];
    ids[kept] = id;
    if (room->sums[slot]) copy_sum(style, room->sums[slot], kept, i);
    kept += id > row;
  }
  return kept;
}

/* Removes entry i. In a row that is in order the rest moves up; otherwise the last entry takes its place. */
static void remove_entry(const adji_row_style *style, adji_row_room *room, uint32_t slot, uint32_t i, uint32_t count) {
  uint32_t *ids = room->ids[slot], from = style->in_order ? i + 1 : count - 1, many = count - from;
  memmove(ids + i, ids + from, many * sizeof *ids);
  if (!room->sums[slot]) return;
  size_t size = style->type == ADJ_F64 ? 8 : 4;
  char *sums = room->sums[slot];
  memmove(sums + i * size, sums + from * size, many * size);
}

static uint32_t drop_one(const adji_row_style *style, adji_row_room *room, uint32_t slot, uint32_t row,
                         uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (room->ids[slot][i] != row) continue;
    remove_entry(style, room, slot, i, count);
    return count - 1;
  }
  return count;
}

/* ---- The row ------------------------------------------------------------------------------------------ */

uint32_t adji_row_order(const adji_row_style *style, adji_row_room *room, uint32_t slot, uint32_t row, uint32_t count) {
  if (style->one_way)
    count = keep_above(style, room, slot, row, count);
  else if (style->drop_self)
    count = drop_one(style, room, slot, row, count);
  if (style->order == ADJ_ORDER_ANY || (style->order == ADJ_ORDER_ID && style->in_order)) return count;
  if (adji_row_needs_sums(style))
    order_with_sums(style, room, slot, count);
  else
    style->kernels->sort_ids(room->ids[slot], count);
  return count;
}

/* Stores the distances that belong to the sums. */
static void store_distances(const adji_row_style *style, const void *sums, uint32_t count, void *to, uint64_t at) {
  adji_report_distances(style->measure, style->type, sums, count, (char *)to + at * (style->type == ADJ_F64 ? 8 : 4));
}

adj_status adji_row_place(const adji_row_style *style, const adji_row_room *room, uint32_t slot, uint32_t row,
                          uint32_t count, const adji_window *window) {
  uint64_t at = adji_window_at(window, row), length = adji_window_length(window, row);
  if (length != count)
    return adji_fail(ADJ_E_INTERNAL, "row %u: %u neighbours found where %llu were counted", row, count,
                     (unsigned long long)length);
  if (count) memcpy(window->ids + at, room->ids[slot], count * sizeof(uint32_t)); /* else ids may be NULL */
  if (window->distances) store_distances(style, room->sums[slot], count, window->distances, at);
  return ADJ_OK;
}

void adji_row_place_padded(const adji_window *window, const adji_row_style *style, uint64_t row, const uint32_t *ids,
                           const void *sums, uint32_t count) {
  uint64_t at = adji_window_at(window, row);
  if (count) memcpy(window->ids + at, ids, count * sizeof *ids);
  for (uint32_t i = count; i < window->k; i++)
    window->ids[at + i] = ADJ_NO_ID;
  if (!window->distances) return;
  store_distances(style, sums, count, window->distances, at);
  float far = style->measure->report == ADJI_REPORT_NEGATED ? -INFINITY : INFINITY;
  for (uint32_t i = count; i < window->k; i++) {
    if (style->type == ADJ_F64)
      ((double *)window->distances)[at + i] = (double)far;
    else
      ((float *)window->distances)[at + i] = far;
  }
}
