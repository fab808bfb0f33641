/* SPDX-License-Identifier: MIT
 *
 * The kd-tree for kNN joins on cores: points are cut in halves along the dimension with the widest spread, down to
 * leaves. It has no pointers. Leaves are blocks of equally many points in tree order, and a node of level l + 1 is
 * ADJI_FAN consecutive nodes of level l. Cuts are at multiples of the points that a node of the level holds, so every
 * node is a box cut out of its parent's box.
 *
 * The depth depends on the number of points alone: duplicates and collinear points are cut by number.
 *
 * Points keep the order of their ids through every cut. So the ids of a leaf ascend, and equal points are in the order
 * of their ids everywhere.
 */
#ifndef ADJI_TREE_H
#define ADJI_TREE_H

#include "data/dataset.h"
#include "distance/knn.h"

enum { ADJI_MAX_LEAF = 4 * ADJI_LEAF };

typedef struct adji_tree {
  adj_ctx *ctx;
  adj_type type;
  uint32_t dim, leaf; /* leaf: points per leaf, ADJI_LEAF times 1, 2 or 4 */
  uint64_t count;
  uint32_t levels; /* level 0: the leaves; the last level has at most ADJI_FAN nodes; 0: no points */
  adji_tree_level level[ADJI_TREE_LEVELS];
  /* Leaf b: per dimension, `leaf` coordinates from entry b * dim * leaf on; its ids from b * leaf on. The last leaf is
   * padded with NaN, which never compares as near, and with ADJ_NO_ID. */
  void *coords;
  uint32_t *ids;
} adji_tree;

/* Buffers for building, reusable for trees of the same dimension and type. Starts zeroed. */
typedef struct adji_tree_room {
  uint64_t points;
  void *coords;
  uint32_t *ids;
  void *scratch;
} adji_tree_room;

/* Time: O(n log n), in parallel. Memory: dim * sizeof(T) + 4 bytes per point; 2 * dim * sizeof(T) + 4 per leaf, and
 * 1/15 of that for the nodes above. The build needs another dim * sizeof(T) + 4 bytes per point, and sizeof(T): these
 * buffers stay in `room` until it is cleared. */
adj_status adji_tree_build(adj_ctx *ctx, const adj_dataset *set, uint32_t leaf, adji_tree_room *room, adji_tree *out);
void adji_tree_room_clear(adj_ctx *ctx, adji_tree_room *room);
void adji_tree_clear(adji_tree *tree);

/* The number of points of leaf number `leaf`. */
static inline uint32_t adji_tree_leaf_count(const adji_tree *tree, uint64_t leaf) {
  uint64_t rest = tree->count - leaf * tree->leaf;
  return rest < tree->leaf ? (uint32_t)rest : tree->leaf;
}

#endif
