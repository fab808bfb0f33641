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

/* kNN: sends the queries of a round round all other ranks, with their lists so far, until they come back. use: called
 * for the queries of each other rank; merges what it finds into their lists. Agreed on. */
typedef adj_status adji_guests_fn(void *user, const adji_points *guests, adji_rows *lists, adji_requests *requests);
adj_status adji_ring_visit(adj_mpi_plan *plan, const adji_points *queries, adji_round round, adji_rows *lists,
                           adji_guests_fn *use, void *user);

#endif
