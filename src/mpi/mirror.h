/* SPDX-License-Identifier: MIT
 *
 * Self-joins in a ring that join each pair of blocks once, for both of its ranks.
 */
#ifndef ADJI_MPI_MIRROR_H
#define ADJI_MPI_MIRROR_H

#include "mpi/parts.h"

/* Transposes rows. from: rows of another rank's points, whose local ids count this rank's points from number `shift`
 * on. out: rows of this rank's points, with local ids of the other rank's points. */
adj_status adji_mirror_transpose(adj_mpi_plan *plan, const adji_mpi_part *from, uint64_t shift, adji_mpi_part *out);

/* Sends the rows that were found for points of other ranks to these ranks. found: one part for each rank, with a result
 * or without; cleared here. shifts: one for each rank, as above. parts: ranks + 1 parts for what this rank receives.
 * Rows from rank i go to parts[i], or to the last part if parts[i] has a result already. Agreed on. */
adj_status adji_mirror_exchange(adj_mpi_plan *plan, adj_status status, adji_mpi_part *found, const uint64_t *shifts,
                                adji_mpi_part *parts);

#endif
