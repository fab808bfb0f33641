/* SPDX-License-Identifier: MIT
 *
 * Instances of knn_per_query.cuh: L2 in f32 in two, three and six dimensions, and one for everything else.
 */
#include "gpu/knn/knn_per_query.cuh"

template <class T>
static adj_status per_query_any(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  switch (job->measure->step) {
    case ADJI_STEP_L1:
      return launch_per_query_k<T, ADJI_STEP_L1, 0>(gpu, stream, job);
    case ADJI_STEP_LINF:
      return launch_per_query_k<T, ADJI_STEP_LINF, 0>(gpu, stream, job);
    default:
      return launch_per_query_k<T, ADJI_STEP_L2, 0>(gpu, stream, job);
  }
}

adj_status adji_knn_per_query(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  if (job->type == ADJ_F64) return per_query_any<double>(gpu, stream, job);
  if (job->measure->step == ADJI_STEP_L2) {
    if (job->dim == 2) return launch_per_query_k<float, ADJI_STEP_L2, 2>(gpu, stream, job);
    if (job->dim == 3) return launch_per_query_k<float, ADJI_STEP_L2, 3>(gpu, stream, job);
    if (job->dim == 6) return launch_per_query_k<float, ADJI_STEP_L2, 6>(gpu, stream, job);
  }
  return per_query_any<float>(gpu, stream, job);
}
