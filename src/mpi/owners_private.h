/* SPDX-License-Identifier: MIT
 *
 * Rows on their way, between owners.c (lengths) and owners_windows.c (entries).
 */
#ifndef ADJI_MPI_OWNERS_PRIVATE_H
#define ADJI_MPI_OWNERS_PRIVATE_H

#include "mpi/owners.h"

typedef struct adji_returning {
  adj_mpi_plan *plan;
  const adji_points *queries;
  adji_rows *in, *extra; /* at the sender; extra: NULL, or rows of some queries */
  adji_round round;
  adji_rows *out;   /* at the receiver: rows of its points in the round */
  uint32_t *order;  /* these by the rank that sends them, ascending */
  uint64_t *starts; /* of each rank in it, ranks + 1 */
  uint64_t each;    /* kNN: entries of every row; 0: out->offsets tell */
} adji_returning;

/* Entries of all rows, whose lengths are known: allocates those of `out`. Agreed on. */
adj_status adji_owners_send_entries(adji_returning *r);

#endif
