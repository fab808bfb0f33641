/* SPDX-License-Identifier: MIT
 *
 * Brings the rows of a result on a device into order.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_CUH
#define ADJI_GPU_SHARED_ROW_SORT_CUH

#include "gpu/shared/row_sort_job.cuh"

/* Memory: nothing where rows have up to 8,192 entries (4,096 with f64 sums); for longer ones as much as the window,
 * what CUB needs, and 16 bytes for each of them. */
adj_status adji_row_sort(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job);

#endif
