/* SPDX-License-Identifier: MIT
 *
 * Runs a plan: what run.c and stream.c share.
 */
#ifndef ADJI_PLAN_RUN_H
#define ADJI_PLAN_RUN_H

#include "plan/plan.h"

/* The share of counting in a run's progress. */
#define ADJI_COUNTING_SHARE 0.4

/* Begins and ends a run of the plan: small questions use the calling thread alone. */
adj_status adji_plan_begin(const adj_plan *plan, adji_run *run, const adj_run_control *control);
void adji_plan_end(adji_run *run);

/* Where the rows of a result are. */
typedef struct adji_layout {
  uint32_t k;        /* kNN: entries of every row; the rest is unused    */
  uint32_t *degrees; /* NULL if not needed                               */
  uint64_t *offsets; /* left count + 1                                   */
  uint64_t entries;  /* of all rows                                      */
} adji_layout;

/* For a range join, counts the rows. */
adj_status adji_lay_out(adj_plan *plan, adji_run *run, bool degrees, adji_layout *layout);
void adji_layout_clear(adj_plan *plan, adji_layout *layout);

/* Fills in the statistics of a successful run. */
adj_status adji_finish_run(adj_plan *plan, adji_run *run, uint64_t begin_ns, double sink_s, uint64_t pairs,
                           adj_stats *stats);

/* Bytes of the buffer of a stream: the setting, or the default, or half of the available memory. */
uint64_t adji_stream_buffer(const adj_plan *plan);

/* Whether a result is collected in one pass, and the memory that this takes, in entries of the result. */
bool adji_collects_once(const adj_plan *plan);
double adji_collect_once_entries(const adj_plan *plan);
/* Whether rows must be counted after all, because collecting them ended with this status. The run then starts anew. */
bool adji_counts_instead(const adj_plan *plan, adji_run *run, adj_status status);

/* A mutual join (result/rows.h), in which the neighbours of right points are found as well. */
typedef struct adji_way_back {
  const double *radii; /* one per right point: how far its neighbours may be */
  uint64_t first;      /* right points before this one take no part, on either side; a multiple of 64 */
  adj_result *result;  /* out: the rows of all right points; those of points that take no part are padding */
} adji_way_back;

/* What a rank of several wants besides the arrays of a result. Each may be NULL. */
struct adji_binned;
typedef struct adji_extras {
  /* One for each right point, ascending. They replace ids where that costs little; result->labelled says whether. */
  const uint32_t *labels;
  /* With labels only: where the rows of a range join may go in place of the arrays of the result, which is then empty
   * but for its counts; binned->filled says whether. See cpu/bins.h. */
  struct adji_binned *binned;
  /* If adji_notes_lasts: room for the last sum of each row, as in adji_window. */
  void *lasts;
  /* With labels, kNN self-joins: the left rows that are wanted, ascending. NULL: all. Some methods make all rows
   * nevertheless; adj_result_rows says which. */
  const uint32_t *rows;
  uint64_t row_count;
  /* If adji_can_be_mutual: makes a mutual join, or no join. Both results are then NULL. */
  adji_way_back *back;
} adji_extras;
/* adj_collect with extras. A kNN result with labels has no offsets: each row has result->each entries. */
ADJI_SHARED adj_status adji_collect_with(adj_plan *plan, const adji_extras *extras, adj_result **out,
                                         const adj_run_control *control, adj_stats *stats);
/* Whether the join can note the last sums of its rows: kNN through trees on cores. */
ADJI_SHARED bool adji_notes_lasts(const adj_plan *plan);
/* kNN: whether a join of two sets can be a mutual one, as far as is known before it begins; of a self-join, whether the
 * joins of its points with others can. Brute force on cores through sketches of codes. */
ADJI_SHARED bool adji_can_be_mutual(const adj_plan *plan);

/* kNN: whether a radius limits the neighbours; the number of pairs without a radius; the rows that fit the buffer of a
 * stream; the exact number of pairs. */
bool adji_knn_is_bounded(const adj_plan *plan);
uint64_t adji_knn_most_pairs(const adj_plan *plan);
uint64_t adji_knn_buffer_rows(const adj_plan *plan);
adj_status adji_knn_count(adj_plan *plan, adji_run *run, uint32_t *degrees, uint64_t *pairs);

#endif
