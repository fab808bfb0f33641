/* SPDX-License-Identifier: MIT
 *
 * Shared by the builders of points.
 */
#ifndef ADJOIN_CASE_POINTS_H
#define ADJOIN_CASE_POINTS_H

#include "cases.h"

static inline void put(point_set *set, uint64_t row, uint32_t j, double x) {
  if (set->type == ADJ_F64)
    ((double *)set->data)[row * set->dim + j] = x;
  else
    ((float *)set->data)[row * set->dim + j] = (float)x;
}

static inline double get(const point_set *set, uint64_t row, uint32_t j) {
  uint64_t at = row * set->dim + j;
  return set->type == ADJ_F64 ? ((const double *)set->data)[at] : (double)((const float *)set->data)[at];
}

static inline double rounded(adj_type type, double x) {
  return type == ADJ_F64 ? x : (double)(float)x;
}

/* Calls row for every row of both sets. */
typedef void (*row_builder)(join_case *c, const case_entry *entry, point_set *set, uint64_t row);

static inline void each_row(join_case *c, const case_entry *entry, row_builder row) {
  for (uint64_t i = 0; i < c->left.count; i++)
    row(c, entry, &c->left, i);
  for (uint64_t i = 0; i < c->right.count; i++)
    row(c, entry, &c->right, i);
}

#endif
