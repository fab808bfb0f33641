/* SPDX-License-Identifier: MIT
 *
 * The prefilter of 8-bit codes (index/codes.h), and the canonical distance of the pairs that pass it. cpu/prefilter.c
 * uses it for range joins in many dimensions. Only some instruction sets have it; the others compare every candidate.
 *
 * With c the unsigned code of a candidate and b = c' - 128 the signed code of the query:
 *
 *   |c' - c|^2 = |c'|^2 + offset - 2 * sum(c * b),    offset = |c|^2 - 256 * sum(c)
 *
 * This is at most reach_sq iff 2 * sum(c * b) - offset >= |c'|^2 - reach_sq. Sums begin at start = -floor(offset / 2),
 * which is at least -offset / 2, so a pair within reach has
 *
 *   start + sum(c * b) >= (|c'|^2 - reach_sq) / 2.    The left side is whole, so it is >= least, this limit rounded up.
 *
 * All of it is exact: no number comes near 2^31 in up to ADJI_CODE_MAX_DIM dimensions.
 */
#ifndef ADJI_PREFILTER_CODES_H
#define ADJI_PREFILTER_CODES_H

#include <string.h>

#include "distance/kernels.h"

/* A query of a task and a candidate. The order of the bits is that of the kernel: candidates are in blocks of 16, and a
 * block has four candidates with the first query, the same four with the next query, and so on. */
typedef uint32_t adji_code_pair;

static inline uint32_t adji_pair_query(adji_code_pair pair) {
  return pair >> 2 & 3;
}

/* The candidate's position, counted from the first block of the pairs. */
static inline uint32_t adji_pair_place(adji_code_pair pair) {
  return pair >> 6 << 4 | (pair >> 2 & 12) | (pair & 3);
}

typedef struct adji_prefilter_codes_task {
  const uint8_t *bytes; /* codes of the candidates, from block 0 on */
  const int32_t *start; /* initial values of the candidates' sums, from position 0 on */
  uint32_t groups;      /* words per query */
  const uint32_t *words[ADJI_LIST_MAX];
  int32_t least[ADJI_LIST_MAX]; /* ADJI_CODE_NO_QUERY: nothing passes, whatever the words */
  adji_range range;             /* range of candidates, at most ADJI_CODE_TILE */
  uint32_t first_block;         /* the block from which pairs count positions, at most 2^25 before the range */
  const char *rows;             /* rows of the candidates, from that block on; prefetched if a pair passes */
  uint64_t row_bytes;
} adji_prefilter_codes_task;

enum { ADJI_CODE_NO_QUERY = 1 << 30, ADJI_CODE_TILE = 1024 };

/* The canonical sums (L2) of pairs. */
typedef struct adji_refine_task {
  const void *queries[ADJI_LIST_MAX]; /* dim coordinates each, packed */
  const void *rows; /* candidates, dim coordinates each, packed, from the first block of the pairs on */
  uint32_t dim;
  double limit;
} adji_refine_task;

typedef struct adji_prefilter_codes {
  /* Finds the pairs that may belong and writes them to `pairs`, which has room for all pairs and ADJI_PAD more. The
   * candidates of a query are in ascending order. Returns the number of pairs. */
  uint32_t (*keep)(const adji_prefilter_codes_task *task, adji_code_pair *pairs);
  /* f32, f64. Keeps those of `count` pairs that belong, in the same order, and writes their sums, with room for
   * ADJI_PAD more, unless sums is NULL. Returns the number of pairs kept. */
  uint32_t (*refine[2])(const adji_refine_task *task, adji_code_pair *pairs, uint32_t count, void *sums);
} adji_prefilter_codes;

#if defined(__x86_64__)
extern const adji_prefilter_codes adji_prefilter_codes_vnni;
#endif

/* NULL if the instruction set or this CPU has none. */
static inline const adji_prefilter_codes *adji_prefilter_codes_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512") && __builtin_cpu_supports("avx512vnni")) return &adji_prefilter_codes_vnni;
#endif
  (void)isa;
  return NULL;
}

#endif
