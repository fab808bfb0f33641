/* SPDX-License-Identifier: MIT
 *
 * Canonical sums of a tile of queries with a tile of points, in registers: the modified matrix product of papers/004,
 * section 4.2, with canonical steps in place of multiplications. The kernels of brute force and of range joins share
 * this code; they differ in where coordinates come from and in how the sums are used.
 *
 * A warp owns 4 GROUPS V rows and 8 GROUPS V columns of the tile of its block, where V is 16 bytes of values. A lane
 * owns (GROUPS V)^2 sums: rows V at a time, 4 V apart, and columns V at a time, 8 V apart, so that the 16-byte loads of
 * a warp cover 64 and 128 bytes of shared memory without a gap.
 *
 * 1. Coordinates of all points of the tile, DEPTH dimensions at a time, go to shared memory, dimension by dimension,
 *    while the previous ones are used: two buffers, filled by cp.async.
 * 2. For each of these dimensions a lane loads 2 GROUPS V coordinates and makes (GROUPS V)^2 steps.
 *
 * One barrier per DEPTH dimensions: after it the buffer to be read is complete, and the other one has been read.
 * Limited by instruction issue: with two groups 4 V V steps (L2: 2 instructions each) for 4 loads; 6 % more for copies
 * and loops.
 */
#ifndef ADJI_GPU_SHARED_REGISTER_TILE_CUH
#define ADJI_GPU_SHARED_REGISTER_TILE_CUH

#include "gpu/shared/steps.cuh"

/* Copies to shared memory without a register (cp.async): one coordinate, or 16 bytes. */
static __device__ __forceinline__ void copy_async(float *to, const float *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from));
}
static __device__ __forceinline__ void copy_async(double *to, const double *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from));
}
static __device__ __forceinline__ void copy_async_16(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from));
}
static __device__ __forceinline__ void end_group() {
  asm volatile("cp.async.commit_group;");
}
/* Waits for all but the last GROUPS groups of copies. */
template <int GROUPS>
static __device__ __forceinline__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS));
}

namespace {

template <class T, int WARP_ROWS_, int WARP_COLUMNS_, int GROUPS_ = 2>
struct register_shape {
  enum {
    VECTOR = 16 / sizeof(T),
    GROUPS = GROUPS_,
    EACH = GROUPS * VECTOR, /* rows per lane, and columns */
    WARP_ROWS = WARP_ROWS_,
    WARP_COLUMNS = WARP_COLUMNS_,
    THREADS = WARP_ROWS * WARP_COLUMNS * ADJI_WARP,
    ROWS = WARP_ROWS * 4 * EACH,
    COLUMNS = WARP_COLUMNS * 8 * EACH,
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

/* The lane's i-th row in the tile; its j-th column. */
template <class S>
__device__ __forceinline__ uint32_t row_of(uint32_t i) {
  uint32_t warp = threadIdx.x / ADJI_WARP / S::WARP_COLUMNS, lane = threadIdx.x % ADJI_WARP / 8;
  return (warp * 4 * S::GROUPS + lane + i / S::VECTOR * 4) * S::VECTOR + i % S::VECTOR;
}
template <class S>
__device__ __forceinline__ uint32_t column_of(uint32_t j) {
  uint32_t warp = threadIdx.x / ADJI_WARP % S::WARP_COLUMNS, lane = threadIdx.x % 8;
  return (warp * 8 * S::GROUPS + lane + j / S::VECTOR * 8) * S::VECTOR + j % S::VECTOR;
}

static __device__ __forceinline__ float absolute(float t) {
  return fabsf(t);
}
static __device__ __forceinline__ double absolute(double t) {
  return fabs(t);
}
static __device__ __forceinline__ float larger(float a, float b) {
  return fmaxf(a, b);
}
static __device__ __forceinline__ double larger(double a, double b) {
  return fmax(a, b);
}

/* The canonical step in fewer instructions, with the same bits. The definition keeps a difference of -0, while |t| is
 * +0 here. That makes no difference: a sum is never -0, so adding either gives the same sum, and neither is above it.
 * No value here is a NaN: coordinates are finite, so a difference may overflow to an infinity, but no two infinities
 * are subtracted.
 */
template <int STEP, class T>
__device__ __forceinline__ T tile_step(T s, T x, T c, const adji_gpu_measure<T> &measure, uint32_t j) {
  if (STEP == ADJI_STEP_L1) return adji_plus(s, absolute(adji_gpu_difference(x, c)));
  if (STEP == ADJI_STEP_LINF) return larger(s, absolute(adji_gpu_difference(x, c)));
  return adji_gpu_step<STEP>(s, x, c, measure, j);
}

/* Makes the steps of one dimension. */
template <int STEP, class T, class S>
__device__ __forceinline__ void add_dimension(const adji_gpu_measure<T> &measure, const register_tile<T, S> &tile,
                                              uint32_t k, uint32_t dimension, T (&sums)[S::EACH][S::EACH]) {
  vector_of<T> x[S::GROUPS], c[S::GROUPS];
#pragma unroll
  for (int group = 0; group < S::GROUPS; group++) {
    x[group] = *reinterpret_cast<const vector_of<T> *>(&tile.queries[k][row_of<S>(group * S::VECTOR)]);
    c[group] = *reinterpret_cast<const vector_of<T> *>(&tile.points[k][column_of<S>(group * S::VECTOR)]);
  }
#pragma unroll
  for (int i = 0; i < S::EACH; i++)
#pragma unroll
    for (int j = 0; j < S::EACH; j++)
      sums[i][j] = tile_step<STEP>(sums[i][j], x[i / S::VECTOR].at[i % S::VECTOR], c[j / S::VECTOR].at[j % S::VECTOR],
                                   measure, dimension);
}

/* Computes the sums of a tile. source.fill(from, to) starts to copy the coordinates of DEPTH dimensions from `from` on,
 * in groups of cp.async. All threads of the block call it; the buffers may still be read by others when it returns. */
template <int STEP, class T, class S, class SOURCE>
__device__ __forceinline__ void sum_tile(const adji_gpu_measure<T> &measure, uint32_t dim, SOURCE *source,
                                         register_tile<T, S> (&tiles)[2], T (&sums)[S::EACH][S::EACH]) {
  /* Not unrolled for periodic boxes, whose lengths take registers, nor for powers, whose code is long. */
  constexpr int UNROLLED = STEP >= ADJI_STEP_L2_BOX || STEP == ADJI_STEP_LP ? 1 : 4;
#pragma unroll
  for (int i = 0; i < S::EACH; i++)
#pragma unroll
    for (int j = 0; j < S::EACH; j++)
      sums[i][j] = 0;
  source->fill(0, &tiles[0]);
  uint32_t buffer = 0;
  for (uint32_t from = 0; from < dim; from += S::DEPTH, buffer ^= 1) {
    wait_for_groups<0>();
    __syncthreads();
    if (from + S::DEPTH < dim) source->fill(from + S::DEPTH, &tiles[buffer ^ 1]);
    const register_tile<T, S> &tile = tiles[buffer];
    if (dim - from >= S::DEPTH) {
#pragma unroll UNROLLED
      for (uint32_t k = 0; k < S::DEPTH; k++)
        add_dimension<STEP, T, S>(measure, tile, k, from + k, sums);
    } else {
#pragma unroll 1
      for (uint32_t k = 0; k < dim - from; k++)
        add_dimension<STEP, T, S>(measure, tile, k, from + k, sums);
    }
  }
}

}  // namespace

#endif
