/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX2 with FMA, of f32; those of f64 are in kernels_f64_avx2.c.
 */
#if defined(__x86_64__)
#include "distance/kernels.h"
#include "distance/kernels_vectors_avx2.h"
#include "distance/knn_blocks_x86.h"

static inline __m256 two_rows(const float *low, const float *high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}

static inline void load_four_f32(const float *const *row, uint32_t j, __m256 *c) {
  __m256 a = two_rows(row[0] + j, row[4] + j), b = two_rows(row[1] + j, row[5] + j);
  __m256 d = two_rows(row[2] + j, row[6] + j), e = two_rows(row[3] + j, row[7] + j);
  __m256d ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
  __m256d de_low = _mm256_castps_pd(_mm256_unpacklo_ps(d, e)), de_high = _mm256_castps_pd(_mm256_unpackhi_ps(d, e));
  c[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, de_low));
  c[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, de_low));
  c[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, de_high));
  c[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, de_high));
}

#define T float
#define TYPE f32
#define VEC __m256
#define LANES 8
#define V_(op) _mm256_##op##_ps
#define LIST_HEADER "distance/knn_list_avx2.h"
#define RANGE_NAME(what) adji_##what##_f32_avx2
#include "distance/kernels_type.h"

#ifndef RANGE_PART
const adji_kernels adji_kernels_avx2 = {"avx2",
                                        {&kernels_f32, &adji_kernels_f64_avx2},
                                        adji_sort_ids_avx2,
                                        true,
                                        adji_place_ids_avx2,
                                        adji_stream_row_portable};
#endif
#endif
