/* SPDX-License-Identifier: MIT
 *
 * Neighbours through the prefilter of codes, for range joins in many dimensions. Candidates are first compared by their
 * 8-bit codes, a tile at a time. Pairs that pass are collected and compared by the canonical distance. If many pass,
 * all candidates of the tile are compared, by the kernels that load a candidate once for four queries, and the next
 * tiles are not filtered at all.
 */
#ifndef ADJI_PREFILTER_H
#define ADJI_PREFILTER_H

#include "distance/prefilter_codes.h"
#include "index/codes.h"
#include "result/rows.h"

/* Shared by the lanes. */
typedef struct adji_prefilter_plan {
  const adji_prefilter_codes *filter;
  const adji_codes *left, *right;
  int64_t reach_sq;
} adji_prefilter_plan;

/* Queries whose codes are kept: those of a group, which recur with every panel of candidates. */
enum { ADJI_CODED_QUERIES = 64 };

/* The state of one lane. */
typedef struct adji_prefilter {
  const adji_prefilter_plan *plan;
  adji_memory *memory;
  uint32_t most;                         /* candidates of a panel, at most */
  uint32_t *words;                       /* codes of queries, each in a slot    */
  void *coords;                          /* coordinates of the same queries, row by row */
  uint64_t position[ADJI_CODED_QUERIES]; /* position of the query in each slot */
  int64_t norm[ADJI_CODED_QUERIES];      /* squared norm of these codes */
  adji_code_pair *pairs;                 /* pairs that passed and are not yet compared */
  void *sums;                            /* sums of these pairs */
  uint32_t pending;                      /* number of pairs */
  uint64_t unfiltered;                   /* comparisons before the filter is tried again */
  uint64_t pause;                        /* candidates of the last pause */
} adji_prefilter;

adj_status adji_prefilter_init(adji_prefilter *prefilter, const adji_prefilter_plan *plan, adj_type type,
                               adji_memory *memory);
void adji_prefilter_clear(adji_prefilter *prefilter);

/* Like adji_list_fn, for at most ADJI_LIST_MAX queries. If ids is NULL, neighbours are only counted, in found. */
void adji_prefilter_list(adji_prefilter *prefilter, const adji_row_style *style, const adji_task *task,
                         uint32_t *const *ids, void *const *sums, uint32_t *found);

#endif
