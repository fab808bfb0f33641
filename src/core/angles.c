/* SPDX-License-Identifier: MIT
 *
 * Angles: reduced to an eighth of a turn in two parts, then a series. docs/exactness.md repeats every
 * step, because the bits are part of the definition of great-circle joins. Nothing here leaves a
 * product and a sum for a compiler to fuse.
 */
#include "core/angles.h"

#include <math.h>

#include "core/arc.h"

/* Adding and subtracting it rounds to the nearest integer. */
static const double ROUND = 0x1.8p52;

/* The Taylor series of sin and cos of a + low, |a| <= pi / 4: the terms left out are below 2^-60. */
static adji_direction series(double a, double low) {
  double z = a * a, s = 1.0 / 355687428096000, c = -1.0 / 6402373705728000;
  s = fma(s, z, -1.0 / 1307674368000);
  s = fma(s, z, 1.0 / 6227020800);
  s = fma(s, z, -1.0 / 39916800);
  s = fma(s, z, 1.0 / 362880);
  s = fma(s, z, -1.0 / 5040);
  s = fma(s, z, 1.0 / 120);
  s = fma(s, z, -1.0 / 6);
  c = fma(c, z, 1.0 / 20922789888000);
  c = fma(c, z, -1.0 / 87178291200);
  c = fma(c, z, 1.0 / 479001600);
  c = fma(c, z, -1.0 / 3628800);
  c = fma(c, z, 1.0 / 40320);
  c = fma(c, z, -1.0 / 720);
  c = fma(c, z, 1.0 / 24);
  double half = 0.5 * z, one = 1 - half;
  adji_direction d;
  d.sin = a + fma(a * z, s, low);
  d.cos = one + (((1 - one) - half) + fma(z * z, c, -(a * low)));
  return d;
}

/* The direction of k quarter turns and a rest. */
static adji_direction turned(double k, double a, double low) {
  adji_direction d = series(a, low);
  int quarter = (int)(k - 4 * ((k * 0.25 + ROUND) - ROUND)); /* -2 .. 2 */
  if (quarter == 1) return (adji_direction){d.cos, -d.sin};
  if (quarter == -1) return (adji_direction){-d.cos, d.sin};
  if (quarter) return (adji_direction){-d.sin, -d.cos};
  return d;
}

/* The remainder of a division is exact, and so is what is left of it beside a multiple of 90. */
adji_direction adji_direction_degrees(double x) {
  static const double RADIAN = 0x1.1df46a2529d39p-6, RADIAN_LOW = 0x1.5c1d8becdd291p-62; /* pi / 180 */
  double rest = remainder(x, 360), k = (rest * (1.0 / 90) + ROUND) - ROUND;
  rest = rest - 90 * k;
  double a = rest * RADIAN;
  return turned(k, a, fma(rest, RADIAN_LOW, fma(rest, RADIAN, -a)));
}

/* pi / 2 in three parts; the first two have 33 bits, so that their products with k are exact. */
adji_direction adji_direction_radians(double x) {
  static const double HIGH = 0x1.921fb544p+0, MIDDLE = 0x1.0b4611a6p-34, LOW = 0x1.3198a2e037073p-69;
  double k = (x * 0x1.45f306dc9c883p-1 + ROUND) - ROUND; /* 2 / pi */
  double first = fma(-k, HIGH, x), second = k * MIDDLE, a = first - second;
  return turned(k, a, fma(-k, LOW, (first - a) - second));
}

double adji_asin(double h) {
  return adji_arc(h);
}
