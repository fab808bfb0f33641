/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for metrics other than L2, in f64.
 */
#include "gpu/range/tiles.cuh"
#include "gpu/range/tiles_kernel.cuh"

adj_status adji_tiles_metrics_f64(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  return launch_metric<double>(gpu, stream, job);
}
