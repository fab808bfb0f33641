/* SPDX-License-Identifier: MIT
 *
 * What products of half-precision copies prove about the k nearest: the bounds of the tensor-core prefilter
 * (prefilter_tensor.cuh). Copies are those of gpu/shared/halves.h: z = (x - c) * scale, x^ its rounded copy,
 * error(x) >= |z - x^|. They are computed in the type of the points; |x^|^2 is off by less than 2^-21 of itself. `most`
 * is at least the error of every candidate except for a few strays, which always pass.
 *
 * The value. Tensor cores compute w = x^y^ - v(y), starting from -v. v is the f32 nearest to |y^|^2 / 2. With S = |v| +
 * sum |x^_j y^_j| <= |x^|^2 / 2 + |y^|^2 and gamma as in halves.h, w is off by less than gamma * S. Let A = |x^|^2 and
 * r = |x^ - y^|: r^2 = A + |y^|^2 - 2 x^y^, and |y^| <= |x^| + r, so that |y^|^2 <= 2A + 2r^2:
 *
 *     |(A - 2w) - r^2| <= 2 gamma S <= gamma (A + 2|y^|^2) <= gamma (5A + 4r^2).             (1)
 *
 * The farthest. k candidates whose values are at least w have, by (1), r^2 (1 - 4 gamma) <= A - 2w + 5 gamma A:
 * adji_tensor_farthest is such an r, rounded up. Their true distances, scaled, are at most r + error(x) + most.
 *
 * The reach. Let u be half an ulp of 1 in the type of the points. For the canonical sum s and the true distance d of
 * any pair d^2 <= s f + g and s <= d^2 f + g, with f = 1 + 4u(dim + 4) and g = 2 dim times the smallest positive
 * number, as index/sketch.c derives, unless s overflows. If the k candidates have d <= D, the k-th smallest sum is at
 * most f D^2 + g, and every point that belongs to the k nearest has d^2 <= f^2 D^2 + (f + 1) g, so d <= f D + sqrt(3
 * g). A radius gives d <= sqrt(limit f + g) instead. The scaled bound on d is the reach R.
 *
 * The bound. A point that belongs and is not a stray has r <= p = R + error(x) + most, and by (1)
 *
 *     w >= (A - p^2 - gamma (5A + 4p^2)) / 2.
 *
 * Pairs with smaller values can be dropped. All of this is computed in double precision; the roundings are less than
 * the quarter of gamma that halves.h has to spare.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_TENSOR_H
#define ADJI_GPU_BRUTE_PREFILTER_TENSOR_H

#include "gpu/shared/halves.h"

enum {
  ADJI_TENSOR_MOST_K = 2048,
  ADJI_TENSOR_MOST_DIM = 4096,    /* sums of that many squares are exact enough for halves.h */
  ADJI_TENSOR_MOST_SKIP_DIM = 32, /* boxes of tiles */
  ADJI_TENSOR_TILE = 256          /* candidates per tile of copies */
};

/* When the prefilter is faster than the matrix method. With few queries or points, comparing them is faster than
 * copying them. Where k is a large part of the points, selecting from a matrix is faster: 10,000 points in 128
 * dimensions with k = 1,000 took an H200 4.4 ms instead of 9.1. */
enum { ADJI_TENSOR_FEW_QUERIES = 64, ADJI_TENSOR_FEW_POINTS = 2048, ADJI_TENSOR_LEAST_PART = 24 };
/* The fewest queries for which points are put in tree order to skip tiles, in up to ADJI_TENSOR_MOST_SKIP_DIM
 * dimensions. */
enum { ADJI_TENSOR_FEWEST_SKIP = 1 << 18 };
/* The number of queries tried first, as a probe (brute_join_method.cu), if there are at least four times as many. */
enum { ADJI_TENSOR_PROBED = 8192 };
static inline bool adji_tensor_is_probed(uint64_t queries) {
  return queries / ADJI_TENSOR_PROBED > 3;
}

static inline bool adji_tensor_pays(uint64_t queries, uint64_t points, uint64_t k) {
  return queries >= ADJI_TENSOR_FEW_QUERIES && points >= ADJI_TENSOR_FEW_POINTS && k <= ADJI_TENSOR_MOST_K &&
         points >= ADJI_TENSOR_LEAST_PART * k;
}

/* A value of at least ADJI_TENSOR_STRAY is that of a stray, one of at most ADJI_TENSOR_LEAST that of an absent
 * point. */
#define ADJI_TENSOR_STRAY 1e29f
#define ADJI_TENSOR_LEAST (-1e37f)

/* Constants that follow from the type and the dimension of the points. */
typedef struct adji_tensor_rules {
  uint32_t dim, width;
  double gamma;
  double factor; /* f */
  double least;  /* sqrt(3 g) */
} adji_tensor_rules;

/* The number of halves of a copy: a width that the kernels support. */
ADJI_EVERYWHERE uint32_t adji_tensor_width(uint32_t dim) {
  return dim <= 16 ? 16 : dim <= 32 ? 32 : (dim + 63) / 64 * 64;
}

ADJI_EVERYWHERE adji_tensor_rules adji_tensor_rules_of(uint32_t dim, bool f64) {
  adji_tensor_rules rules;
  rules.dim = dim;
  rules.width = adji_tensor_width(dim);
  rules.gamma = adji_halves_gamma(rules.width);
  rules.factor = 1 + 4 * (f64 ? 0x1p-53 : 0x1p-24) * (dim + 4.0);
  rules.least = sqrt(6.0 * dim) * (f64 ? 0x1p-537 : 0x1p-74); /* the root of the smallest number, rounded up */
  return rules;
}

/* The error, from the computed sums of (z - x^)^2 and x^^2: z itself is off by less than 2^-23 of its length, f32 sums
 * of up to 2^12 squares are off by 2^-12 of themselves, and squares below the smallest number are lost. */
ADJI_EVERYWHERE float adji_tensor_error(double rest_sq, double norm_sq) {
  return adji_halves_above(sqrt(rest_sq) * (1 + 0x1p-10) + sqrt(norm_sq) * 0x1p-22 + 0x1p-50);
}

/* r: no candidate whose value is at least w is farther away than that. norm_sq is A. */
ADJI_EVERYWHERE double adji_tensor_farthest(const adji_tensor_rules *rules, double norm_sq, double w) {
  double r_sq = (norm_sq - 2 * w + 5 * rules->gamma * norm_sq) / (1 - 4 * rules->gamma);
  return sqrt(r_sq > 0 ? r_sq : 0) * (1 + 0x1p-40);
}

/* R from k candidates within r of a query's copy. error: that of the query, plus `most` of the candidates. */
ADJI_EVERYWHERE double adji_tensor_reach(const adji_tensor_rules *rules, double scale, double r, double error) {
  return ((r + error) * rules->factor + rules->least * scale) * (1 + 0x1p-40);
}

/* R from a radius, that is from sums of at most `limit`. */
ADJI_EVERYWHERE double adji_tensor_reach_of(const adji_tensor_rules *rules, double scale, double limit) {
  return scale * (sqrt(limit) * rules->factor + rules->least) * (1 + 0x1p-40);
}

/* The smallest value that a candidate may have and belong; adji_tensor_bound: the same as an f32. */
ADJI_EVERYWHERE double adji_tensor_smallest(const adji_tensor_rules *rules, double norm_sq, double reach,
                                            double error) {
  double p = reach + error, p_sq = p * p * (1 + 0x1p-40);
  return (norm_sq - p_sq - rules->gamma * (5 * norm_sq + 4 * p_sq)) / 2;
}
ADJI_EVERYWHERE float adji_tensor_bound(const adji_tensor_rules *rules, double norm_sq, double reach, double error) {
  double w = adji_tensor_smallest(rules, norm_sq, reach, error);
  return w > (double)ADJI_TENSOR_LEAST ? adji_halves_below(w) : ADJI_TENSOR_LEAST;
}

/* For boxes of copies, as prefilter_tensor_tiles.cuh proves: p^2, enlarged by more than the errors of sums of squared
 * gaps in f32, and by more than what underflows there. */
ADJI_EVERYWHERE float adji_tensor_reach_sq(double reach, double error) {
  double p = reach + error;
  return adji_halves_above(p * p * (1 + 0x1p-15));
}

/* Half the length of a box from low to high, rounded up; centre is the rounded mean of the two. adji_tensor_add_gap:
 * sum plus the squared gap, in one dimension, between x and a box with centre c and half length h. */
ADJI_EVERYWHERE float adji_tensor_box_half(float low, float high, float centre) {
  double h = ((double)high - (double)low) / 2;
  return (float)(h * (1 + 0x1p-21) + fabs((double)centre) * 0x1p-21);
}
ADJI_EVERYWHERE float adji_tensor_add_gap(float sum, float x, float c, float h) {
  float gap = fmaxf(fabsf(x - c) - h, 0.0f);
  return fmaf(gap, gap, sum);
}

#endif
