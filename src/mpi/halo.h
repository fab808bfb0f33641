/* SPDX-License-Identifier: MIT
 *
 * Regions of space, one for each rank: moves points to their regions, and sends kNN queries to other regions.
 */
#ifndef ADJI_MPI_HALO_H
#define ADJI_MPI_HALO_H

#include "mpi/rows.h"

/* Estimates how many other regions a kNN query visits on average, or how many halos a right point is in. The same on
 * every rank. Agreed on. */
adj_status adji_halo_estimate(adj_mpi_plan *plan, double *visits);
/* Moves points to their regions, if they are not there yet. Agreed on. */
adj_status adji_halo_place(adj_mpi_plan *plan);
/* Makes plan->queries of the points of this region, if the run needs them and they are not there yet. */
adj_status adji_halo_queries(adj_mpi_plan *plan);
/* Frees all that the first run of a plan made, for any distribution. */
void adji_halo_forget(adj_mpi_plan *plan);
/* kNN: sends queries to other regions and merges what these find into `lists`, the lists of the queries. Agreed on. */
adj_status adji_halo_visit(adj_mpi_plan *plan, adj_status status, const adji_points *queries, adji_rows *lists);

#endif
