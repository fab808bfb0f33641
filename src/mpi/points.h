/* SPDX-License-Identifier: MIT
 *
 * Sends points between ranks.
 */
#ifndef ADJI_MPI_POINTS_H
#define ADJI_MPI_POINTS_H

#include "cluster/split.h"
#include "mpi/job.h"

/* Points to send: each to its home, and to the regions that it visits. */
typedef struct adji_parcel {
  const adj_dataset *set;
  const double *radii;      /* sent with the points; NULL: no radii are sent */
  const uint32_t *home;     /* NULL: only visits are sent */
  const adji_points *named; /* the points of `set` with their ids, which ascend; NULL: the caller's points */
  const adji_visit *visits;
  uint64_t visit_count;
  uint64_t *received; /* out: the number of points from each rank; may be NULL */
  /* out: the places of the points received that are at home here, to be freed with adji_free; both may be NULL.
   * Visitors are then points around the region, which have no radius of their own and get the radius 0. */
  uint32_t **own;
  uint64_t *own_count;
} adji_parcel;
/* Sends the points of a parcel and receives those of other ranks, in ascending order of id. Agreed on. */
adj_status adji_points_exchange(adj_mpi_plan *plan, adj_status status, const adji_parcel *parcel, adji_points *out);
/* Makes a dataset of packed points. Takes over the block, also on failure. */
adj_status adji_points_adopt(adj_mpi_plan *plan, char *block, uint64_t count, adj_dataset **out);
/* Copies a row of a set, packed. */
void adji_points_copy(const adj_dataset *set, uint64_t row, char *to);
/* Copies the listed rows of some points. rows NULL: rows first .. first + count - 1. */
adj_status adji_points_pick(adj_mpi_plan *plan, const adji_points *from, const uint32_t *rows, uint64_t first,
                            uint64_t count, adji_points *out);
/* Allocates ids for `count` points; all: the number of points of the whole set, which decides their width. */
adj_status adji_points_open_ids(adj_mpi_plan *plan, uint64_t count, uint64_t all, adji_points *points);
static inline void adji_points_set_id(const adji_points *points, uint64_t i, int64_t id) {
  if (points->narrow)
    points->narrow[i] = (uint32_t)id;
  else
    points->ids[i] = id;
}
void adji_points_clear(adj_mpi_plan *plan, adji_points *points);

#endif
