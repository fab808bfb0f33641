/* SPDX-License-Identifier: MIT
 *
 * A split: space cut into regions of about equal work, for points in several parts. See adj_split in adjoin.h.
 *
 * The cuts are those of index/cuts.h. Each node of their tree has a box around the points below it, so the regions
 * within a distance of a point are found by a search from the root. The box of a region is at first its cell, between
 * the cuts around it; adj_split_set_bounds makes it smaller.
 *
 * Why no neighbour is missed. Let a pair belong to the join, and let W be the width that adji_grid_width gives for its
 * radius in a dimension. Then the true difference of the two coordinates in this dimension is at most W; in a periodic
 * dimension, the difference the shorter way round. index/grid.c has the proof, for every step and with all roundings.
 * Let point a be in a box [low, high] and let b be below the box. Then low - b <= a - b <= W. The test computes
 * fl(low - b) in f64 from exact values of T, and W is an f64 too. Rounding is monotone, so fl(low - b) <= W, and the
 * box is not dropped. The same holds if b is above the box. In a periodic dimension of length L the images b + L and
 * b - L are tested as well, as (b - high) + L and (low - b) + L, which do not overflow. Their two roundings are at most
 * 2^-52 L in all. There is room for this: W is wider than the pair by 4 u L, of which the proof needs u L, and
 * SPLIT_SLACK L is added. Derived points are computed row by row and have the same bits everywhere, so all of this
 * holds for them.
 *
 * kNN joins have halos of any reach, which need not hold all neighbours. Let D be the width that adji_grid_width gives
 * for the reach of a region in a dimension, and [low, high] the region's cell. Points go there unless they are below
 * low - D, rounded down, or above high + D, rounded up, by the test above with the width 0. A query of the region is
 * done if all of its coordinates are more than W inside of low - D, rounded up, and high + D, rounded down, where W is
 * the width for its last sum. A neighbour b then has b >= x - W > low - D in exact arithmetic, so it is in the cell or
 * the halo. In a periodic dimension D has the slack when points are sent, but not when queries are tested.
 *
 * Rounding in the cuts does not matter: comparisons of exact values give each point one home, and boxes contain it.
 */
#ifndef ADJI_SPLIT_H
#define ADJI_SPLIT_H

#include "index/cuts.h"
#include "plan/index.h"

/* The work of a query with this many neighbours, in nanoseconds of a core. The first neighbours cost most: a query
 * without any has few candidates in the cells around it, and with about two neighbours this cost is at its full height.
 * If there are very many, whole boxes belong to the row and their points are not compared. Fitted to CPU seconds of
 * range joins of uniform, exponential and clustered points in three dimensions, with 0.2 to 1,700 neighbours per point,
 * and of kNN joins, which are near the same line. */
static inline double adji_query_work(double neighbours) {
  const double query = 70, first = 52, few = 2.2, pair = 4, many = 100, one_of_many = 2.7;
  double work = query + first * (neighbours < few ? neighbours : few);
  if (neighbours <= many) return work + pair * neighbours;
  return work + pair * many + one_of_many * (neighbours - many);
}

/* The work of a right point apart from rows, in nanoseconds: it is moved and indexed. */
#define ADJI_POINT_WORK 20.0

struct adj_split {
  adj_ctx *ctx;
  adj_join_spec spec; /* without its box, strings and radii */
  adj_type type;
  uint32_t point_dim; /* of the caller's points */
  adji_measure measure;
  void *box; /* lengths of the measure's box, or NULL */
  adji_cuts cuts;
  double *low, *high; /* the box around the points of each node; cuts.dim values for each */
};

/* The cells of the regions, cuts.dim values for each. In a periodic dimension they end at the faces of the box. */
ADJI_SHARED void adji_split_cells(const adj_split *split, double *low, double *high);

/* Boxes, cuts.dim values for each. */
typedef struct adji_region_boxes {
  double *low, *high;
} adji_region_boxes;
/* Makes the boxes of all nodes from those of the regions. */
void adji_split_box_nodes(const adj_split *split, const adji_region_boxes *regions, const adji_region_boxes *nodes);

/* A point, and a region that needs it for its halo. */
typedef struct adji_visit {
  uint32_t row, region;
} adji_visit;
/* Finds the visits of all points in ascending order of rows, in one pass; otherwise as adj_split_halo. Free *visits
 * with adji_free. */
ADJI_SHARED adj_status adji_split_visits(const adj_split *split, const adj_dataset *points, const uint32_t *home,
                                         const double *radii, adji_visit **visits, uint64_t *count);
/* The same for halos of given widths: finds the points within reaches[i] of the cell of region i, for every region i
 * but their home. */
ADJI_SHARED adj_status adji_split_halos(const adj_split *split, const adj_dataset *points, const uint32_t *home,
                                        const double *reaches, adji_visit **visits, uint64_t *count);
/* The last sums of kNN lists: that of list i is `stride` bytes after that of list i - 1. */
typedef struct adji_last_sums {
  const char *first;
  uint64_t stride;
} adji_last_sums;
/* kNN queries of a region, and how far they look. */
typedef struct adji_border {
  uint32_t region;
  double reach;         /* that the region's halo was found with; 0: it has none */
  const uint32_t *rows; /* the queries among the points, ascending; NULL: all points */
  uint64_t count;       /* of the queries */
  adji_last_sums sums;  /* of the queries */
} adji_border;
/* Finds the queries that may reach beyond the halo within their last sums and the radius of the spec, in ascending
 * order. found: has room for all. The test is conservative: some of those found may reach nothing. */
ADJI_SHARED adj_status adji_split_border(const adj_split *split, const adj_dataset *points, const adji_border *border,
                                         uint32_t *found, uint64_t *count);

#endif
