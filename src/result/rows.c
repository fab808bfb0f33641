/* SPDX-License-Identifier: MIT
 *
 * Rows: drop unwanted neighbours, sort, copy to the result.
 */
#include "result/rows.h"

#include <math.h>
#include <string.h>

#include "result/kbest.h"

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
  size_t key = style->type == ADJ_F64 ? sizeof(adji_key_wide) : sizeof(uint64_t);
  if (sums && !adji_grow(memory, &room->entries, entries, key, 0, "row buffer")) return ADJ_E_MEMORY;
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

/* Keys order by (sum, id). To order by id, keys are (id, sum). */
static void order_f32(const adji_row_style *style, uint64_t *keys, uint32_t *ids, float *sums, uint32_t count) {
  bool by_id = style->order == ADJ_ORDER_ID;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t key = adji_key_f32(sums[i], ids[i]);
    keys[i] = by_id ? key << 32 | key >> 32 : key;
  }
  adji_key_kernels_for(style->kernels->isa)->sort(keys, count);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t key = by_id ? keys[i] << 32 | keys[i] >> 32 : keys[i];
    ids[i] = (uint32_t)key;
    sums[i] = adji_key_sum_f32(key);
  }
}

static void order_f64(const adji_row_style *style, adji_key_wide *keys, uint32_t *ids, double *sums, uint32_t count) {
  bool by_id = style->order == ADJ_ORDER_ID;
  for (uint32_t i = 0; i < count; i++) {
    adji_key_wide key = adji_key_f64(sums[i], ids[i]);
    keys[i] = by_id ? (adji_key_wide)ids[i] << 64 | key >> 32 : key;
  }
  adji_sort_keys_f64(keys, count);
  for (uint32_t i = 0; i < count; i++) {
    adji_key_wide key = by_id ? keys[i] << 32 | keys[i] >> 64 : keys[i];
    ids[i] = (uint32_t)key;
    sums[i] = adji_key_sum_f64(key);
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

/* Removes the row's own id; later entries move up. */
static uint32_t drop_one(const adji_row_style *style, adji_row_room *room, uint32_t slot, uint32_t row,
                         uint32_t count) {
  uint32_t *ids = room->ids[slot], i = 0;
  while (i < count && ids[i] != row)
    i++;
  if (i == count) return count;
  uint64_t many = count - i - 1, size = style->type == ADJ_F64 ? 8 : 4;
  char *sum = room->sums[slot] ? (char *)room->sums[slot] + i * size : NULL;
  memmove(ids + i, ids + i + 1, many * sizeof *ids);
  if (sum) memmove(sum, sum + size, many * size);
  return count - 1;
}

/* ---- The row ------------------------------------------------------------------------------------------ */

uint32_t adji_row_order(const adji_row_style *style, adji_row_room *room, uint32_t slot, uint32_t row, uint32_t count) {
  if (style->one_way)
    count = keep_above(style, room, slot, row, count);
  else if (style->drop_self)
    count = drop_one(style, room, slot, row, count);
  if (style->order == ADJ_ORDER_ANY || (style->order == ADJ_ORDER_ID && style->in_order)) return count;
  if (!adji_row_needs_sums(style))
    style->kernels->sort_ids(room->ids[slot], count);
  else if (style->type == ADJ_F64)
    order_f64(style, room->entries, room->ids[slot], room->sums[slot], count);
  else
    order_f32(style, room->entries, room->ids[slot], room->sums[slot], count);
  return count;
}

/* The position of the first of ascending ids that is not below `row`. */
static uint32_t place_of(const uint32_t *ids, uint32_t count, uint32_t row) {
  uint32_t low = 0, high = count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (ids[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Copies ascending ids without the row's own. */
static uint32_t place_in_order(const adji_row_style *style, const uint32_t *ids, uint32_t count, uint32_t row,
                               uint32_t *to) {
  uint32_t before = style->drop_self ? place_of(ids, count, row) : count;
  memcpy(to, ids, before * sizeof *to);
  if (before == count) return count;
  memcpy(to + before, ids + before + 1, (count - before - 1) * sizeof *to);
  return count - 1;
}

uint32_t adji_row_place_plain(const adji_row_style *style, uint32_t *ids, uint32_t count, uint32_t row, uint32_t *to) {
  if (style->in_order) return place_in_order(style, ids, count, row, to);
  return style->kernels->place_ids(ids, count, style->drop_self ? row : ADJ_NO_ID, style->order == ADJ_ORDER_ID, to);
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
  if (window->lasts) {
    bool full = count && count == window->k, wide = style->type == ADJ_F64;
    double last = full ? wide ? ((const double *)sums)[count - 1] : ((const float *)sums)[count - 1] : INFINITY;
    adji_window_note_last(window, style->type, row, last);
  }
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
