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
 *   ring          own left points             blocks of other ranks, one after the other
 *   halo, range   those of the home region    those within a radius of the region
 *   halo, kNN     those of the home region    own region first; then queries visit other regions
 *
 * Points that ascend by global id have local ids in the same order. So a local join orders rows, and breaks ties, as
 * the join of all points does.
 */
#ifndef ADJI_MPI_PLAN_H
#define ADJI_MPI_PLAN_H

#include "adjoin_mpi.h"
#include "data/dataset.h"
#include "mpi/group.h"

/* Points with global ids, which ascend. */
typedef struct adji_points {
  const adj_dataset *set;
  adj_dataset *owned; /* set, if it is to be destroyed */
  int64_t *ids;       /* NULL: first + i */
  int64_t first;
  double *radii; /* of left points; NULL: the radius of the spec */
} adji_points;

static inline int64_t adji_point_id(const adji_points *points, uint64_t i) {
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
  adji_points region;  /* right points of this region; of a self-join the queries */
  adji_points others;  /* range: right points around it; replicated: those of other ranks */
  uint32_t *border;    /* queries that may have neighbours among the others; NULL: all */
  uint64_t border_count;
  adj_index *index; /* of the region, for kNN */
  adj_mpi_stats stats;
};

/* ---- points.c ------------------------------------------------------------------------------------------------------
 */

/* Points to send: lists of rows, one a rank, as adj_split_halo makes them. */
typedef struct adji_parcel {
  const adj_dataset *set;
  int64_t first;          /* global id of row 0 */
  const double *radii;    /* go with the points; NULL: none do */
  const uint64_t *starts; /* ranks + 1 */
  const uint32_t *rows;
  uint64_t *received; /* how many points came from each rank; NULL: not asked for */
} adji_parcel;
/* Sends points and receives those of others, in ascending order of id. Agreed on. */
adj_status adji_points_exchange(adj_mpi_plan *plan, adj_status status, const adji_parcel *parcel, adji_points *out);
/* A dataset of packed points; the block is taken over, also on failure. */
adj_status adji_points_adopt(adj_mpi_plan *plan, char *block, uint64_t count, adj_dataset **out);
/* Rows of a set, packed. */
void adji_points_copy(const adj_dataset *set, uint64_t row, char *to);
adj_status adji_points_pick(adj_mpi_plan *plan, const adji_points *from, const uint32_t *rows, uint64_t first,
                            uint64_t count, adji_points *out);
void adji_points_clear(adj_mpi_plan *plan, adji_points *points);

/* ---- parts.c --------------------------------------------------------------------------------------------------------
 */

typedef enum adji_mode { ADJI_COUNT, ADJI_ROWS } adji_mode;

/* The join of some queries with some right points: counts, or rows with local ids. */
typedef struct adji_mpi_part {
  adj_result *result;
  uint32_t *degrees;        /* ADJI_COUNT */
  const adji_points *right; /* local ids are of these */
  const uint32_t *rows;     /* the part's row i is of query rows[i], ascending; NULL: of query i */
  uint64_t row_count;
  int64_t first; /* without right, which is gone: local id 0 */
  bool whole;    /* every pair of it belongs: rows.c leaves none out */
} adji_mpi_part;

typedef struct adji_ask {
  adj_mpi_plan *plan;
  adji_mode mode;
  const adji_points *left, *right; /* the same: a self-join */
  uint32_t k;                      /* kNN: neighbours asked for */
  const double *radii;             /* of the left points, in place of theirs; NULL: theirs */
  adj_index *index;                /* of the right points; NULL: none */
  adji_requests *requests;         /* on their way meanwhile, may be NULL */
  double share;                    /* of the run */
  adji_mpi_part *out;
} adji_ask;
/* Not agreed on. */
adj_status adji_mpi_part_join(adji_ask *ask);
void adji_mpi_part_clear(adj_mpi_plan *plan, adji_mpi_part *part);
/* Whether sums are needed to put rows together. */
bool adji_needs_sums(const adj_mpi_plan *plan);

/* ---- rows.c
 * ----------------------------------------------------------------------------------------------------------- */

/* Rows, with global ids. Sums or distances: NULL without. */
typedef struct adji_rows {
  uint64_t count;
  uint64_t *offsets; /* count + 1 */
  int64_t *ids;
  uint32_t *narrow; /* in place of ids, of rows that go to their owners: if all right points have such ids */
  char *values;
  adj_result *from; /* NULL, or what these are in: a result of libadjoin whose ids were made global in place */
  bool filled;      /* kNN: a list has been merged into, or all are padding; before that nothing is written */
} adji_rows;
void adji_rows_clear(adj_mpi_plan *plan, adji_rows *rows);

/* Puts the parts of range joins together: of queries, in their order. Parts are cleared as they are used. */
adj_status adji_rows_join(adj_mpi_plan *plan, const adji_points *queries, adji_mpi_part *parts, uint32_t count,
                          adji_rows *out);
/* kNN: rows of k entries, with sums. A part is merged into them. */
adj_status adji_rows_open_lists(adj_mpi_plan *plan, uint64_t count, adji_rows *out);
/* The rows of a part that has all queries and leaves none out: its result is taken over, and ids are made global in
 * their own place. False: the part is another one, or ids are too large; nothing has changed. */
bool adji_rows_adopt(const adj_mpi_plan *plan, adji_mpi_part *part, adji_rows *out);
/* Entries from `middle` on, which ascend, go to their places among those before: both are one row. */
void adji_rows_merge_runs(const adj_mpi_plan *plan, const adji_rows *rows, uint64_t first, uint64_t middle,
                          uint64_t end);
/* Lists that no part has been merged into become empty ones. */
void adji_rows_pad(const adj_mpi_plan *plan, adji_rows *lists);
adj_status adji_rows_merge(adj_mpi_plan *plan, const adji_points *queries, const adji_mpi_part *part, adji_rows *to);
/* From sums to what is reported, where sums were needed. */
adj_status adji_rows_report(adj_mpi_plan *plan, adji_rows *rows);
uint64_t adji_value_size(const adj_mpi_plan *plan);    /* of a sum or distance while rows are made; 0: none */
uint64_t adji_reported_size(const adj_mpi_plan *plan); /* of what is reported; 0: ids only */

/* ---- owners.c
 * ---------------------------------------------------------------------------------------------------------- */

/* A round: of each rank the rows number / of of its left points. */
typedef struct adji_round {
  uint64_t number, of;
} adji_round;
void adji_round_rows(const adj_mpi_plan *plan, int rank, adji_round round, uint64_t *begin, uint64_t *end);

/* Rows of queries of this region to their owners; *out: those of this rank's points in the round. extra (may be NULL):
 * more entries of the same rows; the owner merges the two. Rows without ids: only their lengths. Agreed on. `in` and
 * `extra` are cleared. */
adj_status adji_owners_send(adj_mpi_plan *plan, adj_status status, const adji_points *queries, adji_rows *in,
                            adji_rows *extra, adji_round round, adji_rows *out);

/* ---- halo.c, ring.c: the distributions ------------------------------------------------------------------------------
 */

/* Points to their regions, if they are not there yet. Agreed on. */
adj_status adji_halo_place(adj_mpi_plan *plan);
void adji_halo_forget(adj_mpi_plan *plan);
/* kNN: queries that visit other regions. Agreed on. `lists` are of the queries. */
adj_status adji_halo_visit(adj_mpi_plan *plan, adj_status status, const adji_points *queries, adji_rows *lists);
/* All right points of other ranks to this one. Agreed on. */
adj_status adji_ring_replicate(adj_mpi_plan *plan);
/* Right points of other ranks, block by block. use: called for each with its points, while the next is on its way. */
typedef adj_status adji_block_fn(void *user, const adji_points *block, int rank, adji_requests *requests);
adj_status adji_ring_pass(adj_mpi_plan *plan, adji_block_fn *use, void *user);

/* ---- choose.c
 * ------------------------------------------------------------------------------------------------------------ */

/* Sets the distribution and its reason, the same on every rank. */
adj_status adji_choose_distribution(adj_mpi_plan *plan);

#endif
