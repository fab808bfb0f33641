/* SPDX-License-Identifier: MIT
 *
 * The walk of a core over a batch: groups of queries of one cell, each with its candidates. The range engine calls it
 * for counting, filling and estimating.
 */
#ifndef ADJI_WALK_H
#define ADJI_WALK_H

#include "cpu/range_index.h"
#include "index/neighbours.h"
#include "queue/queue.h"
#include "queue/stats.h"

enum { ADJI_GROUP = 64 };

/* The state of one lane, kept for a whole pass. */
typedef struct adji_walker {
  const adji_join *join;
  const adji_range_index *index;
  bool forward; /* each unordered pair once: only candidates after the query */
  adji_neighbours neighbours;
  adji_split split;
  uint64_t split_room;
  void *box;                /* of a group of queries */
  adji_prefilter prefilter; /* used if the index has codes */
  uint32_t queries[ADJI_GROUP];
} adji_walker;

/* sums: every candidate that belongs will be listed with its sum, so none may be accepted without comparing. */
adj_status adji_walker_init(adji_walker *w, const adji_join *join, const adji_range_index *index, bool forward,
                            bool sums);
void adji_walker_clear(adji_walker *w);

/* One group. task holds the queries and the ranges to compare; the candidates in `inside` belong to every query
 * without comparing. If `forward`, inside ranges lie after all queries of the group. The walk itself adds to
 * tally->candidates. */
typedef struct adji_group {
  adji_task task;
  const adji_range *inside;
  uint32_t inside_count;
  uint64_t inside_total; /* candidates in them */
  uint64_t near_total;   /* candidates in task.ranges */
} adji_group;

/* Groups with more candidates than this check for adj_cancel between their queries. What they found is then
 * incomplete, and the walk fails with ADJ_CANCELLED after the visit. */
enum { ADJI_LONG_GROUP = 8192 };
static inline bool adji_group_is_long(const adji_group *group) {
  return group->near_total > ADJI_LONG_GROUP;
}
static inline bool adji_group_cancelled(const adji_walker *w, const adji_group *group) {
  return adji_group_is_long(group) && adji_cancelled(w->join->ctx);
}

typedef adj_status (*adji_visit_fn)(void *user, const adji_group *group, adji_tally *tally);

/* Visits the queries of a batch: all of them, or, with a window, those whose row is in it and not empty. */
typedef struct adji_walk {
  const adji_window *window; /* NULL: no window */
  adji_visit_fn visit;
  void *user;
} adji_walk;

adj_status adji_walk_batch(adji_walker *w, const adji_batch *batch, const adji_walk *walk, adji_tally *tally);

/* Lists the neighbours of queries [first, first + many) of the group, many <= ADJI_LIST_MAX, into room, which must be
 * large enough. found receives how many each has. */
void adji_list_queries(const adji_walker *w, const adji_row_style *style, const adji_group *group, uint32_t first,
                       uint32_t many, adji_row_room *room, uint32_t *found);

/* Adds the number of neighbours of each query of the group to counts. */
void adji_count_queries(const adji_walker *w, const adji_group *group, uint32_t *counts);

#endif
