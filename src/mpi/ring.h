/* SPDX-License-Identifier: MIT
 *
 * Right points of other ranks: all at once, or block by block.
 */
#ifndef ADJI_MPI_RING_H
#define ADJI_MPI_RING_H

#include "mpi/job.h"

/* All right points of other ranks to this one. Agreed on. */
adj_status adji_ring_replicate(adj_mpi_plan *plan);
/* Right points of other ranks, block by block. use: called for each with its points, while the next is on its way. */
typedef adj_status adji_block_fn(void *user, const adji_points *block, int rank, adji_requests *requests);
/* The first `steps` of them: those of this rank, then of the ranks above. */
adj_status adji_ring_pass(adj_mpi_plan *plan, int steps, adji_block_fn *use, void *user);

#endif
