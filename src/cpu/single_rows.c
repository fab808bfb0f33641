/* SPDX-License-Identifier: MIT
 *
 * Evaluating each candidate once: from lists, and what devices found, to rows.
 */
#include <string.h>

#include "cpu/single_private.h"
#include "result/offsets.h"

typedef adji_single once;
typedef adji_single_lane lane;
typedef adji_single_chunk chunk;

/* ---- 2. Offsets -------------------------------------------------------------------------------------- */

/* What devices found counts too. */
static adj_status add_counts(void *user, uint64_t slice, uint32_t lane_number) {
  (void)lane_number;
  once *o = user;
  uint64_t begin, end;
  adji_slice(o->rows, o->slices, slice, &begin, &end);
  for (uint32_t p = 0; p < o->parts.count; p++)
    for (uint64_t row = begin; row < end; row++)
      atomic_fetch_add_explicit(&o->degrees[row], (uint32_t)adji_part_length(&o->parts.each[p], row),
                                memory_order_relaxed);
  return ADJ_OK;
}

adj_status adji_single_count_parts(once *o) {
  return o->parts.count ? adji_loop(o->join->ctx, o->slices, add_counts, o) : ADJ_OK;
}

static adj_status begin_rows(void *user, uint64_t slice, uint32_t lane_number) {
  (void)lane_number;
  once *o = user;
  uint64_t begin, end;
  adji_slice(o->rows, o->slices, slice, &begin, &end);
  for (uint64_t row = begin; row < end; row++)
    atomic_init(&o->places[row], o->result->offsets[row]);
  return ADJ_OK;
}

static adj_status make_room(once *o) {
  adj_result *result = o->result;
  adji_memory *memory = &o->join->ctx->memory;
  result->ids = adji_alloc(memory, result->pairs, sizeof *result->ids, "result");
  if (!result->ids) return ADJ_E_MEMORY;
  if (!o->sums) return ADJ_OK;
  result->distances = adji_alloc(memory, result->pairs, 4 * (size_t)o->sum_words, "result");
  return result->distances ? ADJ_OK : ADJ_E_MEMORY;
}

static adj_status make_offsets(once *o, uint64_t max_pairs) {
  adj_result *result = o->result;
  adji_memory *memory = &o->join->ctx->memory;
  result->offsets = adji_alloc(memory, o->rows + 1, sizeof *result->offsets, "row offsets");
  o->places = adji_alloc(memory, o->rows, sizeof *o->places, "row offsets");
  if (!result->offsets || !o->places) return ADJ_E_MEMORY;
  adj_ctx *ctx = o->join->ctx;
  adj_status status = adji_single_count_parts(o);
  if (!status) status = adji_offsets_add_up(ctx, (const uint32_t *)(const void *)o->degrees, o->rows, result->offsets);
  if (!status) status = adji_loop(ctx, o->slices, begin_rows, o);
  if (status) return status;
  result->pairs = result->offsets[o->rows];
  status = adji_single_check(result->pairs, max_pairs);
  return status ? status : make_room(o);
}

/* ---- 3. Dealing out ---------------------------------------------------------------------------------- */

/* Takes the next `many` places of a row. */
static uint64_t take_places(once *o, uint32_t row, uint32_t many) {
  return atomic_fetch_add_explicit(&o->places[row], many, memory_order_relaxed);
}

static void put(once *o, uint64_t at, uint32_t id, const uint32_t *sum) {
  o->result->ids[at] = id;
  if (sum) memcpy((uint32_t *)o->result->distances + at * o->sum_words, sum, (size_t)o->sum_words * 4);
}

/* Deals out the far sides of a record's pairs. Places are taken for some pairs first and written
 * after: taking one waits for all writes before it, and those go to memory that is far away. */
enum { DEAL_AT_ONCE = 64 };

static void scatter(once *o, uint32_t row, const uint32_t *ids, uint32_t count, const uint32_t *sums) {
  uint64_t at[DEAL_AT_ONCE];
  for (uint32_t first = 0; first < count; first += DEAL_AT_ONCE) {
    uint32_t many = count - first < DEAL_AT_ONCE ? count - first : DEAL_AT_ONCE;
    for (uint32_t i = 0; i < many; i++)
      __builtin_prefetch((const void *)&o->places[ids[first + i]], 1);
    for (uint32_t i = 0; i < many; i++) {
      uint32_t id = ids[first + i];
      at[i] = take_places(o, o->style.one_way ? adji_single_lower(row, id) : id, 1);
    }
    for (uint32_t i = 0; i < many; i++) {
      uint32_t id = ids[first + i];
      uint32_t other = o->style.one_way && row < id ? id : row;
      put(o, at[i], other, sums ? sums + (uint64_t)(first + i) * o->sum_words : NULL);
    }
  }
}

static void deal_record(once *o, const uint32_t *record) {
  uint32_t row = record[0], count = record[1];
  const uint32_t *ids = record + 2, *sums = o->sums ? ids + count : NULL;
  if (o->mirror || o->style.one_way) scatter(o, row, ids, count, sums);
  if (o->style.one_way) return;
  uint64_t at = take_places(o, row, count);
  memcpy(o->result->ids + at, ids, count * sizeof *ids);
  if (sums) memcpy((uint32_t *)o->result->distances + at * o->sum_words, sums, (uint64_t)count * o->sum_words * 4);
}

static adj_status deal_chunk(void *user, uint64_t task, uint32_t lane_number) {
  (void)lane_number;
  once *o = user;
  const chunk *c = o->todo[task];
  for (uint64_t at = 0; at < c->used; at += 2 + (uint64_t)c->words[at + 1] * (1 + o->sum_words))
    deal_record(o, c->words + at);
  return ADJ_OK;
}

static adj_status deal_out(once *o) {
  adj_status status = adji_single_gather(o);
  return status ? status : adji_loop(o->join->ctx, o->todo_count, deal_chunk, o);
}

/* ---- 4. Order ---------------------------------------------------------------------------------------- */

static void add_self(once *o, uint32_t row) {
  static const uint32_t zero[2] = {0, 0};
  put(o, take_places(o, row, 1), row, o->sums ? zero : NULL);
}

/* What devices found of a row; returns whether that is all of it, and as it should be. */
static bool add_parts(once *o, uint32_t row) {
  const adj_result *result = o->result;
  uint64_t count = 0, length = result->offsets[row + (uint64_t)1] - result->offsets[row];
  for (uint32_t p = 0; p < o->parts.count; p++) {
    const adji_part *part = &o->parts.each[p];
    uint64_t from = part->offsets[row], size = 4 * (uint64_t)o->sum_words;
    count = adji_part_length(part, row);
    if (!count) continue;
    uint64_t at = take_places(o, row, (uint32_t)count);
    memcpy(result->ids + at, part->ids + from, count * sizeof *result->ids);
    if (o->sums) memcpy((char *)result->distances + at * size, (const char *)part->sums + from * size, count * size);
  }
  return count == length && !o->sums;
}

static adj_status order_row(once *o, lane *l, uint32_t row) {
  adj_result *result = o->result;
  adji_row_style style = o->join->style;
  if (style.order == ADJ_ORDER_ANY && !style.distances) return ADJ_OK;
  style.drop_self = style.one_way = false; /* done already */
  uint64_t at = result->offsets[row], count = result->offsets[row + (uint64_t)1] - at;
  if (!count) return ADJ_OK; /* and perhaps no room yet */
  adj_status status = adji_row_room_reserve(&l->room, &o->join->ctx->memory, &style, count);
  if (status) return status;
  memcpy(l->room.ids[0], result->ids + at, count * sizeof *result->ids);
  if (o->sums) memcpy(l->room.sums[0], (uint32_t *)result->distances + at * o->sum_words, count * o->sum_words * 4);
  adji_row_order(&style, &l->room, 0, row, (uint32_t)count);
  adji_window window = {0, result->rows, result->offsets, result->ids, style.distances ? result->distances : NULL};
  return adji_row_place(&style, &l->room, 0, row, (uint32_t)count, &window);
}

static adj_status order_slice(void *user, uint64_t slice, uint32_t lane_number) {
  once *o = user;
  uint64_t begin, end;
  adji_slice(o->result->rows, o->slices, slice, &begin, &end);
  adj_status status = ADJ_OK;
  for (uint64_t row = begin; row < end && !status; row++) {
    if (adji_single_adds_selves(o)) add_self(o, (uint32_t)row);
    if (!add_parts(o, (uint32_t)row)) status = order_row(o, &o->lanes[lane_number], (uint32_t)row);
  }
  return status;
}

adj_status adji_single_make_rows(once *o, uint64_t max_pairs) {
  adj_ctx *ctx = o->join->ctx;
  uint64_t begin = adji_now_ns();
  adj_status status = make_offsets(o, max_pairs);
  if (!status) status = deal_out(o);
  adji_trace(ctx, "deal", 0, begin, o->rows);
  adji_single_free_chunks(o);
  begin = adji_now_ns();
  if (!status) status = adji_loop(ctx, o->slices, order_slice, o);
  adji_trace(ctx, "order", 0, begin, o->rows);
  return status;
}
