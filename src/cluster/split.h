/* SPDX-License-Identifier: MIT
 *
 * A split: space cut into regions of about equal work, for points in several parts. See adj_split in adjoin.h.
 *
 * The cuts are those of index/cuts.h. Each node of their tree has a box around the points below it, so that the regions
 * within a distance of a point are found from the root. The box of a region is at first its cell, between the cuts
 * around it; adj_split_set_bounds makes it smaller.
 *
 * Why no neighbour is missed. Let a pair belong to the join, and W be the width of adji_grid_width for its radius and a
 * dimension: then the true difference of the two coordinates is at most W there, in a periodic dimension the shorter
 * way round. index/grid.c has the proof, for every step and with all roundings. Let point a be in a box [low, high] and
 * b be below it. Then low - b <= a - b <= W. The test computes fl(low - b) in f64 from exact values of T, and W is an
 * f64 too: rounding is monotone, so fl(low - b) <= W, and the box is not dropped. Above: the same. In a periodic
 * dimension of length L the images b + L and b - L are tested as well, as (b - high) + L and (low - b) + L, which do
 * not overflow. Their two roundings are at most 2^-52 L in all, for which there is room: W is 4 u L wider than the
 * pair, of which the proof needs u L, and SPLIT_SLACK L is added. Derived points are computed row by row, with the same
 * bits wherever that happens, so all of this holds for them.
 *
 * Rounding in cuts does not matter: each point has one home, by comparisons of exact values, and boxes contain it.
 */
#ifndef ADJI_SPLIT_H
#define ADJI_SPLIT_H

#include "index/cuts.h"
#include "plan/index.h"

/* The work of a query with so many neighbours, in units of one candidate. Even without neighbours a query has the
 * candidates of the cells around it. Among very many, whole boxes belong and are not compared. Measured with range
 * joins of exponential and clustered points in three dimensions, 12 to 1,000 neighbours a point: candidates by the
 * plans of ranks; in seconds a query was 26 times a pair. */
static inline double adji_query_work(double neighbours) {
  const double query = 130, pair = 4, many = 100, one_of_many = 1;
  return neighbours <= many ? query + pair * neighbours : query + pair * many + one_of_many * (neighbours - many);
}

struct adj_split {
  adj_ctx *ctx;
  adj_join_spec spec; /* metric and its parameters, radius; box, strings and radii are not kept */
  adj_type type;
  uint32_t point_dim; /* of the caller's points */
  adji_measure measure;
  void *box; /* lengths of the measure's box, or NULL */
  adji_cuts cuts;
  double *low, *high; /* of each node: the box around its points; cuts.dim values */
};

/* The cells of the regions; in a periodic dimension they end at the faces of the box. cuts.dim values a region. */
void adji_split_cells(const adj_split *split, double *low, double *high);

#endif
