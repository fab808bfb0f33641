/* SPDX-License-Identifier: MIT
 *
 * The nearest point to each query of a leaf, for AVX2: see knn_near_one_body.h.
 */
#if defined(__x86_64__)
#include "distance/kernels_vectors_avx2.h"

static inline float most_f32(__m256 v) {
  v = _mm256_max_ps(v, _mm256_permute2f128_ps(v, v, 1));
  v = _mm256_max_ps(v, _mm256_permute_ps(v, 0x4e));
  return _mm256_cvtss_f32(_mm256_max_ps(v, _mm256_permute_ps(v, 0xb1)));
}

static inline float least_f32(__m256 v) {
  v = _mm256_min_ps(v, _mm256_permute2f128_ps(v, v, 1));
  v = _mm256_min_ps(v, _mm256_permute_ps(v, 0x4e));
  return _mm256_cvtss_f32(_mm256_min_ps(v, _mm256_permute_ps(v, 0xb1)));
}

static inline double most_f64(__m256d v) {
  v = _mm256_max_pd(v, _mm256_permute2f128_pd(v, v, 1));
  return _mm256_cvtsd_f64(_mm256_max_pd(v, _mm256_permute_pd(v, 5)));
}

static inline double least_f64(__m256d v) {
  v = _mm256_min_pd(v, _mm256_permute2f128_pd(v, v, 1));
  return _mm256_cvtsd_f64(_mm256_min_pd(v, _mm256_permute_pd(v, 5)));
}

/* For f64 every other lane is 0. */
static inline uint32_t most_id(__m256i v) {
  v = _mm256_max_epu32(v, _mm256_permute2x128_si256(v, v, 1));
  v = _mm256_max_epu32(v, _mm256_shuffle_epi32(v, 0x4e));
  return (uint32_t)_mm256_cvtsi256_si32(_mm256_max_epu32(v, _mm256_shuffle_epi32(v, 0xb1)));
}

#define V_MOST(v) TYPED(most)(v)
#define V_LEAST(v) TYPED(least)(v)
#define IDS_AT(a, b, ids) _mm256_and_si256(AS_IDS(V_(cmp)(a, b, _CMP_EQ_OQ)), ids)
#define IDS_IF_LESS(a, b, ids, others) _mm256_blendv_epi8(others, ids, AS_IDS(V_(cmp)(a, b, _CMP_LT_OQ)))
#define IDS_MAX(a, b) _mm256_max_epu32(a, b)
#define IDS_MOST(ids) most_id(ids)

#define T float
#define T_MAX FLT_MAX
#define TYPE f32
#define VEC __m256
#define LANES 8
#define V_(op) _mm256_##op##_ps
#define NEAREST adji_nearest_f32_avx2
#include "distance/knn_near_one_body.h"

#define T double
#define T_MAX DBL_MAX
#define TYPE f64
#define VEC __m256d
#define LANES 4
#define V_(op) _mm256_##op##_pd
#define NEAREST adji_nearest_f64_avx2
#include "distance/knn_near_one_body.h"
#endif
