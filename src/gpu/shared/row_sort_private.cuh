/* SPDX-License-Identifier: MIT
 *
 * How the rows of a window are sorted by their lengths: the parts of row_sort.cu by type, one file each, so that they
 * compile side by side.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_PRIVATE_CUH
#define ADJI_GPU_SHARED_ROW_SORT_PRIVATE_CUH

#include "gpu/shared/row_sort_job.cuh"
#include "gpu/shared/row_sort_kernels.cuh"

/* Ids with sums of that type, in either order. */
adj_status adji_row_sort_f32(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job);
adj_status adji_row_sort_f64(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job);
/* The rows with more than `least` entries, with or without sums. */
adj_status adji_row_sort_long(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, uint64_t least);

namespace {

/* So many blocks keep a device busy to the end, however long their rows are. */
enum { FEW_BLOCKS = 16384 };

template <int LEAST, int MOST, class ENTRIES>
adj_status sort_class(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, const ENTRIES &entries) {
  if (job->longest <= LEAST * ADJI_WARP || job->longest < 2) return ADJ_OK;
  uint64_t rows = job->end_row - job->first_row;
  sort_rows<LEAST, MOST><<<adji_blocks_for(rows, WARPS), WARPS * ADJI_WARP, 0, stream>>>(
      entries, job->offsets, job->first_row, job->end_row, job->base);
  ADJI_LAUNCHED(gpu, "sort_rows");
  return ADJ_OK;
}

template <int EACH, int DENSE, class ENTRIES>
adj_status sort_together(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, const ENTRIES &entries) {
  if (job->longest <= EACH * ADJI_WARP * DENSE / 2) return ADJ_OK;
  constexpr uint32_t BYTES = dense_bytes<EACH, DENSE, ENTRIES>();
  static_assert(BYTES <= 96 << 10, "every device has as much");
  ADJI_CUDA(gpu, cudaFuncSetAttribute(sort_rows_together<EACH, DENSE, ENTRIES>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(BYTES)));
  uint64_t rows = job->end_row - job->first_row, many = rows / FEW_BLOCKS;
  many = many < 1 ? 1 : many > ADJI_WARP ? ADJI_WARP : many;
  sort_rows_together<EACH, DENSE>
      <<<adji_blocks_for(rows, static_cast<uint32_t>(many)), DENSE * ADJI_WARP, BYTES, stream>>>(
          entries, job->offsets, job->first_row, job->end_row, job->base, static_cast<uint32_t>(many));
  ADJI_LAUNCHED(gpu, "sort_rows_together");
  return ADJ_OK;
}

}  // namespace

#endif
