/* SPDX-License-Identifier: MIT
 *
 * Compares every query with every right point, in f32. Also chooses the type that a job needs.
 */
#include "gpu/range/all_pairs_kernel.cuh"

adj_status adji_all_pairs_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job, bool whole) {
  return launch_step<float>(gpu, stream, job, whole);
}

adj_status adji_all_pairs_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job, bool whole) {
  if (!job->query_count || !job->right->count) return ADJ_OK;
  return job->type == ADJ_F64 ? adji_all_pairs_f64(gpu, stream, job, whole)
                              : adji_all_pairs_f32(gpu, stream, job, whole);
}
