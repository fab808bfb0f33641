/* SPDX-License-Identifier: MIT
 *
 * The steps of all metrics, and the measure of a join, as kernels see them; measure.h has the rest. Kernels take most
 * of the time of a build, so they include nothing that changes often: not adjoin.h.
 */
#ifndef ADJI_STEP_KINDS_H
#define ADJI_STEP_KINDS_H

#include <stdbool.h>

#include "distance/power.h"

#define ADJ_NO_ID UINT32_C(0xffffffff) /* the same as in adjoin.h; compilers check that */

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

#endif
