/* SPDX-License-Identifier: MIT
 *
 * The k nearest of a few queries among the leaves of a tree: what the kernels of every instruction set
 * share (knn_body.h).
 */
#ifndef ADJI_KNN_H
#define ADJI_KNN_H

#include <stdint.h>

#include "distance/measure.h"

enum {
  ADJI_LEAF = 16,       /* points of a leaf, or twice or four times that                         */
  ADJI_LEAVES = 128,    /* leaves that are looked at in one go                                   */
  ADJI_KNN_MOST_K = 64, /* the most neighbours that are kept in order; more go through a buffer */
  ADJI_BOX_LANES = 16   /* boxes compared at once, at most                                       */
};

/* Leaves that may hold neighbours, with their boxes: in dimension j, ADJI_LEAVES lows from entry
 * 2 * j * ADJI_LEAVES of bounds on, then as many highs. */
typedef struct adji_leaves {
  uint32_t count;
  uint32_t number[ADJI_LEAVES + ADJI_BOX_LANES];
  uint32_t least_ids[ADJI_LEAVES + ADJI_BOX_LANES];
  void *bounds;
} adji_leaves;

/* A neighbour in a list. Of f32 it is one number, the bits of the sum above the id: sums are not negative, so their
 * bits order like them. */
typedef uint64_t adji_near_f32;
typedef struct adji_near_f64 {
  double sum;
  uint64_t id;
} adji_near_f64;

/* A list of the best so far: k neighbours in ascending order. A list that is not full ends with some at the limit
 * with ADJ_NO_ID. */
typedef struct adji_knn_task {
  /* The tree's leaves: see index/tree.h. */
  const void *coords;
  const uint32_t *ids;
  uint32_t dim, leaf;
  /* The queries: query q has dim coordinates from entry q * dim on, and is not its own neighbour: own[q] is
   * the id to leave out, or ADJ_NO_ID. */
  const void *queries;
  const uint32_t *own;
  uint32_t query_count;
  const adji_leaves *leaves;
  const adji_measure *measure;
  uint32_t k;           /* at most ADJI_KNN_MOST_K */
  void *best;           /* of query q: from byte q * best_stride on; room for a multiple of 8 keys */
  uint64_t best_stride; /* a multiple of 64                                                        */
  uint64_t candidates;  /* compared: added to                                                      */
} adji_knn_task;

/* Brings the lists of all queries up to date with the points of the leaves. */
typedef void (*adji_knn_fn)(adji_knn_task *task);

/* Lower bounds of the sums of pairs between one box and ADJI_BOX_LANES others, which lie as the chunks of
 * a tree do. low, high: of the one box, dim each. Returns which are at most `reach`, bit by bit. */
typedef uint32_t (*adji_box_bounds_fn)(const adji_measure *measure, const void *low, const void *high, uint32_t dim,
                                       const void *chunk, double reach, void *bounds);

/* Appends the points of the leaves with a sum of at most limit, for the first query, to ids and sums, which
 * have room for all points of the leaves and ADJI_BOX_LANES more. Returns how many. */
typedef uint32_t (*adji_list_leaves_fn)(adji_knn_task *task, double limit, uint32_t *ids, void *sums);

typedef struct adji_tree_kernels {
  adji_knn_fn nearest;
  adji_list_leaves_fn list_leaves;
  adji_box_bounds_fn box_bounds;
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

/* Puts a neighbour into a list, unless it comes behind all of it. */
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
