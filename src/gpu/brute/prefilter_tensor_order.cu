/* SPDX-License-Identifier: MIT
 *
 * The order of copies for tiles. Any order is valid; a good one has small tiles.
 *
 * First, space is cut in two repeatedly, level by level, until a node has at most a tile of points. Each cut is the one
 * that reduces the variance most, among all dimensions and 31 places in each. It lies in the middle of an even spread,
 * between two clusters, or beside a cluster that has a few points around it. A median would cut such a cluster in two
 * and spread these few points over all its tiles, whose boxes would then be large.
 *
 * Then runs of RUN positions, regardless of nodes, are cut at their medians down to 32 points. So tiles, blocks of
 * queries and the queries of a warp are whole pieces of a run.
 *
 * With boxes of 256 points, 10 million uniform points in 10-D and k = 8, a warp of 32 queries needs 3.1 % of the tiles.
 * With medians only it would need 2.6 %; but for clusters in 16-D 3.5 % instead of 1.2 % (simulated).
 *
 * Limits: 25 levels with a few launches each; 2 ms for a million points.
 */
#include <cuda_fp16.h>

#include <cub/block/block_radix_sort.cuh>

#include "gpu/brute/prefilter_tensor_tiles.cuh"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu, NO_NODE = 0xffffffffu, IN_HALF = 0xffffffffu;

enum { THREADS = 256, WARPS = THREADS / ADJI_WARP, LEAF = 256, SAMPLED = 1024, PAD = 2, BINS = 32, MOST_LEVELS = 64 };

/* ---- Nodes ----------------------------------------------------------------------------------- */

struct node {
  uint32_t begin, count;
};

/* Where a node is cut: points with x[dim] < at go to the lower side. dim IN_HALF: all sampled points are equal, and the
 * first half of the positions goes there. lower, upper: the number of points on each side. */
struct node_cut {
  uint32_t dim;
  float at;
  uint32_t lower, upper;
};

/* A level of the tree, in device memory. sides[i]: twice the node of position i in the previous level, plus 1 if its
 * point went to the upper side. live[s]: the node of this level for side s, NO_NODE if that is small enough. */
struct level {
  const __half *values;
  uint64_t count;
  uint32_t dim, width;
  const node *nodes;
  node_cut *cuts;
  const uint32_t *live;
  const uint32_t *order, *sides;
};

struct best_cut {
  float gain, at;
  uint32_t dim;
};

/* Finds the least value, the largest value and the mean of a dimension's sample, with a warp. */
__device__ __forceinline__ float3 sample_range(const __half *x, uint32_t count, uint32_t lane) {
  float low = INFINITY, high = -INFINITY, sum = 0;
  for (uint32_t i = lane; i < count; i += ADJI_WARP) {
    float value = __half2float(x[i]);
    low = fminf(low, value);
    high = fmaxf(high, value);
    sum += value;
  }
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
    low = fminf(low, __shfl_xor_sync(ALL_LANES, low, step));
    high = fmaxf(high, __shfl_xor_sync(ALL_LANES, high, step));
    sum += __shfl_xor_sync(ALL_LANES, sum, step);
  }
  return float3{low, high, sum / static_cast<float>(count)};
}

/* Finds the best cut along a dimension, with a warp: lane b considers the end of bin b. If one side has c points, and s
 * is the sum of their differences from the mean, a cut reduces the sum of squares by s^2 (1 / c + 1 / (count - c)). */
__device__ __forceinline__ best_cut cut_along(const __half *x, uint32_t count, uint32_t *bins, uint32_t lane) {
  float3 range = sample_range(x, count, lane);
  best_cut best = {0, 0, IN_HALF};
  if (!(range.y > range.x)) return best;
  float width = (range.y - range.x) / BINS, scale = BINS / (range.y - range.x);
  bins[lane] = 0;
  __syncwarp();
  for (uint32_t i = lane; i < count; i += ADJI_WARP) {
    int bin = static_cast<int>((__half2float(x[i]) - range.x) * scale);
    atomicAdd(bins + (bin < BINS ? bin : BINS - 1), 1);
  }
  __syncwarp();
  float c = static_cast<float>(bins[lane]), s = c * (range.x + (static_cast<float>(lane) + 0.5f) * width - range.z);
#pragma unroll
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    float more_c = __shfl_up_sync(ALL_LANES, c, step), more_s = __shfl_up_sync(ALL_LANES, s, step);
    if (lane >= step) c += more_c, s += more_s;
  }
  float rest = static_cast<float>(count) - c;
  float gain = lane + 1 < BINS && c >= 1 && rest >= 1 ? s * s * (1 / c + 1 / rest) : 0;
  best.gain = gain;
  best.at = range.x + static_cast<float>(lane + 1) * width;
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
    float other = __shfl_xor_sync(ALL_LANES, best.gain, step), at = __shfl_xor_sync(ALL_LANES, best.at, step);
    if (other > best.gain) best.gain = other, best.at = at;
  }
  best.gain = __shfl_sync(ALL_LANES, best.gain, 0);
  best.at = __shfl_sync(ALL_LANES, best.at, 0);
  __syncwarp();
  return best;
}

/* Chooses the cut of each node. A block owns a node; a warp takes every WARPS-th dimension.
 * 1. Up to SAMPLED points of the node go to shared memory, by dimension.
 * 2. Each warp finds the best cut along its dimensions.
 * 3. The best of these becomes the node's cut.
 *
 * Limited by latency: about 10 us per block. */
__global__ void __launch_bounds__(THREADS) choose_cuts(const level l) {
  extern __shared__ __half sample[];
  __shared__ uint32_t bins[WARPS][BINS];
  __shared__ best_cut found[WARPS];
  const node n = l.nodes[blockIdx.x];
  uint32_t count = n.count < SAMPLED ? n.count : SAMPLED, chunks = (l.dim + 7) / 8, pitch = SAMPLED + PAD;
  for (uint32_t e = threadIdx.x; e < count * chunks; e += THREADS) {
    uint32_t i = e / chunks, chunk = e % chunks;
    uint32_t id = l.order[n.begin + static_cast<uint32_t>(static_cast<uint64_t>(i) * n.count / count)];
    uint4 packed = __ldg(reinterpret_cast<const uint4 *>(l.values + static_cast<uint64_t>(id) * l.width) + chunk);
    __half eight[8];
    memcpy(eight, &packed, sizeof packed);
#pragma unroll
    for (uint32_t j = 0; j < 8; j++)
      sample[(chunk * 8 + j) * pitch + i] = eight[j];
  }
  __syncthreads();
  uint32_t warp = threadIdx.x / ADJI_WARP, lane = threadIdx.x % ADJI_WARP;
  best_cut best = {0, 0, IN_HALF};
  for (uint32_t j = warp; j < l.dim; j += WARPS) {
    best_cut one = cut_along(sample + j * pitch, count, bins[warp], lane);
    if (one.gain > best.gain) best = best_cut{one.gain, one.at, j};
  }
  if (lane == 0) found[warp] = best;
  __syncthreads();
  if (threadIdx.x) return;
  for (uint32_t w = 0; w < WARPS; w++)
    if (found[w].gain > best.gain) best = found[w];
  l.cuts[blockIdx.x] = node_cut{best.dim, best.at, 0, 0};
}

/* Moves the points of each node to their sides: the lower side grows from the begin of the node upwards, the upper side
 * from its end downwards. Threads of a warp that move points of one node to the same side share an atomic. One thread
 * per position; limited by reads of single coordinates. */
__global__ void __launch_bounds__(THREADS) split_nodes(const level l, uint32_t *order, uint32_t *sides) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x, to = i;
  bool there = i < l.count;
  uint32_t side = there ? l.sides[i] : NO_NODE, id = there ? l.order[i] : 0, next = NO_NODE;
  uint32_t number = side == NO_NODE ? NO_NODE : l.live[side], some = __ballot_sync(ALL_LANES, number != NO_NODE);
  if (number != NO_NODE) {
    const node n = l.nodes[number];
    node_cut *cut = l.cuts + number;
    uint32_t dim = cut->dim;
    bool upper = dim == IN_HALF ? i - n.begin >= n.count / 2
                                : __half2float(l.values[static_cast<uint64_t>(id) * l.width + dim]) >= cut->at;
    next = 2 * number + upper;
    uint32_t same = __match_any_sync(some, next), lane = threadIdx.x % ADJI_WARP;
    uint32_t first = __ffs(static_cast<int>(same)) - 1, place = 0;
    if (lane == first) place = atomicAdd(upper ? &cut->upper : &cut->lower, __popc(same));
    place = __shfl_sync(same, place, static_cast<int>(first)) + __popc(same & ((1u << lane) - 1));
    to = upper ? n.begin + n.count - 1 - place : n.begin + place;
  }
  if (!there) return;
  order[to] = id;
  sides[to] = next;
}

/* Makes the nodes of the next level. One thread per side; *made counts the nodes. */
__global__ void make_nodes(const level l, uint32_t count, node *nodes, uint32_t *live, uint32_t *made) {
  uint32_t side = blockIdx.x * THREADS + threadIdx.x;
  if (side >= 2 * count) return;
  const node n = l.nodes[side / 2];
  const node_cut cut = l.cuts[side / 2];
  node child = side % 2 ? node{n.begin + cut.lower, cut.upper} : node{n.begin, cut.lower};
  uint32_t number = NO_NODE;
  if (child.count > LEAF) {
    number = atomicAdd(made, 1);
    nodes[number] = child;
  }
  live[side] = number;
}

/* Makes a tree of one node. */
__global__ void make_root(uint64_t count, uint32_t *order, uint32_t *sides, node *nodes, uint32_t *live) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= count) return;
  order[i] = static_cast<uint32_t>(i);
  sides[i] = 0;
  if (i) return;
  nodes[0] = node{0, static_cast<uint32_t>(count)};
  live[0] = 0;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

enum { ITEMS = 8, RUN = THREADS * ITEMS, LAST_PIECE = 32, CUT_BITS = 6 };

struct run_memory {
  typedef cub::BlockRadixSort<uint16_t, THREADS, ITEMS, uint16_t> sorter;
  union {
    typename sorter::TempStorage sort;
    uint32_t ids[RUN];
  };
  float sums[ADJI_TENSOR_MOST_SKIP_DIM][2][WARPS];
  __half x[1]; /* dimension after dimension, RUN + PAD of each */
};

struct run_view {
  run_memory *at;
  uint32_t dim, count; /* points of the run */
};

__device__ __forceinline__ float value_at(const run_view &run, uint32_t j, uint32_t i) {
  return __half2float(run.at->x[j * (RUN + PAD) + i]);
}

/* Adds up over the `team` threads of a piece. Several warps combine their sums in shared memory, separately for each
 * dimension. */
__device__ __forceinline__ void add_up(float *sum, float *squares, uint32_t team, run_memory *at, uint32_t j) {
  for (uint32_t step = 1; step < team && step < ADJI_WARP; step *= 2) {
    *sum += __shfl_xor_sync(ALL_LANES, *sum, step);
    *squares += __shfl_xor_sync(ALL_LANES, *squares, step);
  }
  if (team <= ADJI_WARP) return;
  uint32_t warp = threadIdx.x / ADJI_WARP, warps = team / ADJI_WARP, first = warp / warps * warps;
  at->sums[j][0][warp] = *sum;
  at->sums[j][1][warp] = *squares;
  __syncthreads();
  *sum = *squares = 0;
  for (uint32_t w = first; w < first + warps; w++) {
    *sum += at->sums[j][0][w];
    *squares += at->sums[j][1][w];
  }
}

/* Sorts each piece along the dimension of its largest variance. Keys have six bits and resolve the range from one
 * standard deviation below the mean to one above, where the median always is. Then both halves are in place. */
__device__ __forceinline__ void cut_pieces(const run_view &run, uint16_t (&order)[ITEMS], uint32_t piece) {
  constexpr uint32_t END = (1 << CUT_BITS) - 1;
  uint32_t place = threadIdx.x * ITEMS, begin = place / piece * piece, dim = 0;
  float each = 1 / static_cast<float>(run.count <= begin ? 1 : run.count - begin < piece ? run.count - begin : piece);
  float most = -1, middle = 0;
  for (uint32_t j = 0; j < run.dim; j++) {
    float sum = 0, squares = 0, zero = value_at(run, j, 0);
#pragma unroll
    for (uint32_t e = 0; e < ITEMS; e++) {
      float x = place + e < run.count ? value_at(run, j, order[e]) - zero : 0;
      sum += x;
      squares += x * x;
    }
    add_up(&sum, &squares, piece / ITEMS, run.at, j);
    float mean = sum * each, variance = squares * each - mean * mean;
    if (!(variance > most)) continue;
    most = variance;
    middle = mean + zero;
    dim = j;
  }
  float scale = most > 0 ? (1 << (CUT_BITS - 1)) * rsqrtf(most) : 0;
  uint16_t keys[ITEMS];
#pragma unroll
  for (uint32_t e = 0; e < ITEMS; e++) {
    uint32_t number = END;
    if (place + e < run.count) {
      float q = (value_at(run, dim, order[e]) - middle) * scale + (1 << (CUT_BITS - 1));
      number = q > 0 ? q < END ? static_cast<uint32_t>(q) : END - 1 : 0;
    }
    keys[e] = static_cast<uint16_t>((place + e) / piece << CUT_BITS | number);
  }
  __syncthreads();
  run_memory::sorter(run.at->sort).Sort(keys, order, 0, CUT_BITS + __ffs(RUN / piece) - 1);
}

/* Cuts runs at their medians. A block owns a run: the coordinates stay in shared memory, and 16-bit numbers of its
 * points are sorted. Limited by instruction issue, most of it for sorting. */
__global__ void __launch_bounds__(THREADS) cut_runs(const level l, uint32_t *ids) {
  extern __shared__ uint4 shared[];
  run_memory *at = reinterpret_cast<run_memory *>(shared);
  uint64_t first = static_cast<uint64_t>(blockIdx.x) * RUN;
  run_view run = {at, l.dim, static_cast<uint32_t>(l.count - first < RUN ? l.count - first : RUN)};
  for (uint32_t i = threadIdx.x; i < run.count; i += THREADS) {
    const uint4 *row = reinterpret_cast<const uint4 *>(l.values + static_cast<uint64_t>(ids[first + i]) * l.width);
    for (uint32_t chunk = 0; chunk * 8 < l.dim; chunk++) {
      uint4 packed = __ldg(row + chunk);
      __half eight[8];
      memcpy(eight, &packed, sizeof packed);
#pragma unroll
      for (uint32_t j = 0; j < 8; j++)
        if (chunk * 8 + j < l.dim) at->x[(chunk * 8 + j) * (RUN + PAD) + i] = eight[j];
    }
  }
  uint16_t order[ITEMS];
#pragma unroll
  for (uint32_t e = 0; e < ITEMS; e++)
    order[e] = static_cast<uint16_t>(threadIdx.x * ITEMS + e);
  __syncthreads();
#pragma unroll 1
  for (uint32_t piece = RUN; piece > LAST_PIECE; piece /= 2)
    cut_pieces(run, order, piece);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < run.count; i += THREADS)
    at->ids[i] = ids[first + i];
  __syncthreads();
#pragma unroll
  for (uint32_t e = 0; e < ITEMS; e++) {
    uint32_t place = threadIdx.x * ITEMS + e;
    if (place < run.count) ids[first + place] = at->ids[order[e]];
  }
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* Memory for the levels. There are two arrays where one level is read and the next one is written. */
struct building {
  adji_block order, sides[2], nodes[2], live, cuts, made;
};

adj_status get_memory(adji_gpu *gpu, uint64_t count, building *b) {
  uint64_t nodes = count / (LEAF + 1) + 1;
  struct {
    adji_block *block;
    uint64_t bytes;
  } const wanted[] = {{&b->order, count * 4},
                      {&b->sides[0], count * 4},
                      {&b->sides[1], count * 4},
                      {&b->nodes[0], nodes * sizeof(node)},
                      {&b->nodes[1], nodes * sizeof(node)},
                      {&b->live, 2 * nodes * 4},
                      {&b->cuts, nodes * sizeof(node_cut)},
                      {&b->made, 4}};
  for (const auto &w : wanted) {
    adj_status status = adji_block_get(gpu, gpu->compute, w.bytes, "order of the points", w.block);
    if (status) return status;
  }
  return ADJ_OK;
}

/* Makes one level. *count: in, the number of its nodes; out, that of the next level. */
adj_status cut_level(adji_gpu *gpu, const level &l, uint32_t *order, uint32_t *sides, node *nodes, building *b,
                     uint32_t *count) {
  uint32_t bytes = (l.dim + 7) / 8 * 8 * (SAMPLED + PAD) * sizeof(__half), *made = adji_at<uint32_t>(b->made);
  ADJI_CUDA(gpu, cudaMemsetAsync(made, 0, sizeof *made, gpu->compute));
  choose_cuts<<<*count, THREADS, bytes, gpu->compute>>>(l);
  ADJI_LAUNCHED(gpu, "choose_cuts");
  split_nodes<<<adji_blocks_for(l.count, THREADS), THREADS, 0, gpu->compute>>>(l, order, sides);
  ADJI_LAUNCHED(gpu, "split_nodes");
  make_nodes<<<adji_blocks_for(2ull * *count, THREADS), THREADS, 0, gpu->compute>>>(l, *count, nodes,
                                                                                    adji_at<uint32_t>(b->live), made);
  ADJI_LAUNCHED(gpu, "make_nodes");
  ADJI_CUDA(gpu, cudaMemcpyAsync(count, made, sizeof *made, cudaMemcpyDeviceToHost, gpu->compute));
  ADJI_CUDA(gpu, cudaStreamSynchronize(gpu->compute));
  return ADJ_OK;
}

adj_status cut_levels(adji_gpu *gpu, level l, uint32_t *order, building *b) {
  uint32_t *orders[2] = {order, adji_at<uint32_t>(b->order)}, now = 0, count = 1;
  make_root<<<adji_blocks_for(l.count, THREADS), THREADS, 0, gpu->compute>>>(
      l.count, order, adji_at<uint32_t>(b->sides[0]), adji_at<node>(b->nodes[0]), adji_at<uint32_t>(b->live));
  ADJI_LAUNCHED(gpu, "make_root");
  ADJI_ALLOW_SHARED(gpu, choose_cuts);
  if (l.count <= LEAF) count = 0;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < MOST_LEVELS && count && !status; i++) {
    l.order = orders[now];
    l.sides = adji_at<uint32_t>(b->sides[now]);
    l.nodes = adji_at<node>(b->nodes[now]);
    l.live = adji_at<uint32_t>(b->live);
    l.cuts = adji_at<node_cut>(b->cuts);
    now = !now;
    status = cut_level(gpu, l, orders[now], adji_at<uint32_t>(b->sides[now]), adji_at<node>(b->nodes[now]), b, &count);
  }
  if (!status && now)
    ADJI_CUDA(gpu, cudaMemcpyAsync(order, orders[1], l.count * 4, cudaMemcpyDeviceToDevice, gpu->compute));
  return status;
}

adj_status cut_all(adji_gpu *gpu, const level &l, uint32_t *order, building *b) {
  adj_status status = get_memory(gpu, l.count, b);
  if (!status) status = cut_levels(gpu, l, order, b);
  if (status) return status;
  size_t bytes = sizeof(run_memory) + l.dim * (RUN + PAD) * sizeof(__half);
  if (bytes > static_cast<size_t>(gpu->block_shared_bytes)) return ADJ_OK;
  ADJI_ALLOW_SHARED(gpu, cut_runs);
  cut_runs<<<adji_blocks_for(l.count, RUN), THREADS, bytes, gpu->compute>>>(l, order);
  ADJI_LAUNCHED(gpu, "cut_runs");
  return ADJ_OK;
}

}  // namespace

adj_status adji_tile_order(adji_gpu *gpu, const adji_order_job *job, uint32_t *order) {
  level l = {};
  l.values = static_cast<const __half *>(job->values);
  l.count = job->count;
  l.dim = job->dim;
  l.width = job->width;
  building b = {};
  adj_status status = job->count ? cut_all(gpu, l, order, &b) : ADJ_OK;
  adji_blocks_free(gpu, {&b.order, &b.sides[0], &b.sides[1], &b.nodes[0], &b.nodes[1], &b.live, &b.cuts, &b.made});
  return status;
}
