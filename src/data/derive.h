/* SPDX-License-Identifier: MIT
 *
 * Derived sets: the points that some metrics are measured on, computed row by row. Labels stay with the original set.
 */
#ifndef ADJI_DERIVE_H
#define ADJI_DERIVE_H

#include "data/dataset.h"
#include "data/derive_row.h"

/* Derives a set. ADJ_COSINE: every row is divided by its length; a row of zeros is ADJ_E_DATA. ADJ_HAVERSINE: longitude
 * and latitude become a point of the unit sphere; a latitude beyond a pole is ADJ_E_DATA. Time: one parallel pass.
 * Memory: the size of the derived points. */
adj_status adji_derive(adj_ctx *ctx, const adj_dataset *set, adj_metric metric, adj_angle angle, adj_dataset **out);

/* The derived point of one row, written to `to`. */
adj_status adji_derive_row(const adj_dataset *set, uint64_t row, adj_metric metric, adj_angle angle, void *to);

/* Reports the fault of a row, found here or on a device. longitude and latitude: for the last two faults. */
adj_status adji_derive_refuse(adji_fault fault, uint64_t row, double longitude, double latitude);

#endif
