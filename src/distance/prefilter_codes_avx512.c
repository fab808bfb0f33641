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
 * can belong. */
VNNI static uint32_t refine_f32(const adji_refine_task *task, uint32_t *ids, void *sums) {
  const adji_view *right = task->right;
  const float *query = task->query, *coords = (const float *)right->coords + task->base;
  const __m512 limit = _mm512_set1_ps((float)task->limit);
  uint32_t found = 0;
  for (uint32_t i = 0; i < task->count; i += 16) {
    uint32_t remaining = task->count - i;
    __mmask16 mask = remaining >= 16 ? 0xffff : (__mmask16)((1u << remaining) - 1);
    __m512i place = _mm512_maskz_loadu_epi32(mask, task->kept + i);
    __m512 s = _mm512_setzero_ps();
    for (uint32_t j = 0; j < right->dim && mask; j++) {
      __m512 c = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, place, coords + j * right->stride, 4);
      __m512 t = _mm512_sub_ps(_mm512_set1_ps(query[j * task->query_stride]), c);
      s = _mm512_fmadd_ps(t, t, s);
      if (j % 8 == 7 || j + 1 == right->dim) mask = _mm512_mask_cmp_ps_mask(mask, s, limit, _CMP_LE_OQ);
    }
    if (ids && mask) {
      __m512i id = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), mask, place, right->ids + task->base, 4);
      _mm512_storeu_si512(ids + found, _mm512_maskz_compress_epi32(mask, id));
      if (sums) _mm512_storeu_ps((float *)sums + found, _mm512_maskz_compress_ps(mask, s));
    }
    found += (uint32_t)__builtin_popcount(mask);
  }
  return found;
}

VNNI static uint32_t refine_f64(const adji_refine_task *task, uint32_t *ids, void *sums) {
  const adji_view *right = task->right;
  const double *query = task->query, *coords = (const double *)right->coords + task->base;
  const __m512d limit = _mm512_set1_pd(task->limit);
  uint32_t found = 0;
  for (uint32_t i = 0; i < task->count; i += 8) {
    uint32_t remaining = task->count - i;
    __mmask8 mask = remaining >= 8 ? 0xff : (__mmask8)((1u << remaining) - 1);
    __m256i place = _mm256_maskz_loadu_epi32(mask, task->kept + i);
    __m512d s = _mm512_setzero_pd();
    for (uint32_t j = 0; j < right->dim && mask; j++) {
      __m512d c = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), mask, place, coords + j * right->stride, 8);
      __m512d t = _mm512_sub_pd(_mm512_set1_pd(query[j * task->query_stride]), c);
      s = _mm512_fmadd_pd(t, t, s);
      if (j % 8 == 7 || j + 1 == right->dim) mask = _mm512_mask_cmp_pd_mask(mask, s, limit, _CMP_LE_OQ);
    }
    if (ids && mask) {
      __m256i id = _mm256_mmask_i32gather_epi32(_mm256_setzero_si256(), mask, place, right->ids + task->base, 4);
      _mm256_storeu_si256((__m256i *)(ids + found), _mm256_maskz_compress_epi32(mask, id));
      if (sums) _mm512_storeu_pd((double *)sums + found, _mm512_maskz_compress_pd(mask, s));
    }
    found += (uint32_t)__builtin_popcount(mask);
  }
  return found;
}

const adji_prefilter_codes adji_prefilter_codes_vnni = {keep_vnni, {refine_f32, refine_f64}};
#endif
