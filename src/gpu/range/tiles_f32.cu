/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for L2 in f32: a separate one for each common dimension. Those of dimensions 4 to 6 are in
 * tiles_f32_4_to_6.cu, so that they compile in parallel.
 */
#include "gpu/range/tiles_kernel.cuh"
#include "gpu/range/tiles_private.cuh"

adj_status adji_tiles_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  if (job->dim >= 4 && job->dim <= 6) return adji_tiles_f32_4_to_6(gpu, stream, job);
  tiles<float> typed = with_types<float>(gpu, job);
  if (job->dim == 2) return launch_as<float, ADJI_STEP_L2, 2>(gpu, stream, typed);
  if (job->dim == 3) return launch_as<float, ADJI_STEP_L2, 3>(gpu, stream, typed);
  return launch_as<float, ADJI_STEP_L2, 0>(gpu, stream, typed);
}
