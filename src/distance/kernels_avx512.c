/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX-512 (F, BW, DQ, VL). Packing compresses in a register and stores the whole of
 * it: a compressing store to memory is many times slower on some CPUs.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "distance/sort_ids.h"
#include "distance/sort_ids_avx512.h"

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
#define LIST_HEADER "distance/nearest_list_avx512.h"
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
#define LIST_HEADER "distance/nearest_list.h"
#define KEY adji_wide_key
#define KEY_SUM(key) ((key).sum)
#define KEY_ID(key) ((key).id)
#define INSERT(best, k, sum, id) adji_insert_f64(best, k, (adji_wide_key){sum, id})
#include "distance/kernels_type.h"

#include "distance/kernels_table.h"
const adji_kernels adji_kernels_avx512 = ADJI_KERNEL_TABLE("avx512", sort_ids_avx512, true, place_ids_avx512);
#endif
