/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX-512 of f64: see kernels_avx512.c.
 */
#if defined(__x86_64__)
#include <float.h>

#include "distance/kernels.h"
#include "distance/kernels_x86.h"
#include "distance/knn_blocks_x86.h"

static inline __m512d two_rows(const double *low, const double *high) {
  return _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(low)), _mm256_loadu_pd(high), 1);
}

static inline void load_four_f64(const double *const *row, uint32_t j, __m512d *c) {
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

#define T double
#define TYPE f64
#define VEC __m512d
#define LANES 8
#define V_(op) _mm512_##op##_pd
#define MASK __mmask8
#define IDS __m256i
#define IDS_(op) _mm256_##op
#define IDS_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define IDS_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define TABLE const adji_typed_kernels adji_kernels_f64_avx512
#define LIST_HEADER "distance/knn_list_f64_x86.h"
#define RANGE_NAME(what) adji_##what##_f64_avx512
#include "distance/kernels_type.h"
#endif
