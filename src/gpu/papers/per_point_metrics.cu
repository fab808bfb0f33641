/* SPDX-License-Identifier: MIT
 *
 * Instances of per_point_kernel.cuh for metrics other than L2, and for periodic boxes.
 */
#include "gpu/papers/per_point_kernel.cuh"

template <class T>
static adj_status launch_step(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job) {
  points<T> typed = make_points<T>(gpu, state, job);
  switch (job->measure->step) {
#define LAUNCH(name, NAME) \
  case ADJI_STEP_##NAME:   \
    return launch_points_as<T, ADJI_STEP_##NAME, 0>(gpu, typed);
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

adj_status adji_per_point_metrics(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job) {
  return job->type == ADJ_F64 ? launch_step<double>(gpu, state, job) : launch_step<float>(gpu, state, job);
}
