/* SPDX-License-Identifier: MIT
 *
 * The kernels of tiles.cuh by type and metric: one file each, so that they compile in parallel.
 */
#ifndef ADJI_GPU_RANGE_TILES_PRIVATE_CUH
#define ADJI_GPU_RANGE_TILES_PRIVATE_CUH

#include "gpu/range/tiles.cuh"

adj_status adji_tiles_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
adj_status adji_tiles_f32_4_to_6(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
adj_status adji_tiles_f64(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
adj_status adji_tiles_metrics_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);
adj_status adji_tiles_metrics_f64(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);

#endif
