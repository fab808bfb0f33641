/* SPDX-License-Identifier: MIT
 *
 * Selection: what select.cu asks of the ways that are for any k.
 */
#ifndef ADJI_SELECT_CUH
#define ADJI_SELECT_CUH

#include "gpu/cuda.cuh"
#include "gpu/select.h"

/* algorithm is ADJI_SELECT_RADIX or ADJI_SELECT_SORT; 1 <= k <= columns. out_k: entries of a row of the answer. */
adj_status adji_select_large(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k);

#endif
