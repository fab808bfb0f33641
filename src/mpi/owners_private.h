/* SPDX-License-Identifier: MIT
 *
 * Shared by owners.c, which sends the lengths of rows, owners_windows.c, which sends their entries, owners_lists.c and
 * owners_bins.c.
 */
#ifndef ADJI_MPI_OWNERS_PRIVATE_H
#define ADJI_MPI_OWNERS_PRIVATE_H

#include "mpi/owners.h"

typedef struct adji_returning {
  adj_mpi_plan *plan;
  adji_queries queries;
  const adji_rows *in; /* rows to send */
  adji_round round;
  adji_rows *out; /* rows to receive: those of this rank's points in the round */
  /* owners_windows.c: */
  uint32_t *order;  /* the rows of `out` grouped by the rank that sends them, ascending in each group */
  uint64_t *starts; /* start of each rank's group in `order`; ranks + 1 values */
} adji_returning;

/* Allocates the entries of `out` and sends the entries of all rows. Their lengths are known already. Agreed on. */
adj_status adji_owners_send_entries(adji_returning *r);
/* kNN: allocates `out` and sends all lists. Agreed on. */
adj_status adji_owners_send_lists(adji_returning *r, adj_status status);

/* The first query from `low` on whose id is at least `id`. */
uint64_t adji_find_query(const adji_queries *queries, uint64_t low, uint64_t id);
/* How many windows a rank wants that sends or receives so many bytes in all. */
uint64_t adji_owners_windows(const adj_mpi_plan *plan, uint64_t bytes);
/* Releases the bytes before `to` of an array that were sent: those from `from` on, and those before on the same page,
 * but none before `first`, which may belong to another owner. */
void adji_release_sent(adji_memory *memory, void *array, uint64_t first, uint64_t from, uint64_t to);

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
