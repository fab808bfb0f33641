/* SPDX-License-Identifier: MIT
 *
 * The coordinates of derived points, for C and CUDA: used by data/derive.c and gpu/device/derive.cu, so that both
 * compute the same bits (docs/exactness.md).
 */
#ifndef ADJI_DERIVE_ROW_H
#define ADJI_DERIVE_ROW_H

#include <math.h>
#include <stdbool.h>

#include "core/angles.h"

/* Why a row has no derived point. */
typedef enum adji_fault {
  ADJI_FAULT_NONE,
  ADJI_FAULT_ZEROS,    /* all coordinates are 0                     */
  ADJI_FAULT_POLE,     /* a latitude beyond a pole                  */
  ADJI_FAULT_LONGITUDE /* more radians than can be reduced to a turn */
} adji_fault;

/* ---- Unit vectors ------------------------------------------------------------------------------------- */

/* Coordinates are scaled by a power of two so that the largest is in [1/2, 1), and their squares are summed in f64. So
 * the square of the largest neither overflows nor underflows. Points of the same direction give the same row if their
 * lengths differ by a power of two. */
ADJI_EVERYWHERE int adji_unit_exponent(double largest) {
  int exponent;
  frexp(largest, &exponent);
  return exponent;
}

/* Adds the square of the next coordinate, in the order of the row. */
ADJI_EVERYWHERE double adji_unit_add(double sum, double x, int exponent) {
  double scaled = ldexp(x, -exponent);
  return fma(scaled, scaled, sum);
}

/* The coordinate of the unit vector. length: the root of the sum. */
ADJI_EVERYWHERE double adji_unit_at(double x, int exponent, double length) {
  return ldexp(x, -exponent) / length;
}

/* ---- Places on a sphere -------------------------------------------------------------------------------- */

typedef struct adji_place {
  double x, y, z;
} adji_place;

/* The largest latitude. In f32 a right angle in radians is rounded up, and still counts as a pole. */
ADJI_EVERYWHERE double adji_pole(bool degrees, bool single) {
  return degrees ? 90 : single ? (double)(float)(ADJI_PI / 2) : ADJI_PI / 2;
}

/* single: the coordinates are f32. *to is written unless there is a fault. */
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
