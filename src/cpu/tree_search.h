/* SPDX-License-Identifier: MIT
 *
 * Points and the nodes of a kd-tree: distances between them, and the leaf that a search begins with. Queries that are
 * not points of the tree are put into the order of their chunks of leaves, so that consecutive ones meet the same
 * nodes.
 */
#ifndef ADJI_TREE_SEARCH_H
#define ADJI_TREE_SEARCH_H

#include "index/tree.h"
#include "queue/join.h"
#include "queue/queue.h"

/* A tree, and how distances to its nodes are measured. */
typedef struct adji_tree_search {
  const adji_tree *tree;
  const adji_typed_kernels *typed;
  const adji_tree_kernels *kernels;
  const adji_measure *measure;
} adji_tree_search;

static inline adji_tree_search adji_tree_search_of(const adji_join *join, const adji_tree *tree) {
  const adji_typed_kernels *typed = join->style.kernels->typed[tree->type == ADJ_F64];
  const adji_measure *measure = join->style.measure;
  return (adji_tree_search){tree, typed, &typed->tree[measure->step], measure};
}

/* The lower bounds of the nodes of a chunk. */
typedef struct adji_chunk_bounds {
  double wide[ADJI_FAN]; /* f64 */
  float narrow[ADJI_FAN];
  uint32_t near; /* bit i: node i is within reach */
  uint32_t tied; /* bit i: its bound equals the reach */
} adji_chunk_bounds;

/* A box to measure from, with dim entries per corner, and the reach. */
typedef struct adji_box_reach {
  const void *low, *high;
  double reach;
} adji_box_reach;

/* The boxes of a chunk of nodes. */
static inline const void *adji_chunk_boxes(const adji_tree *tree, uint32_t level, uint64_t chunk) {
  uint64_t bytes = (uint64_t)2 * ADJI_FAN * tree->dim * adji_type_size(tree->type);
  return (const char *)tree->level[level].bounds + chunk * bytes;
}

static inline void adji_bound_chunk(const adji_tree_search *s, adji_box_reach from, uint32_t level, uint64_t chunk,
                                    adji_chunk_bounds *out) {
  const adji_tree *tree = s->tree;
  uint64_t remaining = tree->level[level].count - chunk * ADJI_FAN;
  uint32_t valid = (UINT32_C(1) << (remaining < ADJI_FAN ? remaining : ADJI_FAN)) - 1;
  uint32_t near =
      s->kernels->box_bounds(s->measure, from.low, from.high, tree->dim, adji_chunk_boxes(tree, level, chunk),
                             from.reach, tree->type == ADJ_F64 ? (void *)out->wide : (void *)out->narrow);
  out->near = near & valid;
  out->tied = near >> ADJI_BOX_LANES & valid;
}

static inline double adji_bound_at(const adji_tree_search *s, const adji_chunk_bounds *bounds, uint32_t i) {
  return s->tree->type == ADJ_F64 ? bounds->wide[i] : (double)bounds->narrow[i];
}

/* The chunk of leaves near a point (dim coordinates): the search goes from the root to the nearest node of each level.
 * The tree must have points. */
static inline uint32_t adji_near_chunk(const adji_tree_search *s, const void *point) {
  uint32_t chunk;
  s->typed->locate(s->tree->level, s->tree->levels, s->tree->dim, point, 1, &chunk);
  return chunk;
}

/* The nearest leaf of a chunk. */
uint64_t adji_near_leaf(const adji_tree_search *s, const void *point, uint64_t chunk);

/* Copies the coordinates of a row. ADJ_E_DATA if they are no longer finite. */
adj_status adji_copy_point(const adj_dataset *set, uint64_t row, void *to);

/* The order in which the queries of a join are searched one by one, each with the chunk of leaves near it. */
typedef struct adji_point_order {
  uint64_t *items; /* chunk << 32 | row, ascending. NULL: query i is row i, and its chunk is not known */
  uint32_t *rows;  /* rows of the items */
  uint64_t count;
} adji_point_order;

/* A few queries stay in the order of their rows. Time: O(n log m). Memory: 12 bytes per query, 8 more while sorting. */
adj_status adji_point_order_init(const adji_join *join, const adji_tree *tree, adji_point_order *out);
void adji_point_order_clear(adj_ctx *ctx, adji_point_order *order);

static inline uint32_t adji_point_row(const adji_point_order *order, uint64_t i) {
  return order->rows ? order->rows[i] : (uint32_t)i;
}

/* Whether there are several queries for a chunk of leaves, so that neighbours in the order are neighbours in space. */
static inline bool adji_point_order_is_dense(const adji_point_order *order, const adji_tree *tree) {
  enum { QUERIES_A_CHUNK = 4 };
  return order->items && order->count * ADJI_FAN * tree->leaf >= QUERIES_A_CHUNK * tree->count;
}

/* Whether queries are ordered and most chunks have one or none, in dimensions in which few leaves are near. */
static inline bool adji_point_order_is_sparse(const adji_point_order *order, const adji_tree *tree) {
  return order->items && tree->levels > 1 && tree->dim <= ADJI_FEW_DIMS && !adji_point_order_is_dense(order, tree);
}

/* The chunk of query i, or ADJI_NO_CHUNK. */
#define ADJI_NO_CHUNK UINT64_MAX
static inline uint64_t adji_point_chunk(const adji_point_order *order, uint64_t i) {
  return order->items ? order->items[i] >> 32 : ADJI_NO_CHUNK;
}

/* The nodes of level 1 near consecutive queries with the same chunk. Their searches begin there, not at the root. */
typedef struct adji_near_nodes {
  adji_leaves nodes; /* in ascending order */
  void *box;         /* around the queries: dim lows, then dim highs */
  uint64_t begin, end;
  double limit; /* all nodes with lower bounds up to this are listed */
  bool usable;  /* false: there are too many nodes, or too few queries */
} adji_near_nodes;

/* Starts zeroed. After a failure it must still be cleared. */
adj_status adji_near_nodes_init(adji_near_nodes *near, const adji_tree *tree);
void adji_near_nodes_clear(adji_near_nodes *near, const adji_tree *tree);

/* Returns the nodes for query i of a batch. They are found anew if those of the last query do not serve. NULL: search
 * from the root. */
const adji_leaves *adji_near_nodes_at(adji_near_nodes *near, const adji_tree_search *s, const adj_dataset *left,
                                      const adji_point_order *order, uint64_t i, double limit);

/* Prefetches the parts of the tree that queries some places after query i will need. To be called for every query of a
 * batch. */
void adji_fetch_nodes(const adji_tree *tree, const adji_point_order *order, uint64_t i, const adji_batch *batch);

/* The same for a sparse order: also prefetches the leaves within `reach` of the next queries. */
void adji_fetch_sparse(const adji_tree_search *s, const adj_dataset *left, const adji_point_order *order, uint64_t i,
                       const adji_batch *batch, double reach);

/* Fills a queue with batches of `each` queries; 0: enough batches to keep all threads busy. */
adj_status adji_point_batches(adj_ctx *ctx, uint64_t queries, uint64_t each, adji_queue *queue);

#endif
