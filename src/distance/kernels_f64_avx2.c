/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX2 of f64: see kernels_avx2.c.
 */
#if defined(__x86_64__)
#include <float.h>

#include "distance/kernels.h"
#include "distance/kernels_vectors_avx2.h"
#include "distance/knn_blocks_x86.h"

static inline void load_four_f64(const double *const *row, uint32_t j, __m256d *c) {
  __m256d a = _mm256_loadu_pd(row[0] + j), b = _mm256_loadu_pd(row[1] + j);
  __m256d d = _mm256_loadu_pd(row[2] + j), e = _mm256_loadu_pd(row[3] + j);
  __m256d ab_even = _mm256_unpacklo_pd(a, b), ab_odd = _mm256_unpackhi_pd(a, b);
  __m256d de_even = _mm256_unpacklo_pd(d, e), de_odd = _mm256_unpackhi_pd(d, e);
  c[0] = _mm256_permute2f128_pd(ab_even, de_even, 0x20);
  c[1] = _mm256_permute2f128_pd(ab_odd, de_odd, 0x20);
  c[2] = _mm256_permute2f128_pd(ab_even, de_even, 0x31);
  c[3] = _mm256_permute2f128_pd(ab_odd, de_odd, 0x31);
}

#define T double
#define TYPE f64
#define VEC __m256d
#define LANES 4
#define V_(op) _mm256_##op##_pd
#define TABLE const adji_typed_kernels adji_kernels_f64_avx2
#define LIST_HEADER "distance/knn_list_f64_x86.h"
#define RANGE_NAME(what) adji_##what##_f64_avx2
#include "distance/kernels_type.h"
#endif
