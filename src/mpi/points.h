/* SPDX-License-Identifier: MIT
 *
 * Points on their way between ranks.
 */
#ifndef ADJI_MPI_POINTS_H
#define ADJI_MPI_POINTS_H

#include "mpi/job.h"

/* Points to send: lists of rows, one a rank, as adj_split_halo makes them. */
typedef struct adji_parcel {
  const adj_dataset *set;
  int64_t first;          /* global id of row 0 */
  const double *radii;    /* go with the points; NULL: none do */
  const uint64_t *starts; /* ranks + 1 */
  const uint32_t *rows;
  uint64_t *received; /* how many points came from each rank; NULL: not asked for */
} adji_parcel;
/* Sends points and receives those of others, in ascending order of id. Agreed on. */
adj_status adji_points_exchange(adj_mpi_plan *plan, adj_status status, const adji_parcel *parcel, adji_points *out);
/* A dataset of packed points; the block is taken over, also on failure. */
adj_status adji_points_adopt(adj_mpi_plan *plan, char *block, uint64_t count, adj_dataset **out);
/* Rows of a set, packed. */
void adji_points_copy(const adj_dataset *set, uint64_t row, char *to);
adj_status adji_points_pick(adj_mpi_plan *plan, const adji_points *from, const uint32_t *rows, uint64_t first,
                            uint64_t count, adji_points *out);
/* Room for the ids of so many points, of a set that has so many in all; one of them. */
adj_status adji_points_open_ids(adj_mpi_plan *plan, uint64_t count, uint64_t all, adji_points *points);
static inline void adji_points_set_id(const adji_points *points, uint64_t i, int64_t id) {
  if (points->narrow)
    points->narrow[i] = (uint32_t)id;
  else
    points->ids[i] = id;
}
void adji_points_clear(adj_mpi_plan *plan, adji_points *points);

#endif
