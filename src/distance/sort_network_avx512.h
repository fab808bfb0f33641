/* SPDX-License-Identifier: MIT
 *
 * A bitonic network that sorts up to 256 unsigned numbers in AVX-512 registers: n log^2 n comparisons, 16 at a time,
 * without a branch.
 */
#ifndef ADJI_SORT_NETWORK_AVX512_H
#define ADJI_SORT_NETWORK_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define SORT_INLINE static inline __attribute__((always_inline))

/* Register numbers must be constants. clang unrolls these loops by itself and does not know the pragma. */
#ifdef __clang__
#define SORT_UNROLL
#else
#define SORT_UNROLL _Pragma("GCC unroll 16")
#endif

/* Compares each lane with its partner; the lanes in `upper` keep the larger one. */
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

/* Sorts one register of 16. */
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

/* Sorts `many` registers (a constant where inlined), as if padded to the next power of two with the largest number.
 * Comparisons with the padding change nothing and are left out. */
SORT_INLINE void sort_registers(__m512i *v, const uint32_t many) {
  SORT_UNROLL
  for (uint32_t i = 0; i < many; i++)
    v[i] = sort_lanes(v[i]);
  SORT_UNROLL
  for (uint32_t run = 1; run < many; run *= 2) { /* merge runs of `run` registers */
    SORT_UNROLL
    for (uint32_t base = 0; base < many; base += 2 * run) {
      if (base + run >= many) continue; /* nothing to merge with */
      SORT_UNROLL
      for (uint32_t i = 0; i < run; i++) { /* compare with the mirror image: both halves become bitonic */
        uint32_t other = base + 2 * run - 1 - i;
        if (other >= many) continue;
        __m512i mirrored = reverse_lanes(v[other]);
        __m512i low = _mm512_min_epu32(v[base + i], mirrored);
        v[other] = reverse_lanes(_mm512_max_epu32(v[base + i], mirrored));
        v[base + i] = low;
      }
      SORT_UNROLL
      for (uint32_t half = run / 2; half; half /= 2) {
        SORT_UNROLL
        for (uint32_t i = base; i < base + 2 * run; i++)
          if (!((i - base) & half) && i + half < many) exchange_registers(&v[i], &v[i + half]);
      }
      SORT_UNROLL
      for (uint32_t i = base; i < base + 2 * run; i++)
        if (i < many) v[i] = merge_lanes(v[i]);
    }
  }
}

#endif
