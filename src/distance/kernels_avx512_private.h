/* SPDX-License-Identifier: MIT
 *
 * What the kernels for AVX-512 share.
 */
#ifndef ADJI_KERNELS_AVX512_PRIVATE_H
#define ADJI_KERNELS_AVX512_PRIVATE_H

#include <immintrin.h>

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

#endif
