/* SPDX-License-Identifier: MIT
 *
 * Selection: a bound for each row that should have the row's k smallest keys below it, and not many more.
 *
 * A sample spread over the row is distributed to GROUPS groups; the bound is the `rank`-th smallest of the groups'
 * least keys. It is a guess: the pass that uses it counts the keys below it, and if it was wrong the row is done
 * without it. Keys contain columns, so bounds are as good for rows of equal values as for others.
 *
 * The row is cut into equal pieces, and each contributes one run of consecutive values, at a hashed place. A run costs
 * one memory access, but says less than scattered values if neighbouring values are alike. Then, if the values of a run
 * go to several groups, fewer than k keys may be below the bound. If all go to one group, there may be too many keys,
 * more by a factor of up to the number of values in a run.
 */
#ifndef ADJI_GPU_SELECT_SELECT_BOUND_CUH
#define ADJI_GPU_SELECT_SELECT_BOUND_CUH

#include "gpu/select/select.cuh"
#include "gpu/select/select_keys.cuh"

namespace {

enum {
  GROUPS = ADJI_SAMPLE_GROUPS,
  MOST_ROWS_PER_BLOCK = GROUPS / ADJI_WARP,
  PART_READERS = 4, /* threads that share a group of a part, or of all parts */
  PART_THREADS = GROUPS * PART_READERS,
  PART_ACCESSES = 4, /* accesses that a thread has in flight */
  RUN_LANES = 2      /* lanes that share a run of a part, each with a vector */
};

static_assert(PART_THREADS * PART_ACCESSES == ADJI_PART_READS, "as planned");

/* The column of value i of the sample. */
__device__ __forceinline__ uint32_t sample_column(const adji_sampling &how, uint32_t columns, uint32_t i) {
  uint32_t run = i >> how.log_run, log_runs = how.log_size - how.log_run, places = columns >> how.log_run;
  uint32_t begin = static_cast<uint32_t>((static_cast<uint64_t>(run) * places) >> log_runs), width = places >> log_runs;
  uint32_t hash = (run + 1) * 0x9e3779b9u;
  hash = (hash ^ hash >> 15) * 0x85ebca6bu;
  hash ^= hash >> 13;
  return ((begin + __umulhi(hash, width)) << how.log_run) + (i & ((1u << how.log_run) - 1));
}

/* The least key of read(0) .. read(total - 1); total is a power of two. READS reads are made at a time without a
 * branch, so that they are in flight together; a loop with a test after each read would wait for each. */
template <class T, int READS, class READ, class KEY>
__device__ __forceinline__ key_of<T> least_of(uint32_t total, const READ &read, const KEY &key) {
  if constexpr (READS > 1)
    if (total < READS) return least_of<T, READS / 2>(total, read, key);
  key_of<T> least = last_key<T>();
  for (uint32_t first = 0; first < total; first += READS) {
    decltype(read(0u)) got[READS];
#pragma unroll
    for (int i = 0; i < READS; i++)
      got[i] = read(first + i);
#pragma unroll
    for (int i = 0; i < READS; i++) {
      key_of<T> own = key(got[i]);
      if (less(own, least)) least = own;
    }
  }
  return least;
}

/* Consecutive values of a row, read at once. */
template <class T, int MANY>
struct access {
  T values[MANY];
  uint32_t column;

  access() = default;
  __device__ __forceinline__ access(const T *row, uint32_t first) : column(first) {
    if constexpr (MANY == 1)
      values[0] = __ldg(row + column);
    else
      unpack(__ldg(reinterpret_cast<const typename key_traits<T>::vector *>(row + column)), values);
  }
  __device__ __forceinline__ key_of<T> least(bool flip) const {
    key_of<T> least = last_key<T>();
#pragma unroll
    for (int i = 0; i < MANY; i++) {
      key_of<T> key = make_key(order_of_value(flipped(values[i], flip)), column + i);
      if (less(key, least)) least = key;
    }
    return least;
  }
};

/* The least key of a group's part of a row. Each thread of a block is a group, so that neighbouring threads read runs
 * together. */
template <class T>
__device__ __forceinline__ key_of<T> least_of_group(const selection<T> &s, const adji_sampling &how, uint32_t row,
                                                    uint32_t group) {
  const T *values = s.row(row);
  return least_of<T, 8>(
      (1u << how.log_size) / GROUPS,
      [&](uint32_t j) { return access<T, 1>(values, sample_column(how, s.columns, j * GROUPS + group)); },
      [&](const access<T, 1> &x) { return x.least(s.flip); });
}

/* A warp sorts the groups' least keys and writes the one with this rank. */
template <class T>
__device__ __forceinline__ void write_bound(const key_of<T> *least, uint32_t rank, key_of<T> *bound, uint32_t lane) {
  constexpr int EACH = GROUPS / ADJI_WARP;
  key_of<T> v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++)
    v[i] = least[i * ADJI_WARP + lane];
  sort_warp<EACH>(v, lane);
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (lane * EACH + i == rank - 1) *bound = v[i];
}

/* Finds bounds for the listed rows and sets their counts to 0. Values, bounds and counts in device memory. A block of
 * GROUPS threads takes `rows_per_block` rows at a time, up to 8.
 * 1. Each thread is one group in all of these rows and finds its least key in each.
 * 2. After a barrier each warp sorts the groups of one row and writes its bound.
 *
 * how.parts is 1. Limited by latency: 2 successive accesses, and about 2,000 cycles for the sort. */
template <class T>
__global__ void __launch_bounds__(GROUPS)
    find_row_bounds(selection<T> s, adji_sampling how, row_list list, uint32_t rows_per_block, key_of<T> *bounds,
                    uint32_t *counts) {
  __shared__ __align__(16) unsigned char memory[MOST_ROWS_PER_BLOCK * GROUPS * sizeof(key_of<T>)];
  key_of<T> *least = reinterpret_cast<key_of<T> *>(memory);
  uint32_t warp = threadIdx.x / ADJI_WARP, lane = threadIdx.x % ADJI_WARP, total = list.count();
  for (uint32_t first = blockIdx.x * rows_per_block; first < total; first += gridDim.x * rows_per_block) {
    uint32_t here = min(rows_per_block, total - first);
    for (uint32_t i = 0; i < here; i++)
      least[i * GROUPS + threadIdx.x] = least_of_group(s, how, list.row(first + i), threadIdx.x);
    __syncthreads();
    if (warp < here) {
      uint32_t row = list.row(first + warp);
      write_bound<T>(least + warp * GROUPS, how.rank, bounds + row, lane);
      if (lane == 0) counts[row] = 0;
    }
    __syncthreads();
  }
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* A run of a part has RUN_LANES vectors, 32 bytes; each vector is the access of a lane. Rows that are too short for
 * that are sampled in single values. */
template <class T>
constexpr uint32_t LOG_PART_RUN = sizeof(T) == 8 ? 2 : 3;

/* The least key of a group, from the keys of its readers in shared memory. Called by the first GROUPS threads. */
template <class T>
__device__ __forceinline__ key_of<T> least_of_readers(key_of<T> own, const key_of<T> *least, uint32_t readers) {
#pragma unroll
  for (uint32_t r = 1; r < PART_READERS; r++)
    if (r < readers && less(least[r * GROUPS + threadIdx.x], own)) own = least[r * GROUPS + threadIdx.x];
  return own;
}

/* With few rows several blocks share a row: block (part, row) writes the least keys of its groups. Values and parts in
 * device memory.
 *
 * 1. A thread makes some independent accesses, all of the same group.
 * 2. Lanes that share runs, then readers that share a group, combine their keys.
 *
 * RUNS: how.log_run is LOG_PART_RUN, and all values of a run go to one group; otherwise how.log_run is 0. Limited by
 * latency: one or two memory accesses, which all other blocks make at the same time. */
template <class T, bool RUNS>
__global__ void __launch_bounds__(PART_THREADS) sample_parts(selection<T> s, adji_sampling how, key_of<T> *parts) {
  constexpr uint32_t WIDTH = RUNS ? key_traits<T>::VECTOR : 1, LANES = RUNS ? RUN_LANES : 1;
  __shared__ __align__(16) unsigned char memory[PART_THREADS / LANES * sizeof(key_of<T>)];
  key_of<T> *least = reinterpret_cast<key_of<T> *>(memory), own = last_key<T>();
  let_next_begin();
  const T *values = s.row(blockIdx.y);
  uint32_t head = RUNS ? static_cast<uint32_t>((32 - reinterpret_cast<uintptr_t>(values) % 32) % 32 / sizeof(T)) : 0;
  uint32_t each = (1u << how.log_size) / WIDTH / how.parts, first = blockIdx.x * each + threadIdx.x;
  auto read = [&](uint32_t j) {
    uint32_t column = sample_column(how, s.columns - head, (first + j * PART_THREADS) * WIDTH);
    return access<T, WIDTH>(values, head + column);
  };
  auto least_key = [&](const access<T, WIDTH> &x) { return x.least(s.flip); };
  if (threadIdx.x < each) own = least_of<T, PART_ACCESSES>(max(each / PART_THREADS, 1u), read, least_key);
  if (RUNS) {
    key_of<T> other = from_lane(own, 1);
    if (less(other, own)) own = other;
  }
  if (threadIdx.x % LANES == 0) least[threadIdx.x / LANES] = own;
  __syncthreads();
  if (threadIdx.x >= GROUPS) return;
  uint64_t to = (static_cast<uint64_t>(blockIdx.y) * how.parts + blockIdx.x) * GROUPS;
  parts[to + threadIdx.x] = least_of_readers<T>(least[threadIdx.x], least, PART_READERS / LANES);
}

/* Turns the parts into bounds and sets counts to 0. A block per row, PART_READERS threads per group, so that many reads
 * are in flight. Limited by the latency of these reads, and about 2,000 cycles for the sort. */
template <class T>
__global__ void __launch_bounds__(PART_THREADS)
    find_bounds_of_parts(adji_sampling how, const key_of<T> *parts, key_of<T> *bounds, uint32_t *counts) {
  constexpr int BOUND_READS = 128 / sizeof(key_of<T>);
  __shared__ __align__(16) unsigned char memory[PART_THREADS * sizeof(key_of<T>)];
  key_of<T> *least = reinterpret_cast<key_of<T> *>(memory), own = last_key<T>();
  let_next_begin();
  wait_for_previous();
  uint32_t group = threadIdx.x % GROUPS, reader = threadIdx.x / GROUPS;
  const key_of<T> *from = parts + static_cast<uint64_t>(blockIdx.x) * how.parts * GROUPS + group;
  auto read = [&](uint32_t j) { return from[(reader + j * PART_READERS) * GROUPS]; };
  auto same = [](const key_of<T> &key) { return key; };
  if (reader < how.parts) own = least_of<T, BOUND_READS>(max(how.parts / PART_READERS, 1u), read, same);
  least[threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.x < GROUPS) least[threadIdx.x] = least_of_readers<T>(own, least, PART_READERS);
  __syncthreads();
  if (threadIdx.x >= ADJI_WARP) return;
  write_bound<T>(least, how.rank, bounds + blockIdx.x, threadIdx.x);
  if (threadIdx.x == 0) counts[blockIdx.x] = 0;
}

}  // namespace

#endif
