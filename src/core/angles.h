/* SPDX-License-Identifier: MIT
 *
 * Sines, cosines and arcs of angles, with the same bits on every machine: those of a C library differ
 * in their last bits. Within 3 ulp.
 */
#ifndef ADJI_ANGLES_H
#define ADJI_ANGLES_H

#include "core/circle.h"

/* Of any finite angle in degrees: exact at multiples of 90. */
adji_direction adji_direction_degrees(double x);

/* Of an angle in radians, |x| <= ADJI_MOST_RADIANS. */
adji_direction adji_direction_radians(double x);

double adji_asin(double h); /* 0 <= h <= 1 */

#endif
