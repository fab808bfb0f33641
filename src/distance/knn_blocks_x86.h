/* SPDX-License-Identifier: MIT
 *
 * Sorting networks on keys in registers of AVX2, for the neighbour lists of knn_list_avx2.h and knn_list_f64_x86.h.
 *
 * A key is a double that is not negative and not NaN, so keys order as their bits do. The same is true of any 64-bit
 * integer below 0x7ff0000000000001, read as a double. AVX2 has no minimum of 64-bit integers, but min and max of
 * doubles return one of their operands, bit for bit, even a denormal one, since calls compute in the default
 * floating-point state (core/threads.h).
 */
#ifndef ADJI_KNN_BLOCKS_X86_H
#define ADJI_KNN_BLOCKS_X86_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define BLOCK_INLINE static inline __attribute__((always_inline))

/* Eight keys. */
typedef struct block {
  __m256d low, high;
} block;

BLOCK_INLINE block block_min(block a, block b) {
  return (block){_mm256_min_pd(a.low, b.low), _mm256_min_pd(a.high, b.high)};
}

BLOCK_INLINE block block_max(block a, block b) {
  return (block){_mm256_max_pd(a.low, b.low), _mm256_max_pd(a.high, b.high)};
}

/* Sorts keys that ascend and then descend, or the other way round: exchanges 4 apart, 2 apart and 1 apart. The lanes
 * are shuffled so that an exchange is one minimum and one maximum. */
#define SORT_BITONIC(name, FIRST, SECOND)                                                   \
  BLOCK_INLINE block name(block x) {                                                        \
    __m256d a = FIRST(x.low, x.high), b = SECOND(x.low, x.high);                            \
    __m256d c = _mm256_permute2f128_pd(a, b, 0x20), d = _mm256_permute2f128_pd(a, b, 0x31); \
    a = FIRST(c, d);                                                                        \
    b = SECOND(c, d);                                                                       \
    c = _mm256_unpacklo_pd(a, b);                                                           \
    d = _mm256_unpackhi_pd(a, b);                                                           \
    a = FIRST(c, d);                                                                        \
    b = SECOND(c, d);                                                                       \
    c = _mm256_unpacklo_pd(a, b);                                                           \
    d = _mm256_unpackhi_pd(a, b);                                                           \
    return (block){_mm256_permute2f128_pd(c, d, 0x20), _mm256_permute2f128_pd(c, d, 0x31)}; \
  }
SORT_BITONIC(block_ascending, _mm256_min_pd, _mm256_max_pd)
SORT_BITONIC(block_descending, _mm256_max_pd, _mm256_min_pd)
#undef SORT_BITONIC

#define EXCHANGE(a, b)                   \
  do {                                   \
    __m256d least = _mm256_min_pd(a, b); \
    (b) = _mm256_max_pd(a, b);           \
    (a) = least;                         \
  } while (0)

/* Sorts 16 keys in four vectors into two halves of 8, the first ascending, the second descending. The four lanes are
 * sorted each on its own, then two and two of them are merged. Lanes 1 and 3 are reversed, so that merging needs no
 * reversal. */
BLOCK_INLINE void sort_halves(__m256d v0, __m256d v1, __m256d v2, __m256d v3, block *first, block *second) {
  EXCHANGE(v0, v1);
  EXCHANGE(v2, v3);
  EXCHANGE(v0, v2);
  EXCHANGE(v1, v3);
  EXCHANGE(v1, v2);
  __m256d even_low = _mm256_unpacklo_pd(v0, v1), even_high = _mm256_unpacklo_pd(v2, v3);
  __m256d odd_high = _mm256_unpackhi_pd(v1, v0), odd_low = _mm256_unpackhi_pd(v3, v2);
  *first = block_ascending(
      (block){_mm256_permute2f128_pd(even_low, even_high, 0x20), _mm256_permute2f128_pd(odd_low, odd_high, 0x20)});
  *second = block_descending(
      (block){_mm256_permute2f128_pd(even_low, even_high, 0x31), _mm256_permute2f128_pd(odd_low, odd_high, 0x31)});
}
#undef EXCHANGE

/* Merges 16 keys, in any order, into an ascending list of `wide` blocks. Some lane of the result has the least of the
 * keys that are dropped.
 *
 * Of two sorted sequences, one ascending and one descending, the smaller half is bitonic. Halves of halves are
 * exchanged until each block can be sorted on its own. */
BLOCK_INLINE __m256d merge_network(block *keys, const uint32_t wide, __m256d v0, __m256d v1, __m256d v2, __m256d v3) {
  block first, second;
  sort_halves(v0, v1, v2, v3, &first, &second);
  block low = block_descending(block_min(first, second)), high = block_max(first, second), dropped;
  if (wide == 1) {
    dropped = block_min(high, block_max(keys[0], low));
    keys[0] = block_ascending(block_min(keys[0], low));
    return _mm256_min_pd(dropped.low, dropped.high);
  }
  high = block_descending(high);
  dropped = block_min(block_max(keys[wide - 1], low), block_max(keys[wide - 2], high));
  keys[wide - 1] = block_min(keys[wide - 1], low);
  keys[wide - 2] = block_min(keys[wide - 2], high);
#pragma GCC unroll 4
  for (uint32_t half = wide / 2; half; half /= 2) {
#pragma GCC unroll 8
    for (uint32_t i = 0; i < wide; i++) {
      if (i & half) continue;
      block one = keys[i], other = keys[i + half];
      keys[i] = block_min(one, other);
      keys[i + half] = block_max(one, other);
    }
  }
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++)
    keys[i] = block_ascending(keys[i]);
  return _mm256_min_pd(dropped.low, dropped.high);
}

/* A list of eight blocks does not stay in registers while it is merged. So all kernels share one function that merges
 * it, instead of a copy in each, which takes less time to compile. */
static __attribute__((noinline, unused)) __m256d merge_8(block *keys, __m256d v0, __m256d v1, __m256d v2, __m256d v3) {
  return merge_network(keys, 8, v0, v1, v2, v3);
}

BLOCK_INLINE __m256d merge_keys(block *keys, const uint32_t wide, __m256d v0, __m256d v1, __m256d v2, __m256d v3) {
  return wide == 8 ? merge_8(keys, v0, v1, v2, v3) : merge_network(keys, wide, v0, v1, v2, v3);
}

/* Inserts a key, given in all lanes: new[i] = min(old[i], max(old[i - 1], key)) for all i at once. Lane 3 of the result
 * is the key that is dropped; the other lanes are infinite. */
BLOCK_INLINE __m256d insert_key(block *keys, const uint32_t wide, __m256d x) {
  __m256d dropped = _mm256_blend_pd(_mm256_set1_pd(INFINITY), _mm256_max_pd(keys[wide - 1].high, x), 8);
  __m256d before = _mm256_setzero_pd();
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++) {
    __m256d low = _mm256_permute4x64_pd(keys[i].low, 0x93), high = _mm256_permute4x64_pd(keys[i].high, 0x93);
    keys[i].low = _mm256_min_pd(keys[i].low, _mm256_max_pd(_mm256_blend_pd(low, before, 1), x));
    keys[i].high = _mm256_min_pd(keys[i].high, _mm256_max_pd(_mm256_blend_pd(high, low, 1), x));
    before = high;
  }
  return dropped;
}

#endif
