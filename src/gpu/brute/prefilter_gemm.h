/* SPDX-License-Identifier: MIT
 *
 * What products in the type of the points prove about the k nearest: the bounds of the prefilter by matrix products
 * (prefilter_gemm.cuh). prefilter_tensor.h has the argument. This file gives its gamma and its errors for products of
 * f32 or f64 that are added up in an unspecified order. u is half an ulp of 1, t the smallest positive number, m the
 * smallest normal one.
 *
 * The copy. x^ = (x - c) * scale in the type of the points: this is one rounding, as the scale is a power of two,
 * except where it underflows. So |z - x^| <= u' |x^| + 2 t sqrt(dim), u' = u / (1 - u). With r = |x^ - y^| and |y^| <=
 * |x^| + r, the true distance R of the pair, scaled, has
 *
 *     |R - r| <= u' (2|x^| + r) + 4 t sqrt(dim).                                             (2)
 *
 * The value. w = x^y^ - h(y). Each of the dim products goes through at most dim roundings, whatever the order: its own,
 * and those of the dim - 1 sums whose other operand is not 0; fused operations have fewer. With gamma_n = nu / (1 -
 * nu), the product is off by less than gamma_dim * sum |x^_j y^_j|. h is the number nearest to |y^|^2 / 2, whose sum of
 * squares is computed in f64; h is off by less than gamma_(dim+1) of itself. The difference is rounded once more. So,
 * with S as in prefilter_tensor.h, w is off by less than (dim + 3) u S for dim <= 4096, and
 *
 *     |(A - 2w) - r^2| <= (dim + 3) u (5A + 4r^2)
 *
 * follows as (1) does. A, computed in f64, is off by less than 1.01 dim 2^-53 A. gamma = 1.5 (dim + 8) u exceeds all of
 * this by at least 36 u (A + r^2). prefilter_tensor.h needs that for its own roundings, of 2^-53.
 *
 * Underflow. A library may take numbers below m for 0. Copies have |x^|^2 <= 2^80, or are strays: coordinates are at
 * most 2^40, and the loss in w, d, is less than dim (2^41 + 2) m + m < 2^-71 for f32. `least`, the constant part of the
 * error, has least^2 > 2d and room for 2 t sqrt(dim): added to the distances that prefilter_tensor.h computes with, it
 * covers both.
 *
 * The reach. k candidates with r <= r_k have, by (2), R <= (1 + u') r_k + 2u' |x^|, and a point that belongs and has R
 * has r <= (R + 2u' |x^|)(1 + 2u). error = 2.5 u |x^| + least, and a factor of 1 + 4u (dim + 8), which is more than
 * (1 + 12u) f, cover this. The `least` of prefilter_tensor.h covers what f and g say of R.
 *
 * The certificate. The pairs of a query with the largest values are listed, strays first. The k-th listed pair that is
 * not a stray gives the smallest value w' that a point of the k nearest can have (adji_tensor_smallest). If the last
 * listed value is below w', then so is every value that is not listed, and its point does not belong. Otherwise nothing
 * is proved, unless all pairs are listed.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_GEMM_H
#define ADJI_GPU_BRUTE_PREFILTER_GEMM_H

#include "gpu/brute/prefilter_tensor.h"

enum {
  ADJI_GEMM_MORE = 32,      /* pairs listed beyond k, at least */
  ADJI_GEMM_LONGEST = 2048, /* longest list: for longer ones selection takes several times as long */
  ADJI_GEMM_MOST_K = ADJI_GEMM_LONGEST - ADJI_GEMM_MORE
};

/* A copy whose squares add up to more than this is a stray: its values prove nothing. */
#define ADJI_GEMM_STRAY 0x1p80

ADJI_EVERYWHERE bool adji_gemm_is_stray(double norm_sq) {
  return !(norm_sq <= ADJI_GEMM_STRAY);
}

/* Coordinates of a copy, so that rows begin at multiples of 16 bytes. Coordinates past the last dimension are 0. */
ADJI_EVERYWHERE uint32_t adji_gemm_width(uint32_t dim) {
  return (dim + 3) / 4 * 4;
}

ADJI_EVERYWHERE adji_tensor_rules adji_gemm_rules_of(uint32_t dim, bool f64) {
  adji_tensor_rules rules = adji_tensor_rules_of(dim, f64);
  double u = f64 ? 0x1p-53 : 0x1p-24;
  rules.width = adji_gemm_width(dim);
  rules.gamma = 1.5 * (dim + 8.0) * u;
  rules.factor = 1 + 4 * u * (dim + 8.0);
  return rules;
}

/* The error of a query: what (2) adds on both sides. */
ADJI_EVERYWHERE float adji_gemm_error(double norm_sq, bool f64) {
  return adji_halves_above(2.5 * (f64 ? 0x1p-53 : 0x1p-24) * sqrt(norm_sq) + (f64 ? 0x1p-100 : 0x1p-34));
}

/* The number of pairs listed per query, given `points` points. */
ADJI_EVERYWHERE uint32_t adji_gemm_listed(uint32_t k, uint64_t points) {
  uint32_t more = k / 8 > ADJI_GEMM_MORE ? k / 8 : ADJI_GEMM_MORE;
  uint32_t listed = k + more < ADJI_GEMM_LONGEST ? k + more : ADJI_GEMM_LONGEST;
  return points < listed ? (uint32_t)points : listed;
}

#endif
