/* SPDX-License-Identifier: MIT
 *
 * EGO-sort: see ego_order_sort.c.
 */
#ifndef ADJI_EGO_ORDER_PRIVATE_H
#define ADJI_EGO_ORDER_PRIVATE_H

#include "index/ego_order.h"

/* points: in the order of their rows. ids receives the rows in epsilon grid order. */
adj_status adji_ego_sort_parallel(const adji_ego_points *points, uint32_t *ids);
adj_status adji_ego_sort_by_qsort(const adji_ego_points *points, uint32_t *ids);

#endif
