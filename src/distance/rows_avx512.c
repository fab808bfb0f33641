/* SPDX-License-Identifier: MIT
 *
 * Sums of listed rows with AVX-512. Rows are loaded four coordinates at a time and transposed in registers. A gather
 * per dimension takes several times as long.
 */
#include "distance/rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define ROWS_INLINE static inline __attribute__((always_inline))

/* Quarter q of the vector: four coordinates of row first + 4 * q. */
ROWS_INLINE __m512 four_rows(const float *const *row, uint32_t first, uint32_t j) {
  __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(row[first] + j));
  v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(row[first + 4] + j));
  v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(row[first + 8] + j));
  return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(row[first + 12] + j));
}

/* Lane 4 * q + r belongs to row 4 * q + r: each quarter is transposed on its own. */
ROWS_INLINE void load_four_f32(const float *const *row, uint32_t j, __m512 *c) {
  __m512 a = four_rows(row, 0, j), b = four_rows(row, 1, j), d = four_rows(row, 2, j), e = four_rows(row, 3, j);
  __m512d ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
  __m512d de_low = _mm512_castps_pd(_mm512_unpacklo_ps(d, e)), de_high = _mm512_castps_pd(_mm512_unpackhi_ps(d, e));
  c[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, de_low));
  c[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, de_low));
  c[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, de_high));
  c[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, de_high));
}

ROWS_INLINE __m512d two_rows(const double *low, const double *high) {
  return _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(low)), _mm256_loadu_pd(high), 1);
}

ROWS_INLINE void load_four_f64(const double *const *row, uint32_t j, __m512d *c) {
  __m512d a = two_rows(row[0] + j, row[4] + j), b = two_rows(row[1] + j, row[5] + j);
  __m512d d = two_rows(row[2] + j, row[6] + j), e = two_rows(row[3] + j, row[7] + j);
  __m512d ab_even = _mm512_unpacklo_pd(a, b), ab_odd = _mm512_unpackhi_pd(a, b);
  __m512d de_even = _mm512_unpacklo_pd(d, e), de_odd = _mm512_unpackhi_pd(d, e);
  const __m512i lower = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0),
                upper = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
  c[0] = _mm512_permutex2var_pd(ab_even, lower, de_even);
  c[1] = _mm512_permutex2var_pd(ab_odd, lower, de_odd);
  c[2] = _mm512_permutex2var_pd(ab_even, upper, de_even);
  c[3] = _mm512_permutex2var_pd(ab_odd, upper, de_odd);
}

#define T float
#define FN(name) name##_f32
#define VEC __m512
#define LANES 16
#define V_ZERO() _mm512_setzero_ps()
#define V_SUB(a, b) _mm512_sub_ps(a, b)
#define V_SET1(x) _mm512_set1_ps(x)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_ANY_LE(a, b) (_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ) != 0)
#define LOAD_FOUR load_four_f32
#include "distance/rows_body.h"

#define T double
#define FN(name) name##_f64
#define VEC __m512d
#define LANES 8
#define V_ZERO() _mm512_setzero_pd()
#define V_SUB(a, b) _mm512_sub_pd(a, b)
#define V_SET1(x) _mm512_set1_pd(x)
#define V_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define V_LOAD(p) _mm512_loadu_pd(p)
#define V_STORE(p, v) _mm512_storeu_pd(p, v)
#define V_ANY_LE(a, b) (_mm512_cmp_pd_mask(a, b, _CMP_LE_OQ) != 0)
#define LOAD_FOUR load_four_f64
#include "distance/rows_body.h"

const adji_rows_kernels adji_rows_kernels_avx512 = {{sums_f32, sums_f64}};
#endif
