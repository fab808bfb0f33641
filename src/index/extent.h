/* SPDX-License-Identifier: MIT
 *
 * The extent of a dimension without the few points that are far from all others: a sentinel such as -9999 or 1e30 must
 * not decide how space is cut.
 */
#ifndef ADJI_EXTENT_H
#define ADJI_EXTENT_H

#include <stdint.h>

#include "core/exact.h"

enum { ADJI_MOST_OUTLIERS = 16 };

/* values: a sample. low, high: in, the bounds of all points; out, no wider, and trimmed if that makes them far
 * narrower: the extent of the sample without up to `most` values at either end (at most ADJI_MOST_OUTLIERS), plus a
 * margin. */
void adji_trim_extent(const double *values, uint64_t count, uint32_t most, double *low, double *high);

#endif
