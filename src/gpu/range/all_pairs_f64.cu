/* SPDX-License-Identifier: MIT
 *
 * Compares every query with every right point, in f64.
 */
#include "gpu/range/all_pairs_kernel.cuh"

adj_status adji_all_pairs_f64(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job, bool whole) {
  return launch_step<double>(gpu, stream, job, whole);
}
