/* SPDX-License-Identifier: MIT
 *
 * The canonical sums (L2, f64) of one query with a few points of a kd-tree, which a search in f32 has found.
 */
#ifndef ADJI_KNN_PLACES_H
#define ADJI_KNN_PLACES_H

#include <string.h>

#include "distance/knn.h"

typedef struct adji_places_task {
  const double *query;  /* coordinate j is entry j * leaf, as in a leaf */
  const double *coords; /* coordinates of the leaves of the tree, see index/tree.h */
  const uint32_t *ids;
  uint32_t dim, leaf; /* leaf: a power of two */
  const uint32_t *places;
  uint32_t count;
} adji_places_task;

typedef struct adji_places_kernels {
  /* The ids and sums of the points at the places: place p is point p % leaf of leaf p / leaf. Returns whether the sums
   * strictly ascend. */
  bool (*sums)(const adji_places_task *task, uint32_t *ids, double *sums);
  /* The roots of the sums, written to memory that may not be in a cache. */
  void (*roots)(const double *sums, uint32_t count, double *to);
} adji_places_kernels;

extern const adji_places_kernels adji_places_plain;
#if defined(__x86_64__)
extern const adji_places_kernels adji_places_avx2;
#endif

static inline const adji_places_kernels *adji_places_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx2") || !strcmp(isa, "avx512")) return &adji_places_avx2;
#endif
  (void)isa;
  return &adji_places_plain;
}

#endif
