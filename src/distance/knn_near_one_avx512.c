/* SPDX-License-Identifier: MIT
 *
 * The nearest point to each query of a leaf, for AVX-512: see knn_near_one_body.h.
 */
#if defined(__x86_64__)
#include "distance/kernels_x86.h"

#define T float
#define T_MAX FLT_MAX
#define TYPE f32
#define VEC __m512
#define LANES 16
#define V_(op) _mm512_##op##_ps
#define V_MOST(v) _mm512_reduce_max_ps(v)
#define V_LEAST(v) _mm512_reduce_min_ps(v)
#define MASK __mmask16
#define IDS __m512i
#define IDS_(op) _mm512_##op
#define IDS_LOAD(p) _mm512_loadu_si512(p)
#define IDS_STORE(p, v) _mm512_storeu_si512(p, v)
#define IDS_AT(a, b, ids) IDS_(maskz_mov_epi32)(V_COMPARE(a, b, _CMP_EQ_OQ), ids)
#define IDS_IF_LESS(a, b, ids, others) IDS_(mask_mov_epi32)(others, V_COMPARE(a, b, _CMP_LT_OQ), ids)
#define IDS_MAX(a, b) IDS_(max_epu32)(a, b)
#define IDS_MOST(ids) _mm512_reduce_max_epu32(ids)
#define NEAREST adji_nearest_f32_avx512
#include "distance/knn_near_one_body.h"

#undef MASK
#undef IDS
#undef IDS_
#undef IDS_LOAD
#undef IDS_STORE
#undef IDS_MOST
#undef V_MOST
#undef V_LEAST
#define T double
#define T_MAX DBL_MAX
#define TYPE f64
#define VEC __m512d
#define LANES 8
#define V_(op) _mm512_##op##_pd
#define V_MOST(v) _mm512_reduce_max_pd(v)
#define V_LEAST(v) _mm512_reduce_min_pd(v)
#define MASK __mmask8
#define IDS __m256i
#define IDS_(op) _mm256_##op
#define IDS_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define IDS_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define IDS_MOST(ids) _mm512_reduce_max_epu32(_mm512_zextsi256_si512(ids))
#define NEAREST adji_nearest_f64_avx512
#include "distance/knn_near_one_body.h"
#endif
