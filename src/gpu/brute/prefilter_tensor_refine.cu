/* SPDX-License-Identifier: MIT
 *
 * Brute force through tensor cores, after a scan: bounds from the pairs that passed and, at the end, canonical sums and
 * rows.
 */
#include "gpu/brute/prefilter_tensor.cuh"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;
enum { DIGITS = 256 };

/* ---- Bounds ---------------------------------------------------------------------------------- */

struct tightening : adji_tensor_view {
  uint32_t dense;
};

/* A key that is the smaller, the larger the value is. */
__device__ __forceinline__ uint32_t key_of(float w) {
  uint32_t bits = __float_as_uint(w);
  return bits >> 31 ? bits : ~bits & 0x7fffffffu;
}
__device__ __forceinline__ float value_of(uint32_t key) {
  return __uint_as_float(key >> 31 ? key : ~key & 0x7fffffffu);
}

/* Keys that no value of a candidate has: for strays, and for entries that are no candidates. */
enum : uint32_t { STRAY = 0, NONE = 0xffffffffu };

struct block_digits {
  uint32_t counts[DIGITS];
  uint32_t prefix, rank, candidates, kept;
};

/* Loads pairs into shared memory, with keys instead of values. Returns the number of candidates that are not strays. */
__device__ __forceinline__ uint32_t load_pairs(const tightening &job, uint64_t query, uint32_t count, uint2 *pairs,
                                               block_digits *at) {
  const uint2 *from = job.passed + query * job.capacity;
  uint32_t lane_count = 0, self = job.query_info[query].row;
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    uint2 pair = from[i];
    float w = __uint_as_float(pair.x);
    uint32_t key = w >= ADJI_TENSOR_STRAY ? STRAY : w > ADJI_TENSOR_LEAST ? key_of(w) : NONE;
    /* Whole tiles are kept in tree order, so some positions are past the last point and have no number. They are NONE
     * already. */
    bool check_self = job.dense && job.drop_self && pair.y < job.point_count;
    if (check_self && job.right_first + adji_tensor_point(job, pair.y) == self) key = NONE;
    pairs[i] = uint2{key, pair.y};
    lane_count += key != STRAY && key != NONE;
  }
  lane_count = __reduce_add_sync(ALL_LANES, lane_count);
  if (threadIdx.x == 0) at->candidates = at->kept = 0;
  __syncthreads();
  if (threadIdx.x % ADJI_WARP == 0) atomicAdd(&at->candidates, lane_count);
  __syncthreads();
  return at->candidates;
}

/* Finds the digit of the rank-th smallest key among those with the prefix. Only the first warp works. */
__device__ __forceinline__ void choose_digit(block_digits *at, uint32_t shift) {
  if (threadIdx.x >= ADJI_WARP) return;
  uint32_t each = DIGITS / ADJI_WARP, lane = threadIdx.x, sum = 0;
  for (uint32_t i = 0; i < each; i++)
    sum += at->counts[lane * each + i];
  uint32_t before = sum;
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t other = __shfl_up_sync(ALL_LANES, before, step);
    if (lane >= step) before += other;
  }
  before -= sum;
  uint32_t rank = at->rank;
  __syncwarp();
  if (rank < before || rank >= before + sum) return;
  uint32_t digit = lane * each;
  for (; rank >= before + at->counts[digit]; digit++)
    before += at->counts[digit];
  at->prefix |= digit << shift;
  at->rank = rank - before;
}

/* The rank-th smallest key, counted from 0, among keys that are not STRAY. There must be more than `rank` of them. */
__device__ __forceinline__ uint32_t find_key(const uint2 *pairs, uint32_t count, uint32_t rank, block_digits *at) {
  if (threadIdx.x == 0) at->prefix = 0, at->rank = rank;
  for (uint32_t shift = 32; shift > 0;) {
    shift -= 8;
    for (uint32_t i = threadIdx.x; i < DIGITS; i += blockDim.x)
      at->counts[i] = 0;
    __syncthreads();
    uint32_t prefix = at->prefix;
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
      uint32_t key = pairs[i].x;
      if (key == STRAY || (shift < 24 && (key ^ prefix) >> (shift + 8))) continue;
      atomicAdd(&at->counts[key >> shift & (DIGITS - 1)], 1);
    }
    __syncthreads();
    choose_digit(at, shift);
    __syncthreads();
  }
  return at->prefix;
}

/* Tightens the bound of each query; prefilter_tensor.h has the formula. One block per query. Input and output: bounds,
 * counts and pairs in device memory; the pairs of a query pass through shared memory.
 * 1. A list that overflowed fails its query.
 * 2. Load the pairs; find the k-th largest value by digits.
 * 3. Compute the bound from it.
 * 4. Keep the pairs not below the bound, in any order.
 *
 * Limited by latency: about 8 us per block. */
__global__ void tighten_bounds(const __grid_constant__ tightening job) {
  extern __shared__ uint2 pairs[];
  __shared__ block_digits at;
  uint64_t query = blockIdx.x;
  uint32_t count = job.dense ? job.dense : job.counts[query];
  float bound = job.dense ? ADJI_TENSOR_LEAST : job.bounds[query];
  if (bound == INFINITY) return;
  if (!job.dense && job.kept && count == job.kept[query]) return; /* nothing passed since the last time */
  if (count > job.capacity) {
    if (threadIdx.x == 0) {
      job.bounds[query] = INFINITY;
      if (job.reaches) job.reaches[query] = -1;
      adji_tensor_fail(job, job.query_info[query].row);
    }
    return;
  }
  uint32_t candidates = load_pairs(job, query, count, pairs, &at);
  const adji_tensor_query query_info = job.query_info[query];
  const adji_tensor_frame frame = *job.frame;
  double error = static_cast<double>(query_info.error) + static_cast<double>(frame.most), reach = INFINITY;
  if (job.limit < INFINITY) reach = adji_tensor_reach_of(&job.rules, frame.scale, job.limit);
  if (candidates >= job.k) {
    float w = value_of(find_key(pairs, count, job.k - 1, &at));
    double r = adji_tensor_farthest(&job.rules, query_info.norm_sq, static_cast<double>(w));
    double nearer = adji_tensor_reach(&job.rules, frame.scale, r, error);
    if (nearer < reach) reach = nearer;
  }
  if (reach < INFINITY) bound = adji_tensor_bound(&job.rules, query_info.norm_sq, reach, error);
  uint32_t last = key_of(bound);
  uint2 *to = job.passed + query * job.capacity;
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    uint2 pair = pairs[i];
    if (pair.x == NONE || pair.x > last) continue;
    float w = pair.x == STRAY ? ADJI_HALVES_PASS : value_of(pair.x);
    to[atomicAdd(&at.kept, 1)] = uint2{__float_as_uint(w), pair.y};
  }
  __syncthreads();
  if (threadIdx.x) return;
  job.bounds[query] = bound;
  job.counts[query] = at.kept;
  if (!job.reaches) return;
  job.kept[query] = at.kept;
  job.reaches[query] = adji_tensor_reach_sq(reach, error);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

template <class T>
struct refining : adji_tensor_view {
  const T *left, *right;
  uint32_t most; /* the most pairs that fit shared memory */
  uint64_t first_row, left_first;
  bool root, fours;
  uint32_t *ids;
  T *distances;
};

template <class T>
__device__ __forceinline__ T add_step(T s, T x, T y) {
  return adji_gpu_add_square(s, adji_gpu_difference(x, y));
}

template <class T>
__device__ __forceinline__ T canonical_sum(const refining<T> &job, const T *x, const T *y) {
  T s = 0;
  uint32_t j = 0;
  if (job.fours) {
#pragma unroll 8
    for (; j < job.rules.dim; j += 4) {
      T c[4];
      if (sizeof(T) == 4) {
        float4 four = __ldg(reinterpret_cast<const float4 *>(y + j));
        c[0] = four.x, c[1] = four.y, c[2] = four.z, c[3] = four.w;
      } else {
        double2 low = __ldg(reinterpret_cast<const double2 *>(y + j));
        double2 high = __ldg(reinterpret_cast<const double2 *>(y + j + 2));
        c[0] = low.x, c[1] = low.y, c[2] = high.x, c[3] = high.y;
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
        s = add_step(s, x[j + i], c[i]);
    }
    return adji_gpu_finish<ADJI_STEP_L2>(s);
  }
#pragma unroll 8
  for (; j < job.rules.dim; j++)
    s = add_step(s, x[j], __ldg(y + j));
  return adji_gpu_finish<ADJI_STEP_L2>(s);
}

/* Sorts ascending by (sum, id), by a bitonic network; size is a power of two. */
template <class T>
__device__ __forceinline__ void sort_pairs(T *sums, uint32_t *ids, uint32_t size) {
  for (uint32_t run = 2; run <= size; run *= 2)
    for (uint32_t step = run / 2; step; step /= 2) {
      for (uint32_t t = threadIdx.x; t < size / 2; t += blockDim.x) {
        uint32_t i = t / step * step * 2 + t % step, o = i + step;
        T a = sums[i], b = sums[o];
        uint32_t p = ids[i], q = ids[o];
        bool after = a > b || (a == b && p > q);
        if (after != ((i & run) == 0)) continue;
        sums[i] = b, sums[o] = a;
        ids[i] = q, ids[o] = p;
      }
      __syncthreads();
    }
}

/* Computes the rows: the k smallest (canonical sum, id) of each query's list. One block per query; lists, points and
 * rows in device memory.
 * 1. Load the query into shared memory.
 * 2. Each thread computes the canonical sums of its pairs.
 * 3. Sort all of them.
 * 4. Write the first k.
 *
 * If one of these sums overflowed, nothing is proved and the query fails. Limited by reading the points of the pairs:
 * each thread reads its own point, 16 bytes at a time, from lines that stay in the cache. */
template <class T>
__global__ void refine_rows(const __grid_constant__ refining<T> job) {
  extern __shared__ __align__(16) unsigned char memory[];
  uint64_t query = blockIdx.x;
  if (job.bounds[query] == INFINITY) return;
  uint32_t row = job.query_info[query].row, count = job.counts[query], size = 2;
  if (count > job.most) {
    if (threadIdx.x == 0) adji_tensor_fail(job, row);
    return;
  }
  while (size < count || size < job.k)
    size *= 2;
  T *sums = reinterpret_cast<T *>(memory), *x = sums + size;
  uint32_t *ids = reinterpret_cast<uint32_t *>(x + (job.rules.dim + 3) / 4 * 4);
  T limit = static_cast<T>(job.limit);
  for (uint32_t j = threadIdx.x; j < job.rules.dim; j += blockDim.x)
    x[j] = job.left[(row - job.left_first) * job.rules.dim + j];
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
    T s = INFINITY;
    uint32_t id = ADJ_NO_ID;
    if (i < count) {
      uint64_t point = adji_tensor_point(job, job.passed[query * job.capacity + i].y);
      id = static_cast<uint32_t>(job.right_first + point);
      s = canonical_sum(job, x, job.right + point * job.rules.dim);
      if (s > limit) s = INFINITY, id = ADJ_NO_ID;
    }
    sums[i] = s;
    ids[i] = id;
  }
  __syncthreads();
  sort_pairs(sums, ids, size);
  uint64_t to = (row - job.first_row) * job.k;
  bool broken = false;
  for (uint32_t i = threadIdx.x; i < job.k; i += blockDim.x) {
    T s = sums[i];
    broken |= ids[i] != ADJ_NO_ID && s == INFINITY;
    job.ids[to + i] = ids[i];
    job.distances[to + i] = job.root ? sqrt(s) : s;
  }
  broken = __syncthreads_or(broken);
  if (threadIdx.x) return;
  if (broken) adji_tensor_fail(job, row);
  atomicAdd(job.failed + ADJI_TENSOR_SUMS, count);
}

/* ---- Launches -------------------------------------------------------------------------------- */

template <class T>
adj_status refine(adji_gpu *gpu, const adji_tensor_batch *batch) {
  const adji_brute_job *job = batch->job;
  refining<T> s = {adji_tensor_view_of(batch)};
  s.left = static_cast<const T *>(job->left);
  s.right = static_cast<const T *>(job->right);
  s.most = batch->rounds.most;
  s.first_row = job->first_row;
  s.left_first = job->left_first;
  s.root = job->root;
  s.fours = job->dim % 4 == 0 && reinterpret_cast<uintptr_t>(job->right) % 16 == 0;
  s.ids = job->ids;
  s.distances = static_cast<T *>(job->distances);
  uint64_t bytes = s.most * (sizeof(T) + 4) + (job->dim + 3) / 4 * 4 * sizeof(T);
  ADJI_ALLOW_SHARED(gpu, refine_rows<T>);
  refine_rows<T><<<static_cast<uint32_t>(job->queries), 128, bytes, gpu->compute>>>(s);
  ADJI_LAUNCHED(gpu, "refine_rows");
  return ADJ_OK;
}

}  // namespace

adj_status adji_tensor_tighten(adji_gpu *gpu, const adji_tensor_batch *batch, uint32_t dense) {
  tightening t = {adji_tensor_view_of(batch), dense};
  uint32_t bytes = batch->rounds.capacity * sizeof(uint2), threads = batch->rounds.capacity > 4096 ? 512 : 128;
  ADJI_ALLOW_SHARED(gpu, tighten_bounds);
  tighten_bounds<<<static_cast<uint32_t>(batch->job->queries), threads, bytes, gpu->compute>>>(t);
  ADJI_LAUNCHED(gpu, "tighten_bounds");
  return ADJ_OK;
}

adj_status adji_tensor_refine(adji_gpu *gpu, const adji_tensor_batch *batch) {
  return batch->job->type == ADJ_F64 ? refine<double>(gpu, batch) : refine<float>(gpu, batch);
}
