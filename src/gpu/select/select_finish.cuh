/* SPDX-License-Identifier: MIT
 *
 * Selection: from the keys found in a row to its k smallest, in order.
 *
 * Buckets (select_buckets.cuh) are used if the values are spread evenly enough. Otherwise up to BLOCK_KEYS keys are
 * sorted at once, in the registers of a block (row_sort_kernels.cuh). Longer lists, and rows without a bound, pass
 * through a buffer of that size: keys not above the k-th smallest so far are added to it; when it is full it is sorted,
 * and the k smallest stay ("bits": buffered bitonic selection).
 */
#ifndef ADJI_GPU_SELECT_SELECT_FINISH_CUH
#define ADJI_GPU_SELECT_SELECT_FINISH_CUH

#include "gpu/select/select_bitonic.cuh"
#include "gpu/select/select_buckets.cuh"
#include "gpu/select/select_scan.cuh"

namespace {

/* ---- A block's selection --------------------------------------------------------------------- */

/* Sorts up to BLOCK_KEYS keys with all warps. Its last barrier is before the stores. */
template <class T>
__device__ __noinline__ void sort_block(const sorted_list<T> &entries, unsigned char *memory, uint32_t length) {
  key_of<T> *shared = reinterpret_cast<key_of<T> *>(memory);
  constexpr int EACH = key_traits<T>::EACH;
  if (length <= 8 * FINISH_THREADS)
    sort_row_together<8, FINISH_WARPS, true>(entries, shared, 0, length);
  else if (EACH == 16 || length <= 16 * FINISH_THREADS)
    sort_row_together<16, FINISH_WARPS, true>(entries, shared, 0, length);
  else
    sort_row_together<EACH, FINISH_WARPS, true>(entries, shared, 0, length);
}

/* Sources of keys: a row, and a list. */
template <class T>
struct row_source {
  const selection<T> &s;
  const T *row;
  uint32_t first;
  __device__ key_of<T> operator()(uint32_t at) const {
    return s.key(row, first + at);
  }
};
template <class T>
struct list_source {
  const key_of<T> *list;
  __device__ key_of<T> operator()(uint32_t at) const {
    return list[at];
  }
};

/* Gathers keys: the k smallest of `length` keys, k <= length, are among the *held keys in the pool at the end. The pool
 * belongs to the block and has BLOCK_KEYS keys in global memory; memory is for sort_block; held is in shared memory.
 * All threads call it, and it ends with a barrier.
 *
 * 1. Each thread reads EACH keys and adds the ones not above the bound to the pool.
 * 2. If the pool might not have room for another step, it is sorted, and the k-th smallest is the new bound. At least a
 *    third of its keys are discarded. */
template <class T, class SOURCE>
__device__ void gather_smallest(const SOURCE &source, uint32_t length, uint32_t k, key_of<T> *pool,
                                unsigned char *memory, uint32_t *held) {
  constexpr int EACH = key_traits<T>::EACH / 4;
  constexpr uint32_t TILE = EACH * FINISH_THREADS;
  static_assert(BLOCK_KEYS<T> - TILE > ADJI_SELECT_MOST, "a sort makes room");
  key_of<T> bound = last_key<T>();
  if (threadIdx.x == 0) *held = 0;
  __syncthreads();
  for (uint64_t begin = 0; begin < length; begin += TILE) {
    key_of<T> own_keys[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      uint64_t at = begin + i * FINISH_THREADS + threadIdx.x;
      own_keys[i] = at < length ? source(static_cast<uint32_t>(at)) : last_key<T>();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (!less(bound, own_keys[i]) && less(own_keys[i], last_key<T>())) pool[atomicAdd(held, 1u)] = own_keys[i];
    __syncthreads();
    uint32_t now = *held;
    if (now > BLOCK_KEYS<T> - TILE && begin + TILE < length) {
      sort_block<T>(list_to_list<T>(pool, pool, k), memory, now);
      __syncthreads();
      bound = pool[k - 1];
      if (threadIdx.x == 0) *held = k;
    }
    __syncthreads();
  }
}

/* ---- Buckets --------------------------------------------------------------------------------- */

enum { MOST_BUCKETS = 4096, LEAST_BUCKETS = 4 * FINISH_THREADS, LIST_READS = 8, HELD_KEYS = 16 };

/* A list that a block visits; each thread has LIST_READS keys in flight. */
template <class T, int THREADS>
struct list_keys {
  const key_of<T> *from;
  uint32_t length;

  template <class VISIT>
  __device__ __forceinline__ void visit(const VISIT &visit) const {
    for (uint32_t first = threadIdx.x; first < length; first += LIST_READS * THREADS) {
      key_of<T> own_keys[LIST_READS];
#pragma unroll
      for (int u = 0; u < LIST_READS; u++)
        if (first + u * THREADS < length) own_keys[u] = from[first + u * THREADS];
#pragma unroll
      for (int u = 0; u < LIST_READS; u++)
        if (first + u * THREADS < length) visit(own_keys[u]);
    }
  }
};

/* A list of up to HELD_KEYS * THREADS keys, read once. */
template <class T, int THREADS>
struct held_keys {
  key_of<T> own_keys[HELD_KEYS];
  uint32_t length;

  __device__ __forceinline__ held_keys(const key_of<T> *from, uint32_t many) : length(many) {
#pragma unroll
    for (int i = 0; i < HELD_KEYS; i++)
      if (threadIdx.x + i * THREADS < length) own_keys[i] = from[threadIdx.x + i * THREADS];
  }
  template <class VISIT>
  __device__ __forceinline__ void visit(const VISIT &visit) const {
#pragma unroll
    for (int i = 0; i < HELD_KEYS; i++)
      if (threadIdx.x + i * THREADS < length) visit(own_keys[i]);
  }
};

/* The largest number among all threads. sums: shared memory, one per warp. */
template <class T, int THREADS>
__device__ order_of<T> high_end(order_of<T> most, order_of<T> *sums) {
#pragma unroll
  for (uint32_t mask = ADJI_WARP / 2; mask; mask /= 2) {
    order_of<T> other = from_lane(most, mask);
    most = other > most ? other : most;
  }
  if (threadIdx.x % ADJI_WARP == 0) sums[threadIdx.x / ADJI_WARP] = most;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < THREADS / ADJI_WARP; w++)
    most = sums[w] > most ? sums[w] : most;
  __syncthreads();
  return most;
}

/* The memory of finish_in_buckets: SCAN_SUMS numbers, the counts, the places. */
struct bucket_layout {
  uint32_t most;     /* buckets: a power of two, from four per thread of the block to MOST_BUCKETS */
  uint32_t capacity; /* at least k + BUCKET_MOST */

  template <class T>
  __host__ __device__ constexpr uint32_t bytes() const {
    return (SCAN_SUMS + most) * 4 + capacity * static_cast<uint32_t>(sizeof(key_of<T>));
  }
};

/* Writes the k smallest of a row's keys, however many there are, or returns false. */
template <class T, int THREADS, class KEYS>
__device__ bool finish_in_buckets(const selection<T> &s, uint32_t row, const KEYS &keys, const bucket_layout &layout,
                                  unsigned char *memory) {
  uint32_t *sums = reinterpret_cast<uint32_t *>(memory), *counts = sums + SCAN_SUMS, buckets = 4 * THREADS;
  bucket_memory<T> room = {counts, sums, reinterpret_cast<key_of<T> *>(counts + layout.most), layout.capacity};
  while (buckets < layout.most && buckets < keys.length)
    buckets *= 2;
  order_of<T> least = NOT_A_NUMBER<T>, most = 0, *ends = reinterpret_cast<order_of<T> *>(sums);
  keys.visit([&](const key_of<T> &key) {
    order_of<T> order = key_order(key);
    least = order < least ? order : least;
    most = order > most ? order : most;
  });
  order_of<T> low = low_end<T, THREADS>(least, ends);
  bucket_map<T> map(low, high_end<T, THREADS>(most, ends), buckets);
  return write_by_buckets<T, THREADS>(s, row, keys, map, room);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Rows that are not finished. At the front of `rows`: rows whose bound held but that do not suit buckets (`many` of
 * them). At its end: rows whose bound was wrong. */
struct unfinished_rows {
  uint32_t *rows;
  uint32_t *many, *wrong;
  uint32_t all;

  __device__ void add_many(uint32_t row) const {
    rows[atomicAdd(many, 1u)] = row;
  }
  __device__ void add_wrong(uint32_t row) const {
    rows[all - 1 - atomicAdd(wrong, 1u)] = row;
  }
};

/* Finishes all rows by buckets, as far as possible. One block per row; keys in device memory, buckets in shared memory.
 * Limited by latency: about ten barriers and three passes over a list that is in the caches; four blocks per
 * multiprocessor. */
template <class T>
__global__ void __launch_bounds__(FINISH_THREADS, 4)
    finish_by_buckets(selection<T> s, findings<T> found, bucket_layout layout, unfinished_rows unfinished) {
  extern __shared__ __align__(16) unsigned char memory[];
  uint32_t row = blockIdx.x, length = found.counts[row];
  bool wrong = !found.holds(length, s.k);
  if (!wrong) {
    list_keys<T, FINISH_THREADS> keys = {found.row(row), length};
    if (finish_in_buckets<T, FINISH_THREADS>(s, row, keys, layout, memory)) return;
  }
  if (threadIdx.x == 0 && wrong) unfinished.add_wrong(row);
  if (threadIdx.x == 0 && !wrong) unfinished.add_many(row);
}

template <class T>
__host__ __device__ constexpr uint32_t finish_bytes() {
  return gapped<key_traits<T>::EACH>(BLOCK_KEYS<T>) * sizeof(key_of<T>);
}

/* The layout of buckets in the memory of a sort. */
__host__ __device__ constexpr bucket_layout all_buckets() {
  return bucket_layout{MOST_BUCKETS, ADJI_SELECT_MOST + BUCKET_MOST};
}
static_assert(all_buckets().bytes<float>() <= finish_bytes<float>(), "room for buckets");
static_assert(all_buckets().bytes<double>() <= finish_bytes<double>(), "room for buckets");

enum { FEW_THREADS = 512 };
static_assert(4 * static_cast<int>(FEW_THREADS) <= static_cast<int>(MOST_BUCKETS), "four buckets a thread, or more");

/* The parameters of the blocks that finish. */
template <class T>
struct finishing {
  findings<T> found;
  row_list list;
  key_of<T> *pools; /* BLOCK_KEYS per block */
};

/* Finishes a row by buckets with FEW_THREADS threads. A list of up to HELD_KEYS keys per thread is read once. */
template <class T>
__device__ __forceinline__ bool finish_few(const selection<T> &s, const findings<T> &found, uint32_t row,
                                           unsigned char *memory) {
  uint32_t length = found.counts[row];
  if (!found.holds(length, s.k)) return false;
  if (length <= HELD_KEYS * FEW_THREADS) {
    held_keys<T, FEW_THREADS> keys(found.row(row), length);
    return finish_in_buckets<T, FEW_THREADS>(s, row, keys, all_buckets(), memory);
  }
  list_keys<T, FEW_THREADS> keys = {found.row(row), length};
  return finish_in_buckets<T, FEW_THREADS>(s, row, keys, all_buckets(), memory);
}

/* Finishes a row with FINISH_THREADS threads: by buckets, if these are all threads of the block, otherwise by sorting.
 * The smallest keys are gathered first if there are more than a block sorts at once, or, from all keys of the row, if
 * its bound was wrong. Few rows need this; as a separate function it takes no registers from finish_few. held is in
 * shared memory. */
template <class T>
__device__ __noinline__ void finish_row(const selection<T> &s, const findings<T> &found, uint32_t row, key_of<T> *pool,
                                        unsigned char *memory, uint32_t *held) {
  uint32_t length = found.counts[row];
  const key_of<T> *from = found.row(row);
  bool wrong = !found.holds(length, s.k);
  list_keys<T, FINISH_THREADS> keys = {from, length};
  if (!wrong && blockDim.x == FINISH_THREADS &&
      finish_in_buckets<T, FINISH_THREADS>(s, row, keys, all_buckets(), memory))
    return;
  if (wrong || length > BLOCK_KEYS<T>) {
    if (wrong)
      gather_smallest<T>(row_source<T>{s, s.row(row), 0}, s.columns, s.k, pool, memory, held);
    else
      gather_smallest<T>(list_source<T>{from}, length, s.k, pool, memory, held);
    from = pool;
    length = *held;
  }
  sort_block<T>(list_to_answer<T>(from, s, row), memory, length);
  __syncthreads();
}

/* Finishes the listed rows. With FINISH_THREADS threads a block takes one row after the other. With FEW_THREADS, as
 * many as there are registers for, there are few rows, and every block has one; threads past FINISH_THREADS work on the
 * buckets only. With few rows it is limited by latency: about ten barriers and one pass over the list. */
template <class T>
__global__ void __launch_bounds__(FEW_THREADS, 1) finish_by_blocks(selection<T> s, finishing<T> f) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ uint32_t held;
  wait_for_previous();
  if (blockDim.x == FEW_THREADS) {
    bool done = finish_few(s, f.found, blockIdx.x, memory);
    if (done || threadIdx.x >= FINISH_THREADS) return; /* barriers do not wait for threads that have returned */
  }
  selection<T> copy = s; /* otherwise the kernel would read its own parameters from local memory */
  findings<T> found = f.found;
  key_of<T> *pool = f.pools + static_cast<uint64_t>(blockIdx.x) * BLOCK_KEYS<T>;
  uint32_t many = f.list.count();
  for (uint32_t i = blockIdx.x; i < many; i += gridDim.x)
    finish_row(copy, found, f.list.row(i), pool, memory, &held);
}

/* Selection without a bound, from all keys: gather_in_chunks or gather_smallest leaves the k smallest of its input in a
 * pool of up to BLOCK_KEYS. A row has `parts` parts of `columns` columns, the last one possibly shorter; there is a
 * block for each. With one part its k smallest are the answer. With several, k keys of each part go to the findings,
 * `parts * k` in total, or fewer if a part is shorter than k. */
template <class T, bool IN_CHUNKS>
__global__ void __launch_bounds__(FINISH_THREADS, 2)
    select_by_blocks(selection<T> s, findings<T> to, key_of<T> *pools, uint32_t parts, uint32_t columns) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ uint32_t held, place;
  key_of<T> *pool = pools + static_cast<uint64_t>(blockIdx.x) * BLOCK_KEYS<T>;
  uint64_t tasks = static_cast<uint64_t>(s.rows) * parts;
  for (uint64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    uint32_t row = static_cast<uint32_t>(task / parts), part = static_cast<uint32_t>(task % parts);
    uint32_t first = part * columns, here = min(columns, s.columns - first), k = min(s.k, here);
    row_source<T> source = {s, s.row(row), first};
    if (IN_CHUNKS)
      gather_in_chunks<T>(source, here, k, pool, memory, &held);
    else
      gather_smallest<T>(source, here, k, pool, memory, &held);
    uint32_t length = held;
    if (parts == 1) {
      sort_block<T>(list_to_answer<T>(pool, s, row), memory, length);
    } else {
      if (threadIdx.x == 0) place = atomicAdd(to.counts + row, k);
      __syncthreads();
      sort_block<T>(list_to_list<T>(pool, to.row(row) + place, k), memory, length);
    }
    __syncthreads();
  }
}

}  // namespace

#endif
