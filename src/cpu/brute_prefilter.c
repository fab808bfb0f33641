/* SPDX-License-Identifier: MIT
 *
 * Brute force with a prefilter.
 * 1. All queries of the piece are compared with one tile of sketches after the other. Pairs that pass are kept as keys
 *    and not evaluated yet.
 * 2. The k-th smallest key bounds the k-th smallest distance from above (index/sketch.h). So the bound falls before any
 *    distance is computed.
 * 3. At the end the k candidates with the nearest sketches are evaluated. This gives a bound without the error of the
 *    sketches.
 * 4. The other candidates within this bound are evaluated: hardly more than k.
 *
 * Where many points are nearly equal, sketches prove little and keys may run out of room. The candidates are then
 * evaluated early and their keys forgotten: slower, never wrong.
 */
#include <math.h>
#include <string.h>

#include "cpu/brute_private.h"

static uint64_t padded_group(const brute *b) {
  return (b->group + ADJI_QUERY_MULTIPLE - 1) / ADJI_QUERY_MULTIPLE * ADJI_QUERY_MULTIPLE;
}

void adji_brute_prefilter_layout(const brute *b, brute_prefilter *prefilter, brute_arena *arena) {
  uint64_t group = padded_group(b);
  prefilter->scratch = brute_alloc(arena, b->right.dim, sizeof *prefilter->scratch);
  prefilter->words = brute_alloc(arena, group * b->sketch.groups, 4);
  prefilter->queries = brute_alloc(arena, group, sizeof *prefilter->queries);
  prefilter->least = brute_alloc(arena, group, sizeof *prefilter->least);
  prefilter->base = brute_alloc(arena, group, sizeof *prefilter->base);
  prefilter->bound = brute_alloc(arena, group, sizeof *prefilter->bound);
  prefilter->found = brute_alloc(arena, group, sizeof *prefilter->found);
  prefilter->next = brute_alloc(arena, group, sizeof *prefilter->next);
  prefilter->keys = brute_alloc(arena, group, sizeof *prefilter->keys);
  char *keys = brute_alloc(arena, adji_mul(b->group, b->keys_capacity), sizeof(uint64_t));
  for (uint64_t q = 0; keys && q < b->group; q++)
    prefilter->keys[q] = (uint64_t *)(void *)keys + q * b->keys_capacity;
}

/* Evaluates the candidates of keys [begin, end) for query number `at` of the piece. */
static void evaluate(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at, uint64_t begin,
                     uint64_t end) {
  const uint64_t *keys = lane->prefilter.keys[at];
  uint32_t own = b->join.style.drop_self ? (uint32_t)brute_query(piece, at) : ADJ_NO_ID;
  while (begin < end) {
    uint32_t many = 0;
    for (; begin < end && many < BRUTE_LIST; begin++) {
      brute_list(b, lane, many, (uint32_t)keys[begin]);
      many += lane->list[many] != own;
    }
    adji_brute_add_list(b, lane, brute_query(piece, at), &lane->best[at], many);
  }
  double limit = lane->best[at].limit;
  if (limit < lane->prefilter.bound[at]) lane->prefilter.bound[at] = limit;
}

/* Keeps the keys of [begin, end) that are within the bound, and returns their new end. */
static uint64_t keep_within(const brute *b, brute_prefilter *prefilter, uint64_t at, uint64_t begin, uint64_t end) {
  uint64_t *keys = prefilter->keys[at], kept = begin;
  uint64_t last =
      (uint64_t)adji_sketch_most(&b->sketch, &prefilter->queries[at], prefilter->bound[at]) << 32 | UINT32_MAX;
  for (uint64_t i = begin; i < end; i++) {
    uint64_t key = keys[i];
    keys[kept] = key;
    kept += key <= last;
  }
  return kept;
}

/* Lowers the bound of a query by the keys it has, and drops the keys above it. */
void adji_brute_tighten(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  brute_prefilter *prefilter = &lane->prefilter;
  uint64_t many = brute_wanted(b);
  if (prefilter->found[at] >= many) {
    b->keys->select(prefilter->keys[at], prefilter->found[at], many);
    uint32_t value = (uint32_t)(prefilter->keys[at][many - 1] >> 32);
    double sum = adji_sketch_sum(&b->sketch, &prefilter->queries[at], value);
    if (sum < prefilter->bound[at]) prefilter->bound[at] = sum;
  }
  uint64_t found = keep_within(b, prefilter, at, 0, prefilter->found[at]);
  if (found > b->keys_capacity / 2) {
    evaluate(b, lane, piece, at, 0, found);
    found = 0;
  }
  uint64_t most = b->keys_capacity - b->tile - ADJI_SKETCH_PAD, next = 2 * found + 64;
  prefilter->found[at] = (uint32_t)found;
  prefilter->next[at] = (uint32_t)(next < many ? many : next < most ? next : most);
  prefilter->least[at] = adji_sketch_least(&b->sketch, &prefilter->queries[at], prefilter->bound[at]);
}

/* Strays: points about which sketches prove nothing. */
void adji_brute_add_strays(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  const adji_sketch *sketch = &b->sketch;
  uint32_t own = b->join.style.drop_self ? (uint32_t)brute_query(piece, at) : ADJ_NO_ID;
  for (uint32_t i = 0; i < sketch->stray_count;) {
    uint32_t many = 0;
    for (; i < sketch->stray_count && many < BRUTE_LIST; i++) {
      uint32_t row = sketch->strays[i];
      brute_list(b, lane, many, row);
      many += row != own && row >= piece->first && row < piece->last;
    }
    adji_brute_add_list(b, lane, brute_query(piece, at), &lane->best[at], many);
  }
}

/* The left points of a mutual join have sketches already. */
static void make_sketch(const brute *b, const brute_prefilter *prefilter, uint64_t query, uint64_t at) {
  const adji_sketch *left = b->mutual ? &b->mutual->back.sketch : NULL;
  char *words = prefilter->words + at * b->sketch.groups * 4;
  if (left && left->minus[query].code != ADJI_ABSENT)
    adji_sketch_query_like(&b->sketch, left, query, words, &prefilter->queries[at]);
  else
    adji_sketch_query_init(&b->sketch, adji_packed_row(b->queries, query), prefilter->scratch, words,
                           &prefilter->queries[at]);
}

static void begin_query(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  brute_prefilter *prefilter = &lane->prefilter;
  make_sketch(b, prefilter, brute_query(piece, at), at);
  adji_brute_add_strays(b, lane, piece, at);
  prefilter->base[at] = prefilter->queries[at].base;
  prefilter->bound[at] = lane->best[at].limit;
  prefilter->found[at] = 0;
  adji_brute_tighten(b, lane, piece, at);
}

/* Evaluates the candidates that passed the prefilter. Up to FEW of them are evaluated at once, as the kernel takes as
 * many in the time of one. */
void adji_brute_evaluate(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  enum { FEW = 16 };
  brute_prefilter *prefilter = &lane->prefilter;
  uint64_t many = brute_wanted(b), found = prefilter->found[at];
  if (found > many && found > FEW) {
    b->keys->select(prefilter->keys[at], found, many);
    evaluate(b, lane, piece, at, 0, many);
    found = keep_within(b, prefilter, at, many, found);
  } else {
    many = 0;
  }
  evaluate(b, lane, piece, at, many, found);
}

/* Nothing passes for padding queries. */
void adji_brute_begin_piece(const brute *b, brute_lane *lane, const brute_piece *piece) {
  brute_prefilter *prefilter = &lane->prefilter;
  uint64_t count = piece->end - piece->begin, padded = padded_group(b);
  for (uint64_t at = 0; at < count; at++)
    begin_query(b, lane, piece, at);
  for (uint64_t at = count; at < padded; at++) {
    memset(prefilter->words + at * b->sketch.groups * 4, 0, (size_t)b->sketch.groups * 4);
    prefilter->least[at] =
        b->sketch.prefilter->codes ? (adji_value){.code = ADJI_LEAST_NONE} : (adji_value){.f32 = INFINITY};
  }
}

/* Tiles start small and grow: the first ones only provide a bound. */
static uint64_t tile_size(const brute *b, uint64_t done, uint64_t remaining) {
  uint64_t size = done < ADJI_TILE_MULTIPLE ? ADJI_TILE_MULTIPLE : done;
  if (size > b->tile) size = b->tile;
  size = size / ADJI_TILE_MULTIPLE * ADJI_TILE_MULTIPLE;
  return size < remaining ? size : remaining;
}

adj_status adji_brute_scan(const brute *b, brute_lane *lane, const brute_piece *piece) {
  brute_prefilter *prefilter = &lane->prefilter;
  uint64_t count = piece->end - piece->begin, size;
  adji_prefilter_sketch_task task = {
      .queries = prefilter->words, .query_count = (uint32_t)count, .groups = b->sketch.groups};
  task.query_stride = (uint64_t)b->sketch.groups * 4;
  task.least = prefilter->least;
  task.base = prefilter->base;
  task.keys = prefilter->keys;
  task.found = prefilter->found;
  adji_brute_begin_piece(b, lane, piece);
  for (uint64_t first = piece->first; first < piece->last; first += size) {
    adj_status status = adji_check_cancel(b->join.ctx);
    if (status) return status;
    size = tile_size(b, first - piece->first, piece->last - first);
    task.first = (uint32_t)first;
    task.count = (uint32_t)size;
    task.blocks = b->sketch.blocks + first * b->sketch.groups * 4;
    task.minus = b->sketch.minus + first;
    b->sketch.prefilter->run(&task);
    for (uint64_t at = 0; at < count; at++)
      if (prefilter->found[at] >= prefilter->next[at]) adji_brute_tighten(b, lane, piece, at);
  }
  return ADJ_OK;
}

adj_status adji_brute_prefilter(const brute *b, brute_lane *lane, const brute_piece *piece) {
  const brute_prefilter *prefilter = &lane->prefilter;
  adj_status status = adji_brute_scan(b, lane, piece);
  for (uint64_t at = 0; at < piece->end - piece->begin && !status; at++) {
    if (at + 1 < piece->end - piece->begin) brute_fetch(b, prefilter->keys[at + 1], prefilter->found[at + 1]);
    adji_brute_evaluate(b, lane, piece, at);
    if (at % 16 == 0) status = adji_check_cancel(b->join.ctx);
  }
  return status;
}
