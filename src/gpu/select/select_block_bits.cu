/* SPDX-License-Identifier: MIT
 *
 * Selection as in Hanak's thesis, "k-nearest-neighbour search on GPUs": a block per row, the k smallest so far in its
 * registers, sorted (block_sort.cuh).
 *
 *   bits (4.1)                Keys below the k-th smallest go to a buffer of as many keys in shared memory, by
 *                             atomicAdd. A full buffer is sorted and merged. Each thread has several reads in flight,
 *                             and may prefetch the next ones to the L2 cache (4.1.5).
 *   bits of a part (5.4.2)    Several blocks share a row. Their lists are the input of one more pass.
 *   partial bitonic (3.5.1)   The same without a filter: every segment of k keys is sorted and merged.
 *   bits for large k (5.6)    The k smallest so far are in device memory; the buffer has 2,048 keys.
 *
 * As in the thesis, blocks have 128 threads for up to 512 keys, and 256 above. The list and the buffer have 128, 512 or
 * 2,048 keys, the least of these that holds k.
 */
#include "gpu/select/select.cuh"
#include "gpu/select/select_keys.cuh"
#include "gpu/shared/block_sort.cuh"

namespace {

enum { MOST_READS = 8, DEFAULT_READS = 4, LARGE_THREADS = 256, LARGE_EACH = 8 };
enum { FEW_KEYS = 128, SOME_KEYS = 512, LARGE_KEYS = LARGE_THREADS * LARGE_EACH };

/* A pass. Its input is the rows of the matrix, or the lists of parts. */
template <class T>
struct bits_job {
  selection<T> s;
  const key_of<T> *lists; /* parts * k keys per row; NULL: the matrix */
  key_of<T> *to;          /* where parts put their lists; NULL: to the answer */
  uint32_t parts;
  uint64_t length; /* of a part */
  uint64_t total;  /* of a row  */
  uint32_t reads;
  bool prefetch, filtered;
};

template <class T>
struct bits_source {
  const bits_job<T> &job;
  uint32_t row;
  uint64_t begin, end;

  __device__ bits_source(const bits_job<T> &j, uint32_t number) : job(j), row(number / j.parts) {
    begin = number % j.parts * j.length;
    end = begin + j.length < j.total ? begin + j.length : j.total;
  }
  __device__ const void *address(uint64_t at) const {
    if (job.lists) return job.lists + row * job.total + at;
    return job.s.row(row) + at;
  }
  __device__ key_of<T> key(uint64_t at) const {
    if (at >= end) return last_key<T>();
    return job.lists ? job.lists[row * job.total + at] : job.s.key(job.s.row(row), static_cast<uint32_t>(at));
  }
};

__device__ __forceinline__ void prefetch_to_l2(const void *at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

/* The keys that a thread has read. Those with a bit in `pending` must still go to the buffer. */
template <class T>
struct reads_of {
  key_of<T> keys[MOST_READS];
  uint32_t pending;

  /* Reads the next keys; with prefetch also begins to fetch the keys after them. */
  template <int THREADS>
  __device__ __forceinline__ void read(const bits_source<T> &from, uint64_t at, const key_of<T> &bound) {
    const bits_job<T> &job = from.job;
#pragma unroll
    for (uint32_t u = 0; u < MOST_READS; u++) {
      if (u < job.reads) keys[u] = from.key(at + u * THREADS + threadIdx.x);
      uint64_t next = at + (job.reads + u) * THREADS + threadIdx.x;
      if (job.prefetch && u < job.reads && next < from.end) prefetch_to_l2(from.address(next));
    }
    pending = 0;
#pragma unroll
    for (uint32_t u = 0; u < MOST_READS; u++)
      if (u < job.reads && less(keys[u], bound)) pending |= 1u << u;
  }
  __device__ __forceinline__ void drop_above(const key_of<T> &bound) {
#pragma unroll
    for (uint32_t u = 0; u < MOST_READS; u++)
      if ((pending >> u & 1) && !less(keys[u], bound)) pending &= ~(1u << u);
  }
  /* Keys that find no room stay pending. count may then exceed the room. */
  __device__ __forceinline__ void insert(key_of<T> *buffer, uint32_t room, uint32_t *count) {
#pragma unroll
    for (uint32_t u = 0; u < MOST_READS; u++) {
      if (!(pending >> u & 1)) continue;
      uint32_t to = atomicAdd(count, 1u);
      if (to >= room) continue;
      buffer[to] = keys[u];
      pending &= ~(1u << u);
    }
  }
};

/* Fills the buffer until it is full or the input ends. Returns how many keys it holds. *at: where to read next; *ended:
 * there are no more keys. All threads get the same results; *count, in shared memory, is 0 before. */
template <class T, int THREADS>
__device__ __forceinline__ uint32_t fill_buffer(const bits_source<T> &from, reads_of<T> *batch, const key_of<T> &bound,
                                                uint64_t *at, key_of<T> *buffer, uint32_t room, uint32_t *count,
                                                bool *ended) {
  for (;;) {
    bool some = __syncthreads_or(batch->pending != 0);
    *ended = !some && *at >= from.end;
    if (*ended) return *count < room ? *count : room;
    if (!some) {
      batch->template read<THREADS>(from, *at, bound);
      *at += static_cast<uint64_t>(from.job.reads) * THREADS;
    }
    batch->insert(buffer, room, count);
    __syncthreads();
    if (*count >= room) return room;
  }
}

/* Loads a thread's keys from the buffer, or from the next segment. */
template <class T, int EACH, int THREADS>
__device__ __forceinline__ void load_keys(const key_of<T> *buffer, uint32_t held, key_of<T> (&v)[EACH]) {
#pragma unroll
  for (int i = 0; i < EACH; i++)
    v[i] = threadIdx.x * EACH + i < held ? buffer[threadIdx.x * EACH + i] : last_key<T>();
}
template <class T, int EACH, int THREADS>
__device__ __forceinline__ void load_segment(const bits_source<T> &from, uint64_t at, key_of<T> (&v)[EACH]) {
#pragma unroll
  for (int i = 0; i < EACH; i++)
    v[i] = from.key(at + i * THREADS + threadIdx.x);
}

/* Finds the k smallest keys of each row, or part of a row, in order. A block per part; blockIdx.x: row * parts + part.
 *
 * 1. Fill the buffer, or without a filter take the next segment.
 * 2. Sort it; of its keys and the best so far keep the smaller half, and merge that into order.
 * 3. The k-th key is the new bound.
 *
 * Shared memory: the buffer, which is also the rows of the network. Limited by reads where few keys pass, otherwise by
 * instructions of the network. */
template <class T, int EACH, int THREADS>
__global__ void __launch_bounds__(THREADS) bits_rows(bits_job<T> job) {
  constexpr uint32_t KEYS = EACH * THREADS;
  __shared__ __align__(16) unsigned char memory[KEYS * sizeof(key_of<T>)], kth_memory[sizeof(key_of<T>)];
  __shared__ uint32_t count;
  key_of<T> *buffer = reinterpret_cast<key_of<T> *>(memory), *kth = reinterpret_cast<key_of<T> *>(kth_memory);
  bits_source<T> from(job, blockIdx.x);
  key_of<T> best[EACH], v[EACH], bound = last_key<T>();
  reads_of<T> batch;
  uint64_t at = from.begin;
  batch.pending = 0;
#pragma unroll
  for (int i = 0; i < EACH; i++)
    best[i] = last_key<T>();
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  for (bool ended = false; !ended;) {
    if (job.filtered) {
      uint32_t held = fill_buffer<T, THREADS>(from, &batch, bound, &at, buffer, KEYS, &count, &ended);
      load_keys<T, EACH, THREADS>(buffer, held, v);
    } else {
      load_segment<T, EACH, THREADS>(from, at, v);
      at += KEYS;
      ended = at >= from.end;
    }
    __syncthreads(); /* all have read the buffer and the count */
    if (threadIdx.x == 0) count = 0;
    sort_block_keys<EACH, THREADS>(v, buffer);
    keep_smaller_keys<EACH, THREADS>(best, v, buffer);
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (threadIdx.x * EACH + i == job.s.k - 1) *kth = best[i];
    __syncthreads();
    bound = *kth;
    batch.drop_above(bound);
  }
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    uint32_t place = threadIdx.x * EACH + i;
    if (place >= job.s.k) continue;
    if (job.to)
      job.to[static_cast<uint64_t>(blockIdx.x) * job.s.k + place] = best[i];
    else
      job.s.put(from.row, place, best[i]);
  }
}

/* ---- Large k --------------------------------------------------------------------------------- */

/* The number of `count` sorted keys below a key that is not among them. */
template <class KEY>
__device__ __forceinline__ uint32_t rank_of(const KEY *keys, uint32_t count, const KEY &key) {
  uint32_t low = 0, high = count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    bool before = less(keys[middle], key);
    low = before ? middle + 1 : low;
    high = before ? high : middle;
  }
  return low;
}

/* Merges the k smallest keys of two sorted lists without common keys: the place of a key is its own number plus its
 * rank in the other list. Returns the number of keys. */
template <class KEY>
__device__ __forceinline__ uint32_t merge_to(const KEY *list, uint32_t count, const KEY *buffer, uint32_t held,
                                             uint32_t k, KEY *to) {
  for (uint32_t i = threadIdx.x; i < count; i += LARGE_THREADS) {
    uint32_t place = i + rank_of(buffer, held, list[i]);
    if (place < k) to[place] = list[i];
  }
  for (uint32_t i = threadIdx.x; i < held; i += LARGE_THREADS) {
    uint32_t place = i + rank_of(list, count, buffer[i]);
    if (place < k) to[place] = buffer[i];
  }
  return count + held < k ? count + held : k;
}

/* Finds the k smallest keys of each row, in order. A block per row, with two lists of k keys in device memory: the
 * smallest so far, and the next such list. Steps as in bits_rows; limited by merging where k is a large part of a
 * row. */
template <class T>
__global__ void __launch_bounds__(LARGE_THREADS) bits_large(bits_job<T> job) {
  __shared__ __align__(16) unsigned char memory[LARGE_KEYS * sizeof(key_of<T>)];
  __shared__ uint32_t count;
  key_of<T> *buffer = reinterpret_cast<key_of<T> *>(memory);
  key_of<T> *list = job.to + static_cast<uint64_t>(blockIdx.x) * 2 * job.s.k, *next = list + job.s.k;
  bits_source<T> from(job, blockIdx.x);
  key_of<T> v[LARGE_EACH], bound = last_key<T>();
  reads_of<T> batch;
  uint64_t at = from.begin;
  uint32_t listed = 0;
  batch.pending = 0;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  for (bool ended = false; !ended;) {
    uint32_t held = fill_buffer<T, LARGE_THREADS>(from, &batch, bound, &at, buffer, LARGE_KEYS, &count, &ended);
    load_keys<T, LARGE_EACH, LARGE_THREADS>(buffer, held, v);
    __syncthreads(); /* all have read the buffer and the count */
    if (threadIdx.x == 0) count = 0;
    sort_block_keys<LARGE_EACH, LARGE_THREADS>(v, buffer);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < LARGE_EACH; i++)
      buffer[threadIdx.x * LARGE_EACH + i] = v[i];
    __syncthreads();
    listed = merge_to(list, listed, buffer, held, job.s.k, next);
    __syncthreads(); /* the block's writes to the list are visible to all its threads */
    key_of<T> *before = list;
    list = next;
    next = before;
    if (listed == job.s.k) bound = list[job.s.k - 1];
    batch.drop_above(bound);
  }
  for (uint32_t i = threadIdx.x; i < job.s.k; i += LARGE_THREADS)
    job.s.put(from.row, i, list[i]);
}

/* ---- Launches -------------------------------------------------------------------------------- */

template <class T, int EACH, int THREADS>
adj_status launch(adji_gpu *gpu, const bits_job<T> &job) {
  bits_rows<T, EACH, THREADS><<<job.s.rows * job.parts, THREADS, 0, gpu->compute>>>(job);
  ADJI_LAUNCHED(gpu, "bits_rows");
  return ADJ_OK;
}

template <class T>
adj_status launch_size(adji_gpu *gpu, const bits_job<T> &job) {
  if (job.s.k <= FEW_KEYS) return launch<T, 1, 128>(gpu, job);
  if (job.s.k <= SOME_KEYS) return launch<T, 4, 128>(gpu, job);
  return launch<T, LARGE_EACH, LARGE_THREADS>(gpu, job);
}

template <class T>
adj_status launch_large(adji_gpu *gpu, const bits_job<T> &job) {
  bits_large<T><<<job.s.rows, LARGE_THREADS, 0, gpu->compute>>>(job);
  ADJI_LAUNCHED(gpu, "bits_large");
  return ADJ_OK;
}

/* The number of parts of a row: the requested number, or for a single row the number that the thesis found best. Parts
 * are not shorter than k. */
uint32_t parts_of(const adji_gpu_select *job) {
  uint64_t parts = job->how.parts ? job->how.parts : job->rows > 1 ? 1 : job->k > SOME_KEYS ? 128 : 256;
  uint64_t most = job->columns / job->k;
  return static_cast<uint32_t>(parts < most ? parts : most ? most : 1);
}

template <class T>
adj_status select_some(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k, uint64_t first, uint64_t rows) {
  bool large = job->k > ADJI_SELECT_MOST;
  uint32_t parts = large ? 1 : parts_of(job);
  bits_job<T> pass = {};
  pass.s = selection_of<T>(job, out_k, first, rows);
  pass.parts = parts;
  pass.total = job->columns;
  pass.length = (job->columns + parts - 1) / parts;
  pass.reads = job->how.reads ? job->how.reads : DEFAULT_READS;
  pass.prefetch = !job->how.no_prefetch;
  pass.filtered = job->algorithm == ADJI_SELECT_BLOCK_BITS;
  scratch memory = {gpu, {}, 0};
  adj_status status = ADJ_OK;
  if (large || parts > 1) status = memory.get(rows * job->k * (large ? 2 : parts), &pass.to);
  if (!status) status = large ? launch_large(gpu, pass) : launch_size(gpu, pass);
  if (!status && parts > 1) {
    pass.lists = pass.to;
    pass.to = NULL;
    pass.parts = 1;
    pass.total = pass.length = static_cast<uint64_t>(parts) * job->k;
    status = launch_size(gpu, pass);
  }
  memory.free();
  return status;
}

/* Selects from as many rows at a time as a quarter of the memory and the size of a grid allow. */
template <class T>
adj_status select_all(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  uint64_t each = static_cast<uint64_t>(job->k) * sizeof(key_of<T>) * (job->k > ADJI_SELECT_MOST ? 2 : parts_of(job));
  uint64_t most = adji_gpu_available(gpu) / 4 / each, grid = 1 << 20;
  most = most < 1 ? 1 : most > grid ? grid : most;
  for (uint64_t first = 0; first < job->rows; first += most) {
    uint64_t rows = job->rows - first < most ? job->rows - first : most;
    adj_status status = select_some<T>(gpu, job, out_k, first, rows);
    if (status) return status;
  }
  return ADJ_OK;
}

}  // namespace

adj_status adji_select_block_bits(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  return job->type == ADJ_F64 ? select_all<double>(gpu, job, out_k) : select_all<float>(gpu, job, out_k);
}
