/* SPDX-License-Identifier: MIT
 *
 * Single evaluation through bins: see single_bins.h.
 *
 *   1. For each query, a lane appends the list of its neighbours, as a record, to the bin of the query's row. It also
 *      appends the query to the bin of each neighbour's row, as one word: the number of the neighbour's row in its bin
 *      in the high bits, the query's row in the low bits.
 *   2. The number of entries in all bins gives the beginning of each stretch of the result.
 *   3. A lane takes the bins of a stretch, of all lanes: it adds up the lengths of rows, assembles the rows in a buffer
 *      that fits a cache, and sorts them into the result.
 *
 * So no write goes to a counter or a row far away in memory. In six dimensions with 100 neighbours such writes took a
 * quarter of a join.
 */
#include "cpu/single_bins.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/bins.h"

struct adji_single_bins {
  const adji_join *join;
  adj_result *result;
  uint64_t rows;
  uint32_t id_bits; /* bits of a row number in a word */
  adji_bins lists;  /* records: row, length, ids */
  adji_bins words;
  uint64_t *begins;  /* first entry of each stretch, and the end of the last one */
  uint64_t largest;  /* entries of the largest stretch */
  uint64_t room;     /* entries of a buffer */
  uint32_t *buffers; /* per lane: the rows of a stretch */
  uint64_t *places;  /* per lane: for each row of a stretch its length, then the place of its next entry */
};
typedef adji_single_bins single_bins;

enum { HEADER = 2, STRETCH = 1 << 20, MOST_BINS = 4096, LEAST_BINS = 4 };

/* The most entries of a stretch that are assembled in a buffer. A larger stretch, with much longer rows than others, is
 * assembled in the result. */
enum { MOST_BUFFERED = 1 << 22 };

static uint32_t bits_of(uint64_t count) {
  return count > 1 ? 64 - (uint32_t)__builtin_clzll(count - 1) : 0;
}

/* Chooses stretches that fit the cache of a core. A word must hold the number of any row and the number of a row within
 * its bin. */
static uint32_t choose_shift(uint64_t rows, double pairs) {
  double wanted = 4 * pairs / STRETCH;
  uint32_t shift = 0, most = 32 - bits_of(rows);
  if (wanted < LEAST_BINS) wanted = LEAST_BINS;
  if (wanted > MOST_BINS) wanted = MOST_BINS;
  while (shift < most && (double)(rows >> shift) > wanted)
    shift++;
  return shift;
}

bool adji_single_bins_suits(const adji_join *join, double pairs) {
  static const double A_PAIR = 8.5, A_ROW = 24;
  const adji_row_style *style = &join->style;
  uint64_t rows = join->left->count;
  return join->self_join && !style->one_way && !adji_row_needs_sums(style) && join->left->dim <= ADJI_FEW_DIMS &&
         rows && rows >> choose_shift(rows, pairs) <= 2 * (uint64_t)MOST_BINS &&
         adji_fits(&join->ctx->memory, (uint64_t)(A_PAIR * pairs + A_ROW * (double)rows));
}

/* ---- 1. Pairs into bins -------------------------------------------------------------------------------- */

static adj_status keep_list(single_bins *m, uint32_t lane, uint32_t row, const uint32_t *ids, uint32_t count) {
  adji_bin *b = adji_bins_reserve(&m->lists, lane, row, HEADER + (uint64_t)count);
  if (!b) return ADJ_E_MEMORY;
  b->at[0] = row;
  b->at[1] = count;
  memcpy(b->at + HEADER, ids, count * sizeof *ids);
  b->at += HEADER + (uint64_t)count;
  b->entries += count;
  return ADJ_OK;
}

static adj_status keep_words(single_bins *m, uint32_t lane, uint32_t row, const uint32_t *ids, uint32_t count) {
  const uint32_t mask = (1u << m->words.shift) - 1, id_bits = m->id_bits;
  for (uint32_t i = 0; i < count; i++) {
    adji_bin *b = adji_bins_reserve(&m->words, lane, ids[i], 1);
    if (!b) return ADJ_E_MEMORY;
    *b->at++ = (uint32_t)((uint64_t)(ids[i] & mask) << id_bits) | row;
    b->entries++;
  }
  return ADJ_OK;
}

static adj_status stage_group(adji_walker *w, const adji_group *group, adji_tally *tally) {
  single_bins *m = w->walk.user;
  const adji_row_style *style = &m->join->style;
  uint32_t found[ADJI_LIST_MAX];
  if (adji_group_is_alone(w, group)) return ADJ_OK;
  adj_status status =
      adji_row_room_reserve(&w->room, &m->join->ctx->memory, style, group->near_total + group->inside_total);
  for (uint32_t first = 0; first < group->task.query_count && !status; first += ADJI_LIST_MAX) {
    if (adji_group_cancelled(w, group)) return adji_check_cancel(m->join->ctx);
    uint32_t many = group->task.query_count - first;
    if (many > ADJI_LIST_MAX) many = ADJI_LIST_MAX;
    adji_list_queries(w, style, group, first, many, found);
    for (uint32_t k = 0; k < many && !status; k++) {
      uint32_t row = group->task.left->ids[group->task.queries[first + k]];
      tally->pairs += 2 * (uint64_t)found[k];
      if (found[k]) status = keep_list(m, w->lane, row, w->room.ids[k], found[k]);
      if (!status) status = keep_words(m, w->lane, row, w->room.ids[k], found[k]);
    }
  }
  return status;
}

/* ---- 2. Beginnings of the stretches ---------------------------------------------------------------------- */

static uint64_t rows_of(const single_bins *m, uint64_t bin) {
  uint64_t first = bin << m->words.shift, each = UINT64_C(1) << m->words.shift;
  return first >= m->rows ? 0 : m->rows - first < each ? m->rows - first : each;
}

static adj_status open_buffers(single_bins *m, uint64_t largest) {
  adj_ctx *ctx = m->join->ctx;
  if (largest > MOST_BUFFERED) largest = m->rows > MOST_BUFFERED ? m->rows : MOST_BUFFERED; /* or one row at a time */
  m->room = largest + ADJI_PAD;
  m->buffers = adji_alloc(&ctx->memory, adji_mul(m->room, ctx->threads), sizeof *m->buffers, "rows");
  m->places = adji_alloc(&ctx->memory, (uint64_t)ctx->threads << m->words.shift, sizeof *m->places, "rows");
  return m->buffers && m->places ? ADJ_OK : ADJ_E_MEMORY;
}

static adj_status make_room(single_bins *m, const adji_run *run) {
  adj_ctx *ctx = m->join->ctx;
  adj_result *result = m->result;
  uint64_t pairs = 0, largest = 0;
  for (uint64_t i = 0; i < m->words.count; i++) {
    m->begins[i] = pairs;
    for (uint32_t l = 0; l < ctx->threads; l++)
      pairs += m->lists.lanes[l].bins[i].entries + m->words.lanes[l].bins[i].entries;
    if (!m->join->style.drop_self) pairs += rows_of(m, i);
    if (pairs - m->begins[i] > largest) largest = pairs - m->begins[i];
  }
  m->begins[m->words.count] = result->pairs = pairs;
  adj_status status = adji_run_check_pairs(run, pairs);
  if (!status) status = open_buffers(m, largest);
  if (status) return status;
  result->offsets = adji_alloc(&ctx->memory, m->rows + 1, sizeof *result->offsets, "row offsets");
  result->ids = adji_alloc(&ctx->memory, pairs, sizeof *result->ids, "result");
  if (!result->offsets || !result->ids) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < m->words.count; i++) /* also read by the lane that makes the stretch before it */
    if (rows_of(m, i)) result->offsets[i << m->words.shift] = m->begins[i];
  result->offsets[m->rows] = pairs;
  return ADJ_OK;
}

/* ---- 3. Rows -------------------------------------------------------------------------------------------- */

/* Adds the lengths of the rows in a lane's bins to `lengths`. */
static void add_lengths(const single_bins *m, uint32_t lane, uint64_t number, uint64_t *lengths) {
  const adji_bin *lists = &m->lists.lanes[lane].bins[number], *words = &m->words.lanes[lane].bins[number];
  const uint32_t mask = (1u << m->words.shift) - 1, id_bits = m->id_bits;
  for (const adji_chunk *c = lists->chunks; c; c = c->next)
    for (const uint32_t *at = c->words, *end = adji_bin_end(lists, c); at < end; at += HEADER + (uint64_t)at[1])
      lengths[at[0] & mask] += at[1];
  for (const adji_chunk *c = words->chunks; c; c = c->next)
    for (const uint32_t *at = c->words, *end = adji_bin_end(words, c); at < end; at++)
      lengths[(uint64_t)*at >> id_bits]++;
}

/* Puts the entries of a lane into the rows. next: the place of the next entry of each row. */
static void put_entries(const single_bins *m, uint32_t lane, uint64_t number, uint64_t *next, uint32_t *to) {
  const adji_bin *lists = &m->lists.lanes[lane].bins[number], *words = &m->words.lanes[lane].bins[number];
  const uint32_t mask = (1u << m->words.shift) - 1, id_bits = m->id_bits;
  const uint32_t id_mask = (uint32_t)((UINT64_C(1) << id_bits) - 1);
  for (const adji_chunk *c = lists->chunks; c; c = c->next)
    for (const uint32_t *at = c->words, *end = adji_bin_end(lists, c); at < end; at += HEADER + (uint64_t)at[1]) {
      memcpy(to + next[at[0] & mask], at + HEADER, at[1] * sizeof *at);
      next[at[0] & mask] += at[1];
    }
  for (const adji_chunk *c = words->chunks; c; c = c->next)
    for (const uint32_t *at = c->words, *end = adji_bin_end(words, c); at < end; at++)
      to[next[(uint64_t)*at >> id_bits]++] = *at & id_mask;
}

/* Turns the lengths into offsets, and into the beginnings of the rows within the stretch. */
static uint64_t add_up(const single_bins *m, uint64_t number, uint64_t *lengths) {
  uint64_t first = number << m->words.shift, rows = rows_of(m, number), at = 0;
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t length = lengths[i];
    if (i) m->result->offsets[first + i] = m->begins[number] + at;
    lengths[i] = at;
    at += length;
  }
  return m->begins[number] + at;
}

/* Sorts the last row first: sorting writes past the end of a row in the buffer, where only finished rows are. */
static void sort_rows(const single_bins *m, uint64_t number, bool buffered, uint32_t *buffer) {
  const adji_row_style *style = &m->join->style;
  const uint64_t *offsets = m->result->offsets + (number << m->words.shift);
  for (uint64_t i = rows_of(m, number); i--;) {
    uint32_t *to = m->result->ids + offsets[i], *row = buffer + (buffered ? offsets[i] - m->begins[number] : 0);
    uint64_t count = offsets[i + 1] - offsets[i];
    if (!buffered) memcpy(row, to, count * sizeof *row);
    style->kernels->place_ids(row, (uint32_t)count, ADJ_NO_ID, style->order == ADJ_ORDER_ID, to);
  }
}

static adj_status make_rows(void *user, uint64_t number, uint32_t lane) {
  const single_bins *m = user;
  uint64_t rows = rows_of(m, number), first = number << m->words.shift,
           entries = m->begins[number + 1] - m->begins[number];
  uint64_t *lengths = m->places + ((uint64_t)lane << m->words.shift);
  uint32_t *buffer = m->buffers + lane * m->room, *to = buffer;
  bool selves = !m->join->style.drop_self, buffered = entries <= MOST_BUFFERED;
  if (!buffered) to = m->result->ids + m->begins[number];
  for (uint64_t i = 0; i < rows; i++)
    lengths[i] = selves;
  for (uint32_t l = 0; l < m->join->ctx->threads; l++)
    add_lengths(m, l, number, lengths);
  if (add_up(m, number, lengths) != m->begins[number + 1])
    return adji_fail(ADJ_E_INTERNAL, "the lengths of rows do not add up");
  for (uint64_t i = 0; i < rows && selves; i++)
    to[lengths[i]++] = (uint32_t)(first + i);
  for (uint32_t l = 0; l < m->join->ctx->threads; l++)
    put_entries(m, l, number, lengths, to);
  sort_rows(m, number, buffered, buffer);
  return ADJ_OK;
}

adj_status adji_single_bins_gather(single_bins *m, adji_run *run) {
  uint64_t begin = adji_now_ns();
  run->progress_from = run->progress_to;
  adj_status status = make_room(m, run);
  if (!status) status = adji_loop(m->join->ctx, m->words.count, make_rows, m);
  adji_trace(m->join->ctx, "deal", 0, begin, m->rows);
  return status;
}

/* ---- The pass --------------------------------------------------------------------------------------------- */

adj_status adji_single_bins_begin(adji_walk *walk, adji_run *run, const adji_pass *pass, double pairs,
                                  adji_single_bins **out) {
  const adji_join *join = walk->join;
  single_bins *m = calloc(1, sizeof *m);
  if (!m) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  *m = (single_bins){.join = join, .result = pass->result, .rows = join->left->count};
  *out = m;
  m->id_bits = bits_of(m->rows);
  m->lists.ctx = m->words.ctx = join->ctx;
  m->lists.shift = m->words.shift = choose_shift(m->rows, pairs);
  m->lists.count = m->words.count = (m->rows >> m->words.shift) + 1;
  walk->counts = false;
  walk->forward = true;
  walk->visit = stage_group;
  walk->user = m;
  run->progress_to = 0.8;
  m->begins = adji_alloc(&join->ctx->memory, m->words.count + 1, sizeof *m->begins, "rows");
  adj_status status = m->begins ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_bins_open(&m->lists, 2 * pairs + 8 * (double)m->rows);
  return status ? status : adji_bins_open(&m->words, 2 * pairs);
}

void adji_single_bins_end(single_bins *m) {
  if (!m) return;
  adji_memory *memory = &m->join->ctx->memory;
  adji_bins_close(&m->lists);
  adji_bins_close(&m->words);
  adji_free(memory, m->begins);
  adji_free(memory, m->buffers);
  adji_free(memory, m->places);
  free(m);
}
