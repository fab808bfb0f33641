/* SPDX-License-Identifier: MIT
 *
 * Queries by workload, as in SEGO-New and LBJoin: the work of a query is the number of points in the cells around its
 * own. Queries with the most work come first.
 */
#ifndef ADJI_EGO_WORKLOAD_H
#define ADJI_EGO_WORKLOAD_H

#include "index/ego_order.h"

/* Only this many axes are used, since 3^(axes - 1) rows of cells are counted for each cell. */
enum { ADJI_EGO_WORKLOAD_AXES = 6 };

/* order receives the positions of the left points, most work first, ties in epsilon grid order. work receives, by
 * position, the number of candidates of each. order needs room for ADJI_PAD more entries. Temporary memory: 16 bytes
 * per left point, and 28 per cell. */
adj_status adji_ego_workload(const adji_ego_points *left, const adji_ego_points *right, uint32_t *order,
                             uint32_t *work);

#endif
