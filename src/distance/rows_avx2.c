/* SPDX-License-Identifier: MIT
 *
 * Sums of listed rows with AVX2: as with AVX-512, in vectors of half the width.
 */
#include "distance/rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define ROWS_INLINE static inline __attribute__((always_inline))

ROWS_INLINE __m256 two_rows(const float *low, const float *high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}

ROWS_INLINE void load_four_f32(const float *const *row, uint32_t j, __m256 *c) {
  __m256 a = two_rows(row[0] + j, row[4] + j), b = two_rows(row[1] + j, row[5] + j);
  __m256 d = two_rows(row[2] + j, row[6] + j), e = two_rows(row[3] + j, row[7] + j);
  __m256d ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
  __m256d de_low = _mm256_castps_pd(_mm256_unpacklo_ps(d, e)), de_high = _mm256_castps_pd(_mm256_unpackhi_ps(d, e));
  c[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, de_low));
  c[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, de_low));
  c[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, de_high));
  c[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, de_high));
}

ROWS_INLINE void load_four_f64(const double *const *row, uint32_t j, __m256d *c) {
  __m256d a = _mm256_loadu_pd(row[0] + j), b = _mm256_loadu_pd(row[1] + j);
  __m256d d = _mm256_loadu_pd(row[2] + j), e = _mm256_loadu_pd(row[3] + j);
  __m256d ab_even = _mm256_unpacklo_pd(a, b), ab_odd = _mm256_unpackhi_pd(a, b);
  __m256d de_even = _mm256_unpacklo_pd(d, e), de_odd = _mm256_unpackhi_pd(d, e);
  c[0] = _mm256_permute2f128_pd(ab_even, de_even, 0x20);
  c[1] = _mm256_permute2f128_pd(ab_odd, de_odd, 0x20);
  c[2] = _mm256_permute2f128_pd(ab_even, de_even, 0x31);
  c[3] = _mm256_permute2f128_pd(ab_odd, de_odd, 0x31);
}

#define T float
#define FN(name) name##_f32
#define VEC __m256
#define LANES 8
#define V_ZERO() _mm256_setzero_ps()
#define V_SUB(a, b) _mm256_sub_ps(a, b)
#define V_SET1(x) _mm256_set1_ps(x)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_ANY_LE(a, b) (_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LE_OQ)) != 0)
#define LOAD_FOUR load_four_f32
#include "distance/rows_body.h"

#define T double
#define FN(name) name##_f64
#define VEC __m256d
#define LANES 4
#define V_ZERO() _mm256_setzero_pd()
#define V_SUB(a, b) _mm256_sub_pd(a, b)
#define V_SET1(x) _mm256_set1_pd(x)
#define V_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define V_LOAD(p) _mm256_loadu_pd(p)
#define V_STORE(p, v) _mm256_storeu_pd(p, v)
#define V_ANY_LE(a, b) (_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_LE_OQ)) != 0)
#define LOAD_FOUR load_four_f64
#include "distance/rows_body.h"

const adji_rows_kernels adji_rows_kernels_avx2 = {{sums_f32, sums_f64}};
#endif
