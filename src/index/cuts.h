/* SPDX-License-Identifier: MIT
 *
 * Cuts space into regions with about equally many points of a set: each cut is a plane across one dimension, chosen
 * from a sample like the planes of a kd-tree. Regions follow the points, so an outlier only widens the box of one
 * region. Sets that do not fit a device are joined region by region (regions.h).
 */
#ifndef ADJI_CUTS_H
#define ADJI_CUTS_H

#include "data/dataset.h"
#include "distance/measure.h"

/* A node of the tree of cuts. Points with x[dim] < at go to node `below`, others to node `below` + 1. A region is a
 * node whose `at` is NaN and whose `below` is itself: walks of equal length then take no branch. */
typedef struct adji_cut {
  double at;
  uint32_t dim, below, region;
} adji_cut;

typedef struct adji_cuts {
  uint32_t dim, count; /* count: regions */
  uint32_t depth;      /* steps from the root, node 0, that reach every region */
  adji_cut *nodes;
} adji_cuts;

/* The most regions: their numbers have 16 bits. */
enum { ADJI_MOST_REGIONS = 1 << 15 };

/* Makes about `wanted` regions, or fewer if points coincide. Time: O(sample log regions), with up to 65,536 sampled
 * points. */
adj_status adji_cuts_make(adj_ctx *ctx, const adj_dataset *set, uint64_t wanted, adji_cuts *out);
/* The same from points that the caller sampled. weights: the weight of each point; regions then have about equal
 * weight. NULL: all points weigh the same. Time: O(sample log sample log regions). */
typedef struct adji_cut_sample {
  const double *x; /* point by point */
  const double *weights;
  uint32_t count, dim;
} adji_cut_sample;
adj_status adji_cuts_of(adj_ctx *ctx, const adji_cut_sample *sample, uint64_t wanted, adji_cuts *out);
void adji_cuts_clear(adj_ctx *ctx, adji_cuts *cuts);

/* The cell of each region: between the cuts around it, infinite where there is none. dim entries per region. */
void adji_cuts_cells(const adji_cuts *cuts, double *low, double *high);

/* Estimates from a sample, for each region, a distance within which most of its points have k neighbours in the set;
 * negative: unknown. The distance is halved while the points within it of the region are over a fifth more than the
 * region's own. */
adj_status adji_cuts_spacing(adj_ctx *ctx, const adj_dataset *set, const adji_cuts *cuts, const adji_measure *measure,
                             uint32_t k, double *out);

/* Whether distances of a step bound the gap to a plane: only L2, L1 and Linf without a box. */
static inline bool adji_cuts_serve(const adji_measure *measure) {
  return measure->step == ADJI_STEP_L2 || measure->step == ADJI_STEP_L1 || measure->step == ADJI_STEP_LINF;
}

/* The gap in one dimension beyond which the canonical sum is surely larger than `sum`.
 *
 * Let g > reach be a gap in double, between two values of T that differ by at least as much in the pair. T's difference
 * is at least fl(g) >= g (1 - u), because rounding is monotone. For L2 its rounded square is larger than sum if g >=
 * sqrt(sum) (1 + 3 eps); the factor below leaves room for that. Squares that underflow are excluded by the least reach,
 * whose square is a normal number of T. For L1 and Linf the difference itself is at most the sum. Values of T below the
 * normal ones are exact. */
static inline double adji_reach(const adji_measure *measure, adj_type type, double sum) {
  double eps = type == ADJ_F32 ? 0x1p-23 : 0x1p-52, least = type == ADJ_F32 ? 0x1p-62 : 0x1p-510;
  if (measure->step != ADJI_STEP_L2) return sum * (1 + 4 * eps);
  double reach = sqrt(sum) * (1 + 8 * eps);
  return reach > least ? reach : least;
}

#endif
