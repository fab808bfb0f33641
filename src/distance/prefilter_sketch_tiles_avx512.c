/* SPDX-License-Identifier: MIT
 *
 * The prefilter of codes with AMX tiles: 32 queries with 32 candidates at a time, 16 x 16 x 64 products per
 * instruction.
 *
 * Two tiles of queries and two of candidates give four tiles of sums, which uses all eight tile registers: every tile
 * that is loaded serves two products. The sums start at minus half the candidates' squared norms, one row for all
 * queries (a load of stride 0).
 */
#if defined(__x86_64__)
#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "distance/prefilter_sketch_append.h"

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

/* Words per tile product: at most 16, and the same number each time. */
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

typedef struct sums {
  _Alignas(64) int32_t tile[4][16][16]; /* queries 0 .. 15 with two blocks, then 16 .. 31 */
  int32_t apart[32 * 16]; /* padding: a load waits for a store whose address has the same low twelve bits */
} sums;

AMX_INLINE void multiply(const adji_prefilter_sketch_task *task, uint32_t query, uint32_t candidate, uint32_t words,
                         sums *to) {
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

/* Appends what passes of the sums of 32 queries and 32 candidates. */
AMX_INLINE void keep(const adji_prefilter_sketch_task *task, uint32_t query, uint32_t candidate, const sums *from) {
  for (uint32_t t = 0; t < 4; t++) {
    uint32_t first = query + t / 2 * 16, at = candidate + t % 2 * ADJI_SKETCH_BLOCK;
    __mmask16 valid = valid_lanes(task, at);
    for (uint32_t i = 0; i < 16; i++)
      keep_codes(task, first + i, at, valid, _mm512_load_si512(from->tile[t][i]));
  }
}

/* The tiles multiply one block while the sums of the previous one are filtered. */
AMX void adji_prefilter_sketch_amx(const adji_prefilter_sketch_task *task) {
  uint32_t words = words_at_once(task->groups), candidate;
  set_layout(words);
  sums buffer[2];
  for (uint32_t query = 0; query < task->query_count; query += 32) {
    for (candidate = 0; candidate < task->count; candidate += 32) {
      multiply(task, query, candidate, words, &buffer[candidate / 32 % 2]);
      if (candidate) keep(task, query, candidate - 32, &buffer[(candidate / 32 + 1) % 2]);
    }
    keep(task, query, candidate - 32, &buffer[(candidate / 32 + 1) % 2]);
  }
  _tile_release();
}
#endif
