/* SPDX-License-Identifier: MIT
 *
 * Instances of per_point_kernel.cuh for L2: in f32 one each for the papers' dimensions. Abandoning sums (SHORTC) uses
 * the instance for any dimension.
 */
#include "gpu/papers/per_point_kernel.cuh"

static adj_status launch_f32(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job) {
  points<float> typed = make_points<float>(gpu, state, job);
  switch (typed.shortc ? 0 : job->dim) {
    case 2:
      return launch_points_as<float, ADJI_STEP_L2, 2>(gpu, typed);
    case 3:
      return launch_points_as<float, ADJI_STEP_L2, 3>(gpu, typed);
    case 6:
      return launch_points_as<float, ADJI_STEP_L2, 6>(gpu, typed);
    default:
      return launch_points_as<float, ADJI_STEP_L2, 0>(gpu, typed);
  }
}

adj_status adji_per_point_l2(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job) {
  if (job->type == ADJ_F32) return launch_f32(gpu, state, job);
  return launch_points_as<double, ADJI_STEP_L2, 0>(gpu, make_points<double>(gpu, state, job));
}
