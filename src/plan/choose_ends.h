/* SPDX-License-Identifier: MIT
 *
 * Where the axes of a grid begin and end: points beyond are in the first and last slab.
 */
#ifndef ADJI_CHOOSE_ENDS_H
#define ADJI_CHOOSE_ENDS_H

#include <stdint.h>

/* An axis: the sample's coordinates, the width of a slab, the bounds of all points. */
typedef struct adji_ends {
  const double *values;
  double slab;
  double low, high;
} adji_ends;

/* Draws in the ends of the axes where a few points far out would make the cells more than `room`. All axes have the
 * same `sample` rows, drawn from `population` points. */
void adji_choose_ends(adji_ends *axes, uint32_t axis_count, uint64_t sample, uint64_t population, uint64_t room);

#endif
