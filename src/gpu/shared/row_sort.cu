/* SPDX-License-Identifier: MIT
 *
 * Sorts rows by their length. A warp sorts a row in its registers; several warps of a block sort longer ones
 * (row_sort_kernels.cuh), up to 8,192 entries, or 4,096 with f64 sums. Longer rows go to CUB.
 */
#include <cub/device/device_segmented_sort.cuh>

#include "gpu/shared/row_sort.cuh"
#include "gpu/shared/row_sort_kernels.cuh"

namespace {

/* So many blocks keep a device busy to the end, however long their rows are. */
enum { FEW_BLOCKS = 16384 };

/* ---- Rows in registers ----------------------------------------------------------------------------------------------
 */

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

/* ---- Long rows
 * -------------------------------------------------------------------------------------------------------- */

/* Where the rows longer than `least` begin and end, in any order; *count: how many. */
__global__ void list_long(const uint64_t *offsets, uint64_t first_row, uint64_t end_row, uint64_t base, uint64_t least,
                          int64_t *begins, int64_t *ends, unsigned long long *count) {
  uint64_t row = first_row + static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= end_row || offsets[row + 1] - offsets[row] <= least) return;
  unsigned long long at = atomicAdd(count, 1ull);
  begins[at] = static_cast<int64_t>(offsets[row] - base);
  ends[at] = static_cast<int64_t>(offsets[row + 1] - base);
}

/* One block per row: from one array to another. */
template <class V>
__global__ void copy_long(const int64_t *begins, const int64_t *ends, const V *from, V *to) {
  for (int64_t i = begins[blockIdx.x] + threadIdx.x; i < ends[blockIdx.x]; i += blockDim.x)
    to[i] = from[i];
}

struct long_rows {
  adji_gpu *gpu;
  cudaStream_t stream;
  const adji_row_sort_job *job;
  adji_block begins, ends, ids, sums, temporary;
  uint64_t count;
};

#define SEGMENTED(l, function, ...)                                                                                    \
  do {                                                                                                                 \
    size_t bytes_ = 0;                                                                                                 \
    const int64_t *begins_ = adji_at<int64_t>((l)->begins), *ends_ = adji_at<int64_t>((l)->ends);                      \
    int64_t items_ = static_cast<int64_t>((l)->job->pairs), rows_ = static_cast<int64_t>((l)->count);                  \
    ADJI_CUDA((l)->gpu, function(NULL, bytes_, __VA_ARGS__, items_, rows_, begins_, ends_, (l)->stream));              \
    adj_status status_ = adji_block_reserve((l)->gpu, (l)->stream, bytes_, &(l)->temporary);                           \
    if (status_) return status_;                                                                                       \
    ADJI_CUDA((l)->gpu, function((l)->temporary.at, bytes_, __VA_ARGS__, items_, rows_, begins_, ends_, (l)->stream)); \
  } while (0)

template <class V>
adj_status copy_back(long_rows *l, const adji_block &from, void *to) {
  copy_long<V><<<static_cast<uint32_t>(l->count), 256, 0, l->stream>>>(
      adji_at<int64_t>(l->begins), adji_at<int64_t>(l->ends), adji_at<V>(from), static_cast<V *>(to));
  ADJI_LAUNCHED(l->gpu, "copy_long");
  return ADJ_OK;
}

adj_status sort_long_ids(long_rows *l) {
  const uint32_t *ids = l->job->ids;
  SEGMENTED(l, cub::DeviceSegmentedSort::SortKeys, ids, adji_at<uint32_t>(l->ids));
  return copy_back<uint32_t>(l, l->ids, l->job->ids);
}

/* By id first; then by sum if wanted: the second sort is stable. */
template <class T>
adj_status sort_long_pairs(long_rows *l) {
  const uint32_t *ids = l->job->ids;
  T *sums = static_cast<T *>(l->job->sums);
  SEGMENTED(l, cub::DeviceSegmentedSort::SortPairs, ids, adji_at<uint32_t>(l->ids), static_cast<const T *>(sums),
            adji_at<T>(l->sums));
  if (l->job->order == ADJ_ORDER_ID) {
    adj_status status = copy_back<uint32_t>(l, l->ids, l->job->ids);
    return status ? status : copy_back<T>(l, l->sums, sums);
  }
  adj_status status = ADJ_OK;
  SEGMENTED(l, cub::DeviceSegmentedSort::StableSortPairs, static_cast<const T *>(adji_at<T>(l->sums)), sums,
            static_cast<const uint32_t *>(adji_at<uint32_t>(l->ids)), l->job->ids);
  return status;
}

adj_status find_long(long_rows *l, uint64_t least) {
  const adji_row_sort_job *job = l->job;
  uint64_t most = job->pairs / least + 1, rows = job->end_row - job->first_row;
  adj_status status = adji_block_get(l->gpu, l->stream, most * 8, "long rows", &l->begins);
  if (!status) status = adji_block_get(l->gpu, l->stream, most * 8, "long rows", &l->ends);
  if (!status) status = adji_answer_clear(l->gpu, l->stream, ADJI_ANSWER_LONG, 1);
  if (status) return status;
  list_long<<<adji_blocks_for(rows, 256), 256, 0, l->stream>>>(
      job->offsets, job->first_row, job->end_row, job->base, least, adji_at<int64_t>(l->begins),
      adji_at<int64_t>(l->ends), adji_answer_at(l->gpu, ADJI_ANSWER_LONG));
  ADJI_LAUNCHED(l->gpu, "list_long");
  status = adji_answers_fetch(l->gpu, l->stream);
  l->count = l->gpu->answers[ADJI_ANSWER_LONG];
  return status;
}

adj_status sort_found(long_rows *l) {
  const adji_row_sort_job *job = l->job;
  size_t size = job->type == ADJ_F64 ? 8 : 4;
  adj_status status = adji_block_get(l->gpu, l->stream, job->pairs * 4, "long rows", &l->ids);
  if (!status && job->sums) status = adji_block_get(l->gpu, l->stream, job->pairs * size, "long rows", &l->sums);
  if (status) return status;
  if (!job->sums) return sort_long_ids(l);
  return job->type == ADJ_F64 ? sort_long_pairs<double>(l) : sort_long_pairs<float>(l);
}

adj_status sort_long(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, uint64_t least) {
  if (job->longest <= least) return ADJ_OK;
  long_rows l = {gpu, stream, job, {}, {}, {}, {}, {}, 0};
  adj_status status = find_long(&l, least);
  if (!status && l.count) status = sort_found(&l);
  adji_block *blocks[] = {&l.begins, &l.ends, &l.ids, &l.sums, &l.temporary};
  for (adji_block *block : blocks)
    adji_block_free(gpu, stream, block);
  return status;
}

/* ---- All rows
 * ----------------------------------------------------------------------------------------------------------- */

adj_status sort_ids(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  ids_alone entries = {job->ids};
  adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
  if (!status) status = sort_class<8, 32>(gpu, stream, job, entries);
  if (!status) status = sort_class<32, 64>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 4>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 8>(gpu, stream, job, entries);
  return status ? status : sort_long(gpu, stream, job, 32 * ADJI_WARP * 8);
}

template <bool BY_SUM>
adj_status sort_with_floats(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  with_floats<BY_SUM> entries = {job->ids, static_cast<float *>(job->sums)};
  adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
  if (!status) status = sort_class<8, 32>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 2>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 4>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 8>(gpu, stream, job, entries);
  return status ? status : sort_long(gpu, stream, job, 32 * ADJI_WARP * 8);
}

template <bool BY_SUM>
adj_status sort_with_doubles(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  with_doubles<BY_SUM> entries = {job->ids, static_cast<double *>(job->sums)};
  adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
  if (!status) status = sort_class<8, 16>(gpu, stream, job, entries);
  if (!status) status = sort_together<16, 2>(gpu, stream, job, entries);
  if (!status) status = sort_together<16, 4>(gpu, stream, job, entries);
  if (!status) status = sort_together<16, 8>(gpu, stream, job, entries);
  return status ? status : sort_long(gpu, stream, job, 16 * ADJI_WARP * 8);
}

template <bool BY_SUM>
adj_status sort_with_sums(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  return job->type == ADJ_F64 ? sort_with_doubles<BY_SUM>(gpu, stream, job)
                              : sort_with_floats<BY_SUM>(gpu, stream, job);
}

}  // namespace

adj_status adji_row_sort(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  if (!job->pairs || job->end_row == job->first_row) return ADJ_OK;
  if (!job->sums) return sort_ids(gpu, stream, job);
  return job->order == ADJ_ORDER_DISTANCE ? sort_with_sums<true>(gpu, stream, job)
                                          : sort_with_sums<false>(gpu, stream, job);
}
