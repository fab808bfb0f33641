/* SPDX-License-Identifier: MIT
 *
 * Canonical sums to a matrix: the choice of a kernel, and the two plain kernels, which serve comparisons (papers/004,
 * section 3.1).
 */
#include "gpu/brute/brute_distance.cuh"

namespace {

enum { SIDE = 32, NAIVE_THREADS = 256 };

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

template <class T, int STEP>
adj_status launch_plain(adji_gpu *gpu, const adji_distance_job *job) {
  distances<T> d = distances_of<T>(job);
  if (job->kernel == ADJI_DISTANCE_NAIVE) {
    uint32_t blocks = adji_blocks_for(static_cast<uint64_t>(d.rows) * d.columns, NAIVE_THREADS);
    naive_sums<T, STEP><<<blocks, NAIVE_THREADS, 0, gpu->compute>>>(d);
    ADJI_LAUNCHED(gpu, "naive_sums");
    return ADJ_OK;
  }
  uint32_t row_tiles = adji_blocks_for(d.rows, SIDE), column_tiles = adji_blocks_for(d.columns, SIDE);
  tiled_sums<T, STEP><<<row_tiles * column_tiles, SIDE * SIDE, 0, gpu->compute>>>(d, row_tiles);
  ADJI_LAUNCHED(gpu, "tiled_sums");
  return ADJ_OK;
}

template <class T>
adj_status launch_plain_step(adji_gpu *gpu, const adji_distance_job *job) {
  switch (job->measure->step) {
#define LAUNCH(name, NAME) \
  case ADJI_STEP_##NAME:   \
    return launch_plain<T, ADJI_STEP_##NAME>(gpu, job);
    ADJI_STEP_LIST(LAUNCH)
#undef LAUNCH
    default:
      return adji_fail(ADJ_E_INTERNAL, "measure: step %d has no kernel", static_cast<int>(job->measure->step));
  }
}

}  // namespace

/* With few queries each point is read once and memory is the limit. Powers are limited by their own arithmetic. */
adj_status adji_brute_distances(adji_gpu *gpu, const adji_distance_job *job) {
  if (!job->rows || !job->columns) return ADJ_OK;
  bool f64 = job->type == ADJ_F64, powers = adji_plain_step(job->measure->step) == ADJI_STEP_LP;
  if (job->kernel == ADJI_DISTANCE_NAIVE || job->kernel == ADJI_DISTANCE_TILED)
    return f64 ? launch_plain_step<double>(gpu, job) : launch_plain_step<float>(gpu, job);
  if (job->rows <= ADJI_FEW_QUERIES || powers) return adji_distance_few(gpu, job);
  return f64 ? adji_distance_register_f64(gpu, job) : adji_distance_register_f32(gpu, job);
}
