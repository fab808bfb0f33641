/* SPDX-License-Identifier: MIT
 *
 * Arrays, added up and filtered by CUB.
 */
#include "gpu/shared/arrays.cuh"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

struct widen {
  __host__ __device__ uint64_t operator()(uint32_t x) const {
    return x;
  }
};

adj_status adji_add_up(adji_gpu *gpu, adji_block *room, const uint32_t *from, uint64_t *to, uint64_t count) {
  auto wide = thrust::make_transform_iterator(from, widen());
  ADJI_CUB(gpu, room, cub::DeviceScan::ExclusiveSum, wide, to, count);
  return ADJ_OK;
}

adj_status adji_add_up(adji_gpu *gpu, adji_block *room, const uint64_t *from, uint64_t *to, uint64_t count) {
  ADJI_CUB(gpu, room, cub::DeviceScan::ExclusiveSum, from, to, count);
  return ADJ_OK;
}

adj_status adji_run_maximum(adji_gpu *gpu, adji_block *room, uint32_t *numbers, uint64_t count) {
  ADJI_CUB(gpu, room, cub::DeviceScan::InclusiveScan, numbers, numbers, cuda::maximum<>{}, count);
  return ADJ_OK;
}

struct is_wanted {
  adji_wanted_rows rows;
  __device__ bool operator()(uint32_t position) const {
    return rows.ids[position] >= rows.first && rows.ids[position] < rows.end;
  }
};

adj_status adji_list_wanted(adji_gpu *gpu, adji_block *room, const uint32_t *from, uint64_t count,
                            const adji_wanted_rows &wanted, uint32_t *to) {
  unsigned long long *found = adji_answer_at(gpu, ADJI_ANSWER_ITEMS);
  is_wanted test = {wanted};
  if (from)
    ADJI_CUB(gpu, room, cub::DeviceSelect::If, from, to, found, count, test);
  else
    ADJI_CUB(gpu, room, cub::DeviceSelect::If, thrust::make_counting_iterator<uint32_t>(0), to, found, count, test);
  return ADJ_OK;
}
