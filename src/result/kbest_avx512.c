/* SPDX-License-Identifier: MIT
 *
 * Keys of 64 bits with AVX-512: partitions by compressing, eight keys at a time, and a bitonic network in
 * registers for up to 64 keys.
 */
#include "result/kbest.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define KEY_INLINE static inline __attribute__((always_inline))

/* ---- The network ------------------------------------------------------------------------------------ */

/* Compares each lane of v with that of `other`; lanes in `upper` keep the larger key. */
KEY_INLINE __m512i exchange(__m512i v, __m512i other, __mmask8 upper) {
  return _mm512_mask_max_epu64(_mm512_min_epu64(v, other), upper, v, other);
}

KEY_INLINE __m512i reversed(__m512i v) {
  return _mm512_permutexvar_epi64(_mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7), v);
}

/* The last three steps of every merge: distances 4, 2 and 1 within a register. */
KEY_INLINE __m512i merge_within(__m512i v) {
  v = exchange(v, _mm512_shuffle_i64x2(v, v, 0x4e), 0xf0);
  v = exchange(v, _mm512_permutex_epi64(v, 0x4e), 0xcc);
  return exchange(v, _mm512_permutex_epi64(v, 0xb1), 0xaa);
}

KEY_INLINE __m512i sort_within(__m512i v) {
  v = exchange(v, _mm512_permutex_epi64(v, 0xb1), 0xaa);
  v = exchange(v, _mm512_permutex_epi64(v, 0x1b), 0xcc);
  v = exchange(v, _mm512_permutex_epi64(v, 0xb1), 0xaa);
  v = exchange(v, reversed(v), 0xf0);
  v = exchange(v, _mm512_permutex_epi64(v, 0x4e), 0xcc);
  return exchange(v, _mm512_permutex_epi64(v, 0xb1), 0xaa);
}

/* Merges two sorted runs of `run` registers each. */
KEY_INLINE void merge_runs(__m512i *v, const uint32_t run) {
  for (uint32_t i = 0; i < run; i++) { /* compared with the mirror image: both halves become bitonic */
    __m512i low = v[i], high = reversed(v[2 * run - 1 - i]);
    v[i] = _mm512_min_epu64(low, high);
    v[2 * run - 1 - i] = reversed(_mm512_max_epu64(low, high));
  }
  for (uint32_t half = run / 2; half; half /= 2)
    for (uint32_t i = 0; i < 2 * run; i++)
      if (!(i & half)) {
        __m512i low = _mm512_min_epu64(v[i], v[i + half]);
        v[i + half] = _mm512_max_epu64(v[i], v[i + half]);
        v[i] = low;
      }
  for (uint32_t i = 0; i < 2 * run; i++)
    v[i] = merge_within(v[i]);
}

/* The lanes of register i that hold keys. */
KEY_INLINE __mmask8 lanes_of(uint64_t count, uint32_t i) {
  uint64_t first = (uint64_t)8 * i;
  return first + 8 <= count ? 0xff : first >= count ? 0 : (__mmask8)((1u << (count - first)) - 1);
}

KEY_INLINE void sort_registers(uint64_t *keys, uint64_t count, const uint32_t many) {
  __m512i v[8];
  for (uint32_t i = 0; i < many; i++) {
    v[i] = _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), lanes_of(count, i), keys + (size_t)8 * i);
    v[i] = sort_within(v[i]);
  }
  for (uint32_t run = 1; run < many; run *= 2)
    for (uint32_t base = 0; base < many; base += 2 * run)
      merge_runs(v + base, run);
  for (uint32_t i = 0; i < many; i++)
    _mm512_mask_storeu_epi64(keys + (size_t)8 * i, lanes_of(count, i), v[i]);
}

enum { SHORT = 64 };

static void sort_short(uint64_t *keys, uint64_t count) {
  if (count <= 1) return;
  if (count <= 8)
    sort_registers(keys, count, 1);
  else if (count <= 16)
    sort_registers(keys, count, 2);
  else if (count <= 32)
    sort_registers(keys, count, 4);
  else
    sort_registers(keys, count, 8);
}

/* ---- Partitions ------------------------------------------------------------------------------------ */

/* Moves the lanes of v to free places: those below the pivot from *bottom upwards, the others from *top downwards. */
KEY_INLINE void deal(__m512i v, __m512i pivot, uint64_t **bottom, uint64_t **top) {
  __mmask8 upper = _mm512_cmpge_epu64_mask(v, pivot);
  uint32_t above = (uint32_t)__builtin_popcount(upper);
  _mm512_mask_storeu_epi64(*bottom, (__mmask8)(0xffu >> above), _mm512_maskz_compress_epi64((__mmask8)~upper, v));
  *bottom += 8 - above;
  *top -= above;
  _mm512_mask_storeu_epi64(*top, (__mmask8)((1u << above) - 1), _mm512_maskz_compress_epi64(upper, v));
}

/* Partitions in place. Two vectors are held back, which leaves space for two. The next vector is read from the side
 * with fewer free places, so neither side runs out. count is more than SHORT. */
static inline uint64_t partition(uint64_t *keys, uint64_t count, uint64_t pivot) {
  uint64_t *low = keys, *high = keys + count;
  while ((high - low) % 8) { /* those beyond a multiple of 8, one by one */
    uint64_t key = *low;
    if (key < pivot) {
      low++;
    } else {
      *low = *--high;
      *high = key;
    }
  }
  __m512i pivots = _mm512_set1_epi64((int64_t)pivot);
  __m512i first = _mm512_loadu_si512(low), last = _mm512_loadu_si512(high - 8);
  uint64_t *bottom = low, *top = high; /* free places: [bottom, low) and [high, top) */
  low += 8;
  high -= 8;
  while (low != high) {
    __m512i v;
    if (low - bottom <= top - high) {
      v = _mm512_loadu_si512(low);
      low += 8;
    } else {
      high -= 8;
      v = _mm512_loadu_si512(high);
    }
    deal(v, pivots, &bottom, &top);
  }
  deal(first, pivots, &bottom, &top);
  deal(last, pivots, &bottom, &top);
  return (uint64_t)(bottom - keys);
}

#define KEY uint64_t
#define SELECT select_avx512
#define SORT sort_avx512
#define PARTITION partition
#define SORT_SHORT sort_short
#include "result/select_body.h"

/* ---- Keys of candidates ----------------------------------------------------------------------------- */

/* As adji_key_f32, for eight candidates. */
KEY_INLINE __m512i keys_of(__m256 sums, __m256i ids) {
  __m256i bits = _mm256_castps_si256(_mm256_add_ps(sums, _mm256_setzero_ps()));
  __m256i sign = _mm256_or_si256(_mm256_srai_epi32(bits, 31), _mm256_set1_epi32(INT32_MIN));
  __m512i order = _mm512_cvtepu32_epi64(_mm256_xor_si256(bits, sign));
  return _mm512_or_si512(_mm512_slli_epi64(order, 32), _mm512_cvtepu32_epi64(ids));
}

static uint64_t pack_avx512(const float *sums, const uint32_t *ids, uint64_t count, uint64_t last, uint64_t *keys) {
  const __m512i most = _mm512_set1_epi64((int64_t)last);
  uint64_t packed = 0;
  for (uint64_t i = 0; i < count; i += 8) {
    __mmask8 lanes = count - i >= 8 ? 0xff : (__mmask8)((1u << (count - i)) - 1);
    __m512i key = keys_of(_mm256_maskz_loadu_ps(lanes, sums + i), _mm256_maskz_loadu_epi32(lanes, ids + i));
    __mmask8 keep = _mm512_mask_cmple_epu64_mask(lanes, key, most);
    _mm512_storeu_si512(keys + packed, _mm512_maskz_compress_epi64(keep, key));
    packed += (uint64_t)__builtin_popcount(keep);
  }
  return packed;
}

const adji_key_kernels adji_key_kernels_avx512 = {select_avx512, sort_avx512, pack_avx512};
#endif
