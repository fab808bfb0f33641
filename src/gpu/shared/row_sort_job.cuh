/* SPDX-License-Identifier: MIT
 *
 * The rows to sort: for row_sort.cuh and its parts.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_JOB_CUH
#define ADJI_GPU_SHARED_ROW_SORT_JOB_CUH

#include "gpu/device/device.cuh"

typedef struct adji_row_sort_job {
  adj_type type;           /* of sums */
  adj_order order;         /* ADJ_ORDER_ID or ADJ_ORDER_DISTANCE, by (sum, id) */
  const uint64_t *offsets; /* device, of all rows */
  uint64_t first_row, end_row;
  uint64_t base, pairs; /* the window holds the entries base .. base + pairs - 1 */
  uint64_t longest;     /* no row is longer */
  uint32_t *ids;        /* of the window */
  void *sums;           /* NULL: only ids */
} adji_row_sort_job;

#endif
