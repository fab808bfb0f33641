/* SPDX-License-Identifier: MIT
 *
 * Sorts the ids of a row with AVX-512: a network over registers for rows of up to 256 ids, quicksort with vector
 * partitions for longer ones. Rows are short (a point's neighbours), so the network beats any method that handles one
 * id at a time.
 */
#ifndef ADJI_KERNELS_SORT_AVX512_H
#define ADJI_KERNELS_SORT_AVX512_H

#include "distance/kernels.h"
#include "distance/sort_network_avx512.h"

SORT_INLINE void sort_padded(uint32_t *ids, uint32_t count, const uint32_t many) {
  __m512i v[16];
  uint32_t full = count / 16;
  for (uint32_t i = 0; i < many; i++) {
    if (i < full)
      v[i] = _mm512_loadu_si512(ids + (size_t)16 * i);
    else {
      uint32_t remaining = i == full ? count % 16 : 0;
      v[i] = _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), (__mmask16)((1u << remaining) - 1), ids + (size_t)16 * i);
    }
  }
  sort_registers(v, many);
  for (uint32_t i = 0; 16 * i < count; i++) {
    uint32_t remaining = count - 16 * i;
    _mm512_mask_storeu_epi32(ids + (size_t)16 * i, remaining >= 16 ? 0xffff : (__mmask16)((1u << remaining) - 1), v[i]);
  }
}

/* ---- Rows longer than the network ------------------------------------------------------------ */

SORT_INLINE void store_front(uint32_t *to, __mmask16 keep, __m512i v, uint32_t many) {
  _mm512_mask_storeu_epi32(to, (__mmask16)((1u << many) - 1), _mm512_maskz_compress_epi32(keep, v));
}

/* Moves the lanes of v below the pivot to the free entries from *front on, and the others to those before *back. */
SORT_INLINE void partition_lanes(__m512i v, __m512i pivot, uint32_t **front, uint32_t **back) {
  __mmask16 upper = _mm512_cmpge_epu32_mask(v, pivot);
  uint32_t above = (uint32_t)__builtin_popcount(upper);
  store_front(*front, (__mmask16)~upper, v, 16 - above);
  *front += 16 - above;
  *back -= above;
  store_front(*back, upper, v, above);
}

/* Moves ids below the pivot to the front, in place, and returns their number. Two vectors are taken out first, which
 * leaves room for two. The next vector is always read from the side with less room, so neither side runs out of it. */
static inline uint32_t partition_ids(uint32_t *ids, uint32_t count, uint32_t pivot) {
  uint32_t *low = ids, *high = ids + count;
  while ((high - low) % 16) { /* until only whole vectors remain */
    if (*low < pivot) {
      low++;
    } else {
      uint32_t id = *low;
      *low = *--high;
      *high = id;
    }
  }
  if (high - low < 32) {
    if (low == high) return (uint32_t)(low - ids);
    uint32_t *front = low, *back = high;
    partition_lanes(_mm512_loadu_si512(low), _mm512_set1_epi32((int)pivot), &front, &back);
    return (uint32_t)(front - ids);
  }
  __m512i pivots = _mm512_set1_epi32((int)pivot);
  __m512i first = _mm512_loadu_si512(low), last = _mm512_loadu_si512(high - 16);
  uint32_t *front = low, *back = high; /* free entries: [front, low) and [high, back) */
  low += 16;
  high -= 16;
  while (low != high) {
    __m512i v;
    if (low - front <= back - high) {
      v = _mm512_loadu_si512(low);
      low += 16;
    } else {
      high -= 16;
      v = _mm512_loadu_si512(high);
    }
    partition_lanes(v, pivots, &front, &back);
  }
  partition_lanes(first, pivots, &front, &back);
  partition_lanes(last, pivots, &front, &back);
  return (uint32_t)(front - ids);
}

/* The median of 16 ids spread over the row. Ids of a row differ, so both parts have at least seven. */
SORT_INLINE uint32_t middle_id(const uint32_t *ids, uint32_t count) {
  __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i places = _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)(count / 16)));
  uint32_t sorted[16];
  _mm512_storeu_si512(sorted, sort_lanes(_mm512_i32gather_epi32(places, ids, 4)));
  return sorted[8];
}

static void sort_ids_avx512(uint32_t *ids, uint32_t count) {
  while (count > 256) {
    uint32_t below = partition_ids(ids, count, middle_id(ids, count));
    if (!below) { /* equal ids, which no row has, would be partitioned forever */
      adji_sort_ids_portable(ids, count);
      return;
    }
    sort_ids_avx512(ids + below, count - below);
    count = below;
  }
  if (count <= 1) return;
  switch ((count + 15) / 16) {
#define CASE(fewest, many)         \
  case fewest:                     \
  case many:                       \
    sort_padded(ids, count, many); \
    break;
#define ONE(many)                  \
  case many:                       \
    sort_padded(ids, count, many); \
    break;
    ONE(1)
    ONE(2)
    ONE(3)
    ONE(4)
    CASE(5, 6)
    CASE(7, 8)
    CASE(9, 10)
    CASE(11, 12)
    CASE(13, 14)
    CASE(15, 16)
#undef ONE
#undef CASE
    default:
      break;
  }
}

/* ---- Finishing a row ------------------------------------------------------------------------- */

/* Replaces `drop` by the last id, in a row of any length. */
static inline uint32_t close_gap(uint32_t *ids, uint32_t count, uint32_t drop) {
  for (uint32_t i = 0; i < count; i += 16) {
    uint32_t remaining = count - i;
    __mmask16 valid = remaining >= 16 ? 0xffff : (__mmask16)((1u << remaining) - 1);
    __m512i v = _mm512_maskz_loadu_epi32(valid, ids + i);
    uint32_t same = _mm512_mask_cmpeq_epu32_mask(valid, v, _mm512_set1_epi32((int)drop));
    if (!same) continue;
    ids[i + (uint32_t)__builtin_ctz(same)] = ids[count - 1];
    return count - 1;
  }
  return count;
}

static uint32_t place_ids_avx512(uint32_t *ids, uint32_t count, uint32_t drop, bool sort, uint32_t *to) {
  if (count <= 16) { /* stays in one register */
    __m512i v = _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), (__mmask16)((1u << count) - 1), ids);
    __mmask16 keep = _mm512_cmpneq_epu32_mask(v, _mm512_set1_epi32((int)drop));
    count = (uint32_t)__builtin_popcount(keep & ((1u << count) - 1));
    v = _mm512_mask_compress_epi32(_mm512_set1_epi32(-1), keep, v);
    if (sort) v = sort_lanes(v);
    _mm512_mask_storeu_epi32(to, (__mmask16)((1u << count) - 1), v);
    return count;
  }
  if (drop != ADJ_NO_ID) count = close_gap(ids, count, drop);
  if (sort) sort_ids_avx512(ids, count);
  uint32_t i = 0;
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_si512(to + i, _mm512_loadu_si512(ids + i));
  __mmask16 rest = (__mmask16)((1u << (count - i)) - 1);
  _mm512_mask_storeu_epi32(to + i, rest, _mm512_maskz_loadu_epi32(rest, ids + i));
  return count;
}

#endif
