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
 * points in the round. ADJI_COUNT: sends only lengths. Clears `in`. Agreed on. */
adj_status adji_owners_send(adj_mpi_plan *plan, adj_status status, adji_mode mode, const adji_points *queries,
                            adji_rows *in, adji_round round, adji_rows *out);

/* ---- Rows in bins ------------------------------------------------------------------------------------------------ */

/* The bins in which the rows of a range join travel: see owners_bins.c. */
typedef struct adji_row_bins {
  uint32_t shift;
  uint64_t count, windows; /* bins of all ranks; most bins of any rank */
  uint64_t *first;         /* the first bin of each rank, and the end */
  uint64_t group_windows;  /* windows in each group of bins */
  uint32_t *groups;        /* of each bin */
  uint32_t *names;         /* of rows of the join here: their numbers among the rows of all ranks, with gaps */
} adji_row_bins;
/* Whether the numbers of rows fit 32 bits. */
bool adji_row_bins_fit(const adj_mpi_plan *plan);
/* Makes the bins for all queries. After a failure they must still be closed. */
adj_status adji_row_bins_open(adj_mpi_plan *plan, adji_row_bins *bins);
void adji_row_bins_close(adj_mpi_plan *plan, adji_row_bins *bins);
/* Lets a join leave its rows in such bins. */
void adji_row_bins_offer(adj_mpi_plan *plan, const adji_row_bins *bins, adji_mpi_part *part);
/* Sends the rows of all queries, one round only. The part was offered bins, and is left to be cleared. Agreed on. */
adj_status adji_owners_send_bins(adj_mpi_plan *plan, const adji_row_bins *bins, adji_mpi_part *part, adji_rows *out);

#endif
