/* SPDX-License-Identifier: MIT
 *
 * Brute force of a set with itself, in which one product of two sketches serves both points of a pair. This takes half
 * the products of a scan in which each point is a query by itself.
 * 1. Points are cut into blocks. Each block is scanned with itself (brute_prefilter.c), which gives its points their
 *    first bounds.
 * 2. A piece of work is a block with all later blocks, one after the other. A pair becomes a key of each of its points
 *    for which it is within the bound. Any lane may add to the keys of a block, under the block's lock.
 * 3. After the drain every point has the keys of all candidates that may belong, and these are evaluated as usual.
 *
 * Every point has a small, fixed room for keys. If a point has more candidates than that, sketches prove little about
 * it. It then stops collecting keys, and after the drain it is a query by itself. So are strays.
 */
#include <string.h>

#include "cpu/brute_private.h"

/* Each lane should have several pieces. Small blocks cost more loads per product, and give poor bounds. */
enum { BLOCKS_A_LANE = 8, SMALLEST_BLOCK = 128 };

/* Keys of a point: twice as many as are needed, and SPARE_KEYS more. Joins that need more than MOST_KEYS do not work in
 * pairs, since the keys of all points would take too much memory. */
enum { SPARE_KEYS = 48, MOST_KEYS = 512 };

static uint64_t bytes_of(const brute *b) {
  const brute_pairs *p = &b->pairs;
  uint64_t a_point = p->capacity * sizeof *p->keys + sizeof *p->found + sizeof *p->next + sizeof *p->reach +
                     sizeof *p->bound + sizeof *p->queries + sizeof *p->order;
  return adji_mul(b->queries->count, a_point) + p->block * p->block * sizeof *p->keys * b->join.ctx->threads;
}

uint32_t adji_brute_pairs_keys(const brute *b, uint32_t spare) {
  uint64_t needed = brute_wanted(b);
  if (b->batch || !b->prefiltered || !b->sketch.prefilter->run_pairs) return 0;
  if (b->passed > (double)needed) needed = b->passed < MOST_KEYS ? (uint64_t)b->passed : MOST_KEYS;
  uint64_t keys = 2 * needed + spare;
  return keys <= MOST_KEYS ? (uint32_t)keys : 0;
}

bool adji_brute_pairs_choose(brute *b) {
  brute_pairs *p = &b->pairs;
  uint64_t blocks_wanted = (uint64_t)BLOCKS_A_LANE * b->join.ctx->threads;
  p->capacity = b->join.self_join ? adji_brute_pairs_keys(b, SPARE_KEYS) : 0;
  if (!p->capacity) return false;
  p->block = b->tile < b->group ? b->tile : b->group;
  while (p->block > SMALLEST_BLOCK && b->right.count / p->block < blocks_wanted)
    p->block /= 2;
  p->block = p->block / ADJI_TILE_MULTIPLE * ADJI_TILE_MULTIPLE;
  if (p->block < SMALLEST_BLOCK || b->right.count / p->block < blocks_wanted) return false;
  p->blocks = (b->right.count + p->block - 1) / p->block;
  return adji_fits(&b->join.ctx->memory, adji_mul(4, bytes_of(b)));
}

void adji_brute_pairs_layout(const brute *b, brute_lane *lane, brute_arena *arena) {
  uint64_t block = b->pairs.block;
  lane->pairs = brute_alloc(arena, block * block + ADJI_SKETCH_PAD, sizeof *lane->pairs);
  lane->half = brute_alloc(arena, block, sizeof *lane->half);
  lane->reach = brute_alloc(arena, block, sizeof *lane->reach);
  lane->candidate_reach = brute_alloc(arena, block, sizeof *lane->candidate_reach);
}

brute_piece adji_brute_pairs_points(const brute *b, uint64_t number) {
  uint64_t begin = b->pairs.first + number * b->pairs.block, end = begin + b->pairs.block;
  if (end > b->queries->count) end = b->queries->count;
  return (brute_piece){.begin = begin, .end = end, .first = begin, .last = end};
}

/* ---- Keys of a point ------------------------------------------------------------------------- */

int32_t adji_brute_pairs_reach(const brute *b, const adji_sketch_query *query, double bound) {
  uint32_t most = adji_sketch_most(&b->sketch, query, bound);
  return (int32_t)(most / 2 + 1 < ADJI_REACH_ALL ? most / 2 + 1 : ADJI_REACH_ALL);
}

void adji_brute_pairs_tighten(const brute *b, uint64_t point) {
  const brute_pairs *p = &b->pairs;
  uint64_t *keys = p->keys + point * p->capacity, wanted = brute_wanted(b);
  uint32_t found = p->found[point], kept = 0;
  if (found >= wanted) {
    b->keys->select(keys, found, wanted);
    double sum = adji_sketch_sum(&b->sketch, &p->queries[point], (uint32_t)(keys[wanted - 1] >> 32));
    if (sum < p->bound[point]) p->bound[point] = sum;
  }
  int32_t reach = p->reach[point] = adji_brute_pairs_reach(b, &p->queries[point], p->bound[point]);
  for (uint32_t i = 0; i < found; i++) {
    uint64_t key = keys[i];
    keys[kept] = key;
    kept += (int32_t)(key >> 33) <= reach;
  }
  uint32_t next = kept + (kept > SPARE_KEYS / 2 ? kept : SPARE_KEYS / 2);
  if (kept + SPARE_KEYS / 4 > p->capacity) p->reach[point] = ADJI_REACH_NONE;
  p->found[point] = kept;
  p->next[point] = next < p->capacity ? next : p->capacity;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static bool is_stray(const brute *b, uint64_t point) {
  return b->sketch.minus[point].code == ADJI_ABSENT;
}

/* Copies what the scan of a block with itself found about a point. */
static void keep_first(const brute *b, const brute_prefilter *from, uint64_t at, uint64_t point) {
  const brute_pairs *p = &b->pairs;
  bool fits = from->found[at] <= p->capacity;
  p->queries[point] = from->queries[at];
  p->bound[point] = from->bound[at];
  p->found[point] = fits ? from->found[at] : 0;
  memcpy(p->keys + point * p->capacity, from->keys[at], p->found[point] * sizeof *p->keys);
  adji_brute_pairs_tighten(b, point);
  if (!fits || is_stray(b, point)) p->reach[point] = ADJI_REACH_NONE;
}

static adj_status scan_block(void *user, uint64_t number, uint32_t lane_number) {
  brute *b = user;
  brute_lane *lane = &b->lanes[lane_number];
  brute_piece piece = adji_brute_pairs_points(b, number);
  for (uint64_t at = 0; at < piece.end - piece.begin; at++)
    adji_kbest_reset(&lane->best[at], adji_join_limit(&b->join, piece.begin + at));
  adj_status status = adji_brute_scan(b, lane, &piece);
  for (uint64_t at = 0; at < piece.end - piece.begin && !status; at++) {
    adji_brute_tighten(b, lane, &piece, at);
    keep_first(b, &lane->prefilter, at, piece.begin + at);
  }
  return status;
}

/* Makes the points of a block the queries of the kernel. Nothing passes for padding and for strays. */
static void begin_block(const brute *b, brute_lane *lane, const brute_piece *piece) {
  brute_prefilter *prefilter = &lane->prefilter;
  for (uint64_t at = 0; at < b->pairs.block; at++) {
    uint64_t point = piece->begin + at;
    char *words = prefilter->words + at * b->sketch.groups * 4;
    adji_sketch_query query = {0};
    if (point < piece->end)
      adji_sketch_query_init(&b->sketch, adji_packed_row(&b->right, point), prefilter->scratch, words, &query);
    prefilter->base[at] = query.base;
    lane->half[at] = point < piece->end && !is_stray(b, point) ? query.base.code >> 1 : ADJI_HALF_NONE;
    lane->reach[at] = lane->candidate_reach[at] = ADJI_REACH_NONE;
  }
}

void adji_brute_pairs_copy_reaches(const brute *b, uint64_t number, int32_t *to) {
  brute_piece piece = adji_brute_pairs_points(b, number);
  pthread_mutex_lock(&b->pairs.locks[number]);
  memcpy(to, b->pairs.reach + piece.begin, (piece.end - piece.begin) * sizeof *to);
  pthread_mutex_unlock(&b->pairs.locks[number]);
}

static void add_pairs(const brute *b, const brute_lane *lane, uint64_t count, uint64_t left, uint64_t right) {
  uint64_t rows = left * b->pairs.block, columns = right * b->pairs.block;
  pthread_mutex_lock(&b->pairs.locks[left]);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t pair = lane->pairs[i];
    brute_pairs_add(b, rows + (pair >> 16 & 0xffff), pair >> 32, columns + (pair & 0xffff));
  }
  pthread_mutex_unlock(&b->pairs.locks[left]);
  pthread_mutex_lock(&b->pairs.locks[right]);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t pair = lane->pairs[i];
    brute_pairs_add(b, columns + (pair & 0xffff), pair >> 32, rows + (pair >> 16 & 0xffff));
  }
  pthread_mutex_unlock(&b->pairs.locks[right]);
}

adj_status adji_brute_pairs_block(brute *b, brute_lane *lane, uint64_t number) {
  brute_piece left = adji_brute_pairs_points(b, number);
  adji_sketch_pairs_task task = {
      .half = lane->half, .query_reach = lane->reach, .candidate_reach = lane->candidate_reach, .pairs = lane->pairs};
  task.tile.queries = lane->prefilter.words;
  task.tile.query_stride = (uint64_t)b->sketch.groups * 4;
  task.tile.query_count = (uint32_t)(left.end - left.begin);
  task.tile.groups = b->sketch.groups;
  task.tile.base = lane->prefilter.base;
  begin_block(b, lane, &left);
  for (uint64_t other = number + 1; other < b->pairs.blocks; other++) {
    adj_status status = adji_check_cancel(b->join.ctx);
    if (status) return status;
    brute_piece right = adji_brute_pairs_points(b, other);
    adji_brute_pairs_copy_reaches(b, number, lane->reach);
    adji_brute_pairs_copy_reaches(b, other, lane->candidate_reach);
    task.tile.count = (uint32_t)(right.end - right.begin);
    task.tile.blocks = b->sketch.blocks + right.begin * b->sketch.groups * 4;
    task.tile.minus = b->sketch.minus + right.begin;
    add_pairs(b, lane, b->sketch.prefilter->run_pairs(&task), number, other);
  }
  return ADJ_OK;
}

/* ---- Before and after the drain -------------------------------------------------------------- */

adj_status adji_brute_pairs_open(brute *b) {
  brute_pairs *p = &b->pairs;
  adji_memory *memory = &b->join.ctx->memory;
  const char *what = "candidates of points";
  uint64_t count = b->queries->count;
  p->locks = adji_alloc(memory, p->blocks, sizeof(pthread_mutex_t), what);
  if (!p->locks) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < p->blocks; i++)
    pthread_mutex_init(&p->locks[i], NULL);
  p->keys = adji_alloc(memory, adji_mul(count, p->capacity), sizeof *p->keys, what);
  p->found = adji_alloc(memory, count, sizeof *p->found, what);
  p->next = adji_alloc(memory, count, sizeof *p->next, what);
  p->reach = adji_alloc(memory, count, sizeof *p->reach, what);
  p->bound = adji_alloc(memory, count, sizeof *p->bound, what);
  p->queries = adji_alloc(memory, count, sizeof *p->queries, what);
  p->order = adji_alloc(memory, count, sizeof *p->order, what);
  bool allocated = p->keys && p->found && p->next && p->reach && p->bound && p->queries && p->order;
  return allocated ? ADJ_OK : ADJ_E_MEMORY;
}

adj_status adji_brute_pairs_begin(brute *b) {
  adj_status status = adji_brute_pairs_open(b);
  return status ? status : adji_loop(b->join.ctx, b->pairs.blocks, scan_block, b);
}

void adji_brute_pairs_order(brute *b) {
  brute_pairs *p = &b->pairs;
  uint64_t last = b->queries->count - p->first;
  p->answered = 0;
  for (uint64_t point = p->first; point < b->queries->count; point++)
    p->order[p->reach[point] == ADJI_REACH_NONE ? --last : p->answered++] = (uint32_t)point;
}

void adji_brute_pairs_take(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  const brute_pairs *p = &b->pairs;
  brute_prefilter *prefilter = &lane->prefilter;
  uint64_t point = brute_query(piece, at);
  if (at + 1 < piece->end - piece->begin) {
    uint64_t next = brute_query(piece, at + 1);
    brute_fetch(b, p->keys + next * p->capacity, p->found[next]);
  }
  adji_brute_add_strays(b, lane, piece, at);
  prefilter->queries[at] = p->queries[point];
  prefilter->bound[at] = p->bound[point] < lane->best[at].limit ? p->bound[point] : lane->best[at].limit;
  prefilter->found[at] = p->found[point];
  memcpy(prefilter->keys[at], p->keys + point * p->capacity, p->found[point] * sizeof *p->keys);
  adji_brute_evaluate(b, lane, piece, at);
}

void adji_brute_pairs_end(brute *b) {
  brute_pairs *p = &b->pairs;
  adji_memory *memory = &b->join.ctx->memory;
  for (uint64_t i = 0; p->locks && i < p->blocks; i++)
    pthread_mutex_destroy(&p->locks[i]);
  adji_free(memory, p->locks);
  adji_free(memory, p->keys);
  adji_free(memory, p->found);
  adji_free(memory, p->next);
  adji_free(memory, p->reach);
  adji_free(memory, p->bound);
  adji_free(memory, p->queries);
  adji_free(memory, p->order);
  *p = (brute_pairs){0};
}
