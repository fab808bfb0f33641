/* SPDX-License-Identifier: MIT
 *
 * The filter of codes (index/codes.h) and the canonical distance of what it lets through. Only some
 * instruction sets have it; the others compare every candidate.
 *
 * With c the code of a candidate, unsigned, and b = c' - 128 that of the query, signed:
 *
 *   |c' - c|^2 = |c'|^2 + (|c|^2 - 256 * sum(c)) - 2 * sum(c * b)
 *
 * which is at most reach_sq iff 2 * sum(c * b) - offset >= |c'|^2 - reach_sq, all in exact integers.
 */
#ifndef ADJI_FILTER_H
#define ADJI_FILTER_H

#include "distance/kernels.h"

typedef struct adji_code_filter_task {
  const uint8_t *bytes;  /* of the candidates, from block 0 on       */
  const int32_t *offset; /* of the candidates, from position 0 on    */
  uint32_t groups;       /* words of a query                         */
  uint32_t query_count;  /* at most ADJI_LIST_MAX                    */
  const uint32_t *words[ADJI_LIST_MAX];
  int32_t least[ADJI_LIST_MAX]; /* |c'|^2 - reach_sq                  */
  adji_range range;             /* of candidates                      */
} adji_code_filter_task;

/* For each query the candidates of the range that may belong: their positions minus range.begin go to
 * kept[k], which has room for the range and ADJI_PAD more; count[k] receives how many. */
typedef void (*adji_code_filter_fn)(const adji_code_filter_task *task, uint32_t *const *kept, uint32_t *count);

/* The canonical test of listed candidates for one query. */
typedef struct adji_refine_task {
  const adji_view *right;
  const void *query; /* first coordinate; the next is query_stride entries on */
  uint64_t query_stride;
  double limit;
  uint64_t base;        /* candidates are at base + kept[i] */
  const uint32_t *kept; /* readable ADJI_PAD entries past count */
  uint32_t count;
} adji_refine_task;

/* Appends the ids (and sums, when not NULL) of those that belong, as adji_list_fn does; ids NULL: only
 * counts. Returns how many belong. */
typedef uint32_t (*adji_refine_fn)(const adji_refine_task *task, uint32_t *ids, void *sums);

typedef struct adji_code_filter {
  adji_code_filter_fn keep;
  adji_refine_fn refine[2]; /* L2: f32, f64 */
} adji_code_filter;

#if defined(__x86_64__)
extern const adji_code_filter adji_code_filter_vnni;
#endif

/* NULL when the instruction set or this CPU has none. */
const adji_code_filter *adji_code_filter_for(const char *isa);

#endif
