/* SPDX-License-Identifier: MIT
 *
 * Sines, cosines and arc sines with the same bits on every machine, in C and CUDA (C libraries differ in the last
 * bits). The error is below 3 ulp. docs/exactness.md repeats every step, because the bits are part of the definition of
 * great-circle joins. No product is followed by a sum that a compiler could fuse.
 */
#ifndef ADJI_ANGLES_H
#define ADJI_ANGLES_H

#include <math.h>

#include "core/everywhere.h"

#define ADJI_PI 0x1.921fb54442d18p+1

/* Largest angle in radians that is reduced without loss. */
#define ADJI_MOST_RADIANS 0x1p20

typedef struct adji_direction {
  double sin, cos;
} adji_direction;

/* ---- Sines and cosines: the angle, in two parts, is reduced to an eighth of a turn; then a series is summed ---- */

/* The nearest integer, by rounding at 2^52. */
ADJI_EVERYWHERE double adji_nearest_whole(double x) {
  return (x + 0x1.8p52) - 0x1.8p52;
}

/* The Taylor series of sin and cos of a + low, |a| <= pi / 4. The terms not used are below 2^-60. */
ADJI_EVERYWHERE adji_direction adji_circle_series(double a, double low) {
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

/* The direction of k quarter turns and the angle a + low. */
ADJI_EVERYWHERE adji_direction adji_circle_turned(double k, double a, double low) {
  adji_direction d = adji_circle_series(a, low), turned = d;
  int quarter = (int)(k - 4 * adji_nearest_whole(k * 0.25)); /* -2 .. 2 */
  if (quarter == 1 || quarter == -1) {
    turned.sin = quarter == 1 ? d.cos : -d.cos;
    turned.cos = quarter == 1 ? -d.sin : d.sin;
  } else if (quarter) {
    turned.sin = -d.sin;
    turned.cos = -d.cos;
  }
  return turned;
}

/* x: any finite angle in degrees. The result is exact at multiples of 90. remainder() is exact, and so is the
 * difference to a multiple of 90. The sign of a remainder of 0 has no effect. */
ADJI_EVERYWHERE adji_direction adji_circle_degrees(double x) {
  const double radian = 0x1.1df46a2529d39p-6, radian_low = 0x1.5c1d8becdd291p-62; /* pi / 180 */
  double rest = remainder(x, 360.0), k = adji_nearest_whole(rest * (1.0 / 90));
  rest = rest - 90 * k;
  double a = rest * radian;
  return adji_circle_turned(k, a, fma(rest, radian_low, fma(rest, radian, -a)));
}

/* |x| <= ADJI_MOST_RADIANS. pi / 2 in three parts; the first two have 33 bits, so that their products with k are exact.
 */
ADJI_EVERYWHERE adji_direction adji_circle_radians(double x) {
  const double high = 0x1.921fb544p+0, middle = 0x1.0b4611a6p-34, low = 0x1.3198a2e037073p-69;
  double k = adji_nearest_whole(x * 0x1.45f306dc9c883p-1); /* 2 / pi */
  double first = fma(-k, high, x), second = k * middle, a = first - second;
  return adji_circle_turned(k, a, fma(-k, low, (first - a) - second));
}

/* ---- Arc sines ---------------------------------------------------------------------------------------- */

/* h <= 1/2: asin h = h + h z P(z) with z = h^2 and P the minimax polynomial. Larger h: pi / 2 - 2 asin(sqrt((1 - h) /
 * 2)). */
ADJI_EVERYWHERE double adji_small_arc(double h) {
  double z = h * h, p = 0x1.d72b2bc8155f8p-6;
  p = fma(p, z, -0x1.e6aaa8a0a04ccp-7);
  p = fma(p, z, 0x1.1d189408314eep-6);
  p = fma(p, z, 0x1.65a9c4dfcf8b2p-8);
  p = fma(p, z, 0x1.52420b04b37bep-7);
  p = fma(p, z, 0x1.782651caa6547p-7);
  p = fma(p, z, 0x1.c9cf07674736ap-7);
  p = fma(p, z, 0x1.1c4d35cf95421p-6);
  p = fma(p, z, 0x1.6e8bb1c8209a2p-6);
  p = fma(p, z, 0x1.f1c71c1db0623p-6);
  p = fma(p, z, 0x1.6db6db6e31f13p-5);
  p = fma(p, z, 0x1.3333333332ecap-4);
  p = fma(p, z, 0x1.5555555555556p-3);
  return fma(h * z, p, h);
}

/* asin h, 0 <= h <= 1 */
ADJI_EVERYWHERE double adji_arc(double h) {
  return h <= 0.5 ? adji_small_arc(h) : fma(-2.0, adji_small_arc(sqrt((1 - h) * 0.5)), ADJI_PI / 2);
}

#endif
