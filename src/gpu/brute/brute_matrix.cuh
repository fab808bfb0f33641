/* SPDX-License-Identifier: MIT
 *
 * The matrix method of brute force: distances to a matrix, selection from its rows.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_MATRIX_CUH
#define ADJI_GPU_BRUTE_BRUTE_MATRIX_CUH

#include "gpu/brute/brute.cuh"

/* Runs in the order of the compute stream. */
adj_status adji_brute_matrix(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice);

#endif
