/* SPDX-License-Identifier: MIT
 *
 * Ascending order of a row's ids with AVX-512: a bitonic network over registers for rows of up to
 * 256 ids. Rows are short (a point's neighbours), so the network's n log^2 n comparisons, 16 at a
 * time and without a branch, beat any method that looks at one id at a time.
 */
#ifndef ADJI_SORT_IDS_AVX512_H
#define ADJI_SORT_IDS_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#include "distance/sort_ids.h"

#define SORT_INLINE static inline __attribute__((always_inline))

/* Compares each lane with the one whose number differs in the bits of the permutation; lanes in
 * upper keep the larger. */
SORT_INLINE __m512i exchange_lanes(__m512i v, __m512i other, __mmask16 upper) {
  return _mm512_mask_max_epu32(_mm512_min_epu32(v, other), upper, v, other);
}

SORT_INLINE __m512i reverse_lanes(__m512i v) {
  return _mm512_permutexvar_epi32(_mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), v);
}

/* The last four steps of every merge: distance 8, 4, 2, 1 within a register. */
SORT_INLINE __m512i merge_lanes(__m512i v) {
  v = exchange_lanes(v, _mm512_shuffle_i64x2(v, v, 0x4e), 0xff00);
  v = exchange_lanes(v, _mm512_shuffle_i64x2(v, v, 0xb1), 0xf0f0);
  v = exchange_lanes(v, _mm512_shuffle_epi32(v, 0x4e), 0xcccc);
  return exchange_lanes(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
}

/* One register of 16 in order. */
SORT_INLINE __m512i sort_lanes(__m512i v) {
  v = exchange_lanes(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
  v = exchange_lanes(v, _mm512_shuffle_epi32(v, 0x1b), 0xcccc);
  v = exchange_lanes(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
  __m512i other = _mm512_shuffle_i64x2(v, v, 0xb1);
  v = exchange_lanes(v, _mm512_shuffle_epi32(other, 0x1b), 0xf0f0);
  v = exchange_lanes(v, _mm512_shuffle_epi32(v, 0x4e), 0xcccc);
  v = exchange_lanes(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
  v = exchange_lanes(v, reverse_lanes(v), 0xff00);
  v = exchange_lanes(v, _mm512_shuffle_i64x2(v, v, 0xb1), 0xf0f0);
  v = exchange_lanes(v, _mm512_shuffle_epi32(v, 0x4e), 0xcccc);
  return exchange_lanes(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
}

SORT_INLINE void exchange_registers(__m512i *a, __m512i *b) {
  __m512i low = _mm512_min_epu32(*a, *b);
  *b = _mm512_max_epu32(*a, *b);
  *a = low;
}

/* `many` registers (a power of two, constant where inlined) in order. */
SORT_INLINE void sort_registers(__m512i *v, const uint32_t many) {
  for (uint32_t i = 0; i < many; i++)
    v[i] = sort_lanes(v[i]);
  for (uint32_t run = 1; run < many; run *= 2) { /* merge runs of `run` registers */
    for (uint32_t base = 0; base < many; base += 2 * run) {
      for (uint32_t i = 0; i < run; i++) { /* compare with the mirror image: both halves turn bitonic */
        __m512i mirrored = reverse_lanes(v[base + 2 * run - 1 - i]);
        __m512i low = _mm512_min_epu32(v[base + i], mirrored);
        v[base + 2 * run - 1 - i] = reverse_lanes(_mm512_max_epu32(v[base + i], mirrored));
        v[base + i] = low;
      }
      for (uint32_t half = run / 2; half; half /= 2)
        for (uint32_t i = 0; i < 2 * run; i++)
          if (!(i & half)) exchange_registers(&v[base + i], &v[base + i + half]);
      for (uint32_t i = 0; i < 2 * run; i++)
        v[base + i] = merge_lanes(v[base + i]);
    }
  }
}

SORT_INLINE void sort_padded(uint32_t *ids, uint32_t count, const uint32_t many) {
  __m512i v[16];
  uint32_t full = count / 16;
  for (uint32_t i = 0; i < many; i++) {
    if (i < full)
      v[i] = _mm512_loadu_si512(ids + 16 * i);
    else {
      uint32_t left = i == full ? count % 16 : 0;
      v[i] = _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), (__mmask16)((1u << left) - 1), ids + 16 * i);
    }
  }
  sort_registers(v, many);
  for (uint32_t i = 0; 16 * i < count; i++) {
    uint32_t left = count - 16 * i;
    _mm512_mask_storeu_epi32(ids + 16 * i, left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1), v[i]);
  }
}

static void sort_ids_avx512(uint32_t *ids, uint32_t count) {
  if (count <= 1) return;
  if (count <= 16)
    sort_padded(ids, count, 1);
  else if (count <= 32)
    sort_padded(ids, count, 2);
  else if (count <= 64)
    sort_padded(ids, count, 4);
  else if (count <= 128)
    sort_padded(ids, count, 8);
  else if (count <= 256)
    sort_padded(ids, count, 16);
  else
    adji_sort_ids_portable(ids, count);
}

#undef SORT_INLINE
#endif
