/* SPDX-License-Identifier: MIT
 *
 * Queries by workload, as in SEGO-New and LBJoin: the work of a query is the number of points in the cells around its
 * own. Queries with the most work come first.
 */
#ifndef ADJI_EGO_WORKLOAD_H
#define ADJI_EGO_WORKLOAD_H

#include "index/ego_order.h"

/* Cells of more dimensions are not looked at: 3^(dimensions - 1) rows of cells are, for each cell. */
enum { ADJI_EGO_WORKLOAD_AXES = 6 };

/* order receives the positions of the left points, most work first, ties in epsilon grid order; work (by position)
 * their numbers of candidates. order has ADJI_PAD entries more. Memory: 16 bytes a left point, and 28 a cell, until it
 * returns. */
adj_status adji_ego_workload(const adji_ego_points *left, const adji_ego_points *right, uint32_t *order,
                             uint32_t *work);

#endif
