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

/* The work of a query with so many neighbours, in nanoseconds of a core. A query without any has few candidates in the
 * cells around it; with two it has about all that it ever has to be told of. Among very many neighbours whole boxes
 * belong and are not compared. Fitted to CPU seconds of range joins of uniform, exponential and clustered points in
 * three dimensions, 0.2 to 1,700 neighbours a point, and kNN joins, which are near the same line. */
static inline double adji_query_work(double neighbours) {
  const double query = 70, first = 52, few = 2.2, pair = 4, many = 100, one_of_many = 2.7;
  double work = query + first * (neighbours < few ? neighbours : few);
  if (neighbours <= many) return work + pair * neighbours;
  return work + pair * many + one_of_many * (neighbours - many);
}

/* And of a right point that is in no row: it is moved and indexed. */
#define ADJI_POINT_WORK 20.0

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

/* Both calls of adj_split_halo in one, by fewer passes: starts receives where the list of each region begins, and the
 * end of the last one; *rows the lists, to be freed with adji_free. */
ADJI_SHARED adj_status adji_split_halo_lists(const adj_split *split, const adj_dataset *points, const uint32_t *home,
                                             const double *radii, uint64_t *starts, uint32_t **rows);
/* Of points that are all at home in one region, those that may reach another one, in ascending order: rows has room for
 * all of them. Some may turn out not to. */
ADJI_SHARED adj_status adji_split_border(const adj_split *split, const adj_dataset *points, uint32_t region,
                                         uint32_t *rows, uint64_t *count);

#endif
