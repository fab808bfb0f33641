/* SPDX-License-Identifier: MIT
 *
 * Arc sines, for C and CUDA: see core/angles.h.
 */
#ifndef ADJI_ARC_H
#define ADJI_ARC_H

#include <math.h>

#include "core/circle.h"
#include "core/everywhere.h"

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
