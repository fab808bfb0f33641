/* SPDX-License-Identifier: MIT
 *
 * The kNN join on cores: a worker that searches a tree.
 *
 * A group is the queries of one leaf. They are searched together (cpu/knn_group.c): the tree is traversed once for all
 * of them, and each node or leaf that is loaded serves all of them. Where the left points are far apart among many
 * right points, the box of a group would meet more leaves than its queries need. Then every query is a group of its
 * own. So it is in the queues of HybridKNN-Join.
 */
#include "cpu/knn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fetch.h"
#include "cpu/knn_group.h"
#include "cpu/knn_narrow.h"

typedef struct knn_lane {
  adji_knn_group group;
  adji_narrow_group narrow; /* for f64 joins; searched first */
} knn_lane;

typedef struct knn_cores {
  adji_join join;
  adji_knn_options options;
  adji_lent lent;
  const adji_tree *right;
  adji_tree own_left;
  const adji_tree *left;  /* own_left, or right in a self-join; NULL: queries are searched one by one */
  adji_point_order order; /* the order of the queries that are searched one by one */
  adji_narrow narrow;     /* copies of the trees in f32, if this f64 join uses them */
  /* The current pass. */
  const adji_window *window;
  adji_tree labelled; /* the right tree with labels in place of ids, if the window has labels; `right` is this tree */
  adji_tree chosen;   /* the left tree with rows of the window in place of ids, if not all are wanted; `left` is this */
  uint32_t *rows;     /* while this is made: rows of the window by left point */
  knn_lane *lanes;
} knn_cores;

/* ---- The queue -------------------------------------------------------------------------------------- */

/* Beside devices batches are small, so that all workers finish together. */
enum { SHARED_BATCH = 1024, SHARED_BATCHES = 2048 };

static double bound_of(const adji_tree *tree, uint64_t leaf, uint32_t dim, bool high) {
  uint64_t at = leaf / ADJI_FAN * 2 * tree->dim * ADJI_FAN + (2 * (uint64_t)dim + high) * ADJI_FAN + leaf % ADJI_FAN;
  const void *bounds = tree->level[0].bounds;
  return tree->type == ADJ_F64 ? ((const double *)bounds)[at] : (double)((const float *)bounds)[at];
}

/* The volume of the box around leaves [first, end). */
static double volume_of(const adji_tree *tree, uint64_t first, uint64_t end) {
  double volume = 1;
  for (uint32_t j = 0; j < tree->dim; j++) {
    double low = bound_of(tree, first, j, false), high = bound_of(tree, first, j, true);
    for (uint64_t leaf = first + 1; leaf < end; leaf++) {
      low = fmin(low, bound_of(tree, leaf, j, false));
      high = fmax(high, bound_of(tree, leaf, j, true));
    }
    volume *= high - low;
  }
  return volume;
}

/* Adds batches of `each` leaves, and of a quarter of that from leaf `tail` on. densities: of each batch, or NULL. */
static adj_status add_batches(const knn_cores *c, adji_queue *queue, uint64_t each, uint64_t tail, double *densities) {
  const adji_tree *left = c->left;
  uint64_t leaves = left->levels ? left->level[0].count : 0, end;
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; first < leaves && !status; first = end) {
    uint64_t many = first > tail && each >= 4 ? each / 4 : each;
    end = first + many < leaves ? first + many : leaves;
    uint64_t points = end * left->leaf < left->count ? end * left->leaf : left->count;
    adji_batch batch = {(uint32_t)(first * left->leaf), (uint32_t)points, 0};
    batch.work = batch.end - batch.begin;
    if (densities) *densities++ = batch.work / volume_of(left, first, end);
    status = adji_queue_add(queue, batch);
  }
  return status;
}

static bool uses_paper_queue(const knn_cores *c) {
  return c->options.queue == ADJI_KNN_QUEUE_POINTS || c->options.queue == ADJI_KNN_QUEUE_CELLS;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* HybridKNN-Join's queue (4.5). Cores take batches of 0.5 % of the queries from the sparse end, and of half of that for
 * the last 5 %. Beside devices the batches are smaller, and a worker combines several of them. */
static adj_status queue_by_cells(const knn_cores *c, bool shared, adji_queue *queue) {
  uint64_t count = c->order.count, each = shared ? smaller(count / SHARED_BATCHES, SHARED_BATCH) : count / 200;
  if (c->options.batch) each = c->options.batch;
  if (!each) each = 1;
  adj_status status = adji_queue_init(queue, c->join.ctx, count / each + 64);
  for (uint64_t done = 0, many; done < count && !status; done += many) {
    bool ending = !shared && each > 1 && done >= count / 20 * 19;
    many = smaller(ending ? each / 2 : each, count - done);
    uint64_t begin = shared ? done : count - done - many;
    status = adji_queue_add(queue, (adji_batch){(uint32_t)begin, (uint32_t)(begin + many), (double)many});
  }
  return status;
}

/* Thread t gets queries t, t + threads, t + 2 threads, ..., which are consecutive in the order. It takes them in
 * several batches, so that progress can be reported. */
static adj_status queue_by_points(const knn_cores *c, adji_queue *queue) {
  enum { PIECES = 64 };
  uint64_t count = c->order.count, lanes = c->options.lanes, most = (count + lanes - 1) / lanes;
  uint64_t each = (most + PIECES - 1) / PIECES;
  adj_status status = adji_queue_init(queue, c->join.ctx, lanes * PIECES + 1);
  queue->round_robin = true;
  for (uint64_t from = 0; from < most && !status; from += each)
    for (uint64_t t = 0, first = 0, share; t < lanes && !status; t++, first += share) {
      share = t < count ? (count - t + lanes - 1) / lanes : 0;
      uint64_t end = smaller(from + each, share);
      if (from < end)
        status = adji_queue_add(queue,
                                (adji_batch){(uint32_t)(first + from), (uint32_t)(first + end), (double)(end - from)});
    }
  return status;
}

/* Cores alone: batches of 0.5 % of the queries, and of a quarter of that for the last 5 %, so that the lanes finish
 * together (papers on hybrid kNN joins, "work queue"). Beside devices: batches of up to 1,024 queries, densest first
 * (HybridKNN-Join 4.3), and in the order of the tree where the densities are similar. */
static adj_status fill_queue(void *state, bool shared, adji_queue *queue) {
  const knn_cores *c = state;
  const adji_tree *left = c->left;
  adji_memory *memory = &c->join.ctx->memory;
  if (c->options.queue == ADJI_KNN_QUEUE_CELLS) return queue_by_cells(c, shared, queue);
  if (c->options.queue == ADJI_KNN_QUEUE_POINTS) return queue_by_points(c, queue);
  if (!left) return adji_point_batches(c->join.ctx, c->order.count, c->options.batch, queue);
  uint64_t leaves = left->levels ? left->level[0].count : 0, each = leaves / 200;
  if (shared)
    each = (left->count / SHARED_BATCHES < SHARED_BATCH ? left->count / SHARED_BATCHES : SHARED_BATCH) / left->leaf;
  if (c->options.batch) each = c->options.batch / left->leaf;
  if (!each) each = 1;
  adj_status status = adji_queue_init(queue, c->join.ctx, leaves / each + 64);
  if (status) return status;
  queue->round_robin = c->options.queue == ADJI_KNN_QUEUE_OFF && !shared;
  if (!shared) return add_batches(c, queue, each, c->options.batch ? leaves : leaves / 20 * 19, NULL);
  double *densities = adji_alloc(memory, leaves / each + 1, sizeof *densities, "work queue");
  status = densities ? add_batches(c, queue, each, leaves, densities) : ADJ_E_MEMORY;
  if (!status) status = adji_queue_sort_roughly(queue, densities);
  adji_free(memory, densities);
  return status;
}

/* ---- A pass ----------------------------------------------------------------------------------------- */

/* The labels of right points in the order of the tree; if not all rows are wanted, the rows of left points as well. */
static void label_ids(void *user, uint64_t begin, uint64_t end) {
  const knn_cores *c = user;
  const uint32_t *ids = c->right->ids, *labels = c->window->labels, *rows = c->rows;
  for (uint64_t i = begin; i < end; i++) {
    c->labelled.ids[i] = labels[ids[i]];
    if (rows) c->chosen.ids[i] = rows[ids[i]];
  }
}

static void label_least_ids(void *user, uint64_t begin, uint64_t end) {
  const knn_cores *c = user;
  for (uint32_t l = 0; l < c->right->levels; l++) {
    const adji_tree_level *from = &c->right->level[l];
    uint64_t last = end < from->count ? end : from->count;
    for (uint64_t i = begin; i < last; i++)
      c->labelled.level[l].least_ids[i] = c->window->labels[from->least_ids[i]];
  }
}

static void drop_labels(knn_cores *c) {
  adji_memory *memory = &c->join.ctx->memory;
  for (uint32_t l = 0; l < c->labelled.levels; l++)
    adji_free(memory, c->labelled.level[l].least_ids);
  adji_free(memory, c->labelled.ids);
  adji_free(memory, c->rows);
  adji_free(memory, c->chosen.ids);
  c->rows = NULL;
  if (c->chosen.ids) c->left = c->narrow.wide_left = c->lent.what;
  c->labelled = c->chosen = (adji_tree){0};
  c->right = c->narrow.wide_right = c->lent.what;
}

/* Makes room for a left tree whose ids are rows of the window. A query then knows itself by its label in the right
 * tree. Self-joins in leaves only. */
static bool open_chosen(knn_cores *c) {
  adji_memory *memory = &c->join.ctx->memory;
  const adji_window *window = c->window;
  c->chosen = *c->left;
  c->chosen.ids = adji_alloc(memory, c->left->level[0].count * c->left->leaf, sizeof *c->chosen.ids, "rows");
  c->rows = adji_alloc(memory, c->left->count, sizeof *c->rows, "rows");
  if (!c->rows || !c->chosen.ids) return false;
  memset(c->rows, 0xff, c->left->count * sizeof *c->rows); /* no row */
  for (uint64_t i = window->first_row; i < window->end_row; i++)
    c->rows[window->wanted[i]] = (uint32_t)i;
  return true;
}

/* Makes the search find labels instead of ids, through a tree that shares all but the ids. Labels ascend as ids do, so
 * ties go to the same points. */
static adj_status set_labels(knn_cores *c) {
  enum { SLICE = 1 << 14 };
  adji_memory *memory = &c->join.ctx->memory;
  const adji_tree *tree = c->right;
  if (!c->window->labels || !tree->count) return ADJ_OK;
  uint64_t leaves = tree->level[0].count;
  c->labelled = *tree;
  c->labelled.ids = adji_alloc(memory, leaves * tree->leaf, sizeof *tree->ids, "labels of points");
  bool made = c->labelled.ids;
  for (uint32_t l = 0; l < tree->levels; l++) {
    uint64_t room = (tree->level[l].count + ADJI_FAN - 1) / ADJI_FAN * ADJI_FAN;
    uint32_t *least = adji_alloc(memory, room, sizeof *least, "labels of points");
    for (uint64_t i = tree->level[l].count; least && i < room; i++)
      least[i] = ADJ_NO_ID;
    c->labelled.level[l].least_ids = least;
    made = made && least;
  }
  if (c->window->wanted) made = made && open_chosen(c);
  if (!made) return ADJ_E_MEMORY;
  for (uint64_t i = tree->count; i < leaves * tree->leaf; i++)
    c->labelled.ids[i] = ADJ_NO_ID;
  adj_status status = adji_loop_slices(c->join.ctx, tree->count, tree->count / SLICE + 1, label_ids, c);
  if (!status) status = adji_loop_slices(c->join.ctx, leaves, leaves / SLICE + 1, label_least_ids, c);
  if (!status) c->right = c->narrow.wide_right = &c->labelled;
  if (!status && c->rows) c->left = c->narrow.wide_left = &c->chosen;
  adji_free(memory, c->rows);
  c->rows = NULL;
  return status;
}

/* Fills the row of the i-th query, searched alone. window NULL: the neighbours are discarded. */
static adj_status fill_point(const knn_cores *c, adji_knn_group *g, uint64_t i, const adji_window *window,
                             adji_tally *tally) {
  uint32_t row = adji_point_row(&c->order, i);
  if (window && !adji_window_has(window, row)) return ADJ_OK;
  adj_status status = adji_copy_point(c->join.left, row, g->coords);
  if (status) return status;
  uint32_t found = window && g->guess.enabled ? adji_knn_group_next(g, &c->order, i, tally)
                                              : adji_knn_group_find(g, row, adji_point_chunk(&c->order, i), tally);
  if (window) adji_row_place_padded(window, &c->join.style, row, g->ids, g->sums, found);
  tally->pairs += found;
  return ADJ_OK;
}

/* Queries and their rows are scattered in memory but known in advance, so they are prefetched. */
enum { POINTS_AHEAD = 80, ROWS_AHEAD = 4 };

ADJI_FETCHES fetch_row(const knn_cores *c, const adji_window *window, uint64_t row) {
  uint64_t at = adji_window_at(window, row), size = adji_type_size(c->join.style.type);
  uint64_t many = window->k < 64 ? window->k : 64;
  adji_fetch_to_write(window->ids + at, many * sizeof *window->ids);
  if (window->distances) adji_fetch_to_write((const char *)window->distances + at * size, many * size);
}

/* Prefetches with the last k-th sum as the reach: neighbours of the next query are about as far away as those of the
 * last one. */
static void fetch_ahead(const knn_cores *c, const adji_batch *batch, const adji_knn_group *g, uint64_t i) {
  const adj_dataset *left = c->join.left;
  adji_fetch_nodes(c->right, &c->order, i, batch);
  if (adji_point_order_is_sparse(&c->order, c->right))
    adji_fetch_sparse(&g->search, left, &c->order, i, batch, g->last_sum);
  if (i + POINTS_AHEAD < batch->end)
    __builtin_prefetch(left->data + adji_point_row(&c->order, i + POINTS_AHEAD) * left->row_stride);
  if (i + ROWS_AHEAD >= batch->end) return;
  uint32_t row = adji_point_row(&c->order, i + ROWS_AHEAD);
  if (adji_window_has(c->window, row)) fetch_row(c, c->window, row);
}

static adj_status fill_points(const knn_cores *c, const adji_batch *batch, adji_knn_group *g, adji_tally *tally) {
  adj_status status = ADJ_OK;
  for (uint64_t i = batch->begin; i < batch->end && !status; i++) {
    fetch_ahead(c, batch, g, i);
    status = fill_point(c, g, i, c->window, tally);
    if (!status && i % 16 == 0) status = adji_check_cancel(c->join.ctx);
  }
  return status;
}

/* Fills the rows of a leaf's points that are in the window. They are scattered in memory, since they are in the order
 * of ids, so they are prefetched before the search. window NULL: searches for all points, discards neighbours. */
static void fill_leaf(const knn_cores *c, knn_lane *lane, uint64_t leaf, const adji_window *window, adji_tally *tally) {
  const uint32_t *rows = c->left->ids + leaf * c->left->leaf;
  uint32_t count = adji_tree_leaf_count(c->left, leaf);
  uint64_t wanted = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (window && !adji_window_has(window, rows[i])) continue;
    wanted |= UINT64_C(1) << i;
    if (window) fetch_row(c, window, rows[i]);
  }
  if (wanted && c->narrow.enabled) wanted = adji_narrow_group_fill(&lane->narrow, leaf, wanted, window, tally);
  if (wanted) adji_knn_group_fill(&lane->group, leaf, wanted, window, tally);
}

static adj_status fill_batch(void *user, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  knn_cores *c = user;
  if (!c->left) return fill_points(c, batch, &c->lanes[lane].group, tally);
  uint32_t leaf = c->left->leaf;
  adj_status status = ADJ_OK;
  for (uint64_t first = batch->begin; first < batch->end && !status; first += leaf) {
    fill_leaf(c, &c->lanes[lane], first / leaf, c->window, tally);
    status = adji_check_cancel(c->join.ctx);
  }
  return status;
}

static void clear_lane(knn_lane *lane) {
  adji_knn_group_clear(&lane->group);
  adji_narrow_group_clear(&lane->narrow);
}

/* The lane starts zeroed. After a failure it must still be cleared. */
static adj_status init_lane(const knn_cores *c, knn_lane *lane) {
  adj_status status = adji_knn_group_init(&lane->group, &c->join, c->left, c->right);
  return status || !c->narrow.enabled ? status : adji_narrow_group_init(&lane->narrow, &c->narrow);
}

static void end(void *state, adji_run *run) {
  (void)run;
  knn_cores *c = state;
  adj_ctx *ctx = c->join.ctx;
  for (uint32_t lane = 0; c->lanes && lane < c->options.lanes; lane++)
    clear_lane(&c->lanes[lane]);
  adji_free(&ctx->memory, c->lanes);
  c->lanes = NULL;
  drop_labels(c);
}

static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  knn_cores *c = state;
  adj_ctx *ctx = c->join.ctx;
  c->window = pass->window;
  c->lanes = adji_alloc_zero(&ctx->memory, c->options.lanes, sizeof *c->lanes, "workers");
  adj_status status = c->lanes ? set_labels(c) : ADJ_E_MEMORY;
  for (uint32_t lane = 0; lane < c->options.lanes && !status; lane++) {
    status = init_lane(c, &c->lanes[lane]);
    c->lanes[lane].group.labels = c->window->labels;
    if (!status && adji_point_order_is_dense(&c->order, c->right))
      status = adji_knn_group_enable_guesses(&c->lanes[lane].group);
  }
  if (status) end(c, run);
  return status;
}

/* Searches one leaf, or as many queries one by one. i counts from 1. */
static adj_status try_leaf(const knn_cores *c, knn_lane *lane, uint64_t i, uint64_t leaves, adji_tally *tally,
                           uint64_t *queries) {
  uint64_t all = c->left ? c->left->level[0].count : c->order.count;
  if (c->left) {
    uint64_t leaf = (2 * i - 1) * all / (2 * leaves);
    fill_leaf(c, lane, leaf, NULL, tally);
    *queries += adji_tree_leaf_count(c->left, leaf);
    return ADJ_OK;
  }
  adj_status status = ADJ_OK;
  for (uint64_t q = 0; q < ADJI_LEAF && !status; q++, (*queries)++)
    status = fill_point(c, &lane->group, ((i - 1) * ADJI_LEAF + q) * all / (leaves * ADJI_LEAF), NULL, tally);
  return status;
}

/* The first leaf is searched twice: once as a warm-up, which does not count. At most one in 16 of the leaves of a
 * thread is searched. */
adj_status adji_knn_try(const adji_engine *engine, uint64_t leaves, double *query_ns, double *candidates) {
  const knn_cores *c = engine->workers[0].state;
  *query_ns = *candidates = 0;
  if (!c->join.left->count) return ADJ_OK;
  uint64_t all = c->left ? c->left->level[0].count : c->order.count / ADJI_LEAF;
  uint64_t begin = 0, queries = 0, most = all / (16 * (uint64_t)c->join.ctx->threads);
  if (leaves > most) leaves = most > 2 ? most : 2;
  knn_lane lane = {0};
  adji_tally tally = {0};
  adj_status status = init_lane(c, &lane);
  for (uint64_t i = 0; i <= leaves && !status; i++) {
    status = try_leaf(c, &lane, i ? i : 1, leaves, &tally, &queries);
    if (!i) {
      begin = adji_thread_ns();
      queries = 0;
      tally = (adji_tally){0};
    }
    if (!status) status = adji_check_cancel(c->join.ctx);
  }
  *query_ns = (double)(adji_thread_ns() - begin) / (double)(queries + !queries);
  *candidates = (double)tally.candidates / (double)(queries + !queries);
  clear_lane(&lane);
  return status;
}

static void destroy(void *state) {
  knn_cores *c = state;
  adji_narrow_clear(&c->narrow);
  adji_tree_clear(&c->own_left);
  adji_point_order_clear(c->join.ctx, &c->order);
  adji_give_back(&c->lent);
  free(c);
}

/* Whether most left points are inside the boxes that each hold a few hundred right points. Then guesses hold, and
 * single queries are faster than groups. Far outside, each query meets half of the tree, and a group meets it only
 * once. */
static bool is_inside(const knn_cores *c) {
  enum { SAMPLE = 128, MOST_OUTSIDE = 12, MOST_DIM = 32 };
  double point[MOST_DIM];
  const adj_dataset *left = c->join.left;
  adji_tree_search search = adji_tree_search_of(&c->join, c->right);
  uint32_t outside = 0;
  if (left->dim > MOST_DIM || c->right->levels < 2 || left->count < SAMPLE) return false;
  for (uint64_t i = 0; i < SAMPLE; i++) {
    adji_chunk_bounds bounds;
    if (adji_copy_point(left, i * left->count / SAMPLE, point)) return false;
    uint32_t node = adji_near_chunk(&search, point);
    adji_bound_chunk(&search, (adji_box_reach){point, point, 0}, 1, node / ADJI_FAN, &bounds);
    outside += !(bounds.near >> node % ADJI_FAN & 1);
  }
  return outside <= MOST_OUTSIDE;
}

/* Whether queries are searched one by one: if they are few compared with the right points. For k = 1 groups use vectors
 * of queries, which single queries rarely beat. */
static bool searches_one_by_one(const knn_cores *c) {
  enum { APART = 4, FAR_APART = 16 };
  const adji_join *join = &c->join;
  uint64_t left = join->left->count, right = join->right->count;
  if (c->options.shared) return false;
  if (!adji_searches_tree_at_once(join)) return left < right / FAR_APART;
  return left < right / APART || (left < right && adji_join_reach(join) > 1 && is_inside(c));
}

/* Orders the queries by thread: first all queries of thread 0, then those of thread 1, ... */
static adj_status deal_points(knn_cores *c) {
  uint64_t at = 0, count = c->order.count, lanes = c->options.lanes;
  uint32_t *rows = adji_alloc(&c->join.ctx->memory, count, sizeof *rows, "order of queries");
  if (!rows) return ADJ_E_MEMORY;
  for (uint64_t t = 0; t < lanes; t++)
    for (uint64_t row = t; row < count; row += lanes)
      rows[at++] = (uint32_t)row;
  c->order.rows = rows;
  return ADJ_OK;
}

static adj_status order_left(knn_cores *c) {
  const adji_join *join = &c->join;
  adji_tree_room room = {0};
  if (uses_paper_queue(c)) {
    c->order = (adji_point_order){.rows = c->options.rows, .count = join->left->count};
    return c->options.queue == ADJI_KNN_QUEUE_POINTS ? deal_points(c) : ADJ_OK;
  }
  c->left = join->self_join ? c->right : &c->own_left;
  if (join->self_join) return ADJ_OK;
  if (searches_one_by_one(c)) {
    c->left = NULL;
    return adji_point_order_init(join, c->right, &c->order);
  }
  adj_status status = adji_tree_build(join->ctx, join->left, c->right->leaf, &room, &c->own_left);
  adji_tree_room_clear(join->ctx, &room);
  return status;
}

adj_status adji_knn_create(const adji_join *join, const adji_lent *right, const adji_knn_options *options,
                           adji_engine *out) {
  knn_cores *c = calloc(1, sizeof *c);
  if (!c) {
    adji_give_back(right);
    adji_free(&join->ctx->memory, options->rows);
    return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  }
  c->join = *join;
  c->options = *options;
  c->lent = *right;
  c->right = right->what;
  if (!c->options.lanes) c->options.lanes = join->ctx->threads;
  adj_status status = order_left(c);
  if (!status && c->left) status = adji_narrow_init(&c->narrow, &c->join, c->left, c->right);
  if (status) {
    destroy(c);
    return status;
  }
  adji_engine_init(out, join,
                   &(adji_worker){.state = c,
                                  .name = "cpu",
                                  .fill_queue = fill_queue,
                                  .begin = begin,
                                  .process = fill_batch,
                                  .end = end,
                                  .destroy = destroy});
  out->order = c->left ? c->left->ids : c->order.rows;
  out->group = c->left ? c->left->leaf : 1;
  return ADJ_OK;
}
