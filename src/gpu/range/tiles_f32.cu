/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for L2 in f32. Those of 4 to 6 dimensions are in tiles_f32_4_to_6.cu, so that they compile
 * in parallel.
 */
#include "gpu/range/tiles.cuh"
#include "gpu/range/tiles_kernel.cuh"

adj_status adji_tiles_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  if (job->dim >= 4 && job->dim <= 6) return adji_tiles_f32_4_to_6(gpu, stream, job);
  return launch_l2<float>(gpu, stream, job);
}
