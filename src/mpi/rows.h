/* SPDX-License-Identifier: MIT
 *
 * Puts rows with global ids together from parts.
 */
#ifndef ADJI_MPI_ROWS_H
#define ADJI_MPI_ROWS_H

#include "cluster/split.h"
#include "mpi/parts.h"

/* Rows, with global ids unless `right` is set. */
typedef struct adji_rows {
  uint64_t count;
  uint64_t *offsets;        /* count + 1; NULL while lists are made */
  uint64_t each;            /* kNN: the entries of every list; 0: a range join, or no lists yet */
  int64_t *ids;             /* or NULL, if narrow is set */
  uint32_t *narrow;         /* ids of 32 bits, if plan->fits_32: in rows that go to their owners, or plan->narrow */
  char *values;             /* sums or distances, or NULL */
  char *lasts;              /* kNN: only the last sum of each list, in place of values; or NULL */
  adj_result *from;         /* the result of libadjoin that owns these arrays, or NULL */
  const adji_points *right; /* narrow has local ids of these points; NULL: global ids */
  bool filled;              /* kNN: the lists are written, as entries or padding; before that they are garbage */
} adji_rows;
void adji_rows_clear(adj_mpi_plan *plan, adji_rows *rows);

static inline uint64_t adji_rows_entries(const adji_rows *rows) {
  return rows->each ? rows->count * rows->each : rows->offsets[rows->count];
}
/* kNN: makes the offsets of finished lists. */
adj_status adji_rows_number(adj_mpi_plan *plan, adji_rows *rows);

/* Whether an entry of rows with global ids is padding. */
static inline bool adji_rows_is_padding(const adji_rows *rows, uint64_t entry) {
  return rows->narrow ? rows->narrow[entry] == ADJ_NO_ID : rows->ids[entry] < 0;
}

/* Puts the rows of all queries of a range join together from its parts, and clears the parts. */
adj_status adji_rows_join(adj_mpi_plan *plan, const adji_points *queries, adji_mpi_part *parts, uint32_t count,
                          adji_rows *out);
/* kNN: allocates lists of k entries with sums, not yet filled. */
adj_status adji_rows_open_lists(adj_mpi_plan *plan, uint64_t count, adji_rows *out);
/* Takes over the result of a part, with local ids, and its last sums. Returns false and changes nothing if the part has
 * no result or is not whole, or if ids need more than 32 bits. */
bool adji_rows_adopt(adj_mpi_plan *plan, adji_mpi_part *part, adji_rows *out);
/* Makes ids of 64 bits, which must fit, ids of 32 bits, in place. */
void adji_rows_narrow(adj_mpi_plan *plan, adji_rows *rows);
/* Replaces local ids by global ones, in place, unless the join did so. */
void adji_rows_globalise(adji_rows *rows);
/* kNN without a radius: the number of neighbours in every list. */
uint64_t adji_list_length(const adj_mpi_plan *plan);
/* Fills lists that are not filled yet with padding. */
void adji_rows_pad(const adj_mpi_plan *plan, adji_rows *lists);
/* Merges the lists of a part into those of the queries. */
adj_status adji_rows_merge(adj_mpi_plan *plan, const adji_points *queries, const adji_mpi_part *part, adji_rows *to);
/* Merges other lists of the same queries into theirs. Entries that both have count once. */
adj_status adji_rows_merge_lists(const adj_mpi_plan *plan, const adji_rows *from, const adji_rows *to);
/* The last sums of kNN lists. */
adji_last_sums adji_rows_last_sums(const adj_mpi_plan *plan, const adji_rows *lists);
/* How far queries must look: to their k-th neighbours so far, but no further than their radii. The list of query i is
 * number which[i]; which NULL: number i. */
adj_status adji_rows_reach(const adj_mpi_plan *plan, const adji_points *queries, const adji_rows *lists,
                           const uint32_t *which, double *radii);
/* Turns sums into what is reported, if sums were needed. */
adj_status adji_rows_report(adj_mpi_plan *plan, adji_rows *rows);
uint64_t adji_value_size(const adj_mpi_plan *plan);    /* bytes of a sum or distance while rows are made; 0: none */
uint64_t adji_reported_size(const adj_mpi_plan *plan); /* bytes of a reported sum or distance; 0: ids only */

#endif
