/* SPDX-License-Identifier: MIT
 *
 * The functions of core/circle.h and core/arc.h, compiled once.
 */
#include "core/angles.h"

#include "core/arc.h"

adji_direction adji_direction_degrees(double x) {
  return adji_circle_degrees(x);
}

adji_direction adji_direction_radians(double x) {
  return adji_circle_radians(x);
}

double adji_asin(double h) {
  return adji_arc(h);
}
