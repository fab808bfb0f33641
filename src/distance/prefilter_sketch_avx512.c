/* SPDX-License-Identifier: MIT
 *
 * The prefilter of sketches with AVX-512: four queries with four blocks of candidates at a time, 16 sums in registers.
 * Codes need VNNI, with 64 byte products per instruction; f32 needs nothing more.
 */
#if defined(__x86_64__)
#include "distance/prefilter_sketch_append.h"

enum { QUERIES = 4, BLOCKS = 4 };

/* sum + the four byte products of each lane. Written in assembly so that this file can be compiled without VNNI. */
SKETCH_INLINE __m512i add_codes(__m512i sum, __m512i candidates, __m512i query) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(candidates), "v"(query));
  return sum;
}

SKETCH_INLINE __m512i add_f32(__m512i sum, __m512i candidates, __m512i query) {
  return _mm512_castps_si512(
      _mm512_fmadd_ps(_mm512_castsi512_ps(candidates), _mm512_castsi512_ps(query), _mm512_castsi512_ps(sum)));
}

typedef struct sums {
  _Alignas(64) int32_t row[QUERIES * BLOCKS][ADJI_SKETCH_BLOCK];
} sums;

/* Multiplies queries q .. q + 3 with the candidates of four blocks, from number `at` of the tile on. */
SKETCH_INLINE void multiply(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, const bool codes,
                            sums *to) {
  uint64_t groups = task->groups;
  const char *block = task->blocks + at / ADJI_SKETCH_BLOCK * groups * 64,
             *query = task->queries + q * task->query_stride;
  __m512i sum[QUERIES][BLOCKS];
  for (uint32_t b = 0; b < BLOCKS; b++)
    for (uint32_t k = 0; k < QUERIES; k++)
      sum[k][b] = _mm512_loadu_si512(task->minus + at + (uint64_t)b * ADJI_SKETCH_BLOCK);
  for (uint64_t g = 0; g < groups; g++) {
    __m512i c[BLOCKS];
    for (uint32_t b = 0; b < BLOCKS; b++)
      c[b] = _mm512_loadu_si512(block + (b * groups + g) * 64);
    for (uint32_t k = 0; k < QUERIES; k++) {
      __m512i word = _mm512_set1_epi32(*(const int32_t *)(const void *)(query + k * task->query_stride + g * 4));
      for (uint32_t b = 0; b < BLOCKS; b++)
        sum[k][b] = codes ? add_codes(sum[k][b], c[b], word) : add_f32(sum[k][b], c[b], word);
    }
  }
  for (uint32_t k = 0; k < QUERIES; k++)
    for (uint32_t b = 0; b < BLOCKS; b++)
      _mm512_store_si512(to->row[k * BLOCKS + b], sum[k][b]);
}

/* Appends what passes. The sums come from memory, in one short loop; sums in registers would need a copy of the loop
 * body for each. */
SKETCH_INLINE void keep(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, const bool codes,
                        const sums *from) {
  for (uint32_t i = 0; i < QUERIES * BLOCKS; i++) {
    uint32_t query = q + i / BLOCKS, first = at + i % BLOCKS * ADJI_SKETCH_BLOCK;
    __mmask16 valid = valid_lanes(task, first);
    if (codes)
      keep_codes(task, query, first, valid, _mm512_load_si512(from->row[i]));
    else
      keep_f32(task, query, first, valid, _mm512_load_ps(from->row[i]));
  }
}

SKETCH_INLINE void multiply_tile(const adji_prefilter_sketch_task *task, const bool codes) {
  sums buffer;
  for (uint32_t at = 0; at < task->count; at += BLOCKS * ADJI_SKETCH_BLOCK)
    for (uint32_t q = 0; q < task->query_count; q += QUERIES) {
      multiply(task, q, at, codes, &buffer);
      keep(task, q, at, codes, &buffer);
    }
}

void adji_prefilter_sketch_vnni(const adji_prefilter_sketch_task *task) {
  multiply_tile(task, true);
}

void adji_prefilter_sketch_avx512(const adji_prefilter_sketch_task *task) {
  multiply_tile(task, false);
}
#endif
