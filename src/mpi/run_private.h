/* SPDX-License-Identifier: MIT
 *
 * The parts of a round, between run.c and run_ring.c.
 */
#ifndef ADJI_MPI_RUN_PRIVATE_H
#define ADJI_MPI_RUN_PRIVATE_H

#include "mpi/run.h"

/* The parts of a round: of the points that are here, and of others. */
typedef struct adji_parts {
  adj_mpi_plan *plan;
  const adji_points *queries;
  adji_mode mode;
  adji_mpi_part *items; /* by the rank that the right points are from, and one more: see mirror.h; halo: two */
  uint32_t count;
  adji_points border; /* queries of a part that has not all of them */
  uint32_t *border_rows;
  adji_rows *lists; /* kNN: parts are merged at once */
  double *radii;    /* kNN, ring: how far each guest must look; NULL: as far as the spec says */
  adji_round round;
  bool adopts; /* results of parts are taken as they are */
  /* A ring that joins each pair of blocks once: rows of other ranks' points, by rank. Their ids are of this rank's
   * points from shifts[rank] on. NULL: none. */
  adji_mpi_part *found;
  uint64_t *shifts;
} adji_parts;

/* Joins left with right, as the plan asks. share: of the run. Not agreed on. */
adj_status adji_run_ask(adji_parts *p, const adji_points *left, const adji_points *right, adji_mpi_part *part,
                        adji_requests *requests, double share);
/* An index of the right points here that is kept for several questions, if no setting asks for another way. */
adj_status adji_run_index(adj_mpi_plan *plan);

/* run_ring.c: all parts of a range join; the lists of a kNN join. Agreed on. */
adj_status adji_run_ring_parts(adji_parts *p);
adj_status adji_run_ring_lists(adji_parts *p);

#endif
