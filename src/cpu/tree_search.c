/* SPDX-License-Identifier: MIT
 *
 * Points and the nodes of a kd-tree: see tree_search.h.
 */
#include "cpu/tree_search.h"

#include "index/radix_sort.h"

/* ---- The leaf near a point ------------------------------------------------------------------------------ */

/* The node of a chunk that is nearest to the point. Bounds are computed for all nodes, also for those out of reach. */
static uint32_t nearest_node(const adji_tree_search *s, const void *point, uint32_t level, uint64_t chunk) {
  adji_chunk_bounds bounds;
  adji_bound_chunk(s, (adji_box_reach){point, point, 0}, level, chunk, &bounds);
  if (bounds.near) return (uint32_t)__builtin_ctz(bounds.near);
  uint64_t count = s->tree->level[level].count - chunk * ADJI_FAN;
  uint32_t nearest = 0;
  for (uint32_t i = 1; i < ADJI_FAN && i < count; i++)
    nearest = adji_bound_at(s, &bounds, i) < adji_bound_at(s, &bounds, nearest) ? i : nearest;
  return nearest;
}

uint64_t adji_near_leaf(const adji_tree_search *s, const void *point, uint64_t chunk) {
  return chunk * ADJI_FAN + nearest_node(s, point, 0, chunk);
}

/* ---- Queries -------------------------------------------------------------------------------------------- */

#define COPY(T)                                                          \
  static bool copy_##T(const adj_dataset *set, uint64_t row, T *to) {    \
    const char *from = set->data + row * set->row_stride;                \
    bool finite = true;                                                  \
    for (uint32_t j = 0; j < set->dim; j++) {                            \
      to[j] = *(const T *)(const void *)(from + j * set->column_stride); \
      finite &= adji_is_finite(to[j]);                                   \
    }                                                                    \
    return finite;                                                       \
  }
COPY(float)
COPY(double)

adj_status adji_copy_point(const adj_dataset *set, uint64_t row, void *to) {
  bool finite = set->type == ADJ_F64 ? copy_double(set, row, to) : copy_float(set, row, to);
  return finite ? ADJ_OK : adji_points_changed();
}

/* Fewer queries than this are in the cache whatever their order. */
enum { FEW_QUERIES = 256, SLICE = 1024, BLOCK = 32 };

typedef struct locating {
  const adji_join *join;
  adji_tree_search search;
  adji_point_order *order;
  void *points; /* a block of points for each lane */
  uint64_t point_bytes, block_bytes;
} locating;

static adj_status locate_slice(void *user, uint64_t task, uint32_t lane) {
  const locating *l = user;
  const adji_tree *tree = l->search.tree;
  char *points = (char *)l->points + lane * l->block_bytes;
  uint64_t end = (task + 1) * SLICE < l->order->count ? (task + 1) * SLICE : l->order->count;
  uint32_t chunks[BLOCK];
  for (uint64_t i = task * SLICE; i < end; i += BLOCK) {
    uint32_t many = end - i < BLOCK ? (uint32_t)(end - i) : BLOCK;
    for (uint32_t p = 0; p < many; p++) {
      adj_status status = adji_copy_point(l->join->left, i + p, points + p * l->point_bytes);
      if (status) return status;
    }
    l->search.typed->locate(tree->level, tree->levels, tree->dim, points, many, chunks);
    for (uint32_t p = 0; p < many; p++)
      l->order->items[i + p] = (uint64_t)chunks[p] << 32 | (i + p);
  }
  return ADJ_OK;
}

static void list_rows(void *user, uint64_t begin, uint64_t end) {
  const adji_point_order *order = user;
  for (uint64_t i = begin; i < end; i++)
    order->rows[i] = (uint32_t)order->items[i];
}

static adj_status sort_items(const adji_join *join, const adji_tree *tree, adji_point_order *order) {
  adj_ctx *ctx = join->ctx;
  uint64_t chunks = (tree->level[0].count + ADJI_FAN - 1) / ADJI_FAN;
  adji_sorted sorted = {.items = order->items};
  sorted.spare = adji_alloc(&ctx->memory, order->count, sizeof *sorted.spare, "order of queries");
  if (!sorted.spare) return ADJ_E_MEMORY;
  uint32_t bits = chunks > 1 ? 64 - (uint32_t)__builtin_clzll(chunks - 1) : 1;
  adj_status status = adji_radix_sort(ctx, &sorted, order->count, 32, bits);
  order->items = sorted.items;
  adji_free(&ctx->memory, sorted.spare);
  return status ? status : adji_loop_slices(ctx, order->count, order->count / SLICE + 1, list_rows, order);
}

adj_status adji_point_order_init(const adji_join *join, const adji_tree *tree, adji_point_order *out) {
  adj_ctx *ctx = join->ctx;
  *out = (adji_point_order){.count = join->left->count};
  if (out->count <= FEW_QUERIES || !tree->levels) return ADJ_OK;
  locating l = {.join = join, .search = adji_tree_search_of(join, tree), .order = out};
  l.point_bytes = tree->dim * (uint64_t)adji_type_size(tree->type);
  l.block_bytes = (BLOCK * l.point_bytes + 127) / 64 * 64;
  l.points = adji_alloc(&ctx->memory, ctx->threads, l.block_bytes, "order of queries");
  out->items = adji_alloc(&ctx->memory, out->count, sizeof *out->items, "order of queries");
  out->rows = adji_alloc(&ctx->memory, out->count, sizeof *out->rows, "order of queries");
  adj_status status = l.points && out->items && out->rows ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_loop(ctx, (out->count + SLICE - 1) / SLICE, locate_slice, &l);
  if (!status) status = sort_items(join, tree, out);
  adji_free(&ctx->memory, l.points);
  if (status) adji_point_order_clear(ctx, out);
  return status;
}

/* ---- Prefetching ------------------------------------------------------------------------------------------- */

enum { LINE = 64 };

static void fetch_bytes(const void *at, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += LINE)
    __builtin_prefetch((const char *)at + i, 0, 2);
}

static void fetch_chunk_boxes(const adji_tree *tree, uint64_t chunk) {
  fetch_bytes(adji_chunk_boxes(tree, 0, chunk), (uint64_t)2 * ADJI_FAN * tree->dim * adji_type_size(tree->type));
}

/* If there are many queries per chunk, they need all of it and parts of the chunks around it, which have similar
 * numbers. If there is at most one, it needs the chunk's boxes and a few of its leaves. */
enum { BOXES_AHEAD = 4, CHUNKS_AHEAD = 128 };

void adji_fetch_nodes(const adji_tree *tree, const adji_point_order *order, uint64_t i, const adji_batch *batch) {
  if (!order->items) return;
  uint64_t size = adji_type_size(tree->type), points = (uint64_t)ADJI_FAN * tree->leaf;
  bool dense = adji_point_order_is_dense(order, tree) && tree->dim <= ADJI_FEW_DIMS;
  uint64_t ahead = dense ? CHUNKS_AHEAD : BOXES_AHEAD;
  for (uint64_t at = i == batch->begin ? i : i + ahead; at <= i + ahead && at < batch->end; at++) {
    uint64_t chunk = adji_point_chunk(order, at);
    if (at > batch->begin && chunk == adji_point_chunk(order, at - 1)) continue;
    fetch_chunk_boxes(tree, chunk);
    if (!dense || (chunk + 1) * points > tree->count) continue;
    fetch_bytes((const char *)tree->coords + chunk * points * tree->dim * size, points * tree->dim * size);
    fetch_bytes(tree->ids + chunk * points, points * sizeof *tree->ids);
  }
}

static void fetch_chunk_leaves(const adji_tree_search *s, adji_box_reach from, uint64_t chunk) {
  const adji_tree *tree = s->tree;
  uint64_t row = tree->dim * (uint64_t)adji_type_size(tree->type);
  adji_chunk_bounds bounds;
  adji_bound_chunk(s, from, 0, chunk, &bounds);
  for (uint32_t near = bounds.near; near; near &= near - 1) {
    uint64_t first = (chunk * ADJI_FAN + (uint32_t)__builtin_ctz(near)) * tree->leaf;
    fetch_bytes((const char *)tree->coords + first * row, tree->leaf * row);
    fetch_bytes(tree->ids + first, tree->leaf * sizeof *tree->ids);
  }
}

/* Sparse searches would wait for memory at every chunk and every leaf. Boxes are fetched first, FIRST_AHEAD queries
 * ahead. Once they have arrived, LEAVES_AHEAD queries ahead, the leaves within reach are fetched. */
enum { FIRST_AHEAD = 4, LEAVES_AHEAD = 2 };

void adji_fetch_sparse(const adji_tree_search *s, const adj_dataset *left, const adji_point_order *order, uint64_t i,
                       const adji_batch *batch, double reach) {
  for (uint32_t ahead = LEAVES_AHEAD; ahead <= FIRST_AHEAD && i + ahead < batch->end; ahead += LEAVES_AHEAD) {
    double point[ADJI_FEW_DIMS];
    if (adji_copy_point(left, adji_point_row(order, i + ahead), point)) return;
    uint64_t above = adji_point_chunk(order, i + ahead) / ADJI_FAN;
    adji_box_reach from = {point, point, reach};
    adji_chunk_bounds bounds;
    adji_bound_chunk(s, from, 1, above, &bounds);
    for (uint32_t near = bounds.near; near; near &= near - 1) {
      uint64_t chunk = above * ADJI_FAN + (uint32_t)__builtin_ctz(near);
      if (ahead == FIRST_AHEAD)
        fetch_chunk_boxes(s->tree, chunk);
      else
        fetch_chunk_leaves(s, from, chunk);
    }
  }
}

/* ---- Nodes that consecutive queries share ------------------------------------------------------------------ */

/* Queries that share nodes. For fewer than FEWEST_SHARING a search from the root takes no longer. */
enum { FEWEST_SHARING = 4, MOST_SHARING = 64 };

adj_status adji_near_nodes_init(adji_near_nodes *near, const adji_tree *tree) {
  adji_memory *memory = &tree->ctx->memory;
  size_t size = adji_type_size(tree->type);
  near->nodes.bounds = adji_alloc_zero(memory, (uint64_t)2 * tree->dim * ADJI_LEAF_ROOM, size, "nodes near queries");
  near->box = adji_alloc(memory, 2 * (uint64_t)tree->dim, size, "nodes near queries");
  return near->nodes.bounds && near->box ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_near_nodes_clear(adji_near_nodes *near, const adji_tree *tree) {
  adji_free(&tree->ctx->memory, near->nodes.bounds);
  adji_free(&tree->ctx->memory, near->box);
  *near = (adji_near_nodes){0};
}

/* The box around some queries. */
#define BOX(T)                                                                                                        \
  static void box_##T(const adj_dataset *left, const adji_point_order *order, uint64_t begin, uint64_t end, T *low) { \
    T *high = low + left->dim;                                                                                        \
    for (uint64_t i = begin; i < end; i++) {                                                                          \
      const char *row = left->data + adji_point_row(order, i) * left->row_stride;                                     \
      for (uint32_t j = 0; j < left->dim; j++) {                                                                      \
        T x = *(const T *)(const void *)(row + j * left->column_stride);                                              \
        low[j] = i == begin || x < low[j] ? x : low[j];                                                               \
        high[j] = i == begin || x > high[j] ? x : high[j];                                                            \
      }                                                                                                               \
    }                                                                                                                 \
  }
BOX(float)
BOX(double)

/* Appends the nodes of level 1 below a chunk of a level. False: there are too many nodes. */
static bool add_nodes(adji_near_nodes *near, const adji_tree_search *s, uint32_t level, uint64_t chunk) {
  const adji_tree *tree = s->tree;
  const char *box = near->box;
  adji_box_reach from = {box, box + (uint64_t)tree->dim * adji_type_size(tree->type), near->limit};
  adji_chunk_bounds bounds;
  adji_bound_chunk(s, from, level, chunk, &bounds);
  if (level == 1) {
    s->typed->add_leaves(&near->nodes, tree->dim, bounds.near, (uint32_t)(chunk * ADJI_FAN),
                         adji_chunk_boxes(tree, 1, chunk), tree->level[1].least_ids + chunk * ADJI_FAN);
    return near->nodes.count <= ADJI_NEAR_NODES;
  }
  for (; bounds.near; bounds.near &= bounds.near - 1)
    if (!add_nodes(near, s, level - 1, chunk * ADJI_FAN + (uint32_t)__builtin_ctz(bounds.near))) return false;
  return true;
}

/* A node that is not listed has a lower bound above the limit for all points of the box, and so for every query. */
const adji_leaves *adji_near_nodes_at(adji_near_nodes *near, const adji_tree_search *s, const adj_dataset *left,
                                      const adji_point_order *order, uint64_t i, double limit) {
  if (!order->items || s->tree->levels < 2) return NULL;
  if (i < near->begin || i >= near->end || limit > near->limit) {
    uint64_t chunk = adji_point_chunk(order, i), end = i + 1;
    while (end < order->count && end - i < MOST_SHARING && adji_point_chunk(order, end) == chunk)
      end++;
    near->begin = i;
    near->end = end;
    near->limit = limit;
    near->nodes.count = 0;
    near->usable = end - i >= FEWEST_SHARING;
    if (near->usable && s->tree->type == ADJ_F64)
      box_double(left, order, i, end, near->box);
    else if (near->usable)
      box_float(left, order, i, end, near->box);
    near->usable = near->usable && add_nodes(near, s, s->tree->levels - 1, 0);
  }
  return near->usable ? &near->nodes : NULL;
}

void adji_point_order_clear(adj_ctx *ctx, adji_point_order *order) {
  adji_free(&ctx->memory, order->items);
  adji_free(&ctx->memory, order->rows);
  *order = (adji_point_order){0};
}

adj_status adji_point_batches(adj_ctx *ctx, uint64_t queries, uint64_t each, adji_queue *queue) {
  enum { LEAST = 64, MOST = 1024, BATCHES_A_THREAD = 16 };
  if (!each) {
    each = queries / ((uint64_t)BATCHES_A_THREAD * ctx->threads);
    each = each < LEAST ? LEAST : each > MOST ? MOST : each;
  }
  adj_status status = adji_queue_init(queue, ctx, queries / each + 1);
  for (uint64_t i = 0; i < queries && !status; i += each) {
    uint64_t end = i + each < queries ? i + each : queries;
    status = adji_queue_add(queue, (adji_batch){(uint32_t)i, (uint32_t)end, (double)(end - i)});
  }
  return status;
}
