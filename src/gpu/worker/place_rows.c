/* SPDX-License-Identifier: MIT
 *
 * Lists of a range join: counts to degrees, or entries into the rows of a window.
 */
#include <stdatomic.h>

#include "gpu/device/staging.h"
#include "gpu/worker/place.h"

/* The most bytes of entries copied at a time. Lanes wait idly for the first copy. */
enum { MOST_COPIED = 1 << 20 };

static uint64_t sum_bytes(const adji_lists *l) {
  const adji_window *window = l->pass->window;
  return window && window->distances ? adji_type_size(l->join->left->type) : 0;
}

static void *buffer_of(const adji_lists *l, uint32_t lane) {
  return adji_staging_at(l->gpu, adji_staging_of(l->join->ctx, lane));
}

static adj_status fetch(const adji_list *list, adji_list_part part, uint64_t first, uint64_t entries, uint64_t to,
                        uint32_t lane) {
  const adji_lists *l = list->lists;
  return adji_gpu_lists_fetch(l->range, list->slot, &(adji_list_stretch){part, first, entries, to},
                              adji_staging_of(l->join->ctx, lane));
}

static adj_status wait_for(adji_lists *l, uint64_t bytes, uint32_t lane) {
  uint64_t begin = adji_now_ns();
  adj_status status = adji_staging_wait(l->gpu, adji_staging_of(l->join->ctx, lane));
  atomic_fetch_add(&l->stats.wait_ns, adji_now_ns() - begin);
  atomic_fetch_add(&l->stats.bytes, bytes);
  return status;
}

/* ---- Counts into place ------------------------------------------------------------------------------ */

static adj_status place_counts(const adji_list *list, uint64_t first, uint64_t rows, uint32_t lane) {
  adji_lists *l = list->lists;
  adj_status status = fetch(list, ADJI_LIST_ROWS, first, rows, 0, lane);
  if (!status) status = fetch(list, ADJI_LIST_COUNTS, first, rows, rows * 4, lane);
  if (!status) status = wait_for(l, rows * 8, lane);
  if (status) return status;
  uint64_t begin = adji_now_ns();
  const uint32_t *numbers = buffer_of(l, lane), *counts = numbers + rows;
  uint32_t *degrees = l->pass->degrees;
  for (uint64_t i = 0; i < rows; i++) {
    if (i + ADJI_ROWS_AHEAD < rows) __builtin_prefetch(&degrees[numbers[i + ADJI_ROWS_AHEAD]], 1);
    degrees[numbers[i]] = counts[i];
  }
  atomic_fetch_add(&l->stats.place_ns, adji_now_ns() - begin);
  adji_trace(l->join->ctx, "place", lane, begin, rows);
  return ADJ_OK;
}

/* ---- Rows into place -------------------------------------------------------------------------------- */

/* Rows of a list in a lane's buffer: their numbers, where their entries begin in the slot, and then two places for
 * entries. While the entries in one place are put into rows, more entries are copied to the other place. */
typedef struct piece {
  adji_list *list;
  uint32_t lane;
  char *buffer;
  uint64_t rows, offsets_at, entries_at[2]; /* rows of the piece; positions in the buffer, in bytes */
  uint64_t room;                            /* entries that each place holds */
  uint64_t row;                             /* the first row whose entries are not all in place */
} piece;

/* Some entries of a slot, and the place in the buffer where they are. */
typedef struct entries {
  uint64_t from, many;
  int place;
} entries;

/* Where offsets and entries begin in the buffer, in bytes. */
static uint64_t offsets_at(uint64_t rows) {
  return (rows * 4 + 7) / 8 * 8;
}
static uint64_t entries_at(uint64_t rows) {
  return offsets_at(rows) + (rows + 1) * 8;
}

static const uint32_t *numbers_of(const piece *p) {
  return (const uint32_t *)(const void *)p->buffer;
}
static const uint64_t *offsets_of(const piece *p) {
  return (const uint64_t *)(const void *)(p->buffer + p->offsets_at);
}

/* Where the sums of these entries are in the buffer. */
static uint64_t sums_at(const piece *p, const entries *some) {
  return p->entries_at[some->place] + (some->many * 4 + 7) / 8 * 8;
}

/* Prefetches where a row some rows ahead goes; and, for a row still further ahead, the offset that says where it
 * begins. */
ADJI_FETCHES prefetch_rows(const piece *p) {
  const adji_window *to = p->list->lists->pass->window;
  uint64_t next = p->row + ADJI_ROWS_AHEAD, size = sum_bytes(p->list->lists);
  if (next + ADJI_ROWS_AHEAD < p->rows) __builtin_prefetch(&to->offsets[numbers_of(p)[next + ADJI_ROWS_AHEAD]]);
  if (next >= p->rows) return;
  uint64_t at = to->offsets[numbers_of(p)[next]] - to->offsets[to->first_row];
  uint64_t many = offsets_of(p)[next + 1] - offsets_of(p)[next];
  adji_prefetch_row(to->ids + at, many * sizeof *to->ids);
  if (size) adji_prefetch_row((const char *)to->distances + at * size, many * size);
}

/* Puts entries that have arrived into their rows. */
static void place_entries(piece *p, const entries *some) {
  const adji_lists *l = p->list->lists;
  const adji_window *to = l->pass->window;
  const adji_row_style *style = &l->join->style;
  const uint32_t *numbers = numbers_of(p);
  const uint32_t *ids = (const uint32_t *)(const void *)(p->buffer + p->entries_at[some->place]);
  const uint64_t *offsets = offsets_of(p);
  char *sums = p->buffer + sums_at(p, some);
  uint64_t size = sum_bytes(l), from = some->from, end = from + some->many;
  if (size) adji_report_distances(style->measure, style->type, sums, some->many, sums);
  while (p->row < p->rows && offsets[p->row] < end) {
    uint64_t row_begin = offsets[p->row], row_end = offsets[p->row + 1];
    uint64_t first = row_begin > from ? row_begin : from, last = row_end < end ? row_end : end;
    prefetch_rows(p);
    uint64_t at = to->offsets[numbers[p->row]] - to->offsets[to->first_row] + (first - row_begin);
    style->kernels->stream_row(to->ids + at, ids + (first - from), (last - first) * sizeof *ids);
    if (size)
      style->kernels->stream_row((char *)to->distances + at * size, sums + (first - from) * size,
                                 (last - first) * size);
    if (row_end > end) break; /* the rest of the row comes later */
    p->row++;
  }
  adji_stream_fence();
}

static adj_status fetch_entries(const piece *p, const entries *some) {
  adj_status status = fetch(p->list, ADJI_LIST_IDS, some->from, some->many, p->entries_at[some->place], p->lane);
  if (status || !sum_bytes(p->list->lists)) return status;
  return fetch(p->list, ADJI_LIST_SUMS, some->from, some->many, sums_at(p, some), p->lane);
}

/* The entries after some others, up to the end, for the other place. */
static entries entries_behind(const piece *p, const entries *some, uint64_t end) {
  entries next = {.from = some->from + some->many, .place = !some->place};
  next.many = end - next.from < p->room ? end - next.from : p->room;
  return next;
}

static adj_status fetch_and_place_entries(piece *p, const entries *some, const entries *next) {
  adji_lists *l = p->list->lists;
  adj_status status = wait_for(l, some->many * (4 + sum_bytes(l)), p->lane);
  if (!status && next->many) status = fetch_entries(p, next);
  if (status) return status;
  uint64_t begin = adji_now_ns();
  place_entries(p, some);
  atomic_fetch_add(&l->stats.place_ns, adji_now_ns() - begin);
  adji_trace(l->join->ctx, "place", p->lane, begin, some->many);
  return adji_check_cancel(l->join->ctx);
}

static piece piece_of(adji_list *list, uint64_t rows, uint32_t lane) {
  const adji_lists *l = list->lists;
  piece p = {.list = list, .lane = lane, .rows = rows, .offsets_at = offsets_at(rows)};
  uint64_t half = (ADJI_STAGE_BYTES - entries_at(rows)) / 2 / 8 * 8, entry = 4 + sum_bytes(l);
  p.buffer = buffer_of(l, lane);
  p.entries_at[0] = entries_at(rows);
  p.entries_at[1] = p.entries_at[0] + half;
  p.room = ((half < MOST_COPIED ? half : MOST_COPIED) - (sum_bytes(l) ? 8 : 0)) / entry;
  return p;
}

static adj_status place_rows(adji_list *list, uint64_t first, uint64_t rows, uint32_t lane) {
  piece p = piece_of(list, rows, lane);
  adj_status status = fetch(list, ADJI_LIST_ROWS, first, rows, 0, lane);
  if (!status) status = fetch(list, ADJI_LIST_OFFSETS, first, rows + 1, p.offsets_at, lane);
  if (!status) status = wait_for(list->lists, rows * 12 + 8, lane);
  if (status) return status;
  uint64_t end = offsets_of(&p)[rows];
  entries some = entries_behind(&p, &(entries){.from = offsets_of(&p)[0]}, end);
  if (some.many) status = fetch_entries(&p, &some);
  while (some.many && !status) {
    entries next = entries_behind(&p, &some, end);
    status = fetch_and_place_entries(&p, &some, &next);
    some = next;
  }
  return status;
}

/* ---- The placer ------------------------------------------------------------------------------------- */

static adj_status begin(adji_lists *l, const adji_list_ranges *ranges, uint32_t slot, uint64_t *rows) {
  return adji_gpu_lists_list(l->range, ranges, slot, l->join->ctx->threads, rows);
}

static adj_status wait(adji_lists *l, uint32_t slot, adji_tally *found) {
  return adji_gpu_lists_listed(l->range, slot, found);
}

/* The number of rows that fill a buffer. Counts that are not wanted stay on the device, as do those of a single
 * evaluation. */
static uint64_t rows_at_once(const adji_list *list) {
  const adji_lists *l = list->lists;
  uint64_t bytes = ADJI_STAGE_BYTES, row = 8;
  if (l->pass->kind == ADJI_PASS_SINGLE || (!l->pass->window && !l->pass->degrees)) return 0;
  if (l->pass->window) {
    row = 12 + list->pairs / list->rows * (4 + sum_bytes(l));
    bytes -= bytes / 4; /* rows may be longer than the average */
  }
  return bytes / row > 0 ? bytes / row : 1;
}

static adj_status place(adji_list *list, uint64_t first, uint64_t rows, uint32_t lane) {
  return list->lists->pass->window ? place_rows(list, first, rows, lane) : place_counts(list, first, rows, lane);
}

const adji_placer adji_row_placer = {.lists_a_take = 4,
                                     .least_queries = 1 << 18,
                                     .multiple = 1,
                                     .begin = begin,
                                     .wait = wait,
                                     .rows_at_once = rows_at_once,
                                     .place = place};
