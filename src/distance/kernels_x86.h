/* SPDX-License-Identifier: MIT
 *
 * Shared by the kernels for AVX2 and AVX-512: the operations of kernels_type.h. V_(op) is the intrinsic of an operation
 * for the current type.
 */
#ifndef ADJI_KERNELS_X86_H
#define ADJI_KERNELS_X86_H

#include <immintrin.h>

#define V_LOAD(p) V_(loadu)(p)
#define V_STORE(p, v) V_(storeu)(p, v)
#define V_SET1(x) V_(set1)(x)
#define V_ZERO() V_(setzero)()
#define V_SUB(a, b) V_(sub)(a, b)
#define V_ADD(a, b) V_(add)(a, b)
#define V_MUL(a, b) V_(mul)(a, b)
#define V_MIN(a, b) V_(min)(a, b)
#define V_MAX(a, b) V_(max)(a, b)
#define V_FMA(a, b, c) V_(fmadd)(a, b, c)
#define LOAD_FOUR(row, j, c) TYPED(load_four)(row, j, c)

#ifdef __AVX512F__
/* AVX-512. MASK: the type of a mask; IDS_(op): the intrinsic of an operation on as many ids as a vector has lanes.
 * Packing compresses in a register and stores the whole register: a compressing store to memory is many times slower
 * on some CPUs. */
#define V_ABS(a) V_(abs)(a)
#define V_COMPARE(a, b, how) PASTE(V_(cmp), mask)(a, b, how)
#define V_LE(a, b) ((uint32_t)V_COMPARE(a, b, _CMP_LE_OQ))
#define V_PACK(to, v, mask) V_STORE(to, V_(maskz_compress)((MASK)(mask), v))
#define V_PACK_IDS(to, ids, mask) IDS_STORE(to, IDS_(maskz_compress_epi32)((MASK)(mask), IDS_LOAD(ids)))

#define COUNTS IDS
#define COUNT_LANE uint32_t
#define COUNTS_ZERO() IDS_SET1(0)
#define COUNTS_ADD(c, a, b) IDS_(mask_add_epi32)(c, V_COMPARE(a, b, _CMP_LE_OQ), c, IDS_SET1(1))

/* For knn_body.h. */
#define IDS_SET1(x) IDS_(set1_epi32)((int)(x))
#define IDS_BEFORE(s, ids, best, kept)        \
  ((uint32_t)V_COMPARE(s, best, _CMP_LT_OQ) | \
   (uint32_t)IDS_(mask_cmple_epu32_mask)(V_COMPARE(s, best, _CMP_EQ_OQ), ids, kept))
#define IDS_MERGE(s, ids, best, kept)                                                    \
  do {                                                                                   \
    MASK less = V_COMPARE(s, best, _CMP_LT_OQ);                                          \
    MASK lower = IDS_(mask_cmplt_epu32_mask)(V_COMPARE(s, best, _CMP_EQ_OQ), ids, kept); \
    (best) = V_(mask_mov)(best, less, s);                                                \
    (kept) = IDS_(mask_mov_epi32)(IDS_(mask_mov_epi32)(kept, less, ids), lower, ids);    \
  } while (0)
#define IDS_KEEP(s, ids, own, best, kept)                                                                   \
  do {                                                                                                      \
    MASK less = own ? PASTE(V_(mask_cmp), mask)(IDS_(cmpneq_epi32_mask)(ids, *(own)), s, best, _CMP_NGE_UQ) \
                    : V_COMPARE(s, best, _CMP_NGE_UQ);                                                      \
    (best) = V_(mask_mov)(best, less, s);                                                                   \
    (kept) = IDS_(mask_mov_epi32)(kept, less, ids);                                                         \
  } while (0)
#endif

#endif
