/* SPDX-License-Identifier: MIT
 *
 * The range join's default kernels: a warp has 32 queries that are neighbours in the order of the grid.
 */
#ifndef ADJI_GPU_RANGE_TILES_CUH
#define ADJI_GPU_RANGE_TILES_CUH

#include "gpu/range/tiles_job.cuh"

/* Whether there are kernels that write tile hits, or query hits, and fill from them. The job must be for all queries
 * and without sums. */
bool adji_tiles_can_keep_tile_hits(const adji_tiles_job *job);
bool adji_tiles_can_keep_query_hits(const adji_tiles_job *job);

/* Fills the rows of the queries with query hits. */
adj_status adji_tiles_fill_query_hits(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
/* Runs any other job. */
adj_status adji_tiles_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);

/* The launches of adji_tiles_run by type and metric: one file each, so that they compile in parallel. */
adj_status adji_tiles_f32_4_to_6(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
adj_status adji_tiles_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
adj_status adji_tiles_f64(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
adj_status adji_tiles_metrics_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
adj_status adji_tiles_metrics_f64(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);

#endif
