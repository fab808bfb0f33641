/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for many dimensions where nothing is indexed: every query is compared with every right
 * point. Any metric, and both types.
 */
#ifndef ADJI_GPU_RANGE_ALL_PAIRS_CUH
#define ADJI_GPU_RANGE_ALL_PAIRS_CUH

#include "gpu/range/tiles_job.cuh"

/* Whether there are kernels for this dimension: the index must store coordinates dimension by dimension. */
static inline bool adji_all_pairs_can(uint32_t dim) {
  return !adji_gpu_width(dim);
}

/* Runs a job without images and row chunks. The results are those of adji_tiles_run, except that counts are added to
 * degrees, which were 0 before, and that the longest row is not reported. Pairs may also be cached if the job is not
 * mirrored: each then belongs to the row of its first point only. whole: one block compares a query with all points, so
 * that there are no more blocks than the queries need. */
adj_status adji_all_pairs_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job, bool whole);

/* The launches by type, one file each. */
adj_status adji_all_pairs_f32(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job, bool whole);
adj_status adji_all_pairs_f64(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job, bool whole);

#endif
