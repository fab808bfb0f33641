/* SPDX-License-Identifier: MIT
 *
 * Instances of knn_grid_kernel.cuh: L2 in f32 in the papers' dimensions, and one for everything else.
 */
#include "gpu/papers/knn_grid_kernel.cuh"

template <class T>
static adj_status in_cells_any(adji_gpu *gpu, cudaStream_t stream, const adji_knn_grid_job *job) {
  switch (job->common->measure->step) {
    case ADJI_STEP_L1:
      return launch_in_cells<T, ADJI_STEP_L1, 0>(gpu, stream, job);
    case ADJI_STEP_LINF:
      return launch_in_cells<T, ADJI_STEP_LINF, 0>(gpu, stream, job);
    default:
      return launch_in_cells<T, ADJI_STEP_L2, 0>(gpu, stream, job);
  }
}

adj_status adji_knn_grid_run(adji_gpu *gpu, cudaStream_t stream, const adji_knn_grid_job *job) {
  const adji_knn_job *common = job->common;
  if (!common->query_count) return ADJ_OK;
  if (common->type == ADJ_F64) return in_cells_any<double>(gpu, stream, job);
  if (common->measure->step == ADJI_STEP_L2) {
    if (common->dim == 2) return launch_in_cells<float, ADJI_STEP_L2, 2>(gpu, stream, job);
    if (common->dim == 3) return launch_in_cells<float, ADJI_STEP_L2, 3>(gpu, stream, job);
    if (common->dim == 4) return launch_in_cells<float, ADJI_STEP_L2, 4>(gpu, stream, job);
    if (common->dim == 6) return launch_in_cells<float, ADJI_STEP_L2, 6>(gpu, stream, job);
  }
  return in_cells_any<float>(gpu, stream, job);
}
