/* SPDX-License-Identifier: MIT
 *
 * Points and the nodes of a kd-tree: see tree_search.h.
 */
#include "cpu/tree_search.h"

#include "index/radix_sort.h"

/* ---- The leaf near a point ------------------------------------------------------------------------------ */

/* The node of a chunk that is nearest to the point. Bounds are there for all nodes, within reach or not. */
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

uint64_t adji_near_leaf(const adji_tree_search *s, const void *point) {
  uint64_t node = 0;
  for (uint32_t level = s->tree->levels; level-- > 0;)
    node = node * ADJI_FAN + nearest_node(s, point, level, node);
  return node;
}

static void fetch_bytes(const void *at, uint64_t bytes) {
  enum { LINE = 64, MOST_LINES = 16 };
  for (uint64_t i = 0; i < bytes && i < (uint64_t)MOST_LINES * LINE; i += LINE)
    __builtin_prefetch((const char *)at + i);
}

void adji_fetch_leaf(const adji_tree *tree, uint64_t leaf) {
  uint64_t size = adji_type_size(tree->type), points = (uint64_t)tree->leaf * tree->dim * size;
  fetch_bytes((const char *)tree->coords + leaf * points, points);
  fetch_bytes(tree->ids + leaf * tree->leaf, tree->leaf * sizeof *tree->ids);
  fetch_bytes(adji_chunk_boxes(tree, 0, leaf / ADJI_FAN), (uint64_t)2 * ADJI_FAN * tree->dim * size);
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

/* Fewer are in the cache whatever their order. */
enum { FEW_QUERIES = 256, SLICE = 1024 };

typedef struct locating {
  const adji_join *join;
  adji_tree_search search;
  adji_point_order *order;
  void *points; /* one for each lane */
  uint64_t point_bytes;
} locating;

static adj_status locate_slice(void *user, uint64_t task, uint32_t lane) {
  const locating *l = user;
  void *point = (char *)l->points + lane * l->point_bytes;
  uint64_t end = (task + 1) * SLICE < l->order->count ? (task + 1) * SLICE : l->order->count;
  adj_status status = ADJ_OK;
  for (uint64_t i = task * SLICE; i < end && !status; i++) {
    status = adji_copy_point(l->join->left, i, point);
    l->order->items[i] = adji_near_leaf(&l->search, point) << 32 | i;
  }
  return status;
}

static void list_rows(void *user, uint64_t begin, uint64_t end) {
  const adji_point_order *order = user;
  for (uint64_t i = begin; i < end; i++)
    order->rows[i] = (uint32_t)order->items[i];
}

static adj_status sort_items(const adji_join *join, const adji_tree *tree, adji_point_order *order) {
  adj_ctx *ctx = join->ctx;
  uint64_t leaves = tree->level[0].count;
  uint64_t *spare = adji_alloc(&ctx->memory, order->count, sizeof *spare, "order of queries");
  if (!spare) return ADJ_E_MEMORY;
  uint32_t bits = leaves > 1 ? 64 - (uint32_t)__builtin_clzll(leaves - 1) : 1;
  adj_status status = adji_radix_sort(ctx, &order->items, &spare, order->count, 32, bits);
  adji_free(&ctx->memory, spare);
  return status ? status : adji_loop_slices(ctx, order->count, order->count / SLICE + 1, list_rows, order);
}

adj_status adji_point_order_init(const adji_join *join, const adji_tree *tree, adji_point_order *out) {
  adj_ctx *ctx = join->ctx;
  *out = (adji_point_order){.count = join->left->count};
  if (out->count <= FEW_QUERIES || !tree->levels) return ADJ_OK;
  locating l = {.join = join, .search = adji_tree_search_of(join, tree), .order = out};
  l.point_bytes = (tree->dim * (uint64_t)adji_type_size(tree->type) + 127) / 64 * 64;
  l.points = adji_alloc(&ctx->memory, ctx->threads, l.point_bytes, "order of queries");
  out->items = adji_alloc(&ctx->memory, out->count, sizeof *out->items, "order of queries");
  out->rows = adji_alloc(&ctx->memory, out->count, sizeof *out->rows, "order of queries");
  adj_status status = l.points && out->items && out->rows ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_loop(ctx, (out->count + SLICE - 1) / SLICE, locate_slice, &l);
  if (!status) status = sort_items(join, tree, out);
  adji_free(&ctx->memory, l.points);
  if (status) adji_point_order_clear(ctx, out);
  return status;
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
