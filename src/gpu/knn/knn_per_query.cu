/* SPDX-License-Identifier: MIT
 *
 * The per_query kernel of kNN joins: a warp per query, for few queries, for many neighbours, or for queries far from
 * all others.
 *
 * Computes: for a query q the k candidates after the first `place` with the smallest (s(q, c), id), in that order.
 *
 * Input: trees and queries in device memory (adji_knn_job). Output: ids and sums, row by row, in device memory.
 *
 * A warp owns a query. Its list has 32 E entries in the registers of all lanes, ascending: entry e of lane l is number
 * 32 e + l. The first 32 E - k entries come before everything, so the last entry is the bound. Candidates within the
 * bound stay pending in shared memory until there is a batch of them. The batch is sorted there and merged into the
 * list.
 *
 *   1. start    search the group of 32 leaves around the query's own position
 *   2. descend  each lane tests one box of a group; the nearest is searched first, the others stay as a mask
 *   3. leaves   four leaves at a time, the nearest first, one candidate per lane
 *
 * If the first `place` entries of the row are already there, boxes whose points are all nearer than the last of them
 * are skipped as well.
 *
 * Grid: warps take queries round-robin. Warps synchronise with __syncwarp only; no block waits for another.
 *
 * Limits: a merge takes 10 E shuffles and about 60 E instructions, whatever the size of the batch. So batches grow with
 * E.
 */
#include "gpu/knn/knn_private.cuh"
#include "gpu/knn/knn_search.cuh"

namespace {

enum { PER_QUERY_WARPS = 4, LEAVES_AT_ONCE = ADJI_WARP / ADJI_TREE_LEAF };

/* Entries per lane of a batch, for lists of E entries per lane. */
__host__ __device__ constexpr int batch_of(int e) {
  return e >= 32 ? 8 : e >= 16 ? 4 : e >= 4 ? 2 : 1;
}

template <class T, int E>
struct warp_list {
  T sums[E];
  uint32_t ids[E];
};

template <class T, int E>
struct per_query_shared {
  static constexpr uint32_t BATCH = batch_of(E) * ADJI_WARP;
  T sums[BATCH + ADJI_WARP];
  uint32_t ids[BATCH + ADJI_WARP];
  uint32_t masks[ADJI_GPU_LEVELS], bases[ADJI_GPU_LEVELS]; /* per level: boxes of a group still to be visited */
};

/* A query and its search: the same in all lanes, except for the list. */
template <class W, int E>
struct query_search {
  static constexpr bool ORDERS_TIES = true;
  typename W::T x[W::ROOM];
  uint32_t row, last_id; /* last_id: up to which id candidates at the bound may enter the list */
  typename W::T bound;
  typename W::T after; /* candidates up to (after, after_id) are already in the row; -1: none */
  uint32_t after_id;
  uint32_t pending;
  uint64_t candidates;
  warp_list<typename W::T, E> list;
};

/* ---- The list -------------------------------------------------------------------------------- */

/* Orders two entries. */
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

/* Keeps the smaller or the larger of the lane's entry and another lane's entry. Entries that compare equal are
 * identical. */
template <class T>
__device__ __forceinline__ void exchange(T *s, uint32_t *id, uint32_t step, bool lesser) {
  T other = __shfl_xor_sync(KNN_LANES, *s, step);
  uint32_t other_id = __shfl_xor_sync(KNN_LANES, *id, step);
  if (comes_before(other, other_id, *s, *id) == lesser) {
    *s = other;
    *id = other_id;
  }
}

/* Sorts the batch that begins at entry first, ascending (bitonic sort). */
template <class T, int E>
__device__ __forceinline__ void sort_batch(per_query_shared<T, E> *at, uint32_t first, uint32_t lane) {
  constexpr uint32_t BATCH = per_query_shared<T, E>::BATCH;
#pragma unroll 1
  for (uint32_t size = 2; size <= BATCH; size *= 2)
#pragma unroll 1
    for (uint32_t step = size / 2; step; step /= 2) {
#pragma unroll
      for (uint32_t half = lane; half < BATCH / 2; half += ADJI_WARP) {
        uint32_t i = 2 * (half & ~(step - 1)) + (half & (step - 1)), j = first + (i | step);
        bool ascends = !(i & size);
        i += first;
        T s = at->sums[i], other = at->sums[j];
        uint32_t id = at->ids[i], other_id = at->ids[j];
        if (comes_before(other, other_id, s, id) != ascends) continue;
        at->sums[i] = other;
        at->ids[i] = other_id;
        at->sums[j] = s;
        at->ids[j] = id;
      }
      __syncwarp();
    }
}

/* Keeps the smallest 32 E entries of the list and a batch. Both ascend: the element-wise minima of the list read
 * forwards and the batch read backwards form a bitonic sequence, and so do its halves after each exchange. */
template <class T, int E>
__device__ __forceinline__ void merge(warp_list<T, E> *list, const per_query_shared<T, E> *at, uint32_t first,
                                      uint32_t lane) {
  constexpr int EACH = batch_of(E);
#pragma unroll
  for (int b = 0; b < EACH; b++) {
    uint32_t from = first + (b + 1) * ADJI_WARP - 1 - lane;
    T s = at->sums[from];
    uint32_t id = at->ids[from];
    put_in_order(&list->sums[E - 1 - b], &list->ids[E - 1 - b], &s, &id);
  }
#pragma unroll
  for (int step = E / 2; step; step /= 2)
#pragma unroll
    for (int e = 0; e < E; e++)
      if (!(e & step)) put_in_order(&list->sums[e], &list->ids[e], &list->sums[e + step], &list->ids[e + step]);
  if constexpr (E < 32) {
#pragma unroll
    for (int e = 0; e < E; e++)
#pragma unroll
      for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
        exchange(&list->sums[e], &list->ids[e], step, !(lane & step));
  } else { /* a loop: unrolled, all exchanges of a long list take half of the instruction cache, and more registers */
#pragma unroll 1
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
#pragma unroll
      for (int e = 0; e < E; e++)
        exchange(&list->sums[e], &list->ids[e], step, !(lane & step));
  }
}

/* Merges a batch of the pending candidates, or all of them if there are fewer. */
template <class W, int E, class T>
__device__ __forceinline__ void merge_pending(per_query_shared<T, E> *at, query_search<W, E> *q, uint32_t lane) {
  constexpr uint32_t BATCH = per_query_shared<T, E>::BATCH;
  __syncwarp();
  for (uint32_t i = q->pending + lane; i < BATCH; i += ADJI_WARP) {
    at->sums[i] = static_cast<T>(INFINITY);
    at->ids[i] = ADJ_NO_ID;
  }
  __syncwarp();
  q->pending = q->pending > BATCH ? q->pending - BATCH : 0;
  sort_batch(at, q->pending, lane);
  merge(&q->list, at, q->pending, lane);
  __syncwarp();
  T last = __shfl_sync(KNN_LANES, q->list.sums[E - 1], ADJI_WARP - 1);
  uint32_t last_id = __shfl_sync(KNN_LANES, q->list.ids[E - 1], ADJI_WARP - 1);
  if (q->bound < last) return;
  q->bound = last;
  q->last_id = last_id;
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

/* Step 3: compares the next leaves of the group. */
template <class W, int E, class T>
__device__ __forceinline__ void compare_leaves(const knn_job<T> &job, per_query_shared<T, E> *at, query_search<W, E> *q,
                                               path<T> *group, uint32_t lane) {
  uint32_t leaf = UINT32_MAX;
#pragma unroll
  for (uint32_t i = 0; i < LEAVES_AT_ONCE; i++) { /* the nearest first: their bound excludes others */
    if (!group->mask) break;
    uint32_t next = take_next(job, *q, group, lane);
    if (lane / ADJI_TREE_LEAF == i) leaf = group->base + next;
  }
  uint64_t position = static_cast<uint64_t>(leaf) * ADJI_TREE_LEAF + lane % ADJI_TREE_LEAF;
  bool near = leaf != UINT32_MAX && position < job.right_count;
  T x[W::ROOM], sum = static_cast<T>(INFINITY);
  uint32_t id = ADJ_NO_ID;
  if (near) {
    id = load_record<W>(job, job.right_coords, job.right_ids, position, x);
    sum = sum_of<W>(job, q->x, x);
    near = comes_before(sum, id, q->bound, q->last_id) && comes_before(q->after, q->after_id, sum, id) &&
           !(job.drop_self && id == q->row);
  }
  q->candidates += ADJI_WARP;
  uint32_t found = __ballot_sync(KNN_LANES, near);
  if (near) {
    uint32_t to = q->pending + __popc(found & ((1u << lane) - 1));
    at->sums[to] = sum;
    at->ids[to] = id;
  }
  q->pending += __popc(found);
}

/* ---- Boxes ----------------------------------------------------------------------------------- */

/* A lower bound of the sum to box base + lane of a level; NaN if the box can be skipped anyway. */
template <class W, int E, class T>
__device__ __forceinline__ T group_sum(const knn_job<T> &job, const query_search<W, E> &q, uint32_t level,
                                       uint32_t base, uint32_t lane) {
  uint32_t i = base + lane;
  if (i >= job.levels[level].count) return static_cast<T>(NAN);
  box<W> b = load_box<W>(job, job.levels[level], i);
  if (q.after >= 0 && far_sum<W>(job, b, q.x) < q.after) return static_cast<T>(NAN);
  return near_sum<W>(job, b, q.x, q.x);
}

/* Step 2: the box whose leaves are the next group; UINT32_MAX: none. Box `done` was searched at the start. */
template <class W, int E, class T>
__device__ __forceinline__ uint32_t next_box(const knn_job<T> &job, per_query_shared<T, E> *at,
                                             const query_search<W, E> &q, path<T> *p, uint32_t done, uint32_t lane) {
  narrow_path(job, q, p, lane);
  for (;;) {
    uint32_t box = next_of_path(job, at, q, p, lane);
    if (box == UINT32_MAX) return box;
    if (p->level > 1)
      go_down(job, at, q, p, box, lane);
    else if (box != done)
      return box;
  }
}

/* The whole search: first the group around the query's own position, which is box `own` of level 1, then all others
 * that are near. Each part appears once in the code, since more copies would exceed the instruction cache. */
template <class W, int E, class T>
__device__ __forceinline__ void search(const knn_job<T> &job, per_query_shared<T, E> *at, query_search<W, E> *q,
                                       uint32_t own, uint32_t lane) {
  constexpr uint32_t BATCH = per_query_shared<T, E>::BATCH;
  path<T> p = {job.level_count, 0, 0, T(0)};
  bool started = job.level_count < 2, ended = false; /* there is only one group */
  path<T> group = {};                                /* of leaves */
  for (uint32_t box = own;;) {
    if (box != UINT32_MAX) {
      group = open_path(job, *q, 0, box * ADJI_GPU_FAN, lane);
      box = UINT32_MAX;
    }
    if (q->pending >= BATCH || (ended && q->pending)) {
      merge_pending(at, q, lane);
      narrow_path(job, *q, &group, lane);
      continue;
    }
    if (ended) return;
    if (group.mask) {
      compare_leaves(job, at, q, &group, lane);
      continue;
    }
    if (!started) {
      started = true;
      p = open_path(job, *q, job.level_count - 1, 0, lane);
    }
    box = next_box(job, at, *q, &p, own, lane);
    ended = box == UINT32_MAX;
  }
}

/* ---- The kernel ------------------------------------------------------------------------------ */

template <class W, int E, class T>
__device__ __forceinline__ query_search<W, E> open_query_search(const knn_job<T> &job, uint64_t position,
                                                                uint32_t lane) {
  query_search<W, E> q;
  q.row = load_record<W>(job, job.left_coords, job.left_ids, position, q.x);
  q.bound = bound_of(job, q.row);
  q.last_id = ADJ_NO_ID;
  q.after = -1;
  q.after_id = 0;
  q.pending = 0;
  q.candidates = 0;
  if (job.place) {
    uint64_t last = entries_of(job, q.row) + job.place - 1;
    q.after = job.sums[last];
    q.after_id = job.ids[last];
  }
#pragma unroll
  for (int e = 0; e < E; e++) {
    bool before = e * ADJI_WARP + lane < E * ADJI_WARP - job.k;
    q.list.sums[e] = before ? T(-1) : static_cast<T>(INFINITY);
    q.list.ids[e] = before ? 0 : ADJ_NO_ID;
  }
  return q;
}

template <class W, int E, class T>
__device__ __forceinline__ void write_row(const knn_job<T> &job, const query_search<W, E> &q, uint32_t lane) {
  uint64_t to = entries_of(job, q.row) + job.place;
  uint32_t unused = E * ADJI_WARP - job.k;
#pragma unroll
  for (int e = 0; e < E; e++) {
    uint32_t i = e * ADJI_WARP + lane;
    if (i < unused) continue;
    T s = q.list.sums[e];
    bool there = q.list.ids[e] != ADJ_NO_ID;
    job.ids[to + i - unused] = q.list.ids[e];
    job.sums[to + i - unused] = !there ? static_cast<T>(INFINITY) : job.root ? adji_root(s) : s;
  }
}

template <class W, int E>
__global__ void __launch_bounds__(PER_QUERY_WARPS *ADJI_WARP) find_per_query(const knn_job<typename W::T> job) {
  typedef typename W::T T;
  __shared__ per_query_shared<T, E> memory[PER_QUERY_WARPS];
  uint32_t lane = threadIdx.x % ADJI_WARP, number = threadIdx.x / ADJI_WARP;
  uint64_t count = job.counted_queries ? *job.counted_queries : job.query_count, candidates = 0;
  per_query_shared<T, E> *at = &memory[number];
  for (uint64_t query = static_cast<uint64_t>(blockIdx.x) * PER_QUERY_WARPS + number; query < count;
       query += static_cast<uint64_t>(gridDim.x) * PER_QUERY_WARPS) {
    uint64_t position = job.queries ? job.queries[query] : query;
    query_search<W, E> q = open_query_search<W, E>(job, position, lane);
    uint32_t own = job.same_sets ? static_cast<uint32_t>(position / (ADJI_TREE_LEAF * ADJI_GPU_FAN))
                                 : find_group<W>(job, q.x, lane) / ADJI_GPU_FAN;
    search(job, at, &q, own, lane);
    write_row(job, q, lane);
    candidates += q.candidates;
  }
  if (lane == 0 && candidates)
    atomicAdd(job.candidates + blockIdx.x % ADJI_SPREAD, static_cast<unsigned long long>(candidates));
}

template <class W, int E>
adj_status launch_per_query(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  uint32_t blocks = adji_blocks_for(job->query_count, PER_QUERY_WARPS);
  uint32_t most = static_cast<uint32_t>(gpu->multiprocessors) * 16;
  if (job->most_blocks && job->most_blocks < most) most = job->most_blocks;
  if (blocks > most) blocks = most;
  find_per_query<W, E><<<blocks, PER_QUERY_WARPS * ADJI_WARP, 0, stream>>>(with_types<typename W::T>(job));
  ADJI_LAUNCHED(gpu, "find_per_query");
  return ADJ_OK;
}

template <class T, int STEP, int DIM>
adj_status launch_per_query_k(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  typedef knn_instance<T, STEP, DIM> W;
  if (job->k <= ADJI_WARP) return launch_per_query<W, 1>(gpu, stream, job);
  if (job->k <= 4 * ADJI_WARP) return launch_per_query<W, 4>(gpu, stream, job);
  return job->k <= 16 * ADJI_WARP ? launch_per_query<W, 16>(gpu, stream, job)
                                  : launch_per_query<W, ADJI_MOST_PER_QUERY / ADJI_WARP>(gpu, stream, job);
}

}  // namespace

/* Instances: L2 in f32 in two, three and six dimensions, and one for everything else. */
template <class T>
static adj_status per_query_any(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  switch (job->measure->step) {
    case ADJI_STEP_L1:
      return launch_per_query_k<T, ADJI_STEP_L1, 0>(gpu, stream, job);
    case ADJI_STEP_LINF:
      return launch_per_query_k<T, ADJI_STEP_LINF, 0>(gpu, stream, job);
    default:
      return launch_per_query_k<T, ADJI_STEP_L2, 0>(gpu, stream, job);
  }
}

adj_status adji_knn_per_query(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  if (job->type == ADJ_F64) return per_query_any<double>(gpu, stream, job);
  if (job->measure->step == ADJI_STEP_L2) {
    if (job->dim == 2) return launch_per_query_k<float, ADJI_STEP_L2, 2>(gpu, stream, job);
    if (job->dim == 3) return launch_per_query_k<float, ADJI_STEP_L2, 3>(gpu, stream, job);
    if (job->dim == 6) return launch_per_query_k<float, ADJI_STEP_L2, 6>(gpu, stream, job);
  }
  return per_query_any<float>(gpu, stream, job);
}
