/* SPDX-License-Identifier: MIT
 *
 * How the rows of a window are sorted, by length: the parts of row_sort.cu, one file per type, so that they compile in
 * parallel.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_PRIVATE_CUH
#define ADJI_GPU_SHARED_ROW_SORT_PRIVATE_CUH

#include "gpu/shared/row_sort.cuh"
#include "gpu/shared/row_sort_rows.cuh"

/* Rows of ids with sums of that type, in either order. */
adj_status adji_row_sort_f32(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job);
adj_status adji_row_sort_f64(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job);
/* Rows with more than `least` entries, with or without sums. */
adj_status adji_row_sort_long(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, uint64_t least);

namespace {

/* This many blocks keep a device busy to the end, however long their rows are. */
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

/* The number of rows per warp or block; a block of threads handles `at_once` rows at the same time. */
inline uint32_t rows_of_each(uint64_t rows, uint32_t at_once) {
  uint64_t rows_each = rows / (FEW_BLOCKS * at_once);
  return rows_each < 1 ? 1 : rows_each > MOST_ROWS_EACH ? MOST_ROWS_EACH : static_cast<uint32_t>(rows_each);
}

template <int EACH, int DENSE, class ENTRIES>
adj_status sort_together(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, const ENTRIES &entries) {
  if (job->longest <= EACH * ADJI_WARP * DENSE / 2) return ADJ_OK;
  constexpr uint32_t BYTES = dense_bytes<EACH, DENSE, ENTRIES>();
  static_assert(BYTES <= 96 << 10, "every device has as much");
  ADJI_CUDA(gpu, cudaFuncSetAttribute(sort_rows_together<EACH, DENSE, ENTRIES>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(BYTES)));
  uint64_t rows = job->end_row - job->first_row;
  uint32_t rows_each = rows_of_each(rows, 1);
  sort_rows_together<EACH, DENSE><<<adji_blocks_for(rows, rows_each), DENSE * ADJI_WARP, BYTES, stream>>>(
      entries, job->offsets, job->first_row, job->end_row, job->base, rows_each);
  ADJI_LAUNCHED(gpu, "sort_rows_together");
  return ADJ_OK;
}

template <class SHAPE, int BLOCKS, class ENTRIES>
adj_status sort_shape(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, const ENTRIES &entries) {
  if (job->longest <= SHAPE::LEAST) return ADJ_OK;
  constexpr uint32_t BYTES = SHAPE::ROWS * SHAPE::KEYS * sizeof(typename ENTRIES::key);
  static_assert(BYTES <= 96 << 10, "every device has as much");
  ADJI_CUDA(gpu, cudaFuncSetAttribute(sort_rows_by_buckets<SHAPE, BLOCKS, ENTRIES>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(BYTES)));
  uint64_t rows = job->end_row - job->first_row;
  uint32_t rows_each = rows_of_each(rows, SHAPE::ROWS);
  sort_rows_by_buckets<SHAPE, BLOCKS>
      <<<adji_blocks_for(rows, rows_each * SHAPE::ROWS), SHAPE::ROWS * SHAPE::THREADS, BYTES, stream>>>(
          entries, job->offsets, job->first_row, job->end_row, job->base, rows_each);
  ADJI_LAUNCHED(gpu, "sort_rows_by_buckets");
  return ADJ_OK;
}

/* Sorts rows with sums, by length: up to EACH * 32 * 8 entries in registers. */
template <int EACH, class ENTRIES>
adj_status sort_lengths(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, const ENTRIES &entries) {
  adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
  if (!status) status = sort_class<8, EACH>(gpu, stream, job, entries);
  if (!status) status = sort_together<EACH, 2>(gpu, stream, job, entries);
  if (!status) status = sort_together<EACH, 4>(gpu, stream, job, entries);
  if (!status) status = sort_together<EACH, 8>(gpu, stream, job, entries);
  return status ? status : adji_row_sort_long(gpu, stream, job, EACH * ADJI_WARP * 8);
}

}  // namespace

#endif
