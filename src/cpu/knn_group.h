/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of a group of queries, the points of one leaf of the left tree. cpu/knn.c runs it for every
 * leaf of a batch.
 */
#ifndef ADJI_KNN_GROUP_H
#define ADJI_KNN_GROUP_H

#include "cpu/tree_search.h"
#include "distance/knn_near.h"
#include "distance/knn_pool.h"
#include "queue/engine.h"
#include "result/kbest.h"

/* A node to visit. */
typedef struct adji_tree_visit {
  double bound; /* lower bound of the sums of its points with the group's queries */
  uint32_t least_id, level;
  uint64_t node;
} adji_tree_visit;

/* A guess, from earlier queries, of the largest sum among the k nearest points of the next query. */
typedef struct adji_guess {
  bool enabled;   /* queries come in the order of the tree */
  double current; /* the current guess; 0: none */
  double mean;    /* mean of recent largest sums; 0: not yet known */
  double scale;   /* the guess is mean * scale */
  int32_t credit; /* grows with successful guesses; below 0: no guesses for a while */
} adji_guess;

/* The points within the guess of each query of a group (cpu/knn_group_pool.c). */
typedef struct adji_knn_pools {
  bool enabled;
  bool active;  /* collected leaves go to the pools */
  bool guessed; /* the limits are guesses; otherwise they are bounds */
  adji_pool pool;
  const adji_pool_kernels *kernels; /* NULL: search.kernels->list_leaves serves instead */
  int32_t picks;                    /* grows with successful picks; below 0: no picks for a while */
} adji_knn_pools;

/* The state of one lane, kept for a whole pass. Aligned so that no two lanes share a cache line. */
typedef struct adji_knn_group {
  _Alignas(64) const adji_join *join;
  const adji_tree *left, *right; /* left NULL: queries are searched one by one */
  const uint32_t *labels;        /* the ids in `right` are labels, one for each right row; NULL: row numbers */
  adji_tree_search search;       /* searches `right` */
  uint32_t k;                    /* the most neighbours a query can have */
  uint32_t max_queries;          /* queries searched together, at most */
  bool ordered;                  /* lists are kept sorted; otherwise they are buffers (best) */
  uint32_t query_count;          /* queries in the group */
  uint32_t rows[ADJI_MAX_LEAF], own[ADJI_MAX_LEAF], places[ADJI_MAX_LEAF]; /* places: of the queries in their leaf */
  void *coords;     /* coordinates of the queries, one after the other */
  void *low, *high; /* the box of the queries */
  void *lists;      /* query_count * list_stride bytes */
  uint64_t list_stride;
  adji_kbest *best;  /* max_queries entries */
  void *list_memory; /* memory of lists or best */
  uint64_t list_bytes, row_room;
  adji_leaves leaves;            /* leaves to visit, or nodes of level 1 */
  uint32_t lowest;               /* their level: 0, or 1 where a kernel searches below nodes */
  adji_knn_near_fn search_below; /* the kernel that does so; NULL: none, or it would not pay */
  adji_nearest_fn find_nearest;  /* for k = 1: a kernel that searches the whole tree; NULL: none */
  uint64_t first_seen, end_seen; /* leaves that were visited before the search */
  /* The largest sum, and at that sum the largest id, that a neighbour of any query can still have. */
  double reach;
  uint32_t reach_id;
  adji_tree_visit stack[ADJI_TREE_LEVELS * ADJI_FAN];
  uint32_t depth;
  adji_guess guess;
  adji_knn_pools pools;
  adji_near_nodes near; /* nodes that hold all points within the guess */
  adji_tree_stack listing;
  uint32_t *ids; /* ids of a row, or of all points of the collected leaves */
  void *sums;
  double last_sum; /* sum of the k-th neighbour of the last query searched alone; 0: none yet */
} adji_knn_group;

/* Whether there is a kernel that searches the whole tree for one query. */
static inline bool adji_searches_tree_at_once(const adji_join *join) {
  return join->style.measure->step == ADJI_STEP_L2 && adji_join_reach(join) <= ADJI_KNN_TREE_MOST_K;
}

/* After a failure it must still be cleared. */
adj_status adji_knn_group_init(adji_knn_group *g, const adji_join *join, const adji_tree *left, const adji_tree *right);
/* Prepares for queries of another join with the same trees: another k, limit or style. Allocates only if k is larger
 * than ever before. */
adj_status adji_knn_group_set_join(adji_knn_group *g, const adji_join *join);
void adji_knn_group_clear(adji_knn_group *g);

/* Fills the rows of a leaf's points, which must be in the window. wanted: bit i stands for the i-th point. window NULL:
 * finds the neighbours and discards them, for estimates. */
void adji_knn_group_fill(adji_knn_group *g, uint64_t leaf, uint64_t wanted, const adji_window *window,
                         adji_tally *tally);

/* Finds the neighbours of one point, whose dim coordinates are in g->coords. Their ids and sums are in g->ids and
 * g->sums, nearest first. row: the number of the point in the left set. chunk: the chunk of leaves near it, or
 * ADJI_NO_CHUNK. Returns the number of neighbours. */
uint32_t adji_knn_group_find(adji_knn_group *g, uint32_t row, uint64_t chunk, adji_tally *tally);

/* The same for query i of an order. Queries must come in that order. */
uint32_t adji_knn_group_next(adji_knn_group *g, const adji_point_order *order, uint64_t i, adji_tally *tally);
adj_status adji_knn_group_enable_guesses(adji_knn_group *g); /* to be called once, before adji_knn_group_next() */

#endif
