/* SPDX-License-Identifier: MIT
 *
 * Gets the right points of other ranks, all at once or block by block; and sends queries round all ranks.
 */
#ifndef ADJI_MPI_RING_H
#define ADJI_MPI_RING_H

#include "mpi/owners.h"

/* Gets the right points of all other ranks. Agreed on. */
adj_status adji_ring_replicate(adj_mpi_plan *plan);
/* Called for each block of right points, while the next block is under way. rank: where the block is from. */
typedef adj_status adji_block_fn(void *user, const adji_points *block, int rank, adji_requests *requests);
/* Passes blocks round the ring. This rank uses `steps` of them: its own, then those of the ranks above. Agreed on. */
adj_status adji_ring_pass(adj_mpi_plan *plan, int steps, adji_block_fn *use, void *user);

/* Whether one of two ranks can join each pair of blocks of a self-join for both of them. This needs pairs that belong
 * to the rows of both of their points, and rows in the order of ids. */
bool adji_ring_is_mirrored(const adj_mpi_plan *plan);

/* kNN: queries of another rank that are here, with their lists so far. */
typedef struct adji_guests {
  adji_points points;
  adji_rows *lists;
  int rank;                /* where they are from */
  adji_requests *requests; /* pending messages */
} adji_guests;
typedef adj_status adji_guests_fn(void *user, const adji_guests *guests);

/* A tour of queries round the ring. */
typedef struct adji_tour {
  adji_round round;
  int steps;              /* they are on so many ranks: their own, then those below */
  adji_guests_fn *search; /* called for the queries of other ranks; merges what it finds into their lists */
  void *user;
} adji_tour;

/* kNN: sends the queries of a round round the ring, with copies of their lists so far, until these come back. They
 * replace the lists; or, if `back` is not NULL, the lists stay, and those that come back are *back. Agreed on. */
adj_status adji_ring_visit(adj_mpi_plan *plan, const adji_points *queries, const adji_tour *tour, adji_rows *lists,
                           adji_rows *back);

#endif
