/* SPDX-License-Identifier: MIT
 *
 * What the parts of regions share.
 */
#ifndef ADJI_REGIONS_PRIVATE_H
#define ADJI_REGIONS_PRIVATE_H

#include "index/regions.h"

/* A member is its place in the slice, and this bit if it is the region's own. */
enum { ADJI_MOST_SLICE = 1 << 15, ADJI_OWN = 1 << 15 };

static inline const char *adji_region_point(const adj_dataset *set, uint64_t row) {
  return set->data + row * set->row_stride;
}

#endif
