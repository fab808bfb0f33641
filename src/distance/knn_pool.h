/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of a group of queries, from the points within a limit: kernels of cpu/knn_group_pool.c for
 * L2, where an instruction set has better ones than those of knn.h.
 */
#ifndef ADJI_KNN_POOL_H
#define ADJI_KNN_POOL_H

#include <string.h>

#include "distance/kernels.h"

/* A pool of points for each query of a group. */
typedef struct adji_pool {
  uint32_t most;    /* the most points kept per query */
  uint64_t stride;  /* entries per query, at least most + 2 * ADJI_BOX_LANES */
  double *limits;   /* per query: the largest sum, exact in the type of the points */
  uint32_t *counts; /* per query; above most: too many */
  uint32_t *ids;
  void *sums;
} adji_pool;

/* The destination of the k nearest points of a query. */
typedef struct adji_picked {
  uint32_t *ids;
  void *sums;  /* NULL: not wanted */
  bool roots;  /* write roots of the sums instead of the sums */
  double last; /* out: the largest sum */
} adji_picked;

enum { ADJI_PICK_MOST = 128, ADJI_BOUND_MOST = 48 };

typedef struct adji_pool_kernels {
  /* Computes for each query a limit that at least `needed` points are within, up to ADJI_BOUND_MOST, from leaves
   * [first, end) of ADJI_LEAF points each, at most adji_bound_leaves(needed) leaves. Infinite: too few points. */
  void (*bound)(const adji_knn_task *task, uint64_t first, uint64_t end, uint32_t needed, adji_pool *pool);
  /* Appends the points of task->leaves, of ADJI_LEAF points each, within the limit of each query. */
  void (*list)(adji_knn_task *task, adji_pool *pool);
  /* Picks the k nearest points of query q, which must have at least k, without the one with id `own`. False: there are
   * more than ADJI_PICK_MOST, or two sums are too close for this kernel to tell which comes first. */
  bool (*pick)(const adji_pool *pool, uint32_t q, uint32_t k, uint32_t own, adji_picked *to);
} adji_pool_kernels;

/* The number of leaves that a bound is computed from. */
static inline uint64_t adji_bound_leaves(uint32_t needed) {
  return needed <= 12 ? 4 : needed <= 24 ? 8 : 16;
}

#if defined(__x86_64__)
extern const adji_pool_kernels adji_pool_kernels_avx512;
#endif

/* The kernels of an instruction set of adj_isa_name(), for f32 or f64; NULL: none. */
static inline const adji_pool_kernels *adji_pool_kernels_for(const char *isa, bool f64) {
#if defined(__x86_64__)
  if (!f64 && !strcmp(isa, "avx512")) return &adji_pool_kernels_avx512;
#endif
  (void)isa;
  (void)f64;
  return NULL;
}

#endif
