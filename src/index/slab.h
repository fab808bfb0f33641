/* SPDX-License-Identifier: MIT
 *
 * The slab of a coordinate along an axis of the grid, for C and CUDA. The promise of the grid (index/grid.h) depends on
 * it.
 */
#ifndef ADJI_SLAB_H
#define ADJI_SLAB_H

#include <stdint.h>

#include "core/everywhere.h"

/* Proof that the slabs of two points that belong differ by at most `reach`.
 *
 * Slabs of equal width. The slab is floor(q) with q = (x - low) * inverse evaluated in double. Both operations round
 * monotonically, so slabs are in the order of coordinates. Each has a relative error of at most 2^-53, so with
 * q <= 2^31 the computed q is within 2^-20.9 of the true one. An inverse that is denormal, of a width near the largest
 * f64, has a relative error of 2^-50, and a product that underflows is in slab 0 either way. Two coordinates that
 * differ by at most width have true q that differ by at most width * inverse <= reach * (1 - 2^-18) * (1 + 2^-50).
 * Their computed q differ by less than reach, so their floors differ by at most reach. Clamping to the first and last
 * slab keeps this. An axis may end before the points do (plan/choose_ends.h), and q may then be larger than 2^31. If
 * both coordinates are beyond the same end, they share a slab. If only one is, the other is at least as close to that
 * end, and the argument above holds for the end in place of the coordinate beyond it.
 *
 * Slabs that begin at breaks. Breaks are more than width apart. If slab(a) = i and slab(b) >= i + 2, then
 * a < breaks[i + 1] and breaks[i + 2] <= b, so b - a > width. Hence neighbours are at most one slab apart.
 *
 * Slabs are numbered 0 .. slabs - 1. breaks is NULL if they are of equal width. Coordinates outside the axis are in
 * its first or last slab. */
ADJI_EVERYWHERE uint64_t adji_slab(double x, double low, double inverse, uint64_t slabs, const double *breaks) {
  if (breaks) {
    uint64_t first = 0, end = slabs; /* the slab is in [first, end) */
    while (end - first > 1) {
      uint64_t middle = first + (end - first) / 2;
      if (breaks[middle] <= x)
        first = middle;
      else
        end = middle;
    }
    return first;
  }
  double q = (x - low) * inverse;
  if (!(q > 0)) return 0;
  return q < (double)slabs ? (uint64_t)q : slabs - 1;
}

/* The same for slabs of equal width, without a branch, for loops that compilers vectorise. q is at most the number of
 * the last slab, so its floor is what adji_slab() returns. slabs is at most 2^31, so both conversions are exact. */
ADJI_EVERYWHERE uint64_t adji_equal_slab(double x, double low, double inverse, uint64_t slabs) {
  double q = (x - low) * inverse, last = (double)(slabs - 1);
  q = q > 0 ? q : 0;
  q = q < last ? q : last;
  return (uint64_t)(int64_t)q;
}

#endif
