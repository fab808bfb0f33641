/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a range join: lists of queries, and their counts and rows into place.
 */
#include "gpu/hybrid/range_worker.h"

#include <stdatomic.h>

#include "gpu/hybrid/list_place.h"

/* What a worker takes is cut into so many lists, so that rows of one are put into place while the next is at work; but
 * a list is no smaller than what keeps a device busy. Pieces of a list are shared out to lanes. */
enum { LISTS_A_TIME = 4, LEAST_QUERIES = 1 << 18, LEAST_PAIRS = 1 << 22, LEAST_PIECE = 256 };

/* Entries are copied in so many bytes at most, of which the first of a piece are waited for. */
enum { MOST_COPIED = 1 << 20 };

typedef adji_range_list list;
typedef adji_range_cursor cursor;

static uint64_t sum_bytes(const adji_range_worker *w) {
  const adji_window *window = w->work->window;
  return window && window->distances ? adji_type_size(w->join->left->type) : 0;
}

static adj_status fetch(list *l, adji_list_part part, uint64_t first, uint64_t entries, uint64_t to, uint32_t lane) {
  const adji_rows_device *device = l->worker->device;
  return device->fetch(device->state, l->slot, &(adji_list_stretch){part, first, entries, to}, lane);
}

static adj_status wait_for(list *l, uint64_t bytes, uint32_t lane) {
  adji_range_worker *w = l->worker;
  uint64_t begin = adji_now_ns();
  adj_status status = w->device->wait(w->device->state, lane);
  atomic_fetch_add(&w->stats.wait_ns, adji_now_ns() - begin);
  atomic_fetch_add(&w->stats.bytes, bytes);
  return status;
}

/* ---- Counts into place ------------------------------------------------------------------------------ */

static adj_status fetch_counts(void *user, uint64_t number, uint32_t lane) {
  list *l = user;
  adji_range_worker *w = l->worker;
  uint64_t first = number * l->each, rows = l->rows - first < l->each ? l->rows - first : l->each;
  adj_status status = fetch(l, ADJI_LIST_ROWS, first, rows, 0, lane);
  if (!status) status = fetch(l, ADJI_LIST_COUNTS, first, rows, rows * 4, lane);
  if (!status) status = wait_for(l, rows * 8, lane);
  if (status) return status;
  uint64_t begin = adji_now_ns();
  const uint32_t *numbers = w->device->buffer(w->device->state, lane), *counts = numbers + rows;
  uint32_t *degrees = w->work->degrees;
  for (uint64_t i = 0; i < rows; i++) {
    if (i + ADJI_ROWS_AHEAD < rows) __builtin_prefetch(&degrees[numbers[i + ADJI_ROWS_AHEAD]], 1);
    degrees[numbers[i]] = counts[i];
  }
  atomic_fetch_add(&w->stats.place_ns, adji_now_ns() - begin);
  adji_trace(w->join->ctx, "place", lane, begin, rows);
  return adji_check_cancel(w->join->ctx);
}

/* ---- Rows into place -------------------------------------------------------------------------------- */

/* Rows of a piece in a lane's buffer: their numbers, where their entries begin in the slot, and behind these some of
 * the entries, in one of two places: while what is in one is put into rows, more is copied to the other. */
typedef struct piece {
  list *list;
  uint32_t lane;
  char *buffer;
  uint64_t rows, offsets_at, entries_at[2]; /* rows of it; bytes from the beginning of the buffer */
  uint64_t room;                            /* for entries, in each place                         */
  uint64_t row;                             /* the first whose entries are not all in place       */
} piece;

/* Some entries of a slot, and in which place of the buffer they are. */
typedef struct entries {
  uint64_t from, many;
  int place;
} entries;

/* Bytes of a piece but its entries. */
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

/* Where sums are in the buffer that come with these ids. */
static uint64_t sums_at(const piece *p, const entries *some) {
  return p->entries_at[some->place] + (some->many * 4 + 7) / 8 * 8;
}

/* The row to come after some others, and before that where it begins. */
static void ask_for_rows(const piece *p) {
  const adji_window *to = p->list->worker->work->window;
  uint64_t next = p->row + ADJI_ROWS_AHEAD, size = sum_bytes(p->list->worker);
  if (next + ADJI_ROWS_AHEAD < p->rows) __builtin_prefetch(&to->offsets[numbers_of(p)[next + ADJI_ROWS_AHEAD]]);
  if (next >= p->rows) return;
  uint64_t at = to->offsets[numbers_of(p)[next]] - to->offsets[to->first_row];
  uint64_t many = offsets_of(p)[next + 1] - offsets_of(p)[next];
  adji_ask_for_row(to->ids + at, many * sizeof *to->ids);
  if (size) adji_ask_for_row((const char *)to->distances + at * size, many * size);
}

/* Entries that have come into the rows they belong to. */
static void place_entries(piece *p, const entries *some) {
  const adji_range_worker *w = p->list->worker;
  const adji_window *to = w->work->window;
  const adji_row_style *style = &w->join->style;
  const uint32_t *numbers = numbers_of(p);
  const uint32_t *ids = (const uint32_t *)(const void *)(p->buffer + p->entries_at[some->place]);
  const uint64_t *offsets = offsets_of(p);
  char *sums = p->buffer + sums_at(p, some);
  uint64_t size = sum_bytes(w), from = some->from, end = from + some->many;
  if (size) adji_report_distances(style->measure, style->type, sums, some->many, sums);
  while (p->row < p->rows && offsets[p->row] < end) {
    uint64_t row_begin = offsets[p->row], row_end = offsets[p->row + 1];
    uint64_t first = row_begin > from ? row_begin : from, last = row_end < end ? row_end : end;
    ask_for_rows(p);
    uint64_t at = to->offsets[numbers[p->row]] - to->offsets[to->first_row] + (first - row_begin);
    style->kernels->stream_row(to->ids + at, ids + (first - from), (last - first) * sizeof *ids);
    if (size)
      style->kernels->stream_row((char *)to->distances + at * size, sums + (first - from) * size,
                                 (last - first) * size);
    if (row_end > end) break; /* the rest of it comes later */
    p->row++;
  }
  adji_rows_placed();
}

static adj_status fetch_entries(const piece *p, const entries *some) {
  adj_status status = fetch(p->list, ADJI_LIST_IDS, some->from, some->many, p->entries_at[some->place], p->lane);
  if (status || !sum_bytes(p->list->worker)) return status;
  return fetch(p->list, ADJI_LIST_SUMS, some->from, some->many, sums_at(p, some), p->lane);
}

/* Those behind others, up to the end, for the other place. */
static entries entries_behind(const piece *p, const entries *some, uint64_t end) {
  entries next = {.from = some->from + some->many, .place = !some->place};
  next.many = end - next.from < p->room ? end - next.from : p->room;
  return next;
}

static adj_status fetch_and_place_entries(piece *p, const entries *some, const entries *next) {
  adji_range_worker *w = p->list->worker;
  adj_status status = wait_for(p->list, some->many * (4 + sum_bytes(w)), p->lane);
  if (!status && next->many) status = fetch_entries(p, next);
  if (status) return status;
  uint64_t begin = adji_now_ns();
  place_entries(p, some);
  atomic_fetch_add(&w->stats.place_ns, adji_now_ns() - begin);
  adji_trace(w->join->ctx, "place", p->lane, begin, some->many);
  return adji_check_cancel(w->join->ctx);
}

static piece piece_of(list *l, uint64_t rows, uint32_t lane) {
  const adji_range_worker *w = l->worker;
  piece p = {.list = l, .lane = lane, .rows = rows, .offsets_at = offsets_at(rows)};
  uint64_t half = (w->buffer_bytes - entries_at(rows)) / 2 / 8 * 8, entry = 4 + sum_bytes(w);
  p.buffer = w->device->buffer(w->device->state, lane);
  p.entries_at[0] = entries_at(rows);
  p.entries_at[1] = p.entries_at[0] + half;
  p.room = ((half < MOST_COPIED ? half : MOST_COPIED) - (sum_bytes(w) ? 8 : 0)) / entry;
  return p;
}

static adj_status fetch_rows(void *user, uint64_t number, uint32_t lane) {
  list *l = user;
  uint64_t first = number * l->each, rows = l->rows - first < l->each ? l->rows - first : l->each;
  piece p = piece_of(l, rows, lane);
  adj_status status = fetch(l, ADJI_LIST_ROWS, first, rows, 0, lane);
  if (!status) status = fetch(l, ADJI_LIST_OFFSETS, first, rows + 1, p.offsets_at, lane);
  if (!status) status = wait_for(l, rows * 12 + 8, lane);
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

/* Rows a piece: what fills a buffer, but no more than leaves some for every lane. */
static uint64_t rows_a_piece(const list *l) {
  const adji_range_worker *w = l->worker;
  uint64_t bytes = w->buffer_bytes, row = 8, share = l->rows / (2 * (uint64_t)w->join->ctx->threads) + 1;
  if (w->work->window) {
    row = 12 + l->pairs / l->rows * (4 + sum_bytes(w));
    bytes -= bytes / 4; /* rows are of any length, and the first bytes are not theirs */
  }
  if (share < LEAST_PIECE) share = LEAST_PIECE;
  uint64_t each = bytes / row > 0 ? bytes / row : 1;
  return each < share ? each : share;
}

static uint64_t enough_helpers(const void *user) {
  const adji_range_worker *w = ((const list *)user)->worker;
  return adji_list_helpers(w->join->ctx, &w->stats);
}

/* All rows of a list, by all lanes that are free. Counts that nobody wants stay where they are. */
static adj_status fetch_list(void *user, uint32_t slot, adji_help *help, adji_tally *tally) {
  adji_range_worker *w = user;
  list *l = &w->lists[slot];
  const adji_shared_work *work = w->work;
  tally->pairs += l->found.pairs;
  tally->candidates += l->found.candidates;
  if (!l->rows || (!work->window && !work->degrees)) return ADJ_OK;
  l->each = rows_a_piece(l);
  adji_list_stats_next(&w->stats);
  uint64_t pieces = (l->rows + l->each - 1) / l->each;
  return adji_help_loop(help, pieces, work->window ? fetch_rows : fetch_counts, enough_helpers, l);
}

/* ---- Lists ------------------------------------------------------------------------------------------ */

/* Queries of the batch from the cursor on, up to `most`, that have no more than `room` entries together. */
static uint32_t queries_within(const adji_range_worker *w, const cursor *c, uint32_t most, uint64_t room,
                               uint64_t *pairs) {
  const uint32_t *rows = w->work->order + c->batches[c->at].begin + c->done;
  uint32_t many = 0;
  for (*pairs = 0; many < most; many++) {
    uint64_t length = adji_window_length(w->work->window, rows[many]);
    if (length > room - *pairs) break;
    *pairs += length;
  }
  return many;
}

/* The next queries for a list that has room for so many, and for so many entries; 0: none fits, or none is left. They
 * are of one batch. Batches without entries are passed over. */
static uint32_t next_queries(const adji_range_worker *w, cursor *c, uint64_t queries, uint64_t room, uint64_t *pairs) {
  const adji_shared_work *work = w->work;
  const uint64_t *each = work->window ? work->batch_pairs + (c->batches - work->batches) : NULL;
  *pairs = 0;
  while (each && c->at < c->count && !c->done && !each[c->at])
    c->at++;
  if (c->at == c->count) return 0;
  uint32_t left = c->batches[c->at].end - c->batches[c->at].begin - c->done, take = left;
  if (take > ADJI_LONGEST_RANGE) take = ADJI_LONGEST_RANGE;
  if (take > queries) take = (uint32_t)queries;
  if (!each) return take;
  if (c->done || take < left || each[c->at] > room) return queries_within(w, c, take, room, pairs);
  *pairs = each[c->at];
  return take;
}

/* Adds queries from the cursor on to the list. */
static void add_range(adji_range_worker *w, cursor *c, uint32_t take, uint64_t *ranges) {
  const adji_batch *batch = &c->batches[c->at];
  uint32_t begin = batch->begin + c->done;
  w->ranges[(*ranges)++] = (adji_batch){begin, begin + take, 0};
  c->done += take;
  if (begin + take < batch->end) return;
  c->at++;
  c->done = 0;
}

/* The ranges of the next list; none at the end. */
static adji_list_ranges next_list(adji_range_worker *w) {
  cursor *c = &w->next;
  adji_list_ranges next = {.ranges = w->ranges};
  uint64_t queries = c->queries, pairs = 0;
  while (queries && next.count < w->list_ranges) {
    uint64_t more;
    uint32_t take = next_queries(w, c, queries, c->pairs - pairs, &more);
    if (!take) break;
    add_range(w, c, take, &next.count);
    queries -= take;
    pairs += more;
  }
  next.pairs = pairs;
  return next;
}

static uint64_t clamp(uint64_t wanted, uint64_t least, uint64_t most) {
  uint64_t some = wanted < least ? least : wanted;
  return some < most ? some : most;
}

static void open_batches(void *user, const adji_batch *batches, uint64_t count) {
  adji_range_worker *w = user;
  uint64_t queries = 0, pairs = 0;
  for (uint64_t i = 0; i < count; i++) {
    queries += batches[i].end - batches[i].begin;
    if (w->work->window) pairs += w->work->batch_pairs[&batches[i] - w->work->batches];
  }
  cursor *c = &w->next;
  *c = (cursor){.batches = batches, .count = count};
  c->queries = w->work->window ? w->list_queries : clamp(queries / LISTS_A_TIME + 1, LEAST_QUERIES, w->list_queries);
  c->pairs = clamp(pairs / LISTS_A_TIME + 1, LEAST_PAIRS, w->list_pairs);
  if (c->pairs < w->work->longest) c->pairs = w->list_pairs; /* which has room for it */
}

static adj_status ask_list(void *user, uint32_t slot, bool *some) {
  adji_range_worker *w = user;
  adji_list_ranges next = next_list(w);
  *some = next.count > 0;
  if (!next.count) return ADJ_OK;
  w->lists[slot] = (list){.worker = w, .slot = slot, .pairs = next.pairs};
  return w->device->list(w->device->state, &next, slot, &w->lists[slot].rows);
}

static adj_status listed(void *user, uint32_t slot) {
  adji_range_worker *w = user;
  list *l = &w->lists[slot];
  adji_tally found = w->found;
  adj_status status = w->device->listed(w->device->state, slot, &found);
  l->found.pairs = w->work->window ? l->pairs : found.pairs - w->found.pairs;
  l->found.candidates = found.candidates - w->found.candidates;
  w->found = found;
  return status;
}

static void settle(void *user) {
  adji_range_worker *w = user;
  w->device->settle(w->device->state);
}

adj_status adji_range_worker_drain(adji_range_worker *w, adji_help *help) {
  adji_list_steps steps = {w, open_batches, ask_list, listed, fetch_list, settle, NULL};
  return adji_list_loop(w->join->ctx, &steps, help);
}

/* ---- A pass ----------------------------------------------------------------------------------------- */

adj_status adji_range_worker_begin(adji_range_worker *w) {
  adji_list_stats_clear(&w->stats);
  w->found = (adji_tally){0};
  w->ranges = adji_alloc(&w->join->ctx->memory, w->list_ranges, sizeof *w->ranges, "list of queries");
  return w->ranges ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_range_worker_end(adji_range_worker *w, adji_device_stats *work) {
  adji_free(&w->join->ctx->memory, w->ranges);
  w->ranges = NULL;
  adji_list_stats_tell(&w->stats, work);
}
