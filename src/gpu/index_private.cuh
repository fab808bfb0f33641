/* SPDX-License-Identifier: MIT
 *
 * Building the grid's index on a device: what the steps share. index.cu says which there are.
 */
#ifndef ADJI_INDEX_PRIVATE_CUH
#define ADJI_INDEX_PRIVATE_CUH

#include "gpu/index.cuh"

typedef struct adji_building {
  adji_gpu *gpu;
  const adji_gpu_grid *grid;
  const adji_gpu_rows *rows;
  const adji_gpu_index_options *options;
  adji_gpu_index *index;
  uint32_t key_bits;
  adji_block spare_numbers, spare_ids, temporary, image_counts;
} adji_building;

#ifdef __CUDACC__
template <class T>
static __device__ __forceinline__ double adji_index_coordinate(const adji_gpu_rows &rows, uint64_t row, uint32_t j) {
  return static_cast<const T *>(rows.data)[row * rows.row_stride + j * rows.column_stride];
}

/* The number of a point's cell. */
template <class T>
static __device__ __forceinline__ uint64_t adji_index_number(const adji_gpu_grid &grid, const adji_gpu_rows &rows,
                                                             uint64_t row) {
  uint64_t number = 0;
#pragma unroll
  for (uint32_t a = 0; a < ADJI_MAX_AXES; a++)
    if (a < grid.axis_count)
      number +=
          grid.axes[a].stride * adji_gpu_slab(grid.axes[a], adji_index_coordinate<T>(rows, row, grid.axes[a].dim));
  return number;
}

/* A point as the index has it, of WIDTH elements: adji_gpu_width. */
template <class T, int WIDTH>
struct alignas(WIDTH * sizeof(T) < 16 ? WIDTH * sizeof(T) : 16) adji_index_point {
  T x[WIDTH];
};

static __device__ __forceinline__ float adji_index_bits(uint32_t id, float) {
  return __uint_as_float(id);
}
static __device__ __forceinline__ double adji_index_bits(uint32_t id, double) {
  return __longlong_as_double(static_cast<long long>(id));
}

template <class T, int WIDTH>
static __device__ __forceinline__ adji_index_point<T, WIDTH> adji_index_load(const adji_gpu_rows &rows, uint32_t id) {
  const T *from = static_cast<const T *>(rows.data) + id * rows.row_stride;
  adji_index_point<T, WIDTH> point;
#pragma unroll
  for (uint32_t j = 0; j < WIDTH; j++)
    point.x[j] = j < rows.dim ? from[j * rows.column_stride] : adji_index_bits(id, T(0));
  return point;
}
#endif

/* Room for the points, and for `entries` of a directory, which are 0. */
adj_status adji_index_make_points(adji_building *b);
adj_status adji_index_make_directory(adji_building *b, uint64_t entries);

/* All steps at once, where cells are few enough to count the points of each: see index_count.cu. */
bool adji_index_can_count(const adji_building *b);
adj_status adji_index_count(adji_building *b);

/* Step 3. */
adj_status adji_index_find_cells(adji_building *b);

#endif
