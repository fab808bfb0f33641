/* SPDX-License-Identifier: MIT
 *
 * Shared by halo.c, halo_reach.c, halo_visits.c and halo_estimate.c.
 */
#ifndef ADJI_MPI_HALO_PRIVATE_H
#define ADJI_MPI_HALO_PRIVATE_H

#include "mpi/halo.h"

/* Rank 0 receives `wanted` sampled points of a set, or somewhat more, from all ranks. *out stays NULL on the other
 * ranks. starts: the first global id of each rank in that set. Agreed on. */
adj_status adji_halo_sample(adj_mpi_plan *plan, const adj_dataset *set, const uint64_t *starts, uint64_t wanted,
                            adj_dataset **out);

/* Up to `most` points of a set, evenly spaced. They remain those of the set. */
adj_status adji_halo_thin(adj_mpi_plan *plan, const adj_dataset *set, uint64_t most, adj_dataset **out);
/* Estimates how far each query of a kNN join must look. The k-th neighbour in the whole set is about as far away as the
 * i-th in the sample, where i is the same share of the points. If this is no whole number, or fewer than `least`, the
 * distance of a later one is scaled down as for points that fill all dimensions, which is too little for others. */
adj_status adji_halo_radii(adj_mpi_plan *plan, const adj_dataset *queries, const adj_dataset *sample, uint32_t least,
                           double *radii);

/* kNN joins, on rank 0: chooses how far the halo of each region reaches, from samples of the points. right NULL: a
 * self-join. */
adj_status adji_halo_reach(adj_mpi_plan *plan, const adj_dataset *left, const adj_dataset *right, double *reaches);

#endif
