/* SPDX-License-Identifier: MIT
 *
 * Right points of other ranks, all at once or block by block; and queries that visit all ranks.
 */
#ifndef ADJI_MPI_RING_H
#define ADJI_MPI_RING_H

#include "mpi/owners.h"

/* All right points of other ranks to this one. Agreed on. */
adj_status adji_ring_replicate(adj_mpi_plan *plan);
/* Right points of other ranks, block by block. use: called for each with its points, while the next is on its way. */
typedef adj_status adji_block_fn(void *user, const adji_points *block, int rank, adji_requests *requests);
/* The first `steps` of them: those of this rank, then of the ranks above. */
adj_status adji_ring_pass(adj_mpi_plan *plan, int steps, adji_block_fn *use, void *user);

/* Whether rows of a self-join can be made so that one of two ranks joins each pair of blocks: a pair that belongs to
 * the row of one point belongs to that of the other, and rows are in the order of ids. */
bool adji_ring_is_mirrored(const adj_mpi_plan *plan);

/* kNN: the queries of a round go round all other ranks with their lists, which are filled, and come back. use: called
 * for the queries of each other rank, which it merges what it finds into. Agreed on. */
typedef adj_status adji_guests_fn(void *user, const adji_points *guests, adji_rows *lists, adji_requests *requests);
adj_status adji_ring_visit(adj_mpi_plan *plan, const adji_points *queries, adji_round round, adji_rows *lists,
                           adji_guests_fn *use, void *user);

#endif
