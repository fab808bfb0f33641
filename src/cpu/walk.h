/* SPDX-License-Identifier: MIT
 *
 * The walk of a core over a batch: groups of queries near each other, each with its candidates. The range join walks to
 * count, to fill, to evaluate each pair once, and to estimate.
 */
#ifndef ADJI_WALK_H
#define ADJI_WALK_H

#include "cpu/bins.h"
#include "cpu/panel.h"
#include "cpu/range_index.h"
#include "distance/count_narrow.h"
#include "index/neighbours.h"
#include "queue/queue.h"
#include "queue/stats.h"

enum { ADJI_GROUP = 64 };

typedef struct adji_walker adji_walker;

/* A group of queries. task holds the queries and the ranges to compare. The candidates in `inside` belong to every
 * query without being compared. If `forward`, inside ranges lie after all queries of the group. */
typedef struct adji_group {
  adji_task task;
  const adji_range *inside;
  uint32_t inside_count;
  uint64_t inside_total; /* candidates in them */
  uint64_t near_total;   /* candidates in task.ranges */
} adji_group;

/* The work of lanes in a pass. */
typedef struct adji_walk {
  const adji_join *join;
  const adji_range_index *index;
  const adji_window *window; /* visit the queries whose row is in it, except most empty rows; NULL: all */
  const uint32_t *names;     /* without a window: visit no query whose name, by position, is ADJI_NO_NAME; or NULL */
  bool counts;               /* neighbours are only counted */
  uint64_t row_length; /* without a window: estimated length of the rows, if they will be sorted; 0: they will not */
  bool forward;        /* each unordered pair once: only candidates after the query */
  const uint32_t *right_ids; /* listed in place of the right index's ids, with ADJI_PAD more entries; NULL: those ids */
  bool sums;                 /* neighbours are listed with their sums, so none may be accepted without being compared */
  /* Processes a group. The walk itself adds to tally->candidates. */
  adj_status (*visit)(adji_walker *walker, const adji_group *group, adji_tally *tally);
  void *user;
} adji_walk;

/* The candidates of a group, copied in the order of their ids. The neighbours listed for each query are then in order
 * already: one sort for all queries of a cell instead of one per row. */
typedef struct adji_ordered {
  uint64_t *keys, *spare; /* id << 32 | position */
  uint32_t *ids;
  void *coords;
  adji_view view; /* the candidates in order */
  adji_range all;
} adji_ordered;

/* The number of queries per group. */
typedef struct adji_group_shape {
  uint32_t wanted;                   /* from one cell or, if it has fewer, from several; a power of two */
  uint32_t most;                     /* from one cell */
  uint64_t span;                     /* cells from the first to the last, at most; */
  uint64_t far_span, far_candidates; /* or far_span cells, with at most far_candidates candidates */
} adji_group_shape;

/* The state of one lane, kept for a whole pass. */
struct adji_walker {
  _Alignas(64) adji_walk walk; /* no two walkers share a cache line */
  uint32_t lane;
  adji_view right; /* the right index, with the ids to be listed */
  adji_group_shape shape;
  bool all_wanted; /* every query is visited: testing each would cost more than visiting a few empty rows */
  adji_neighbours neighbours;
  uint64_t last_cell; /* the cell in which the last batch ended */
  adji_split split;
  uint64_t split_room;
  void *box;                /* box of a group of queries */
  adji_boxes limited;       /* if every query has its own limit: the boxes with that limit */
  adji_prefilter prefilter; /* used if the index has codes */
  adji_panel panel;
  adji_row_room room;
  uint8_t *mirrored; /* per candidate of a group: the number of queries it belongs to */
  uint64_t mirrored_room;
  adji_ordered ordered;
  adji_count_fn count;
  adji_count_narrow_fn narrow; /* counts f64 in few dimensions; NULL: there is none */
  uint32_t wide_groups;        /* groups to count without it, since too many pairs were unsure */
  uint32_t queries[ADJI_GROUP];
};

/* Makes a walker for each lane of the context. After a failure *out must still be closed. */
adj_status adji_walkers_open(const adji_walk *walk, adji_walker **out);
void adji_walkers_close(adj_ctx *ctx, adji_walker *walkers); /* may be NULL */

adj_status adji_walk_batch(adji_walker *w, const adji_batch *batch, adji_tally *tally);

/* Groups with more candidates than this check for adj_cancel between their queries. Their results are then incomplete,
 * and the walk fails with ADJ_CANCELLED after the visit. */
enum { ADJI_LONG_GROUP = 8192 };
static inline bool adji_group_is_long(const adji_group *group) {
  return group->near_total > ADJI_LONG_GROUP;
}
static inline bool adji_group_cancelled(const adji_walker *w, const adji_group *group) {
  return adji_group_is_long(group) && adji_cancelled(w->walk.join->ctx);
}

/* The number of candidates in some ranges. */
static inline uint64_t adji_total_of(const adji_range *ranges, uint32_t count) {
  uint64_t total = 0;
  for (uint32_t r = 0; r < count; r++)
    total += ranges[r].end - ranges[r].begin;
  return total;
}

/* The candidates of a group in panels, which stay in a cache while all its queries pass over them. */
typedef struct adji_panels {
  const adji_group *group;
  uint32_t most;   /* candidates of a panel */
  bool several;    /* a panel may have several short ranges; otherwise it is one that can be copied (cpu/panel.h) */
  uint32_t next;   /* the range in which the next panel begins */
  uint64_t done;   /* candidates of that range that are done */
  adji_range part; /* the range of a panel that has only one */
} adji_panels;

adji_panels adji_panels_of(const adji_walker *w, const adji_group *group);
/* Gives the task the ranges of the next panel, or returns false. The ranges are valid until the next call. */
bool adji_panels_next(adji_panels *panels, adji_task *task);

/* Whether the group has one query and no candidate except that point itself, as most groups of sparse points have. */
static inline bool adji_group_is_alone(const adji_walker *w, const adji_group *group) {
  return group->task.query_count == 1 && group->near_total + group->inside_total == 1 && w->walk.index->symmetric;
}

/* Lists the neighbours of queries [first, first + many) of the group, many <= ADJI_LIST_MAX, into w->room, which must
 * be large enough. found receives their numbers. */
void adji_list_queries(adji_walker *w, const adji_row_style *style, const adji_group *group, uint32_t first,
                       uint32_t many, uint32_t *found);

/* Adds the number of neighbours of each query of the task to counts. The group has these queries and all candidates of
 * the task, perhaps more. */
void adji_count_task(adji_walker *w, const adji_group *group, const adji_task *task, uint32_t *counts);

/* Adds the number of neighbours of each query of the group to counts. */
void adji_count_queries(adji_walker *w, const adji_group *group, uint32_t *counts);

/* Whether rows of about this length gain by candidates in order, if enough queries share them. */
bool adji_ordered_suits(const adji_join *join, uint64_t length);
/* Whether a copy of the candidates in order pays: if enough queries share the sort, of few enough candidates. */
bool adji_ordered_pays(const adji_join *join, const adji_group *group);
/* Replaces the candidates of the group by a copy in order. Allocates on the first call. */
adj_status adji_ordered_copy(adji_walker *w, const adji_group *group, adji_group *copy);
void adji_ordered_clear(adji_ordered *ordered, adji_memory *memory);

#endif
