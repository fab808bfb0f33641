/* SPDX-License-Identifier: MIT
 *
 * EGO-Join: the recursion of Super-EGO over pairs of sequences (Kalashnikov 2013; HEGJoin 3.2). Both sets are in
 * epsilon grid order (index/ego_order.h). A pair of sequences that cannot have neighbours is dropped after a look at
 * the cells of their first and last points. Other pairs are cut in two until the sequences are short, and the points of
 * short sequences are compared one by one.
 *
 * The left sequence need not be contiguous. Any list of positions in ascending order is in epsilon grid order too, so a
 * batch of queries from a work queue is joined in the same way, as in SEGO-New (HEGJoin 4.4).
 */
#ifndef ADJI_EGO_JOIN_H
#define ADJI_EGO_JOIN_H

#include "index/ego_order.h"
#include "queue/join.h"
#include "queue/stats.h"

/* The longest sequence that is not cut: t in the papers. */
enum { ADJI_EGO_LEAF = 32 };

/* Two sequences: places [left_begin, left_end) of the searcher's queries, positions [right_begin, right_end) of the
 * right set. Along each axis before `axis`, each sequence is in one cell, and the two cells are neighbours. */
typedef struct adji_ego_pair {
  uint32_t left_begin, left_end, right_begin, right_end, axis;
} adji_ego_pair;

/* A join of sequences; the same for all lanes. */
typedef struct adji_ego_job {
  const adji_join *join;
  const adji_ego_points *left, *right;
  uint32_t leaf;
  bool sums;                 /* found() needs the sums of the neighbours */
  const adji_window *window; /* only rows that have entries in it; NULL: all rows     */
  /* Receives some of the neighbours of a left row: rows of the right set, and their sums or NULL. Called once for every
   * pair of short sequences in which the row has neighbours. */
  adj_status (*found)(void *user, uint32_t row, const uint32_t *ids, const void *sums, uint32_t count);
  /* Offers a pair of sequences that is about to be joined: true if another lane will do it. NULL: none will. */
  bool (*offer)(void *user, const adji_ego_pair *pair);
} adji_ego_job;

/* The decision by a sum over the reordered dimensions. A point is dropped as soon as its sum is above `most`, and
 * belongs if its sum is at most `least`. In between the canonical sum decides. Both bounds are exact in the type. */
typedef struct adji_ego_bounds {
  double most, least;
} adji_ego_bounds;
adji_ego_bounds adji_ego_bounds_of(adj_type type, adji_step step, uint32_t dim, double limit);

/* The state of a lane. */
typedef struct adji_ego_searcher {
  const adji_ego_job *job;
  void *user;              /* passed to found() and offer() */
  const uint32_t *queries; /* positions in the left set, ascending; NULL: place i is position i    */
  adji_tally tally;        /* pairs, and comparisons of points                                     */
  double area;             /* pairs of points that were compared or dropped                        */
  adji_ego_bounds bounds;  /* bounds for the join's limit */
  uint32_t *ids;           /* neighbours of one left point in a leaf                               */
  void *sums;
  /* For canonical sums: a query and a candidate with their coordinates in input order. */
  void *point, *other;
  bool has_point;
} adji_ego_searcher;

adj_status adji_ego_searcher_init(adji_ego_searcher *searcher, const adji_ego_job *job, void *user);
void adji_ego_searcher_clear(adji_ego_searcher *searcher);

/* Joins two sequences. */
adj_status adji_ego_join(adji_ego_searcher *searcher, adji_ego_pair pair);
/* Joins queries, given by ascending positions in the left set, with the whole right set. */
adj_status adji_ego_join_queries(adji_ego_searcher *searcher, const uint32_t *queries, uint32_t count);

#endif
