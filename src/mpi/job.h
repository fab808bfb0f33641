/* SPDX-License-Identifier: MIT
 *
 * The plan of a join over many ranks, and the parts of a run. The flow of every distribution is the same:
 *
 *   points   the queries that this rank joins, its home points, and blocks of right points besides (halo.c, ring.c)
 *   parts    the join of the queries with each block, by libadjoin, with local ids (parts.c)
 *   rows     the parts of each query put together, with global ids (rows.c)
 *   owners   rows go to the rank that owns the query (owners.c); queries of ring and replicated are there already
 *
 *                 queries                     right points
 *   replicated    own left points             all others, at once
 *   ring, range   own left points             blocks of other ranks, one after the other; self-joins: one of two ranks
 *   ring, kNN     those of all ranks in turn  own ones
 *   halo, range   those of the home region    those within a radius of the region
 *   halo, kNN     those of the home region    own region first; then queries visit other regions
 *
 * Points that ascend by global id have local ids in the same order. So a local join orders rows, and breaks ties, as
 * the join of all points does.
 */
#ifndef ADJI_MPI_JOB_H
#define ADJI_MPI_JOB_H

#include "adjoin_mpi.h"
#include "data/dataset.h"
#include "mpi/group.h"

/* Points with global ids, which ascend. */
typedef struct adji_points {
  const adj_dataset *set;
  adj_dataset *owned; /* set, if it is to be destroyed */
  uint32_t *narrow;   /* ids, if all of the set are below UINT32_MAX */
  int64_t *ids;       /* others; both NULL: first + i */
  int64_t first;
  double *radii; /* of left points; NULL: the radius of the spec */
} adji_points;

static inline int64_t adji_point_id(const adji_points *points, uint64_t i) {
  if (points->narrow) return points->narrow[i];
  return points->ids ? points->ids[i] : points->first + (int64_t)i;
}

struct adj_mpi_plan {
  adji_group group;
  adj_ctx *ctx;
  adj_join_spec spec; /* its arrays and strings are copies */
  double *box, *radii;
  char *algorithm, *tuning, *system;
  const adj_dataset *left, *right; /* the caller's */
  bool self_join;
  uint32_t dim;
  adj_type type;
  uint64_t *left_starts, *right_starts; /* global ids at which each rank begins, ranks + 1 */
  double largest_radius;                /* of all ranks */
  adj_mpi_options options;
  adj_mpi_distribution distribution;
  char reason[512];
  char joined[2048]; /* how this rank joined last */
  /* halo: made by the first run. */
  adj_split *split;
  bool placed;
  uint32_t *home;      /* of this rank's left points */
  adji_points queries; /* left points of this region; ring, replicated: this rank's own */
  adji_points region;  /* right points of this region, or in a ring this rank's; of a self-join the queries are */
  adji_points others;  /* range: right points around it; replicated: those of other ranks */
  uint32_t *border;    /* queries that may have neighbours among the others; NULL: all */
  uint64_t border_count;
  adj_index *index; /* of the region, if it is asked several times */
  adj_mpi_stats stats;
};

#endif
