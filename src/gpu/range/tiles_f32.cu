/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for f32: a separate one for each common dimension of L2.
 */
#include "gpu/range/tiles_kernel.cuh"
#include "gpu/range/tiles_private.cuh"

template <int DIM>
static adj_status launch_l2(adji_gpu *gpu, cudaStream_t stream, const tiles<float> &job) {
  return launch_as<float, ADJI_STEP_L2, DIM>(gpu, stream, job);
}

adj_status adji_tiles_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  tiles<float> typed = with_types<float>(gpu, job);
  switch (job->dim) {
    case 2:
      return launch_l2<2>(gpu, stream, typed);
    case 3:
      return launch_l2<3>(gpu, stream, typed);
    case 4:
      return launch_l2<4>(gpu, stream, typed);
    case 5:
      return launch_l2<5>(gpu, stream, typed);
    case 6:
      return launch_l2<6>(gpu, stream, typed);
    default:
      return launch_l2<0>(gpu, stream, typed);
  }
}
