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

float adji_sum_f32(adj_metric metric, const float *a, uint64_t a_stride, const float *b, uint64_t b_stride,
                   uint32_t dim) {
  float s = 0;
  for (uint32_t j = 0; j < dim; j++) {
    float t = a[j * a_stride] - b[j * b_stride];
    if (metric == ADJ_L2)
      s = fmaf(t, t, s);
    else if (metric == ADJ_L1)
      s = s + fabsf(t);
    else
      s = fabsf(t) > s ? fabsf(t) : s;
  }
  return s;
}

double adji_sum_f64(adj_metric metric, const double *a, uint64_t a_stride, const double *b, uint64_t b_stride,
                    uint32_t dim) {
  double s = 0;
  for (uint32_t j = 0; j < dim; j++) {
    double t = a[j * a_stride] - b[j * b_stride];
    if (metric == ADJ_L2)
      s = fma(t, t, s);
    else if (metric == ADJ_L1)
      s = s + fabs(t);
    else
      s = fabs(t) > s ? fabs(t) : s;
  }
  return s;
}

double adji_limit(adj_type type, adj_metric metric, double radius) {
  if (type == ADJ_F32) {
    float r = (float)radius;
    return metric == ADJ_L2 ? (double)(r * r) : (double)r;
  }
  return metric == ADJ_L2 ? radius * radius : radius;
}
