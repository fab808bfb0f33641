/* SPDX-License-Identifier: MIT
 *
 * Regions of space, one a rank: points to their homes, and kNN queries that visit other regions.
 */
#ifndef ADJI_MPI_HALO_H
#define ADJI_MPI_HALO_H

#include "mpi/rows.h"

/* Points to their regions, if they are not there yet. Agreed on. */
adj_status adji_halo_place(adj_mpi_plan *plan);
void adji_halo_forget(adj_mpi_plan *plan);
/* kNN: queries that visit other regions. Agreed on. `lists` are of the queries. */
adj_status adji_halo_visit(adj_mpi_plan *plan, adj_status status, const adji_points *queries, adji_rows *lists);

#endif
