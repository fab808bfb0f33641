/* SPDX-License-Identifier: MIT
 *
 * REORDER of GPU-Join (Gowanlock and Karsin, section 4.2) with SHORTC (section 4.4): the terms of a sum are added up in
 * the order of the dimensions' variance, the largest first, and the sum is abandoned as soon as it exceeds a limit. The
 * order of the canonical sum is part of the definition of the distance, so this is only a filter. Its limit is so much
 * larger that the canonical sum of every candidate it drops exceeds the join's limit, too. Whether the others belong is
 * decided by the canonical sum.
 *
 * Proof. A step of any metric whose sums grow is s' = fl(s + c), where c >= 0 is the term of a dimension: t * t in L2,
 * which is fused, |t| in L1, a power in Lp. t is the same number whatever the order. In Linf nothing is rounded. Let u
 * be the unit roundoff and e the smallest denormal number. Then s' is between (s + c)(1 - u) - e and (s + c)(1 + u) +
 * e. Let C be the exact sum of all n terms, p a sum of some of them in another order, and s the canonical sum. By
 * induction
 *
 *   p <= (C + n e)(1 + u)^n        and        s >= C (1 - u)^n - n e.
 *
 * If p > L then C > L / (1 + u)^n - n e, and s > L ((1 - u) / (1 + u))^n - 2 n e. That is at least the join's limit R
 * if
 *
 *   L >= (R + 2 n e) ((1 + u) / (1 - u))^n.
 *
 * For n u <= 1/64 the power is at most 1 + 2.1 n u: it is at most exp(2.0001 n u), and exp(x) <= 1 + x + x * x for
 * x <= 1. L = (R + 2 n e)(1 + (4 n + 8) u), rounded up, is larger by more than the three roundings to double in it.
 * If p overflows, the bound holds for the exact value of that step, which is above L; if L does, nothing is dropped.
 */
#ifndef ADJI_GPU_PAPERS_REORDER_H
#define ADJI_GPU_PAPERS_REORDER_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "adjoin.h"
#include "core/exact.h"

/* The limit of this filter in f32 or f64; INFINITY: it may drop nothing. */
static inline double adji_reordered_limit(adj_type type, double limit, uint32_t dim) {
  bool wide = type == ADJ_F64;
  double u = wide ? 0x1p-53 : 0x1p-24, e = wide ? 0x1p-1074 : 0x1p-149, n = dim;
  if (n * u > 1.0 / 64) return (double)INFINITY;
  double most = nextafter((limit + 2 * n * e) * (1 + (4 * n + 8) * u), (double)INFINITY);
  if (wide) return most;
  if (most > (double)FLT_MAX) return (double)INFINITY;
  float narrow = (float)most;
  return (double)narrow < most ? (double)nextafterf(narrow, INFINITY) : (double)narrow;
}

#endif
