/* SPDX-License-Identifier: MIT
 *
 * What a join measures, as its kernels see it: the step from dimension to dimension, the limit of the sum that a radius
 * means, and how a sum is reported (docs/exactness.md). Every metric of the interface is one of these steps, over the
 * points or over points derived from them (data/derive.h).
 */
#ifndef ADJI_MEASURE_H
#define ADJI_MEASURE_H

#include <stdbool.h>

#include "adjoin.h"
#include "distance/power.h"

/* The steps that have kernels: X(name, NAME). The _box steps take |t| the shorter way round a periodic box. */
#define ADJI_STEP_LIST(X) ADJI_STEP_LIST_1_(X) X(dot, DOT) ADJI_STEP_LIST_2_(X)
/* The steps whose sums never decrease from one dimension to the next. */
#define ADJI_GROWING_STEP_LIST(X) ADJI_STEP_LIST_1_(X) ADJI_STEP_LIST_2_(X)
#define ADJI_STEP_LIST_1_(X) \
  X(l2, L2)                  \
  X(l1, L1)                  \
  X(linf, LINF)              \
  X(lp, LP)
#define ADJI_STEP_LIST_2_(X) \
  X(l2_box, L2_BOX)          \
  X(l1_box, L1_BOX)          \
  X(linf_box, LINF_BOX)      \
  X(lp_box, LP_BOX)

typedef enum adji_step {
#define ADJI_STEP_ENUM_(name, NAME) ADJI_STEP_##NAME,
  ADJI_STEP_LIST(ADJI_STEP_ENUM_)
#undef ADJI_STEP_ENUM_
      ADJI_STEPS
} adji_step;

typedef enum adji_report {
  ADJI_REPORT_SUM,     /* s */
  ADJI_REPORT_ROOT,    /* sqrt(s) */
  ADJI_REPORT_POWER,   /* s^(1/p) */
  ADJI_REPORT_HALF,    /* s / 2: cosine */
  ADJI_REPORT_NEGATED, /* 0 - s: inner product */
  ADJI_REPORT_ARC      /* 2 asin(sqrt(s) / 2) in some unit */
} adji_report;

typedef struct adji_measure {
  adji_step step;
  adji_report report;
  adji_power power; /* Lp */
  double unit;      /* ADJI_REPORT_ARC: the distance of one radian */
  const void *box;  /* _box steps: a length of T per dimension, infinity where not periodic */
} adji_measure;

/* The step without a box: ADJI_STEP_L2 for ADJI_STEP_L2_BOX. */
static inline adji_step adji_plain_step(adji_step step) {
  return step >= ADJI_STEP_L2_BOX ? (adji_step)(step - ADJI_STEP_L2_BOX) : step;
}

/* Whether sums never decrease from one dimension to the next and a point has sum 0 with itself. Neither holds for
 * inner products. */
static inline bool adji_measure_grows(const adji_measure *measure) {
  return measure->step != ADJI_STEP_DOT;
}

/* The length of the box in dimension j; 0: not periodic. */
static inline double adji_box_length(const adji_measure *measure, adj_type type, uint32_t j) {
  if (!measure->box) return 0;
  double length = type == ADJ_F64 ? ((const double *)measure->box)[j] : (double)((const float *)measure->box)[j];
  return isinf(length) ? 0 : length;
}

/* The sum s plus the term of one more dimension, in which the points are t >= 0 apart. Not for inner products. */
#define ADJI_STEP_OF_(T, suffix, FMA)                                         \
  static inline T adji_step_##suffix(const adji_measure *measure, T s, T t) { \
    switch (adji_plain_step(measure->step)) {                                 \
      case ADJI_STEP_L2:                                                      \
        return FMA(t, t, s);                                                  \
      case ADJI_STEP_L1:                                                      \
        return s + t;                                                         \
      case ADJI_STEP_LP:                                                      \
        return s + adji_power_##suffix(&measure->power, t);                   \
      default:                                                                \
        return t > s ? t : s;                                                 \
    }                                                                         \
  }
ADJI_STEP_OF_(float, f32, fmaf)
ADJI_STEP_OF_(double, f64, fma)
#undef ADJI_STEP_OF_

/* How far the canonical sum s (L2) may be from d^2, the true one: s <= d^2 * factor + least, and d^2 <= s * factor +
 * least, unless something overflows. Let u be half an ulp of 1. t = fl(a - b) is off by a factor of at most 1 + u. Each
 * of the dim fused operations is off by a factor 1 + u of the sum so far, or by half of the smallest number. The factor
 * is generous: it also covers a few roundings of what is computed from it. */
typedef struct adji_sum_error {
  double factor, least;
} adji_sum_error;

static inline adji_sum_error adji_sum_error_of(adj_type type, uint32_t dim) {
  double u = type == ADJ_F32 ? 0x1p-24 : 0x1p-53, tiny = type == ADJ_F32 ? 0x1p-149 : 0x1p-1074;
  return (adji_sum_error){1 + 4 * u * (dim + 4.0), 2 * tiny * dim};
}

/* The limit of s that a radius means: T(r) squared and rounded to T for L2, and so on. Exact in the type. */
double adji_limit(const adji_measure *measure, adj_type type, double radius);

/* Converts count sums to the distances reported, in the type. `to` may be the same array as sums. */
void adji_report_distances(const adji_measure *measure, adj_type type, const void *sums, uint64_t count, void *to);

#endif
