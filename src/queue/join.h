/* SPDX-License-Identifier: MIT
 *
 * What a join is, as every worker sees it, and what an engine offers to the runs.
 */
#ifndef ADJI_JOIN_H
#define ADJI_JOIN_H

#include "data/dataset.h"
#include "queue/scheduler.h"
#include "result/result.h"
#include "result/rows.h"

typedef struct adji_join {
  adj_ctx *ctx;
  const adj_dataset *left, *right; /* the same for a self-join */
  bool self_join;
  double limit;
  adji_row_style style;
} adji_join;

/* An engine finds pairs. State is its own; a run is one call at a time. */
typedef struct adji_engine {
  void *state;
  /* degrees (by row, may be NULL) receives the number of neighbours of each left point. */
  adj_status (*count)(void *state, adji_run *run, uint32_t *degrees, uint64_t *total);
  /* Fills the rows of the window. */
  adj_status (*fill)(void *state, adji_run *run, const adji_window *window);
  /* May be NULL: fills the result's offsets, ids, distances and pairs in one go, without counting
   * first. */
  adj_status (*collect)(void *state, adji_run *run, adj_result *result);
  void (*destroy)(void *state);
} adji_engine;

#endif
