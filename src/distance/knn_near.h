/* SPDX-License-Identifier: MIT
 *
 * Searches of a kd-tree for the queries of a group, written for one instruction set: the k nearest points below some
 * nodes, and the nearest point.
 */
#ifndef ADJI_KNN_NEAR_H
#define ADJI_KNN_NEAR_H

#include <string.h>

#include "distance/knn.h"

#if defined(__x86_64__)
/* The kernel that knn_near_body.h has for all instruction sets. This one takes 5 % less time. */
void adji_knn_near_avx512(adji_knn_task *task, const adji_tree_level *leaves);
#endif

/* The nearest point of a whole tree to each query of a leaf, for queries that exclude no id, in 2 to 6 dimensions.
 * Leaves are padded with NaN. */
typedef struct adji_nearest {
  const adji_tree_level *level; /* levels of the tree, with ADJI_LEAF points per leaf */
  uint32_t levels, dim;
  const void *coords;
  const uint32_t *ids;
  /* Queries by dimension, ADJI_LEAF coordinates each, and the bounds of their box, laid out as in a chunk. */
  const void *queries, *box;
  uint32_t count;
  /* In: the largest sum allowed for each query. If it is below 0, as it must be past `count`, nothing is found. Out:
   * the sum of the nearest point, and its id, or ADJ_NO_ID. */
  union {
    float f32[ADJI_LEAF];
    double f64[ADJI_LEAF];
  } sums;
  uint32_t found[ADJI_LEAF];
} adji_nearest;

/* Returns the number of candidates. */
typedef uint64_t (*adji_nearest_fn)(adji_nearest *task);

#if defined(__x86_64__)
uint64_t adji_nearest_f32_avx2(adji_nearest *task);
uint64_t adji_nearest_f64_avx2(adji_nearest *task);
uint64_t adji_nearest_f32_avx512(adji_nearest *task);
uint64_t adji_nearest_f64_avx512(adji_nearest *task);
#endif

static inline adji_nearest_fn adji_nearest_for(const char *isa, bool f64) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512")) return f64 ? adji_nearest_f64_avx512 : adji_nearest_f32_avx512;
  if (!strcmp(isa, "avx2")) return f64 ? adji_nearest_f64_avx2 : adji_nearest_f32_avx2;
#endif
  (void)isa;
  (void)f64;
  return NULL;
}

#endif
