/* SPDX-License-Identifier: MIT
 *
 * Arrays sorted, added up and filtered by CUB.
 */
#include "gpu/shared/arrays.cuh"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#include <cub/device/device_select.cuh>

/* Calls a CUB function twice: for the size of the workspace, then to run it in `room`. On failure, returns from the
 * enclosing function. */
#define CUB(gpu, stream, room, function, ...)                           \
  do {                                                                  \
    size_t bytes_ = 0;                                                  \
    ADJI_CUDA(gpu, function(NULL, bytes_, __VA_ARGS__, stream));        \
    adj_status status_ = adji_block_reserve(gpu, stream, bytes_, room); \
    if (status_) return status_;                                        \
    ADJI_CUDA(gpu, function((room)->at, bytes_, __VA_ARGS__, stream));  \
  } while (0)

/* ---- Sorting --------------------------------------------------------------------------------- */

/* Converts pairs to CUB's buffers, and back. */
template <class KEY, class VALUE>
struct buffers {
  cub::DoubleBuffer<KEY> keys;
  cub::DoubleBuffer<VALUE> values;

  explicit buffers(const adji_pairs<KEY, VALUE> &pairs)
      : keys(pairs.keys, pairs.other_keys), values(pairs.values, pairs.other_values) {
  }
  adji_pairs<KEY, VALUE> pairs() const {
    return {keys.d_buffers[keys.selector], keys.d_buffers[1 - keys.selector], values.d_buffers[values.selector],
            values.d_buffers[1 - values.selector]};
  }
};

template <class KEY>
adj_status adji_sort_pairs(adji_gpu *gpu, cudaStream_t stream, adji_block *room, adji_pairs<KEY> *pairs, uint64_t count,
                           uint32_t bits) {
  int end = static_cast<int>(bits);
  buffers<KEY, uint32_t> b(*pairs);
  if (pairs->values)
    CUB(gpu, stream, room, cub::DeviceRadixSort::SortPairs, b.keys, b.values, count, 0, end);
  else if constexpr (sizeof(KEY) == 4)
    CUB(gpu, stream, room, cub::DeviceRadixSort::SortKeys, b.keys, count, 0, end);
  *pairs = b.pairs();
  return ADJ_OK;
}
template adj_status adji_sort_pairs(adji_gpu *, cudaStream_t, adji_block *, adji_pairs<uint32_t> *, uint64_t, uint32_t);
template adj_status adji_sort_pairs(adji_gpu *, cudaStream_t, adji_block *, adji_pairs<uint64_t> *, uint64_t, uint32_t);

/* Where the i-th segment begins or ends. */
struct segment_bound {
  const int64_t *at;
  int64_t each, next;
  __host__ __device__ int64_t operator()(int64_t i) const {
    return at ? at[i] : (i + next) * each;
  }
};

static auto bounds_of(const int64_t *at, uint64_t each, int64_t next) {
  segment_bound bound = {at, static_cast<int64_t>(each), next};
  return thrust::make_transform_iterator(thrust::make_counting_iterator<int64_t>(0), bound);
}

template <class KEY, class VALUE>
adj_status adji_sort_segments(adji_gpu *gpu, cudaStream_t stream, adji_block *room, adji_pairs<KEY, VALUE> *pairs,
                              const adji_segments *segments, uint32_t bits) {
  int64_t entries = static_cast<int64_t>(segments->entries), count = static_cast<int64_t>(segments->count);
  auto begins = bounds_of(segments->begins, segments->each, 0), ends = bounds_of(segments->ends, segments->each, 1);
  int end = static_cast<int>(bits);
  buffers<KEY, VALUE> b(*pairs);
  if (pairs->values)
    CUB(gpu, stream, room, cub::DeviceSegmentedRadixSort::SortPairs, b.keys, b.values, entries, count, begins, ends, 0,
        end);
  else if constexpr (sizeof(KEY) + sizeof(VALUE) == 8)
    CUB(gpu, stream, room, cub::DeviceSegmentedRadixSort::SortKeys, b.keys, entries, count, begins, ends, 0, end);
  *pairs = b.pairs();
  return ADJ_OK;
}
#define SEGMENTS_OF(KEY, VALUE)                                                                            \
  template adj_status adji_sort_segments(adji_gpu *, cudaStream_t, adji_block *, adji_pairs<KEY, VALUE> *, \
                                         const adji_segments *, uint32_t);
SEGMENTS_OF(uint32_t, uint32_t)
SEGMENTS_OF(uint32_t, uint64_t)
SEGMENTS_OF(uint64_t, uint32_t)

/* ---- Adding up, filtering -------------------------------------------------------------------- */

struct widen {
  __host__ __device__ uint64_t operator()(uint32_t x) const {
    return x;
  }
};

adj_status adji_add_up(adji_gpu *gpu, adji_block *room, const uint32_t *from, uint64_t *to, uint64_t count) {
  auto wide = thrust::make_transform_iterator(from, widen());
  CUB(gpu, gpu->compute, room, cub::DeviceScan::ExclusiveSum, wide, to, count);
  return ADJ_OK;
}

adj_status adji_add_up(adji_gpu *gpu, adji_block *room, const uint64_t *from, uint64_t *to, uint64_t count) {
  CUB(gpu, gpu->compute, room, cub::DeviceScan::ExclusiveSum, from, to, count);
  return ADJ_OK;
}

adj_status adji_run_maximum(adji_gpu *gpu, adji_block *room, uint32_t *numbers, uint64_t count) {
  CUB(gpu, gpu->compute, room, cub::DeviceScan::InclusiveScan, numbers, numbers, cuda::maximum<>{}, count);
  return ADJ_OK;
}

struct is_wanted {
  adji_wanted_rows rows;
  __device__ bool operator()(uint32_t position) const {
    uint32_t id = rows.ids[position], row = rows.places ? rows.places[id] : id;
    return row >= rows.first && row < rows.end;
  }
};

adj_status adji_list_wanted(adji_gpu *gpu, adji_block *room, const uint32_t *from, uint64_t count,
                            const adji_wanted_rows &wanted, uint32_t *to) {
  unsigned long long *found = adji_answer_at(gpu, ADJI_ANSWER_ITEMS);
  is_wanted test = {wanted};
  if (from)
    CUB(gpu, gpu->compute, room, cub::DeviceSelect::If, from, to, found, count, test);
  else
    CUB(gpu, gpu->compute, room, cub::DeviceSelect::If, thrust::make_counting_iterator<uint32_t>(0), to, found, count,
        test);
  return ADJ_OK;
}
