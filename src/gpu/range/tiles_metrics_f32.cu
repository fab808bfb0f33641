/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for metrics other than L2, in f32.
 */
#include "gpu/range/tiles.cuh"
#include "gpu/range/tiles_kernel.cuh"

adj_status adji_tiles_metrics_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  return launch_metric<float>(gpu, stream, job);
}
