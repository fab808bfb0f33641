/* SPDX-License-Identifier: MIT
 *
 * Which rows are brought into order: for row_sort.cuh and the files behind it.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_JOB_CUH
#define ADJI_GPU_SHARED_ROW_SORT_JOB_CUH

#include "gpu/device/cuda.cuh"

typedef struct adji_row_sort_job {
  adj_type type;           /* of sums                                             */
  adj_order order;         /* ADJ_ORDER_ID or ADJ_ORDER_DISTANCE, by (sum, id)    */
  const uint64_t *offsets; /* device, of all rows                                 */
  uint64_t first_row, end_row;
  uint64_t base, pairs; /* the window holds the entries base .. base + pairs - 1  */
  uint64_t longest;     /* no row is longer                                       */
  uint32_t *ids;        /* of the window                                          */
  void *sums;           /* NULL: ids alone                                        */
} adji_row_sort_job;

#endif
