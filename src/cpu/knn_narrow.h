/* SPDX-License-Identifier: MIT
 *
 * kNN joins of f64 through a search in f32, which is twice as fast: copies of the trees in f32 (index/tree_narrow.h)
 * are searched for k + 1 neighbours, as in a join of f32. If the last of these is farther than the k-th by more than
 * the error of the copies, the others are the k nearest, and their canonical sums put them in order. Other queries are
 * left to the caller.
 *
 * Proof. Lengths are in units of the frame. Let D be the distance of two points, d that of their copies, s the sum of
 * the copies as it is computed, r its root as it is reported. Per dimension a copy is off by ADJI_FRAME_ERROR at most,
 * so |D - d| <= E = 2 sqrt(dim) ADJI_FRAME_ERROR. s and d^2 differ by factors up to f = 1 + 4 u (dim + 4), u = 2^-24,
 * and by 2^-148 dim (adji_sum_error_of); r and sqrt(s) by factors up to 1 + 2 u. So r <= d sqrt(f) (1 + 2 u) + 2^-74
 * sqrt(dim), and the same with r and d exchanged. The canonical sums S of f64 and D^2 differ by factors up to 1 + 4
 * (dim + 4) 2^-53 and by 2^-1073 dim in units of the points, which are 2^400 of the frame's at most: 2^-272 dim there.
 *
 * Let a be one of the first k found, and b any other point: its s is at least that of the (k + 1)-th. Up to these
 * factors and additions D(a) <= r(a) + E and D(b) >= r(b) - E. All factors together are less than g = 1 + 8 u (dim +
 * 8), and all additions less than m = 2 E (1 + 2^-10). So r(k + 1) > g r(k) + m implies S(a) < S(b). Where fewer than k
 * + 1 are found, there is no other point within the limit: a point with S <= L has D <= g sqrt(L) and s <= g (g sqrt(L)
 * + m)^2, which is the limit of the search.
 */
#ifndef ADJI_KNN_NARROW_H
#define ADJI_KNN_NARROW_H

#include "cpu/knn_group.h"
#include "distance/knn_places.h"
#include "index/tree_narrow.h"

/* Shared by all threads. */
typedef struct adji_narrow {
  bool enabled;
  const adji_join *join; /* the join of f64 */
  const adji_tree *wide_left, *wide_right;
  adji_tree right, own_left;
  const adji_tree *left; /* own_left, or right in a self-join */
  adji_measure measure;
  adji_join search; /* the join of the copies */
  double factor, margin;
  const adji_places_kernels *kernels;
} adji_narrow;

/* Copies the trees. If the join does not suit or memory is short, n->enabled remains false. Starts zeroed. After a
 * failure it must still be cleared. */
adj_status adji_narrow_init(adji_narrow *n, const adji_join *join, const adji_tree *left, const adji_tree *right);
void adji_narrow_clear(adji_narrow *n);

/* The state of one lane. */
typedef struct adji_narrow_group {
  const adji_narrow *shared;
  adji_knn_group group;
  /* For the points of a leaf, k + 1 entries each: the neighbours of their copies, and their own neighbours. */
  uint32_t *places, *ids;
  float *distances;
  double *sums;
  int32_t credit; /* grows with answered queries; below 0: nothing is searched for a while */
} adji_narrow_group;

/* Starts zeroed. After a failure it must still be cleared. */
adj_status adji_narrow_group_init(adji_narrow_group *g, const adji_narrow *shared);
void adji_narrow_group_clear(adji_narrow_group *g);

/* Like adji_knn_group_fill(). Returns the wanted points that must still be searched for. */
uint64_t adji_narrow_group_fill(adji_narrow_group *g, uint64_t leaf, uint64_t wanted, const adji_window *window,
                                adji_tally *tally);

#endif
