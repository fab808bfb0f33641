/* SPDX-License-Identifier: MIT
 *
 * Self-joins in a ring in which each pair of blocks is joined once, for both of its ranks.
 */
#ifndef ADJI_MPI_MIRROR_H
#define ADJI_MPI_MIRROR_H

#include "mpi/parts.h"

/* The rows of points of another rank, with local ids of points here from `shift` on, turned round: rows of the points
 * here, with local ids of those points. */
adj_status adji_mirror_turn(adj_mpi_plan *plan, const adji_mpi_part *from, uint64_t shift, adji_mpi_part *out);

/* Rows that were found for points of other ranks go to these. found: by rank, without a result where there is none; it
 * is cleared. shifts: as above, by rank. parts: by rank; what comes from a rank whose place is taken goes into the last
 * one. Agreed on. */
adj_status adji_mirror_exchange(adj_mpi_plan *plan, adj_status status, adji_mpi_part *found, const uint64_t *shifts,
                                adji_mpi_part *parts);

#endif
