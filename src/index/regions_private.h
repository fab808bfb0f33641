/* SPDX-License-Identifier: MIT
 *
 * Shared by regions.c and regions_pick.c.
 */
#ifndef ADJI_REGIONS_PRIVATE_H
#define ADJI_REGIONS_PRIVATE_H

#include "index/regions.h"

/* A member is the place of a point in its slice, with this bit set if the point is the region's own. */
enum { ADJI_MOST_SLICE = 1 << 15, ADJI_OWN = 1 << 15 };

static inline const char *adji_region_point(const adj_dataset *set, uint64_t row) {
  return set->data + row * set->row_stride;
}

#endif
