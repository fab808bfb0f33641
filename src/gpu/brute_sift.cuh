/* SPDX-License-Identifier: MIT
 *
 * Brute force through products as a way of brute.cu: on tensor cores (sift.cuh), or by cuBLAS (gemm.cuh).
 */
#ifndef ADJI_BRUTE_SIFT_CUH
#define ADJI_BRUTE_SIFT_CUH

#include "gpu/sift.cuh"

/* What it keeps from search to search: the copies of a right set that is on the device as a whole. */
typedef struct adji_brute_sifter {
  adji_sift_work *work; /* that is added to */
  bool copied;
  adji_sift_points points;
  adji_sift_batch batch;
} adji_brute_sifter;

/* Whether the job is one for it, and chosen to be. */
bool adji_brute_sifts(const adji_brute_job *job, const adji_brute_choice *choice);

/* keep: the right points will be the same the next time. */
adj_status adji_brute_sift(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice, bool keep,
                           adji_brute_sifter *sifter);
void adji_brute_sifter_clear(adji_gpu *gpu, adji_brute_sifter *sifter);

#endif
