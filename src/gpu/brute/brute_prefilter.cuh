/* SPDX-License-Identifier: MIT
 *
 * Brute force with a prefilter, as a method of brute_join.cu: on tensor cores (prefilter_tensor.cuh) or by cuBLAS
 * (prefilter_gemm.cuh).
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_PREFILTER_CUH
#define ADJI_GPU_BRUTE_BRUTE_PREFILTER_CUH

#include "gpu/brute/prefilter_tensor.cuh"

extern "C" {
#include "queue/stats.h"
}

/* What it keeps from search to search: the copies of a right set that is on the device as a whole. */
typedef struct adji_gpu_brute_prefilter_state {
  adji_prefilter_stats *work; /* added to */
  bool copied;
  adji_tensor_points points;
  adji_tensor_batch batch;
} adji_gpu_brute_prefilter_state;

/* Whether the job suits it and the choice allows it. */
bool adji_gpu_brute_prefilter_applies(const adji_brute_job *job, const adji_brute_choice *choice);

/* keep: the right points will be the same the next time. */
adj_status adji_gpu_brute_prefilter_search(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice,
                                           bool keep, adji_gpu_brute_prefilter_state *prefilter);
void adji_gpu_brute_prefilter_clear(adji_gpu *gpu, adji_gpu_brute_prefilter_state *prefilter);

#endif
