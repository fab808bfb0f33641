/* SPDX-License-Identifier: MIT
 *
 * Instances of knn_dense.cuh: L2 in up to six dimensions in f32, and in two and three dimensions in f64.
 */
#include "gpu/knn/knn_dense.cuh"

bool adji_knn_has_dense(adj_type type, int step, uint32_t dim, uint32_t k) {
  bool kernel = type == ADJ_F32 ? dim <= ADJI_TREE_DIMS : dim == 2 || dim == 3;
  return kernel && step == ADJI_STEP_L2 && k <= ADJI_MOST_DENSE;
}

adj_status adji_knn_dense(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  if (job->type == ADJ_F64)
    return job->dim == 2 ? launch_dense_k<double, 2>(gpu, stream, job) : launch_dense_k<double, 3>(gpu, stream, job);
  switch (job->dim) {
    case 1:
      return launch_dense_k<float, 1>(gpu, stream, job);
    case 2:
      return launch_dense_k<float, 2>(gpu, stream, job);
    case 3:
      return launch_dense_k<float, 3>(gpu, stream, job);
    case 4:
      return launch_dense_k<float, 4>(gpu, stream, job);
    case 5:
      return launch_dense_k<float, 5>(gpu, stream, job);
    default:
      return launch_dense_k<float, 6>(gpu, stream, job);
  }
}
