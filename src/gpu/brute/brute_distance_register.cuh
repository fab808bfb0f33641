/* SPDX-License-Identifier: MIT
 *
 * Sums of a tile of queries with a tile of right points, in registers: the modified matrix product of papers/004,
 * section 4.2, with canonical steps in place of multiplications. One instance per type, step and shape.
 *
 *     values[i][j] = step over the dimensions, in order, of query i and right point j
 *
 * Points, queries and values are in device memory. A block has 4 x 2 warps and a tile of 128 x 128 sums (f64: 64 x 64),
 * or 1 x 4 warps and 32 x 256 (16 x 128) for few queries. A warp owns 8 V rows and 16 V columns of it, where V is 16
 * bytes of values. A lane owns 2 V x 2 V sums in registers: rows V at a time, 4 V apart, and columns V at a time, 8 V
 * apart, so that the 16-byte loads of a warp cover 64 and 128 bytes without a gap.
 *
 * 1. Coordinates of all points of the tile, DEPTH dimensions at a time, go to shared memory, dimension by dimension,
 *    while the previous ones are used: two buffers, filled by cp.async, 64 bytes per point at a time.
 * 2. For each of these dimensions a lane loads 2 V + 2 V coordinates and makes 4 V V steps.
 * 3. What does not belong becomes NaN; rows of the matrix are written 16 bytes per lane.
 *
 * Points past the last have no coordinates in shared memory and no place in the matrix: what is computed for them is
 * not written. One barrier per DEPTH dimensions: after it the buffer to be read is complete, and the other one has been
 * read. Limited by instruction issue: 4 V V steps (L2: 2 instructions each) for 4 loads; 6 % more for copies and loops.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_DISTANCE_REGISTER_CUH
#define ADJI_GPU_BRUTE_BRUTE_DISTANCE_REGISTER_CUH

#include "gpu/brute/brute_distance.cuh"

namespace {

template <class T, int WARP_ROWS_, int WARP_COLUMNS_>
struct register_shape {
  enum {
    VECTOR = 16 / sizeof(T),
    EACH = 2 * VECTOR, /* rows per lane, and columns */
    WARP_ROWS = WARP_ROWS_,
    WARP_COLUMNS = WARP_COLUMNS_,
    THREADS = WARP_ROWS * WARP_COLUMNS * ADJI_WARP,
    ROWS = WARP_ROWS * 8 * VECTOR,
    COLUMNS = WARP_COLUMNS * 16 * VECTOR,
    DEPTH = 64 / sizeof(T),
    ROWS_APART = ROWS + VECTOR, /* so that the dimensions of a point are in different banks */
    COLUMNS_APART = COLUMNS + VECTOR
  };
};

template <class T, class S>
struct register_tile {
  T queries[S::DEPTH][S::ROWS_APART];
  T points[S::DEPTH][S::COLUMNS_APART];
};

template <class T>
struct alignas(16) vector_of {
  T at[16 / sizeof(T)];
};

/* Copies dimension k of every STEP-th point of a tile. `at`: the thread's first one; `remaining`: how many points
 * there are from that one on. */
template <int COUNT, int STEP, class T>
__device__ __forceinline__ void copy_points(const T *at, uint64_t pitch, uint32_t remaining, T *to) {
#pragma unroll
  for (uint32_t i = 0; i < COUNT; i += STEP, at += pitch)
    if (i < remaining) copy_async(to + i, at);
}

/* What a thread copies, and from where: dimension k of each DEPTH of them. */
template <class T, class S>
struct tile_source {
  enum { STEP = S::THREADS / S::DEPTH };
  const T *query, *point; /* the thread's first ones */
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
  /* Copies the coordinates from dimension `from` on, which is DEPTH after the previous ones. */
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

/* The i-th of the lane's rows, and columns, in the tile. */
template <class S>
__device__ __forceinline__ uint32_t row_of(uint32_t i) {
  uint32_t warp = threadIdx.x / ADJI_WARP / S::WARP_COLUMNS, lane = threadIdx.x % ADJI_WARP / 8;
  return (warp * 8 + lane + i / S::VECTOR * 4) * S::VECTOR + i % S::VECTOR;
}
template <class S>
__device__ __forceinline__ uint32_t column_of(uint32_t j) {
  uint32_t warp = threadIdx.x / ADJI_WARP % S::WARP_COLUMNS, lane = threadIdx.x % 8;
  return (warp * 16 + lane + j / S::VECTOR * 8) * S::VECTOR + j % S::VECTOR;
}

/* The steps of one dimension. */
template <int STEP, class T, class S>
__device__ __forceinline__ void add_dimension(const distances<T> &d, const register_tile<T, S> &tile, uint32_t k,
                                              uint32_t dimension, T (&sums)[S::EACH][S::EACH]) {
  vector_of<T> x[2], c[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    x[half] = *reinterpret_cast<const vector_of<T> *>(&tile.queries[k][row_of<S>(half * S::VECTOR)]);
    c[half] = *reinterpret_cast<const vector_of<T> *>(&tile.points[k][column_of<S>(half * S::VECTOR)]);
  }
#pragma unroll
  for (int i = 0; i < S::EACH; i++)
#pragma unroll
    for (int j = 0; j < S::EACH; j++)
      sums[i][j] = adji_gpu_step<STEP>(sums[i][j], x[i / S::VECTOR].at[i % S::VECTOR],
                                       c[j / S::VECTOR].at[j % S::VECTOR], d.measure, dimension);
}

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
      /* Up to the next multiple of ADJI_TILE_COLUMNS at most. */
      if (row < d.rows && column < d.columns) *reinterpret_cast<vector_of<T> *>(to + column) = out;
    }
  }
}

/* One block per tile. Tiles of the same columns follow each other, so that their points stay in the cache. */
template <class T, int STEP, class S>
__global__ void __launch_bounds__(S::THREADS, 512 / S::THREADS) sums_in_registers(distances<T> d, uint32_t row_tiles) {
  __shared__ __align__(16) register_tile<T, S> tiles[2];
  uint32_t first_row = blockIdx.x % row_tiles * S::ROWS, first_column = blockIdx.x / row_tiles * S::COLUMNS;
  constexpr int UNROLLED = STEP >= ADJI_STEP_L2_BOX ? 1 : 4; /* the lengths of a periodic box take registers */
  T sums[S::EACH][S::EACH];
#pragma unroll
  for (int i = 0; i < S::EACH; i++)
#pragma unroll
    for (int j = 0; j < S::EACH; j++)
      sums[i][j] = 0;
  tile_source<T, S> source(d, first_row, first_column);
  source.fill(0, &tiles[0]);
  uint32_t buffer = 0;
  for (uint32_t from = 0; from < d.dim; from += S::DEPTH, buffer ^= 1) {
    wait_for_groups<0>();
    __syncthreads();
    if (from + S::DEPTH < d.dim) source.fill(from + S::DEPTH, &tiles[buffer ^ 1]);
    const register_tile<T, S> &tile = tiles[buffer];
    if (d.dim - from >= S::DEPTH) {
#pragma unroll UNROLLED
      for (uint32_t k = 0; k < S::DEPTH; k++)
        add_dimension<STEP, T, S>(d, tile, k, from + k, sums);
    } else {
#pragma unroll 1
      for (uint32_t k = 0; k < d.dim - from; k++)
        add_dimension<STEP, T, S>(d, tile, k, from + k, sums);
    }
  }
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
