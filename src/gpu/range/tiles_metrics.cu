/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for metrics other than L2, and for periodic boxes: any number of dimensions.
 */
#include "gpu/range/tiles_kernel.cuh"
#include "gpu/range/tiles_private.cuh"

template <class T>
static adj_status launch_step(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  tiles<T> typed = with_types<T>(gpu, job);
  switch (job->measure->step) {
#define LAUNCH(name, NAME) \
  case ADJI_STEP_##NAME:   \
    return launch_as<T, ADJI_STEP_##NAME, 0>(gpu, stream, typed);
    LAUNCH(l1, L1)
    LAUNCH(linf, LINF)
    LAUNCH(lp, LP)
    LAUNCH(dot, DOT)
    ADJI_STEP_LIST_2_(LAUNCH)
#undef LAUNCH
    default:
      return adji_fail(ADJ_E_INTERNAL, "measure: step %d has no kernel", static_cast<int>(job->measure->step));
  }
}

adj_status adji_tiles_metrics(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  return job->type == ADJ_F64 ? launch_step<double>(gpu, stream, job) : launch_step<float>(gpu, stream, job);
}
