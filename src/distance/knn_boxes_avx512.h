/* SPDX-License-Identifier: MIT
 *
 * One query and 16 boxes, or the 16 points of a leaf, for AVX-512, f32 and L2: shared by knn_near_avx512.c and
 * knn_pool_avx512.c.
 */
#ifndef ADJI_KNN_BOXES_AVX512_H
#define ADJI_KNN_BOXES_AVX512_H

#include <immintrin.h>

#include "distance/knn.h"

#ifndef ADJI_INLINE
#define ADJI_INLINE static inline __attribute__((always_inline))
#endif

ADJI_INLINE __mmask16 first_lanes(uint32_t many) {
  return many >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << many) - 1);
}

/* Lower bounds of the sums with the points of 16 boxes. x - min(max(x, low), high) is plus or minus the gap to a box.
 * Rounding does not depend on the sign, so the sums are those of box_bound() in knn_body.h. */
ADJI_INLINE __m512 bound_boxes(const float *x, const float *boxes, uint64_t step, const uint32_t dim) {
  __m512 s = _mm512_setzero_ps();
  for (uint32_t j = 0; j < dim; j++) {
    const float *at = boxes + (uint64_t)2 * j * step;
    __m512 v = _mm512_set1_ps(x[j]);
    __m512 t = _mm512_sub_ps(v, _mm512_min_ps(_mm512_max_ps(v, _mm512_loadu_ps(at)), _mm512_loadu_ps(at + step)));
    s = _mm512_fmadd_ps(t, t, s);
  }
  return s;
}

/* The canonical sums with the points of a leaf. */
ADJI_INLINE __m512 sums_of_leaf(const float *x, const float *coords, uint64_t leaf, const uint32_t dim) {
  __m512 s = _mm512_setzero_ps();
  for (uint32_t j = 0; j < dim; j++) {
    __m512 c = _mm512_loadu_ps(coords + (leaf * dim + j) * ADJI_LEAF), t = _mm512_sub_ps(_mm512_set1_ps(x[j]), c);
    s = _mm512_fmadd_ps(t, t, s);
  }
  return s;
}

#endif
