/* SPDX-License-Identifier: MIT
 *
 * Shared by owners.c, which sends the lengths of rows, owners_windows.c, which sends their entries, and owners_bins.c.
 */
#ifndef ADJI_MPI_OWNERS_PRIVATE_H
#define ADJI_MPI_OWNERS_PRIVATE_H

#include "mpi/owners.h"

typedef struct adji_returning {
  adj_mpi_plan *plan;
  const adji_points *queries;
  const adji_rows *in; /* rows to send */
  adji_round round;
  adji_rows *out;   /* rows to receive: those of this rank's points in the round */
  uint32_t *order;  /* the rows of `out` grouped by the rank that sends them, ascending in each group */
  uint64_t *starts; /* start of each rank's group in `order`; ranks + 1 values */
  uint64_t each;    /* kNN: length of every row; 0: the lengths are in out->offsets */
} adji_returning;

/* Allocates the entries of `out` and sends the entries of all rows. Their lengths are known already. Agreed on. */
adj_status adji_owners_send_entries(adji_returning *r);

/* The ids and values of a result, out->offsets[out->count] entries, that get their memory while it is filled. */
typedef struct adji_growing {
  adj_mpi_plan *plan;
  adji_rows *out;
  uint64_t value_size;
  bool ids_ahead, values_ahead; /* these arrays get their memory bit by bit */
} adji_growing;
adj_status adji_growing_open(adji_growing *growing);
/* Makes room for the first `entries` entries. */
adj_status adji_growing_claim(const adji_growing *growing, uint64_t entries);

#endif
