/* SPDX-License-Identifier: MIT
 *
 * Derived sets: the points that some metrics are measured on, computed row by row. Labels stay with the original set.
 */
#ifndef ADJI_DERIVE_H
#define ADJI_DERIVE_H

#include "data/dataset.h"
#include "data/derive_row.h"

/* Every row divided by its length, for cosine distances. A row of zeros is ADJ_E_DATA.
 * Time: one parallel pass. Memory: the size of the points. */
adj_status adji_derive_units(adj_ctx *ctx, const adj_dataset *set, adj_dataset **out);

/* Longitude and latitude as points of the unit sphere, for great-circle distances. A latitude beyond a
 * pole is ADJ_E_DATA. Time: one parallel pass. Memory: 3 * sizeof(T) bytes a point. */
adj_status adji_derive_sphere(adj_ctx *ctx, const adj_dataset *set, adj_angle angle, adj_dataset **out);

/* The failure of a row, found here or on a device. longitude and latitude: for the last two faults. */
adj_status adji_derive_refuse(adji_fault fault, uint64_t row, double longitude, double latitude);

#endif
