/* SPDX-License-Identifier: MIT
 *
 * Selection by partial bitonic sort. A row is read in chunks. Each chunk is sorted in registers. Of its keys and the
 * smallest keys so far the smaller half is kept; it is a bitonic sequence and is merged into order. Up to k =
 * WARP_CHUNK each warp does this separately, and the lists of a block's warps are merged at the end; up to
 * ADJI_SELECT_MOST the whole block does it together.
 *
 * A chunk with no key below the k-th smallest so far is dropped before it is sorted. The kernel that does this is
 * finish_by_blocks (select_finish.cuh).
 */
#ifndef ADJI_GPU_SELECT_SELECT_BITONIC_CUH
#define ADJI_GPU_SELECT_SELECT_BITONIC_CUH

#include "gpu/select/select_keys.cuh"

namespace {

enum { FINISH_WARPS = 8, FINISH_THREADS = FINISH_WARPS * ADJI_WARP };

template <class T>
constexpr uint32_t BLOCK_KEYS = key_traits<T>::EACH *FINISH_THREADS; /* keys that a block sorts */

enum {
  CHUNK_EACH = 8, /* keys per thread */
  WARP_CHUNK = CHUNK_EACH * ADJI_WARP,
  BLOCK_CHUNK = CHUNK_EACH * FINISH_THREADS
};

__device__ __forceinline__ uint64_t of_lane(uint64_t key, uint32_t lane) {
  return __shfl_sync(ALL_LANES, key, static_cast<int>(lane));
}
__device__ __forceinline__ wide_key of_lane(const wide_key &key, uint32_t lane) {
  return wide_key{of_lane(key.high, lane), of_lane(key.low, lane)};
}

/* Key `at` of a sorted list of EACH * 32 keys, in all lanes. */
template <int EACH, class KEY>
__device__ __forceinline__ KEY key_at(const KEY (&v)[EACH], uint32_t at) {
  KEY key = v[0];
#pragma unroll
  for (int i = 1; i < EACH; i++)
    if (at % EACH == i) key = v[i];
  return of_lane(key, at / EACH);
}

/* Keeps the smaller half of two sorted lists of EACH * 32 keys, sorted, in the first one. */
template <int EACH, class KEY>
__device__ __forceinline__ void keep_smaller_of_warp(KEY (&best)[EACH], const KEY (&v)[EACH], uint32_t lane) {
#pragma unroll
  for (int i = 0; i < EACH; i++) { /* compare with the mirror image */
    KEY other = from_lane(v[EACH - 1 - i], ADJI_WARP - 1);
    best[i] = comes_first(other, best[i]) ? other : best[i];
  }
#pragma unroll 1
  for (uint32_t mask = ADJI_WARP / 2; mask; mask /= 2)
    merge_lanes(best, mask, lane & mask);
  merge_inside<EACH, EACH / 2>(best);
}

/* The same for lists of a block; thread t owns keys t * EACH .. of both. shared: as for sort_row_together.
 *
 * 1. The new list goes to shared memory; each key of the first list is replaced by its mirror image in the new list if
 *    that is smaller.
 * 2. Every thread takes every FINISH_THREADS-th key, so that levels with at least this stride are inside a thread.
 * 3. Each thread takes its own keys again, for the narrower levels, as in merge_runs. */
template <int EACH, class KEY>
__device__ __forceinline__ void keep_smaller_of_block(KEY (&best)[EACH], const KEY (&v)[EACH], KEY *shared) {
  static_assert(FINISH_THREADS <= EACH * ADJI_WARP, "lanes that exchange keys are in one warp");
  const uint32_t step = gapped<EACH>(FINISH_THREADS);
  KEY *own = shared + gapped<EACH>(threadIdx.x * EACH), *apart = shared + gapped<EACH>(threadIdx.x);
  const KEY *mirrored = shared + gapped<EACH>((FINISH_THREADS - 1 - threadIdx.x) * EACH);
#pragma unroll
  for (int i = 0; i < EACH; i++)
    own[i] = v[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    KEY other = mirrored[EACH - 1 - i];
    best[i] = comes_first(other, best[i]) ? other : best[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < EACH; i++)
    own[i] = best[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < EACH; i++)
    best[i] = apart[i * step];
  merge_inside<EACH, EACH / 2>(best);
#pragma unroll
  for (int i = 0; i < EACH; i++)
    apart[i * step] = best[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < EACH; i++)
    best[i] = own[i];
#pragma unroll 1
  for (uint32_t mask = FINISH_THREADS / EACH / 2; mask; mask /= 2)
    merge_lanes(best, mask, threadIdx.x & mask);
  merge_inside<EACH, EACH / 2>(best);
}

/* Reads a chunk of CHUNK_EACH keys per thread, `threads` threads. Returns false if the thread has no key below the
 * bound. Past the end it pads with the last key, which is after all others. */
template <class T, class SOURCE>
__device__ __forceinline__ bool read_chunk(const SOURCE &source, uint64_t begin, uint32_t length, uint32_t threads,
                                           const key_of<T> &bound, key_of<T> (&v)[CHUNK_EACH]) {
  bool some = false;
#pragma unroll
  for (int i = 0; i < CHUNK_EACH; i++) {
    uint64_t at = begin + i * threads + threadIdx.x % threads;
    v[i] = at < length ? source(static_cast<uint32_t>(at)) : last_key<T>();
    some |= less(v[i], bound);
  }
  return some;
}

/* Finds the k smallest of each warp's chunks, k <= WARP_CHUNK; the warps take chunks in turn. best: a thread's part of
 * a sorted list. */
template <class T, class SOURCE>
__device__ void chunks_of_warps(const SOURCE &source, uint32_t length, uint32_t k, key_of<T> (&best)[CHUNK_EACH]) {
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  key_of<T> bound = last_key<T>();
  for (uint64_t begin = warp * WARP_CHUNK; begin < length; begin += BLOCK_CHUNK) {
    key_of<T> v[CHUNK_EACH];
    bool some = read_chunk<T>(source, begin, length, ADJI_WARP, bound, v);
    if (!__any_sync(ALL_LANES, some)) continue;
    sort_warp<CHUNK_EACH>(v, lane);
    keep_smaller_of_warp(best, v, lane);
    bound = key_at(best, k - 1);
  }
}

/* Finds the k smallest of a block's chunks, k <= BLOCK_CHUNK. kth is in shared memory. */
template <class T, class SOURCE>
__device__ void chunks_of_block(const SOURCE &source, uint32_t length, uint32_t k, key_of<T> (&best)[CHUNK_EACH],
                                key_of<T> *shared, key_of<T> *kth) {
  key_of<T> bound = last_key<T>();
  for (uint64_t begin = 0; begin < length; begin += BLOCK_CHUNK) {
    key_of<T> v[CHUNK_EACH];
    bool some = read_chunk<T>(source, begin, length, FINISH_THREADS, bound, v);
    if (!__syncthreads_or(some)) continue;
    sort_warp<CHUNK_EACH>(v, threadIdx.x % ADJI_WARP);
#pragma unroll 1
    for (uint32_t threads = 2 * ADJI_WARP; threads <= FINISH_THREADS; threads *= 2)
      merge_runs<CHUNK_EACH, true>(v, shared, threads, BLOCK_CHUNK);
    keep_smaller_of_block(best, v, shared);
#pragma unroll
    for (int i = 0; i < CHUNK_EACH; i++)
      if (threadIdx.x * CHUNK_EACH + i == k - 1) *kth = best[i];
    __syncthreads();
    bound = *kth;
  }
}

/* Like gather_smallest, but in chunks: the pool gets all lists, padded with the last key, and the k smallest of
 * `length` keys are among them. */
template <class T, class SOURCE>
__device__ void gather_in_chunks(const SOURCE &source, uint32_t length, uint32_t k, key_of<T> *pool,
                                 unsigned char *memory, uint32_t *held) {
  static_assert(BLOCK_CHUNK >= ADJI_SELECT_MOST && BLOCK_CHUNK <= BLOCK_KEYS<T>, "a chunk has room for k");
  __shared__ __align__(16) unsigned char kth[sizeof(key_of<T>)];
  key_of<T> best[CHUNK_EACH];
#pragma unroll
  for (int i = 0; i < CHUNK_EACH; i++)
    best[i] = last_key<T>();
  if (k <= WARP_CHUNK)
    chunks_of_warps<T>(source, length, k, best);
  else
    chunks_of_block<T>(source, length, k, best, reinterpret_cast<key_of<T> *>(memory),
                       reinterpret_cast<key_of<T> *>(kth));
#pragma unroll
  for (int i = 0; i < CHUNK_EACH; i++)
    pool[threadIdx.x * CHUNK_EACH + i] = best[i];
  if (threadIdx.x == 0) *held = BLOCK_CHUNK;
  __syncthreads();
}

}  // namespace

#endif
