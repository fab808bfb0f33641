/* SPDX-License-Identifier: MIT
 *
 * The prefilter of sketches with AVX-512, in two shapes. In registers: four queries with four blocks of candidates at a
 * time, which gives 16 sums. Codes need VNNI, with 64 byte products per instruction; f32 needs nothing more. In AMX
 * tiles, for codes only: 32 queries with 32 candidates at a time, 16 x 16 x 64 products per instruction.
 */
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "distance/prefilter_sketch.h"

#define SKETCH_INLINE static inline __attribute__((always_inline))

/* The lanes that hold candidates, in the block that begins at candidate `at` of the tile. */
SKETCH_INLINE __mmask16 valid_lanes(const adji_prefilter_sketch_task *task, uint32_t at) {
  uint32_t remaining = at < task->count ? task->count - at : 0;
  return remaining >= 16 ? 0xffff : (__mmask16)((1u << remaining) - 1);
}

/* Stores value << 32 | place for the lanes of mask, where `first` is the place of the first lane. Returns their end. */
SKETCH_INLINE uint64_t *store_lanes(uint64_t *to, __mmask16 mask, __m512i value, uint64_t first) {
  const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(value));
  __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(value, 1));
  __m512i place = _mm512_add_epi64(lanes, _mm512_set1_epi64((int64_t)first));
  low = _mm512_or_si512(_mm512_slli_epi64(low, 32), place);
  high = _mm512_or_si512(_mm512_slli_epi64(high, 32), _mm512_add_epi64(place, _mm512_set1_epi64(8)));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi64((__mmask8)mask, low));
  to += __builtin_popcount(mask & 0xff);
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi64((__mmask8)(mask >> 8), high));
  return to + __builtin_popcount(mask >> 8);
}

/* Appends the lanes of mask, with the given values, to the keys of query q. */
SKETCH_INLINE void append(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, __mmask16 mask,
                          __m512i value) {
  uint64_t *end = store_lanes(task->keys[q] + task->found[q], mask, value, (uint64_t)task->first + at);
  task->found[q] = (uint32_t)(end - task->keys[q]);
}

/* The values of pairs of codes, from their sums. */
SKETCH_INLINE __m512i code_values(const adji_prefilter_sketch_task *task, uint32_t q, __m512i sum) {
  __m512i value = _mm512_sub_epi32(_mm512_set1_epi32(task->base[q].code), _mm512_add_epi32(sum, sum));
  return _mm512_max_epi32(value, _mm512_setzero_si512());
}

/* Appends those of 16 sums of codes that pass. */
SKETCH_INLINE void keep_codes(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, __mmask16 valid,
                              __m512i sum) {
  __mmask16 mask = _mm512_cmpge_epi32_mask(sum, _mm512_set1_epi32(task->least[q].code)) & valid;
  if (mask) append(task, q, at, mask, code_values(task, q, sum));
}

/* Stores those of 16 sums of codes that pass for either point. Half a value is half - sum. */
SKETCH_INLINE uint64_t *keep_pairs(const adji_sketch_pairs_task *task, uint32_t q, uint32_t at, __mmask16 valid,
                                   __m512i sum, uint64_t *to) {
  __m512i reach = _mm512_max_epi32(_mm512_set1_epi32(task->query_reach[q]),  //
                                   _mm512_loadu_si512(task->candidate_reach + at));
  __m512i least = _mm512_sub_epi32(_mm512_set1_epi32(task->half[q]), reach);
  __mmask16 mask = _mm512_cmpge_epi32_mask(sum, least) & valid;
  return mask ? store_lanes(to, mask, code_values(&task->tile, q, sum), (uint64_t)q << 16 | at) : to;
}

/* Appends those of 16 sums of f32 that pass. */
SKETCH_INLINE void keep_f32(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, __mmask16 valid,
                            __m512 sum) {
  __mmask16 mask = _mm512_cmp_ps_mask(sum, _mm512_set1_ps(task->least[q].f32), _CMP_GE_OQ) & valid;
  if (!mask) return;
  __m512 value = _mm512_sub_ps(_mm512_set1_ps(task->base[q].f32), _mm512_add_ps(sum, sum));
  append(task, q, at, mask, _mm512_castps_si512(_mm512_max_ps(value, _mm512_setzero_ps())));
}

/* ---- Registers ------------------------------------------------------------------------------- */

enum { QUERIES = 4, BLOCKS = 4 };

/* Returns sum + the four byte products of each lane. Written in assembly so that this file compiles without VNNI. */
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

/* Multiplies queries q .. q + 3 with the candidates of four blocks, beginning with candidate `at` of the tile. */
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

/* Appends the pairs that pass. The sums come from memory, in one short loop: sums in registers would need a copy of the
 * loop body for each. */
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

uint64_t adji_sketch_pairs_vnni(const adji_sketch_pairs_task *task) {
  const adji_prefilter_sketch_task *tile = &task->tile;
  uint64_t *to = task->pairs;
  sums buffer;
  for (uint32_t at = 0; at < tile->count; at += BLOCKS * ADJI_SKETCH_BLOCK)
    for (uint32_t q = 0; q < tile->query_count; q += QUERIES) {
      multiply(tile, q, at, true, &buffer);
      for (uint32_t i = 0; i < QUERIES * BLOCKS; i++) {
        uint32_t first = at + i % BLOCKS * ADJI_SKETCH_BLOCK;
        to = keep_pairs(task, q + i / BLOCKS, first, valid_lanes(tile, first), _mm512_load_si512(buffer.row[i]), to);
      }
    }
  return (uint64_t)(to - task->pairs);
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* Two tiles of queries and two of candidates give four tiles of sums, which uses all eight tile registers: every tile
 * that is loaded serves two products. The sums start at minus half the candidates' squared norms, one row for all
 * queries (a load of stride 0). */

#define AMX __attribute__((target("amx-tile,amx-int8")))
#define AMX_INLINE static inline __attribute__((always_inline)) AMX

bool adji_amx_usable(void) {
  uint32_t a, b, c, d;
  const uint32_t tile = 1u << 24, int8 = 1u << 25;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (tile | int8)) != (tile | int8)) return false;
#if defined(__linux__) && defined(SYS_arch_prctl)
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
  return false;
#endif
}

/* The operand of the instruction ldtilecfg. */
typedef struct tile_layout {
  uint8_t palette, start_row, zero[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_layout;

/* Words per tile product: at most 16, and the same number in each product. */
static uint32_t words_at_once(uint32_t groups) {
  uint32_t times = (groups + 15) / 16;
  return groups / times;
}

/* Tile registers 0 to 3: sums; 4, 5: queries; 6, 7: candidates. */
AMX static void set_layout(uint32_t words) {
  tile_layout layout;
  memset(&layout, 0, sizeof layout);
  layout.palette = 1;
  for (int i = 0; i < 8; i++) {
    bool queries = i == 4 || i == 5, candidates = i > 5;
    layout.row_bytes[i] = (uint16_t)(queries ? 4 * words : 64);
    layout.rows[i] = (uint8_t)(candidates ? words : 16);
  }
  /* Some compilers assume that the instruction reads only the first eight bytes. */
  __asm__ volatile("" : : "r"(&layout) : "memory");
  _tile_loadconfig(&layout);
}

typedef struct tile_sums {
  _Alignas(64) int32_t tile[4][16][16]; /* queries 0 .. 15 with two blocks, then 16 .. 31 */
  int32_t apart[32 * 16]; /* padding: a load waits for a store whose address has the same low twelve bits */
} tile_sums;

AMX_INLINE void multiply_tiles(const adji_prefilter_sketch_task *task, uint32_t query, uint32_t candidate,
                               uint32_t words, tile_sums *to) {
  uint64_t groups = task->groups, stride = task->query_stride;
  const char *first = task->queries + query * stride, *second = first + 16 * stride;
  const char *low = task->blocks + candidate / ADJI_SKETCH_BLOCK * groups * 64, *high = low + groups * 64;
  const adji_value *minus = task->minus + candidate;
  _tile_loadd(0, minus, 0);
  _tile_loadd(1, minus + 16, 0);
  _tile_loadd(2, minus, 0);
  _tile_loadd(3, minus + 16, 0);
  for (uint64_t g = 0; g < groups; g += words) {
    _tile_loadd(4, first + g * 4, stride);
    _tile_loadd(6, low + g * 64, 64);
    _tile_dpbsud(0, 4, 6);
    _tile_loadd(7, high + g * 64, 64);
    _tile_dpbsud(1, 4, 7);
    _tile_loadd(5, second + g * 4, stride);
    _tile_dpbsud(2, 5, 6);
    _tile_dpbsud(3, 5, 7);
  }
  _tile_stored(0, to->tile[0], 64);
  _tile_stored(1, to->tile[1], 64);
  _tile_stored(2, to->tile[2], 64);
  _tile_stored(3, to->tile[3], 64);
}

/* Appends those of the sums of 32 queries and 32 candidates that pass. */
AMX_INLINE void keep_tiles(const adji_prefilter_sketch_task *task, uint32_t query, uint32_t candidate,
                           const tile_sums *from) {
  for (uint32_t t = 0; t < 4; t++) {
    uint32_t first = query + t / 2 * 16, at = candidate + t % 2 * ADJI_SKETCH_BLOCK;
    __mmask16 valid = valid_lanes(task, at);
    for (uint32_t i = 0; i < 16; i++)
      keep_codes(task, first + i, at, valid, _mm512_load_si512(from->tile[t][i]));
  }
}

AMX_INLINE uint64_t *keep_tile_pairs(const adji_sketch_pairs_task *task, uint32_t query, uint32_t candidate,
                                     const tile_sums *from, uint64_t *to) {
  for (uint32_t t = 0; t < 4; t++) {
    uint32_t first = query + t / 2 * 16, at = candidate + t % 2 * ADJI_SKETCH_BLOCK;
    __mmask16 valid = valid_lanes(&task->tile, at);
    for (uint32_t i = 0; i < 16; i++)
      to = keep_pairs(task, first + i, at, valid, _mm512_load_si512(from->tile[t][i]), to);
  }
  return to;
}

/* The tiles multiply one block while the sums of the previous one are filtered. */
AMX void adji_prefilter_sketch_amx(const adji_prefilter_sketch_task *task) {
  uint32_t words = words_at_once(task->groups), candidate;
  set_layout(words);
  tile_sums buffer[2];
  for (uint32_t query = 0; query < task->query_count; query += 32) {
    for (candidate = 0; candidate < task->count; candidate += 32) {
      multiply_tiles(task, query, candidate, words, &buffer[candidate / 32 % 2]);
      if (candidate) keep_tiles(task, query, candidate - 32, &buffer[(candidate / 32 + 1) % 2]);
    }
    keep_tiles(task, query, candidate - 32, &buffer[(candidate / 32 + 1) % 2]);
  }
  _tile_release();
}

AMX uint64_t adji_sketch_pairs_amx(const adji_sketch_pairs_task *task) {
  const adji_prefilter_sketch_task *tile = &task->tile;
  uint32_t words = words_at_once(tile->groups), candidate;
  uint64_t *to = task->pairs;
  set_layout(words);
  tile_sums buffer[2];
  for (uint32_t query = 0; query < tile->query_count; query += 32) {
    for (candidate = 0; candidate < tile->count; candidate += 32) {
      multiply_tiles(tile, query, candidate, words, &buffer[candidate / 32 % 2]);
      if (candidate) to = keep_tile_pairs(task, query, candidate - 32, &buffer[(candidate / 32 + 1) % 2], to);
    }
    to = keep_tile_pairs(task, query, candidate - 32, &buffer[(candidate / 32 + 1) % 2], to);
  }
  _tile_release();
  return (uint64_t)(to - task->pairs);
}
#endif
