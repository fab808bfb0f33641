/* SPDX-License-Identifier: MIT
 *
 * Sines, cosines and arc sines with the same bits on every machine (C libraries differ in the last bits). Within 3 ulp.
 */
#ifndef ADJI_ANGLES_H
#define ADJI_ANGLES_H

#include "core/circle.h"

/* Any finite angle in degrees. Exact at multiples of 90. */
adji_direction adji_direction_degrees(double x);

/* An angle in radians, |x| <= ADJI_MOST_RADIANS. */
adji_direction adji_direction_radians(double x);

double adji_asin(double h); /* 0 <= h <= 1 */

#endif
