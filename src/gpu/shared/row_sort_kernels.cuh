/* SPDX-License-Identifier: MIT
 *
 * Sorts rows in registers. A key is an id, or an id and a sum in one number, so that one network serves all orders.
 *
 * A warp sorts EACH * 32 keys by a bitonic network. Lane l holds keys l * EACH .. l * EACH + EACH - 1 of the sorted
 * row. Merges of up to EACH keys stay inside a lane; wider ones exchange whole registers between lanes. The input may
 * be in any order, so it is read coalesced, in memory order; the output passes through shared memory to be coalesced.
 *
 * For longer rows each warp of a block sorts a run in this way, and runs are merged in pairs. In the wider half of a
 * merge's levels a thread holds every T-th key of the keys of T threads, in the narrower half EACH consecutive ones. So
 * nearly all levels stay inside a lane; keys move between threads through shared memory.
 *
 * Limited by instruction issue: about 1.1 instructions per key for each level inside a lane and 3 for each level
 * between lanes, 85 in total for rows of 1,024 ids. Each merge of runs should add about 20: four accesses, ten levels
 * inside a lane, up to three between lanes.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_KERNELS_CUH
#define ADJI_GPU_SHARED_ROW_SORT_KERNELS_CUH

#include "gpu/shared/arrays.cuh"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;

/* ---- Keys ------------------------------------------------------------------------------------------------------ */

/* Two numbers, ordered by the first. */
struct wide_key {
  uint64_t high, low;
};

__device__ __forceinline__ bool less(uint32_t a, uint32_t b) {
  return a < b;
}
__device__ __forceinline__ bool less(uint64_t a, uint64_t b) {
  return a < b;
}
__device__ __forceinline__ bool less(const wide_key &a, const wide_key &b) {
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}

/* The same for networks, where || and && would put a branch into every exchange. */
template <class KEY>
__device__ __forceinline__ bool comes_first(const KEY &a, const KEY &b) {
  return less(a, b);
}
__device__ __forceinline__ bool comes_first(const wide_key &a, const wide_key &b) {
  return static_cast<bool>((a.high < b.high) | ((a.high == b.high) & (a.low < b.low)));
}

__device__ __forceinline__ uint32_t from_lane(uint32_t key, uint32_t mask) {
  return __shfl_xor_sync(ALL_LANES, key, mask);
}
__device__ __forceinline__ uint64_t from_lane(uint64_t key, uint32_t mask) {
  return __shfl_xor_sync(ALL_LANES, key, mask);
}
__device__ __forceinline__ wide_key from_lane(const wide_key &key, uint32_t mask) {
  return wide_key{__shfl_xor_sync(ALL_LANES, key.high, mask), __shfl_xor_sync(ALL_LANES, key.low, mask)};
}

/* How rows become keys: only ids; ids with sums of T, by id; or by sum. */
struct ids_alone {
  typedef uint32_t key;
  uint32_t *ids;
  __device__ key last() const {
    return UINT32_MAX;
  }
  __device__ key load(uint64_t at) const {
    return ids[at];
  }
  __device__ void store(uint64_t at, key k) const {
    ids[at] = k;
  }
  __device__ uint32_t id(key k) const {
    return k;
  }
};

template <bool BY_SUM>
struct with_floats {
  typedef uint64_t key;
  uint32_t *ids;
  float *sums;
  __device__ key last() const {
    return UINT64_MAX;
  }
  __device__ key load(uint64_t at) const {
    uint64_t id = ids[at], sum = in_order(sums[at]);
    return BY_SUM ? sum << 32 | id : id << 32 | sum;
  }
  __device__ void store(uint64_t at, key k) const {
    ids[at] = static_cast<uint32_t>(BY_SUM ? k : k >> 32);
    sums[at] = from_order(static_cast<uint32_t>(BY_SUM ? k >> 32 : k));
  }
  __device__ uint32_t id(key k) const {
    return static_cast<uint32_t>(BY_SUM ? k : k >> 32);
  }
};

struct with_doubles {
  typedef wide_key key;
  uint32_t *ids;
  double *sums;
  bool by_sum;
  __device__ key last() const {
    return wide_key{UINT64_MAX, UINT64_MAX};
  }
  __device__ key load(uint64_t at) const {
    uint64_t id = ids[at], sum = in_order(sums[at]);
    return by_sum ? wide_key{sum, id} : wide_key{id, sum};
  }
  __device__ void store(uint64_t at, key k) const {
    ids[at] = static_cast<uint32_t>(by_sum ? k.low : k.high);
    sums[at] = from_order(by_sum ? k.high : k.low);
  }
  __device__ uint32_t id(const key &k) const {
    return static_cast<uint32_t>(by_sum ? k.low : k.high);
  }
};

/* ---- The network ----------------------------------------------------------------------------------------------- */

template <class KEY>
__device__ __forceinline__ void exchange(KEY &a, KEY &b) {
  KEY low = comes_first(b, a) ? b : a, high = comes_first(b, a) ? a : b;
  a = low;
  b = high;
}

/* Merges inside a lane: strides STRIDE, STRIDE / 2, ... 1. */
template <int EACH, int STRIDE, class KEY>
__device__ __forceinline__ void merge_inside(KEY (&v)[EACH]) {
#pragma unroll
  for (int stride = STRIDE; stride > 0; stride /= 2)
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (!(i & stride)) exchange(v[i], v[i + stride]);
}

/* Sorts each lane's keys. The first level of a merge pairs the first key with the last, and so on, so that all runs
 * have the same direction. */
template <int EACH, class KEY>
__device__ __forceinline__ void sort_inside(KEY (&v)[EACH]) {
#pragma unroll
  for (int size = 2; size <= EACH; size *= 2) {
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (!(i & (size / 2))) exchange(v[i], v[i ^ (size - 1)]);
#pragma unroll
    for (int stride = size / 4; stride > 0; stride /= 2)
#pragma unroll
      for (int i = 0; i < EACH; i++)
        if (!(i & stride)) exchange(v[i], v[i + stride]);
  }
}

/* One level between lanes: the lane with `high` keeps the larger keys. */
template <int EACH, class KEY>
__device__ __forceinline__ void merge_lanes(KEY (&v)[EACH], uint32_t mask, bool high) {
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    KEY other = from_lane(v[i], mask);
    v[i] = comes_first(other, v[i]) != high ? other : v[i];
  }
}

/* Sorts EACH * 32 keys. */
template <int EACH, class KEY>
__device__ __forceinline__ void sort_warp(KEY (&v)[EACH], uint32_t lane) {
  sort_inside<EACH>(v);
#pragma unroll 1
  for (uint32_t lanes = 2; lanes <= ADJI_WARP; lanes *= 2) {
    bool upper = lane & (lanes / 2);
#pragma unroll
    for (int i = 0; i < (EACH + 1) / 2; i++) { /* pairs the first key with the last: lane and register are mirrored */
      int j = EACH - 1 - i;
      KEY other_i = from_lane(v[j], lanes - 1), other_j = from_lane(v[i], lanes - 1);
      v[i] = comes_first(other_i, v[i]) != upper ? other_i : v[i];
      if (i != j) v[j] = comes_first(other_j, v[j]) != upper ? other_j : v[j];
    }
#pragma unroll 1
    for (uint32_t mask = lanes / 4; mask; mask /= 2)
      merge_lanes(v, mask, lane & mask);
    merge_inside<EACH, EACH / 2>(v);
  }
}

/* ---- Rows ------------------------------------------------------------------------------------------------------ */

/* The place of entry i of a row in shared memory, with a gap after every 32 entries, so that lanes that are EACH apart
 * use different banks. */
template <int EACH>
__device__ __forceinline__ uint32_t padded(uint32_t i) {
  return EACH > 1 ? i + i / 32 : i;
}

template <int EACH, class ENTRIES>
__device__ void sort_row(const ENTRIES &entries, typename ENTRIES::key *shared, uint64_t begin, uint32_t length,
                         uint32_t lane) {
  typename ENTRIES::key v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    uint32_t at = i * ADJI_WARP + lane;
    v[i] = at < length ? entries.load(begin + at) : entries.last();
  }
  sort_warp<EACH>(v, lane);
  if (EACH == 1) {
    if (lane < length) entries.store(begin + lane, v[0]);
    return;
  }
#pragma unroll
  for (int i = 0; i < EACH; i++)
    shared[padded<EACH>(lane * EACH + i)] = v[i];
  __syncwarp();
  for (uint32_t at = lane; at < length; at += ADJI_WARP)
    entries.store(begin + at, shared[padded<EACH>(at)]);
}

/* ---- Rows of several warps ------------------------------------------------------------------------------------- */

/* The place in shared memory of key i of a row that a block sorts, with a gap after every EACH keys. Lanes that read
 * keys EACH apart use different banks, and so do lanes that read neighbouring keys. Linear in i in steps of EACH. */
template <int EACH>
__host__ __device__ constexpr uint32_t gapped(uint32_t i) {
  return i + i / EACH;
}

/* Every group of `threads` threads, a power of two, holds two sorted runs, one in each half, and merges them. If the
 * second run is all padding, according to the row's length, there is nothing to do. ROLLED: loops with small bodies are
 * not unrolled.
 *
 * 1. The keys go to shared memory in order.
 * 2. Thread t of a group takes the group's keys t, t + threads, ..., those of the second run counted from its end. The
 *    two runs then form one bitonic sequence, and all levels with strides of at least `threads` are inside a thread.
 * 3. The keys go back to memory, and each thread takes EACH consecutive keys, as before, for the narrower levels.
 *    Levels with strides of EACH and more are between lanes of a warp, since threads <= EACH * 32.
 *
 * Step 1 needs no barrier before it: before and after this function only a key's own warp accesses its place.
 */
template <int EACH, bool ROLLED, class KEY>
__device__ __forceinline__ void merge_runs(KEY (&v)[EACH], KEY *shared, const uint32_t threads, uint32_t length) {
  uint32_t t = threadIdx.x & (threads - 1), first = (threadIdx.x - t) * EACH;
  bool needed = length > first + threads / 2 * EACH; /* the same for the whole group */
  const uint32_t step = gapped<EACH>(threads);
  KEY *own = shared + gapped<EACH>(threadIdx.x * EACH), *up = shared + gapped<EACH>(first) + gapped<EACH>(t),
      *down = shared + gapped<EACH>(first) + gapped<EACH>(threads - 1 - t);
  if (needed) {
#pragma unroll
    for (int i = 0; i < EACH; i++)
      own[i] = v[i];
  }
  __syncthreads();
  if (needed) {
#pragma unroll
    for (int i = 0; i < EACH; i++)
      v[i] = i < EACH / 2 ? up[i * step] : down[(EACH / 2 + EACH - 1 - i) * step];
    merge_inside<EACH, EACH / 2>(v);
  }
  __syncthreads();
  if (needed) {
#pragma unroll
    for (int i = 0; i < EACH; i++)
      up[i * step] = v[i];
  }
  __syncthreads();
  if (!needed) return;
#pragma unroll
  for (int i = 0; i < EACH; i++)
    v[i] = own[i];
#pragma unroll(ROLLED ? 1 : 8)
  for (uint32_t mask = threads / EACH / 2; mask; mask /= 2)
    merge_lanes(v, mask, threadIdx.x & mask);
  merge_inside<EACH, EACH / 2>(v);
}

/* Sorts a row of up to EACH * 32 * WARPS_EACH entries with all threads of a block. Warps whose run is all padding have
 * nothing to sort. ROLLED: the merges are a loop. This compiles in a fraction of the time, but costs an addition for
 * each access to shared memory. With wide keys one merge has so many instructions that the instruction cache should not
 * have to hold more than one. */
template <int EACH, int WARPS_EACH, bool ROLLED, class ENTRIES>
__device__ void sort_row_together(const ENTRIES &entries, typename ENTRIES::key *shared, uint64_t begin,
                                  uint32_t length) {
  uint32_t lane = threadIdx.x % ADJI_WARP, first = (threadIdx.x - lane) * EACH;
  typename ENTRIES::key v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    uint32_t at = first + i * ADJI_WARP + lane;
    v[i] = at < length ? entries.load(begin + at) : entries.last();
  }
  if (first < length) sort_warp<EACH>(v, lane);
#pragma unroll(ROLLED ? 1 : 8)
  for (uint32_t threads = 2 * ADJI_WARP; threads <= WARPS_EACH * ADJI_WARP; threads *= 2)
    merge_runs<EACH, ROLLED>(v, shared, threads, length);
  uint32_t end =
      min(length, first + EACH * ADJI_WARP); /* end of the keys that the warp holds and writes, in its own places */
#pragma unroll
  for (int i = 0; i < EACH; i++)
    shared[gapped<EACH>(threadIdx.x * EACH) + i] = v[i];
  __syncwarp();
  for (uint32_t at = first + lane; at < end; at += ADJI_WARP)
    entries.store(begin + at, shared[gapped<EACH>(at)]);
  __syncwarp();
}

}  // namespace

#endif
