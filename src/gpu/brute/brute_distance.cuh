/* SPDX-License-Identifier: MIT
 *
 * Canonical sums of queries with right points, to a matrix: what the kernels share, and their launches.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_DISTANCE_CUH
#define ADJI_GPU_BRUTE_BRUTE_DISTANCE_CUH

#include "gpu/brute/brute.cuh"
#include "gpu/shared/register_tile.cuh"

/* The sum of query i and point j goes to values[i * stride + j]; NaN if the pair does not belong: a point with itself,
 * or a sum above the limit. Entries up to the next multiple of ADJI_TILE_COLUMNS may be written. All pointers are
 * device memory, except measure. */
typedef struct adji_distance_shape {
  uint32_t dim, rows, columns;
  /* Query i is row first_row + i of its set, or numbers[i] if numbers is not NULL. Point j is row first_point + j. */
  uint64_t first_row, first_point;
  const uint32_t *numbers;
  bool drop_self;  /* a query and the point with the same row do not belong */
  uint64_t stride; /* a multiple of ADJI_TILE_COLUMNS, at least columns */
} adji_distance_shape;
typedef struct adji_distance_job : adji_distance_shape {
  adji_brute_distance kernel;
  adj_type type;
  const adji_measure *measure;
  const void *box;              /* the measure's, on the device */
  const void *queries, *points; /* `rows` queries and `columns` points, packed */
  double limit;
  void *values;
} adji_distance_job;
adj_status adji_brute_distances(adji_gpu *gpu, const adji_distance_job *job);

/* Tiles in registers, one file per type. There is no such kernel for powers. */
adj_status adji_distance_register_f32(adji_gpu *gpu, const adji_distance_job *job);
adj_status adji_distance_register_f64(adji_gpu *gpu, const adji_distance_job *job);

/* The job as typed pointers and values, for kernels. */
template <class T>
struct distances : adji_distance_shape {
  const T *queries, *points;
  T limit;
  adji_gpu_measure<T> measure;
  T *values;

  __device__ __forceinline__ const T *query(uint32_t i) const {
    return queries + static_cast<uint64_t>(i) * dim;
  }
  __device__ __forceinline__ const T *point(uint32_t j) const {
    return points + static_cast<uint64_t>(j) * dim;
  }
  /* The column of query i itself; UINT32_MAX if there is none. */
  __device__ __forceinline__ uint32_t own(uint32_t i) const {
    uint64_t row = numbers ? __ldg(numbers + i) : first_row + i, column = row - first_point;
    return drop_self && column < columns ? static_cast<uint32_t>(column) : UINT32_MAX;
  }
  __device__ __forceinline__ T kept(T s, uint32_t own_column, uint32_t j) const {
    return s <= limit && j != own_column ? s : T(NAN);
  }
};

template <class T>
static distances<T> distances_of(const adji_distance_job *job) {
  adji_gpu_measure<T> measure = {job->measure->power, static_cast<const T *>(job->box)};
  return distances<T>{
      *job,    static_cast<const T *>(job->queries), static_cast<const T *>(job->points), static_cast<T>(job->limit),
      measure, static_cast<T *>(job->values)};
}

#endif
