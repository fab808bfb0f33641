/* SPDX-License-Identifier: MIT
 *
 * Brute force with a filter. All queries of the piece pass by a tile of sketches; what passes is kept as
 * keys, the nearest sketches first, and not evaluated yet. The k-th smallest key bounds the k-th smallest
 * distance from above (index/sketch.h), and so the bound falls while no distance has been computed. In the
 * end the k candidates with the nearest sketches are evaluated, which gives a bound without the error of
 * the sketches, and then those of the rest that are within it: hardly more than k.
 *
 * Keys that find no room (a sketch may tell nothing where many points are as good as equal) are evaluated
 * early and forgotten: slower, never wrong.
 */
#include <math.h>
#include <string.h>

#include "cpu/brute_private.h"

static uint64_t padded_group(const brute *b) {
  return (b->group + ADJI_QUERY_MULTIPLE - 1) / ADJI_QUERY_MULTIPLE * ADJI_QUERY_MULTIPLE;
}

void adji_brute_prefilter_layout(const brute *b, brute_sift *sift, brute_room *room) {
  uint64_t group = padded_group(b);
  sift->scratch = brute_take(room, b->right.dim, sizeof *sift->scratch);
  sift->words = brute_take(room, group * b->sketch.groups, 4);
  sift->queries = brute_take(room, group, sizeof *sift->queries);
  sift->least = brute_take(room, group, sizeof *sift->least);
  sift->base = brute_take(room, group, sizeof *sift->base);
  sift->bound = brute_take(room, group, sizeof *sift->bound);
  sift->found = brute_take(room, group, sizeof *sift->found);
  sift->next = brute_take(room, group, sizeof *sift->next);
  sift->keys = brute_take(room, group, sizeof *sift->keys);
  char *keys = brute_take(room, adji_mul(b->group, b->keys_room), sizeof(uint64_t));
  for (uint64_t q = 0; keys && q < b->group; q++)
    sift->keys[q] = (uint64_t *)(void *)keys + q * b->keys_room;
}

/* Candidates that the k-th of is asked for: a query may meet itself among them. */
static uint64_t wanted(const brute *b) {
  return (uint64_t)b->k + b->join.style.drop_self;
}

/* Evaluates the candidates of keys [begin, end) for query number at of the piece. */
static void evaluate(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at, uint64_t begin,
                     uint64_t end) {
  const uint64_t *keys = lane->sift.keys[at];
  uint32_t own = b->join.style.drop_self ? (uint32_t)(piece->begin + at) : ADJ_NO_ID;
  while (begin < end) {
    uint32_t many = 0;
    for (; begin < end && many < BRUTE_LIST; begin++) {
      brute_list(b, lane, many, (uint32_t)keys[begin]);
      many += lane->list[many] != own;
    }
    adji_brute_add_list(b, lane, piece->begin + at, &lane->best[at], many);
  }
  double limit = lane->best[at].limit;
  if (limit < lane->sift.bound[at]) lane->sift.bound[at] = limit;
}

/* Keeps those of keys [begin, end) that are within the bound, and returns where they end. */
static uint64_t keep_within(const brute *b, brute_sift *sift, uint64_t at, uint64_t begin, uint64_t end) {
  uint64_t *keys = sift->keys[at], kept = begin;
  uint64_t last = (uint64_t)adji_sketch_most(&b->sketch, &sift->queries[at], sift->bound[at]) << 32 | UINT32_MAX;
  for (uint64_t i = begin; i < end; i++) {
    uint64_t key = keys[i];
    keys[kept] = key;
    kept += key <= last;
  }
  return kept;
}

/* Lets the bound of a query fall by what was found, and drops what is above it. */
static void tighten(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  brute_sift *sift = &lane->sift;
  uint64_t many = wanted(b);
  if (sift->found[at] >= many) {
    b->keys->select(sift->keys[at], sift->found[at], many);
    uint32_t value = (uint32_t)(sift->keys[at][many - 1] >> 32);
    double sum = adji_sketch_sum(&b->sketch, &sift->queries[at], value);
    if (sum < sift->bound[at]) sift->bound[at] = sum;
  }
  uint64_t found = keep_within(b, sift, at, 0, sift->found[at]);
  if (found > b->keys_room / 2) {
    evaluate(b, lane, piece, at, 0, found);
    found = 0;
  }
  uint64_t most = b->keys_room - b->tile - ADJI_PRODUCT_PAD, next = 2 * found + 64;
  sift->found[at] = (uint32_t)found;
  sift->next[at] = (uint32_t)(next < many ? many : next < most ? next : most);
  sift->least[at] = adji_sketch_least(&b->sketch, &sift->queries[at], sift->bound[at]);
}

/* Strays, which no product tells anything about. */
static void add_strays(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  const adji_sketch *sketch = &b->sketch;
  uint32_t own = b->join.style.drop_self ? (uint32_t)(piece->begin + at) : ADJ_NO_ID;
  for (uint32_t i = 0; i < sketch->stray_count;) {
    uint32_t many = 0;
    for (; i < sketch->stray_count && many < BRUTE_LIST; i++) {
      uint32_t row = sketch->strays[i];
      brute_list(b, lane, many, row);
      many += row != own && row >= piece->first && row < piece->last;
    }
    adji_brute_add_list(b, lane, piece->begin + at, &lane->best[at], many);
  }
}

static void begin_query(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  brute_sift *sift = &lane->sift;
  const void *row = adji_packed_row(b->queries, piece->begin + at);
  adji_sketch_query_init(&b->sketch, row, sift->scratch, sift->words + at * b->sketch.groups * 4, &sift->queries[at]);
  add_strays(b, lane, piece, at);
  sift->base[at] = sift->queries[at].base;
  sift->bound[at] = lane->best[at].limit;
  sift->found[at] = 0;
  tighten(b, lane, piece, at);
}

/* Evaluates what the products left. */
static void end_query(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  brute_sift *sift = &lane->sift;
  uint64_t many = wanted(b), found = sift->found[at];
  if (found > many) {
    b->keys->select(sift->keys[at], found, many);
    evaluate(b, lane, piece, at, 0, many);
    found = keep_within(b, sift, at, many, found);
  } else {
    many = 0;
  }
  evaluate(b, lane, piece, at, many, found);
}

/* Rows of queries that are not there pass nothing. */
static void begin_piece(const brute *b, brute_lane *lane, const brute_piece *piece) {
  brute_sift *sift = &lane->sift;
  uint64_t count = piece->end - piece->begin, padded = padded_group(b);
  for (uint64_t at = 0; at < count; at++)
    begin_query(b, lane, piece, at);
  for (uint64_t at = count; at < padded; at++) {
    memset(sift->words + at * b->sketch.groups * 4, 0, (size_t)b->sketch.groups * 4);
    sift->least[at] = b->sketch.product->codes ? (adji_value){.code = ADJI_LEAST_NONE} : (adji_value){.f32 = INFINITY};
  }
}

/* Tiles grow from a few points on: the first ones only give a bound. */
static uint64_t tile_size(const brute *b, uint64_t done, uint64_t left) {
  uint64_t size = done < ADJI_TILE_MULTIPLE ? ADJI_TILE_MULTIPLE : done;
  if (size > b->tile) size = b->tile;
  size = size / ADJI_TILE_MULTIPLE * ADJI_TILE_MULTIPLE;
  return size < left ? size : left;
}

adj_status adji_brute_prefilter(const brute *b, brute_lane *lane, const brute_piece *piece) {
  brute_sift *sift = &lane->sift;
  uint64_t count = piece->end - piece->begin, size;
  adji_product_task task = {.queries = sift->words, .query_count = (uint32_t)count, .groups = b->sketch.groups};
  task.query_stride = (uint64_t)b->sketch.groups * 4;
  task.least = sift->least;
  task.base = sift->base;
  task.keys = sift->keys;
  task.found = sift->found;
  begin_piece(b, lane, piece);
  adj_status status = ADJ_OK;
  for (uint64_t first = piece->first; first < piece->last; first += size) {
    status = adji_check_cancel(b->join.ctx);
    if (status) return status;
    size = tile_size(b, first - piece->first, piece->last - first);
    task.first = (uint32_t)first;
    task.count = (uint32_t)size;
    task.blocks = b->sketch.blocks + first * b->sketch.groups * 4;
    task.minus = b->sketch.minus + first;
    b->sketch.product->run(&task);
    for (uint64_t at = 0; at < count; at++)
      if (sift->found[at] >= sift->next[at]) tighten(b, lane, piece, at);
  }
  for (uint64_t at = 0; at < count && !status; at++) {
    end_query(b, lane, piece, at);
    if (at % 16 == 0) status = adji_check_cancel(b->join.ctx);
  }
  return status;
}
