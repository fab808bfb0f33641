/* SPDX-License-Identifier: MIT
 *
 * The plan of a join over many ranks, and the parts of a run. The flow of every distribution is the same:
 *
 *   points   this rank gets the queries that it joins, and blocks of right points (halo.c, ring.c)
 *   parts    libadjoin joins the queries with each block; ids are local, or labels (parts.c)
 *   rows     the parts of each query are put together, with global ids (rows.c)
 *   owners   each row goes to the rank that owns its query (owners.c); in ring and replicated it is there already
 *
 *                 queries                        right points
 *   replicated    own left points                those of all ranks, at once
 *   ring, range   own left points                block by block from all ranks; in most self-joins only one of two
 *                                                ranks joins each pair of blocks
 *   ring, kNN     left points of all ranks       own right points; the queries travel round the ranks, or half round
 *                                                in self-joins that find the neighbours of both points at once
 *   halo, range   left points of the own region  those of the region and within a radius of it
 *   halo, kNN     left points of the own region  those of the region and near it; then some queries visit other regions
 *
 * Points are stored in ascending order of global id, so local ids have the same order. A local join therefore orders
 * rows, and breaks ties, exactly as the join of all points does.
 */
#ifndef ADJI_MPI_JOB_H
#define ADJI_MPI_JOB_H

#include "adjoin_mpi.h"
#include "data/dataset.h"
#include "mpi/group.h"

/* Points with ascending global ids. The id of point i is narrow[i], ids[i] or first + i. */
typedef struct adji_points {
  const adj_dataset *set;
  adj_dataset *owned; /* the same as set if it must be destroyed; otherwise NULL */
  uint32_t *narrow;   /* ids of 32 bits, if all ids of the whole set are below UINT32_MAX; or NULL */
  int64_t *ids;       /* ids of 64 bits, or NULL */
  int64_t first;      /* id of point 0, if narrow and ids are NULL */
  double *radii;      /* of left points; NULL: the radius of the spec */
} adji_points;

static inline int64_t adji_point_id(const adji_points *points, uint64_t i) {
  if (points->narrow) return points->narrow[i];
  return points->ids ? points->ids[i] : points->first + (int64_t)i;
}

struct adj_mpi_plan {
  adji_group group;
  adj_ctx *ctx;
  adj_join_spec spec; /* its arrays and strings are the copies below */
  double *box, *radii;
  char *algorithm, *tuning, *system;
  const adj_dataset *left, *right; /* the caller's */
  bool self_join;
  bool fits_32; /* the ids of all right points fit 32 bits; messages then have such ids */
  bool narrow;  /* so has the result */
  uint32_t dim;
  adj_type type;
  uint64_t *left_starts, *right_starts; /* first global id of each rank, and the end: ranks + 1 values */
  double largest_radius;                /* of all ranks */
  adj_mpi_options options;
  adj_mpi_distribution distribution;
  char reason[512];
  char joined[2048];    /* explains the join of this rank with the most queries in the last run */
  uint64_t joined_rows; /* these queries */
  /* Made by the first run. split and home: halo only. */
  adj_split *split;
  bool placed;         /* the points are where they are joined */
  uint32_t *home;      /* region of each of this rank's left points */
  adji_points queries; /* halo: left points of this region; ring, replicated: this rank's own */
  /* Right points; self-joins in rings use queries instead.
   * halo: those of this region and the points around it; ring: this rank's own. */
  adji_points region;
  adji_points others; /* replicated: right points of other ranks */
  /* Halo, self-joins: which points of `region` have their home there, ascending. They are the queries;
   * adji_halo_queries makes `queries` of them where that is needed. NULL: other joins, in which `queries` is always
   * there and, in self-joins, takes the place of `region`. */
  uint32_t *own;
  uint64_t own_count;
  double *reaches;  /* halo, kNN joins: how far the halo of each region reaches; 0: it has none */
  adj_index *index; /* of the right points here, if they are searched several times; or NULL */
  uint64_t *rounds; /* adj_mpi_stream in several rounds: of each rank the first row of each round, and the end of all */
  adj_mpi_stats stats;
};

/* The queries of a run: all points, or those at `rows`, ascending. */
typedef struct adji_queries {
  const adji_points *points;
  const uint32_t *rows;
  uint64_t count;
} adji_queries;

/* points: plan->queries, which need not be there, or some of them. */
static inline adji_queries adji_queries_of(const adj_mpi_plan *plan, const adji_points *points) {
  if (plan->own && points == &plan->queries) return (adji_queries){&plan->region, plan->own, plan->own_count};
  return (adji_queries){points, NULL, points->set->count};
}

static inline uint64_t adji_query_row(const adji_queries *queries, uint64_t i) {
  return queries->rows ? queries->rows[i] : i;
}

static inline uint64_t adji_query_id(const adji_queries *queries, uint64_t i) {
  return (uint64_t)adji_point_id(queries->points, adji_query_row(queries, i));
}

/* The right points that are searched here first, all of them in halo joins. */
static inline const adji_points *adji_points_here(const adj_mpi_plan *plan) {
  return plan->self_join && !plan->own ? &plan->queries : &plan->region;
}

#endif
