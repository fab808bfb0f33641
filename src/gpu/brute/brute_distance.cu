/* SPDX-License-Identifier: MIT
 *
 * Canonical sums to a matrix: the choice of a kernel, the two plain kernels, which serve comparisons (papers/004,
 * section 3.1), and the kernel for few queries.
 */
#include "gpu/brute/brute_distance.cuh"

namespace {

/* FEW_QUERIES: the most queries that the kernel for few queries takes together. */
enum { SIDE = 32, NAIVE_THREADS = 256, FEW_QUERIES = 16, POINTS = 128, BUFFERS = 3, MOST_GROUPS = 65535 };

/* ---- Plain kernels --------------------------------------------------------------------------- */

/* values[i][j] = sum of query i and point j. A thread per pair; coordinates from device memory. Threads of a block
 * have neighbouring points and read them dim values apart. Limited by the cache. */
template <class T, int STEP>
__global__ void naive_sums(distances<T> d) {
  uint64_t n = static_cast<uint64_t>(blockIdx.x) * NAIVE_THREADS + threadIdx.x;
  uint32_t i = static_cast<uint32_t>(n / d.columns), j = static_cast<uint32_t>(n % d.columns);
  if (n >= static_cast<uint64_t>(d.rows) * d.columns) return;
  const T *x = d.query(i), *c = d.point(j);
  T s = 0;
  for (uint32_t k = 0; k < d.dim; k++)
    s = adji_gpu_step<STEP>(s, __ldg(x + k), __ldg(c + k), d.measure, k);
  d.values[i * d.stride + j] = d.kept(adji_gpu_finish<STEP>(s), d.own(i), j);
}

/* values[i][j] = sum of query i and point j. A thread per pair, a block per 32 x 32 pairs.
 * 1. SIDE dimensions of the block's 32 queries and 32 points go to shared memory; each is read from device memory once
 *    per block.
 * 2. Each thread makes SIDE steps.
 *
 * Two barriers per SIDE dimensions. Limited by loads from shared memory: one per dimension of a pair, and one that a
 * warp shares. */
template <class T, int STEP>
__global__ void __launch_bounds__(SIDE *SIDE) tiled_sums(distances<T> d, uint32_t row_tiles) {
  __shared__ T queries[SIDE][SIDE + 1], points[SIDE][SIDE + 1];
  uint32_t first_row = blockIdx.x % row_tiles * SIDE, first_column = blockIdx.x / row_tiles * SIDE;
  uint32_t x = threadIdx.x % SIDE, y = threadIdx.x / SIDE, row = first_row + y, column = first_column + x;
  T s = 0;
  for (uint32_t from = 0; from < d.dim; from += SIDE) {
    bool inside = from + x < d.dim;
    if (inside && row < d.rows) queries[y][x] = __ldg(d.query(row) + from + x);
    if (inside && first_column + y < d.columns) points[y][x] = __ldg(d.point(first_column + y) + from + x);
    __syncthreads();
    uint32_t depth = d.dim - from < SIDE ? d.dim - from : SIDE;
    for (uint32_t k = 0; k < depth; k++)
      s = adji_gpu_step<STEP>(s, queries[y][k], points[x][k], d.measure, from + k);
    __syncthreads();
  }
  if (row < d.rows && column < d.columns)
    d.values[row * d.stride + column] = d.kept(adji_gpu_finish<STEP>(s), d.own(row), column);
}

/* ---- Few queries -----------------------------------------------------------------------------
 *
 * Each point is read once for up to 16 queries. The kernel also takes any number of queries, one by one, if a step
 * takes so long that reads do not matter (powers).
 *
 *     values[i][j] = step over the dimensions, in order, of query i and right point j
 *
 * Points, queries and values are in device memory. A block owns 128 right points, one per thread, and QUERIES queries.
 *
 * 1. Coordinates, 64 bytes per point at a time, and those of the queries go to shared memory through three buffers
 *    (cp.async): two are in flight while one is used. One barrier per buffer.
 * 2. A thread loads a coordinate of its point and makes a step with the same coordinate of each query, which is
 *    broadcast to all lanes. Points lie DEPTH + 1 values apart, so lanes use different banks.
 * 3. Sums go to the matrix, a row per query.
 *
 * Limited by memory up to about four queries, by instruction issue beyond.
 */

template <class T, int QUERIES>
struct few_tile {
  enum { DEPTH = 64 / sizeof(T) };
  T points[POINTS][DEPTH + 1];
  T queries[DEPTH][QUERIES];
};

template <class T, int QUERIES>
__device__ __forceinline__ void fill_tile(const distances<T> &d, uint32_t first_query, uint32_t first_point,
                                          uint32_t from, few_tile<T, QUERIES> *tile) {
  constexpr uint32_t DEPTH = few_tile<T, QUERIES>::DEPTH;
  uint32_t k = threadIdx.x % DEPTH, begin = threadIdx.x / DEPTH;
  if (from + k < d.dim) {
    const T *at = d.point(first_point + begin) + from + k;
    uint64_t pitch = static_cast<uint64_t>(POINTS / DEPTH) * d.dim;
#pragma unroll
    for (uint32_t i = 0; i < POINTS; i += POINTS / DEPTH, at += pitch)
      if (first_point + begin + i < d.columns) copy_async(&tile->points[begin + i][k], at);
#pragma unroll
    for (uint32_t i = begin; i < QUERIES; i += POINTS / DEPTH)
      if (first_query + i < d.rows) copy_async(&tile->queries[k][i], d.query(first_query + i) + from + k);
  }
  end_group();
}

template <class T, int STEP, int QUERIES>
__device__ void sum_group(const distances<T> &d, uint32_t first_query, uint32_t first_point,
                          few_tile<T, QUERIES> *tiles) {
  constexpr uint32_t DEPTH = few_tile<T, QUERIES>::DEPTH;
  T sums[QUERIES];
#pragma unroll
  for (int i = 0; i < QUERIES; i++)
    sums[i] = 0;
#pragma unroll
  for (uint32_t ahead = 0; ahead + 1 < BUFFERS; ahead++)
    fill_tile(d, first_query, first_point, ahead * DEPTH, &tiles[ahead]);
  uint32_t buffer = 0;
  for (uint32_t from = 0; from < d.dim; from += DEPTH, buffer = buffer + 1 < BUFFERS ? buffer + 1 : 0) {
    wait_for_groups<BUFFERS - 2>();
    __syncthreads(); /* this tile is complete, and the previous one is no longer read */
    fill_tile(d, first_query, first_point, from + (BUFFERS - 1) * DEPTH, &tiles[buffer ? buffer - 1 : BUFFERS - 1]);
    const few_tile<T, QUERIES> &tile = tiles[buffer];
    uint32_t depth = d.dim - from < DEPTH ? d.dim - from : DEPTH;
    for (uint32_t k = 0; k < depth; k++) {
      T c = tile.points[threadIdx.x][k];
#pragma unroll
      for (int i = 0; i < QUERIES; i++)
        sums[i] = adji_gpu_step<STEP>(sums[i], tile.queries[k][i], c, d.measure, from + k);
    }
  }
  uint32_t column = first_point + threadIdx.x;
#pragma unroll
  for (int i = 0; i < QUERIES; i++) {
    uint32_t row = first_query + i;
    if (row < d.rows && column < d.columns)
      d.values[row * d.stride + column] = d.kept(adji_gpu_finish<STEP>(sums[i]), d.own(row), column);
  }
}

/* blockIdx.x selects the points. blockIdx.y is the first group of queries; the block's next groups are gridDim.y
 * apart. */
template <class T, int STEP, int QUERIES>
__global__ void __launch_bounds__(POINTS) sums_of_few(distances<T> d) {
  __shared__ __align__(16) few_tile<T, QUERIES> tiles[BUFFERS];
  uint64_t first = static_cast<uint64_t>(blockIdx.y) * QUERIES;
  for (; first < d.rows; first += static_cast<uint64_t>(gridDim.y) * QUERIES) {
    sum_group<T, STEP, QUERIES>(d, static_cast<uint32_t>(first), blockIdx.x * POINTS, tiles);
    __syncthreads(); /* before the tiles are filled again */
  }
}

template <class T, int STEP, int QUERIES>
adj_status launch_group(adji_gpu *gpu, const distances<T> &d) {
  uint32_t groups = adji_blocks_for(d.rows, QUERIES);
  dim3 grid(adji_blocks_for(d.columns, POINTS), groups < MOST_GROUPS ? groups : MOST_GROUPS);
  sums_of_few<T, STEP, QUERIES><<<grid, POINTS, 0, gpu->compute>>>(d);
  ADJI_LAUNCHED(gpu, "sums_of_few");
  return ADJ_OK;
}

/* ---- Launches -------------------------------------------------------------------------------- */

template <class T, int STEP>
adj_status launch(adji_gpu *gpu, const adji_distance_job *job) {
  distances<T> d = distances_of<T>(job);
  if (job->kernel == ADJI_DISTANCE_NAIVE) {
    uint32_t blocks = adji_blocks_for(static_cast<uint64_t>(d.rows) * d.columns, NAIVE_THREADS);
    naive_sums<T, STEP><<<blocks, NAIVE_THREADS, 0, gpu->compute>>>(d);
    ADJI_LAUNCHED(gpu, "naive_sums");
    return ADJ_OK;
  }
  if (job->kernel == ADJI_DISTANCE_TILED) {
    uint32_t row_tiles = adji_blocks_for(d.rows, SIDE), column_tiles = adji_blocks_for(d.columns, SIDE);
    tiled_sums<T, STEP><<<row_tiles * column_tiles, SIDE * SIDE, 0, gpu->compute>>>(d, row_tiles);
    ADJI_LAUNCHED(gpu, "tiled_sums");
    return ADJ_OK;
  }
  if constexpr (STEP != ADJI_STEP_LP && STEP != ADJI_STEP_LP_BOX) {
    if (d.rows > 4) return launch_group<T, STEP, FEW_QUERIES>(gpu, d);
    if (d.rows > 1) return launch_group<T, STEP, 4>(gpu, d);
  }
  return launch_group<T, STEP, 1>(gpu, d);
}

template <class T>
adj_status launch_step(adji_gpu *gpu, const adji_distance_job *job) {
  switch (job->measure->step) {
#define LAUNCH(name, NAME) \
  case ADJI_STEP_##NAME:   \
    return launch<T, ADJI_STEP_##NAME>(gpu, job);
    ADJI_STEP_LIST(LAUNCH)
#undef LAUNCH
    default:
      return adji_fail(ADJ_E_INTERNAL, "measure: step %d has no kernel", static_cast<int>(job->measure->step));
  }
}

}  // namespace

/* With few queries the kernel that reads each point once is used, since memory is the limit, unless tiles in registers
 * are requested. Powers are limited by their own arithmetic. */
adj_status adji_brute_distances(adji_gpu *gpu, const adji_distance_job *job) {
  if (!job->rows || !job->columns) return ADJ_OK;
  bool f64 = job->type == ADJ_F64, powers = adji_plain_step(job->measure->step) == ADJI_STEP_LP;
  bool plain = job->kernel == ADJI_DISTANCE_NAIVE || job->kernel == ADJI_DISTANCE_TILED;
  bool few = job->rows <= FEW_QUERIES && job->kernel != ADJI_DISTANCE_REGISTER;
  if (plain || few || powers) return f64 ? launch_step<double>(gpu, job) : launch_step<float>(gpu, job);
  return f64 ? adji_distance_register_f64(gpu, job) : adji_distance_register_f32(gpu, job);
}
