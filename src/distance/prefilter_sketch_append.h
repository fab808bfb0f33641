/* SPDX-License-Identifier: MIT
 *
 * Turning what passes a prefilter of sketches into keys, with AVX-512.
 */
#ifndef ADJI_PREFILTER_SKETCH_APPEND_H
#define ADJI_PREFILTER_SKETCH_APPEND_H

#include <immintrin.h>

#include "distance/prefilter_sketch.h"

#define SKETCH_INLINE static inline __attribute__((always_inline))

/* The lanes that hold candidates, of the block at candidate number `at` of the tile. */
SKETCH_INLINE __mmask16 valid_lanes(const adji_prefilter_sketch_task *task, uint32_t at) {
  uint32_t remaining = at < task->count ? task->count - at : 0;
  return remaining >= 16 ? 0xffff : (__mmask16)((1u << remaining) - 1);
}

/* Appends the lanes of mask, with the given values, to the keys of query q. */
SKETCH_INLINE void append(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, __mmask16 mask,
                          __m512i value) {
  const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(value));
  __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(value, 1));
  __m512i place = _mm512_add_epi64(lanes, _mm512_set1_epi64((int64_t)task->first + at));
  low = _mm512_or_si512(_mm512_slli_epi64(low, 32), place);
  high = _mm512_or_si512(_mm512_slli_epi64(high, 32), _mm512_add_epi64(place, _mm512_set1_epi64(8)));
  uint64_t *to = task->keys[q] + task->found[q];
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi64((__mmask8)mask, low));
  to += __builtin_popcount(mask & 0xff);
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi64((__mmask8)(mask >> 8), high));
  task->found[q] += (uint32_t)__builtin_popcount(mask);
}

/* Appends what passes of 16 sums of codes. */
SKETCH_INLINE void keep_codes(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, __mmask16 valid,
                              __m512i sum) {
  __mmask16 mask = _mm512_cmpge_epi32_mask(sum, _mm512_set1_epi32(task->least[q].code)) & valid;
  if (!mask) return;
  __m512i value = _mm512_sub_epi32(_mm512_set1_epi32(task->base[q].code), _mm512_add_epi32(sum, sum));
  append(task, q, at, mask, _mm512_max_epi32(value, _mm512_setzero_si512()));
}

/* Appends what passes of 16 sums of f32. */
SKETCH_INLINE void keep_f32(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, __mmask16 valid,
                            __m512 sum) {
  __mmask16 mask = _mm512_cmp_ps_mask(sum, _mm512_set1_ps(task->least[q].f32), _CMP_GE_OQ) & valid;
  if (!mask) return;
  __m512 value = _mm512_sub_ps(_mm512_set1_ps(task->base[q].f32), _mm512_add_ps(sum, sum));
  append(task, q, at, mask, _mm512_castps_si512(_mm512_max_ps(value, _mm512_setzero_ps())));
}

#endif
