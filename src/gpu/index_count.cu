/* SPDX-License-Identifier: MIT
 *
 * Building the grid's index where the directory has an entry for every cell, by counting instead of sorting:
 *
 *   1. count    a point takes the next place in its cell
 *   2. add up   from how many points cells have to where they begin: the directory
 *   3. place    every point goes to its place
 *
 * Two passes over the points and one over the directory, instead of 2 + 3 * key_bits / 8; 4 bytes a point while
 * building. Points of a cell are in the order in which they were counted, which may differ from run to run.
 */
#include <cub/cub.cuh>

#include "gpu/index_private.cuh"

enum { THREADS = 256 };

/* With so many points a cell on the average, they would wait for each other at its count. */
enum { MOST_A_CELL = 1024 };

bool adji_index_can_count(const adji_building *b) {
  const adji_gpu_index_options *o = b->options;
  uint64_t count = b->rows->count, keys = b->grid->keys;
  return !o->curve && !o->images && !o->sorted && b->key_bits <= 32 && adji_gpu_width(b->rows->dim) && count &&
         keys <= ADJI_GPU_BUCKETS(count) && keys >= count / MOST_A_CELL;
}

/* Step 1. A thread a point: counts it in the entry behind that of its cell, and notes how many came before. cells: how
 * many are not empty, unless NULL. Bound by the atomics of the L2. */
template <class T>
static __global__ void count_points(adji_gpu_grid grid, adji_gpu_rows rows, uint32_t *directory, uint32_t *before,
                                    unsigned long long *cells) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  bool first = false;
  if (i < rows.count) {
    uint32_t there = atomicAdd(directory + adji_index_number<T>(grid, rows, i) + 1, 1u);
    before[i] = there;
    first = there == 0;
  }
  int many = __syncthreads_count(first);
  if (threadIdx.x == 0 && many && cells) atomicAdd(cells, static_cast<unsigned long long>(many));
}

/* Step 3. A thread a point. Bound by memory: three sectors are written for each, which the L2 puts together. */
template <class T, int WIDTH>
static __global__ void place_points(adji_gpu_grid grid, adji_gpu_rows rows, const uint32_t *directory,
                                    const uint32_t *before, uint32_t *numbers, uint32_t *ids, T *coords) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows.count) return;
  uint32_t id = static_cast<uint32_t>(i), number = static_cast<uint32_t>(adji_index_number<T>(grid, rows, i));
  uint32_t at = directory[number] + before[i];
  numbers[at] = number;
  ids[at] = id;
  reinterpret_cast<adji_index_point<T, WIDTH> *>(coords)[at] = adji_index_load<T, WIDTH>(rows, id);
}

static adj_status make_room(adji_building *b) {
  adji_gpu_index *index = b->index;
  cudaStream_t stream = b->gpu->compute;
  uint64_t count = b->rows->count;
  index->count = count;
  adj_status status = adji_block_get(b->gpu, stream, count * 4, "cell numbers", &index->numbers_block);
  if (!status)
    status = adji_block_get(b->gpu, stream, (count + ADJI_GPU_BEHIND) * 4, "ids of the index", &index->ids_block);
  if (!status) status = adji_index_make_points(b);
  if (!status) status = adji_block_get(b->gpu, stream, count * 4, "places in cells", &b->spare_ids);
  index->numbers = index->numbers_block.at;
  index->ids = adji_at<uint32_t>(index->ids_block);
  return status;
}

static adj_status add_up(adji_building *b, uint64_t entries) {
  uint32_t *directory = adji_at<uint32_t>(b->index->directory_block);
  ADJI_CUB(b->gpu, &b->temporary, cub::DeviceScan::InclusiveSum, directory, directory, entries);
  return ADJ_OK;
}

template <class T>
static adj_status count(adji_building *b) {
  unsigned long long *cells = NULL;
  if (b->options->cells) {
    adj_status status = adji_answer_clear(b->gpu, b->gpu->compute, ADJI_ANSWER_CELLS, 1);
    if (status) return status;
    cells = adji_answer_at(b->gpu, ADJI_ANSWER_CELLS);
  }
  count_points<T><<<adji_blocks_for(b->rows->count, THREADS), THREADS, 0, b->gpu->compute>>>(
      *b->grid, *b->rows, adji_at<uint32_t>(b->index->directory_block), adji_at<uint32_t>(b->spare_ids), cells);
  ADJI_LAUNCHED(b->gpu, "count_points");
  return ADJ_OK;
}

template <class T, int WIDTH>
static adj_status place_as(adji_building *b) {
  adji_gpu_index *index = b->index;
  place_points<T, WIDTH><<<adji_blocks_for(b->rows->count, THREADS), THREADS, 0, b->gpu->compute>>>(
      *b->grid, *b->rows, adji_at<uint32_t>(index->directory_block), adji_at<uint32_t>(b->spare_ids),
      adji_at<uint32_t>(index->numbers_block), index->ids, adji_at<T>(index->coords_block));
  ADJI_LAUNCHED(b->gpu, "place_points");
  return ADJ_OK;
}

template <class T>
static adj_status place(adji_building *b) {
  switch (adji_gpu_width(b->rows->dim)) {
    case 1:
      return place_as<T, 1>(b);
    case 2:
      return place_as<T, 2>(b);
    case 4:
      return place_as<T, 4>(b);
    default:
      return place_as<T, 8>(b);
  }
}

/* The directory stays only where candidates are looked up. */
static void settle_cells(adji_building *b) {
  adji_gpu_index *index = b->index;
  index->cells.keys = b->grid->keys;
  index->cells.position_numbers = index->numbers;
  if (b->options->cells) return;
  adji_block_free(b->gpu, b->gpu->compute, &index->directory_block);
  index->cells = adji_gpu_cells{};
}

adj_status adji_index_count(adji_building *b) {
  bool wide = b->rows->type == ADJ_F64;
  uint64_t entries = b->grid->keys + 2;
  adj_status status = make_room(b);
  if (!status) status = adji_index_make_directory(b, entries);
  if (!status) status = wide ? count<double>(b) : count<float>(b);
  if (!status) status = add_up(b, entries);
  if (!status) status = wide ? place<double>(b) : place<float>(b);
  if (!status) settle_cells(b);
  return status;
}
