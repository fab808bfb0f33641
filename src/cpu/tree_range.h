/* SPDX-License-Identifier: MIT
 *
 * The range join on cores through a kd-tree, one query after the other: for few queries among many points, and for
 * queries with different radii. The tree of the right set does not depend on the radius.
 */
#ifndef ADJI_TREE_RANGE_H
#define ADJI_TREE_RANGE_H

#include "queue/engine.h"

typedef struct adji_tree_range_options {
  uint64_t batch; /* queries per batch; 0: the default */
  uint32_t lanes; /* threads that will take part; 0: all                              */
  bool single;    /* the result may be collected without counting first               */
} adji_tree_range_options;

/* right: the adji_tree of the right set. */
adj_status adji_tree_range_create(const adji_join *join, const adji_lent *right, const adji_tree_range_options *options,
                                  adji_engine *out);

/* Counts the neighbours and candidates of some queries, scaled up to all queries, and measures the nanoseconds per
 * query. */
typedef struct adji_tree_range_sample {
  double pairs, candidates, query_ns;
} adji_tree_range_sample;
adj_status adji_tree_range_try(const adji_engine *engine, uint64_t queries, adji_tree_range_sample *out);

#endif
