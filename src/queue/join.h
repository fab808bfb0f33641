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
  uint32_t k;   /* kNN: neighbours per row; 0 in a range join */
  double limit; /* no pair with a larger sum belongs; kNN: often infinite */
  /* One limit per left row, where they differ; `limit` is then the largest of them. NULL: all rows have the same
   * limit. */
  const double *limits;
  adji_row_style style;
} adji_join;

static inline double adji_join_limit(const adji_join *join, uint64_t row) {
  return join->limits ? join->limits[row] : join->limit;
}

/* A read-only structure of the right set, such as a tree, that several joins may use at the same time. The worker that
 * borrows it gives it back when the worker is destroyed, and also when the worker cannot be created. */
typedef struct adji_lent {
  const void *what;
  void *owner;
  void (*give_back)(void *owner, const void *what); /* NULL: it need not be given back */
} adji_lent;

static inline void adji_give_back(const adji_lent *lent) {
  if (lent->give_back) lent->give_back(lent->owner, lent->what);
}

/* The most neighbours a row of a kNN join can have: fewer than k where the right set is small. */
static inline uint32_t adji_join_reach(const adji_join *join) {
  uint64_t others = join->right->count - (join->style.drop_self && join->right->count ? 1 : 0);
  return others < join->k ? (uint32_t)others : join->k;
}

#endif
