/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX-512 of f64: kernels_avx512.c.
 */
#if defined(__x86_64__)
#include "distance/kernels_avx512_private.h"

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
const adji_typed_kernels adji_kernels_f64_avx512 = ADJI_KERNELS_F64;
#endif
