/* SPDX-License-Identifier: MIT
 *
 * Copies candidates in the order of their ids: a radix sort of keys that fit the cache of a core, then a gather.
 */
#include <string.h>

#include "cpu/walk.h"

enum { MOST = 8192, LEAST_QUERIES = 4, MANY_QUERIES = 32, LEAST_CANDIDATES = 64, DIGIT = 8, BUCKETS = 1 << DIGIT };
enum { SHORT_ROW = 4, SHORT_QUICK_ROW = 32 };

/* Whether rows have ids alone and are sorted in registers. */
static bool is_quick(const adji_row_style *style) {
  return style->kernels->sorts_in_registers && !adji_row_needs_sums(style);
}

bool adji_ordered_suits(const adji_join *join, uint64_t length) {
  const adji_row_style *style = &join->style;
  return style->order == ADJ_ORDER_ID && length >= (is_quick(style) ? SHORT_QUICK_ROW : SHORT_ROW);
}

/* Rows that are sorted in registers are faster to sort one by one, unless very many queries share the sort. */
bool adji_ordered_pays(const adji_join *join, const adji_group *group) {
  const adji_row_style *style = &join->style;
  return style->order == ADJ_ORDER_ID && group->task.query_count >= (is_quick(style) ? MANY_QUERIES : LEAST_QUERIES) &&
         !group->inside_count && group->near_total <= MOST && group->near_total >= LEAST_CANDIDATES;
}

static adj_status reserve(adji_ordered *o, const adji_join *join) {
  if (o->coords) return ADJ_OK;
  size_t size = adji_type_size(join->style.type);
  uint64_t room = MOST + ADJI_PAD;
  adji_memory *memory = &join->ctx->memory;
  o->keys = adji_alloc(memory, MOST, sizeof *o->keys, "candidates in order");
  o->spare = adji_alloc(memory, MOST, sizeof *o->spare, "candidates in order");
  o->ids = adji_alloc_zero(memory, room, sizeof *o->ids, "candidates in order");
  if (!o->keys || !o->spare || !o->ids) return ADJ_E_MEMORY;
  o->coords = adji_alloc_zero(memory, adji_mul(room, join->right->dim), size, "candidates in order");
  return o->coords ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_ordered_clear(adji_ordered *o, adji_memory *memory) {
  adji_free(memory, o->keys);
  adji_free(memory, o->spare);
  adji_free(memory, o->ids);
  adji_free(memory, o->coords);
}

/* bits: those that are set in some id. */
static uint64_t list_keys(const adji_group *group, uint64_t *keys, uint32_t *bits) {
  uint64_t count = 0;
  const uint32_t *ids = group->task.right->ids;
  *bits = 0;
  for (uint32_t r = 0; r < group->task.range_count; r++) {
    for (uint64_t i = group->task.ranges[r].begin; i < group->task.ranges[r].end; i++) {
      keys[count++] = (uint64_t)ids[i] << 32 | i;
      *bits |= ids[i];
    }
  }
  return count;
}

/* Sorts by the least significant digit first. There are as many digits as the largest id needs, of widths as equal as
 * possible. One pass counts all digits. */
static void sort_keys(adji_ordered *o, uint64_t count, uint32_t id_bits) {
  uint32_t places[4][BUCKETS];
  int bits = id_bits ? 32 - __builtin_clz(id_bits) : 0, digits = (bits + DIGIT - 1) / DIGIT;
  int digit = digits ? (bits + digits - 1) / digits : 0, buckets = 1 << digit;
  memset(places, 0, (size_t)digits * sizeof *places);
  for (uint64_t i = 0; i < count; i++)
    for (int d = 0; d < digits; d++)
      places[d][o->keys[i] >> (32 + d * digit) & (uint32_t)(buckets - 1)]++;
  for (int d = 0; d < digits; d++) {
    uint32_t place = 0;
    for (int b = 0; b < buckets; b++) {
      uint32_t many = places[d][b];
      places[d][b] = place;
      place += many;
    }
    for (uint64_t i = 0; i < count; i++)
      o->spare[places[d][o->keys[i] >> (32 + d * digit) & (uint32_t)(buckets - 1)]++] = o->keys[i];
    uint64_t *exchange = o->keys;
    o->keys = o->spare;
    o->spare = exchange;
  }
}

#define COPY(T)                                                                        \
  static void copy_##T(const adji_ordered *o, const adji_view *from, uint64_t count) { \
    for (uint32_t j = 0; j < from->dim; j++) {                                         \
      const T *x = (const T *)from->coords + j * from->stride;                         \
      T *to = (T *)o->coords + j * (uint64_t)(MOST + ADJI_PAD);                        \
      for (uint64_t i = 0; i < count; i++)                                             \
        to[i] = x[(uint32_t)o->keys[i]];                                               \
    }                                                                                  \
  }
COPY(float)
COPY(double)

adj_status adji_ordered_copy(adji_walker *w, const adji_group *group, adji_group *copy) {
  adji_ordered *o = &w->ordered;
  const adji_join *join = w->walk.join;
  adj_status status = reserve(o, join);
  if (status) return status;
  const adji_view *right = group->task.right;
  uint32_t id_bits;
  uint64_t count = list_keys(group, o->keys, &id_bits);
  sort_keys(o, count, id_bits);
  for (uint64_t i = 0; i < count; i++)
    o->ids[i] = (uint32_t)(o->keys[i] >> 32);
  if (join->style.type == ADJ_F64)
    copy_double(o, right, count);
  else
    copy_float(o, right, count);
  o->view = (adji_view){o->coords, MOST + ADJI_PAD, o->ids, right->dim, (uint32_t)count};
  o->all = (adji_range){0, (uint32_t)count};
  *copy = *group;
  copy->task.right = &o->view;
  copy->task.ranges = &o->all;
  copy->task.range_count = 1;
  return ADJ_OK;
}
