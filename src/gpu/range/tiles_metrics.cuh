/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for metrics other than L2, and for periodic boxes: any number of dimensions. Those of Lp,
 * and of periodic boxes but for L2, share kernels. tiles_metrics_f32.cu and tiles_metrics_f64.cu.
 */
#ifndef ADJI_GPU_RANGE_TILES_METRICS_CUH
#define ADJI_GPU_RANGE_TILES_METRICS_CUH

#include "gpu/range/tiles_kernel.cuh"
#include "gpu/range/tiles_private.cuh"

namespace {

template <class T>
adj_status launch_metric(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
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

}  // namespace

#endif
