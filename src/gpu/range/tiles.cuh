/* SPDX-License-Identifier: MIT
 *
 * The range join's default kernels: a warp has 32 queries that are neighbours in the order of the grid.
 */
#ifndef ADJI_GPU_RANGE_TILES_CUH
#define ADJI_GPU_RANGE_TILES_CUH

#include "gpu/range/tiles_job.cuh"

/* Whether there are kernels that write tile hits, and fill from them. */
bool adji_tiles_can_keep_tile_hits(const adji_measure *measure, adj_type type, uint32_t dim, const adji_gpu_grid *grid);

/* Whether there are kernels that write query hits, for a job for all queries without sums. */
bool adji_tiles_can_keep_query_hits(const adji_tiles_job *job);

adj_status adji_tiles_fill_query_hits(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
adj_status adji_tiles_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);

#endif
