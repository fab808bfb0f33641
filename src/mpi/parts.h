/* SPDX-License-Identifier: MIT
 *
 * The joins of this rank, by libadjoin.
 */
#ifndef ADJI_MPI_PARTS_H
#define ADJI_MPI_PARTS_H

#include "mpi/job.h"

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
  bool labels;                     /* the result may have global ids already: it is adopted */
  adji_mpi_part *out;
} adji_ask;
/* Not agreed on. */
adj_status adji_mpi_part_join(adji_ask *ask);
void adji_mpi_part_clear(adj_mpi_plan *plan, adji_mpi_part *part);
/* Whether sums are needed to put rows together. */
bool adji_needs_sums(const adj_mpi_plan *plan);

#endif
