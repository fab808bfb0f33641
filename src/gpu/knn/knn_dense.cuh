/* SPDX-License-Identifier: MIT
 *
 * The dense kernel of kNN joins: a warp for 32 queries that are near each other.
 */
#ifndef ADJI_GPU_KNN_KNN_DENSE_CUH
#define ADJI_GPU_KNN_KNN_DENSE_CUH

#include "gpu/knn/knn_job.cuh"

/* Whether there is a dense kernel. The per_query kernel (knn_per_query.cuh) always works. */
bool adji_knn_has_dense(adj_type type, int step, uint32_t dim, uint32_t k);
adj_status adji_knn_dense(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job);

#endif
