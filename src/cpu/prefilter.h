/* SPDX-License-Identifier: MIT
 *
 * Neighbours through the prefilter of codes, for range joins in many dimensions. Candidates are first compared by their
 * 8-bit codes, a tile at a time. Only what passes is compared by the canonical distance.
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

/* The state of one lane. */
typedef struct adji_prefilter {
  const adji_prefilter_plan *plan;
  adji_memory *memory;
  uint32_t *words[ADJI_LIST_MAX]; /* codes of the queries */
  uint32_t *kept[ADJI_LIST_MAX];  /* candidates of a tile that passed */
} adji_prefilter;

adj_status adji_prefilter_init(adji_prefilter *prefilter, const adji_prefilter_plan *plan, adji_memory *memory);
void adji_prefilter_clear(adji_prefilter *prefilter);

/* Like adji_list_fn, for at most ADJI_LIST_MAX queries. If ids is NULL it only counts, in found. */
void adji_prefilter_list(const adji_prefilter *prefilter, adj_type type, const adji_task *task, uint32_t *const *ids,
                         void *const *sums, uint32_t *found);

#endif
