/* SPDX-License-Identifier: MIT
 *
 * Shared by halo.c and halo_visits.c.
 */
#ifndef ADJI_MPI_HALO_PRIVATE_H
#define ADJI_MPI_HALO_PRIVATE_H

#include "mpi/halo.h"

/* The lists of rows that go to each rank's region. A rank without a region gets an empty list. */
adj_status adji_halo_lists(adj_mpi_plan *plan, const adj_dataset *set, const uint32_t *home, const double *radii,
                           uint64_t *starts, uint32_t **rows);

#endif
