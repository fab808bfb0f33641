/* SPDX-License-Identifier: MIT
 *
 * The prefilter of codes with AVX-512 VNNI: 64 byte products per instruction.
 */
#include "distance/prefilter_codes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,bmi,bmi2,popcnt")))
#define VNNI_INLINE static inline __attribute__((always_inline)) VNNI

/* ---- Codes ---------------------------------------------------------------------------------------- */

/* Returns sum + the four byte products of each lane. The same instruction broadcasts the query's word from memory. It
 * is written in assembly because compilers copy the sum before and after it and broadcast separately, which takes
 * longer than the products. */
VNNI_INLINE __m512i add_products(__m512i sum, __m512i c, const uint32_t *word) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(c), "m"(*word));
  return sum;
}

/* Compares one block after the other with four queries. bits[i] receives a bit for each pair of block i, which is set
 * if the pair passes. Each sum begins with its limit subtracted, so that its sign decides; packing keeps the sign. */
VNNI_INLINE void compare_blocks(const adji_prefilter_codes_task *task, uint64_t first, uint32_t count, uint64_t *bits) {
  const uint64_t groups = task->groups;
  const uint8_t *bytes = task->bytes + first * groups * 64;
  const int32_t *start = task->start + first * 16;
  __m512i least[4];
  for (int k = 0; k < 4; k++)
    least[k] = _mm512_set1_epi32(task->least[k]);
  for (uint32_t i = 0; i < count; i++, start += 16) {
    __m512i sum[4], from = _mm512_loadu_si512(start);
    for (int k = 0; k < 4; k++)
      sum[k] = _mm512_sub_epi32(from, least[k]);
    for (uint64_t g = 0; g < groups; g++, bytes += 64) {
      __m512i c = _mm512_loadu_si512(bytes);
      for (int k = 0; k < 4; k++)
        sum[k] = add_products(sum[k], c, &task->words[k][g]);
    }
    __m512i packed = _mm512_packs_epi16(_mm512_packs_epi32(sum[0], sum[1]), _mm512_packs_epi32(sum[2], sum[3]));
    bits[i] = ~(uint64_t)_mm512_movepi8_mask(packed);
  }
}

/* The bits of the first `lanes` candidates of a block, for all queries. */
static uint64_t bits_of(uint32_t lanes) {
  uint64_t bits = 0;
  for (uint32_t lane = 0; lane < lanes; lane++)
    bits |= UINT64_C(0x1111) << (lane / 4 * 16 + lane % 4);
  return bits;
}

/* Lists the pairs of a block, and prefetches their rows. */
static inline uint32_t list_pairs(const adji_prefilter_codes_task *task, uint64_t bits, uint64_t block,
                                  adji_code_pair *pairs) {
  uint32_t found = 0;
  for (; bits; bits &= bits - 1) {
    adji_code_pair pair = (adji_code_pair)(block * 64 + (uint64_t)__builtin_ctzll(bits));
    const char *row = task->rows + adji_pair_place(pair) * task->row_bytes;
    __builtin_prefetch(row, 0, 2);
    __builtin_prefetch(row + task->row_bytes - 1, 0, 2);
    pairs[found++] = pair;
  }
  return found;
}

enum { MOST_BLOCKS = ADJI_CODE_TILE / 16 + 1, EIGHT = 8, WORDS = MOST_BLOCKS / 64 + 1 };

/* Most blocks have no pair that passes, so eight are tested at once. */
VNNI static uint32_t keep_vnni(const adji_prefilter_codes_task *task, adji_code_pair *pairs) {
  uint64_t bits[MOST_BLOCKS + EIGHT], some[WORDS] = {0};
  const adji_range range = task->range;
  if (range.begin >= range.end) return 0;
  uint32_t first = range.begin / 16, count = (range.end - 1) / 16 + 1 - first, found = 0;
  compare_blocks(task, first, count, bits);
  bits[0] &= ~bits_of(range.begin % 16);
  bits[count - 1] &= bits_of((range.end - 1) % 16 + 1);
  _mm512_storeu_si512(bits + count, _mm512_setzero_si512());
  for (uint32_t i = 0; i < count; i += EIGHT) {
    __m512i eight = _mm512_loadu_si512(bits + i);
    ((uint8_t *)some)[i / EIGHT] = _mm512_test_epi64_mask(eight, eight);
  }
  for (uint32_t w = 0; w < WORDS; w++)
    for (; some[w]; some[w] &= some[w] - 1) {
      uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(some[w]);
      found += list_pairs(task, bits[i], (uint64_t)i + first - task->first_block, pairs + found);
    }
  return found;
}

/* ---- Canonical sums --------------------------------------------------------------------------------- */

/* Lane l of out[i] is element i of in[l]. */
VNNI_INLINE void transpose_ps(const __m512 *in, __m512 *out) {
  __m512 twos[16], fours[16];
  for (int i = 0; i < 16; i += 2) {
    twos[i] = _mm512_unpacklo_ps(in[i], in[i + 1]);
    twos[i + 1] = _mm512_unpackhi_ps(in[i], in[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int c = 0; c < 2; c++) {
      __m512d a = _mm512_castps_pd(twos[i + c]), b = _mm512_castps_pd(twos[i + c + 2]);
      fours[i + 2 * c] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      fours[i + 2 * c + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  for (int c = 0; c < 4; c++) {
    __m512 even = _mm512_shuffle_f32x4(fours[c], fours[c + 4], 0x88);
    __m512 odd = _mm512_shuffle_f32x4(fours[c], fours[c + 4], 0xdd);
    __m512 even2 = _mm512_shuffle_f32x4(fours[c + 8], fours[c + 12], 0x88);
    __m512 odd2 = _mm512_shuffle_f32x4(fours[c + 8], fours[c + 12], 0xdd);
    out[c] = _mm512_shuffle_f32x4(even, even2, 0x88);
    out[c + 4] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
    out[c + 8] = _mm512_shuffle_f32x4(even, even2, 0xdd);
    out[c + 12] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
  }
}

VNNI_INLINE void transpose_pd(const __m512d *in, __m512d *out) {
  __m512d twos[8];
  for (int i = 0; i < 8; i += 2) {
    twos[i] = _mm512_unpacklo_pd(in[i], in[i + 1]);
    twos[i + 1] = _mm512_unpackhi_pd(in[i], in[i + 1]);
  }
  for (int c = 0; c < 2; c++) {
    __m512d even = _mm512_shuffle_f64x2(twos[c], twos[c + 2], 0x88);
    __m512d odd = _mm512_shuffle_f64x2(twos[c], twos[c + 2], 0xdd);
    __m512d even2 = _mm512_shuffle_f64x2(twos[c + 4], twos[c + 6], 0x88);
    __m512d odd2 = _mm512_shuffle_f64x2(twos[c + 4], twos[c + 6], 0xdd);
    out[c] = _mm512_shuffle_f64x2(even, even2, 0x88);
    out[c + 2] = _mm512_shuffle_f64x2(odd, odd2, 0x88);
    out[c + 4] = _mm512_shuffle_f64x2(even, even2, 0xdd);
    out[c + 6] = _mm512_shuffle_f64x2(odd, odd2, 0xdd);
  }
}

/* Processes a vector of pairs at a time, one pair per lane. The differences of LANES dimensions are computed row by row
 * and transposed, so that each lane adds up its own differences in order. Beyond the last dimension they are 0, which
 * does not change a sum. The sums are abandoned once no lane can belong. Lanes without a pair compute the pair of the
 * first query and row. PS: ps or pd. STORE: stores as many pairs as there are lanes, since later pairs are still to be
 * read. */
#define REFINE(name, T, PS, VEC, MASK, LANES, STORE)                                                           \
  VNNI static uint32_t name(const adji_refine_task *task, adji_code_pair *pairs, uint32_t count, void *sums) { \
    const uint64_t dim = task->dim;                                                                            \
    const VEC limit = _mm512_set1_##PS((T)task->limit);                                                        \
    uint32_t found = 0;                                                                                        \
    for (uint32_t i = 0; i < count; i += LANES) {                                                              \
      uint32_t remaining = count - i;                                                                          \
      MASK mask = remaining >= LANES ? (MASK)-1 : (MASK)((1u << remaining) - 1);                               \
      __m512i here = _mm512_maskz_loadu_epi32(mask, pairs + i);                                                \
      const T *query[LANES], *row[LANES];                                                                      \
      uint32_t listed[16];                                                                                     \
      _mm512_storeu_si512(listed, here);                                                                       \
      for (int lane = 0; lane < LANES; lane++) {                                                               \
        query[lane] = task->queries[adji_pair_query(listed[lane])];                                            \
        row[lane] = (const T *)task->rows + adji_pair_place(listed[lane]) * dim;                               \
      }                                                                                                        \
      VEC s = _mm512_setzero_##PS();                                                                           \
      for (uint64_t j = 0; j < dim && mask; j += LANES) {                                                      \
        MASK some = dim - j >= LANES ? (MASK)-1 : (MASK)((1u << (dim - j)) - 1);                               \
        VEC t[LANES], own[LANES];                                                                              \
        for (int lane = 0; lane < LANES; lane++)                                                               \
          t[lane] = _mm512_sub_##PS(_mm512_maskz_loadu_##PS(some, query[lane] + j),                            \
                                    _mm512_maskz_loadu_##PS(some, row[lane] + j));                             \
        transpose_##PS(t, own);                                                                                \
        for (int c = 0; c < LANES; c++)                                                                        \
          s = _mm512_fmadd_##PS(own[c], own[c], s);                                                            \
        mask = _mm512_mask_cmp_##PS##_mask(mask, s, limit, _CMP_LE_OQ);                                        \
      }                                                                                                        \
      STORE(pairs + found, _mm512_maskz_compress_epi32(mask, here));                                           \
      if (sums) _mm512_storeu_##PS((T *)sums + found, _mm512_maskz_compress_##PS(mask, s));                    \
      found += (uint32_t)__builtin_popcount(mask);                                                             \
    }                                                                                                          \
    return found;                                                                                              \
  }
#define STORE16(to, v) _mm512_storeu_si512(to, v)
#define STORE8(to, v) _mm256_storeu_si256((__m256i *)(to), _mm512_castsi512_si256(v))
REFINE(refine_f32, float, ps, __m512, __mmask16, 16, STORE16)
REFINE(refine_f64, double, pd, __m512d, __mmask8, 8, STORE8)

const adji_prefilter_codes adji_prefilter_codes_vnni = {keep_vnni, {refine_f32, refine_f64}};
#endif
