/* SPDX-License-Identifier: MIT
 *
 * The joins of this rank, made by libadjoin.
 */
#ifndef ADJI_MPI_PARTS_H
#define ADJI_MPI_PARTS_H

#include "cpu/bins.h"
#include "mpi/job.h"
#include "plan/run.h"

typedef enum adji_mode { ADJI_COUNT, ADJI_ROWS } adji_mode;

/* What the join of some queries with some right points found: counts, or rows with local ids; with global ids if
 * result->labelled. */
typedef struct adji_mpi_part {
  adj_result *result;       /* ADJI_ROWS */
  uint32_t *degrees;        /* ADJI_COUNT */
  const adji_points *right; /* the points that local ids number; NULL: they are gone, see first */
  const uint32_t *own;      /* the row of query i is own[i], ascending; NULL: it is i */
  uint64_t row_count;       /* of queries */
  void *lasts;              /* kNN: the last sum of each row, in place of all sums; the caller's. NULL: all sums */
  int64_t first;            /* right is NULL: global id of local id 0 */
  bool whole;               /* all pairs belong to the join: rows.c need not leave any out */
  bool mutual;              /* kNN self-join of a block: its joins with other blocks can be mutual (plan/run.h) */
  /* ADJI_ROWS: bins.lanes is set if the rows are there, with global ids, and not in the result. */
  adji_binned binned;
} adji_mpi_part;

/* A local join to make. */
typedef struct adji_part_request {
  adj_mpi_plan *plan;
  adji_mode mode;
  const adji_points *left, *right; /* the same points: a self-join */
  uint32_t k;                      /* kNN: how many neighbours */
  const double *radii;             /* used instead of the radii of the left points; NULL: use those */
  adj_index *index;                /* of the right points, or NULL */
  adji_requests *requests;         /* pending messages, moved during the join; may be NULL */
  double share;                    /* which part of the run this is, for progress */
  bool labels;                     /* the result may have global ids */
  /* kNN: room for the sum of each row's last neighbour; if the join notes these, the result has no sums and
   * out->lasts is set. NULL: the result has sums. */
  void *lasts;
  bool bins; /* the rows may stay in out->binned, which is prepared */
  /* kNN: the join must be a mutual one. If it cannot be, the part gets no result. NULL: any join. */
  adji_way_back *back;
  adji_mpi_part *out;
} adji_part_request;
/* Makes the join. Not agreed on. */
adj_status adji_mpi_part_join(adji_part_request *request);
void adji_mpi_part_clear(adj_mpi_plan *plan, adji_mpi_part *part);
/* The row of a query in a part's result. */
static inline uint64_t adji_part_row(const adji_mpi_part *part, uint64_t query) {
  return part->own ? part->own[query] : query;
}
/* Whether rows need sums to be put together. */
bool adji_needs_sums(const adj_mpi_plan *plan);

#endif
