/* SPDX-License-Identifier: MIT
 *
 * Selection: a bound of each row, below which there should be its k smallest and not many more.
 *
 * A sample of the row, spread over it, is dealt out to GROUPS groups; the bound is the `rank`-th smallest of the
 * groups' least keys. It is a guess: whoever uses it counts what is below it, and does without it where it was wrong.
 * As keys have columns, rows of equal values get bounds as good as others.
 *
 * The row is cut into equal pieces, and each gives one run of values that follow each other, where a hash says: a run
 * costs one access to memory, but tells less than values from all over where neighbours are alike.
 */
#ifndef ADJI_SELECT_BOUND_CUH
#define ADJI_SELECT_BOUND_CUH

#include "gpu/select_keys.cuh"

namespace {

enum { GROUPS = 256, MOST_ROWS_TOGETHER = GROUPS / ADJI_WARP, PART_READERS = 4 };

struct sampling {
  uint32_t log_size; /* 2^log_size values of a row, at least GROUPS and at most its length; log_size <= 31 */
  uint32_t log_run;  /* in runs of 2^log_run                                                              */
  uint32_t rank;     /* 1 .. GROUPS                                                                       */
  uint32_t parts;    /* blocks that share a row: divides the values of a group                             */
};

/* Column of value i of the sample. */
__device__ __forceinline__ uint32_t sample_column(const sampling &how, uint32_t columns, uint32_t i) {
  uint32_t run = i >> how.log_run, log_runs = how.log_size - how.log_run, places = columns >> how.log_run;
  uint32_t begin = static_cast<uint32_t>((static_cast<uint64_t>(run) * places) >> log_runs), width = places >> log_runs;
  uint32_t hash = (run + 1) * 0x9e3779b9u;
  hash = (hash ^ hash >> 15) * 0x85ebca6bu;
  hash ^= hash >> 13;
  return ((begin + __umulhi(hash, width)) << how.log_run) + (i & ((1u << how.log_run) - 1));
}

/* The least key of what a group has in one of the parts. Threads of a block are groups, so that they read runs
 * together.
 */
template <class T>
__device__ __forceinline__ key_of<T> least_of_group(const selection<T> &s, const sampling &how, uint32_t row,
                                                    uint32_t group, uint32_t part) {
  const T *values = s.row(row);
  uint32_t each = (1u << how.log_size) / GROUPS / how.parts, first = part * each;
  key_of<T> least = last_key<T>();
#pragma unroll 8
  for (uint32_t j = first; j < first + each; j++) {
    key_of<T> key = s.key(values, sample_column(how, s.columns, j * GROUPS + group));
    if (less(key, least)) least = key;
  }
  return least;
}

/* A warp sorts the groups' least keys and writes the one of the rank. */
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

/* Bounds of the listed rows, and their counts set to 0. A block of GROUPS threads takes `together` rows at a time, up
 * to 8: each thread is a group of all of them, then each warp chooses for one. how.parts is 1. Limits: latency, 2
 * accesses in a row and some 2,000 cycles for the sort. */
template <class T>
__global__ void __launch_bounds__(GROUPS) find_row_bounds(selection<T> s, sampling how, row_list list,
                                                          uint32_t together, key_of<T> *bounds, uint32_t *counts) {
  __shared__ __align__(16) unsigned char memory[MOST_ROWS_TOGETHER * GROUPS * sizeof(key_of<T>)];
  key_of<T> *least = reinterpret_cast<key_of<T> *>(memory);
  uint32_t warp = threadIdx.x / ADJI_WARP, lane = threadIdx.x % ADJI_WARP, many = list.count();
  for (uint32_t first = blockIdx.x * together; first < many; first += gridDim.x * together) {
    uint32_t here = min(together, many - first);
    for (uint32_t i = 0; i < here; i++)
      least[i * GROUPS + threadIdx.x] = least_of_group(s, how, list.row(first + i), threadIdx.x, 0);
    __syncthreads();
    if (warp < here) {
      uint32_t row = list.row(first + warp);
      write_bound<T>(least + warp * GROUPS, how.rank, bounds + row, lane);
      if (lane == 0) counts[row] = 0;
    }
    __syncthreads();
  }
}

/* Where rows are few, several blocks share one: block (part, row) writes the least keys of its groups, */
template <class T>
__global__ void __launch_bounds__(GROUPS) sample_parts(selection<T> s, sampling how, key_of<T> *least) {
  uint64_t to = (static_cast<uint64_t>(blockIdx.y) * how.parts + blockIdx.x) * GROUPS;
  least[to + threadIdx.x] = least_of_group(s, how, blockIdx.y, threadIdx.x, blockIdx.x);
}

/* and one block a row finds its bound among all of them: PART_READERS threads a group, so that many reads are on their
 * way. */
template <class T>
__global__ void __launch_bounds__(GROUPS *PART_READERS)
    find_bounds_of_parts(sampling how, const key_of<T> *parts, key_of<T> *bounds, uint32_t *counts) {
  __shared__ __align__(16) unsigned char memory[PART_READERS * GROUPS * sizeof(key_of<T>)];
  key_of<T> *least = reinterpret_cast<key_of<T> *>(memory), mine = last_key<T>();
  uint32_t group = threadIdx.x % GROUPS;
  const key_of<T> *from = parts + static_cast<uint64_t>(blockIdx.x) * how.parts * GROUPS + group;
#pragma unroll 8
  for (uint32_t p = threadIdx.x / GROUPS; p < how.parts; p += PART_READERS) {
    key_of<T> key = from[p * GROUPS];
    if (less(key, mine)) mine = key;
  }
  least[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x < GROUPS) {
#pragma unroll
    for (uint32_t r = 1; r < PART_READERS; r++)
      if (less(least[r * GROUPS + group], mine)) mine = least[r * GROUPS + group];
    least[group] = mine;
  }
  __syncthreads();
  if (threadIdx.x >= ADJI_WARP) return;
  write_bound<T>(least, how.rank, bounds + blockIdx.x, threadIdx.x);
  if (threadIdx.x == 0) counts[blockIdx.x] = 0;
}

}  // namespace

#endif
