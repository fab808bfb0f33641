/* SPDX-License-Identifier: MIT
 *
 * The parts of a round, shared by run.c and run_ring.c.
 */
#ifndef ADJI_MPI_RUN_PRIVATE_H
#define ADJI_MPI_RUN_PRIVATE_H

#include "mpi/run.h"

/* The parts of a round: joins with the points that are here, and with those of other ranks. */
typedef struct adji_parts {
  adj_mpi_plan *plan;
  const adji_points *queries;
  adji_mode mode;
  adji_mpi_part *items; /* ring: one for each rank with right points, and one more, see mirror.h; otherwise two */
  uint32_t count;       /* of the items in use */
  adji_rows *lists;     /* kNN: each part is merged into these as soon as it is found */
  double *radii;        /* kNN, ring: how far each left point must look; NULL: as far as the spec says */
  adji_way_back *back;  /* kNN, ring: the join must be a mutual one; NULL: any join */
  void *lasts;          /* kNN, halo: room for the last sums of lists, if no others are needed; or NULL */
  adji_round round;
  const adji_row_bins *bins; /* the rows of the parts go to such bins; NULL: to results */
  /* A ring that joins each pair of blocks once: rows of other ranks' points, one part for each rank. Their ids count
   * this rank's points from number shifts[rank] on. Otherwise NULL. */
  adji_mpi_part *found;
  uint64_t *shifts;
} adji_parts;

/* Joins left with right as the plan asks. share: which part of the run this is. Not agreed on. */
adj_status adji_run_part(adji_parts *p, const adji_points *left, const adji_points *right, adji_mpi_part *part,
                         adji_requests *requests, double share);
/* Makes an index of the right points here that several joins use, unless a setting of the spec rules it out. */
adj_status adji_run_index(adj_mpi_plan *plan);

/* In run_ring.c. Find all parts of a range join, or the lists of a kNN join, in a ring. Agreed on. */
adj_status adji_run_ring_parts(adji_parts *p);
adj_status adji_run_ring_lists(adji_parts *p);

/* In run_mutual.c. Whether a kNN self-join in a ring joins each pair of blocks once, for the lists of both. mutual: in:
 * whether joins of this rank's points with others can be mutual. All ranks get the same answer. */
adj_status adji_mutual_agree(adji_parts *p, bool *mutual);
/* Such a join, after that of each block with itself. Agreed on. */
adj_status adji_run_mutual(adji_parts *p);

#endif
