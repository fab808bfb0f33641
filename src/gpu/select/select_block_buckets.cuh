/* SPDX-License-Identifier: MIT
 *
 * Selection for any k as in Hanak's thesis (3.7, 4.3): a block per row finds the k-th smallest key in its first stage,
 * and writes all keys up to it, by column, in its second. These keys are sorted afterwards.
 *
 * First stage, repeated until a block can sort the remaining keys:
 * 1. Sample select: sort a sample and take 255 of its quantiles as splitters, in an implicit search tree in shared
 *    memory. Radix select: take the next digit of 8 bits, the highest first.
 * 2. Count the keys of each of the 256 buckets.
 * 3. Find the bucket of the k-th smallest.
 * 4. Move its keys to consecutive places of a list in device memory, through a buffer in shared memory in which a
 *    prefix sum over the block assigns places. All writes are coalesced. From the second time on the list is both input
 *    and output: keys are read before their places are overwritten.
 *
 * Keys contain the column, so they are all different: the sample has 1,024 different keys, and every step leaves fewer
 * keys.
 */
#ifndef ADJI_GPU_SELECT_SELECT_BLOCK_BUCKETS_CUH
#define ADJI_GPU_SELECT_SELECT_BLOCK_BUCKETS_CUH

#include "gpu/select/select_radix.cuh"
#include "gpu/shared/block_sort.cuh"

namespace {

enum {
  BUCKET_THREADS = 256,
  BUCKET_BITS = 8,
  BUCKETS = 1 << BUCKET_BITS, /* one per thread */
  SAMPLE_EACH = 4,            /* sampled keys per thread; a thread's first one is a splitter */
  BUCKET_EACH = 8,
  BUCKET_LAST = BUCKET_EACH * BUCKET_THREADS, /* keys that are sorted at once */
  TILE_EACH = 4,
  BUCKET_TILE = TILE_EACH * BUCKET_THREADS
};
static_assert(static_cast<int>(BUCKETS) == static_cast<int>(BUCKET_THREADS), "a thread has one bucket");

/* Shared memory of a block. */
template <class T>
struct partition_memory {
  key_of<T> tree[BUCKETS]; /* of splitters: node i has the children 2 i + 1 and 2 i + 2 */
  key_of<T> buffer[BUCKET_TILE];
  key_of<T> kth;
  uint32_t counts[BUCKETS];
  uint32_t sums[BUCKET_THREADS / ADJI_WARP];
  uint32_t bucket, rank, count; /* of the k-th smallest */
};

/* The input of a block: the row, or a list. */
template <class T>
struct partition_input {
  const selection<T> &s;
  const T *row;
  const key_of<T> *list; /* NULL: the row */
  uint32_t count;
  __device__ key_of<T> operator()(uint32_t at) const {
    return list ? list[at] : s.key(row, at);
  }
};

/* The sum over the threads before this one; *total: the sum over all threads. All threads call it. */
__device__ __forceinline__ uint32_t scan_threads(uint32_t own, uint32_t *sums, uint32_t *total) {
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP, sum = own, before = 0, all = 0;
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t other = __shfl_up_sync(ALL_LANES, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == ADJI_WARP - 1) sums[warp] = sum;
  __syncthreads();
  for (uint32_t w = 0; w < BUCKET_THREADS / ADJI_WARP; w++) {
    if (w < warp) before += sums[w];
    all += sums[w];
  }
  __syncthreads();
  *total = all;
  return before + sum - own;
}

/* ---- Buckets --------------------------------------------------------------------------------- */

/* 8 bits of a key, the highest first. */
__device__ __forceinline__ uint32_t digit_of(uint64_t key, uint32_t pass) {
  return static_cast<uint32_t>(key >> (64 - BUCKET_BITS * (pass + 1))) & (BUCKETS - 1);
}
__device__ __forceinline__ uint32_t digit_of(const wide_key &key, uint32_t pass) {
  enum { HIGH = 64 / BUCKET_BITS };
  return pass < HIGH ? digit_of(key.high, pass) : digit_of(key.low << 32, pass - HIGH);
}

/* Takes one key from each of 1,024 equal parts of the input, at a place that a hash chooses. */
template <class T>
__device__ __forceinline__ key_of<T> sample_of(const partition_input<T> &from, uint32_t i, uint32_t pass) {
  constexpr uint64_t SAMPLED = SAMPLE_EACH * BUCKET_THREADS;
  uint32_t begin = static_cast<uint32_t>(i * static_cast<uint64_t>(from.count) / SAMPLED);
  uint32_t end = static_cast<uint32_t>((i + 1) * static_cast<uint64_t>(from.count) / SAMPLED);
  uint32_t hash = (i + 1 + pass * 0x632be5abu) * 0x9e3779b9u;
  hash = (hash ^ hash >> 15) * 0x85ebca6bu;
  hash ^= hash >> 13;
  return from(begin + hash % (end - begin));
}

/* Splitters r = 1 .. 255, in ascending order, are placed in the tree so that a binary search finds them. */
template <class T>
__device__ __forceinline__ void build_tree(const partition_input<T> &from, uint32_t pass, partition_memory<T> *m) {
  key_of<T> v[SAMPLE_EACH];
#pragma unroll
  for (int i = 0; i < SAMPLE_EACH; i++)
    v[i] = sample_of(from, i * BUCKET_THREADS + threadIdx.x, pass);
  sort_block_keys<SAMPLE_EACH, BUCKET_THREADS>(v, m->buffer);
  uint32_t r = threadIdx.x;
  if (r) {
    uint32_t zeros = __ffs(static_cast<int>(r)) - 1, level = BUCKET_BITS - 1 - zeros;
    m->tree[(1u << level) - 1 + (r >> (zeros + 1))] = v[0];
  }
  __syncthreads();
}

template <class T, bool SAMPLE>
__device__ __forceinline__ uint32_t bucket_of(const key_of<T> &key, uint32_t pass, const partition_memory<T> *m) {
  if (!SAMPLE) return digit_of(key, pass);
  uint32_t node = 0;
#pragma unroll
  for (int level = 0; level < BUCKET_BITS; level++)
    node = 2 * node + (less(key, m->tree[node]) ? 1 : 2);
  return node - (BUCKETS - 1);
}

/* Steps 2 and 3. */
template <class T, bool SAMPLE>
__device__ __forceinline__ void choose_bucket(const partition_input<T> &from, uint32_t pass, uint32_t rank,
                                              partition_memory<T> *m) {
  m->counts[threadIdx.x] = 0;
  __syncthreads();
  for (uint64_t at = threadIdx.x; at < from.count; at += BUCKET_THREADS)
    atomicAdd(&m->counts[bucket_of<T, SAMPLE>(from(static_cast<uint32_t>(at)), pass, m)], 1u);
  __syncthreads();
  uint32_t own = m->counts[threadIdx.x], total, before = scan_threads(own, m->sums, &total);
  if (before < rank && rank <= before + own) {
    m->bucket = threadIdx.x;
    m->rank = rank - before;
    m->count = own;
  }
  __syncthreads();
}

/* Step 4. */
template <class T, bool SAMPLE>
__device__ __forceinline__ void move_bucket(const partition_input<T> &from, uint32_t pass, partition_memory<T> *m,
                                            key_of<T> *to) {
  uint32_t held = 0, written = 0, wanted = m->bucket;
  for (uint64_t at = 0; at < from.count; at += BUCKET_TILE) {
    key_of<T> keys[TILE_EACH];
    uint32_t own = 0, total;
#pragma unroll
    for (int u = 0; u < TILE_EACH; u++) {
      uint64_t i = at + u * BUCKET_THREADS + threadIdx.x;
      if (i >= from.count) continue;
      keys[u] = from(static_cast<uint32_t>(i));
      if (bucket_of<T, SAMPLE>(keys[u], pass, m) == wanted) own |= 1u << u;
    }
    uint32_t place = scan_threads(__popc(own), m->sums, &total);
    if (held + total > BUCKET_TILE) {
      for (uint32_t i = threadIdx.x; i < held; i += BUCKET_THREADS)
        to[written + i] = m->buffer[i];
      written += held;
      held = 0;
      __syncthreads();
    }
#pragma unroll
    for (int u = 0; u < TILE_EACH; u++)
      if (own >> u & 1) m->buffer[held + place++] = keys[u];
    held += total;
    __syncthreads();
  }
  for (uint32_t i = threadIdx.x; i < held; i += BUCKET_THREADS)
    to[written + i] = m->buffer[i];
  __syncthreads();
}

/* ---- The kernel ------------------------------------------------------------------------------ */

/* The first stage: finds the key of this rank. list: room for all keys of the row. */
template <class T, bool SAMPLE>
__device__ __forceinline__ key_of<T> find_by_buckets(partition_input<T> from, uint32_t rank, partition_memory<T> *m,
                                                     key_of<T> *list) {
  for (uint32_t pass = 0; from.count > BUCKET_LAST; pass++) {
    if (SAMPLE) build_tree(from, pass, m);
    choose_bucket<T, SAMPLE>(from, pass, rank, m);
    bool fewer = m->count < from.count;
    if (fewer) move_bucket<T, SAMPLE>(from, pass, m, list);
    if (fewer) from.list = list;
    from.count = m->count;
    rank = m->rank;
    __syncthreads();
  }
  key_of<T> v[BUCKET_EACH];
#pragma unroll
  for (int i = 0; i < BUCKET_EACH; i++) {
    uint32_t at = i * BUCKET_THREADS + threadIdx.x;
    v[i] = at < from.count ? from(at) : last_key<T>();
  }
  sort_block_keys<BUCKET_EACH, BUCKET_THREADS>(v, m->buffer);
#pragma unroll
  for (int i = 0; i < BUCKET_EACH; i++)
    if (threadIdx.x * BUCKET_EACH + i == rank - 1) m->kth = v[i];
  __syncthreads();
  return m->kth;
}

/* Selects from each row: see above. lists: device memory, as many keys as the rows have columns. Limited by passes: two
 * read the whole row, two or more read the remaining keys. */
template <class T, bool SAMPLE>
__global__ void __launch_bounds__(BUCKET_THREADS) select_by_buckets(selection<T> s, key_of<T> *lists, selected<T> to) {
  __shared__ __align__(16) unsigned char memory[sizeof(partition_memory<T>)];
  partition_memory<T> *m = reinterpret_cast<partition_memory<T> *>(memory);
  uint32_t row = blockIdx.x, written = 0;
  partition_input<T> from = {s, s.row(row), NULL, s.columns};
  key_of<T> kth = find_by_buckets<T, SAMPLE>(from, s.k, m, lists + static_cast<uint64_t>(row) * s.columns);
  for (uint64_t at = 0; at < s.columns; at += BUCKET_TILE) {
    key_of<T> keys[TILE_EACH];
    uint32_t own = 0, total;
#pragma unroll
    for (int u = 0; u < TILE_EACH; u++) {
      uint64_t column = at + threadIdx.x * TILE_EACH + u;
      if (column >= s.columns) continue;
      keys[u] = from(static_cast<uint32_t>(column));
      if (!less(kth, keys[u])) own |= 1u << u;
    }
    uint32_t place = written + scan_threads(__popc(own), m->sums, &total);
#pragma unroll
    for (int u = 0; u < TILE_EACH; u++)
      if (own >> u & 1) to.put(s, row, place++, key_order(keys[u]), key_column(keys[u]));
    written += total;
  }
}

}  // namespace

#endif
