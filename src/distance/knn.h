/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of a few queries among the leaves of a kd-tree: the types shared by the kernels of all
 * instruction sets (knn_body.h) and their caller (cpu/knn_group.c).
 */
#ifndef ADJI_KNN_H
#define ADJI_KNN_H

#include <stdint.h>

#include "distance/step_kinds.h"

enum {
  ADJI_LEAF = 16,                               /* points per leaf; leaves may have two or four times as many */
  ADJI_LEAVES = 128,                            /* leaves searched per call */
  ADJI_KNN_MOST_K = 64,                         /* the longest list kept sorted; longer ones go through a buffer */
  ADJI_KNN_TREE_MOST_K = 16,                    /* the same if one query searches a whole tree in one call */
  ADJI_BOX_LANES = 16,                          /* boxes compared at once, at most */
  ADJI_LEAF_ROOM = ADJI_LEAVES + ADJI_BOX_LANES /* vectors may be written past the last leaf */
};

enum { ADJI_FAN = 16, ADJI_TREE_LEVELS = 8, ADJI_NEAR_NODES = 32, ADJI_TREE_STEP = ADJI_NEAR_NODES * ADJI_FAN };

/* The nodes of a level of a kd-tree, in chunks of ADJI_FAN: chunk c holds the children of node c of the level above.
 * The bounds of a chunk are, per dimension, ADJI_FAN lows, then ADJI_FAN highs. Nodes that pad the last chunk have low
 * > high. */
typedef struct adji_tree_level {
  uint64_t count;
  void *bounds;
  uint32_t *least_ids; /* the smallest id in each node */
} adji_tree_level;

/* Leaves that may hold neighbours, with their boxes. The bounds of dimension j are ADJI_LEAF_ROOM lows from entry
 * 2 * j * ADJI_LEAF_ROOM on, then as many highs. */
typedef struct adji_leaves {
  uint32_t count;
  uint32_t number[ADJI_LEAF_ROOM];
  uint32_t least_ids[ADJI_LEAF_ROOM];
  void *bounds;
} adji_leaves;

/* A neighbour in a list. For f32 it is one integer, the bits of the sum above the id. Sums are not negative, so their
 * bits order as the sums do. */
typedef uint64_t adji_near_f32;
typedef struct adji_near_f64 {
  double sum;
  uint64_t id;
} adji_near_f64;

/* One search: some queries, some leaves, and a list per query. A list holds the k best neighbours so far in ascending
 * order. A list that is not full ends with entries of the limit and ADJ_NO_ID. */
typedef struct adji_knn_task {
  /* The leaves of the tree, see index/tree.h. */
  const void *coords;
  const uint32_t *ids;
  uint32_t dim, leaf;
  /* Query q has dim coordinates from entry q * dim on. A query is not its own neighbour: own[q] is the id to exclude,
   * or ADJ_NO_ID. */
  const void *queries;
  const uint32_t *own;
  uint32_t query_count;
  const adji_leaves *leaves;
  const adji_measure *measure;
  uint32_t k;           /* at most ADJI_KNN_MOST_K */
  void *best;           /* list of query q: from byte q * best_stride on; its room is a multiple of 8 keys */
  uint64_t best_stride; /* a multiple of 64 */
  double limit;         /* the largest sum allowed in new lists */
  uint64_t candidates;  /* the number of compared candidates is added */
  /* Leaves of one chunk that were visited before. Used only where task->leaves are nodes (knn_near_body.h). */
  uint64_t first_seen, end_seen;
} adji_knn_task;

/* Appends the points of the leaves whose sum with the first query is at most limit to ids and sums. Both have room for
 * all points of the leaves and ADJI_BOX_LANES more. Returns the number of points appended. */
typedef uint32_t (*adji_list_leaves_fn)(adji_knn_task *task, double limit, uint32_t *ids, void *sums);

/* Nodes that a search of a tree must still open: node `number` of level `level`, whose children are chunk `number` of
 * the level below. */
typedef struct adji_tree_stack {
  uint32_t depth;
  struct {
    uint32_t level, number;
  } nodes[ADJI_TREE_LEVELS * ADJI_FAN];
} adji_tree_stack;

/* The points that such a search has found. The arrays have ADJI_BOX_LANES more entries than `room`. */
typedef struct adji_tree_found {
  uint32_t *ids;
  void *sums;
  uint32_t count, room;
} adji_tree_found;

/* Appends the points of a tree whose sum with the first query is at most limit. Returns when the stack is empty, or
 * when the room might be too small for the points of another ADJI_TREE_STEP leaves. level: all levels of the tree.
 * task->leaves is not used. */
typedef void (*adji_list_tree_fn)(adji_knn_task *task, const adji_tree_level *level, double limit,
                                  adji_tree_stack *stack, adji_tree_found *found);

/* The same for the leaves below the nodes of level 1 in task->leaves, at most ADJI_NEAR_NODES nodes. There must be room
 * for the points of ADJI_TREE_STEP leaves. level: the level of the leaves. */
typedef void (*adji_list_near_fn)(adji_knn_task *task, const adji_tree_level *level, double limit,
                                  adji_tree_found *found);

/* Finds the chunk of leaves near each of `count` points, dim coordinates each: from the root, it takes the nearest node
 * of each level by L2. */
typedef void (*adji_locate_fn)(const adji_tree_level *level, uint32_t levels, uint32_t dim, const void *points,
                               uint32_t count, uint32_t *chunks);

/* Writes the list of the first query: the k nearest points of a whole tree by L2, k up to ADJI_KNN_TREE_MOST_K. first:
 * the chunk of leaves to begin with, near the query. task->leaves is not used. */
typedef void (*adji_knn_tree_fn)(adji_knn_task *task, const adji_tree_level *level, uint32_t levels, uint64_t first);

/* Merges the points below task->leaves, which are nodes of level 1 here, into the lists of all queries, by L2. leaves:
 * level 0 of the tree, with ADJI_LEAF points per leaf. */
typedef void (*adji_knn_near_fn)(adji_knn_task *task, const adji_tree_level *leaves);

/* Writes the list of the first query: the k nearest of `count` candidates, k up to ADJI_KNN_MOST_K. Both arrays
 * can be read ADJI_BOX_LANES entries past the last. */
typedef void (*adji_knn_select_fn)(adji_knn_task *task, const uint32_t *ids, const void *sums, uint32_t count);

typedef struct adji_tree_kernels {
  void (*knn)(adji_knn_task *task); /* merges the points of the leaves into the lists of all queries */
  adji_list_leaves_fn list_leaves;
  adji_list_tree_fn list_tree;
  adji_list_near_fn list_near;
  /* Computes lower bounds of the sums between points of one box and points of ADJI_BOX_LANES others, which are laid out
   * like a chunk of the tree. low, high: the one box, dim entries each. Bit i of the result is set iff bound i is at
   * most `reach`, and bit ADJI_BOX_LANES + i iff it is equal to it. */
  uint32_t (*box_bounds)(const adji_measure *measure, const void *low, const void *high, uint32_t dim,
                         const void *chunk, double reach, void *bounds);
} adji_tree_kernels;

static inline adji_near_f32 adji_near_make_f32(float sum, uint32_t id) {
  union {
    float value;
    uint32_t bits;
  } s = {.value = sum};
  return (uint64_t)s.bits << 32 | id;
}

static inline float adji_near_sum_f32(adji_near_f32 near) {
  union {
    uint32_t bits;
    float value;
  } s = {.bits = (uint32_t)(near >> 32)};
  return s.value;
}

static inline uint32_t adji_near_id_f32(adji_near_f32 near) {
  return (uint32_t)near;
}

static inline adji_near_f64 adji_near_make_f64(double sum, uint32_t id) {
  return (adji_near_f64){sum, id};
}

static inline double adji_near_sum_f64(adji_near_f64 near) {
  return near.sum;
}

static inline uint32_t adji_near_id_f64(adji_near_f64 near) {
  return (uint32_t)near.id;
}

/* Inserts a neighbour into a list, unless it comes after all its entries. */
static inline void adji_near_insert_f32(adji_near_f32 *best, uint32_t k, adji_near_f32 near) {
  uint32_t i = k - 1;
  if (near >= best[i]) return;
  for (; i && best[i - 1] > near; i--)
    best[i] = best[i - 1];
  best[i] = near;
}

static inline void adji_near_insert_f64(adji_near_f64 *best, uint32_t k, adji_near_f64 near) {
  uint32_t i = k - 1;
  if (best[i].sum < near.sum || (best[i].sum == near.sum && best[i].id <= near.id)) return;
  for (; i && (best[i - 1].sum > near.sum || (best[i - 1].sum == near.sum && best[i - 1].id > near.id)); i--)
    best[i] = best[i - 1];
  best[i] = near;
}

#endif
