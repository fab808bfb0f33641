/* SPDX-License-Identifier: MIT
 *
 * Which distribution a join gets.
 */
#ifndef ADJI_MPI_CHOOSE_H
#define ADJI_MPI_CHOOSE_H

#include "mpi/job.h"

/* Sets the distribution and its reason, the same on every rank. */
adj_status adji_choose_distribution(adj_mpi_plan *plan);

#endif
