/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for metrics other than L2, and for periodic boxes: any number of dimensions. Those of Lp,
 * and of periodic boxes but for L2, share kernels.
 */
#include "gpu/range/tiles_kernel.cuh"
#include "gpu/range/tiles_private.cuh"

template <class T>
static adj_status launch_step(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  tiles<T> typed = with_types<T>(gpu, job);
  switch (job->measure->step) {
    case ADJI_STEP_L1:
      return launch_as<T, ADJI_STEP_L1, 0>(gpu, stream, typed);
    case ADJI_STEP_LINF:
      return launch_as<T, ADJI_STEP_LINF, 0>(gpu, stream, typed);
    case ADJI_STEP_DOT:
      return launch_as<T, ADJI_STEP_DOT, 0>(gpu, stream, typed);
    case ADJI_STEP_L2_BOX:
      return launch_as<T, ADJI_STEP_L2_BOX, 0>(gpu, stream, typed);
    case ADJI_STEP_LP:
    case ADJI_STEP_L1_BOX:
    case ADJI_STEP_LINF_BOX:
    case ADJI_STEP_LP_BOX:
      return launch_as<T, RARE_STEP, 0>(gpu, stream, typed);
    default:
      return adji_fail(ADJ_E_INTERNAL, "measure: step %d has no kernel", static_cast<int>(job->measure->step));
  }
}

adj_status adji_tiles_metrics(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  return job->type == ADJ_F64 ? launch_step<double>(gpu, stream, job) : launch_step<float>(gpu, stream, job);
}
