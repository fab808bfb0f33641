/* SPDX-License-Identifier: MIT
 *
 * Self-joins in which every two points are compared once: pairs on their way to memory. Part of tiles_kernel.cuh.
 *
 * Of two points, the first in the order of the index finds the other: rows of cells before its own are not looked up,
 * and in its own row only what follows. Both rows are counted in memory, by atomics, when pairs are written: pairs
 * are few compared with the comparisons saved.
 */
#ifndef ADJI_GPU_RANGE_TILES_PAIRS_CUH
#define ADJI_GPU_RANGE_TILES_PAIRS_CUH

#include "gpu/range/tiles_queue.cuh"

namespace {

/* Pairs of a warp in shared memory: up to 31 wait, and every lane can find two before the next check. */
enum { PAIR_QUEUE = 96, PAIRS_AT_ONCE = 32 };
static_assert(PAIR_QUEUE >= 3 * ADJI_WARP - 1, "a queue must not run over");

/* Adds a pair that belongs, from any lane. */
template <class W, class T>
__device__ __forceinline__ void add_pair(const tiles<T> &job, const shared<T> &at, uint32_t row, uint32_t id, T s) {
  uint32_t entry = atomicAdd(at.pair_count, 1u);
  bool swap = job.keep == ADJI_KEEP_ABOVE && id < row;
  at.pairs[entry] = swap ? adji_gpu_pair{id, row} : adji_gpu_pair{row, id};
  if (W::SUMS) at.sums[entry] = s;
}

/* Where the warp's next 32 pairs go. Those beyond the room are counted, but not written. */
template <class T>
__device__ __forceinline__ uint64_t next_pairs(const tiles<T> &job, uint32_t lane) {
  unsigned long long first = 0;
  if (lane == 0) first = atomicAdd(job.answers + ADJI_ANSWER_CACHE, static_cast<unsigned long long>(PAIRS_AT_ONCE));
  return __shfl_sync(ALL_LANES, first, 0);
}

/* Writes pairs while there are 32 of them, or all at the end. found counts the entries of rows that they stand for. */
template <class W, class T, int DIM>
__device__ __forceinline__ void flush_pairs(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, bool end,
                                            uint32_t lane) {
  __syncwarp();
  uint32_t waiting = __shfl_sync(ALL_LANES, *at.pair_count, 0); /* one lane reads it: others go on and add to it */
  if (waiting < ADJI_WARP && !(end && waiting)) return;
  while (waiting >= ADJI_WARP || (end && waiting)) {
    uint32_t many = waiting < ADJI_WARP ? waiting : ADJI_WARP;
    waiting -= many;
    uint64_t to = job.pairs ? next_pairs(job, lane) + lane : 0;
    if (lane >= many) continue;
    adji_gpu_pair pair = at.pairs[waiting + lane];
    bool both = job.keep != ADJI_KEEP_ABOVE && pair.row != pair.id;
    mine->found += both ? 2 : 1;
    if (job.degrees) {
      atomicAdd(job.degrees + pair.row, 1u);
      if (both) atomicAdd(job.degrees + pair.id, 1u);
    }
    if (!job.pairs || to >= job.pair_room) continue;
    job.pairs[to] = pair;
    if (W::SUMS) job.sums[to] = at.sums[waiting + lane];
  }
  __syncwarp();
  if (lane == 0) *at.pair_count = waiting;
  __syncwarp();
}

/* The queries themselves, if they are their own neighbours. */
template <class W, class T, int DIM>
__device__ __forceinline__ void add_selves(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, bool active,
                                           uint32_t lane) {
  if (job.keep != ADJI_KEEP_ALL) return;
  if (active) add_pair<W>(job, at, mine->row, mine->row, T(0));
  flush_pairs<W>(job, at, mine, false, lane);
}

}  // namespace

#endif
