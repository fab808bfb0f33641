/* SPDX-License-Identifier: MIT
 *
 * Single evaluation: from lists to rows. The steps are numbered as in single.c.
 */
#include <string.h>

#include "cpu/single_private.h"
#include "result/offsets.h"

typedef adji_single single;
typedef adji_single_chunk chunk;

adj_status adji_single_gather_chunks(single *s) {
  adj_ctx *ctx = s->join->ctx;
  uint64_t count = 0;
  for (uint32_t i = 0; i < ctx->threads; i++)
    for (chunk *c = s->chunks[i]; c; c = c->next)
      count++;
  if (!adji_grow(&ctx->memory, (void **)&s->all_chunks, count + 1, sizeof *s->all_chunks, 0, "pairs"))
    return ADJ_E_MEMORY;
  s->all_chunk_count = 0;
  for (uint32_t i = 0; i < ctx->threads; i++)
    for (chunk *c = s->chunks[i]; c; c = c->next)
      s->all_chunks[s->all_chunk_count++] = c;
  return ADJ_OK;
}

void adji_single_free_chunks(single *s) {
  adj_ctx *ctx = s->join->ctx;
  for (uint32_t i = 0; s->chunks && i < ctx->threads; i++)
    while (s->chunks[i]) {
      chunk *c = s->chunks[i];
      s->chunks[i] = c->next;
      adji_free(&ctx->memory, c);
    }
}

/* ---- 2. Offsets -------------------------------------------------------------------------------------- */

/* Adds the counts of devices. */
static void add_counts(void *user, uint64_t begin, uint64_t end) {
  single *s = user;
  for (uint32_t p = 0; p < s->part_count; p++)
    for (uint64_t row = begin; row < end; row++)
      atomic_fetch_add_explicit(&s->degrees[row], (uint32_t)adji_part_length(&s->parts[p], row), memory_order_relaxed);
}

adj_status adji_single_count_parts(single *s) {
  return s->part_count ? adji_each_row(s->join->ctx, s->rows, add_counts, s) : ADJ_OK;
}

static void begin_rows(void *user, uint64_t begin, uint64_t end) {
  single *s = user;
  for (uint64_t row = begin; row < end; row++)
    atomic_init(&s->places[row], s->result->offsets[row]);
}

static adj_status make_room(single *s) {
  adj_result *result = s->result;
  adji_memory *memory = &s->join->ctx->memory;
  result->ids = adji_alloc(memory, result->pairs, sizeof *result->ids, "result");
  if (!result->ids) return ADJ_E_MEMORY;
  if (!s->sums) return ADJ_OK;
  result->distances = adji_alloc(memory, result->pairs, 4 * (size_t)s->sum_words, "result");
  return result->distances ? ADJ_OK : ADJ_E_MEMORY;
}

static adj_status make_offsets(single *s, const adji_run *run) {
  adj_result *result = s->result;
  adji_memory *memory = &s->join->ctx->memory;
  result->offsets = adji_alloc(memory, s->rows + 1, sizeof *result->offsets, "row offsets");
  s->places = adji_alloc(memory, s->rows, sizeof *s->places, "row offsets");
  if (!result->offsets || !s->places) return ADJ_E_MEMORY;
  adj_ctx *ctx = s->join->ctx;
  adj_status status = adji_single_count_parts(s);
  if (!status) status = adji_offsets_add_up(ctx, (const uint32_t *)(const void *)s->degrees, s->rows, result->offsets);
  if (!status) status = adji_each_row(ctx, s->rows, begin_rows, s);
  if (status) return status;
  result->pairs = result->offsets[s->rows];
  status = adji_run_check_pairs(run, result->pairs);
  return status ? status : make_room(s);
}

/* ---- 3. Dealing out ---------------------------------------------------------------------------------- */

/* Takes the next `many` places of a row, and returns the first. */
static uint64_t take_places(single *s, uint32_t row, uint32_t many) {
  return atomic_fetch_add_explicit(&s->places[row], many, memory_order_relaxed);
}

static void put(single *s, uint64_t at, uint32_t id, const uint32_t *sum) {
  s->result->ids[at] = id;
  if (sum) memcpy((uint32_t *)s->result->distances + at * s->sum_words, sum, (size_t)s->sum_words * 4);
}

/* Deals out the far sides of a record's pairs. The places of some pairs are taken first, and written later: taking a
 * place waits for all earlier writes, and these go to scattered memory. */
enum { DEAL_AT_ONCE = 64 };

static void scatter(single *s, uint32_t row, const uint32_t *ids, uint32_t count, const uint32_t *sums) {
  uint64_t at[DEAL_AT_ONCE];
  for (uint32_t first = 0; first < count; first += DEAL_AT_ONCE) {
    uint32_t many = count - first < DEAL_AT_ONCE ? count - first : DEAL_AT_ONCE;
    for (uint32_t i = 0; i < many; i++)
      __builtin_prefetch((const void *)&s->places[ids[first + i]], 1);
    for (uint32_t i = 0; i < many; i++) {
      uint32_t id = ids[first + i];
      at[i] = take_places(s, s->style.one_way ? adji_single_lower(row, id) : id, 1);
    }
    for (uint32_t i = 0; i < many; i++) {
      uint32_t id = ids[first + i];
      uint32_t other = s->style.one_way && row < id ? id : row;
      put(s, at[i], other, sums ? sums + (uint64_t)(first + i) * s->sum_words : NULL);
    }
  }
}

static void deal_record(single *s, const uint32_t *record) {
  uint32_t row = record[0], count = record[1];
  const uint32_t *ids = record + 2, *sums = s->sums ? ids + count : NULL;
  if (s->mirror || s->style.one_way) scatter(s, row, ids, count, sums);
  if (s->style.one_way) return;
  uint64_t at = take_places(s, row, count);
  memcpy(s->result->ids + at, ids, count * sizeof *ids);
  if (sums) memcpy((uint32_t *)s->result->distances + at * s->sum_words, sums, (uint64_t)count * s->sum_words * 4);
}

static adj_status deal_chunk(void *user, uint64_t task, uint32_t lane_number) {
  (void)lane_number;
  single *s = user;
  const chunk *c = s->all_chunks[task];
  for (uint64_t at = 0; at < c->used; at += 2 + (uint64_t)c->words[at + 1] * (1 + s->sum_words))
    deal_record(s, c->words + at);
  return ADJ_OK;
}

static adj_status deal_out(single *s) {
  adj_status status = adji_single_gather_chunks(s);
  return status ? status : adji_loop(s->join->ctx, s->all_chunk_count, deal_chunk, s);
}

/* ---- 4. Order ---------------------------------------------------------------------------------------- */

enum { SLICE_ROWS = 4096 };

static void add_self(single *s, uint32_t row) {
  static const uint32_t zero[2] = {0, 0};
  put(s, take_places(s, row, 1), row, s->sums ? zero : NULL);
}

/* Adds a row's entries from devices. Returns whether these are the whole row, which then is finished. */
static bool add_parts(single *s, uint32_t row) {
  const adj_result *result = s->result;
  uint64_t count = 0, length = result->offsets[row + (uint64_t)1] - result->offsets[row];
  for (uint32_t p = 0; p < s->part_count; p++) {
    const adji_part *part = &s->parts[p];
    uint64_t from = part->offsets[row], size = 4 * (uint64_t)s->sum_words;
    count = adji_part_length(part, row);
    if (!count) continue;
    uint64_t at = take_places(s, row, (uint32_t)count);
    memcpy(result->ids + at, part->ids + from, count * sizeof *result->ids);
    if (s->sums) memcpy((char *)result->distances + at * size, (const char *)part->sums + from * size, count * size);
  }
  return count == length && !s->sums;
}

static adj_status order_row(single *s, adji_row_room *room, uint32_t row) {
  adj_result *result = s->result;
  adji_row_style style = s->join->style;
  if (style.order == ADJ_ORDER_ANY && !style.distances) return ADJ_OK;
  style.drop_self = style.one_way = false; /* already done */
  uint64_t at = result->offsets[row], count = result->offsets[row + (uint64_t)1] - at;
  if (!count) return ADJ_OK; /* perhaps the room is not yet allocated */
  adj_status status = adji_row_room_reserve(room, &s->join->ctx->memory, &style, count);
  if (status) return status;
  memcpy(room->ids[0], result->ids + at, count * sizeof *result->ids);
  if (s->sums) memcpy(room->sums[0], (uint32_t *)result->distances + at * s->sum_words, count * s->sum_words * 4);
  adji_row_order(&style, room, 0, row, (uint32_t)count);
  adji_window window = {.end_row = result->rows,
                        .offsets = result->offsets,
                        .ids = result->ids,
                        .distances = style.distances ? result->distances : NULL};
  return adji_row_place(&style, room, 0, row, (uint32_t)count, &window);
}

static adj_status order_slice(void *user, uint64_t slice, uint32_t lane) {
  single *s = user;
  adj_status status = ADJ_OK;
  for (uint64_t row = slice * SLICE_ROWS; row < s->rows && row < (slice + 1) * SLICE_ROWS && !status; row++) {
    if (adji_single_adds_selves(s)) add_self(s, (uint32_t)row);
    if (!add_parts(s, (uint32_t)row)) status = order_row(s, &s->walkers[lane].room, (uint32_t)row);
  }
  return status;
}

adj_status adji_single_make_rows(single *s, const adji_run *run) {
  adj_ctx *ctx = s->join->ctx;
  uint64_t begin = adji_now_ns();
  adj_status status = make_offsets(s, run);
  if (!status) status = deal_out(s);
  adji_trace(ctx, "deal", 0, begin, s->rows);
  adji_single_free_chunks(s);
  begin = adji_now_ns();
  if (!status) status = adji_loop(ctx, s->rows / SLICE_ROWS + 1, order_slice, s);
  adji_trace(ctx, "order", 0, begin, s->rows);
  return status;
}
