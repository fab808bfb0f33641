/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX-512 (F, BW, DQ, VL). Packing compresses in a register and stores the whole register: a
 * compressing store to memory is many times slower on some CPUs.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "distance/sort_ids.h"
#include "distance/sort_ids_avx512.h"
#include "distance/stream_row_avx512.h"

/* The bodies of IDS_BEFORE, IDS_MERGE and IDS_KEEP (knn_body.h). IM: prefix of the id vectors; PS: ps or pd. */
#define BEFORE(IM, PS, s, ids, best, kept)                 \
  ((uint32_t)_mm512_cmp_##PS##_mask(s, best, _CMP_LT_OQ) | \
   (uint32_t)IM##_mask_cmple_epu32_mask(_mm512_cmp_##PS##_mask(s, best, _CMP_EQ_OQ), ids, kept))
#define MERGE(MASK, IM, PS, s, ids, best, kept)                                                      \
  do {                                                                                               \
    MASK less = _mm512_cmp_##PS##_mask(s, best, _CMP_LT_OQ);                                         \
    MASK lower = IM##_mask_cmplt_epu32_mask(_mm512_cmp_##PS##_mask(s, best, _CMP_EQ_OQ), ids, kept); \
    (best) = _mm512_mask_mov_##PS(best, less, s);                                                    \
    (kept) = IM##_mask_mov_epi32(IM##_mask_mov_epi32(kept, less, ids), lower, ids);                  \
  } while (0)
#define KEEP(MASK, IM, PS, s, ids, own, best, kept)                                                          \
  do {                                                                                                       \
    MASK less = own ? _mm512_mask_cmp_##PS##_mask(IM##_cmpneq_epi32_mask(ids, *(own)), s, best, _CMP_NGE_UQ) \
                    : _mm512_cmp_##PS##_mask(s, best, _CMP_NGE_UQ);                                          \
    (best) = _mm512_mask_mov_##PS(best, less, s);                                                            \
    (kept) = IM##_mask_mov_epi32(kept, less, ids);                                                           \
  } while (0)

#define T float
#define TYPE f32
#define VEC __m512
#define LANES 16
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_SET1(x) _mm512_set1_ps(x)
#define V_ZERO() _mm512_setzero_ps()
#define V_SUB(a, b) _mm512_sub_ps(a, b)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_MIN(a, b) _mm512_min_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)
#define V_ABS(a) _mm512_abs_ps(a)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_LE(a, b) ((uint32_t)_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ))
#define V_PACK_IDS(to, ids, mask) \
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32((__mmask16)(mask), _mm512_loadu_si512(ids)))
#define V_PACK(to, v, mask) _mm512_storeu_ps(to, _mm512_maskz_compress_ps((__mmask16)(mask), v))
#define LIST_HEADER "distance/knn_list_avx512.h"
#define IDS __m512i
#define IDS_LOAD(p) _mm512_loadu_si512(p)
#define IDS_STORE(p, v) _mm512_storeu_si512(p, v)
#define IDS_SET1(x) _mm512_set1_epi32((int)(x))
#define IDS_BEFORE(s, ids, best, kept) BEFORE(_mm512, ps, s, ids, best, kept)
#define IDS_MERGE(s, ids, best, kept) MERGE(__mmask16, _mm512, ps, s, ids, best, kept)
#define IDS_KEEP(s, ids, own, best, kept) KEEP(__mmask16, _mm512, ps, s, ids, own, best, kept)
#include "distance/kernels_type.h"

#define T double
#define TYPE f64
#define VEC __m512d
#define LANES 8
#define V_LOAD(p) _mm512_loadu_pd(p)
#define V_STORE(p, v) _mm512_storeu_pd(p, v)
#define V_SET1(x) _mm512_set1_pd(x)
#define V_ZERO() _mm512_setzero_pd()
#define V_SUB(a, b) _mm512_sub_pd(a, b)
#define V_ADD(a, b) _mm512_add_pd(a, b)
#define V_MUL(a, b) _mm512_mul_pd(a, b)
#define V_MIN(a, b) _mm512_min_pd(a, b)
#define V_MAX(a, b) _mm512_max_pd(a, b)
#define V_ABS(a) _mm512_abs_pd(a)
#define V_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define V_LE(a, b) ((uint32_t)_mm512_cmp_pd_mask(a, b, _CMP_LE_OQ))
#define V_PACK_IDS(to, ids, mask)      \
  _mm256_storeu_si256((__m256i *)(to), \
                      _mm256_maskz_compress_epi32((__mmask8)(mask), _mm256_loadu_si256((const __m256i *)(ids))))
#define V_PACK(to, v, mask) _mm512_storeu_pd(to, _mm512_maskz_compress_pd((__mmask8)(mask), v))
#define LIST_HEADER "distance/knn_list.h"
#define IDS __m256i
#define IDS_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define IDS_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define IDS_SET1(x) _mm256_set1_epi32((int)(x))
#define IDS_BEFORE(s, ids, best, kept) BEFORE(_mm256, pd, s, ids, best, kept)
#define IDS_MERGE(s, ids, best, kept) MERGE(__mmask8, _mm256, pd, s, ids, best, kept)
#define IDS_KEEP(s, ids, own, best, kept) KEEP(__mmask8, _mm256, pd, s, ids, own, best, kept)
#include "distance/kernels_type.h"

#include "distance/kernels_table.h"
const adji_kernels adji_kernels_avx512 =
    ADJI_KERNEL_TABLE("avx512", sort_ids_avx512, true, place_ids_avx512, stream_row_avx512);
#endif
