/* SPDX-License-Identifier: MIT
 *
 * Neighbours through the filter of codes: in many dimensions, candidates are first compared by their
 * codes, a tile at a time, and only what passes by the canonical distance.
 */
#ifndef ADJI_SIEVE_H
#define ADJI_SIEVE_H

#include "distance/filter.h"
#include "index/codes.h"
#include "result/rows.h"

/* What the lanes share. */
typedef struct adji_sieve_plan {
  const adji_filter *filter;
  const adji_codes *left, *right;
  int64_t reach_sq;
} adji_sieve_plan;

/* What one lane needs. */
typedef struct adji_sieve {
  const adji_sieve_plan *plan;
  adji_memory *memory;
  uint32_t *words[ADJI_LIST_MAX]; /* codes of the queries                  */
  uint32_t *kept[ADJI_LIST_MAX];  /* candidates of a tile that passed      */
} adji_sieve;

adj_status adji_sieve_init(adji_sieve *sieve, const adji_sieve_plan *plan, adji_memory *memory);
void adji_sieve_clear(adji_sieve *sieve);

/* Like adji_list_fn, for at most ADJI_LIST_MAX queries; ids NULL: only counts, in found. */
void adji_sieve_list(const adji_sieve *sieve, adj_type type, const adji_task *task, uint32_t *const *ids,
                     void *const *sums, uint32_t *found);

#endif
