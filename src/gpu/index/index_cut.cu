/* SPDX-License-Identifier: MIT
 *
 * Cuts long runs of the curve in two, three times, before tree_cut.cu cuts them further. In six dimensions a run of
 * 2,048 points is too short to form a cube, however it is cut, and its ends belong to neighbouring cubes.
 *
 * A block owns a run of LONG_RUN rows. It holds their ids and an 8-bit code of every coordinate. Rows stay in place;
 * only their ids move.
 *
 *   1. scale   mean and standard deviation of each dimension, from one point of each thread
 *   2. codes   coordinates up to three standard deviations from the mean, as integers
 *   3. choose  for each piece, the dimension of the largest variance
 *   4. cut     sort the run by (piece, code); then 3 again, three times in all
 *   5. move    the ids
 *
 * Limits: instruction issue, and scattered reads of rows; 1 ms for 10 million points in 6-D on an H200.
 */
#include <cub/block/block_radix_sort.cuh>

#include "gpu/index/index_private.cuh"

namespace {

enum {
  LONG_THREADS = 1024,
  LONG_WARPS = LONG_THREADS / ADJI_WARP,
  LONG_ITEMS = 16,
  LONG_RUN = LONG_THREADS * LONG_ITEMS,
  LONG_END = LONG_RUN / 8, /* pieces of this length are not cut */
  CODE_BITS = 8,
  CODES_A_DEVIATION = 42,
  LAST_CODE = 254 /* the largest code of a point; 255 is for missing points */
};

struct long_memory {
  typedef cub::BlockRadixSort<uint16_t, LONG_THREADS, LONG_ITEMS, uint16_t> sorter;
  union {
    typename sorter::TempStorage sort;
    uint32_t ids[LONG_RUN];
  };
  float means[ADJI_CURVE_DIMS][LONG_WARPS], squares[ADJI_CURVE_DIMS][LONG_WARPS];
  float zeros[ADJI_CURVE_DIMS], scales[ADJI_CURVE_DIMS];
  uint32_t sums[ADJI_CURVE_DIMS][LONG_WARPS], square_sums[ADJI_CURVE_DIMS][LONG_WARPS];
  uint8_t codes[1][LONG_RUN]; /* one per dimension */
};

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

template <class T>
__device__ __forceinline__ float value_of(const adji_gpu_rows &rows, uint32_t row, uint32_t j) {
  return static_cast<float>(static_cast<const T *>(rows.data)[row * rows.row_stride + j * rows.column_stride]);
}

/* Step 1. */
template <class T>
__device__ __forceinline__ void scale_run(const adji_gpu_rows &rows, const uint32_t *ids, uint32_t count,
                                          long_memory *at) {
  uint32_t warp = threadIdx.x / ADJI_WARP, spread = count / LONG_THREADS ? count / LONG_THREADS : 1;
  uint32_t own = threadIdx.x * spread, first = ids[0];
  bool there = own < count;
  for (uint32_t j = 0; j < rows.dim; j++) {
    float x = there ? value_of<T>(rows, ids[own], j) - value_of<T>(rows, first, j) : 0;
    float sum = warp_sum(x), squares = warp_sum(x * x);
    at->means[j][warp] = sum;
    at->squares[j][warp] = squares;
  }
  __syncthreads();
  float sampled = static_cast<float>(count < LONG_THREADS ? count : LONG_THREADS);
  for (uint32_t j = threadIdx.x; j < rows.dim; j += LONG_THREADS) {
    float sum = 0, squares = 0;
    for (uint32_t w = 0; w < LONG_WARPS; w++) {
      sum += at->means[j][w];
      squares += at->squares[j][w];
    }
    float mean = sum / sampled, variance = squares / sampled - mean * mean;
    at->zeros[j] = value_of<T>(rows, first, j) + mean;
    at->scales[j] = variance > 0 ? CODES_A_DEVIATION / sqrtf(variance) : 0;
  }
  __syncthreads();
}

/* Step 2. */
template <class T>
__device__ __forceinline__ void make_codes(const adji_gpu_rows &rows, const uint32_t *ids, uint32_t count,
                                           long_memory *at) {
  for (uint32_t i = threadIdx.x; i < count; i += LONG_THREADS) {
    uint32_t id = ids[i];
    for (uint32_t j = 0; j < rows.dim; j++) {
      float q = (value_of<T>(rows, id, j) - at->zeros[j]) * at->scales[j] + LAST_CODE / 2;
      at->codes[j][i] = q > 0 ? q < LAST_CODE ? static_cast<uint8_t>(q) : LAST_CODE : 0;
    }
  }
}

/* Step 3, by the warps of the piece. */
__device__ __forceinline__ uint32_t choose_dim(uint32_t dim, uint32_t count, long_memory *at,
                                               const uint16_t (&order)[LONG_ITEMS], uint32_t piece) {
  uint32_t warp = threadIdx.x / ADJI_WARP, warps = piece / (LONG_ITEMS * ADJI_WARP), first = warp / warps * warps;
  for (uint32_t j = 0; j < dim; j++) {
    uint32_t sum = 0, squares = 0;
#pragma unroll
    for (uint32_t e = 0; e < LONG_ITEMS; e++) {
      uint32_t x = threadIdx.x * LONG_ITEMS + e < count ? at->codes[j][order[e]] : 0;
      sum += x;
      squares += x * x;
    }
    sum = __reduce_add_sync(0xffffffffu, sum);
    squares = __reduce_add_sync(0xffffffffu, squares);
    at->sums[j][warp] = sum;
    at->square_sums[j][warp] = squares;
  }
  __syncthreads();
  uint32_t begin = warp / warps * piece, best = 0;
  float piece_count = static_cast<float>(count <= begin ? 1 : count - begin < piece ? count - begin : piece), most = -1;
  for (uint32_t j = 0; j < dim; j++) {
    uint32_t sum = 0, squares = 0;
    for (uint32_t w = first; w < first + warps; w++) {
      sum += at->sums[j][w];
      squares += at->square_sums[j][w];
    }
    float mean = static_cast<float>(sum) / piece_count, square = static_cast<float>(squares) / piece_count;
    float variance = (square - mean * mean) / (at->scales[j] * at->scales[j]); /* NaN if all points are equal */
    if (!(variance > most)) continue;
    most = variance;
    best = j;
  }
  return best;
}

template <class T>
__global__ void __launch_bounds__(LONG_THREADS) cut_long_runs(adji_gpu_rows rows, uint32_t *all_ids) {
  extern __shared__ uint4 shared[];
  long_memory *at = reinterpret_cast<long_memory *>(shared);
  uint64_t begin = static_cast<uint64_t>(blockIdx.x) * LONG_RUN, remaining = rows.count - begin;
  uint32_t count = static_cast<uint32_t>(remaining < LONG_RUN ? remaining : LONG_RUN), *ids = all_ids + begin;
  scale_run<T>(rows, ids, count, at);
  make_codes<T>(rows, ids, count, at);
  uint16_t order[LONG_ITEMS], keys[LONG_ITEMS];
#pragma unroll
  for (uint32_t e = 0; e < LONG_ITEMS; e++)
    order[e] = static_cast<uint16_t>(threadIdx.x * LONG_ITEMS + e);
  __syncthreads();
#pragma unroll 1
  for (uint32_t piece = LONG_RUN; piece > LONG_END; piece /= 2) {
    uint32_t dim = choose_dim(rows.dim, count, at, order, piece);
#pragma unroll
    for (uint32_t e = 0; e < LONG_ITEMS; e++) {
      uint32_t place = threadIdx.x * LONG_ITEMS + e, code = place < count ? at->codes[dim][order[e]] : LAST_CODE + 1;
      keys[e] = static_cast<uint16_t>(place / piece << CODE_BITS | code);
    }
    __syncthreads();
    long_memory::sorter(at->sort).Sort(keys, order, 0, CODE_BITS + __ffs(LONG_RUN / piece) - 1);
    __syncthreads();
  }
  for (uint32_t i = threadIdx.x; i < count; i += LONG_THREADS)
    at->ids[i] = ids[i];
  __syncthreads();
#pragma unroll
  for (uint32_t e = 0; e < LONG_ITEMS; e++) {
    uint32_t place = threadIdx.x * LONG_ITEMS + e;
    if (place < count) ids[place] = at->ids[order[e]];
  }
}

template <class T>
adj_status cut_long(adji_gpu *gpu, const adji_gpu_rows *rows, uint32_t *ids) {
  size_t bytes = sizeof(long_memory) + (rows->dim - 1) * LONG_RUN;
  if (bytes > static_cast<size_t>(gpu->block_shared_bytes)) return ADJ_OK;
  ADJI_ALLOW_SHARED(gpu, cut_long_runs<T>);
  cut_long_runs<T><<<adji_blocks_for(rows->count, LONG_RUN), LONG_THREADS, bytes, gpu->compute>>>(*rows, ids);
  ADJI_LAUNCHED(gpu, "cut_long_runs");
  return ADJ_OK;
}

}  // namespace

/* In up to three dimensions short runs are enough: a query then has as few candidates as in a kd-tree. */
enum { FEW_DIMS = 3 };

adj_status adji_index_cut(adji_building *b) {
  if (b->rows->dim <= FEW_DIMS) return ADJ_OK;
  return b->rows->type == ADJ_F64 ? cut_long<double>(b->gpu, b->rows, b->index->ids)
                                  : cut_long<float>(b->gpu, b->rows, b->index->ids);
}
