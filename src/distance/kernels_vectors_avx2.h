/* SPDX-License-Identifier: MIT
 *
 * Shared by the kernels for AVX2 of both types: operations of kernels_type.h that kernels_x86.h does not define.
 */
#ifndef ADJI_KERNELS_VECTORS_AVX2_H
#define ADJI_KERNELS_VECTORS_AVX2_H

#include "distance/front_lanes_avx2.h"
#include "distance/kernels_x86.h"

#define V_ABS(a) V_(andnot)(V_SET1((T)-0.0), a)
#define V_LE(a, b) ((uint32_t)V_(movemask)(V_(cmp)(a, b, _CMP_LE_OQ)))
#define V_PACK(to, v, mask) PASTE(PACK, TYPE)(to, v, mask)
#define PACK_f32(to, v, mask) _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(v, front_lanes(mask)))
#define PACK_f64(to, v, mask) \
  _mm256_storeu_pd(to, _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(v), front_pairs(mask))))
#define V_PACK_IDS(to, ids, mask) PASTE(PACK_IDS, TYPE)(to, ids, mask)
#define PACK_IDS_f32(to, ids, mask)    \
  _mm256_storeu_si256((__m256i *)(to), \
                      _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(ids)), front_lanes(mask)))
#define PACK_IDS_f64(to, ids, mask)                                    \
  _mm_storeu_si128((__m128i *)(to),                                    \
                   _mm256_castsi256_si128(_mm256_permutevar8x32_epi32( \
                       _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(ids))), front_lanes(mask))))

#define COUNTS __m256i
#define COUNT_LANE PASTE(COUNT_LANE, TYPE)
#define COUNT_LANE_f32 uint32_t
#define COUNT_LANE_f64 uint64_t
#define COUNTS_ZERO() _mm256_setzero_si256()
#define COUNTS_ADD(c, a, b) PASTE(COUNTS_ADD, TYPE)(c, a, b)
#define COUNTS_ADD_f32(c, a, b) _mm256_sub_epi32(c, _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LE_OQ)))
#define COUNTS_ADD_f64(c, a, b) _mm256_sub_epi64(c, _mm256_castpd_si256(_mm256_cmp_pd(a, b, _CMP_LE_OQ)))

/* For knn_body.h: ids in lanes as wide as those of the type. AFTER(a, b): whether id a is larger than b. */
#define IDS __m256i
#define IDS_LOAD(p) PASTE(IDS_LOAD, TYPE)(p)
#define IDS_LOAD_f32(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define IDS_LOAD_f64(p) _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define IDS_STORE(p, v) PASTE(IDS_STORE, TYPE)(p, v)
#define IDS_STORE_f32(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define IDS_STORE_f64(p, v)                \
  _mm_storeu_si128((__m128i *)(void *)(p), \
                   _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(v, _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0))))
#define IDS_SET1(x) PASTE(IDS_SET1, TYPE)(x)
#define IDS_SET1_f32(x) _mm256_set1_epi32((int)(x))
#define IDS_SET1_f64(x) _mm256_set1_epi64x((long long)(uint32_t)(x))
#define SAME_IDS(a, b) PASTE(SAME_IDS, TYPE)(a, b)
#define SAME_IDS_f32(a, b) _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b))
#define SAME_IDS_f64(a, b) _mm256_castsi256_pd(_mm256_cmpeq_epi64(a, b))
#define AFTER(a, b) PASTE(AFTER, TYPE)(a, b)
#define SIGN_FLIPPED(a) _mm256_xor_si256(a, _mm256_set1_epi32(INT32_MIN))
#define AFTER_f32(a, b) _mm256_castsi256_ps(_mm256_cmpgt_epi32(SIGN_FLIPPED(a), SIGN_FLIPPED(b)))
#define AFTER_f64(a, b) _mm256_castsi256_pd(_mm256_cmpgt_epi64(a, b))
#define AS_IDS(mask) PASTE(AS_IDS, TYPE)(mask)
#define AS_IDS_f32(mask) _mm256_castps_si256(mask)
#define AS_IDS_f64(mask) _mm256_castpd_si256(mask)
#define IDS_BEFORE(s, ids, best, kept) \
  ((uint32_t)V_(movemask)(             \
      V_(or)(V_(cmp)(s, best, _CMP_LT_OQ), V_(andnot)(AFTER(ids, kept), V_(cmp)(s, best, _CMP_EQ_OQ)))))
#define IDS_MERGE(s, ids, best, kept)                                    \
  do {                                                                   \
    VEC less = V_(cmp)(s, best, _CMP_LT_OQ);                             \
    VEC lower = V_(and)(V_(cmp)(s, best, _CMP_EQ_OQ), AFTER(kept, ids)); \
    (best) = V_(blendv)(best, s, less);                                  \
    (kept) = _mm256_blendv_epi8(kept, ids, AS_IDS(V_(or)(less, lower))); \
  } while (0)
#define IDS_KEEP(s, ids, own, best, kept)                    \
  do {                                                       \
    VEC less = V_(cmp)(s, best, _CMP_NGE_UQ);                \
    if (own) less = V_(andnot)(SAME_IDS(ids, *(own)), less); \
    (best) = V_(blendv)(best, s, less);                      \
    (kept) = _mm256_blendv_epi8(kept, ids, AS_IDS(less));    \
  } while (0)

#endif
