/* SPDX-License-Identifier: MIT
 *
 * Building the grid's index on a device.
 *
 *   1. number   a cell's number for each point (and each image of one in a periodic box)
 *   2. sort     (number, row) pairs by CUB's radix sort, which is stable, so rows ascend within a cell; or
 *               coordinates along one dimension, if they were sorted by it before
 *   3. cells    a directory from numbers to positions: one entry a number where there are few; else, for up to three
 *               axes, one for their leading bits; for more, a table of the rows of cells that are not empty
 *   4. gather   coordinates into the new order: those of a point together, or in many dimensions one after the other
 *
 * Memory, per position: 4 bytes of ids, 4 or 8 of cell numbers, the point (adji_gpu_width), and at most 8 bytes for the
 * directory, or 32 to 64 a row of cells; while sorting, 8 or 12 bytes more.
 * All steps are bound by memory: about 2 + 3 * key_bits / 8 passes over 8 bytes a point.
 */
#include <cmath>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <utility>

#include "gpu/curve.cuh"

extern "C" {
#include "gpu/staging.h"
}

enum { THREADS = 256 };

/* ---- The grid ---------------------------------------------------------------------------------------------- */

static uint32_t count_rows(const adji_grid *grid) {
  uint32_t rows = 1;
  for (uint32_t a = 1; a < grid->axis_count; a++)
    rows *= 2 * grid->axes[a - 1].reach + 1;
  return rows;
}

/* How far the cells of a row are away at least, along all axes but the last, in squares: for slabs of equal width, of
 * which those two apart are one width apart (up to roundings, see find_gaps() in tiles_flat.cuh). */
static double gap_of_row(const adji_grid *grid, uint32_t row) {
  double sum = 0;
  for (uint32_t a = grid->axis_count - 1; a--;) {
    uint32_t slabs = 2 * grid->axes[a].reach + 1, at = row % slabs;
    uint32_t away = at > grid->axes[a].reach ? at - grid->axes[a].reach : grid->axes[a].reach - at;
    row /= slabs;
    if (away < 2 || grid->axes[a].breaks || grid->axes[a].period > 0) continue;
    double gap = (away - 1) / grid->axes[a].inverse * (1 - 1e-5);
    sum += gap * gap;
  }
  return sum;
}

/* Cells of the last axis to either side that a row has candidates in: as many as its gap leaves of the limit, a sum of
 * squares; ADJI_NO_REACH: none. */
static uint32_t reach_of_row(const adji_grid *grid, uint32_t row, double limit) {
  const adji_axis *last = &grid->axes[grid->axis_count - 1];
  if (!(limit > 1e-30) || last->breaks || last->period > 0) return last->reach;
  double left = limit * 1.001 - gap_of_row(grid, row);
  if (left < 0) return ADJI_NO_REACH;
  double cells = ceil(sqrt(left) * last->inverse * (1 + 1e-5) + 1e-3);
  return cells < last->reach ? static_cast<uint32_t>(cells) : last->reach;
}

/* All combinations of slabs within reach along every axis but the last, in rows of cells, ascending. */
static void list_offsets(const adji_grid *grid, int64_t *offsets) {
  uint32_t count = 1;
  offsets[0] = 0;
  for (uint32_t a = grid->axis_count ? grid->axis_count - 1 : 0; a--;) {
    int64_t stride = static_cast<int64_t>(grid->axes[a].stride / grid->axes[grid->axis_count - 2].stride);
    uint32_t slabs = 2 * grid->axes[a].reach + 1;
    for (uint32_t s = slabs; s--;)
      for (uint32_t i = 0; i < count; i++)
        offsets[s * count + i] = offsets[i] + (static_cast<int64_t>(s) - grid->axes[a].reach) * stride;
    count *= slabs;
  }
}

/* Which combination each of these is, of the first axes and of the rest: the first axis is the most significant one. */
static void list_parts(uint32_t axes, uint32_t first_axes, uint32_t rows, adji_gpu_parts *parts) {
  uint32_t rest = 1;
  for (uint32_t a = first_axes; a < axes; a++)
    rest *= 3;
  for (uint32_t i = 0; i < rows; i++)
    parts[i] = adji_gpu_parts{static_cast<uint16_t>(i / rest), static_cast<uint16_t>(i % rest)};
}

/* Slabs of equal width, not periodic: the proof of find_gaps() in tiles_flat.cuh is for these. */
static void find_near(const adji_grid *grid, adji_gpu_near *near) {
  uint32_t axes = grid->axis_count ? grid->axis_count - 1 : 0;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const adji_axis *axis = &grid->axes[a];
    if (axis->breaks || axis->period > 0 || (a < axes && axis->reach > 1)) return;
    double width = 1 / axis->inverse;
    if (!(width < 1e18 && width > 1e-18)) return; /* whose square is no float */
    near->dim[a] = axis->dim;
    near->low[a] = axis->low;
    near->inverse[a] = axis->inverse;
    if (a < axes) near->width[a] = static_cast<float>(width * (1 - 1e-5));
    near->scale = static_cast<float>(axis->inverse * (1 + 1e-5));
    near->last_slab = static_cast<float>(axis->slabs - 1);
  }
  if (axes > ADJI_NEAR_AXES) return; /* more combinations than there is room for */
  near->axes = axes;
  near->first_axes = (axes + 1) / 2;
}

static adj_status copy_tables(adji_gpu *gpu, const adji_grid *grid, double limit, char *packed, adji_gpu_grid *out) {
  uint64_t bytes = out->row_count * sizeof(int64_t);
  list_offsets(grid, reinterpret_cast<int64_t *>(packed));
  uint32_t *reaches = reinterpret_cast<uint32_t *>(packed + bytes);
  for (uint32_t i = 0; i < out->row_count; i++) {
    reaches[i] = grid->axis_count ? reach_of_row(grid, i, limit) : 0;
    if (reaches[i] != out->reach) out->row_reach = reinterpret_cast<uint32_t *>(adji_at<char>(out->memory) + bytes);
  }
  bytes += (out->row_count * sizeof(uint32_t) + 7) / 8 * 8;
  find_near(grid, &out->near);
  list_parts(out->near.axes, out->near.first_axes, out->row_count, reinterpret_cast<adji_gpu_parts *>(packed + bytes));
  out->near.parts = reinterpret_cast<const adji_gpu_parts *>(adji_at<char>(out->memory) + bytes);
  bytes += (out->row_count * sizeof(adji_gpu_parts) + 7) / 8 * 8;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    if (!grid->axes[a].breaks) continue;
    uint64_t size = grid->axes[a].slabs * sizeof(double);
    memcpy(packed + bytes, grid->axes[a].breaks, size);
    out->axes[a].breaks = reinterpret_cast<const double *>(adji_at<char>(out->memory) + bytes);
    bytes += size;
  }
  out->row_steps = adji_at<int64_t>(out->memory);
  ADJI_CUDA(gpu, cudaMemcpyAsync(out->memory.at, packed, bytes, cudaMemcpyHostToDevice, gpu->compute));
  return ADJ_OK;
}

adj_status adji_gpu_grid_make(adji_gpu *gpu, const adji_grid *grid, double limit, adji_gpu_grid *out) {
  *out = adji_gpu_grid{};
  out->axis_count = grid->axis_count;
  out->key_bits = grid->key_bits;
  out->keys = grid->axis_count ? grid->axes[0].slabs * grid->axes[0].stride : 1;
  out->reach = grid->axis_count ? grid->axes[grid->axis_count - 1].reach : 0;
  out->row_count = count_rows(grid);
  out->row_stride = grid->axis_count > 1 ? grid->axes[grid->axis_count - 2].stride : out->keys;
  uint64_t bytes = out->row_count * (sizeof(int64_t) + sizeof(uint32_t) + sizeof(adji_gpu_parts)) + 16;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const adji_axis *from = &grid->axes[a];
    out->axes[a] =
        adji_gpu_axis{from->dim, from->slabs, from->stride, from->low, from->inverse, NULL, from->period, from->margin};
    if (from->breaks) bytes += from->slabs * sizeof(double);
  }
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "grid", &out->memory);
  if (status) return status;
  char *packed = static_cast<char *>(adji_alloc(&gpu->ctx->memory, bytes, 1, "grid"));
  status = packed ? copy_tables(gpu, grid, limit, packed, out) : ADJ_E_MEMORY;
  adji_free(&gpu->ctx->memory, packed); /* a copy from pageable memory has read it when the call returns */
  if (status) adji_gpu_grid_clear(gpu, out);
  return status;
}

void adji_gpu_grid_clear(adji_gpu *gpu, adji_gpu_grid *grid) {
  adji_block_free(gpu, gpu->compute, &grid->memory);
}

/* ---- 1. Numbers ---------------------------------------------------------------------------------------------- */

template <class T>
static __device__ double coordinate(const adji_gpu_rows &rows, uint64_t row, uint32_t j) {
  return static_cast<const T *>(rows.data)[row * rows.row_stride + j * rows.column_stride];
}

template <class T, class KEY>
static __global__ void number_rows(adji_gpu_grid grid, adji_gpu_rows rows, KEY *numbers, uint32_t *ids) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows.count) return;
  uint64_t number = 0;
#pragma unroll
  for (uint32_t a = 0; a < ADJI_MAX_AXES; a++)
    if (a < grid.axis_count)
      number += grid.axes[a].stride * adji_gpu_slab(grid.axes[a], coordinate<T>(rows, i, grid.axes[a].dim));
  numbers[i] = static_cast<KEY>(number);
  ids[i] = static_cast<uint32_t>(i);
}

/* The image of x on a periodic axis, x itself where there is none: see index/images.h. */
static __device__ double image_of(const adji_gpu_axis &axis, double x) {
  double image = x;
  if (axis.period > 0 && x <= axis.margin) image = x + axis.period;
  if (axis.period > 0 && x >= axis.period - axis.margin) image = x - axis.period;
  return image;
}

template <class T>
static __global__ void count_images(adji_gpu_grid grid, adji_gpu_rows rows, uint64_t *counts) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i > rows.count) return;
  uint64_t many = i < rows.count;
  for (uint32_t a = 0; i < rows.count && a < grid.axis_count; a++) {
    double x = coordinate<T>(rows, i, grid.axes[a].dim);
    if (image_of(grid.axes[a], x) != x) many *= 2;
  }
  counts[i] = many;
}

/* firsts: where the items of each row begin. */
template <class T, class KEY>
static __global__ void number_images(adji_gpu_grid grid, adji_gpu_rows rows, const uint64_t *firsts, KEY *numbers,
                                     uint32_t *ids) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows.count) return;
  uint64_t first = firsts[i], many = firsts[i + 1] - first;
  for (uint64_t k = 0; k < many; k++) { /* bit b of k: the image on the b-th axis that has one */
    uint64_t number = 0, bits = k;
    for (uint32_t a = 0; a < grid.axis_count; a++) {
      double x = coordinate<T>(rows, i, grid.axes[a].dim), image = image_of(grid.axes[a], x);
      if (image != x) {
        if (bits & 1) x = image;
        bits >>= 1;
      }
      number += grid.axes[a].stride * adji_gpu_slab(grid.axes[a], x);
    }
    numbers[first + k] = static_cast<KEY>(number);
    ids[first + k] = static_cast<uint32_t>(i);
  }
}

/* ---- The steps, with what they share --------------------------------------------------------------------------- */

typedef struct building {
  adji_gpu *gpu;
  const adji_gpu_grid *grid;
  const adji_gpu_rows *rows;
  const adji_gpu_index_options *options;
  adji_gpu_index *index;
  uint32_t key_bits;
  adji_block spare_numbers, spare_ids, temporary, image_counts;
} building;

static adj_status get_items(building *b, uint64_t key_size) {
  adji_gpu_index *index = b->index;
  cudaStream_t stream = b->gpu->compute;
  uint64_t ids = (index->count + ADJI_GPU_BEHIND) * 4;
  adj_status status = adji_block_get(b->gpu, stream, index->count * key_size, "cell numbers", &index->numbers_block);
  if (!status) status = adji_block_get(b->gpu, stream, index->count * key_size, "cell numbers", &b->spare_numbers);
  if (!status) status = adji_block_get(b->gpu, stream, ids, "ids of the index", &index->ids_block);
  if (!status) status = adji_block_get(b->gpu, stream, ids, "ids of the index", &b->spare_ids);
  return status;
}

template <class T, class KEY, int DIM>
static void launch_curve(building *b, KEY *numbers, uint32_t *ids) {
  if constexpr (DIM > 1)
    if (b->rows->dim < DIM) return launch_curve<T, KEY, DIM - 1>(b, numbers, ids);
  number_on_curve<T, KEY, DIM><<<adji_blocks_for(b->rows->count, THREADS), THREADS, 0, b->gpu->compute>>>(
      *b->options->curve, *b->rows, numbers, ids);
}

template <class T, class KEY>
static adj_status number_points(building *b) {
  b->index->count = b->rows->count;
  adj_status status = get_items(b, sizeof(KEY));
  if (status || !b->rows->count) return status;
  uint32_t blocks = adji_blocks_for(b->rows->count, THREADS);
  KEY *numbers = adji_at<KEY>(b->spare_numbers);
  uint32_t *ids = adji_at<uint32_t>(b->spare_ids);
  if (b->options->curve)
    launch_curve<T, KEY, ADJI_CURVE_DIMS>(b, numbers, ids);
  else
    number_rows<T, KEY><<<blocks, THREADS, 0, b->gpu->compute>>>(*b->grid, *b->rows, numbers, ids);
  ADJI_LAUNCHED(b->gpu, "number_rows");
  return ADJ_OK;
}

template <class T, class KEY>
static adj_status number_points_and_images(building *b) {
  uint64_t count = b->rows->count;
  adj_status status =
      adji_block_get(b->gpu, b->gpu->compute, 2 * (count + 1) * sizeof(uint64_t), "images", &b->image_counts);
  if (status) return status;
  uint64_t *counts = adji_at<uint64_t>(b->image_counts), *firsts = counts + count + 1;
  uint32_t blocks = adji_blocks_for(count + 1, THREADS);
  count_images<T><<<blocks, THREADS, 0, b->gpu->compute>>>(*b->grid, *b->rows, counts);
  ADJI_LAUNCHED(b->gpu, "count_images");
  ADJI_CUB(b->gpu, &b->temporary, cub::DeviceScan::ExclusiveSum, counts, firsts, count + 1);
  ADJI_CUDA(b->gpu, cudaMemcpyAsync(adji_answer_at(b->gpu, ADJI_ANSWER_ITEMS), firsts + count, sizeof(uint64_t),
                                    cudaMemcpyDeviceToDevice, b->gpu->compute));
  status = adji_answers_fetch(b->gpu, b->gpu->compute);
  if (status) return status;
  b->index->count = b->gpu->answers[ADJI_ANSWER_ITEMS];
  if (b->index->count > ADJ_MAX_COUNT)
    return adji_fail(ADJ_E_UNSUPPORTED, "box: %llu points with their images are more than %llu",
                     (unsigned long long)b->index->count, (unsigned long long)ADJ_MAX_COUNT);
  status = get_items(b, sizeof(KEY));
  if (status) return status;
  number_images<T, KEY><<<blocks, THREADS, 0, b->gpu->compute>>>(
      *b->grid, *b->rows, firsts, adji_at<KEY>(b->spare_numbers), adji_at<uint32_t>(b->spare_ids));
  ADJI_LAUNCHED(b->gpu, "number_images");
  return ADJ_OK;
}

/* ---- 2. Sort ---------------------------------------------------------------------------------------------------- */

template <class T>
static __global__ void list_coordinates(adji_gpu_rows rows, uint32_t dim, T *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows.count) to[i] = static_cast<const T *>(rows.data)[i * rows.row_stride + dim * rows.column_stride];
}

template <class KEY>
static __global__ void follow_ids(const KEY *numbers, const uint32_t *ids, uint64_t count, KEY *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = numbers[ids[i]];
}

/* Items, of which number i is row i, into the order of a coordinate. keys: room for two a row. */
template <class T, class KEY>
static adj_status sort_by_coordinate(building *b, T *keys) {
  adji_gpu_index *index = b->index;
  uint64_t count = index->count;
  uint32_t blocks = adji_blocks_for(count, THREADS), *ids = adji_at<uint32_t>(index->ids_block);
  list_coordinates<T><<<blocks, THREADS, 0, b->gpu->compute>>>(*b->rows, b->options->sort_dim, keys);
  ADJI_LAUNCHED(b->gpu, "list_coordinates");
  ADJI_CUB(b->gpu, &b->temporary, cub::DeviceRadixSort::SortPairs, keys, keys + count, adji_at<uint32_t>(b->spare_ids),
           ids, count, 0, static_cast<int>(8 * sizeof(T)));
  follow_ids<KEY><<<blocks, THREADS, 0, b->gpu->compute>>>(adji_at<KEY>(b->spare_numbers), ids, count,
                                                           adji_at<KEY>(index->numbers_block));
  ADJI_LAUNCHED(b->gpu, "follow_ids");
  std::swap(index->ids_block, b->spare_ids); /* where sort_items looks for them */
  std::swap(index->numbers_block, b->spare_numbers);
  return ADJ_OK;
}

template <class T, class KEY>
static adj_status sort_within_cells(building *b) {
  if (!b->options->sorted || !b->index->count) return ADJ_OK;
  adji_block keys = {};
  adj_status status = adji_block_get(b->gpu, b->gpu->compute, 2 * b->index->count * sizeof(T), "coordinates", &keys);
  if (!status) status = sort_by_coordinate<T, KEY>(b, adji_at<T>(keys));
  adji_block_free(b->gpu, b->gpu->compute, &keys);
  return status;
}

template <class KEY>
static adj_status sort_items(building *b) {
  adji_gpu_index *index = b->index;
  cub::DoubleBuffer<KEY> numbers(adji_at<KEY>(b->spare_numbers), adji_at<KEY>(index->numbers_block));
  cub::DoubleBuffer<uint32_t> ids(adji_at<uint32_t>(b->spare_ids), adji_at<uint32_t>(index->ids_block));
  if (index->count && b->key_bits)
    ADJI_CUB(b->gpu, &b->temporary, cub::DeviceRadixSort::SortPairs, numbers, ids, index->count, 0,
             static_cast<int>(b->key_bits));
  if (numbers.Current() == adji_at<KEY>(b->spare_numbers)) {
    adji_block other = index->numbers_block;
    index->numbers_block = b->spare_numbers;
    b->spare_numbers = other;
  }
  if (ids.Current() == adji_at<uint32_t>(b->spare_ids)) {
    adji_block other = index->ids_block;
    index->ids_block = b->spare_ids;
    b->spare_ids = other;
  }
  index->numbers = index->numbers_block.at;
  index->ids = adji_at<uint32_t>(index->ids_block);
  index->wide_numbers = sizeof(KEY) == 8;
  adji_block_free(b->gpu, b->gpu->compute, &b->spare_numbers);
  adji_block_free(b->gpu, b->gpu->compute, &b->spare_ids);
  return ADJ_OK;
}

/* ---- 3. Cells ---------------------------------------------------------------------------------------------------- */

static uint64_t most_buckets(uint64_t count) {
  return 2 * count + 1024;
}

/* The last position of each bucket writes how many positions there are up to it behind the bucket; the running maximum
 * of that is the directory. Also counts the cells. */
template <class KEY>
static __global__ void mark_ends(const KEY *numbers, uint64_t count, uint32_t shift, uint32_t *directory,
                                 unsigned long long *cells) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  bool last = false;
  if (i < count) {
    KEY number = numbers[i], next = i + 1 < count ? numbers[i + 1] : number;
    last = i + 1 == count || number != next;
    if (i + 1 == count || number >> shift != next >> shift)
      directory[(static_cast<uint64_t>(number) >> shift) + 1] = static_cast<uint32_t>(i + 1);
  }
  int many = __syncthreads_count(last);
  if (threadIdx.x == 0 && many) atomicAdd(cells, static_cast<unsigned long long>(many));
}

static adj_status get_directory(building *b, uint64_t entries) {
  adj_status status =
      adji_block_get(b->gpu, b->gpu->compute, entries * 4, "directory of cells", &b->index->directory_block);
  if (status) return status;
  ADJI_CUDA(b->gpu, cudaMemsetAsync(b->index->directory_block.at, 0, entries * 4, b->gpu->compute));
  b->index->cells.directory = adji_at<uint32_t>(b->index->directory_block);
  return ADJ_OK;
}

static adj_status run_maximum(building *b, uint64_t entries) {
  uint32_t *directory = adji_at<uint32_t>(b->index->directory_block);
  ADJI_CUB(b->gpu, &b->temporary, cub::DeviceScan::InclusiveScan, directory, directory, cuda::maximum<>{}, entries);
  return ADJ_OK;
}

/* The directory: a bucket for every number of a cell, or for so many of them that there are no more than two buckets a
 * position. */
template <class KEY>
static adj_status find_buckets(building *b) {
  adji_gpu_index *index = b->index;
  adji_gpu_cells *cells = &index->cells;
  cells->keys = b->grid->keys;
  cells->position_numbers = index->numbers;
  while (cells->keys >> cells->shift > most_buckets(index->count))
    cells->shift++;
  uint64_t entries = (cells->keys >> cells->shift) + 2;
  adj_status status = get_directory(b, entries);
  if (status) return status;
  status = adji_answer_clear(b->gpu, b->gpu->compute, ADJI_ANSWER_CELLS, 1);
  if (status) return status;
  if (index->count) {
    mark_ends<KEY><<<adji_blocks_for(index->count, THREADS), THREADS, 0, b->gpu->compute>>>(
        static_cast<const KEY *>(index->numbers), index->count, cells->shift, adji_at<uint32_t>(index->directory_block),
        adji_answer_at(b->gpu, ADJI_ANSWER_CELLS));
    ADJI_LAUNCHED(b->gpu, "mark_ends");
  }
  return run_maximum(b, entries);
}

/* Where a row of cells begins and ends in the order of the index, and a cell begins. */
template <class KEY>
struct row_marks {
  uint64_t row;
  bool first, last, first_of_cell;

  __device__ row_marks(const KEY *numbers, uint64_t count, uint64_t i, uint64_t row_stride) {
    row = numbers[i] / row_stride;
    first = i == 0 || numbers[i - 1] / row_stride != row;
    last = i + 1 == count || numbers[i + 1] / row_stride != row;
    first_of_cell = i == 0 || numbers[i - 1] != numbers[i];
  }
};

template <class KEY>
static __global__ void count_rows_of_cells(const KEY *numbers, uint64_t count, uint64_t row_stride,
                                           unsigned long long *rows, unsigned long long *cells) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  bool first = false, first_of_cell = false;
  if (i < count) {
    row_marks<KEY> marks(numbers, count, i, row_stride);
    first = marks.first;
    first_of_cell = marks.first_of_cell;
  }
  int many_rows = __syncthreads_count(first), many_cells = __syncthreads_count(first_of_cell);
  if (threadIdx.x) return;
  atomicAdd(rows, static_cast<unsigned long long>(many_rows));
  atomicAdd(cells, static_cast<unsigned long long>(many_cells));
}

/* The first position of each row takes a place in the table; with ends set, afterwards, the last one looks for it and
 * says how many there are. */
template <class KEY, bool ENDS>
static __global__ void enter_rows(const KEY *numbers, uint64_t count, uint64_t row_stride, adji_gpu_row *table,
                                  uint64_t mask) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  row_marks<KEY> marks(numbers, count, i, row_stride);
  if (!(ENDS ? marks.last : marks.first)) return;
  for (uint64_t at = adji_row_hash(marks.row) & mask;; at = (at + 1) & mask) {
    unsigned long long *key = reinterpret_cast<unsigned long long *>(&table[at].number);
    if (ENDS) {
      if (*key != marks.row) continue;
      table[at].count = static_cast<uint32_t>(i) + 1 - table[at].begin;
      return;
    }
    if (atomicCAS(key, static_cast<unsigned long long>(ADJI_NO_ROW), static_cast<unsigned long long>(marks.row)) !=
        ADJI_NO_ROW)
      continue;
    table[at].begin = static_cast<uint32_t>(i);
    return;
  }
}

/* The table of the rows that are not empty. */
template <class KEY>
static adj_status find_rows(building *b) {
  adji_gpu *gpu = b->gpu;
  adji_gpu_index *index = b->index;
  const KEY *numbers = static_cast<const KEY *>(index->numbers);
  uint64_t stride = b->grid->row_stride, size = 64;
  uint32_t blocks = adji_blocks_for(index->count, THREADS);
  adj_status status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_CELLS, 2);
  if (status) return status;
  count_rows_of_cells<<<blocks, THREADS, 0, gpu->compute>>>(
      numbers, index->count, stride, adji_answer_at(gpu, ADJI_ANSWER_ITEMS), adji_answer_at(gpu, ADJI_ANSWER_CELLS));
  ADJI_LAUNCHED(gpu, "count_rows_of_cells");
  status = adji_answers_fetch(gpu, gpu->compute);
  if (status) return status;
  while (size < 2 * gpu->answers[ADJI_ANSWER_ITEMS])
    size *= 2;
  status = adji_block_get(gpu, gpu->compute, size * sizeof(adji_gpu_row), "rows of cells", &index->rows_block);
  if (status) return status;
  adji_gpu_row *table = adji_at<adji_gpu_row>(index->rows_block);
  ADJI_CUDA(gpu, cudaMemsetAsync(table, 0xff, size * sizeof *table, gpu->compute));
  enter_rows<KEY, false><<<blocks, THREADS, 0, gpu->compute>>>(numbers, index->count, stride, table, size - 1);
  ADJI_LAUNCHED(gpu, "enter_rows");
  enter_rows<KEY, true><<<blocks, THREADS, 0, gpu->compute>>>(numbers, index->count, stride, table, size - 1);
  ADJI_LAUNCHED(gpu, "enter_rows");
  index->cells.keys = b->grid->keys;
  index->cells.rows = table;
  index->cells.row_mask = size - 1;
  index->cells.position_numbers = numbers;
  index->cell_count = gpu->answers[ADJI_ANSWER_CELLS];
  return ADJ_OK;
}

/* Where there are many axes most rows of cells are empty, and the others are spread over many buckets. */
template <class KEY>
static adj_status find_cells(building *b) {
  bool dense = b->grid->keys <= most_buckets(b->index->count);
  if (!dense && b->grid->axis_count > 3 && b->index->count) return find_rows<KEY>(b);
  return find_buckets<KEY>(b);
}

/* ---- 4. Coordinates ------------------------------------------------------------------------------------------------
 */

template <class T>
static __global__ void gather(adji_gpu_rows rows, const uint32_t *ids, uint64_t count, uint64_t stride, T *coords) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const T *from = static_cast<const T *>(rows.data) + ids[i] * rows.row_stride;
  for (uint32_t j = 0; j < rows.dim; j++)
    coords[j * stride + i] = from[j * rows.column_stride];
}

static __device__ float bits_of(uint32_t id, float) {
  return __uint_as_float(id);
}
static __device__ double bits_of(uint32_t id, double) {
  return __longlong_as_double(static_cast<long long>(id));
}

/* A point of WIDTH elements a thread: adji_gpu_width. */
template <class T, int WIDTH>
static __global__ void gather_together(adji_gpu_rows rows, const uint32_t *ids, uint64_t count, T *coords) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint32_t id = ids[i];
  const T *from = static_cast<const T *>(rows.data) + id * rows.row_stride;
  struct alignas(WIDTH * sizeof(T) < 16 ? WIDTH * sizeof(T) : 16) point {
    T x[WIDTH];
  } to;
#pragma unroll
  for (uint32_t j = 0; j < WIDTH; j++)
    to.x[j] = j < rows.dim ? from[j * rows.column_stride] : bits_of(id, T(0));
  reinterpret_cast<point *>(coords)[i] = to;
}

template <class T>
static adj_status gather_points(building *b) {
  adji_gpu_index *index = b->index;
  uint64_t width = adji_gpu_width(b->rows->dim), room = (index->count + 31) / 32 * 32 + ADJI_GPU_BEHIND;
  index->point_step = width ? width : 1;
  index->dim_step = width ? 1 : room;
  uint64_t bytes = adji_mul(adji_mul(room, width ? width : b->rows->dim), sizeof(T));
  adj_status status = adji_block_get(b->gpu, b->gpu->compute, bytes, "points of the index", &index->coords_block);
  index->coords = index->coords_block.at;
  if (status || !index->count) return status;
  uint32_t blocks = adji_blocks_for(index->count, THREADS);
  cudaStream_t stream = b->gpu->compute;
  T *coords = adji_at<T>(index->coords_block);
  switch (width) {
    case 1:
      gather_together<T, 1><<<blocks, THREADS, 0, stream>>>(*b->rows, index->ids, index->count, coords);
      break;
    case 2:
      gather_together<T, 2><<<blocks, THREADS, 0, stream>>>(*b->rows, index->ids, index->count, coords);
      break;
    case 4:
      gather_together<T, 4><<<blocks, THREADS, 0, stream>>>(*b->rows, index->ids, index->count, coords);
      break;
    case 8:
      gather_together<T, 8><<<blocks, THREADS, 0, stream>>>(*b->rows, index->ids, index->count, coords);
      break;
    default:
      gather<T><<<blocks, THREADS, 0, stream>>>(*b->rows, index->ids, index->count, index->dim_step, coords);
  }
  ADJI_LAUNCHED(b->gpu, "gather");
  return ADJ_OK;
}

/* ---- All of it
 * ------------------------------------------------------------------------------------------------------- */

template <class T, class KEY>
static adj_status build(building *b) {
  b->index->images = b->options->images;
  adj_status status = b->options->images ? number_points_and_images<T, KEY>(b) : number_points<T, KEY>(b);
  if (!status) status = sort_within_cells<T, KEY>(b);
  if (!status) status = sort_items<KEY>(b);
  if (!status && b->options->cells) status = find_cells<KEY>(b);
  if (!status) status = gather_points<T>(b);
  return status;
}

template <class T>
static adj_status build_wide_enough(building *b) {
  return b->key_bits > 32 ? build<T, uint64_t>(b) : build<T, uint32_t>(b);
}

adj_status adji_gpu_bring(adji_gpu *gpu, const adj_dataset *set, adji_block *points, adji_gpu_rows *rows,
                          adji_device_work *work) {
  uint64_t bytes = adji_mul(set->count * set->dim, adji_type_size(set->type));
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "points", points);
  if (status) return status;
  /* The pool orders by stream; the copies are on another. */
  cudaError_t error = cudaStreamSynchronize(gpu->compute);
  if (error != cudaSuccess) status = adji_cuda_fail(gpu, error, "cudaStreamSynchronize");
  if (!status) status = adji_upload(gpu, set, points->at, work); /* has arrived when it returns */
  if (status) adji_gpu_settle(gpu);                              /* or is given up */
  *rows = adji_gpu_rows{points->at, set->type, set->dim, set->count, set->dim, 1};
  return status;
}

adj_status adji_gpu_index_build(adji_gpu *gpu, const adji_gpu_grid *grid, const adji_gpu_rows *rows,
                                const adji_gpu_index_options *options, adji_gpu_index *out) {
  *out = adji_gpu_index{};
  building b = {};
  b.gpu = gpu;
  b.grid = grid;
  b.rows = rows;
  b.options = options;
  b.index = out;
  b.key_bits = options->curve ? options->curve->bits * rows->dim : grid->key_bits;
  adj_status status = rows->type == ADJ_F64 ? build_wide_enough<double>(&b) : build_wide_enough<float>(&b);
  adji_block_free(gpu, gpu->compute, &b.temporary);
  adji_block_free(gpu, gpu->compute, &b.image_counts);
  adji_block_free(gpu, gpu->compute, &b.spare_ids);
  adji_block_free(gpu, gpu->compute, &b.spare_numbers);
  if (status) adji_gpu_index_clear(gpu, out);
  return status;
}

void adji_gpu_index_clear(adji_gpu *gpu, adji_gpu_index *index) {
  adji_block *blocks[] = {&index->coords_block, &index->ids_block, &index->numbers_block, &index->directory_block,
                          &index->rows_block};
  for (adji_block *block : blocks)
    adji_block_free(gpu, gpu->compute, block);
  *index = adji_gpu_index{};
}
