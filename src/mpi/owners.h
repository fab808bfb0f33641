/* SPDX-License-Identifier: MIT
 *
 * Rows on their way to the ranks that own their points.
 */
#ifndef ADJI_MPI_OWNERS_H
#define ADJI_MPI_OWNERS_H

#include "mpi/rows.h"

/* A round: of each rank the rows number / of of its left points. */
typedef struct adji_round {
  uint64_t number, of;
} adji_round;
void adji_round_rows(const adj_mpi_plan *plan, int rank, adji_round round, uint64_t *begin, uint64_t *end);

/* Rows of queries of this region to their owners; *out: those of this rank's points in the round. extra (may be NULL):
 * more entries of some of these rows, which are merged into them. ADJI_COUNT: only lengths. Agreed on. `in` and `extra`
 * are cleared. */
adj_status adji_owners_send(adj_mpi_plan *plan, adj_status status, adji_mode mode, const adji_points *queries,
                            adji_rows *in, adji_rows *extra, adji_round round, adji_rows *out);

#endif
