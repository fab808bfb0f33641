/* SPDX-License-Identifier: MIT
 *
 * Selection: the algorithms for any k and for short rows, as select.cu calls them.
 */
#ifndef ADJI_GPU_SELECT_SELECT_CUH
#define ADJI_GPU_SELECT_SELECT_CUH

#include "gpu/device/device.cuh"
#include "gpu/select/select.h"

/* algorithm is ADJI_SELECT_RADIX, _SAMPLE or _SORT; 1 <= k <= columns. out_k: entries per row of the answer. */
adj_status adji_select_large(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k);

/* Rows that fit shared memory; 1 <= k <= columns. */
adj_status adji_select_short(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k);

/* Whether rows fit, `blocks` of them at a time on each multiprocessor. */
adj_status adji_select_short_fits(adji_gpu *gpu, const adji_gpu_select *job, uint32_t blocks, bool *out);

#endif
