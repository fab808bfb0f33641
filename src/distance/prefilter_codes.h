/* SPDX-License-Identifier: MIT
 *
 * The prefilter of 8-bit codes (index/codes.h), and the canonical distance of what passes it. cpu/prefilter.c drives it
 * for range joins in many dimensions. Only some instruction sets have it; the others compare every candidate.
 *
 * With c the unsigned code of a candidate and b = c' - 128 the signed code of the query:
 *
 *   |c' - c|^2 = |c'|^2 + (|c|^2 - 256 * sum(c)) - 2 * sum(c * b)
 *
 * which is at most reach_sq iff 2 * sum(c * b) - offset >= |c'|^2 - reach_sq, all in exact integers.
 */
#ifndef ADJI_PREFILTER_CODES_H
#define ADJI_PREFILTER_CODES_H

#include <string.h>

#include "distance/kernels.h"

typedef struct adji_prefilter_codes_task {
  const uint8_t *bytes;  /* of the candidates, from block 0 on */
  const int32_t *offset; /* of the candidates, from position 0 on */
  uint32_t groups;       /* words of a query */
  uint32_t query_count;  /* at most ADJI_LIST_MAX */
  const uint32_t *words[ADJI_LIST_MAX];
  int32_t least[ADJI_LIST_MAX]; /* |c'|^2 - reach_sq */
  adji_range range;             /* of candidates */
} adji_prefilter_codes_task;

/* The canonical test of listed candidates for one query. */
typedef struct adji_refine_task {
  const adji_view *right;
  const void *query; /* first coordinate; the next is query_stride entries further */
  uint64_t query_stride;
  double limit;
  uint64_t base;        /* candidates are at base + kept[i] */
  const uint32_t *kept; /* readable ADJI_PAD entries past count */
  uint32_t count;
} adji_refine_task;

typedef struct adji_prefilter_codes {
  /* Finds, for each query, the candidates of the range that may belong. Writes their positions minus range.begin to
   * kept[k], which has room for the range and ADJI_PAD more, and their number to count[k]. */
  void (*keep)(const adji_prefilter_codes_task *task, uint32_t *const *kept, uint32_t *count);
  /* L2: f32, f64. Appends the ids of those that belong, and their sums unless sums is NULL, like adji_list_fn. If ids
   * is NULL it only counts. Returns how many belong. */
  uint32_t (*refine[2])(const adji_refine_task *task, uint32_t *ids, void *sums);
} adji_prefilter_codes;

#if defined(__x86_64__)
extern const adji_prefilter_codes adji_prefilter_codes_vnni;
#endif

/* NULL when the instruction set or this CPU has none. */
static inline const adji_prefilter_codes *adji_prefilter_codes_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512") && __builtin_cpu_supports("avx512vnni")) return &adji_prefilter_codes_vnni;
#endif
  (void)isa;
  return NULL;
}

#endif
