/* SPDX-License-Identifier: MIT
 *
 * The per_query kernel of kNN joins: a warp per query.
 */
#ifndef ADJI_GPU_KNN_KNN_PER_QUERY_CUH
#define ADJI_GPU_KNN_KNN_PER_QUERY_CUH

#include "gpu/knn/knn_job.cuh"

adj_status adji_knn_per_query(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job);

#endif
