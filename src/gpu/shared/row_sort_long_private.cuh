/* SPDX-License-Identifier: MIT
 *
 * Rows too long for a block's registers, sorted by CUB: what the files of row_sort_long.cu share. CUB takes long to
 * compile, so there is one file for each type.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_LONG_PRIVATE_CUH
#define ADJI_GPU_SHARED_ROW_SORT_LONG_PRIVATE_CUH

#include <cub/device/device_segmented_sort.cuh>

#include "gpu/shared/row_sort.cuh"

struct adji_long_rows {
  adji_gpu *gpu;
  cudaStream_t stream;
  const adji_row_sort_job *job;
  adji_block begins, ends, ids, sums, temporary;
  uint64_t count;
};

/* Ids with sums of that type. */
adj_status adji_sort_long_f32(adji_long_rows *l);
adj_status adji_sort_long_f64(adji_long_rows *l);

namespace {

/* With the rows listed: `function` of CUB, first for the memory it needs. */
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

/* One block per row: from one array to another. */
template <class V>
__global__ void copy_long(const int64_t *begins, const int64_t *ends, const V *from, V *to) {
  for (int64_t i = begins[blockIdx.x] + threadIdx.x; i < ends[blockIdx.x]; i += blockDim.x)
    to[i] = from[i];
}

template <class V>
adj_status copy_back(adji_long_rows *l, const adji_block &from, void *to) {
  copy_long<V><<<static_cast<uint32_t>(l->count), 256, 0, l->stream>>>(
      adji_at<int64_t>(l->begins), adji_at<int64_t>(l->ends), adji_at<V>(from), static_cast<V *>(to));
  ADJI_LAUNCHED(l->gpu, "copy_long");
  return ADJ_OK;
}

/* By id first; then by sum if wanted: the second sort is stable. */
template <class T>
adj_status sort_long_pairs(adji_long_rows *l) {
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

}  // namespace

#endif
