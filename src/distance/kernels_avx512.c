/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX-512 (F, BW, DQ, VL), of f32; those of f64 are in kernels_f64_avx512.c. Packing compresses in a
 * register and stores the whole register: a compressing store to memory is many times slower on some CPUs.
 */
#if defined(__x86_64__)
#include "distance/kernels_avx512_private.h"
#include "distance/sort_ids.h"
#include "distance/sort_ids_avx512.h"
#include "distance/stream_row_avx512.h"

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

#include "distance/kernels_table.h"
static const adji_typed_kernels kernels_f32 = ADJI_KERNELS_F32;
const adji_kernels adji_kernels_avx512 = ADJI_KERNEL_TABLE("avx512", kernels_f32, adji_kernels_f64_avx512,
                                                           sort_ids_avx512, true, place_ids_avx512, stream_row_avx512);
#endif
