/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for L2 in f32 in 4 to 6 dimensions.
 */
#include "gpu/range/tiles.cuh"
#include "gpu/range/tiles_kernel.cuh"

adj_status adji_tiles_f32_4_to_6(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  tiles<float> typed = with_types<float>(job);
  if (job->dim == 4) return launch_as<float, ADJI_STEP_L2, 4>(gpu, stream, typed);
  if (job->dim == 5) return launch_as<float, ADJI_STEP_L2, 5>(gpu, stream, typed);
  return launch_as<float, ADJI_STEP_L2, 6>(gpu, stream, typed);
}
