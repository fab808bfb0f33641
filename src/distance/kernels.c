/* SPDX-License-Identifier: MIT
 *
 * The choice of a kernel table, and the canonical distance of one pair.
 */
#include "distance/kernels.h"

#include <math.h>
#include <string.h>

const adji_kernels *adji_kernels_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512")) return &adji_kernels_avx512;
  if (!strcmp(isa, "avx2")) return &adji_kernels_avx2;
#elif defined(__aarch64__)
  if (!strcmp(isa, "neon")) return &adji_kernels_neon;
#endif
  (void)isa;
  return &adji_kernels_scalar;
}

#define SUM_OF(T, suffix, FMA, ABS)                                                                              \
  static T dot_##suffix(const T *a, uint64_t a_stride, const T *b, uint64_t b_stride, uint32_t dim) {            \
    T s = 0;                                                                                                     \
    for (uint32_t j = 0; j < dim; j++)                                                                           \
      s = FMA(a[j * a_stride], b[j * b_stride], s);                                                              \
    return 0 - s;                                                                                                \
  }                                                                                                              \
                                                                                                                 \
  T adji_sum_##suffix(const adji_measure *measure, const T *a, uint64_t a_stride, const T *b, uint64_t b_stride, \
                      uint32_t dim) {                                                                            \
    if (measure->step == ADJI_STEP_DOT) return dot_##suffix(a, a_stride, b, b_stride, dim);                      \
    const T *box = measure->box;                                                                                 \
    T s = 0;                                                                                                     \
    for (uint32_t j = 0; j < dim; j++) {                                                                         \
      T t = ABS(a[j * a_stride] - b[j * b_stride]);                                                              \
      if (box && box[j] - t < t) t = box[j] - t;                                                                 \
      s = adji_step_##suffix(measure, s, t);                                                                     \
    }                                                                                                            \
    return s;                                                                                                    \
  }
SUM_OF(float, f32, fmaf, fabsf)
SUM_OF(double, f64, fma, fabs)
