/* SPDX-License-Identifier: MIT
 *
 * kNN by brute force on a device: what its ways share.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_CUH
#define ADJI_GPU_BRUTE_BRUTE_CUH

#include "gpu/shared/steps.cuh"

extern "C" {
#include "distance/measure.h"
#include "gpu/brute/brute.h"
}

/* The k nearest of some rows of the left set among the right points that are here. All memory is the device's, but for
 * measure. */
typedef struct adji_brute_job {
  adj_type type;
  const adji_measure *measure;
  const void *box; /* the measure's, on the device; NULL where there is none */
  uint32_t dim, k;
  const void *left, *right; /* packed, by rows; the same in a self-join of a set that is here as a whole */
  uint64_t left_first;      /* the row that is first at left                                             */
  uint64_t right_first;     /* and the one at right: not 0 where a set goes through the device in pieces */
  uint64_t right_count;
  /* The queries: rows first_row .. first_row + queries - 1; or, where there are numbers, those rows, so many. */
  uint64_t first_row, queries;
  const uint32_t *numbers;
  bool drop_self; /* row i of the right set is no neighbour of row i of the left one */
  bool root;      /* distances are wanted, not their squares */
  double limit;   /* of sums */
  /* The result of row i: k entries from (i - first_row) * k on, nearest first, ADJ_NO_ID and infinity behind the last.
   */
  uint32_t *ids;
  void *distances;
} adji_brute_job;

#endif
