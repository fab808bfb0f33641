/* SPDX-License-Identifier: MIT
 *
 * Building the grid's index on a device.
 *
 *   1. number   the cell number of each point (and of each image of a point in a periodic box)
 *   2. sort     (number, row) pairs by CUB's radix sort. It is stable: within a cell rows ascend, or coordinates along
 *               one dimension if they were sorted by it before, or rows stay in a given order
 *   3. cells    a directory from numbers to positions: one entry per number if there are few numbers; otherwise, for up
 *               to three axes, one entry for several numbers with the same leading bits; for more axes, a table of the
 *               rows of cells that are not empty. See index_cells.cu
 *   4. refine   along a curve, runs of points with equal numbers: index_refine.cu
 *   5. gather   coordinates into the new order: those of a point side by side, or in many dimensions by dimension
 *
 * Memory, per position: 4 bytes of ids, 4 or 8 of cell numbers, the point (adji_gpu_width), and at most 8 bytes for the
 * directory, or 32 to 64 per row of cells; while sorting, 8 or 12 bytes more. All steps are limited by memory: about
 * 2 + 3 * key_bits / 8 passes over 8 bytes per point.
 */
#include <utility>

#include "gpu/index/index_private.cuh"
#include "gpu/shared/arrays.cuh"

extern "C" {
#include "gpu/device/staging.h"
}

enum { THREADS = 256 };

/* ---- 1. Numbers ---------------------------------------------------------------------------------------------- */

template <class T>
static __device__ double coordinate(const adji_gpu_rows &rows, uint64_t row, uint32_t j) {
  return static_cast<const T *>(rows.data)[row * rows.row_stride + j * rows.column_stride];
}

/* order: the order of rows within a cell; NULL: ascending. */
template <class T, class KEY>
static __global__ void number_rows(adji_gpu_grid grid, adji_gpu_rows rows, const uint32_t *order, KEY *numbers,
                                   uint32_t *ids) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows.count) return;
  uint64_t number = 0, row = order ? order[i] : i;
#pragma unroll
  for (uint32_t a = 0; a < ADJI_MAX_AXES; a++)
    if (a < grid.axis_count)
      number += grid.axes[a].stride * adji_gpu_slab(grid.axes[a], coordinate<T>(rows, row, grid.axes[a].dim));
  numbers[i] = static_cast<KEY>(number);
  ids[i] = static_cast<uint32_t>(row);
}

template <class T, class KEY, int DIM>
static __global__ void number_on_curve(adji_gpu_curve curve, adji_gpu_rows rows, KEY *numbers, uint32_t *ids) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows.count) return;
  uint32_t whole[DIM];
  T scale = static_cast<T>(curve.scale), end = static_cast<T>(1u << curve.bits);
#pragma unroll
  for (int j = 0; j < DIM; j++) {
    T x = static_cast<const T *>(rows.data)[i * rows.row_stride + j * rows.column_stride];
    T q = (x - static_cast<T>(curve.low[j])) * scale;
    whole[j] = q > 0 ? q < end ? static_cast<uint32_t>(q) : (1u << curve.bits) - 1 : 0;
  }
  numbers[i] = adji_curve_number<KEY>(curve.bits, whole);
  ids[i] = static_cast<uint32_t>(i);
}

/* The image of x on a periodic axis, or x itself if there is none: see index/build.c. */
static __device__ double image_of(const adji_axis &axis, double x) {
  double image = x;
  if (axis.period > 0 && x <= axis.margin) image = x + axis.period;
  if (axis.period > 0 && x >= axis.period - axis.margin) image = x - axis.period;
  return image;
}

template <class T>
static __global__ void count_images(adji_gpu_grid grid, adji_gpu_rows rows, uint64_t *counts) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i > rows.count) return;
  uint64_t copies = i < rows.count;
  for (uint32_t a = 0; i < rows.count && a < grid.axis_count; a++) {
    double x = coordinate<T>(rows, i, grid.axes[a].dim);
    if (image_of(grid.axes[a], x) != x) copies *= 2;
  }
  counts[i] = copies;
}

/* firsts: where the items of each row begin (a point and its images are items). */
template <class T, class KEY>
static __global__ void number_images(adji_gpu_grid grid, adji_gpu_rows rows, const uint64_t *firsts, KEY *numbers,
                                     uint32_t *ids) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows.count) return;
  uint64_t first = firsts[i], copies = firsts[i + 1] - first;
  for (uint64_t k = 0; k < copies; k++) { /* bit b of k selects the image on the b-th axis that has one */
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

static adj_status get_items(adji_building *b, uint64_t key_size) {
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
static void launch_curve(adji_building *b, KEY *numbers, uint32_t *ids) {
  if constexpr (DIM > 1)
    if (b->rows->dim < DIM) return launch_curve<T, KEY, DIM - 1>(b, numbers, ids);
  number_on_curve<T, KEY, DIM><<<adji_blocks_for(b->rows->count, THREADS), THREADS, 0, b->gpu->compute>>>(
      *b->options->curve, *b->rows, numbers, ids);
}

template <class T, class KEY>
static adj_status number_points(adji_building *b) {
  b->index->count = b->rows->count;
  adj_status status = get_items(b, sizeof(KEY));
  if (status || !b->rows->count) return status;
  uint32_t blocks = adji_blocks_for(b->rows->count, THREADS);
  KEY *numbers = adji_at<KEY>(b->spare_numbers);
  uint32_t *ids = adji_at<uint32_t>(b->spare_ids);
  if (b->options->curve)
    launch_curve<T, KEY, ADJI_CURVE_DIMS>(b, numbers, ids);
  else
    number_rows<T, KEY><<<blocks, THREADS, 0, b->gpu->compute>>>(*b->grid, *b->rows, b->options->order, numbers, ids);
  ADJI_LAUNCHED(b->gpu, "number_rows");
  return ADJ_OK;
}

template <class T, class KEY>
static adj_status number_points_and_images(adji_building *b) {
  uint64_t count = b->rows->count;
  adj_status status =
      adji_block_get(b->gpu, b->gpu->compute, 2 * (count + 1) * sizeof(uint64_t), "images", &b->image_counts);
  if (status) return status;
  uint64_t *counts = adji_at<uint64_t>(b->image_counts), *firsts = counts + count + 1;
  uint32_t blocks = adji_blocks_for(count + 1, THREADS);
  count_images<T><<<blocks, THREADS, 0, b->gpu->compute>>>(*b->grid, *b->rows, counts);
  ADJI_LAUNCHED(b->gpu, "count_images");
  status = adji_add_up(b->gpu, &b->temporary, counts, firsts, count + 1);
  if (status) return status;
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

template <class T, class ORDER>
static __global__ void list_coordinates(adji_gpu_rows rows, uint32_t dim, ORDER *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows.count)
    to[i] = in_order(static_cast<const T *>(rows.data)[i * rows.row_stride + dim * rows.column_stride]);
}

template <class KEY>
static __global__ void follow_ids(const KEY *numbers, const uint32_t *ids, uint64_t count, KEY *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = numbers[ids[i]];
}

/* Sorts items by a coordinate; item i is row i. keys: room for two per row. */
template <class T, class KEY, class ORDER>
static adj_status sort_by_coordinate(adji_building *b, ORDER *keys) {
  adji_gpu_index *index = b->index;
  uint64_t count = index->count;
  uint32_t blocks = adji_blocks_for(count, THREADS);
  adji_pairs<ORDER> pairs = {keys, keys + count, adji_at<uint32_t>(b->spare_ids), adji_at<uint32_t>(index->ids_block)};
  list_coordinates<T><<<blocks, THREADS, 0, b->gpu->compute>>>(*b->rows, b->options->sort_dim, keys);
  ADJI_LAUNCHED(b->gpu, "list_coordinates");
  adj_status status = adji_sort_pairs(b->gpu, &b->temporary, &pairs, count, 8 * sizeof(T));
  if (status) return status;
  follow_ids<KEY><<<blocks, THREADS, 0, b->gpu->compute>>>(adji_at<KEY>(b->spare_numbers), pairs.values, count,
                                                           adji_at<KEY>(index->numbers_block));
  ADJI_LAUNCHED(b->gpu, "follow_ids");
  /* Moves the results to where sort_items expects them. */
  if (pairs.values == adji_at<uint32_t>(index->ids_block)) std::swap(index->ids_block, b->spare_ids);
  std::swap(index->numbers_block, b->spare_numbers);
  return ADJ_OK;
}

template <class T, class KEY>
static adj_status sort_within_cells(adji_building *b) {
  typedef decltype(in_order(T(0))) order;
  if (!b->options->sorted || !b->index->count) return ADJ_OK;
  adji_block keys = {};
  adj_status status = adji_block_get(b->gpu, b->gpu->compute, 2 * b->index->count * sizeof(T), "coordinates", &keys);
  if (!status) status = sort_by_coordinate<T, KEY>(b, adji_at<order>(keys));
  adji_block_free(b->gpu, b->gpu->compute, &keys);
  return status;
}

template <class KEY>
static adj_status sort_items(adji_building *b) {
  adji_gpu_index *index = b->index;
  adji_pairs<KEY> items = {adji_at<KEY>(b->spare_numbers), adji_at<KEY>(index->numbers_block),
                           adji_at<uint32_t>(b->spare_ids), adji_at<uint32_t>(index->ids_block)};
  if (index->count && b->key_bits) {
    adj_status status = adji_sort_pairs(b->gpu, &b->temporary, &items, index->count, b->key_bits);
    if (status) return status;
  }
  if (items.keys == adji_at<KEY>(b->spare_numbers)) std::swap(index->numbers_block, b->spare_numbers);
  if (items.values == adji_at<uint32_t>(b->spare_ids)) std::swap(index->ids_block, b->spare_ids);
  index->numbers = index->numbers_block.at;
  index->ids = adji_at<uint32_t>(index->ids_block);
  index->wide_numbers = sizeof(KEY) == 8;
  adji_block_free(b->gpu, b->gpu->compute, &b->spare_numbers);
  adji_block_free(b->gpu, b->gpu->compute, &b->spare_ids);
  return ADJ_OK;
}

/* ---- 5. Coordinates --------------------------------------------------------------------------------------------- */

template <class T>
static __global__ void gather(adji_gpu_rows rows, const uint32_t *ids, uint64_t count, uint64_t stride, T *coords) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const T *from = static_cast<const T *>(rows.data) + ids[i] * rows.row_stride;
  for (uint32_t j = 0; j < rows.dim; j++)
    coords[j * stride + i] = from[j * rows.column_stride];
}

/* One thread per point of WIDTH elements (adji_gpu_width). */
template <class T, int WIDTH>
static __global__ void gather_dense(adji_gpu_rows rows, const uint32_t *ids, uint64_t count, T *coords) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint32_t id = ids[i];
  const T *from = static_cast<const T *>(rows.data) + id * rows.row_stride;
  struct alignas(WIDTH * sizeof(T) < 16 ? WIDTH * sizeof(T) : 16) point {
    T x[WIDTH];
  } to;
#pragma unroll
  for (uint32_t j = 0; j < WIDTH; j++)
    to.x[j] = j < rows.dim ? from[j * rows.column_stride] : adji_gpu_id_as(id, T());
  reinterpret_cast<point *>(coords)[i] = to;
}

template <class T>
static adj_status gather_points(adji_building *b) {
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
  auto dense = width == 1   ? gather_dense<T, 1>
               : width == 2 ? gather_dense<T, 2>
               : width == 4 ? gather_dense<T, 4>
                            : gather_dense<T, 8>;
  if (width)
    dense<<<blocks, THREADS, 0, stream>>>(*b->rows, index->ids, index->count, coords);
  else
    gather<T><<<blocks, THREADS, 0, stream>>>(*b->rows, index->ids, index->count, index->dim_step, coords);
  ADJI_LAUNCHED(b->gpu, "gather");
  return ADJ_OK;
}

/* ---- All of it -------------------------------------------------------------------------------------------------- */

template <class T, class KEY>
static adj_status build(adji_building *b) {
  b->index->images = b->options->images;
  adj_status status = b->options->images ? number_points_and_images<T, KEY>(b) : number_points<T, KEY>(b);
  if (!status) status = sort_within_cells<T, KEY>(b);
  if (!status) status = sort_items<KEY>(b);
  if (!status && b->options->curve) status = adji_index_refine(b);
  if (!status && b->options->cells) status = adji_index_find_cells(b);
  if (!status && b->options->cut && b->index->count) status = adji_index_cut(b);
  if (!status) status = gather_points<T>(b);
  return status;
}

template <class T>
static adj_status build_wide_enough(adji_building *b) {
  return b->key_bits > 32 ? build<T, uint64_t>(b) : build<T, uint32_t>(b);
}

adj_status adji_gpu_fetch_bytes(adji_gpu *gpu, const adj_dataset *set, adji_block *points, adji_gpu_rows *rows,
                                adji_device_stats *work) {
  uint64_t bytes = adji_mul(set->count * set->dim, adji_type_size(set->type));
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "points", points);
  if (status) return status;
  /* Waits: the pool allocates in the order of the compute stream, but copies use another stream. */
  cudaError_t error = cudaStreamSynchronize(gpu->compute);
  if (error != cudaSuccess) status = adji_cuda_fail(gpu, error, "cudaStreamSynchronize");
  if (!status) status = adji_upload(gpu, set, points->at, work); /* the points have arrived on return */
  if (status) adji_gpu_quiesce(gpu);                             /* on failure, wait for unfinished copies */
  *rows = adji_gpu_rows{points->at, set->type, set->dim, set->count, set->dim, 1};
  return status;
}

/* Waits after allocation: the pool allocates in the order of the compute stream, but copies use another stream. */
adj_status adji_gpu_send_bytes(adji_gpu *gpu, const void *from, uint64_t bytes, const char *what, adji_block *to,
                               adji_device_stats *work) {
  if (!from || !bytes) return ADJ_OK;
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, what, to);
  if (!status) ADJI_CUDA(gpu, cudaStreamSynchronize(gpu->compute));
  return status ? status : adji_upload_bytes(gpu, from, bytes, to->at, work);
}

adj_status adji_gpu_index_build(adji_gpu *gpu, const adji_gpu_grid *grid, const adji_gpu_rows *rows,
                                const adji_gpu_index_options *options, adji_gpu_index *out) {
  *out = adji_gpu_index{};
  uint32_t key_bits = options->curve ? options->curve->bits * rows->dim : grid->key_bits;
  adji_building b = {gpu, grid, rows, options, out, key_bits, {}, {}, {}, {}};
  adj_status status = rows->type == ADJ_F64 ? build_wide_enough<double>(&b) : build_wide_enough<float>(&b);
  for (adji_block *block : {&b.temporary, &b.image_counts, &b.spare_ids, &b.spare_numbers})
    adji_block_free(gpu, gpu->compute, block);
  if (status) adji_gpu_index_clear(gpu, out);
  return status;
}

void adji_gpu_index_clear(adji_gpu *gpu, adji_gpu_index *index) {
  for (adji_block *block :
       {&index->coords_block, &index->ids_block, &index->numbers_block, &index->directory_block, &index->rows_block})
    adji_block_free(gpu, gpu->compute, block);
  *index = adji_gpu_index{};
}
