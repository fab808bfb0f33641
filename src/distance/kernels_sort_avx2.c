/* SPDX-License-Identifier: MIT
 *
 * Sorts the ids of a row with AVX2, as kernels_sort_avx512.h does: a network over registers for rows of up to 128 ids,
 * quicksort with vector partitions for longer ones. Eight registers at a time are sorted lane by lane, which needs no
 * shuffles, and then transposed into eight runs of eight ids. Runs are merged by bitonic networks.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "distance/front_lanes_avx2.h"
#include "distance/kernels.h"

enum { LANES = 8, MOST_REGISTERS = 16, MOST_NETWORK = LANES * MOST_REGISTERS };

#define SORT_INLINE static inline __attribute__((always_inline))
/* Register numbers must be constants. clang unrolls these loops by itself and does not know the pragma. */
#ifdef __clang__
#define SORT_UNROLL
#else
#define SORT_UNROLL _Pragma("GCC unroll 16")
#endif

/* ---- The network ----------------------------------------------------------------------------- */

SORT_INLINE void exchange(__m256i *a, __m256i *b) {
  __m256i low = _mm256_min_epu32(*a, *b);
  *b = _mm256_max_epu32(*a, *b);
  *a = low;
}

/* Compares each lane with its partner; the lanes in `upper`, a constant, keep the larger one. */
#define EXCHANGE_LANES(v, other, upper) \
  _mm256_blend_epi32(_mm256_min_epu32(v, other), _mm256_max_epu32(v, other), upper)

SORT_INLINE __m256i reverse_lanes(__m256i v) {
  return _mm256_permutevar8x32_epi32(v, _mm256_set_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The last three steps of every merge: distance 4, 2, 1 within a register. */
SORT_INLINE __m256i merge_lanes(__m256i v) {
  v = EXCHANGE_LANES(v, _mm256_permute4x64_epi64(v, 0x4e), 0xf0);
  v = EXCHANGE_LANES(v, _mm256_shuffle_epi32(v, 0x4e), 0xcc);
  return EXCHANGE_LANES(v, _mm256_shuffle_epi32(v, 0xb1), 0xaa);
}

SORT_INLINE __m256i sort_lanes(__m256i v) {
  v = EXCHANGE_LANES(v, _mm256_shuffle_epi32(v, 0xb1), 0xaa);
  v = EXCHANGE_LANES(v, _mm256_shuffle_epi32(v, 0x1b), 0xcc);
  v = EXCHANGE_LANES(v, _mm256_shuffle_epi32(v, 0xb1), 0xaa);
  v = EXCHANGE_LANES(v, reverse_lanes(v), 0xf0);
  v = EXCHANGE_LANES(v, _mm256_shuffle_epi32(v, 0x4e), 0xcc);
  return EXCHANGE_LANES(v, _mm256_shuffle_epi32(v, 0xb1), 0xaa);
}

SORT_INLINE void transpose(__m256i *v) {
  __m256i a[8], b[8];
  SORT_UNROLL
  for (uint32_t i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
    a[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
  }
  SORT_UNROLL
  for (uint32_t i = 0; i < 8; i += 4) {
    b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  SORT_UNROLL
  for (uint32_t i = 0; i < 4; i++) {
    v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}

/* Turns eight registers into eight runs, by 19 comparisons of registers. */
SORT_INLINE void sort_eight(__m256i *v) {
  static const uint8_t pairs[19][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 1}, {2, 3},
                                       {4, 5}, {6, 7}, {2, 4}, {3, 5}, {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};
#ifdef __clang__
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 19
#endif
  for (uint32_t i = 0; i < 19; i++)
    exchange(&v[pairs[i][0]], &v[pairs[i][1]]);
  transpose(v);
}

/* Merges the `run` registers from `base` on with the `run` registers after them. Registers from `many` on count as
 * filled with the largest number: comparisons with them change nothing and are left out. */
SORT_INLINE void merge_runs(__m256i *v, const uint32_t many, const uint32_t base, const uint32_t run) {
  SORT_UNROLL
  for (uint32_t i = 0; i < run; i++) { /* compare with the mirror image: both halves become bitonic */
    uint32_t other = base + 2 * run - 1 - i;
    if (other >= many) continue;
    __m256i mirrored = reverse_lanes(v[other]);
    __m256i low = _mm256_min_epu32(v[base + i], mirrored);
    v[other] = reverse_lanes(_mm256_max_epu32(v[base + i], mirrored));
    v[base + i] = low;
  }
  SORT_UNROLL
  for (uint32_t half = run / 2; half; half /= 2) {
    SORT_UNROLL
    for (uint32_t i = base; i < base + 2 * run; i++)
      if (!((i - base) & half) && i + half < many) exchange(&v[i], &v[i + half]);
  }
  SORT_UNROLL
  for (uint32_t i = base; i < base + 2 * run; i++)
    if (i < many) v[i] = merge_lanes(v[i]);
}

/* Sorts `many` registers, a constant: up to 4, or a multiple of 4. */
SORT_INLINE void sort_registers(__m256i *v, const uint32_t many) {
  SORT_UNROLL
  for (uint32_t i = 0; i + 8 <= many; i += 8)
    sort_eight(v + i);
  SORT_UNROLL
  for (uint32_t i = many & ~7u; i < many; i++)
    v[i] = sort_lanes(v[i]);
  SORT_UNROLL
  for (uint32_t run = 1; run < many; run *= 2) {
    SORT_UNROLL
    for (uint32_t base = 0; base + run < many; base += 2 * run)
      merge_runs(v, many, base, run);
  }
}

/* ---- Rows that the network sorts --------------------------------------------------------------- */

/* A mask of the first `few` lanes of a register, fewer than 8. */
SORT_INLINE __m256i first_lanes(uint32_t few) {
  static const int32_t masks[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256((const __m256i *)(const void *)(masks + LANES - few));
}

/* Loads the registers of a row. `drop`, and the lanes after the last id, become the largest number. */
SORT_INLINE void load_row(const uint32_t *ids, uint32_t count, uint32_t drop, const uint32_t many, __m256i *v) {
  const __m256i none = _mm256_set1_epi32(-1), dropped = _mm256_set1_epi32((int)drop);
  SORT_UNROLL
  for (uint32_t i = 0; i < many; i++) {
    const uint32_t first = LANES * i;
    if (first + LANES <= count) {
      v[i] = _mm256_loadu_si256((const __m256i *)(const void *)(ids + first));
    } else if (first < count) {
      __m256i valid = first_lanes(count - first);
      v[i] = _mm256_or_si256(_mm256_maskload_epi32((const int *)(const void *)(ids + first), valid),
                             _mm256_xor_si256(valid, none));
    } else {
      v[i] = none;
    }
    v[i] = _mm256_or_si256(v[i], _mm256_cmpeq_epi32(v[i], dropped));
  }
}

/* Stores the first `few` lanes, fewer than 8. */
SORT_INLINE void store_few(uint32_t *to, __m256i v, uint32_t few) {
  __m128i low = _mm256_castsi256_si128(v);
  if (few >= 4) { /* the first four and the last four, which may overlap */
    __m256i places = _mm256_add_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set1_epi32((int)few - 4));
    _mm_storeu_si128((__m128i *)(void *)(to + few - 4), _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(v, places)));
    _mm_storeu_si128((__m128i *)(void *)to, low);
    return;
  }
  if (few & 2) _mm_storel_epi64((__m128i *)(void *)to, low);
  if (few & 1) to[few - 1] = (uint32_t)(few == 1 ? _mm_cvtsi128_si32(low) : _mm_extract_epi32(low, 2));
}

/* Stores the last 8 of the lanes of two registers: those of `before`, then the first `few` of v, fewer than 8. */
SORT_INLINE void store_last(uint32_t *to, __m256i before, __m256i v, uint32_t few) {
  __m256i places = _mm256_add_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set1_epi32((int)few));
  __m256i second = _mm256_cmpgt_epi32(places, _mm256_set1_epi32(LANES - 1)); /* permutations use three bits */
  __m256i last =
      _mm256_blendv_epi8(_mm256_permutevar8x32_epi32(before, places), _mm256_permutevar8x32_epi32(v, places), second);
  _mm256_storeu_si256((__m256i *)(void *)(to + few), last);
}

/* Stores a row. Nothing after its end is written. */
SORT_INLINE void store_row(uint32_t *to, uint32_t count, const uint32_t many, const __m256i *v) {
  if (count < LANES) {
    store_few(to, v[0], count);
    return;
  }
  SORT_UNROLL
  for (uint32_t i = 0; i < many; i++) {
    const uint32_t first = LANES * i;
    if (first + LANES <= count) {
      _mm256_storeu_si256((__m256i *)(void *)(to + first), v[i]);
    } else {
      if (i && first < count) store_last(to + first - LANES, v[i - 1], v[i], count - first);
      return;
    }
  }
}

SORT_INLINE void sort_to(const uint32_t *ids, uint32_t count, uint32_t drop, uint32_t *to, const uint32_t many) {
  __m256i v[MOST_REGISTERS];
  load_row(ids, count, drop, many, v);
  sort_registers(v, many);
  store_row(to, count - (drop != ADJ_NO_ID), many, v);
}

/* Sorts up to MOST_NETWORK ids into `to`, without `drop`. */
static void sort_short(const uint32_t *ids, uint32_t count, uint32_t drop, uint32_t *to) {
  switch ((count + LANES - 1) / LANES) {
    case 0:
      break;
#define CASE(many)                       \
  case many:                             \
    sort_to(ids, count, drop, to, many); \
    break;
      CASE(1)
      CASE(2)
      CASE(3)
      CASE(4)
#undef CASE
    case 5:
    case 6:
    case 7:
    case 8:
      sort_to(ids, count, drop, to, 8);
      break;
    case 9:
    case 10:
    case 11:
    case 12:
      sort_to(ids, count, drop, to, 12);
      break;
    default:
      sort_to(ids, count, drop, to, MOST_REGISTERS);
      break;
  }
}

/* ---- Longer rows ------------------------------------------------------------------------------- */

/* Moves the lanes of v below the pivot to the free entries from *front on, and the others to those before *back. Both
 * sides have 8 free entries each, or 8 together. */
SORT_INLINE void partition_lanes(__m256i v, __m256i pivot, uint32_t **front, uint32_t **back) {
  __m256i upper = _mm256_cmpeq_epi32(_mm256_max_epu32(v, pivot), v);
  uint32_t lower = ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(upper)) & 0xff;
  uint32_t below = (uint32_t)__builtin_popcount(lower);
  v = _mm256_permutevar8x32_epi32(v, front_lanes(lower)); /* the other lanes follow */
  _mm256_storeu_si256((__m256i *)(void *)*front, v);
  _mm256_storeu_si256((__m256i *)(void *)(*back - LANES), v);
  *front += below;
  *back -= LANES - below;
}

/* Moves ids below the pivot to the front, in place, and returns their number. Two vectors are taken out first, which
 * leaves room for two. The next vector is always read from the side with less room, so that both sides have room for
 * one. */
static uint32_t partition_ids(uint32_t *ids, uint32_t count, uint32_t pivot) {
  uint32_t *low = ids, *high = ids + count;
  while ((high - low) % LANES) { /* until only whole vectors remain */
    if (*low < pivot) {
      low++;
    } else {
      uint32_t id = *low;
      *low = *--high;
      *high = id;
    }
  }
  __m256i pivots = _mm256_set1_epi32((int)pivot);
  __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)low);
  __m256i last = _mm256_loadu_si256((const __m256i *)(const void *)(high - LANES));
  uint32_t *front = low, *back = high; /* free entries: [front, low) and [high, back) */
  low += LANES;
  high -= LANES;
  while (low != high) {
    __m256i v;
    if (low - front <= back - high) {
      v = _mm256_loadu_si256((const __m256i *)(const void *)low);
      low += LANES;
    } else {
      high -= LANES;
      v = _mm256_loadu_si256((const __m256i *)(const void *)high);
    }
    partition_lanes(v, pivots, &front, &back);
  }
  partition_lanes(first, pivots, &front, &back);
  partition_lanes(last, pivots, &front, &back);
  return (uint32_t)(front - ids);
}

/* The middle of 8 ids spread over the row. Ids of a row differ, so both parts have at least three. */
SORT_INLINE uint32_t middle_id(const uint32_t *ids, uint32_t count) {
  uint32_t sorted[LANES];
  for (uint32_t i = 0; i < LANES; i++)
    sorted[i] = ids[(size_t)i * (count / LANES)];
  __m256i v = sort_lanes(_mm256_loadu_si256((const __m256i *)(const void *)sorted));
  return (uint32_t)_mm256_extract_epi32(v, LANES / 2);
}

void adji_sort_ids_avx2(uint32_t *ids, uint32_t count) {
  while (count > MOST_NETWORK) {
    uint32_t below = partition_ids(ids, count, middle_id(ids, count));
    if (!below) { /* equal ids, which no row has, would be partitioned forever */
      adji_sort_ids_portable(ids, count);
      return;
    }
    adji_sort_ids_avx2(ids + below, count - below);
    count = below;
  }
  sort_short(ids, count, ADJ_NO_ID, ids);
}

uint32_t adji_place_ids_avx2(uint32_t *ids, uint32_t count, uint32_t drop, bool sort, uint32_t *to) {
  if (sort && count <= MOST_NETWORK) {
    sort_short(ids, count, drop, to);
    return count - (drop != ADJ_NO_ID);
  }
  count = adji_place_ids_portable(ids, count, drop, false, to);
  if (sort) adji_sort_ids_avx2(to, count); /* writes nothing after the ids */
  return count;
}
#endif
