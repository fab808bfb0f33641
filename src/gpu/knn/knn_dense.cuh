/* SPDX-License-Identifier: MIT
 *
 * The kernel of kNN joins for many queries that are near each other: 32 to a warp.
 */
#ifndef ADJI_GPU_KNN_KNN_DENSE_CUH
#define ADJI_GPU_KNN_KNN_DENSE_CUH

#include "gpu/knn/knn_job.cuh"

/* Whether there is a kernel for it; knn_per_query.cuh has one for everything. */
bool adji_knn_has_dense(adj_type type, int step, uint32_t dim, uint32_t k);
adj_status adji_knn_dense(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job);

#endif
