/* SPDX-License-Identifier: MIT
 *
 * What a join is, as every worker sees it.
 */
#ifndef ADJI_JOIN_H
#define ADJI_JOIN_H

#include "data/dataset.h"
#include "result/rows.h"

typedef struct adji_join {
  adj_ctx *ctx;
  const adj_dataset *left, *right; /* the same for a self-join */
  bool self_join;
  uint32_t k;   /* kNN: neighbours a row; 0 in a range join               */
  double limit; /* no pair with a larger sum belongs; kNN: often infinite */
  adji_row_style style;
} adji_join;

/* The most neighbours a row of a kNN join can have: fewer than k where the right set is small. */
static inline uint32_t adji_join_reach(const adji_join *join) {
  uint64_t others = join->right->count - (join->style.drop_self && join->right->count ? 1 : 0);
  return others < join->k ? (uint32_t)others : join->k;
}

#endif
