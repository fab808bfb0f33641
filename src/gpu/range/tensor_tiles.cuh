/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels for L2 in many dimensions. Products of half-precision copies on tensor cores are the
 * prefilter; pairs that pass get their canonical distance.
 */
#ifndef ADJI_GPU_RANGE_TENSOR_TILES_CUH
#define ADJI_GPU_RANGE_TENSOR_TILES_CUH

#include "gpu/range/halves.cuh"
#include "gpu/range/tiles_job.cuh"

/* The points as given, on the device. */
typedef struct adji_tensor_tiles_rows {
  adji_gpu_rows left, right;
} adji_tensor_tiles_rows;

/* Whether the device has enough shared memory for copies of this width. */
bool adji_tensor_tiles_fit(const adji_gpu *gpu, uint32_t width);

/* Runs a job of f32 and L2 without images. The results are those of adji_tiles_run, with one exception: a count without
 * row chunks may also be split along the candidates. It then adds to degrees, which were 0 before, and does not report
 * the longest row. whole: the count is not split. */
adj_status adji_tensor_tiles_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job,
                                 const adji_gpu_halves *halves, const adji_tensor_tiles_rows *rows, bool whole);

#endif
