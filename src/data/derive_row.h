/* SPDX-License-Identifier: MIT
 *
 * The coordinates of derived points, for C and CUDA alike: data/derive.c and gpu/device/derive.cu go through rows, and
 * this says what they compute, so that both have the same bits (docs/exactness.md).
 */
#ifndef ADJI_DERIVE_ROW_H
#define ADJI_DERIVE_ROW_H

#include <math.h>
#include <stdbool.h>

#include "core/circle.h"

/* Why a row has no derived point. */
typedef enum adji_fault {
  ADJI_FAULT_NONE,
  ADJI_FAULT_ZEROS,    /* all coordinates are 0                     */
  ADJI_FAULT_POLE,     /* a latitude beyond a pole                  */
  ADJI_FAULT_LONGITUDE /* more radians than can be reduced to a turn */
} adji_fault;

/* ---- Unit vectors ------------------------------------------------------------------------------------- */

/* The length is summed in f64, of coordinates that are scaled by a power of two such that the largest
 * is in [1/2, 1): no square of it over- or underflows, and equal directions of different length give
 * equal rows where the lengths differ by a power of two. */
ADJI_EVERYWHERE int adji_unit_exponent(double largest) {
  int exponent;
  frexp(largest, &exponent);
  return exponent;
}

/* The sum of squares, one coordinate further; they come in the order of the row. */
ADJI_EVERYWHERE double adji_unit_add(double sum, double x, int exponent) {
  double scaled = ldexp(x, -exponent);
  return fma(scaled, scaled, sum);
}

/* length: the root of the sum. */
ADJI_EVERYWHERE double adji_unit_at(double x, int exponent, double length) {
  return ldexp(x, -exponent) / length;
}

/* ---- Places on a sphere -------------------------------------------------------------------------------- */

typedef struct adji_place {
  double x, y, z;
} adji_place;

/* A latitude that counts as a pole: a right angle rounded up to f32 is still one. */
ADJI_EVERYWHERE double adji_pole(bool degrees, bool single) {
  return degrees ? 90 : single ? (double)(float)(ADJI_PI / 2) : ADJI_PI / 2;
}

/* single: the coordinates came as f32. *to is written unless there is a fault. */
ADJI_EVERYWHERE adji_fault adji_place_of(double longitude, double latitude, bool degrees, bool single, adji_place *to) {
  if (fabs(latitude) > adji_pole(degrees, single)) return ADJI_FAULT_POLE;
  if (!degrees && fabs(longitude) > ADJI_MOST_RADIANS) return ADJI_FAULT_LONGITUDE;
  adji_direction east = degrees ? adji_circle_degrees(longitude) : adji_circle_radians(longitude);
  adji_direction north = degrees ? adji_circle_degrees(latitude) : adji_circle_radians(latitude);
  to->x = north.cos * east.cos;
  to->y = north.cos * east.sin;
  to->z = north.sin;
  return ADJI_FAULT_NONE;
}

#endif
