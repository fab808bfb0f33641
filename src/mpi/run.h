/* SPDX-License-Identifier: MIT
 *
 * The steps of a run, for every distribution: lengths of this rank's rows, or the rows of a round.
 */
#ifndef ADJI_MPI_RUN_H
#define ADJI_MPI_RUN_H

#include "mpi/owners.h"

/* Moves points to where they are joined. Agreed on. */
adj_status adji_run_place(adj_mpi_plan *plan);
/* Finds the rows of this rank's left points in a round, as they are reported. Agreed on. */
adj_status adji_run_rows(adj_mpi_plan *plan, adji_round round, adji_rows *out);
/* Finds the lengths of all rows of this rank; sets only the offsets. Agreed on. */
adj_status adji_run_lengths(adj_mpi_plan *plan, adji_rows *out);

#endif
