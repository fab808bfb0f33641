/* SPDX-License-Identifier: MIT
 *
 * kNN by brute force on a device: what its methods share.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_CUH
#define ADJI_GPU_BRUTE_BRUTE_CUH

#include "gpu/shared/steps.cuh"

extern "C" {
#include "distance/measure.h"
#include "gpu/brute/brute.h"
#include "gpu/range/range.h"
}

/* Finds the k nearest of some rows of the left set among the right points on the device. All pointers are device
 * memory, except measure. */
typedef struct adji_brute_job {
  adj_type type;
  const adji_measure *measure;
  const void *box; /* the measure's, on the device, or NULL */
  uint32_t dim, k;
  const void *left, *right; /* packed, by rows; equal in a self-join of a set that is here as a whole */
  uint64_t left_first;      /* the first row at left */
  uint64_t right_first;     /* the first row at right: not 0 if a set goes through the device in chunks */
  uint64_t right_count;
  /* The queries: rows first_row .. first_row + queries - 1; or, if numbers is not NULL, the rows listed there. */
  uint64_t first_row, queries;
  const uint32_t *numbers;
  bool drop_self; /* row i of the right set is no neighbour of row i of the left set */
  bool root;      /* report distances, not squared ones */
  double limit;   /* of sums */
  /* The result of row i: k entries from (i - first_row) * k on, nearest first; ADJ_NO_ID and infinity after the
   * last. */
  uint32_t *ids;
  void *distances;
} adji_brute_job;

/* The matrix method, see brute_matrix.cu. Runs in the order of the compute stream. */
adj_status adji_brute_matrix(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice);

/* ---- Points and rows of a join: see brute.cu ------------------------------------------------- */

typedef struct adji_gpu_brute adji_gpu_brute;

/* Rows in device memory are used in place if they are packed. join and measure must outlive the object. Copies are
 * added to work. */
typedef struct adji_gpu_brute_options {
  const adji_join *join;
  const adji_measure *measure;
  const adji_gpu_rows *left_rows, *right_rows; /* NULL: the points of the join's sets are copied to the device */
  adji_brute_choice choice;
  adji_device_stats *work;
} adji_gpu_brute_options;

adj_status adji_gpu_brute_open(adji_gpu *gpu, const adji_gpu_brute_options *options, adji_gpu_brute **out);
void adji_gpu_brute_close(adji_gpu_brute *brute);

/* Right points on the device at a time; 0: all of them. */
uint64_t adji_gpu_brute_chunk(const adji_gpu_brute *brute);

/* The most rows of the result to request at a time. */
uint64_t adji_gpu_brute_most_rows(const adji_gpu_brute *brute);

/* Finds rows first_row .. first_row + rows - 1, k entries each, as distances. Returns before they are there, unless
 * the right set goes through the device in chunks. */
adj_status adji_gpu_brute_search(adji_gpu_brute *brute, uint64_t first_row, uint64_t rows, uint32_t *ids,
                                 void *distances);

#endif
