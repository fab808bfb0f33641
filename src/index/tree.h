/* SPDX-License-Identifier: MIT
 *
 * The kd-tree: points cut in halves along the dimension in which they are spread widest, again and again
 * down to leaves. It is stored without a pointer: leaves are blocks of the same number of points in the
 * order of the tree, and a node of level l + 1 is ADJI_FAN consecutive nodes of level l. Cuts are at
 * multiples of what a node of the level holds, so every node is a box cut out of its parent's.
 *
 * Depth depends on the number of points alone: duplicates and collinear points are cut by number.
 *
 * Points keep the order of their ids through every cut, so the ids of a leaf ascend, and equal points
 * are in the order of their ids throughout.
 */
#ifndef ADJI_TREE_H
#define ADJI_TREE_H

#include "data/dataset.h"
#include "distance/knn.h"

enum { ADJI_FAN = 16, ADJI_TREE_LEVELS = 8, ADJI_MAX_LEAF = 4 * ADJI_LEAF };

/* A level's nodes, in chunks of ADJI_FAN: chunk c holds the children of node c of the level above. Its
 * bounds are, per dimension, ADJI_FAN lows, then ADJI_FAN highs. Nodes that fill up the last chunk
 * have low > high. */
typedef struct adji_tree_level {
  uint64_t count;
  void *bounds;
  uint32_t *least_ids; /* the smallest id in each node */
} adji_tree_level;

typedef struct adji_tree {
  adj_ctx *ctx;
  adj_type type;
  uint32_t dim, leaf; /* leaf: points a leaf, ADJI_LEAF times 1, 2 or 4                           */
  uint64_t count;
  uint32_t levels; /* level 0: the leaves; the last has at most ADJI_FAN nodes; 0: no points   */
  adji_tree_level level[ADJI_TREE_LEVELS];
  /* Leaf b: per dimension, `leaf` coordinates, from entry b * dim * leaf on; its ids from b * leaf on. The
   * last leaf is filled up with NaN, which no comparison takes for near, and ADJ_NO_ID. */
  void *coords;
  uint32_t *ids;
} adji_tree;

/* Room to build in, for one tree after the other of the same dimension and type; begins zeroed. */
typedef struct adji_tree_room {
  uint64_t points;
  void *coords;
  uint32_t *ids;
  void *scratch;
} adji_tree_room;

/* Time: O(n log n), in parallel. Memory: dim * sizeof(T) + 4 bytes a point, and 2 * dim * sizeof(T) + 4 a
 * leaf and 1/15 of that for the nodes above; while building, dim * sizeof(T) + 4 bytes a point more, and sizeof(T):
 * the room, which stays until it is cleared. */
adj_status adji_tree_build(adj_ctx *ctx, const adj_dataset *set, uint32_t leaf, adji_tree_room *room, adji_tree *out);
void adji_tree_room_clear(adj_ctx *ctx, adji_tree_room *room);
void adji_tree_clear(adji_tree *tree);

/* The points of leaf number `leaf`. */
static inline uint32_t adji_tree_leaf_count(const adji_tree *tree, uint64_t leaf) {
  uint64_t rest = tree->count - leaf * tree->leaf;
  return rest < tree->leaf ? (uint32_t)rest : tree->leaf;
}

#endif
