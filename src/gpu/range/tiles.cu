/* SPDX-License-Identifier: MIT
 *
 * Which kernel a job needs.
 */
#include "gpu/range/tiles.cuh"

#include "gpu/range/tiles_private.cuh"

bool adji_tiles_can_keep_tile_hits(const adji_measure *measure, adj_type type, uint32_t dim,
                                   const adji_gpu_grid *grid) {
  return measure->step == ADJI_STEP_L2 && type == ADJ_F32 && (dim == 2 || dim == 3) && grid->row_count <= ADJI_WARP;
}

adj_status adji_tiles_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  if (!job->query_count || !job->right->count) return ADJ_OK;
  bool f64 = job->type == ADJ_F64;
  if (job->measure->step == ADJI_STEP_L2)
    return f64 ? adji_tiles_f64(gpu, stream, job) : adji_tiles_f32(gpu, stream, job);
  return f64 ? adji_tiles_metrics_f64(gpu, stream, job) : adji_tiles_metrics_f32(gpu, stream, job);
}
