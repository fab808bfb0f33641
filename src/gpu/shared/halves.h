/* SPDX-License-Identifier: MIT
 *
 * Half-precision copies of points, and what the product of two of them proves: the prefilter of range joins in many
 * dimensions on a GPU (gpu/range/tensor_tiles.cuh). Used by the plan, which decides whether the prefilter pays, and by
 * kernels.
 *
 * The copy. Dimension j is moved by a centre c_j and scaled by a power of two: z = (x - c) * scale, and x^ is z with
 * each coordinate rounded to half precision (or clamped at 65504). error >= |z - x^| is computed from the coordinates
 * in double precision: each difference is off by at most 2^-52 |z|, and sums of up to 2^12 squares by less than 2^-40
 * of themselves.
 *
 * What belongs. Let u be half an ulp of 1 in f32. For the canonical sum s and the true distance d of a pair, d^2 <= s *
 * f + g with f = 1 + 4u(dim + 4) and g = 2 * dim * 2^-149, as index/sketch.c derives. So s <= limit means
 *
 *     |x^ - y^| <= p,   p = reach + error(x) + most,   reach = scale * sqrt(limit * f + g),
 *
 * where most >= error(y) for every y that is not a stray. Strays, whose error is too large, always pass.
 *
 * The test. |x^ - y^| <= p is 2 x^y^ >= |x^|^2 + |y^|^2 - p^2. Tensor cores compute d = x^y^ - u(x) - v(y), starting
 * from the rounded -u - v. Products of halves are exact in f32. At least four of them and the sum so far are added at a
 * time. Addends are truncated below 2^-23 of the largest of them, and so is the result; every device is checked for
 * this (gpu/device/tensor_probe.h). The error for 16 dimensions is then less than 24 * 2^-23 * S, where S = |u| + |v| +
 * (|x^|^2 + |y^|^2) / 2 is at least the sum of all magnitudes. The gamma below is a third larger, with some more for
 * the rounded start, so the error is at most gamma * S. Let
 *
 *     v(y) <= |y^|^2 / 2 - 2 gamma |y^|^2,   u(x) <= v(x) - (1 + 4 gamma) p^2 / 2,   |v| <= |y^|^2 / 2,
 *     |u| <= |x^|^2 / 2 + p^2.
 *
 * Then S <= |x^|^2 + |y^|^2 + p^2, and a pair that belongs has
 *
 *     x^y^ - u - v >= 2 gamma (|x^|^2 + |y^|^2 + p^2) >= 2 gamma S,
 *
 * so d >= gamma * S > 0: a pair whose d has its sign set does not belong. Nothing underflows: reach is at least 2^-5,
 * by the choice of the scale. u is kept above -ADJI_HALVES_PASS, where every pair already has a positive d.
 */
#ifndef ADJI_GPU_SHARED_HALVES_H
#define ADJI_GPU_SHARED_HALVES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/everywhere.h"

enum {
  ADJI_HALVES_STEP = 16,      /* dimensions of one instruction */
  ADJI_HALVES_MOST_DIM = 352, /* longer rows do not fit the kernel's shared memory */
  ADJI_HALVES_TILE = 128      /* candidates that are loaded at once, and share a bounding box */
};

#define ADJI_HALVES_LARGEST 65504.0 /* the largest half */
#define ADJI_HALVES_PASS 1e30f      /* -u or -v of points that always pass */
#define ADJI_HALVES_ABSENT 1e38f    /* u or v of a missing point: never passes */

/* How points become copies, and the test on them. */
typedef struct adji_halves_scale {
  uint32_t dim, width; /* coordinates of a point, and of its copy */
  double scale;        /* a power of two */
  double reach;        /* the scaled radius, rounded up */
  double stray;        /* a point with a larger error is a stray */
  double gamma;
} adji_halves_scale;

/* The decision of a plan. */
typedef struct adji_halves_plan {
  bool use, asked; /* asked: requested by name */
  adji_halves_scale scale;
  float *centre; /* dim entries */
} adji_halves_plan;

/* The number of coordinates of a copy: whole instructions, as many as there is a kernel for. */
ADJI_EVERYWHERE uint32_t adji_halves_width(uint32_t dim) {
  uint32_t steps = (dim + ADJI_HALVES_STEP - 1) / ADJI_HALVES_STEP;
  if (steps == 5 || steps == 7) steps++;
  return steps * ADJI_HALVES_STEP;
}

ADJI_EVERYWHERE double adji_halves_gamma(uint32_t width) {
  return (width + 32.0) * 0x1p-22;
}

ADJI_EVERYWHERE double adji_halves_reach(double limit, uint32_t dim, double scale) {
  return scale * sqrt(limit * (1 + 4 * 0x1p-24 * (dim + 4.0)) + 2 * 0x1p-149 * dim) * (1 + 0x1p-40);
}

/* z, clamped to the range of half precision. */
ADJI_EVERYWHERE double adji_halves_cut(double z) {
  return z > ADJI_HALVES_LARGEST ? ADJI_HALVES_LARGEST : z < -ADJI_HALVES_LARGEST ? -ADJI_HALVES_LARGEST : z;
}

/* z rounded to the nearest half: what the device stores. */
ADJI_EVERYWHERE double adji_halves_round(double z) {
  double x = adji_halves_cut(z);
  double quantum = ldexp(1.0, (fabs(x) >= 0x1p-14 ? ilogb(x) : -14) - 10);
  return adji_halves_cut(rint(x / quantum) * quantum);
}

/* An f32 close to x that is not above x, and one that is not below x. */
ADJI_EVERYWHERE float adji_halves_below(double x) {
  return (float)(x - fabs(x) * 0x1p-22 - 0x1p-120);
}
ADJI_EVERYWHERE float adji_halves_above(double x) {
  return (float)(x + fabs(x) * 0x1p-22 + 0x1p-120);
}

/* The error, from the computed sums of (z - x^)^2 and x^^2. */
ADJI_EVERYWHERE float adji_halves_error(double rest_sq, double norm_sq) {
  return adji_halves_above(sqrt(rest_sq) * (1 + 0x1p-20) + sqrt(norm_sq) * 0x1p-48);
}

ADJI_EVERYWHERE bool adji_halves_is_stray(const adji_halves_scale *scale, float error) {
  return !(error <= scale->stray);
}

/* v */
ADJI_EVERYWHERE float adji_halves_candidate(const adji_halves_scale *scale, double norm_sq, float error) {
  if (adji_halves_is_stray(scale, error)) return -ADJI_HALVES_PASS;
  return adji_halves_below(norm_sq * (0.5 - 2.5 * scale->gamma));
}

/* u, from v and the error of the same point. */
ADJI_EVERYWHERE float adji_halves_query(const adji_halves_scale *scale, float v, float error, float most) {
  double p = (scale->reach + (double)error + (double)most) * (1 + 0x1p-40);
  double u = (double)v - (0.5 + 2.5 * scale->gamma) * p * p;
  return u > -ADJI_HALVES_PASS ? adji_halves_below(u) : -ADJI_HALVES_PASS;
}

#endif
