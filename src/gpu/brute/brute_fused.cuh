/* SPDX-License-Identifier: MIT
 *
 * Distances and selection in one kernel.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_FUSED_CUH
#define ADJI_GPU_BRUTE_BRUTE_FUSED_CUH

#include "gpu/brute/brute.cuh"

/* For queries without a list of numbers, up to ADJI_FUSED_MOST_DIM dimensions and ADJI_FUSED_MOST_K neighbours; L2, L1
 * and Linf without a periodic box. Runs in the order of the compute stream. */
adj_status adji_brute_fused(adji_gpu *gpu, const adji_brute_job *job);

#endif
