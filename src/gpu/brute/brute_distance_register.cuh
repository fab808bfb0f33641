/* SPDX-License-Identifier: MIT
 *
 * Sums of a tile of queries with a tile of right points, in registers (gpu/shared/register_tile.cuh). One instance per
 * type, step and shape.
 *
 *     values[i][j] = step over the dimensions, in order, of query i and right point j
 *
 * Points, queries and values are in device memory. A block has 4 x 2 warps and a tile of 128 x 128 sums (f64: 64 x 64),
 * or 1 x 4 warps and 32 x 256 (16 x 128) for few queries. Coordinates are copied 64 bytes per point at a time. Pairs
 * that do not belong become NaN. Rows of the matrix are written 16 bytes per lane.
 *
 * Points past the last have no coordinates in shared memory and no place in the matrix: their sums are not written.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_DISTANCE_REGISTER_CUH
#define ADJI_GPU_BRUTE_BRUTE_DISTANCE_REGISTER_CUH

#include "gpu/brute/brute_distance.cuh"

namespace {

/* Copies dimension k of every STEP-th point of a tile. at: the thread's first point; remaining: the number of points
 * from that one on. */
template <int COUNT, int STEP, class T>
__device__ __forceinline__ void copy_points(const T *at, uint64_t pitch, uint32_t remaining, T *to) {
#pragma unroll
  for (uint32_t i = 0; i < COUNT; i += STEP, at += pitch)
    if (i < remaining) copy_async(to + i, at);
}

/* What a thread copies, and from where: of every DEPTH dimensions the k-th. */
template <class T, class S>
struct tile_source {
  enum { STEP = S::THREADS / S::DEPTH };
  const T *query, *point; /* the thread's first query and point */
  uint32_t queries, points;
  uint64_t pitch;
  uint32_t k, begin, dim;

  __device__ __forceinline__ tile_source(const distances<T> &d, uint32_t first_row, uint32_t first_column) {
    k = threadIdx.x % S::DEPTH;
    begin = threadIdx.x / S::DEPTH;
    dim = d.dim;
    query = d.query(first_row + begin) + k;
    point = d.point(first_column + begin) + k;
    queries = first_row + begin < d.rows ? d.rows - (first_row + begin) : 0;
    points = first_column + begin < d.columns ? d.columns - (first_column + begin) : 0;
    pitch = static_cast<uint64_t>(STEP) * d.dim;
  }
  /* Copies the coordinates from dimension `from` on; `from` is DEPTH higher in each call. */
  __device__ __forceinline__ void fill(uint32_t from, register_tile<T, S> *tile) {
    if (from + k < dim) {
      copy_points<S::ROWS, STEP>(query, pitch, queries, &tile->queries[k][begin]);
      copy_points<S::COLUMNS, STEP>(point, pitch, points, &tile->points[k][begin]);
    }
    query += S::DEPTH;
    point += S::DEPTH;
    end_group();
  }
};

template <int STEP, class T, class S>
__device__ __forceinline__ void store_sums(const distances<T> &d, uint32_t first_row, uint32_t first_column,
                                           T (&sums)[S::EACH][S::EACH]) {
#pragma unroll
  for (int i = 0; i < S::EACH; i++) {
    uint32_t row = first_row + row_of<S>(i);
    uint32_t own = row < d.rows ? d.own(row) : 0;
    T *to = d.values + row * d.stride;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t column = first_column + column_of<S>(half * S::VECTOR);
      vector_of<T> out;
#pragma unroll
      for (int j = 0; j < S::VECTOR; j++)
        out.at[j] = d.kept(adji_gpu_finish<STEP>(sums[i][half * S::VECTOR + j]), own, column + j);
      /* This writes up to the next multiple of ADJI_TILE_COLUMNS at most. */
      if (row < d.rows && column < d.columns) *reinterpret_cast<vector_of<T> *>(to + column) = out;
    }
  }
}

/* One block per tile. Tiles of the same columns follow each other, so that their points stay in the cache. */
template <class T, int STEP, class S>
__global__ void __launch_bounds__(S::THREADS, 512 / S::THREADS) sums_in_registers(distances<T> d, uint32_t row_tiles) {
  __shared__ __align__(16) register_tile<T, S> tiles[2];
  uint32_t first_row = blockIdx.x % row_tiles * S::ROWS, first_column = blockIdx.x / row_tiles * S::COLUMNS;
  T sums[S::EACH][S::EACH];
  tile_source<T, S> source(d, first_row, first_column);
  sum_tile<STEP, T, S>(d.measure, d.dim, &source, tiles, sums);
  store_sums<STEP, T, S>(d, first_row, first_column, sums);
}

template <class T, int STEP, class S>
adj_status launch_register_shape(adji_gpu *gpu, const distances<T> &d) {
  uint32_t row_tiles = adji_blocks_for(d.rows, S::ROWS), column_tiles = adji_blocks_for(d.columns, S::COLUMNS);
  sums_in_registers<T, STEP, S><<<row_tiles * column_tiles, S::THREADS, 0, gpu->compute>>>(d, row_tiles);
  ADJI_LAUNCHED(gpu, "sums_in_registers");
  return ADJ_OK;
}

/* Up to this many queries leave too many rows of a large tile unused. */
enum { FEW_ROWS = 96 };

template <class T, int STEP>
adj_status launch_register(adji_gpu *gpu, const adji_distance_job *job) {
  distances<T> d = distances_of<T>(job);
  if constexpr (STEP < ADJI_STEP_L2_BOX) /* the _box steps would not have enough registers */
    if (d.rows <= FEW_ROWS) return launch_register_shape<T, STEP, register_shape<T, 1, 4>>(gpu, d);
  return launch_register_shape<T, STEP, register_shape<T, 4, 2>>(gpu, d);
}

/* Powers have no instance: see brute_distance.cu. */
template <class T>
adj_status launch_register_step(adji_gpu *gpu, const adji_distance_job *job) {
  switch (job->measure->step) {
#define LAUNCH(NAME)     \
  case ADJI_STEP_##NAME: \
    return launch_register<T, ADJI_STEP_##NAME>(gpu, job);
    LAUNCH(L2)
    LAUNCH(L1)
    LAUNCH(LINF)
    LAUNCH(DOT)
    LAUNCH(L2_BOX)
    LAUNCH(L1_BOX)
    LAUNCH(LINF_BOX)
#undef LAUNCH
    default:
      return adji_fail(ADJ_E_INTERNAL, "measure: step %d has no kernel", static_cast<int>(job->measure->step));
  }
}

}  // namespace

#endif
