/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for f64.
 */
#include "gpu/range/tiles_kernel.cuh"
#include "gpu/range/tiles_private.cuh"

adj_status adji_tiles_f64(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  tiles<double> typed = with_types<double>(gpu, job);
  switch (job->dim) {
    case 2:
      return launch_as<double, ADJI_STEP_L2, 2>(gpu, stream, typed);
    case 3:
      return launch_as<double, ADJI_STEP_L2, 3>(gpu, stream, typed);
    default:
      return launch_as<double, ADJI_STEP_L2, 0>(gpu, stream, typed);
  }
}
