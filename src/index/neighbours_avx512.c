/* SPDX-License-Identifier: MIT
 *
 * Moving the cursors of one cell with AVX-512. Eight cell numbers are compared at once; the count of those that are too
 * small is how far the cursor moves. The plain loop spends its time on mispredicted branches; here no branch depends on
 * the data.
 */
#include "index/neighbours_find.h"

#if defined(__x86_64__)
#include <immintrin.h>

static inline uint32_t advance(const uint64_t *keys, uint32_t at, uint64_t count, uint64_t key) {
  __m512i eight = _mm512_loadu_si512(keys + at);
  uint32_t below = _mm512_cmplt_epu64_mask(eight, _mm512_set1_epi64((long long)key));
  if (__builtin_expect(below == 0xff, 0)) return adji_advance_far(keys, at + (uint64_t)ADJI_KEYS_AT_ONCE, count, key);
  return at + (uint32_t)__builtin_popcount(below);
}

uint32_t adji_neighbours_find_avx512(adji_neighbours *n, uint64_t key) {
  return adji_find_by(n, key, advance);
}
#endif
