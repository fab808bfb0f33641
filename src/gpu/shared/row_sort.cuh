/* SPDX-License-Identifier: MIT
 *
 * Sorts the rows of a result on a device.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_CUH
#define ADJI_GPU_SHARED_ROW_SORT_CUH

#include "gpu/device/device.cuh"

typedef struct adji_row_sort_job {
  adj_type type;           /* the type of sums */
  adj_order order;         /* ADJ_ORDER_ID or ADJ_ORDER_DISTANCE, by (sum, id) */
  const uint64_t *offsets; /* on the device, of all rows */
  uint64_t first_row, end_row;
  uint64_t base, pairs; /* the window holds the entries base .. base + pairs - 1 */
  uint64_t longest;     /* the length of the longest row, or more */
  uint32_t *ids;        /* of the window */
  void *sums;           /* NULL: only ids */
} adji_row_sort_job;

/* Memory: none where rows have up to 8,192 entries (4,096 with f64 sums). For longer rows, a second window, the
 * workspace of CUB, and 16 bytes per row. */
adj_status adji_row_sort(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job);

#endif
