/* SPDX-License-Identifier: MIT
 *
 * Boxes of tiles, and lists of those that are within reach: see prefilter_tensor_tiles.cuh.
 *
 * For 10 million uniform points in ten dimensions, a third of all tiles are within reach of the box of a block's 128
 * queries, 5 % are within reach of a query of the block, and 3 % of a query of a warp. So every query is tested against
 * the boxes that pass the first test. That takes 4 instructions per dimension, 1 to 2 % of what scanning the tile would
 * take.
 */
#include "gpu/brute/prefilter_tensor_tiles.cuh"

#include <cuda_fp16.h>

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu, NOT_LISTED = 0xffffffffu;
enum {
  THREADS = ADJI_TENSOR_ROWS, /* one per query of a block */
  WARPS = THREADS / ADJI_WARP,
  CLASSES = 256, /* classes of nearness */
  MOST_STARTS = ADJI_TILE_NEAREST,
  SPLITS = 8
};

/* What the kernels read and write, in device memory. */
struct listing : adji_tensor_view {
  const __half *left;
  const float *boxes;
  uint32_t queries, tiles, starts, nearest;
  uint32_t *sorted, *work;      /* `tiles` entries for each block of queries */
  uint32_t *listed, *scheduled; /* their numbers of entries */
  uint32_t *start;              /* MOST_STARTS tiles for each block */
  uint32_t *items_made;
  adji_tile_item *items;
};

/* ---- Boxes ----------------------------------------------------------------------------------- */

/* c and h of a box from its exact bounds: see prefilter_tensor_tiles.cuh. */
__device__ __forceinline__ float2 box_of(float low, float high) {
  float c = (low + high) / 2;
  return float2{c, adji_tensor_box_half(low, high, c)};
}

/* Finds the boxes of tiles. A block owns a tile, a thread owns one of its points; a warp reduces its points dimension
 * by dimension. Limited by shuffles. */
__global__ void __launch_bounds__(ADJI_TENSOR_TILE)
    find_boxes(const __half *values, const float *starts, uint64_t count, adji_tensor_rules rules, float *boxes) {
  enum { TILE_WARPS = ADJI_TENSOR_TILE / ADJI_WARP };
  __shared__ float lows[TILE_WARPS][32], highs[TILE_WARPS][32];
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * ADJI_TENSOR_TILE + threadIdx.x;
  uint32_t warp = threadIdx.x / ADJI_WARP, lane = threadIdx.x % ADJI_WARP, dims = adji_tile_box_dims(rules.dim);
  bool stray = __syncthreads_or(i < count && starts[i] >= ADJI_TENSOR_STRAY);
  for (uint32_t j = 0; j < dims; j++) {
    bool there = i < count && j < rules.dim;
    float x = there ? __half2float(values[i * rules.width + j]) : 0, low = i < count ? x : INFINITY,
          high = i < count ? x : -INFINITY;
#pragma unroll
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
      low = fminf(low, __shfl_xor_sync(ALL_LANES, low, step));
      high = fmaxf(high, __shfl_xor_sync(ALL_LANES, high, step));
    }
    if (lane == 0) lows[warp][j] = low, highs[warp][j] = high;
  }
  __syncthreads();
  if (threadIdx.x >= dims) return;
  float low = INFINITY, high = -INFINITY;
  for (uint32_t w = 0; w < TILE_WARPS; w++) {
    low = fminf(low, lows[w][threadIdx.x]);
    high = fmaxf(high, highs[w][threadIdx.x]);
  }
  float2 box = box_of(low, high);
  float *to = boxes + static_cast<uint64_t>(blockIdx.x) * 2 * dims + threadIdx.x;
  to[0] = box.x;
  to[dims] = stray ? INFINITY : box.y;
}

/* ---- Queries --------------------------------------------------------------------------------- */

/* Shared memory of a block: the box of all its queries that are searched, and what it is reduced from. */
template <int DIMS>
struct block_memory {
  float c[DIMS], h[DIMS];
  float lows[WARPS][DIMS], highs[WARPS][DIMS], reaches[WARPS];
  float reach;
};

template <int DIMS>
__device__ __forceinline__ float load_query(const listing &job, float (&x)[DIMS]) {
  uint32_t query = blockIdx.x * THREADS + threadIdx.x;
  const uint4 *from = reinterpret_cast<const uint4 *>(job.left + static_cast<uint64_t>(query) * job.rules.width);
#pragma unroll
  for (int chunk = 0; chunk * 8 < DIMS; chunk++) {
    uint4 packed = __ldg(from + chunk);
    __half eight[8];
    memcpy(eight, &packed, sizeof packed);
#pragma unroll
    for (int j = 0; j < 8; j++)
      if (chunk * 8 + j < DIMS) x[chunk * 8 + j] = __half2float(eight[j]);
  }
  return query < job.queries ? job.reaches[query] : -1;
}

/* Finds the box of the block's queries whose reach is not negative, and their largest reach. */
template <int DIMS>
__device__ __forceinline__ void find_block_box(const float (&x)[DIMS], float reach, block_memory<DIMS> *at) {
  uint32_t warp = threadIdx.x / ADJI_WARP, lane = threadIdx.x % ADJI_WARP;
#pragma unroll
  for (int j = 0; j < DIMS; j++) {
    float low = reach >= 0 ? x[j] : INFINITY, high = reach >= 0 ? x[j] : -INFINITY;
#pragma unroll
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
      low = fminf(low, __shfl_xor_sync(ALL_LANES, low, step));
      high = fmaxf(high, __shfl_xor_sync(ALL_LANES, high, step));
    }
    if (lane == 0) at->lows[warp][j] = low, at->highs[warp][j] = high;
  }
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    reach = fmaxf(reach, __shfl_xor_sync(ALL_LANES, reach, step));
  if (lane == 0) at->reaches[warp] = reach;
  __syncthreads();
  if (threadIdx.x < DIMS) {
    float low = INFINITY, high = -INFINITY;
    for (uint32_t w = 0; w < WARPS; w++) {
      low = fminf(low, at->lows[w][threadIdx.x]);
      high = fmaxf(high, at->highs[w][threadIdx.x]);
    }
    float2 box = low <= high ? box_of(low, high) : float2{0, 0};
    at->c[threadIdx.x] = box.x;
    at->h[threadIdx.x] = box.y;
  }
  if (threadIdx.x == 0) at->reach = fmaxf(fmaxf(at->reaches[0], at->reaches[1]), fmaxf(at->reaches[2], at->reaches[3]));
  __syncthreads();
}

/* The sum of squared gaps between a query and a tile. */
template <int DIMS>
__device__ __forceinline__ float near_sum(const listing &job, const float (&x)[DIMS], uint32_t tile) {
  const float4 *box = reinterpret_cast<const float4 *>(job.boxes + static_cast<uint64_t>(tile) * 2 * DIMS);
  float sum = 0;
#pragma unroll
  for (int j = 0; j < DIMS; j += 4) {
    float4 c = __ldg(box + j / 4), h = __ldg(box + DIMS / 4 + j / 4);
    sum = adji_tensor_add_gap(sum, x[j], c.x, h.x);
    sum = adji_tensor_add_gap(sum, x[j + 1], c.y, h.y);
    sum = adji_tensor_add_gap(sum, x[j + 2], c.z, h.z);
    sum = adji_tensor_add_gap(sum, x[j + 3], c.w, h.w);
  }
  return sum;
}

/* The sum of squared gaps between the block's box and a tile. */
template <int DIMS>
__device__ __forceinline__ float near_sum(const listing &job, const block_memory<DIMS> &at, uint32_t tile) {
  const float4 *box = reinterpret_cast<const float4 *>(job.boxes + static_cast<uint64_t>(tile) * 2 * DIMS);
  float sum = 0;
#pragma unroll
  for (int j = 0; j < DIMS; j += 4) {
    float4 c = __ldg(box + j / 4), h = __ldg(box + DIMS / 4 + j / 4);
    sum = adji_tensor_add_gap(sum, at.c[j], c.x, at.h[j] + h.x);
    sum = adji_tensor_add_gap(sum, at.c[j + 1], c.y, at.h[j + 1] + h.y);
    sum = adji_tensor_add_gap(sum, at.c[j + 2], c.z, at.h[j + 2] + h.z);
    sum = adji_tensor_add_gap(sum, at.c[j + 3], c.w, at.h[j + 3] + h.w);
  }
  return sum;
}

/* ---- The first tiles ------------------------------------------------------------------------- */

/* Divides entries first .. end - 1 of the block's work into items. Called by all threads. */
__device__ __forceinline__ void make_items(const listing &job, uint32_t first, uint32_t end) {
  __shared__ uint32_t place;
  uint32_t items = (end - first + ADJI_ITEM_TILES - 1) / ADJI_ITEM_TILES;
  if (threadIdx.x == 0) place = atomicAdd(job.items_made, items);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < items; i += THREADS) {
    uint32_t begin = first + i * ADJI_ITEM_TILES, rest = end - begin;
    job.items[place + i] = adji_tile_item{blockIdx.x, begin, rest < ADJI_ITEM_TILES ? rest : ADJI_ITEM_TILES};
  }
}

/* Chooses the nearest tiles of each block of queries, in order: those whose points have the smallest expected squared
 * distance from the centre of the block's queries. The first of them are the starts. One block per block of queries. A
 * thread finds the best of every THREADS-th tile; then the best of these are chosen one by one. In each dimension a
 * point that is uniform in a box has mean c and variance h^2 / 3.
 */
template <int DIMS>
__global__ void __launch_bounds__(THREADS) choose_starts(const listing job) {
  __shared__ block_memory<DIMS> at;
  __shared__ unsigned long long best[WARPS];
  float x[DIMS];
  load_query(job, x);
  find_block_box(x, blockIdx.x * THREADS + threadIdx.x < job.queries ? 0.0f : -1.0f, &at);
  unsigned long long own_best = ~0ull;
  for (uint32_t tile = threadIdx.x; tile < job.tiles; tile += THREADS) {
    const float *box = job.boxes + static_cast<uint64_t>(tile) * 2 * DIMS;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < DIMS; j++) {
      float t = __ldg(box + j) - at.c[j], h = __ldg(box + DIMS + j);
      sum += t * t + h * h * (1.0f / 3);
    }
    unsigned long long key = static_cast<unsigned long long>(__float_as_uint(sum)) << 32 | tile;
    own_best = key < own_best ? key : own_best;
  }
  uint32_t *work = job.work + static_cast<uint64_t>(blockIdx.x) * job.tiles,
           *start = job.start + blockIdx.x * MOST_STARTS;
  for (uint32_t i = 0; i < job.nearest; i++) {
    unsigned long long least = own_best;
#pragma unroll
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
      unsigned long long other = __shfl_xor_sync(ALL_LANES, least, step);
      least = other < least ? other : least;
    }
    if (threadIdx.x % ADJI_WARP == 0) best[threadIdx.x / ADJI_WARP] = least;
    __syncthreads();
    least = best[0];
    for (uint32_t w = 1; w < WARPS; w++)
      least = best[w] < least ? best[w] : least;
    if (own_best == least) own_best = ~0ull;
    uint32_t tile = static_cast<uint32_t>(least);
    if (threadIdx.x == 0) work[i] = tile | 0xfu << ADJI_TILE_BITS, start[i] = tile;
    __syncthreads();
  }
  if (threadIdx.x == 0) job.listed[blockIdx.x] = 0;
  make_items(job, 0, job.starts);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Tiles that are tested together, one per thread of the block. */
struct test_memory {
  uint32_t tiles[THREADS], least[THREADS], count;
};

/* Appends the entries of those threads that have one to an array with a count; one atomic per warp. */
__device__ __forceinline__ void append(bool has, uint32_t entry, uint32_t *to, uint32_t *count) {
  uint32_t some = __ballot_sync(ALL_LANES, has), lane = threadIdx.x % ADJI_WARP, place = 0;
  if (!some) return;
  if (lane == 0) place = atomicAdd(count, __popc(some));
  place = __shfl_sync(ALL_LANES, place, 0) + __popc(some & ((1u << lane) - 1));
  if (has) to[place] = entry;
}

/* Lists the tiles that are within reach of a query. An entry has a class of nearness in the bits above the tile. A
 * block owns a block of queries and every SPLITS-th group of THREADS tiles; a thread owns a query.
 * 1. Each thread tests a tile against the box of all queries.
 * 2. Each warp tests its queries against the tiles that passed; the smallest ratio of a sum to p^2 is the nearness.
 * 3. The tiles that are within reach are appended to the list. */
template <int DIMS>
__global__ void __launch_bounds__(THREADS) list_tiles(const listing job) {
  __shared__ block_memory<DIMS> at;
  __shared__ test_memory test;
  float x[DIMS], reach = load_query(job, x);
  find_block_box(x, reach, &at);
  if (at.reach < 0) return;
  float inverse = reach > 0 && reach < INFINITY ? 1 / reach : 0;
  const uint32_t *start = job.start + blockIdx.x * MOST_STARTS;
  uint32_t *to = job.work + static_cast<uint64_t>(blockIdx.x) * job.tiles;
  for (uint32_t first = blockIdx.y * THREADS; first < job.tiles; first += gridDim.y * THREADS) {
    uint32_t tile = first + threadIdx.x;
    if (threadIdx.x == 0) test.count = 0;
    test.least[threadIdx.x] = NOT_LISTED;
    bool passes = tile < job.tiles && near_sum(job, at, tile) <= at.reach;
    for (uint32_t i = 0; i < job.nearest; i++)
      if (start[i] == tile) passes = false;
    __syncthreads();
    append(passes, tile, test.tiles, &test.count);
    __syncthreads();
    uint32_t count = test.count;
#pragma unroll 2
    for (uint32_t i = 0; i < count; i++) {
      float sum = near_sum(job, x, test.tiles[i]);
      uint32_t ratio = sum <= reach ? __float_as_uint(sum * inverse) : NOT_LISTED;
      ratio = __reduce_min_sync(ALL_LANES, ratio);
      if (threadIdx.x % ADJI_WARP == 0 && ratio != NOT_LISTED) atomicMin(test.least + i, ratio);
    }
    __syncthreads();
    uint32_t least = threadIdx.x < count ? test.least[threadIdx.x] : NOT_LISTED;
    float nearness = __uint_as_float(least) * CLASSES;
    uint32_t number = nearness < CLASSES - 1 ? static_cast<uint32_t>(nearness) : CLASSES - 1;
    append(least != NOT_LISTED, test.tiles[threadIdx.x] | number << ADJI_TILE_BITS, to, job.listed + blockIdx.x);
    __syncthreads();
  }
}

/* Puts each list in order of its classes. One block per list. */
__global__ void __launch_bounds__(THREADS) sort_lists(const listing job) {
  __shared__ uint32_t counts[CLASSES], sums[WARPS];
  const uint32_t *from = job.work + static_cast<uint64_t>(blockIdx.x) * job.tiles;
  uint32_t *to = job.sorted + static_cast<uint64_t>(blockIdx.x) * job.tiles, count = job.listed[blockIdx.x];
  uint32_t warp = threadIdx.x / ADJI_WARP, lane = threadIdx.x % ADJI_WARP;
  for (uint32_t c = threadIdx.x; c < CLASSES; c += THREADS)
    counts[c] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += THREADS)
    atomicAdd(counts + (from[i] >> ADJI_TILE_BITS), 1);
  __syncthreads();
  uint32_t a = counts[2 * threadIdx.x], b = counts[2 * threadIdx.x + 1], sum = a + b;
#pragma unroll
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t other = __shfl_up_sync(ALL_LANES, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == ADJI_WARP - 1) sums[warp] = sum;
  __syncthreads();
  for (uint32_t w = 0; w < warp; w++)
    sum += sums[w];
  counts[2 * threadIdx.x] = sum - a - b;
  counts[2 * threadIdx.x + 1] = sum - b;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
    uint32_t entry = from[i];
    to[atomicAdd(counts + (entry >> ADJI_TILE_BITS), 1)] = entry & ADJI_TILE_MASK;
  }
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* Tests entries first .. end - 1 of each list again, since bounds are tighter now. Tiles that are still within reach of
 * a query become work, with a bit for each warp whose queries need them. A block owns a block of queries and every
 * gridDim.y-th group of THREADS entries. */
template <int DIMS>
__global__ void __launch_bounds__(THREADS) test_again(const listing job, uint32_t first, uint32_t end) {
  __shared__ test_memory test;
  uint32_t count = job.listed[blockIdx.x], warp = threadIdx.x / ADJI_WARP;
  end = end < count ? end : count;
  first += blockIdx.y * THREADS;
  if (first >= end) return;
  float x[DIMS], reach = load_query(job, x);
  const uint32_t *from = job.sorted + static_cast<uint64_t>(blockIdx.x) * job.tiles;
  uint32_t *to = job.work + static_cast<uint64_t>(blockIdx.x) * job.tiles;
  for (; first < end; first += gridDim.y * THREADS) {
    uint32_t some = end - first < THREADS ? end - first : THREADS;
    __syncthreads();
    test.tiles[threadIdx.x] = threadIdx.x < some ? from[first + threadIdx.x] : 0;
    test.least[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 2
    for (uint32_t i = 0; i < some; i++) {
      bool needed = near_sum(job, x, test.tiles[i]) <= reach;
      if (__any_sync(ALL_LANES, needed) && threadIdx.x % ADJI_WARP == 0) atomicOr(test.least + i, 1u << warp);
    }
    __syncthreads();
    uint32_t mask = test.least[threadIdx.x];
    append(mask, test.tiles[threadIdx.x] | mask << ADJI_TILE_BITS, to, job.scheduled + blockIdx.x);
  }
}

/* Divides the work of each block into items. One block per block of queries. starts: the work is the nearest tiles
 * after the starts. */
__global__ void __launch_bounds__(THREADS) schedule(const listing job, bool starts) {
  make_items(job, starts ? job.starts : 0, starts ? job.nearest : job.scheduled[blockIdx.x]);
}

/* ---- Launches -------------------------------------------------------------------------------- */

uint32_t tiles_of(uint64_t points) {
  return static_cast<uint32_t>((points + ADJI_TENSOR_TILE - 1) / ADJI_TENSOR_TILE);
}

listing listing_of(const adji_tensor_batch *b) {
  listing job = {adji_tensor_view_of(b)};
  uint32_t blocks = adji_blocks_for(b->job->queries, THREADS), *counts = adji_at<uint32_t>(b->list_counts);
  job.left = adji_at<__half>(b->values);
  job.boxes = adji_at<float>(b->points->boxes);
  job.queries = static_cast<uint32_t>(b->job->queries);
  job.tiles = tiles_of(b->points->count);
  job.starts = b->starts;
  job.nearest = b->nearest;
  adji_tile_lists lists = adji_tile_lists_of(b);
  job.sorted = lists.sorted;
  job.work = lists.work;
  job.listed = lists.listed;
  job.items_made = counts;
  job.scheduled = job.listed + blocks;
  job.start = job.scheduled + blocks;
  job.items = adji_at<adji_tile_item>(b->items);
  return job;
}

/* Launches a kernel for the dimensions of the boxes. */
#define FOR_DIMS(gpu, kernel, grid, job, ...)                          \
  do {                                                                 \
    switch (adji_tile_box_dims((job).rules.dim)) {                     \
      case 8:                                                          \
        kernel<8><<<grid, THREADS, 0, (gpu)->compute>>>(__VA_ARGS__);  \
        break;                                                         \
      case 12:                                                         \
        kernel<12><<<grid, THREADS, 0, (gpu)->compute>>>(__VA_ARGS__); \
        break;                                                         \
      case 16:                                                         \
        kernel<16><<<grid, THREADS, 0, (gpu)->compute>>>(__VA_ARGS__); \
        break;                                                         \
      case 24:                                                         \
        kernel<24><<<grid, THREADS, 0, (gpu)->compute>>>(__VA_ARGS__); \
        break;                                                         \
      default:                                                         \
        kernel<32><<<grid, THREADS, 0, (gpu)->compute>>>(__VA_ARGS__); \
        break;                                                         \
    }                                                                  \
    ADJI_LAUNCHED(gpu, #kernel);                                       \
  } while (0)

}  // namespace

adji_tile_lists adji_tile_lists_of(const adji_tensor_batch *b) {
  uint64_t blocks = adji_blocks_for(b->job->queries, THREADS);
  adji_tile_lists lists = {};
  lists.sorted = adji_at<uint32_t>(b->lists);
  lists.work = lists.sorted + blocks * tiles_of(b->points->count);
  lists.listed = adji_at<uint32_t>(b->list_counts) + 2;
  return lists;
}

adj_status adji_tile_boxes(adji_gpu *gpu, adji_tensor_points *points) {
  uint32_t tiles = tiles_of(points->count);
  uint64_t bytes = static_cast<uint64_t>(tiles) * 2 * adji_tile_box_dims(points->rules.dim) * sizeof(float);
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "boxes of tiles", &points->boxes);
  if (status || !tiles) return status;
  find_boxes<<<tiles, ADJI_TENSOR_TILE, 0, gpu->compute>>>(adji_at<__half>(points->values),
                                                           adji_at<float>(points->starts), points->count, points->rules,
                                                           adji_at<float>(points->boxes));
  ADJI_LAUNCHED(gpu, "find_boxes");
  return ADJ_OK;
}

uint64_t adji_tile_list_bytes(uint64_t points) {
  uint64_t tiles = tiles_of(points);
  return tiles * 2 * sizeof(uint32_t) + (tiles / ADJI_ITEM_TILES + 2) * sizeof(adji_tile_item) + (MOST_STARTS + 2) * 4;
}

adj_status adji_tile_lists_get(adji_gpu *gpu, adji_tensor_batch *b) {
  uint64_t blocks = adji_blocks_for(b->job->queries, THREADS), tiles = tiles_of(b->points->count);
  adj_status status = adji_block_reserve(gpu, gpu->compute, blocks * tiles * 2 * sizeof(uint32_t), &b->lists);
  if (!status)
    status =
        adji_block_reserve(gpu, gpu->compute, (2 + blocks * (2 + MOST_STARTS)) * sizeof(uint32_t), &b->list_counts);
  if (!status)
    status = adji_block_reserve(gpu, gpu->compute, blocks * (tiles / ADJI_ITEM_TILES + 2) * sizeof(adji_tile_item),
                                &b->items);
  if (!status) status = adji_block_reserve(gpu, gpu->compute, b->row_capacity * sizeof(float), &b->reaches);
  if (!status) status = adji_block_reserve(gpu, gpu->compute, b->row_capacity * sizeof(uint32_t), &b->kept);
  return status;
}

adj_status adji_tile_begin(adji_gpu *gpu, const adji_tensor_batch *b) {
  listing job = listing_of(b);
  ADJI_CUDA(gpu, cudaMemsetAsync(job.items_made, 0, 2 * sizeof(uint32_t), gpu->compute));
  FOR_DIMS(gpu, choose_starts, adji_blocks_for(job.queries, THREADS), job, job);
  return ADJ_OK;
}

adj_status adji_tile_nearest(adji_gpu *gpu, const adji_tensor_batch *b) {
  listing job = listing_of(b);
  ADJI_CUDA(gpu, cudaMemsetAsync(job.items_made, 0, 2 * sizeof(uint32_t), gpu->compute));
  schedule<<<adji_blocks_for(job.queries, THREADS), THREADS, 0, gpu->compute>>>(job, true);
  ADJI_LAUNCHED(gpu, "schedule");
  return ADJ_OK;
}

adj_status adji_tile_list(adji_gpu *gpu, const adji_tensor_batch *b) {
  listing job = listing_of(b);
  uint32_t blocks = adji_blocks_for(job.queries, THREADS);
  FOR_DIMS(gpu, list_tiles, dim3(blocks, SPLITS), job, job);
  sort_lists<<<blocks, THREADS, 0, gpu->compute>>>(job);
  ADJI_LAUNCHED(gpu, "sort_lists");
  return ADJ_OK;
}

adj_status adji_tile_next(adji_gpu *gpu, const adji_tensor_batch *b, uint64_t first, uint64_t end) {
  listing job = listing_of(b);
  uint32_t blocks = adji_blocks_for(job.queries, THREADS), splits = adji_blocks_for(end - first, THREADS);
  ADJI_CUDA(gpu, cudaMemsetAsync(job.items_made, 0, 2 * sizeof(uint32_t), gpu->compute));
  ADJI_CUDA(gpu, cudaMemsetAsync(job.scheduled, 0, blocks * sizeof(uint32_t), gpu->compute));
  FOR_DIMS(gpu, test_again, dim3(blocks, splits < SPLITS ? splits : SPLITS), job, job, static_cast<uint32_t>(first),
           static_cast<uint32_t>(end));
  schedule<<<blocks, THREADS, 0, gpu->compute>>>(job, false);
  ADJI_LAUNCHED(gpu, "schedule");
  return ADJ_OK;
}
