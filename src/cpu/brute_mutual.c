/* SPDX-License-Identifier: MIT
 *
 * Brute force of two sets, in which one product of two sketches serves both points of a pair: a mutual join. Its rows
 * are those of the left points, as usual, and those of the right points with the left ones as their candidates. Joins
 * of two blocks of points of one set, on several machines, need both (mpi/run_ring.c).
 * 1. The left points get sketches in the scale of the right ones. The right points take their first bounds from the
 *    caller's limits.
 * 2. A piece of work is a block of left points with all blocks of right points. A pair becomes a key of each of its
 *    points for which it is within the bound. The keys of a left point belong to the lane, as in brute_prefilter.c, and
 *    its row is complete at the end of the piece. The keys of right points are shared, under the lock of their block.
 * 3. After the drain the candidates of right points are evaluated, as in brute_pairs.c. Strays, and points with more
 *    candidates than there is room for, are scanned as queries by themselves.
 *
 * A left stray is compared with all right points by the canonical kernel. With many of these, sketches in the scale of
 * the right points do not suit the left ones, and no mutual join is made.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/brute_private.h"

/* Small blocks cost more loads per product, and large ones more memory for keys. The lanes of a pass should have
 * several pieces each. Bounds are close from the beginning, so that right points need room for few keys: SPARE_KEYS
 * more than twice as many as are wanted. LEFT_STRAYS: there is at most one among so many left points. */
enum { PIECES_A_LANE = 4, LEAST_BLOCK = 128, MOST_BLOCK = 256, SPARE_KEYS = 24, LEFT_STRAYS = 64 };

/* ---- Opening and ending ---------------------------------------------------------------------- */

bool adji_brute_mutual_fits(const brute *b) {
  return !b->join.self_join && b->k == b->join.k && adji_brute_pairs_keys(b, SPARE_KEYS);
}

/* Sets the size of blocks and the keys per point. Returns whether the pass can be a mutual join. */
static bool choose(brute *b) {
  const adji_window *window = b->window;
  uint64_t left = b->queries->count, wanted = (uint64_t)PIECES_A_LANE * b->join.ctx->threads;
  bool all = !window->first_row && window->end_row == left;
  if (!all || !adji_brute_mutual_fits(b)) return false;
  b->pairs.capacity = adji_brute_pairs_keys(b, SPARE_KEYS);
  if (b->group > MOST_BLOCK) b->group = MOST_BLOCK;
  uint64_t block = b->tile < b->group ? b->tile : b->group;
  while (block > LEAST_BLOCK && left / block < wanted)
    block /= 2;
  b->pairs.block = block / ADJI_TILE_MULTIPLE * ADJI_TILE_MULTIPLE;
  uint64_t bytes = adji_mul(b->right.count, b->pairs.capacity * sizeof(uint64_t)) + adji_mul(left, b->right.dim);
  return b->pairs.block && adji_fits(&b->join.ctx->memory, adji_mul(2, bytes));
}

/* The join the other way round: the right points are queries of the left ones. */
static void turn(const brute *b, brute_mutual *m) {
  const adji_mutual *asked = b->window->mutual;
  brute *back = &m->back;
  back->join = b->join;
  back->join.left = b->join.right;
  back->join.right = b->join.left;
  back->join.limits = asked->limits;
  back->queries = &b->right;
  back->right = b->left;
  back->keys = b->keys;
  back->k = b->k;
  back->prefiltered = true;
  back->group = b->group;
  back->tile = b->tile;
  back->keys_capacity = b->keys_capacity;
  back->segments = 1;
  back->pairs.first = asked->first;
  back->pairs.block = b->pairs.block;
  back->pairs.blocks = (b->right.count - asked->first + b->pairs.block - 1) / b->pairs.block;
  back->pairs.capacity = b->pairs.capacity;
  m->rows = (adji_window){.end_row = b->right.count, .ids = asked->ids, .distances = asked->distances, .k = b->join.k};
  back->window = &m->rows;
}

adj_status adji_brute_mutual_open(brute *b) {
  if (!choose(b)) return ADJ_OK;
  brute_mutual *m = calloc(1, sizeof *m);
  if (!m) return adji_fail(ADJ_E_MEMORY, "no memory for brute force");
  b->mutual = m;
  turn(b, m);
  adj_status status = adji_sketch_init_like(b->join.ctx, &b->left, &b->sketch, &m->back.sketch);
  if (!status && m->back.sketch.stray_count > b->left.count / LEFT_STRAYS + 1) adji_brute_mutual_end(b);
  return status;
}

void adji_brute_mutual_end(brute *b) {
  if (!b->mutual) return;
  adji_brute_pairs_end(&b->mutual->back);
  adji_sketch_clear(&b->mutual->back.sketch);
  free(b->mutual);
  b->mutual = NULL;
}

static bool is_stray(const adji_sketch *sketch, uint64_t point) {
  return sketch->minus[point].code == ADJI_ABSENT;
}

/* Right points that are strays collect no keys. */
static adj_status begin_right(void *user, uint64_t number, uint32_t lane_number) {
  (void)lane_number;
  const brute *b = user, *back = &b->mutual->back;
  const brute_pairs *p = &back->pairs;
  brute_piece piece = adji_brute_pairs_points(back, number);
  for (uint64_t point = piece.begin; point < piece.end; point++) {
    p->found[point] = 0;
    p->reach[point] = ADJI_REACH_NONE;
    if (is_stray(&b->sketch, point)) continue;
    adji_sketch_query_like(&back->sketch, &b->sketch, point, NULL, &p->queries[point]);
    p->bound[point] = adji_join_limit(&back->join, point);
    adji_brute_pairs_tighten(back, point);
  }
  return ADJ_OK;
}

adj_status adji_brute_mutual_begin(brute *b) {
  brute *back = &b->mutual->back;
  back->lanes = b->lanes;
  for (uint64_t row = 0; row < back->pairs.first; row++)
    adji_row_place_padded(back->window, &back->join.style, row, b->lanes[0].ids, b->lanes[0].row_sums, 0);
  adj_status status = adji_brute_pairs_open(back);
  return status ? status : adji_loop(b->join.ctx, back->pairs.blocks, begin_right, b);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

brute_piece adji_brute_mutual_piece(const brute *b, uint64_t number) {
  brute_piece piece = adji_brute_pairs_points(b, number);
  piece.first = b->mutual->back.pairs.first;
  piece.last = b->right.count;
  return piece;
}

static int32_t reach_of(const brute *b, const brute_lane *lane, uint64_t at) {
  return adji_brute_pairs_reach(b, &lane->prefilter.queries[at], lane->prefilter.bound[at]);
}

/* Makes the left points the queries of the kernel. Nothing passes for padding and for strays. */
static void begin_left(const brute *b, brute_lane *lane, const brute_piece *piece) {
  adji_brute_begin_piece(b, lane, piece);
  for (uint64_t at = 0; at < b->pairs.block; at++) {
    uint64_t point = piece->begin + at;
    bool takes_part = point < piece->end && !is_stray(&b->mutual->back.sketch, point);
    lane->half[at] = takes_part ? lane->prefilter.base[at].code >> 1 : ADJI_HALF_NONE;
    lane->reach[at] = takes_part ? reach_of(b, lane, at) : ADJI_REACH_NONE;
    lane->candidate_reach[at] = ADJI_REACH_NONE;
  }
}

static void add_left(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t count, uint64_t column) {
  brute_prefilter *prefilter = &lane->prefilter;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t pair = lane->pairs[i], value = pair >> 32, at = pair >> 16 & 0xffff;
    if ((int32_t)(value >> 1) > lane->reach[at]) continue;
    prefilter->keys[at][prefilter->found[at]++] = value << 32 | (column + (pair & 0xffff));
    if (prefilter->found[at] < prefilter->next[at]) continue;
    adji_brute_tighten(b, lane, piece, at);
    lane->reach[at] = reach_of(b, lane, at);
  }
}

static void add_right(const brute *back, const brute_lane *lane, uint64_t count, uint64_t row, uint64_t number) {
  uint64_t column = adji_brute_pairs_points(back, number).begin;
  pthread_mutex_lock(&back->pairs.locks[number]);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t pair = lane->pairs[i];
    brute_pairs_add(back, column + (pair & 0xffff), pair >> 32, row + (pair >> 16 & 0xffff));
  }
  pthread_mutex_unlock(&back->pairs.locks[number]);
}

/* Compares a left stray with all right points that take part. */
static void scan_stray(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at) {
  uint64_t query = brute_query(piece, at);
  adji_kbest_reset(&lane->best[at], adji_join_limit(&b->join, query));
  for (uint64_t row = piece->first; row < piece->last;) {
    uint32_t many = 0;
    for (; row < piece->last && many < BRUTE_LIST; row++)
      brute_list(b, lane, many++, (uint32_t)row);
    adji_brute_add_list(b, lane, query, &lane->best[at], many);
  }
}

static adj_status evaluate_left(const brute *b, brute_lane *lane, const brute_piece *piece) {
  const brute_prefilter *prefilter = &lane->prefilter;
  adj_status status = ADJ_OK;
  for (uint64_t at = 0; at < piece->end - piece->begin && !status; at++) {
    if (at + 1 < piece->end - piece->begin) brute_fetch(b, prefilter->keys[at + 1], prefilter->found[at + 1]);
    if (is_stray(&b->mutual->back.sketch, piece->begin + at))
      scan_stray(b, lane, piece, at);
    else
      adji_brute_evaluate(b, lane, piece, at);
    if (at % 16 == 0) status = adji_check_cancel(b->join.ctx);
  }
  return status;
}

/* Lanes begin with different blocks, so that they rarely wait for a lock. */
adj_status adji_brute_mutual_block(brute *b, brute_lane *lane, const brute_piece *piece, uint64_t number) {
  const brute *back = &b->mutual->back;
  uint64_t blocks = back->pairs.blocks;
  adji_sketch_pairs_task task = {
      .half = lane->half, .query_reach = lane->reach, .candidate_reach = lane->candidate_reach, .pairs = lane->pairs};
  task.tile.queries = lane->prefilter.words;
  task.tile.query_stride = (uint64_t)b->sketch.groups * 4;
  task.tile.query_count = (uint32_t)(piece->end - piece->begin);
  task.tile.groups = b->sketch.groups;
  task.tile.base = lane->prefilter.base;
  begin_left(b, lane, piece);
  for (uint64_t i = 0; i < blocks; i++) {
    adj_status status = adji_check_cancel(b->join.ctx);
    if (status) return status;
    uint64_t other = (number + i) % blocks;
    brute_piece right = adji_brute_pairs_points(back, other);
    adji_brute_pairs_copy_reaches(back, other, lane->candidate_reach);
    task.tile.count = (uint32_t)(right.end - right.begin);
    task.tile.blocks = b->sketch.blocks + right.begin * b->sketch.groups * 4;
    task.tile.minus = b->sketch.minus + right.begin;
    uint64_t count = b->sketch.prefilter->run_pairs(&task);
    add_right(back, lane, count, piece->begin, other);
    add_left(b, lane, piece, count, right.begin);
  }
  return evaluate_left(b, lane, piece);
}
