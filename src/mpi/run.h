/* SPDX-License-Identifier: MIT
 *
 * What a run asks of the distributions: counts of this rank's rows, or the rows of a round.
 */
#ifndef ADJI_MPI_RUN_H
#define ADJI_MPI_RUN_H

#include "mpi/owners.h"

/* Points to where they are joined. Agreed on. */
adj_status adji_run_place(adj_mpi_plan *plan);
/* The rows of this rank's left points in a round, as they are reported. Agreed on. */
adj_status adji_run_rows(adj_mpi_plan *plan, adji_round round, adji_rows *out);
/* offsets only: the lengths of all rows of this rank. Agreed on. */
adj_status adji_run_lengths(adj_mpi_plan *plan, adji_rows *out);

#endif
