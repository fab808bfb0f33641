/* SPDX-License-Identifier: MIT
 *
 * Sorts the rows of a result on a device.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_CUH
#define ADJI_GPU_SHARED_ROW_SORT_CUH

#include "gpu/shared/row_sort_job.cuh"

/* Memory: none where rows have up to 8,192 entries (4,096 with f64 sums). For longer rows, another window, the
 * workspace of CUB, and 16 bytes per row. */
adj_status adji_row_sort(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job);

#endif
