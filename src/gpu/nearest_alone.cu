/* SPDX-License-Identifier: MIT
 *
 * nearest_alone.cuh for squares in f32, with kernels for the plane, space and six dimensions, and for everything else.
 */
#include "gpu/nearest_alone.cuh"

template <class T>
static adj_status alone_any(adji_gpu *gpu, cudaStream_t stream, const adji_nearest_job *job) {
  switch (job->measure->step) {
    case ADJI_STEP_L1:
      return launch_alone_k<T, ADJI_STEP_L1, 0>(gpu, stream, job);
    case ADJI_STEP_LINF:
      return launch_alone_k<T, ADJI_STEP_LINF, 0>(gpu, stream, job);
    default:
      return launch_alone_k<T, ADJI_STEP_L2, 0>(gpu, stream, job);
  }
}

adj_status adji_nearest_alone(adji_gpu *gpu, cudaStream_t stream, const adji_nearest_job *job) {
  if (job->type == ADJ_F64) return alone_any<double>(gpu, stream, job);
  if (job->measure->step == ADJI_STEP_L2) {
    if (job->dim == 2) return launch_alone_k<float, ADJI_STEP_L2, 2>(gpu, stream, job);
    if (job->dim == 3) return launch_alone_k<float, ADJI_STEP_L2, 3>(gpu, stream, job);
    if (job->dim == 6) return launch_alone_k<float, ADJI_STEP_L2, 6>(gpu, stream, job);
  }
  return alone_any<float>(gpu, stream, job);
}
