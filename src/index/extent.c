/* SPDX-License-Identifier: MIT
 *
 * Extents without outliers.
 */
#include "index/extent.h"

#include <math.h>

/* Outliers are dropped if that shrinks the extent by more than a factor FAR. A larger MARGIN would make cell numbers
 * longer. */
static const double FAR = 16, MARGIN = 1.0 / 64;

/* Finds the `many` outermost values at one end, outermost first, as sign * value. sign: 1 above, -1 below. */
static void find_outermost(const double *values, uint64_t count, double sign, uint32_t many, double *outer) {
  for (uint32_t k = 0; k < many; k++)
    outer[k] = -INFINITY;
  for (uint64_t i = 0; i < count; i++) {
    double x = sign * values[i];
    if (!(x > outer[many - 1])) continue;
    uint32_t at = many - 1;
    for (; at && outer[at - 1] < x; at--)
      outer[at] = outer[at - 1];
    outer[at] = x;
  }
}

void adji_trim_extent(const double *values, uint64_t count, uint32_t most, double *low, double *high) {
  double below[ADJI_MOST_OUTLIERS + 1], above[ADJI_MOST_OUTLIERS + 1];
  if (most > ADJI_MOST_OUTLIERS) most = ADJI_MOST_OUTLIERS;
  if (count <= 2 * (uint64_t)most + 1) return;
  find_outermost(values, count, -1, most + 1, below);
  find_outermost(values, count, 1, most + 1, above);
  double before = *high - *low, extent = before, from = *low, to = *high;
  for (uint32_t k = 0; k <= most; k++) {
    double now = above[k] + below[k];
    if (now * FAR < before) {
      from = -below[k];
      to = above[k];
      extent = now;
    }
    before = now;
  }
  *low = fmax(*low, from - MARGIN * extent);
  *high = fmin(*high, to + MARGIN * extent);
}
