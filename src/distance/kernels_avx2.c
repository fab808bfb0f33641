/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX2 with FMA. AVX2 cannot compress: a permutation moves the set lanes to the front. pdep and pext
 * compute it from the mask.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "distance/sort_ids.h"
#include "distance/stream_row.h"

/* The lane numbers of the set bits of an 8-lane mask, packed to the front, as 8 x 32 bits. */
static inline __m256i front_lanes(uint32_t mask) {
  uint64_t wide = _pdep_u64(mask, UINT64_C(0x0101010101010101)) * 0xff;
  uint64_t lanes = _pext_u64(UINT64_C(0x0706050403020100), wide);
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)lanes));
}

/* The same for 4 lanes of 64 bits, as pairs of 32-bit lanes. */
static inline __m256i front_pairs(uint32_t mask) {
  return front_lanes((uint32_t)_pdep_u32(mask, 0x55) * 3);
}

#define T float
#define TYPE f32
#define VEC __m256
#define LANES 8
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_SET1(x) _mm256_set1_ps(x)
#define V_ZERO() _mm256_setzero_ps()
#define V_SUB(a, b) _mm256_sub_ps(a, b)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_MUL(a, b) _mm256_mul_ps(a, b)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)
#define V_ABS(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_LE(a, b) ((uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LE_OQ)))
#define V_PACK_IDS(to, ids, mask)      \
  _mm256_storeu_si256((__m256i *)(to), \
                      _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(ids)), front_lanes(mask)))
#define V_PACK(to, v, mask) _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(v, front_lanes(mask)))
#define LIST_HEADER "distance/knn_list.h"
#include "distance/kernels_type.h"

#define T double
#define TYPE f64
#define VEC __m256d
#define LANES 4
#define V_LOAD(p) _mm256_loadu_pd(p)
#define V_STORE(p, v) _mm256_storeu_pd(p, v)
#define V_SET1(x) _mm256_set1_pd(x)
#define V_ZERO() _mm256_setzero_pd()
#define V_SUB(a, b) _mm256_sub_pd(a, b)
#define V_ADD(a, b) _mm256_add_pd(a, b)
#define V_MUL(a, b) _mm256_mul_pd(a, b)
#define V_MIN(a, b) _mm256_min_pd(a, b)
#define V_MAX(a, b) _mm256_max_pd(a, b)
#define V_ABS(a) _mm256_andnot_pd(_mm256_set1_pd(-0.0), a)
#define V_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define V_LE(a, b) ((uint32_t)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_LE_OQ)))
#define V_PACK_IDS(to, ids, mask)                                      \
  _mm_storeu_si128((__m128i *)(to),                                    \
                   _mm256_castsi256_si128(_mm256_permutevar8x32_epi32( \
                       _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(ids))), front_lanes(mask))))
#define V_PACK(to, v, mask) \
  _mm256_storeu_pd(to, _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(v), front_pairs(mask))))
#define LIST_HEADER "distance/knn_list.h"
#include "distance/kernels_type.h"

#include "distance/kernels_table.h"
static const adji_typed_kernels kernels_f32 = ADJI_KERNELS_F32, kernels_f64 = ADJI_KERNELS_F64;
const adji_kernels adji_kernels_avx2 = ADJI_KERNEL_TABLE("avx2", kernels_f32, kernels_f64, adji_sort_ids_portable,
                                                         false, adji_place_ids_portable, adji_stream_row_portable);
#endif
