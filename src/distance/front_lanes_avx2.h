/* SPDX-License-Identifier: MIT
 *
 * AVX2 cannot compress a vector. A permutation from a table moves the set lanes of a mask to the front. Computing it by
 * pdep and pext would take hundreds of cycles on CPUs that have these in microcode.
 */
#ifndef ADJI_FRONT_LANES_AVX2_H
#define ADJI_FRONT_LANES_AVX2_H

#include <immintrin.h>
#include <stdint.h>

/* The numbers of the set bits of an 8-lane mask, then the numbers of its other bits, one byte each. */
#define BELOW(mask, i) __builtin_popcount((mask) & ((UINT32_C(1) << (i)) - 1))
#define LANE(mask, i) \
  ((uint64_t)(i) << 8 * ((mask) >> (i)&1 ? BELOW(mask, i) : __builtin_popcount(mask) + BELOW(~(mask), i)))
#define FRONT(mask)                                                                                                \
  (LANE(mask, 0) | LANE(mask, 1) | LANE(mask, 2) | LANE(mask, 3) | LANE(mask, 4) | LANE(mask, 5) | LANE(mask, 6) | \
   LANE(mask, 7))
#define FOUR(mask) FRONT(mask), FRONT((mask) + 1), FRONT((mask) + 2), FRONT((mask) + 3)
#define SIXTEEN(mask) FOUR(mask), FOUR((mask) + 4), FOUR((mask) + 8), FOUR((mask) + 12)
#define SIXTY_FOUR(mask) SIXTEEN(mask), SIXTEEN((mask) + 16), SIXTEEN((mask) + 32), SIXTEEN((mask) + 48)
static const uint64_t FRONT_LANES[256] = {SIXTY_FOUR(0U), SIXTY_FOUR(64U), SIXTY_FOUR(128U), SIXTY_FOUR(192U)};
#undef BELOW
#undef LANE
#undef FRONT
#undef FOUR
#undef SIXTEEN
#undef SIXTY_FOUR

/* The permutation as 8 x 32 bits. */
static inline __m256i front_lanes(uint32_t mask) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)&FRONT_LANES[mask]));
}

/* The same for 4 lanes of 64 bits, as pairs of 32-bit lanes. */
static inline __m256i front_pairs(uint32_t mask) {
  uint32_t twice = (mask & 1) | (mask & 2) << 1 | (mask & 4) << 2 | (mask & 8) << 3;
  return front_lanes(3 * twice);
}

#endif
