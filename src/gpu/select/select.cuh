/* SPDX-License-Identifier: MIT
 *
 * Selection: what select.cu asks of the ways that are for any k, and of those for short rows.
 */
#ifndef ADJI_GPU_SELECT_SELECT_CUH
#define ADJI_GPU_SELECT_SELECT_CUH

#include "gpu/device/device.cuh"
#include "gpu/select/select.h"

/* algorithm is ADJI_SELECT_RADIX, _SAMPLE or _SORT; 1 <= k <= columns. out_k: entries of a row of the answer. */
adj_status adji_select_large(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k);

/* Rows that fit shared memory; 1 <= k <= columns. */
adj_status adji_select_short(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k);

/* Whether they do, `blocks` of them at a time on each multiprocessor. */
adj_status adji_select_short_fits(adji_gpu *gpu, const adji_gpu_select *job, uint32_t blocks, bool *out);

#endif
