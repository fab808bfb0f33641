/* SPDX-License-Identifier: MIT
 *
 * Distances and selection in one kernel.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_FUSED_CUH
#define ADJI_GPU_BRUTE_BRUTE_FUSED_CUH

#include "gpu/brute/brute.cuh"

/* Queries that are no list of numbers, within ADJI_FUSED_MOST_DIM and ADJI_FUSED_MOST_K; L2, L1 and Linf without a
 * periodic box. Runs in the order of the compute stream. */
adj_status adji_brute_fused(adji_gpu *gpu, const adji_brute_job *job);

#endif
