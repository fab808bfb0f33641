/* SPDX-License-Identifier: MIT
 *
 * The range join through a tree: a worker that counts, fills, or collects in one pass. See tree_range.h.
 *
 * To collect, every lane appends the rows that it finds to arrays of its own. Then their lengths become offsets, and
 * the rows are copied to their places.
 */
#include "cpu/tree_range.h"

#include <stdlib.h>
#include <string.h>

#include "core/fetch.h"
#include "cpu/within.h"
#include "result/offsets.h"

/* The rows that a lane found, in the order in which their entries are in within.room. */
typedef struct found_rows {
  uint32_t *rows, *lengths;
  uint64_t count, room;
} found_rows;

typedef struct lane {
  adji_within within;
  adji_near_nodes near;
  found_rows found;
} lane;

typedef struct tree_range {
  adji_join join;
  adji_lent lent;
  const adji_tree *tree;
  adji_tree_range_options options;
  adji_point_order order;
  const uint32_t *rows; /* rows of the queries, in their order; NULL: query i is row i */
  /* The current pass. */
  const adji_pass *pass;
  lane *lanes;
} tree_range;

/* ---- A query -------------------------------------------------------------------------------------------- */

/* Keeps a row that a lane has listed. */
static adj_status keep_row(tree_range *t, lane *l, uint32_t row, uint32_t length) {
  found_rows *f = &l->found;
  adji_memory *memory = &t->join.ctx->memory;
  if (f->count == f->room) {
    uint64_t room = f->room ? 2 * f->room : 256, keep = f->count * sizeof *f->rows;
    if (!adji_grow(memory, (void **)&f->rows, room, sizeof *f->rows, keep, "rows") ||
        !adji_grow(memory, (void **)&f->lengths, room, sizeof *f->lengths, keep, "rows"))
      return ADJ_E_MEMORY;
    f->room = room;
  }
  f->rows[f->count] = row;
  f->lengths[f->count++] = length;
  l->within.kept += length;
  return ADJ_OK;
}

static adj_status process_row(tree_range *t, lane *l, uint32_t row, adji_tally *tally) {
  const adji_pass *pass = t->pass;
  const adji_window *window = pass->window;
  double limit = adji_join_limit(&t->join, row);
  uint32_t count = 0;
  if (window && !adji_window_length(window, row)) return ADJ_OK;
  adj_status status = adji_copy_point(t->join.left, row, l->within.point);
  if (status) return status;
  if (pass->kind == ADJI_PASS_COUNT)
    status = adji_within_count(&l->within, row, limit, tally, &count);
  else
    status = adji_within_list(&l->within, row, limit, tally, &count);
  if (status) return status;
  if (pass->degrees) pass->degrees[row] = count;
  tally->pairs += count;
  if (window) return adji_row_place(&t->join.style, &l->within.room, 0, row, count, window);
  return pass->result ? keep_row(t, l, row, count) : ADJ_OK;
}

static uint32_t row_at(const tree_range *t, uint64_t i) {
  return t->rows ? t->rows[i] : (uint32_t)i;
}

/* Queries are scattered in memory but known in advance, so they are prefetched. */
enum { POINTS_AHEAD = 80 };

static adj_status process(void *state, const adji_batch *batch, uint32_t lane_number, adji_tally *tally) {
  tree_range *t = state;
  const adj_dataset *left = t->join.left;
  lane *l = &t->lanes[lane_number];
  double limit = t->join.limit;
  bool sparse = adji_point_order_is_sparse(&t->order, t->tree) && !t->join.limits;
  adj_status status = ADJ_OK;
  for (uint64_t i = batch->begin; i < batch->end && !status; i++) {
    adji_fetch_nodes(t->tree, &t->order, i, batch);
    if (sparse) adji_fetch_sparse(&l->within.search, left, &t->order, i, batch, limit);
    if (i + POINTS_AHEAD < batch->end) __builtin_prefetch(left->data + row_at(t, i + POINTS_AHEAD) * left->row_stride);
    l->within.near = t->join.limits || !l->near.box
                         ? NULL
                         : adji_near_nodes_at(&l->near, &l->within.search, left, &t->order, i, limit);
    status = process_row(t, l, row_at(t, i), tally);
  }
  return status;
}

/* ---- Collecting ----------------------------------------------------------------------------------------- */

typedef struct gathering {
  tree_range *t;
  uint32_t *degrees;
  adj_result *result;
} gathering;

static void note_lengths(const gathering *g) {
  for (uint32_t l = 0; l < g->t->options.lanes; l++) {
    const found_rows *f = &g->t->lanes[l].found;
    for (uint64_t i = 0; i < f->count; i++)
      g->degrees[f->rows[i]] = f->lengths[i];
  }
}

/* Rows are in the order of the queries here, and in the order of their numbers in the result. */
enum { OFFSETS_AHEAD = 32, PLACES_AHEAD = 12 };

ADJI_FETCHES fetch_places(const adj_result *result, const found_rows *f, uint64_t i, size_t size) {
  if (i + OFFSETS_AHEAD >= f->count) return;
  __builtin_prefetch(result->offsets + f->rows[i + OFFSETS_AHEAD]);
  uint64_t at = result->offsets[f->rows[i + PLACES_AHEAD]];
  __builtin_prefetch(result->ids + at, 1);
  if (result->distances) __builtin_prefetch((char *)result->distances + at * size, 1);
}

static adj_status copy_rows(void *user, uint64_t task, uint32_t lane_number) {
  (void)lane_number;
  const gathering *g = user;
  const lane *l = &g->t->lanes[task];
  const found_rows *f = &l->found;
  const adji_row_style *style = &g->t->join.style;
  size_t size = adji_type_size(style->type);
  char *sums = l->within.room.sums[0];
  uint64_t at = 0;
  if (style->distances) adji_report_distances(style->measure, style->type, sums, l->within.kept, sums);
  for (uint64_t i = 0; i < f->count; at += f->lengths[i++]) {
    uint64_t to = g->result->offsets[f->rows[i]];
    fetch_places(g->result, f, i, size);
    if (!f->lengths[i]) continue;
    memcpy(g->result->ids + to, l->within.room.ids[0] + at, f->lengths[i] * sizeof(uint32_t));
    if (style->distances) memcpy((char *)g->result->distances + to * size, sums + at * size, f->lengths[i] * size);
  }
  return ADJ_OK;
}

static adj_status make_result(gathering *g) {
  adj_ctx *ctx = g->t->join.ctx;
  adji_memory *memory = &ctx->memory;
  adj_result *result = g->result;
  uint64_t rows = g->t->join.left->count;
  note_lengths(g);
  result->offsets = adji_alloc(memory, rows + 1, sizeof *result->offsets, "row offsets");
  if (!result->offsets) return ADJ_E_MEMORY;
  adj_status status = adji_offsets_add_up(ctx, g->degrees, rows, result->offsets);
  if (status) return status;
  result->pairs = result->offsets[rows];
  result->ids = adji_alloc(memory, result->pairs, sizeof *result->ids, "result");
  if (!result->ids) return ADJ_E_MEMORY;
  if (g->t->join.style.distances) {
    result->distances = adji_alloc(memory, result->pairs, adji_type_size(g->t->join.style.type), "result");
    if (!result->distances) return ADJ_E_MEMORY;
  }
  return adji_loop(ctx, g->t->options.lanes, copy_rows, g);
}

static adj_status gather(void *state, adji_run *run, const adji_active *active) {
  (void)run;
  (void)active;
  tree_range *t = state;
  if (!t->pass->result) return ADJ_OK;
  adji_memory *memory = &t->join.ctx->memory;
  gathering g = {.t = t, .result = t->pass->result};
  g.degrees = adji_alloc_zero(memory, t->join.left->count, sizeof *g.degrees, "neighbour counts");
  adj_status status = g.degrees ? make_result(&g) : ADJ_E_MEMORY;
  adji_free(memory, g.degrees);
  return status;
}

/* ---- The worker ------------------------------------------------------------------------------------------ */

static adj_status fill_queue(void *state, bool shared, adji_queue *queue) {
  (void)shared;
  const tree_range *t = state;
  return adji_point_batches(t->join.ctx, t->join.left->count, t->options.batch, queue);
}

static void clear_lane(lane *l, adji_memory *memory) {
  if (l->near.box || l->near.nodes.bounds) adji_near_nodes_clear(&l->near, l->within.search.tree);
  adji_within_clear(&l->within);
  adji_free(memory, l->found.rows);
  adji_free(memory, l->found.lengths);
}

static void end(void *state, adji_run *run) {
  (void)run;
  tree_range *t = state;
  adji_memory *memory = &t->join.ctx->memory;
  for (uint32_t l = 0; t->lanes && l < t->options.lanes; l++)
    clear_lane(&t->lanes[l], memory);
  adji_free(memory, t->lanes);
  t->lanes = NULL;
}

static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  tree_range *t = state;
  t->pass = pass;
  t->lanes = adji_alloc_zero(&t->join.ctx->memory, t->options.lanes, sizeof *t->lanes, "workers");
  adj_status status = t->lanes ? ADJ_OK : ADJ_E_MEMORY;
  for (uint32_t l = 0; l < t->options.lanes && !status; l++) {
    status = adji_within_init(&t->lanes[l].within, &t->join, t->tree);
    if (!status && adji_point_order_is_dense(&t->order, t->tree))
      status = adji_near_nodes_init(&t->lanes[l].near, t->tree);
  }
  if (status) end(t, run);
  return status;
}

static void destroy(void *state) {
  tree_range *t = state;
  adji_point_order_clear(t->join.ctx, &t->order);
  adji_give_back(&t->lent);
  free(t);
}

adj_status adji_tree_range_try(const adji_engine *engine, uint64_t queries, adji_tree_range_sample *out) {
  const tree_range *t = engine->workers[0].state;
  uint64_t count = t->join.left->count;
  *out = (adji_tree_range_sample){0};
  if (!count || !queries) return ADJ_OK;
  if (queries > count) queries = count;
  adji_within within = {0};
  adji_tally tally = {0};
  adj_status status = adji_within_init(&within, &t->join, t->tree);
  uint64_t begin_ns = adji_now_ns();
  for (uint64_t i = 0; i < queries && !status; i++) {
    uint32_t row = row_at(t, i * count / queries), found = 0;
    status = adji_copy_point(t->join.left, row, within.point);
    if (!status) status = adji_within_count(&within, row, adji_join_limit(&t->join, row), &tally, &found);
    tally.pairs += found;
  }
  double scale = (double)count / (double)queries;
  out->pairs = (double)tally.pairs * scale;
  out->candidates = (double)tally.candidates * scale;
  out->query_ns = (double)(adji_now_ns() - begin_ns) / (double)queries;
  adji_within_clear(&within);
  return status;
}

adj_status adji_tree_range_create(const adji_join *join, const adji_lent *right, const adji_tree_range_options *options,
                                  adji_engine *out) {
  tree_range *t = calloc(1, sizeof *t);
  if (!t) {
    adji_give_back(right);
    return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  }
  *t = (tree_range){.join = *join, .lent = *right, .tree = right->what, .options = *options};
  if (!t->options.lanes) t->options.lanes = join->ctx->threads;
  adj_status status = join->self_join ? ADJ_OK : adji_point_order_init(join, t->tree, &t->order);
  if (status) {
    destroy(t);
    return status;
  }
  t->rows = join->self_join ? t->tree->ids : t->order.rows;
  adji_engine_init(out, join,
                   &(adji_worker){.state = t,
                                  .name = "cpu",
                                  .collects = options->single,
                                  .fill_queue = fill_queue,
                                  .begin = begin,
                                  .process = process,
                                  .gather = gather,
                                  .end = end,
                                  .destroy = destroy});
  out->order = t->rows;
  return ADJ_OK;
}
