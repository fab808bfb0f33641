/* SPDX-License-Identifier: MIT
 *
 * What a join is, as every worker sees it, and what an engine offers to the runs.
 */
#ifndef ADJI_JOIN_H
#define ADJI_JOIN_H

#include "data/dataset.h"
#include "queue/scheduler.h"
#include "result/result.h"
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

/* What a pass is for that devices have a part in, as they need to know it: the cores' i-th query has row order[i]. */
typedef struct adji_shared_work {
  const adji_table *table; /* kNN: the rows to fill; nothing else is told */
  const uint32_t *order;
  uint32_t group; /* kNN: so many queries, from each multiple of it on, are what cores do at once */
  /* A range self-join in which each pair is found once, from the point that comes first in the order, for both: the
   * device counts that, and keeps the pairs if they are wanted. The rest is for other passes. */
  bool once, keep;
  /* A range join counts, to degrees by row (or not, where that is NULL), unless there is a window: then it fills. */
  uint32_t *degrees;
  const adji_window *window;
  const adji_batch *batches;   /* of the queue, all of them       */
  const uint64_t *batch_pairs; /* entries of the window in each   */
  uint64_t longest;            /* no row of the window is longer  */
} adji_shared_work;

/* What cores found in a pass of such work: lists of records, one behind the other: row, length, ids, and the sums where
 * they are wanted, of so many words each. Every pair is there once, under either of its rows. */
typedef struct adji_found_list {
  const uint32_t *words;
  uint64_t used, pairs;
} adji_found_list;
typedef struct adji_found {
  const adji_found_list *lists;
  uint64_t count, pairs;
  uint32_t sum_words;
} adji_found;

/* A device that takes part in the passes of an engine on cores, whose queries it knows by their positions. */
typedef struct adji_partner {
  void *state;
  const char *name;
  /* A pass begins; where this fails, the device takes no part in it. The work stays until the end. */
  adj_status (*begin)(void *state, const adji_shared_work *work);
  /* As in adji_device_worker. */
  adj_status (*drain)(void *state, adji_help *help);
  /* A pass that was begun is over; adds what the device did. */
  void (*end)(void *state, adji_device_stats *work);
  void (*destroy)(void *state);
  /* After a pass of work that is done once, and before its end. How many entries of each row the device has found; and
   * if it kept them, these rows, each in the order that is wanted, with sums in the place of distances. They fail when
   * the pass did: then nothing of what the device did is of use. NULL: it cannot do such work. */
  adj_status (*counts)(void *state, adji_run *run, uint32_t *counts);
  adj_status (*rows)(void *state, adji_run *run, const adji_window *to);
  /* Before these, if pairs were kept: the device takes what cores found as well. Then counts and rows are those of the
   * whole result, with distances. ADJ_E_DEVICE_MEMORY: it has no room for that, and goes on without. NULL as those. */
  adj_status (*add)(void *state, adji_run *run, const adji_found *found);
} adji_partner;

/* An engine finds pairs. State is its own; a run is one call at a time. */
typedef struct adji_engine {
  void *state;
  /* degrees (by row, may be NULL) receives the number of neighbours of each left point. */
  adj_status (*count)(void *state, adji_run *run, uint32_t *degrees, uint64_t *total);
  /* May be NULL: after count, where each row of the whole result begins (left count + 1 entries), without a way
   * over degrees. */
  adj_status (*offsets)(void *state, adji_run *run, uint64_t *offsets);
  /* Fills the rows of the window. */
  adj_status (*fill)(void *state, adji_run *run, const adji_window *window);
  /* May be NULL: fills the result's offsets, ids, distances and pairs in one go, without counting
   * first. */
  adj_status (*collect)(void *state, adji_run *run, adj_result *result);
  /* kNN, which has none of the others: fills the rows of the table, all k entries of each. */
  adj_status (*nearest)(void *state, adji_run *run, const adji_table *table);
  void (*destroy)(void *state);
  bool large_windows; /* a fill costs much whatever the window: a stream should have few */
} adji_engine;

#endif
