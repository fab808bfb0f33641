/* SPDX-License-Identifier: MIT
 *
 * The points of a kd-tree within a radius of one query. Nothing in the tree depends on the radius, so one tree serves
 * every radius, and a different one for each query. cpu/tree_range.c joins sets this way.
 */
#ifndef ADJI_WITHIN_H
#define ADJI_WITHIN_H

#include "cpu/tree_search.h"
#include "queue/stats.h"

/* The state of one lane. Aligned so that no two lanes share a cache line. */
typedef struct adji_within {
  _Alignas(64) const adji_join *join;
  adji_tree_search search;
  void *point;             /* the query: dim coordinates, written by the caller */
  const adji_leaves *near; /* nodes of level 1 in which the next query is searched; NULL: all */
  adji_tree_stack stack;
  adji_row_room room; /* its first slot holds the points found, from entry `kept` on */
  uint64_t kept, capacity, entries;
} adji_within;

/* After a failure it must still be cleared. */
adj_status adji_within_init(adji_within *w, const adji_join *join, const adji_tree *tree);
void adji_within_clear(adji_within *w);

/* Prepares for another join with the same tree. */
void adji_within_set_join(adji_within *w, const adji_join *join);

/* Counts the points whose sum with the query, row `row` of the left set, is at most limit, without those that the style
 * drops. */
adj_status adji_within_count(adji_within *w, uint32_t row, double limit, adji_tally *tally, uint32_t *count);

/* Lists them in the first slot of the room, with their sums, in the order of the style. To keep them there when the
 * next query is searched, the caller adds their number to w->kept. They may move then. */
adj_status adji_within_list(adji_within *w, uint32_t row, double limit, adji_tally *tally, uint32_t *count);

#endif
