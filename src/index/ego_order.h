/* SPDX-License-Identifier: MIT
 *
 * The epsilon grid order of Super-EGO (Kalashnikov 2013; HEGJoin 3.2): points sorted by the cells of all their
 * dimensions, the most selective dimension first, and stored row by row with their coordinates in that order.
 *
 * The grid of index/grid.h is the same order over a few dimensions, with a table of cells. Here there is no table: the
 * recursion over pairs of sequences (cpu/ego_join.h) only needs the cells of first and last points.
 */
#ifndef ADJI_EGO_ORDER_H
#define ADJI_EGO_ORDER_H

#include "index/grid.h"

typedef struct adji_ego_order_options {
  bool reorder;     /* dimensions by selectivity; otherwise in input order */
  uint32_t indexed; /* dimensions that have cells; 0: all */
  double cell;      /* width of a cell, as a multiple of the width that the radius needs; 0: 1 */
} adji_ego_order_options;

/* The order of dimensions and their cells, the same for both sets of a join. */
typedef struct adji_ego_order {
  adj_ctx *ctx;
  adj_type type;
  uint32_t dim, axis_count;
  uint32_t *dims;  /* dims[j]: the dimension that comes j-th */
  adji_axis *axes; /* of the first axis_count dimensions, with reach 1 */
} adji_ego_order;

/* limit: the largest limit of the join. After a failure there is nothing to clear. Time: O(sample * dim). */
adj_status adji_ego_order_init(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right,
                               const adji_measure *measure, double limit, const adji_ego_order_options *options,
                               adji_ego_order *out);
void adji_ego_order_clear(adji_ego_order *order);

typedef struct adji_ego_points {
  const adji_ego_order *order;
  uint32_t count;
  void *coords;  /* coordinate dims[j] of position i is ((T *)coords)[i * dim + j] */
  uint32_t *ids; /* position -> row; with ADJI_PAD more entries                         */
} adji_ego_points;

/* EGO-sort: sorts by cells, then by row. by_qsort: by the C library's qsort in the calling thread, as in Super-EGO;
 * otherwise by a parallel, stable sort, as in SEGO-New. Both give the same order. Memory: the points and 4 bytes per
 * point; while sorting, the points again and 16 (qsort) or 24 bytes per point. */
adj_status adji_ego_points_build(const adji_ego_order *order, const adj_dataset *set, bool by_qsort,
                                 adji_ego_points *out);
void adji_ego_points_clear(adji_ego_points *points);

/* The point at a position; coordinate j of a point; the cell of a point along an axis. */
static inline const void *adji_ego_point(const adji_ego_points *points, uint32_t position) {
  uint64_t row = points->order->dim * (uint64_t)adji_type_size(points->order->type);
  return (const char *)points->coords + position * row;
}
static inline double adji_ego_coordinate(const adji_ego_order *order, const void *point, uint32_t j) {
  return order->type == ADJ_F64 ? ((const double *)point)[j] : (double)((const float *)point)[j];
}
static inline uint64_t adji_ego_cell(const adji_ego_order *order, const void *point, uint32_t axis) {
  return adji_axis_slab(&order->axes[axis], adji_ego_coordinate(order, point, axis));
}

#endif
