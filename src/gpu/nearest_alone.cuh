/* SPDX-License-Identifier: MIT
 *
 * The kernel of kNN joins for queries one by one: few of them, many neighbours, or queries that are far from others.
 *
 * Computes: for a query q the k candidates behind the first `place` with the smallest (s(q, c), id), in that order.
 *
 * A warp owns a query. Its list is 32 E entries in the registers of all lanes, ascending: entry e of lane l is number
 * 32 e + l; the first 32 E - k are before everything, so the last one is the bound. Candidates that are no farther wait
 * in shared memory until there are 32, which are sorted and merged into the list.
 *
 *   1. start    the group of 32 leaves around the query's own place
 *   2. descend  boxes of a group are tested by a lane each; the nearest is searched first, the others wait as a mask
 *   3. leaves   four leaves at a time, a candidate a lane
 *
 * Behind the first `place` entries of the row, which are there already, boxes that are nearer than the last of them are
 * left out as well.
 *
 * Grid: warps take queries in turns. No block waits for another.
 *
 * Limits: a merge takes 16 E shuffles and about 10 E log2(32 E) instructions for 32 candidates.
 */
#ifndef ADJI_NEAREST_ALONE_CUH
#define ADJI_NEAREST_ALONE_CUH

#include "gpu/nearest_search.cuh"

namespace {

enum { ALONE_WARPS = 4, ALONE_AT_ONCE = ADJI_WARP / ADJI_TREE_LEAF };

template <class T, int E>
struct warp_list {
  T sums[E];
  uint32_t ids[E];
};

template <class T>
struct alone_shared {
  T sums[2 * ADJI_WARP];
  uint32_t ids[2 * ADJI_WARP];
  uint32_t masks[ADJI_GPU_LEVELS], bases[ADJI_GPU_LEVELS]; /* boxes of a group that are still to be seen */
};

/* A query: the same in all lanes but for the list. */
template <class W, int E>
struct lone {
  typename W::T x[W::ROOM];
  uint32_t row;
  typename W::T bound;
  typename W::T after; /* candidates up to (after, after_id) are in the row already; -1: none */
  uint32_t after_id;
  uint32_t waiting;
  uint64_t candidates;
  warp_list<typename W::T, E> list;
};

/* ---- The list ------------------------------------------------------------------------------------------------- */

/* Two entries in order. */
template <class T>
__device__ __forceinline__ void put_in_order(T *s, uint32_t *id, T *other, uint32_t *other_id) {
  if (!comes_before(*other, *other_id, *s, *id)) return;
  T t = *s;
  uint32_t i = *id;
  *s = *other;
  *id = *other_id;
  *other = t;
  *other_id = i;
}

/* The lesser or the larger of the lane's entry and that of another lane; equal ones are the same. */
template <class T>
__device__ __forceinline__ void exchange(T *s, uint32_t *id, uint32_t step, bool lesser) {
  T other = __shfl_xor_sync(NEAREST_LANES, *s, step);
  uint32_t other_id = __shfl_xor_sync(NEAREST_LANES, *id, step);
  if (comes_before(other, other_id, *s, *id) == lesser) {
    *s = other;
    *id = other_id;
  }
}

/* One entry a lane, ascending (bitonic sort). */
template <class T>
__device__ __forceinline__ void sort_lanes(T *s, uint32_t *id, uint32_t lane) {
#pragma unroll
  for (uint32_t size = 2; size <= ADJI_WARP; size *= 2)
#pragma unroll
    for (uint32_t step = size / 2; step; step /= 2)
      exchange(s, id, step, !(lane & step) == !(lane & size));
}

/* The least 32 E of the list and an entry a lane. Both ascend: the lesser ones of the list forwards and the others
 * backwards are bitonic, and so are halves of them once they are in order with each other. */
template <class T, int E>
__device__ __forceinline__ void merge(warp_list<T, E> *list, T s, uint32_t id, uint32_t lane) {
  sort_lanes(&s, &id, lane);
  s = __shfl_sync(NEAREST_LANES, s, ADJI_WARP - 1 - lane);
  id = __shfl_sync(NEAREST_LANES, id, ADJI_WARP - 1 - lane);
  put_in_order(&list->sums[E - 1], &list->ids[E - 1], &s, &id);
#pragma unroll
  for (int step = E / 2; step; step /= 2)
#pragma unroll
    for (int e = 0; e < E; e++)
      if (!(e & step)) put_in_order(&list->sums[e], &list->ids[e], &list->sums[e + step], &list->ids[e + step]);
#pragma unroll
  for (int e = 0; e < E; e++)
#pragma unroll
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
      exchange(&list->sums[e], &list->ids[e], step, !(lane & step));
}

/* Merges the last `many` entries that wait. */
template <class W, int E, class T>
__device__ __forceinline__ void merge_waiting(alone_shared<T> *at, lone<W, E> *mine, uint32_t many, uint32_t lane) {
  __syncwarp();
  mine->waiting -= many;
  T s = lane < many ? at->sums[mine->waiting + lane] : static_cast<T>(INFINITY);
  uint32_t id = lane < many ? at->ids[mine->waiting + lane] : ADJ_NO_ID;
  __syncwarp();
  merge(&mine->list, s, id, lane);
  T last = __shfl_sync(NEAREST_LANES, mine->list.sums[E - 1], ADJI_WARP - 1);
  if (mine->bound > last) mine->bound = last;
}

/* ---- Leaves --------------------------------------------------------------------------------------------------- */

/* Step 3, for leaves base + i of the bits i of mask; s is the lane's sum to leaf base + lane. */
template <class W, int E, class T>
__device__ __forceinline__ void search_leaves(const nearest_job<T> &job, alone_shared<T> *at, lone<W, E> *mine,
                                              uint32_t base, uint32_t mask, T s, uint32_t lane) {
  while (mask) {
    uint32_t leaf = UINT32_MAX;
#pragma unroll
    for (uint32_t i = 0; i < ALONE_AT_ONCE; i++) {
      if (lane / ADJI_TREE_LEAF == i && mask) leaf = base + __ffs(mask) - 1;
      mask &= mask - 1; /* of 0: 0 */
    }
    uint64_t position = static_cast<uint64_t>(leaf) * ADJI_TREE_LEAF + lane % ADJI_TREE_LEAF;
    bool near = leaf != UINT32_MAX && position < job.right_count;
    T x[W::ROOM], sum = static_cast<T>(INFINITY);
    uint32_t id = ADJ_NO_ID;
    if (near) {
      id = load_record<W>(job, job.right_coords, job.right_ids, position, x);
      sum = sum_of<W>(job, mine->x, x);
      near = sum <= mine->bound && comes_before(mine->after, mine->after_id, sum, id) &&
             !(job.drop_self && id == mine->row);
    }
    mine->candidates += ADJI_WARP;
    uint32_t found = __ballot_sync(NEAREST_LANES, near);
    if (!found) continue;
    uint32_t to = mine->waiting + __popc(found & ((1u << lane) - 1));
    if (near) {
      at->sums[to] = sum;
      at->ids[to] = id;
    }
    mine->waiting += __popc(found);
    if (mine->waiting < ADJI_WARP) continue;
    merge_waiting(at, mine, ADJI_WARP, lane);
    mask &= __ballot_sync(NEAREST_LANES, s <= mine->bound);
  }
}

/* ---- Boxes ---------------------------------------------------------------------------------------------------- */

/* The sum to box base + lane of a level, or less; NaN where there is nothing to be found. */
template <class W, int E, class T>
__device__ __forceinline__ T group_sum(const nearest_job<T> &job, const lone<W, E> &mine, uint32_t level, uint32_t base,
                                       uint32_t lane) {
  uint32_t i = base + lane;
  if (i >= job.levels[level].count) return static_cast<T>(NAN);
  box<W> b = load_box<W>(job, job.levels[level], i);
  if (mine.after >= 0 && far_sum<W>(job, b, mine.x) < mine.after) return static_cast<T>(NAN);
  return near_sum<W>(job, b, mine.x, mine.x);
}

template <class W, int E, class T>
__device__ __forceinline__ void search_group(const nearest_job<T> &job, alone_shared<T> *at, lone<W, E> *mine,
                                             uint32_t base, uint32_t lane) {
  T s = group_sum(job, *mine, 0, base, lane);
  search_leaves(job, at, mine, base, __ballot_sync(NEAREST_LANES, s <= mine->bound), s, lane);
}

/* Step 2: everything but the group that was searched at the start. */
template <class W, int E, class T>
__device__ __forceinline__ void descend(const nearest_job<T> &job, alone_shared<T> *at, lone<W, E> *mine, uint32_t done,
                                        uint32_t lane) {
  if (job.level_count < 2) return;
  uint32_t level = job.level_count - 1, base = 0;
  T s = group_sum(job, *mine, level, 0, lane);
  uint32_t mask = __ballot_sync(NEAREST_LANES, s <= mine->bound);
  for (;;) {
    while (!mask) { /* up, to where something is left */
      if (++level == job.level_count) return;
      base = at->bases[level];
      s = group_sum(job, *mine, level, base, lane);
      mask = at->masks[level] & __ballot_sync(NEAREST_LANES, s <= mine->bound);
      __syncwarp();
    }
    uint32_t next = lane_of_least(mask, s, lane), below = (base + next) * ADJI_GPU_FAN;
    mask &= ~(1u << next);
    if (level == 1) {
      if (below != done) search_group(job, at, mine, below, lane);
      mask &= __ballot_sync(NEAREST_LANES, s <= mine->bound);
      continue;
    }
    if (lane == 0) {
      at->masks[level] = mask;
      at->bases[level] = base;
    }
    __syncwarp();
    level--;
    base = below;
    s = group_sum(job, *mine, level, base, lane);
    mask = __ballot_sync(NEAREST_LANES, s <= mine->bound);
  }
}

/* ---- The kernel ----------------------------------------------------------------------------------------------- */

template <class W, int E, class T>
__device__ __forceinline__ lone<W, E> open_lone(const nearest_job<T> &job, uint64_t position, uint32_t lane) {
  lone<W, E> mine;
  mine.row = load_record<W>(job, job.left_coords, job.left_ids, position, mine.x);
  mine.bound = job.limit;
  mine.after = -1;
  mine.after_id = 0;
  mine.waiting = 0;
  mine.candidates = 0;
  if (job.place) {
    uint64_t last = entries_of(job, mine.row) + job.place - 1;
    mine.after = job.sums[last];
    mine.after_id = job.ids[last];
  }
#pragma unroll
  for (int e = 0; e < E; e++) {
    bool before = e * ADJI_WARP + lane < E * ADJI_WARP - job.k;
    mine.list.sums[e] = before ? T(-1) : static_cast<T>(INFINITY);
    mine.list.ids[e] = before ? 0 : ADJ_NO_ID;
  }
  return mine;
}

template <class W, int E, class T>
__device__ __forceinline__ void write_row(const nearest_job<T> &job, const lone<W, E> &mine, uint32_t lane) {
  uint64_t to = entries_of(job, mine.row) + job.place;
  uint32_t unused = E * ADJI_WARP - job.k;
#pragma unroll
  for (int e = 0; e < E; e++) {
    uint32_t i = e * ADJI_WARP + lane;
    if (i < unused) continue;
    T s = mine.list.sums[e];
    bool there = mine.list.ids[e] != ADJ_NO_ID;
    job.ids[to + i - unused] = mine.list.ids[e];
    job.sums[to + i - unused] = !there ? static_cast<T>(INFINITY) : job.root ? root_of_sum(s) : s;
  }
}

template <class W, int E>
__global__ void __launch_bounds__(ALONE_WARPS *ADJI_WARP) find_alone(const nearest_job<typename W::T> job) {
  typedef typename W::T T;
  __shared__ alone_shared<T> memory[ALONE_WARPS];
  uint32_t lane = threadIdx.x % ADJI_WARP, number = threadIdx.x / ADJI_WARP;
  uint64_t count = job.counted_queries ? *job.counted_queries : job.query_count, candidates = 0;
  alone_shared<T> *at = &memory[number];
  for (uint64_t query = static_cast<uint64_t>(blockIdx.x) * ALONE_WARPS + number; query < count;
       query += static_cast<uint64_t>(gridDim.x) * ALONE_WARPS) {
    uint64_t position = job.queries ? job.queries[query] : query;
    lone<W, E> mine = open_lone<W, E>(job, position, lane);
    uint32_t base = job.same_sets ? static_cast<uint32_t>(position / (ADJI_TREE_LEAF * ADJI_GPU_FAN)) * ADJI_GPU_FAN
                                  : find_group<W>(job, mine.x, lane);
    search_group(job, at, &mine, base, lane);
    descend(job, at, &mine, base, lane);
    if (mine.waiting) merge_waiting(at, &mine, mine.waiting, lane);
    write_row(job, mine, lane);
    candidates += mine.candidates;
  }
  if (lane == 0 && candidates)
    atomicAdd(job.candidates + blockIdx.x % ADJI_SPREAD, static_cast<unsigned long long>(candidates));
}

template <class W, int E>
adj_status launch_alone(adji_gpu *gpu, cudaStream_t stream, const adji_nearest_job *job) {
  uint32_t blocks = adji_blocks_for(job->query_count, ALONE_WARPS);
  uint32_t most = static_cast<uint32_t>(gpu->multiprocessors) * 16;
  if (blocks > most) blocks = most;
  find_alone<W, E><<<blocks, ALONE_WARPS * ADJI_WARP, 0, stream>>>(with_types<typename W::T>(job));
  ADJI_LAUNCHED(gpu, "find_alone");
  return ADJ_OK;
}

template <class T, int STEP, int DIM>
adj_status launch_alone_k(adji_gpu *gpu, cudaStream_t stream, const adji_nearest_job *job) {
  typedef nearest_what<T, STEP, DIM> W;
  if (job->k <= ADJI_WARP) return launch_alone<W, 1>(gpu, stream, job);
  return job->k <= 4 * ADJI_WARP ? launch_alone<W, 4>(gpu, stream, job)
                                 : launch_alone<W, ADJI_MOST_ALONE / ADJI_WARP>(gpu, stream, job);
}

}  // namespace

#endif
