/* SPDX-License-Identifier: MIT
 *
 * The engine of brute force: cuts the work into pieces, and turns the k best into rows.
 *
 * A piece is a group of queries with all right points. In a self-join with a prefilter of codes, a piece is a block of
 * points with itself and all later blocks (brute_pairs.c). A mutual join finds the neighbours of right points as well
 * (brute_mutual.c). If there are too few queries to keep all lanes busy, the right points are cut into segments, and a
 * piece is a group with one segment. The best neighbours of the segments are merged at the end.
 */
#include "cpu/brute.h"

#include <stdlib.h>

#include "cpu/brute_private.h"

/* Queries per group: enough that a tile of right points, once loaded, serves many queries. FEWEST_POINTS: the fewest
 * right points per segment, about. */
enum { MOST_QUERIES = 512, FEWEST_QUERIES = 32, FEWEST_POINTS = 8192 };

void adji_brute_add_list(const brute *b, brute_lane *lane, uint64_t query, adji_kbest *best, uint32_t count) {
  adji_rows_task task = {.query = adji_packed_row(b->queries, query),
                         .rows = b->right.rows,
                         .stride = b->right.stride,
                         .dim = b->right.dim,
                         .count = count,
                         .list = lane->list,
                         .limit = best->limit};
  b->join.style.kernels->typed[b->right.type == ADJ_F64]->rows(&task, lane->sums);
  adji_kbest_add(best, lane->list, lane->sums, count);
  lane->evaluated += count;
}

/* ---- Rows of the result ---------------------------------------------------------------------- */

static void finish_piece(brute *b, brute_lane *lane, const brute_piece *piece, adji_tally *tally) {
  size_t size = adji_type_size(b->join.style.type);
  for (uint64_t at = 0; at < piece->end - piece->begin; at++) {
    uint64_t q = brute_query(piece, at);
    adji_kbest *best = &lane->best[at];
    if (b->segments == 1) {
      uint64_t many = adji_kbest_finish(best, true, lane->ids, lane->row_sums);
      adji_row_place_padded(b->window, &b->join.style, q, lane->ids, lane->row_sums, (uint32_t)many);
      tally->pairs += many;
    } else {
      uint64_t part = (q - b->window->first_row) * b->segments + piece->segment, to = part * b->k;
      b->part_counts[part] =
          (uint32_t)adji_kbest_finish(best, false, b->part_ids + to, (char *)b->part_sums + to * size);
    }
  }
  tally->candidates += (piece->end - piece->begin) * (piece->last - piece->first);
}

static void begin_best(const brute *b, brute_lane *lane, const brute_piece *piece) {
  for (uint64_t at = 0; at < piece->end - piece->begin; at++)
    adji_kbest_reset(&lane->best[at], adji_join_limit(&b->join, brute_query(piece, at)));
}

static adj_status run_piece(void *user, const adji_batch *batch, uint32_t lane_number, adji_tally *tally) {
  brute *b = user;
  brute_lane *lane = &b->lanes[lane_number];
  if (b->pairs.active) return adji_brute_pairs_block(b, lane, batch->begin);
  brute_piece piece = b->mutual ? adji_brute_mutual_piece(b, batch->begin) : b->pieces[batch->begin];
  begin_best(b, lane, &piece);
  adj_status status = b->mutual        ? adji_brute_mutual_block(b, lane, &piece, batch->begin)
                      : b->prefiltered ? adji_brute_prefilter(b, lane, &piece)
                                       : adji_brute_plain(b, lane, &piece);
  if (!status) finish_piece(b, lane, &piece, tally);
  return status;
}

/* Merges the best neighbours of several segments into rows. There are few queries, so one lane does it. */
static void merge_segments(brute *b, adji_run *run) {
  size_t size = adji_type_size(b->join.style.type);
  brute_lane *lane = &b->lanes[0];
  for (uint64_t q = b->window->first_row; q < b->window->end_row; q++) {
    adji_kbest_reset(lane->best, adji_join_limit(&b->join, q));
    for (uint32_t s = 0; s < b->segments; s++) {
      uint64_t part = (q - b->window->first_row) * b->segments + s, at = part * b->k;
      adji_kbest_add(lane->best, b->part_ids + at, (char *)b->part_sums + at * size, b->part_counts[part]);
    }
    uint64_t many = adji_kbest_finish(lane->best, true, lane->ids, lane->row_sums);
    adji_row_place_padded(b->window, &b->join.style, q, lane->ids, lane->row_sums, (uint32_t)many);
    run->tally.pairs += many;
  }
}

/* ---- Rows of points with collected keys, after the drain (brute_pairs.c, brute_mutual.c) ------ */

/* Group number `task` of the points listed at [from, to) of pairs.order. */
static brute_piece ordered_piece(const brute *b, uint64_t task, uint64_t from, uint64_t to) {
  uint64_t begin = from + task * b->group, end = to - begin < b->group ? to : begin + b->group;
  return (brute_piece){.begin = begin, .end = end, .last = b->right.count, .list = b->pairs.order};
}

static void place_pairs(brute *b, brute_lane *lane, const brute_piece *piece) {
  adji_tally tally = {0};
  finish_piece(b, lane, piece, &tally);
  lane->tally.pairs += tally.pairs;
  lane->tally.candidates += tally.candidates;
}

static adj_status finish_answered(void *user, uint64_t task, uint32_t lane_number) {
  brute *b = user;
  brute_lane *lane = &b->lanes[lane_number];
  brute_piece piece = ordered_piece(b, task, 0, b->pairs.answered);
  begin_best(b, lane, &piece);
  for (uint64_t at = 0; at < piece.end - piece.begin; at++)
    adji_brute_pairs_take(b, lane, &piece, at);
  place_pairs(b, lane, &piece);
  return ADJ_OK;
}

static adj_status scan_again(void *user, uint64_t task, uint32_t lane_number) {
  brute *b = user;
  brute_lane *lane = &b->lanes[lane_number];
  brute_piece piece = ordered_piece(b, task, b->pairs.answered, b->queries->count - b->pairs.first);
  begin_best(b, lane, &piece);
  adj_status status = adji_brute_prefilter(b, lane, &piece);
  if (!status) place_pairs(b, lane, &piece);
  return status;
}

static adj_status gather_points(brute *b, adji_tally *tally) {
  adj_ctx *ctx = b->join.ctx;
  adji_brute_pairs_order(b);
  uint64_t again = b->queries->count - b->pairs.first - b->pairs.answered;
  adj_status status = adji_loop(ctx, (b->pairs.answered + b->group - 1) / b->group, finish_answered, b);
  if (!status) status = adji_loop(ctx, (again + b->group - 1) / b->group, scan_again, b);
  for (uint32_t i = 0; i < ctx->threads; i++) {
    tally->pairs += b->lanes[i].tally.pairs;
    tally->candidates += b->lanes[i].tally.candidates;
  }
  return status;
}

static adj_status gather_pairs(brute *b, adji_run *run) {
  adj_status status = gather_points(b, &run->tally);
  return status ? status : adji_run_check_pairs(run, run->tally.pairs);
}

/* The rows of right points; those of left points are in place. */
static adj_status gather_mutual(brute *b, adji_run *run) {
  adji_tally tally = {0};
  adj_status status = gather_points(&b->mutual->back, &tally);
  run->tally.candidates += tally.candidates;
  b->window->mutual->pairs = tally.pairs;
  b->window->mutual->filled = !status;
  return status;
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

void adji_brute_layout(const brute *b, brute_lane *lane, brute_arena *arena) {
  adj_type type = b->join.style.type;
  size_t size = adji_type_size(type);
  lane->best = brute_alloc(arena, adji_kbest_bytes(type, b->k, b->group), 1);
  if (lane->best) adji_kbest_init(lane->best, b->join.ctx->isa, type, b->k, b->group);
  lane->list = brute_alloc(arena, BRUTE_LIST + ADJI_PAD, sizeof *lane->list);
  lane->sums = brute_alloc(arena, BRUTE_LIST + ADJI_PAD, size);
  lane->ids = brute_alloc(arena, b->k, sizeof *lane->ids);
  lane->row_sums = brute_alloc(arena, b->k, size);
  if (b->prefiltered)
    adji_brute_prefilter_layout(b, &lane->prefilter, arena);
  else
    adji_brute_plain_layout(b, &lane->plain, arena);
  if (b->pairs.active || b->mutual) adji_brute_pairs_layout(b, lane, arena);
}

uint64_t adji_brute_lane_bytes(const brute *b) {
  brute_lane lane;
  brute_arena arena = {NULL, 0};
  adji_brute_layout(b, &lane, &arena);
  return arena.used;
}

/* Groups shrink where k is large and where memory is short. */
static void choose_group(brute *b) {
  const adji_memory *memory = &b->join.ctx->memory;
  uint64_t lanes = b->join.ctx->threads;
  b->group = b->batch ? b->batch : MOST_QUERIES;
  while (!b->batch && b->group > FEWEST_QUERIES && adji_brute_lane_bytes(b) > (uint64_t)64 << 20)
    b->group /= 2;
  while (b->group > BRUTE_GROUP && !adji_fits(memory, adji_mul(lanes, adji_brute_lane_bytes(b)) + ((uint64_t)1 << 20)))
    b->group /= 2;
}

static adj_status open_lanes(brute *b) {
  adj_ctx *ctx = b->join.ctx;
  b->lanes = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof *b->lanes, "brute force");
  if (!b->lanes) return ADJ_E_MEMORY;
  uint64_t bytes = adji_brute_lane_bytes(b);
  for (uint32_t i = 0; i < ctx->threads; i++) {
    brute_arena arena = {adji_alloc(&ctx->memory, bytes, 1, "brute force"), 0};
    if (!arena.base) return ADJ_E_MEMORY;
    b->lanes[i].memory = arena.base;
    adji_brute_layout(b, &b->lanes[i], &arena);
  }
  return ADJ_OK;
}

static void close_lanes(brute *b) {
  adj_ctx *ctx = b->join.ctx;
  for (uint32_t i = 0; b->lanes && i < ctx->threads; i++)
    adji_free(&ctx->memory, b->lanes[i].memory);
  adji_free(&ctx->memory, b->lanes);
  b->lanes = NULL;
}

/* ---- Pieces of work -------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t n, uint64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/* Chooses the queries per piece and the number of segments, so that every lane has several pieces. */
static uint64_t cut_work(brute *b, uint64_t rows) {
  uint64_t lanes = b->join.ctx->threads, group = b->group;
  uint64_t share = round_up((rows + 4 * lanes - 1) / (4 * lanes), FEWEST_QUERIES);
  if (lanes > 1 && share < group) group = share;
  uint64_t groups = (rows + group - 1) / group, segments = 1;
  if (lanes > 1 && groups < 2 * lanes) {
    uint64_t most = b->right.count / FEWEST_POINTS + 1;
    segments = (2 * lanes + groups - 1) / groups;
    if (segments > most) segments = most;
  }
  b->segments = (uint32_t)segments;
  return group;
}

static adj_status add_piece(brute *b, uint64_t begin, uint64_t end, uint32_t segment) {
  brute_piece *piece = &b->pieces[b->queue->count];
  uint64_t count = b->right.count, tiles = (count + ADJI_TILE_MULTIPLE - 1) / ADJI_TILE_MULTIPLE, first, last;
  adji_slice(tiles, b->segments, segment, &first, &last);
  last *= ADJI_TILE_MULTIPLE;
  *piece = (brute_piece){begin, end, first * ADJI_TILE_MULTIPLE, last < count ? last : count, segment, NULL};
  double work = (double)(end - begin) * (double)(piece->last - piece->first);
  uint32_t number = (uint32_t)b->queue->count;
  return adji_queue_add(b->queue, (adji_batch){number, number + 1, work});
}

/* The last twentieth of the queries goes into smaller pieces, so that the lanes finish together. */
static adj_status make_pieces(brute *b) {
  adji_memory *memory = &b->join.ctx->memory;
  uint64_t rows = b->window->end_row - b->window->first_row, group = cut_work(b, rows);
  uint64_t most = (rows / (group < FEWEST_QUERIES ? group : FEWEST_QUERIES) + 2) * b->segments;
  adj_status status = adji_queue_init(b->queue, b->join.ctx, most);
  if (status) return status;
  b->pieces = adji_alloc(memory, most, sizeof *b->pieces, "pieces of work");
  if (!b->pieces) return ADJ_E_MEMORY;
  uint64_t tail = b->window->end_row - rows / 20, small = round_up(group / 4 + 1, FEWEST_QUERIES);
  for (uint64_t begin = b->window->first_row, end; begin < b->window->end_row && !status; begin = end) {
    end = begin + (begin < tail || small > group ? group : small);
    if (end > b->window->end_row) end = b->window->end_row;
    for (uint32_t s = 0; s < b->segments && !status; s++)
      status = add_piece(b, begin, end, s);
  }
  adji_queue_sort(b->queue);
  return status;
}

/* With pairs, a piece of work is a block of points with itself and all later blocks. */
static adj_status queue_pairs(brute *b) {
  adj_status status = adji_queue_init(b->queue, b->join.ctx, b->pairs.blocks);
  for (uint32_t i = 0; i < b->pairs.blocks && !status; i++)
    status = adji_queue_add(b->queue, (adji_batch){i, i + 1, (double)(b->pairs.blocks - i)});
  return status;
}

static adj_status make_parts(brute *b) {
  adji_memory *memory = &b->join.ctx->memory;
  if (b->segments == 1) return ADJ_OK;
  uint64_t parts = (b->window->end_row - b->window->first_row) * b->segments, entries = adji_mul(parts, b->k);
  b->part_counts = adji_alloc_zero(memory, parts, sizeof *b->part_counts, "best of segments");
  b->part_ids = adji_alloc(memory, entries, sizeof *b->part_ids, "best of segments");
  b->part_sums = adji_alloc(memory, entries, adji_type_size(b->join.style.type), "best of segments");
  return b->part_counts && b->part_ids && b->part_sums ? ADJ_OK : ADJ_E_MEMORY;
}

static void drop_pieces(brute *b) {
  adji_memory *memory = &b->join.ctx->memory;
  adji_queue_clear(b->queue);
  adji_free(memory, b->pieces);
  adji_free(memory, b->part_counts);
  adji_free(memory, b->part_ids);
  adji_free(memory, b->part_sums);
  b->pieces = NULL;
  b->part_counts = NULL;
  b->part_ids = NULL;
  b->part_sums = NULL;
}

/* No row can have a neighbour: there are no right points, or only the query itself. All rows are padding. */
static void place_nothing(const brute *b) {
  for (uint64_t row = b->window->first_row; row < b->window->end_row; row++)
    adji_row_place_padded(b->window, &b->join.style, row, b->window->ids, b->window->distances, 0);
}

static void end(void *state, adji_run *run) {
  (void)run;
  brute *b = state;
  close_lanes(b);
  drop_pieces(b);
  adji_brute_pairs_end(b);
  adji_brute_mutual_end(b);
}

/* The pieces of a mutual join are blocks of left points. There are none if the join cannot be made in this way. */
static adj_status begin_mutual(brute *b) {
  adj_status status = adji_brute_mutual_open(b);
  uint64_t blocks = !status && b->mutual ? (b->queries->count + b->pairs.block - 1) / b->pairs.block : 0;
  if (!status) status = adji_queue_init(b->queue, b->join.ctx, blocks + 1);
  for (uint64_t i = 0; i < blocks && !status; i++)
    status = adji_queue_add(b->queue, (adji_batch){(uint32_t)i, (uint32_t)i + 1, 1});
  if (!status && b->mutual) status = open_lanes(b);
  return !status && b->mutual ? adji_brute_mutual_begin(b) : status;
}

/* The pieces depend on the window, so every pass has a queue of its own. */
static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  brute *b = state;
  b->window = pass->window;
  b->queue = pass->queue;
  b->segments = 1;
  if (!b->k || b->window->end_row == b->window->first_row) return adji_queue_init(b->queue, b->join.ctx, 1);
  choose_group(b);
  if (b->window->mutual) {
    adj_status status = begin_mutual(b);
    if (status) end(b, run);
    return status;
  }
  bool all = !b->window->first_row && b->window->end_row == b->right.count;
  b->pairs.active = pass->alone && all && adji_brute_pairs_choose(b);
  adj_status status = b->pairs.active ? queue_pairs(b) : make_pieces(b);
  if (!status) status = make_parts(b);
  if (!status) status = open_lanes(b);
  if (!status && b->pairs.active) status = adji_brute_pairs_begin(b);
  if (status) end(b, run);
  return status;
}

static adj_status gather(void *state, adji_run *run, const adji_active *active) {
  (void)active;
  brute *b = state;
  if (b->window->mutual) return b->mutual ? gather_mutual(b, run) : ADJ_OK;
  if (!b->k) place_nothing(b);
  if (b->pairs.active) return gather_pairs(b, run);
  if (b->segments > 1) merge_segments(b, run);
  return ADJ_OK;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void brute_destroy(void *state) {
  brute *b = state;
  adji_packed_clear(&b->left);
  adji_give_back(&b->base);
  free(b);
}

/* The part of a query's time that remains, about, if one product serves two points. */
static const double PAIRS_SHARE = 0.65;

double adji_brute_query_ns(const adji_engine *engine) {
  const brute *b = engine->workers[0].state;
  double cost = b->cost > 0 ? b->cost : adji_brute_least_cost(b, b->prefiltered ? b->sketch.prefilter : NULL);
  return b->pairs_expected ? PAIRS_SHARE * cost : cost;
}

/* The trial takes one in TIMED_SHARE of the queries of a thread, at most MOST_TIMED. With fewer than FEWEST_TIMED there
 * is no trial: it would tell little, since the queries of a group share what is loaded. */
enum { TIMED_SHARE = 24, FEWEST_TIMED = 8, MOST_TIMED = 128 };

adj_status adji_brute_try(adji_engine *engine, double *query_ns) {
  brute *b = engine->workers[0].state;
  adji_memory *memory = &b->join.ctx->memory;
  uint64_t count = b->queries->count, many = count / ((uint64_t)TIMED_SHARE * b->join.ctx->threads);
  *query_ns = adji_brute_query_ns(engine);
  if (!b->k || !b->right.count || many < FEWEST_TIMED) return ADJ_OK;
  b->group = many < MOST_TIMED ? many : MOST_TIMED;
  brute_lane lane = {0};
  brute_arena arena = {adji_alloc(memory, adji_brute_lane_bytes(b), 1, "brute force"), 0};
  if (!arena.base) return ADJ_E_MEMORY;
  adji_brute_layout(b, &lane, &arena);
  brute_piece piece = {.begin = (count - b->group) / 2, .last = b->right.count};
  piece.end = piece.begin + b->group;
  uint64_t begin = adji_thread_ns();
  for (uint64_t q = 0; q < b->group; q++)
    adji_kbest_reset(&lane.best[q], b->join.limit);
  adj_status status = b->prefiltered ? adji_brute_prefilter(b, &lane, &piece) : adji_brute_plain(b, &lane, &piece);
  for (uint64_t q = 0; q < b->group && !status; q++)
    adji_kbest_finish(&lane.best[q], true, lane.ids, lane.row_sums);
  b->cost = (double)(adji_thread_ns() - begin) / (double)b->group;
  *query_ns = adji_brute_query_ns(engine);
  adji_free(memory, arena.base);
  return status;
}

bool adji_brute_can_be_mutual(const adji_engine *engine) {
  const brute *b = engine->workers[0].state;
  return b->join.self_join ? b->pairs_expected : adji_brute_mutual_fits(b);
}

const char *adji_brute_prefilter_name(const adji_engine *engine) {
  const brute *b = engine->workers[0].state;
  return b->prefiltered ? b->sketch.prefilter->name : "none";
}

adj_status adji_brute_create(const adji_join *join, const adji_lent *base, const adji_brute_options *options,
                             adji_engine *out) {
  brute *b = calloc(1, sizeof *b);
  if (!b) {
    adji_give_back(base);
    return adji_fail(ADJ_E_MEMORY, "no memory for brute force");
  }
  b->join = *join;
  b->base = *base;
  b->right = ((const adji_brute_base *)base->what)->right;
  b->k = adji_join_reach(join);
  b->keys = adji_key_kernels_for(join->ctx->isa);
  adj_status status = ADJ_OK;
  if (!join->self_join) status = adji_packed_init(join->ctx, join->left, &b->left);
  b->queries = join->self_join ? &b->right : &b->left;
  if (!status) status = adji_brute_choose_prefilter(b, options->prefilter);
  if (status) {
    brute_destroy(b);
    return status;
  }
  b->batch = options->batch;
  adji_brute_choose_sizes(b);
  choose_group(b);
  b->pairs_expected = adji_brute_pairs_choose(b);
  adji_engine_init(out, join,
                   &(adji_worker){.state = b,
                                  .name = "cpu",
                                  .begin = begin,
                                  .process = run_piece,
                                  .gather = gather,
                                  .end = end,
                                  .destroy = brute_destroy});
  return ADJ_OK;
}
