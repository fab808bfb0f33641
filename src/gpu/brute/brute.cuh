/* SPDX-License-Identifier: MIT
 *
 * kNN by brute force on a device: what its methods share.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_CUH
#define ADJI_GPU_BRUTE_BRUTE_CUH

#include "gpu/shared/steps.cuh"

extern "C" {
#include "data/dataset.h"
#include "distance/measure.h"
#include "gpu/brute/brute.h"
}

/* Finds the k nearest of some rows of the left set among the right points on the device. All pointers are device
 * memory, except measure. */
typedef struct adji_brute_job {
  adj_type type;
  const adji_measure *measure;
  const void *box; /* the measure's, on the device, or NULL */
  uint32_t dim, k;
  const void *left, *right; /* packed, by rows; the same in a self-join whose whole set is on the device */
  uint64_t left_first;      /* the first row at left */
  uint64_t right_first;     /* the first row at right: not 0 for later chunks of a set */
  uint64_t right_count;
  /* The queries: rows first_row .. first_row + queries - 1; or, if numbers is not NULL, the rows listed there. */
  uint64_t first_row, queries;
  const uint32_t *numbers;
  bool drop_self; /* row i of the right set is no neighbour of row i of the left set */
  bool root;      /* report distances, not squared ones */
  double limit;   /* the largest sum that belongs */
  /* The result of row i: k entries from (i - first_row) * k on, nearest first; ADJ_NO_ID and infinity after the
   * last. */
  uint32_t *ids;
  void *distances;
} adji_brute_job;

#endif
