/* SPDX-License-Identifier: MIT
 *
 * Shared by split_home.c and split_halo.c: loops over the points of a part.
 */
#ifndef ADJI_SPLIT_PRIVATE_H
#define ADJI_SPLIT_PRIVATE_H

#include "cluster/split.h"

/* What a loop over the points of a part works on. A slice has at most so many points. */
enum { ADJI_SLICE_POINTS = 16384 };
typedef struct adji_part {
  const adj_split *split;
  const adj_dataset *points; /* derived, where the metric says so */
  adj_dataset *derived;
  uint64_t slices;
} adji_part;
/* Checks the points and derives them, if the metric does so. `derived` must be destroyed, also after a failure. */
adj_status adji_split_open_part(const adj_split *split, const adj_dataset *points, adji_part *out);
/* Checks that homes are regions. home NULL: there are none. */
adj_status adji_split_check_home(const adj_split *split, const adj_dataset *points, const uint32_t *home);

#endif
