/* SPDX-License-Identifier: MIT
 *
 * The prefilter of codes with AVX-512 VNNI: 64 byte products per instruction.
 */
#include "distance/prefilter_codes.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,bmi2,popcnt")))
#define VNNI_INLINE static inline __attribute__((always_inline)) VNNI

/* The lanes of the block at `first` that are in the range. */
static inline uint32_t lanes_in(uint64_t first, adji_range range) {
  uint32_t lanes = 0xffff;
  if (first < range.begin) lanes &= 0xffffu << (range.begin - first);
  if (range.end - first < 16) lanes &= (1u << (range.end - first)) - 1;
  return lanes & 0xffff;
}

/* sum + the four byte products of each lane; the same instruction broadcasts the query's word from memory. Written in
 * assembly because compilers copy the sum before and after and broadcast separately, which takes longer than the
 * products. */
VNNI_INLINE __m512i add_products(__m512i sum, __m512i c, const uint32_t *word) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(c), "m"(*word));
  return sum;
}

/* Compares one block of 16 candidates at a time with `wide` queries, each with its own sum. */
VNNI_INLINE void keep_wide(const adji_prefilter_codes_task *task, uint32_t *const *kept, uint32_t *count,
                           const uint32_t wide) {
  const __m512i places = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  uint64_t groups = task->groups;
  uint32_t at[4] = {0, 0, 0, 0};
  for (uint64_t first = task->range.begin & ~(uint64_t)15; first < task->range.end; first += 16) {
    const uint8_t *bytes = task->bytes + first / 16 * groups * 64;
    __m512i sum[4];
    for (uint32_t k = 0; k < wide; k++)
      sum[k] = _mm512_setzero_si512();
    for (uint64_t g = 0; g < groups; g++) {
      __m512i c = _mm512_loadu_si512(bytes + g * 64);
      for (uint32_t k = 0; k < wide; k++)
        sum[k] = add_products(sum[k], c, &task->words[k][g]);
    }
    __m512i offset = _mm512_loadu_si512(task->offset + first);
    uint32_t valid = lanes_in(first, task->range);
    __m512i here = _mm512_add_epi32(places, _mm512_set1_epi32((int)(uint32_t)(first - task->range.begin)));
    for (uint32_t k = 0; k < wide; k++) {
      __m512i twice = _mm512_sub_epi32(_mm512_add_epi32(sum[k], sum[k]), offset);
      uint32_t mask = _mm512_cmpge_epi32_mask(twice, _mm512_set1_epi32(task->least[k])) & valid;
      if (!mask) continue;
      _mm512_storeu_si512(kept[k] + at[k], _mm512_maskz_compress_epi32((__mmask16)mask, here));
      at[k] += (uint32_t)__builtin_popcount(mask);
    }
  }
  memcpy(count, at, wide * sizeof *count);
}

VNNI static void keep_vnni(const adji_prefilter_codes_task *task, uint32_t *const *kept, uint32_t *count) {
  if (task->query_count == 4)
    keep_wide(task, kept, count, 4);
  else if (task->query_count == 3)
    keep_wide(task, kept, count, 3);
  else if (task->query_count == 2)
    keep_wide(task, kept, count, 2);
  else
    keep_wide(task, kept, count, 1);
}

/* Each lane gathers the coordinates of its own candidate and sums them in order. The sums are abandoned once no lane
 * can belong. PS: ps or pd. IDS_*: operations on as many ids as a vector has lanes. */
#define REFINE(name, T, PS, VEC, MASK, LANES, IDS, IDS_LOAD, IDS_GATHER, IDS_STORE)                            \
  VNNI static uint32_t name(const adji_refine_task *task, uint32_t *ids, void *sums) {                         \
    const adji_view *right = task->right;                                                                      \
    const T *query = task->query, *coords = (const T *)right->coords + task->base;                             \
    const VEC limit = _mm512_set1_##PS((T)task->limit);                                                        \
    uint32_t found = 0;                                                                                        \
    for (uint32_t i = 0; i < task->count; i += LANES) {                                                        \
      uint32_t remaining = task->count - i;                                                                    \
      MASK mask = remaining >= LANES ? (MASK)-1 : (MASK)((1u << remaining) - 1);                               \
      IDS place = IDS_LOAD(mask, task->kept + i);                                                              \
      VEC s = _mm512_setzero_##PS();                                                                           \
      for (uint32_t j = 0; j < right->dim && mask; j++) {                                                      \
        const T *column = coords + j * right->stride;                                                          \
        VEC c = _mm512_mask_i32gather_##PS(_mm512_setzero_##PS(), mask, place, column, sizeof(T));             \
        VEC t = _mm512_sub_##PS(_mm512_set1_##PS(query[j * task->query_stride]), c);                           \
        s = _mm512_fmadd_##PS(t, t, s);                                                                        \
        if (j % 8 == 7 || j + 1 == right->dim) mask = _mm512_mask_cmp_##PS##_mask(mask, s, limit, _CMP_LE_OQ); \
      }                                                                                                        \
      if (ids && mask) {                                                                                       \
        IDS_STORE(ids + found, mask, IDS_GATHER(mask, place, right->ids + task->base));                        \
        if (sums) _mm512_storeu_##PS((T *)sums + found, _mm512_maskz_compress_##PS(mask, s));                  \
      }                                                                                                        \
      found += (uint32_t)__builtin_popcount(mask);                                                             \
    }                                                                                                          \
    return found;                                                                                              \
  }
#define GATHER16(mask, place, ids) _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), mask, place, ids, 4)
#define GATHER8(mask, place, ids) _mm256_mmask_i32gather_epi32(_mm256_setzero_si256(), mask, place, ids, 4)
#define STORE16(to, mask, v) _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(mask, v))
#define STORE8(to, mask, v) _mm256_storeu_si256((__m256i *)(to), _mm256_maskz_compress_epi32(mask, v))
REFINE(refine_f32, float, ps, __m512, __mmask16, 16, __m512i, _mm512_maskz_loadu_epi32, GATHER16, STORE16)
REFINE(refine_f64, double, pd, __m512d, __mmask8, 8, __m256i, _mm256_maskz_loadu_epi32, GATHER8, STORE8)

const adji_prefilter_codes adji_prefilter_codes_vnni = {keep_vnni, {refine_f32, refine_f64}};
#endif
