/* SPDX-License-Identifier: MIT
 *
 * The extent of a dimension without the few points that are far from all others: a sentinel of -9999 or 1e30 must not
 * decide how space is cut.
 */
#ifndef ADJI_EXTENT_H
#define ADJI_EXTENT_H

#include <stdint.h>

#include "core/exact.h"

enum { ADJI_MOST_OUTLIERS = 16 };

/* values: a sample. low and high: in, the bounds of all points; out, no wider: the extent of the sample without up to
 * `most` values at either end, and a little more, if it is far smaller than with them. At most ADJI_MOST_OUTLIERS. */
void adji_trim_extent(const double *values, uint64_t count, uint32_t most, double *low, double *high);

#endif
