/* SPDX-License-Identifier: MIT
 *
 * Rows with global ids, put together from parts.
 */
#ifndef ADJI_MPI_ROWS_H
#define ADJI_MPI_ROWS_H

#include "mpi/parts.h"

/* Rows, with global ids. Sums or distances: NULL without. */
typedef struct adji_rows {
  uint64_t count;
  uint64_t *offsets; /* count + 1 */
  int64_t *ids;
  uint32_t *narrow; /* in place of ids, of rows that go to their owners: if all right points have such ids */
  char *values;
  adj_result *from;         /* NULL, or what these are in: a result of libadjoin */
  const adji_points *right; /* narrow has local ids, of these; NULL: global ones */
  const uint32_t *places;   /* row i is of query places[i]; NULL: of query i */
  bool filled;              /* kNN: a list has been merged into, or all are padding; before that nothing is written */
} adji_rows;
void adji_rows_clear(adj_mpi_plan *plan, adji_rows *rows);

/* Puts the parts of range joins together: of queries, in their order. Parts are cleared as they are used. */
adj_status adji_rows_join(adj_mpi_plan *plan, const adji_points *queries, adji_mpi_part *parts, uint32_t count,
                          adji_rows *out);
/* kNN: rows of k entries, with sums. A part is merged into them. */
adj_status adji_rows_open_lists(adj_mpi_plan *plan, uint64_t count, adji_rows *out);
/* The rows of a part that leaves none out: its result is taken over, with local ids. False: the part is another one, or
 * ids are too large; nothing has changed. */
bool adji_rows_adopt(const adj_mpi_plan *plan, adji_mpi_part *part, adji_rows *out);
/* Local ids become global ones, in their own place. */
void adji_rows_globalise(adji_rows *rows);
/* Entries from `middle` on, which ascend, go to their places among those before: both are one row. */
void adji_rows_merge_runs(const adj_mpi_plan *plan, const adji_rows *rows, uint64_t first, uint64_t middle,
                          uint64_t end);
/* kNN without a radius: the length of every list. */
uint64_t adji_list_length(const adj_mpi_plan *plan);
/* Lists that no part has been merged into become empty ones. */
void adji_rows_pad(const adj_mpi_plan *plan, adji_rows *lists);
adj_status adji_rows_merge(adj_mpi_plan *plan, const adji_points *queries, const adji_mpi_part *part, adji_rows *to);
/* How far each query must look: to its k-th neighbour so far, or as far as the spec says. */
adj_status adji_rows_reach(const adj_mpi_plan *plan, const adji_points *queries, const adji_rows *lists, double *radii);
/* From sums to what is reported, where sums were needed. */
adj_status adji_rows_report(adj_mpi_plan *plan, adji_rows *rows);
uint64_t adji_value_size(const adj_mpi_plan *plan);    /* of a sum or distance while rows are made; 0: none */
uint64_t adji_reported_size(const adj_mpi_plan *plan); /* of what is reported; 0: ids only */

#endif
