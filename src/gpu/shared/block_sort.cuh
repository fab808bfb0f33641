/* SPDX-License-Identifier: MIT
 *
 * The bitonic network of Hanak's thesis (4.1.1 to 4.1.4): EACH * THREADS keys in the registers of a block. Thread t
 * owns the consecutive keys t * EACH .. t * EACH + EACH - 1. Separators of small strides are inside a thread, those
 * across up to 16 threads are shuffles, and wider ones go through shared memory, two rows at a time: row i has the i-th
 * keys of all threads. So shared memory for 2 * THREADS keys suffices, however many keys a thread has.
 *
 * All threads of the block call these functions. They begin and end with a barrier, so code that uses `rows` before or
 * after them needs none.
 */
#ifndef ADJI_GPU_SHARED_BLOCK_SORT_CUH
#define ADJI_GPU_SHARED_BLOCK_SORT_CUH

#include "gpu/shared/row_sort_kernels.cuh"

namespace {

/* Separators with strides of 32 threads and more, from `mask` threads on, in shared memory (Algorithm 1). There a
 * thread stands for a comparator, not for an element. */
template <int EACH, int THREADS, class KEY>
__device__ __forceinline__ void separate_warps(KEY (&v)[EACH], uint32_t mask, KEY *rows) {
#pragma unroll
  for (int i = 0; i < EACH; i += 2) {
    __syncthreads();
    rows[threadIdx.x] = v[i];
    if (EACH > 1) rows[THREADS + threadIdx.x] = v[(i + 1) % EACH];
    for (uint32_t stride = mask; stride >= ADJI_WARP; stride /= 2) {
      __syncthreads();
      uint32_t low = (threadIdx.x & ~(stride - 1)) << 1 | (threadIdx.x & (stride - 1));
      if (EACH > 1 || threadIdx.x < THREADS / 2) exchange(rows[low], rows[low + stride]);
    }
    __syncthreads();
    v[i] = rows[threadIdx.x];
    if (EACH > 1) v[(i + 1) % EACH] = rows[THREADS + threadIdx.x];
  }
  __syncthreads();
}

/* Sorts the bitonic sequences that the keys of each 2 * mask threads form. */
template <int EACH, int THREADS, class KEY>
__device__ __forceinline__ void merge_bitonic(KEY (&v)[EACH], uint32_t mask, KEY *rows) {
  if (mask >= ADJI_WARP) separate_warps<EACH, THREADS>(v, mask, rows);
#pragma unroll 1
  for (uint32_t lanes = mask < ADJI_WARP ? mask : ADJI_WARP / 2; lanes; lanes /= 2)
    merge_lanes(v, lanes, threadIdx.x & lanes);
  merge_inside<EACH, EACH / 2>(v);
}

/* Calls visit(i, key) for each i, where key is the i-th key of thread `other` counted from the end. from: the keys of
 * the calling thread. */
template <int EACH, int THREADS, class KEY, class VISIT>
__device__ __forceinline__ void visit_mirrored(const KEY (&from)[EACH], uint32_t other, KEY *rows, const VISIT &visit) {
#pragma unroll
  for (int i = 0; i < (EACH + 1) / 2; i++) {
    const int j = EACH - 1 - i;
    __syncthreads();
    rows[threadIdx.x] = from[i];
    if (i != j) rows[THREADS + threadIdx.x] = from[j];
    __syncthreads();
    KEY at_i = rows[(i != j ? THREADS : 0) + other], at_j = rows[other];
    visit(i, at_i);
    if (i != j) visit(j, at_j);
  }
  __syncthreads();
}

/* The reversed separator between sorted groups of threads / 2 threads each (Algorithm 2). */
template <int EACH, int THREADS, class KEY>
__device__ __forceinline__ void separate_reversed(KEY (&v)[EACH], uint32_t threads, KEY *rows) {
  bool upper = threadIdx.x & (threads / 2);
  visit_mirrored<EACH, THREADS>(v, threadIdx.x ^ (threads - 1), rows,
                                [&](int i, const KEY &other) { v[i] = less(other, v[i]) != upper ? other : v[i]; });
}

/* Sorts the block's keys. rows: shared memory for 2 * THREADS keys, THREADS if EACH is 1. */
template <int EACH, int THREADS, class KEY>
__device__ __forceinline__ void sort_block_keys(KEY (&v)[EACH], KEY *rows) {
  sort_warp<EACH>(v, threadIdx.x % ADJI_WARP);
#pragma unroll 1
  for (uint32_t threads = 2 * ADJI_WARP; threads <= THREADS; threads *= 2) {
    separate_reversed<EACH, THREADS>(v, threads, rows);
    merge_bitonic<EACH, THREADS>(v, threads / 4, rows);
  }
}

/* Keeps the smaller half of two sorted lists, sorted, in the first. */
template <int EACH, int THREADS, class KEY>
__device__ __forceinline__ void keep_smaller_keys(KEY (&best)[EACH], const KEY (&v)[EACH], KEY *rows) {
  visit_mirrored<EACH, THREADS>(v, THREADS - 1 - threadIdx.x, rows,
                                [&](int i, const KEY &other) { best[i] = less(other, best[i]) ? other : best[i]; });
  merge_bitonic<EACH, THREADS>(best, THREADS / 2, rows);
}

/* The same for lists of LANES threads each, several lists per warp: all strides between threads are shuffles. */
template <int EACH, int LANES, class KEY>
__device__ __forceinline__ void sort_lists(KEY (&v)[EACH]) {
  sort_inside<EACH>(v);
#pragma unroll 1
  for (uint32_t lanes = 2; lanes <= LANES; lanes *= 2) {
    bool upper = threadIdx.x & (lanes / 2);
    KEY other[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++)
      other[i] = from_lane(v[EACH - 1 - i], lanes - 1);
#pragma unroll
    for (int i = 0; i < EACH; i++)
      v[i] = less(other[i], v[i]) != upper ? other[i] : v[i];
#pragma unroll 1
    for (uint32_t mask = lanes / 4; mask; mask /= 2)
      merge_lanes(v, mask, threadIdx.x & mask);
    merge_inside<EACH, EACH / 2>(v);
  }
}
template <int EACH, int LANES, class KEY>
__device__ __forceinline__ void keep_smaller_lists(KEY (&best)[EACH], const KEY (&v)[EACH]) {
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    KEY other = from_lane(v[EACH - 1 - i], LANES - 1);
    best[i] = less(other, best[i]) ? other : best[i];
  }
#pragma unroll 1
  for (uint32_t mask = LANES / 2; mask; mask /= 2)
    merge_lanes(best, mask, threadIdx.x & mask);
  merge_inside<EACH, EACH / 2>(best);
}

}  // namespace

#endif
