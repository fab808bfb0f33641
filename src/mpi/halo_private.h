/* SPDX-License-Identifier: MIT
 *
 * Shared by halo.c, halo_visits.c and halo_estimate.c.
 */
#ifndef ADJI_MPI_HALO_PRIVATE_H
#define ADJI_MPI_HALO_PRIVATE_H

#include "mpi/halo.h"

/* Rank 0 receives `wanted` sampled points of a set, or somewhat more, from all ranks. *out stays NULL on the other
 * ranks. starts: the first global id of each rank in that set. Agreed on. */
adj_status adji_halo_sample(adj_mpi_plan *plan, const adj_dataset *set, const uint64_t *starts, uint64_t wanted,
                            adj_dataset **out);

#endif
