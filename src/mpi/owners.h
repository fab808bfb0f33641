/* SPDX-License-Identifier: MIT
 *
 * Sends rows to the ranks that own their points.
 */
#ifndef ADJI_MPI_OWNERS_H
#define ADJI_MPI_OWNERS_H

#include "mpi/rows.h"

/* A round: each rank's left points are cut into `of` stretches, by adj_mpi_plan.rounds; the round has stretch `number`
 * of every rank. */
typedef struct adji_round {
  uint64_t number, of;
} adji_round;
void adji_round_rows(const adj_mpi_plan *plan, int rank, adji_round round, uint64_t *begin, uint64_t *end);

/* Sends the rows of this region's queries to the owners of the queries. *out receives the rows of this rank's own
 * points in the round. extra (may be NULL): more entries for some of the rows, which are merged into them. ADJI_COUNT:
 * sends only lengths. Clears `in` and `extra`. Agreed on. */
adj_status adji_owners_send(adj_mpi_plan *plan, adj_status status, adji_mode mode, const adji_points *queries,
                            adji_rows *in, adji_rows *extra, adji_round round, adji_rows *out);

#endif
