/* SPDX-License-Identifier: MIT
 *
 * What a join measures, as its kernels see it: the step from dimension to dimension, the limit of the sum for a radius,
 * and how a sum is reported (docs/exactness.md). Every metric of the interface is one of these steps, applied to the
 * points or to points derived from them (data/derive.h).
 */
#ifndef ADJI_MEASURE_H
#define ADJI_MEASURE_H

#include "adjoin.h"
#include "distance/step_kinds.h"

/* The length of the box in dimension j; 0: not periodic. */
static inline double adji_box_length(const adji_measure *measure, adj_type type, uint32_t j) {
  if (!measure->box) return 0;
  double length = type == ADJ_F64 ? ((const double *)measure->box)[j] : (double)((const float *)measure->box)[j];
  return isinf(length) ? 0 : length;
}

/* How far the canonical sum s (L2) may be from d^2, the exact one: s <= d^2 * factor + least, and d^2 <= s * factor +
 * least, unless something overflows. Let u be half an ulp of 1. t = fl(a - b) is off by a factor of at most 1 + u. Each
 * of the dim fused operations is off by a factor 1 + u of the sum so far, or by half of the smallest number. The factor
 * is generous: it also covers a few roundings of values computed from it. */
typedef struct adji_sum_error {
  double factor, least;
} adji_sum_error;

static inline adji_sum_error adji_sum_error_of(adj_type type, uint32_t dim) {
  double u = type == ADJ_F32 ? 0x1p-24 : 0x1p-53, tiny = type == ADJ_F32 ? 0x1p-149 : 0x1p-1074;
  return (adji_sum_error){1 + 4 * u * (dim + 4.0), 2 * tiny * dim};
}

/* The limit of s for a radius: T(r) squared and rounded to T for L2, and so on. Exact in the type. */
double adji_limit(const adji_measure *measure, adj_type type, double radius);

/* Converts count sums to the distances reported, in the type. `to` may be the same array as sums. */
void adji_report_distances(const adji_measure *measure, adj_type type, const void *sums, uint64_t count, void *to);

#endif
