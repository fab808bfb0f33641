/* SPDX-License-Identifier: MIT
 *
 * The kernel of kNN joins in few dimensions.
 *
 * Computes: for each query q the K candidates with the smallest (s(q, c), id), in that order, s the canonical sum.
 *
 * A warp owns the 32 queries of a leaf (of the queries' own order), lane i the i-th of them with its list: K sums and
 * ids in registers, ascending. Candidates that are no farther than the last of the list wait in a short queue of the
 * lane in shared memory; when any queue may run over, all lanes insert what waits, side by side.
 *
 *   1. start    the leaf around the queries' own place, and those beside it: lists become good bounds
 *   2. descend  boxes of a group are tested by a lane each: the distance between the box of the warp's queries and that
 *               box, against the largest bound of the warp. What is near goes to a stack, as a mask a level.
 *   3. leaf     every lane tests the leaf's box with its own query and bound; if any is near, the 32 points are staged
 *               in shared memory and compared, all lanes with the same one at a time.
 *   4. rows     lists go to their rows, a few lanes each.
 *
 * A box is left out only when its sum is larger than a bound: for x in the box the canonical difference to q is at
 * least that to the nearest face, since rounding is monotone, and so is every step of the sum; equal sums go by id, and
 * are looked at.
 *
 * Grid: one warp a leaf of queries. No block waits for another.
 */
#ifndef ADJI_NEAREST_KERNEL_CUH
#define ADJI_NEAREST_KERNEL_CUH

#include "gpu/steps.cuh"
#include "gpu/tree.cuh"

namespace {

constexpr uint32_t NEAREST_LANES = 0xffffffffu;
/* Entries of a lane's queue, of which up to WAIT wait when the next AT_A_TIME candidates are looked at. */
enum { NEAREST_QUEUE = 12, AT_A_TIME = 4, NEAREST_WARPS = 4 };

template <class T>
struct nearest_job {
  const T *left_coords, *right_coords; /* of trees: points together */
  const uint32_t *left_ids, *right_ids;
  uint64_t right_count;
  adji_gpu_level levels[ADJI_GPU_LEVELS]; /* of right */
  uint32_t level_count;
  bool same_sets;          /* a query's leaf is where it is itself       */
  const uint32_t *queries; /* positions in left, ascending; NULL: all    */
  uint64_t query_count;
  bool drop_self;
  T limit; /* nothing farther belongs; may be infinite */
  uint32_t k;
  adji_gpu_measure<T> measure;
  uint32_t *ids; /* rows of k entries, by the query's id; ADJ_NO_ID behind the last */
  T *sums;       /* the same */
};

template <class TYPE, int STEP_, int DIM_, int K_>
struct nearest_what {
  typedef TYPE T;
  static constexpr int STEP = STEP_, DIM = DIM_, K = K_, WIDTH = adji_gpu_width(DIM_);
};

/* A lane's query and what it has found, ascending by (sum, id). */
template <class T, int DIM, int K>
struct seeker {
  T x[adji_gpu_width(DIM)];
  uint32_t row;
  uint32_t waiting; /* entries of its queue */
  T bound;          /* candidates farther than this do not get into the list */
  T sums[K];
  uint32_t ids[K];
};

/* A warp's shared memory. */
template <class W>
struct nearest_shared {
  typename W::T candidates[W::DIM][ADJI_WARP];
  uint32_t ids[ADJI_WARP];
  typename W::T queue_sums[NEAREST_QUEUE][ADJI_WARP + 1];
  uint32_t queue_ids[NEAREST_QUEUE][ADJI_WARP + 1];
  uint32_t masks[ADJI_GPU_LEVELS], bases[ADJI_GPU_LEVELS]; /* the stack: boxes of a group that are still to be seen */
};

/* ---- The list -------------------------------------------------------------------------------------------------- */

template <class T>
__device__ __forceinline__ bool comes_before(T s, uint32_t id, T other, uint32_t other_id) {
  return s < other || (s == other && id < other_id);
}

/* Inserts one entry: each place takes the lesser of what it has and what comes, and passes the other on. */
template <class T, int DIM, int K>
__device__ __forceinline__ void insert(seeker<T, DIM, K> *mine, T s, uint32_t id) {
#pragma unroll
  for (int i = 0; i < K; i++) {
    bool before = comes_before(s, id, mine->sums[i], mine->ids[i]);
    T out = before ? mine->sums[i] : s;
    uint32_t out_id = before ? mine->ids[i] : id;
    mine->sums[i] = before ? s : mine->sums[i];
    mine->ids[i] = before ? id : mine->ids[i];
    s = out;
    id = out_id;
  }
}

/* All lanes insert what waits; lanes with less insert something that stays behind. */
template <class W, class T>
__device__ __forceinline__ void insert_waiting(const nearest_job<T> &job, nearest_shared<W> *at,
                                               seeker<T, W::DIM, W::K> *mine, uint32_t lane) {
  uint32_t most = __reduce_max_sync(NEAREST_LANES, mine->waiting);
  for (uint32_t e = 0; e < most; e++) {
    bool there = e < mine->waiting;
    T s = there ? at->queue_sums[e][lane] : static_cast<T>(INFINITY);
    insert(mine, s, there ? at->queue_ids[e][lane] : ADJ_NO_ID);
  }
  mine->waiting = 0;
  T last = mine->sums[0];
#pragma unroll
  for (int i = 1; i < W::K; i++)
    if (i < static_cast<int>(job.k)) last = mine->sums[i]; /* the k-th, where K is more */
  mine->bound = last < job.limit ? last : job.limit;
}

/* ---- Leaves ---------------------------------------------------------------------------------------------------- */

/* Step 3: the points of a leaf. */
template <class W, class T>
__device__ __forceinline__ void search_leaf(const nearest_job<T> &job, nearest_shared<W> *at,
                                            seeker<T, W::DIM, W::K> *mine, uint32_t leaf, uint32_t lane) {
  uint64_t position = static_cast<uint64_t>(leaf) * ADJI_WARP + lane;
  bool valid = position < job.right_count;
  uint32_t many = __popc(__ballot_sync(NEAREST_LANES, valid));
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    at->candidates[j][lane] = valid ? job.right_coords[position * W::WIDTH + j] : T(0);
  at->ids[lane] = valid ? job.right_ids[position] : ADJ_NO_ID;
  __syncwarp();
  for (uint32_t first = 0; first < many; first += AT_A_TIME) {
    if (__any_sync(NEAREST_LANES, mine->waiting > NEAREST_QUEUE - AT_A_TIME)) insert_waiting<W>(job, at, mine, lane);
#pragma unroll
    for (uint32_t c = first; c < first + AT_A_TIME; c++) {
      T s = 0;
#pragma unroll
      for (int j = 0; j < W::DIM; j++)
        s = adji_gpu_step<W::STEP>(s, mine->x[j], at->candidates[j][c], job.measure, j);
      uint32_t id = at->ids[c];
      if (c >= many || !(s <= mine->bound) || (job.drop_self && id == mine->row)) continue;
      at->queue_sums[mine->waiting][lane] = s;
      at->queue_ids[mine->waiting][lane] = id;
      mine->waiting++;
    }
  }
  __syncwarp(); /* the next leaf takes their place */
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------ */

/* The canonical sum from a box [low, high] to box i of a level, or less. */
template <class W, class T>
__device__ __forceinline__ T box_sum(const nearest_job<T> &job, const adji_gpu_level &level, uint32_t i, const T *low,
                                     const T *high) {
  const T *bounds = static_cast<const T *>(level.bounds) + i;
  T s = 0;
#pragma unroll
  for (int j = 0; j < W::DIM; j++) {
    T least = __ldg(bounds + (2 * j) * level.stride), most = __ldg(bounds + (2 * j + 1) * level.stride);
    T from = least > high[j] ? high[j]
             : low[j] > most ? low[j]
                             : T(0),
      to = least > high[j] ? least
           : low[j] > most ? most
                           : T(0);
    s = adji_gpu_step<W::STEP>(s, from, to, job.measure, j);
  }
  return s;
}

template <class T>
__device__ __forceinline__ T warp_max(T x) {
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
    T other = __shfl_xor_sync(NEAREST_LANES, x, step);
    x = other > x ? other : x;
  }
  return x;
}

/* Step 2: which boxes of a group of 32 are near enough for any query, a bit each. */
template <class W, class T>
__device__ __forceinline__ uint32_t near_boxes(const nearest_job<T> &job, uint32_t level, uint32_t base, const T *low,
                                               const T *high, T bound, uint32_t lane) {
  uint32_t i = base + lane;
  bool near = i < job.levels[level].count && box_sum<W>(job, job.levels[level], i, low, high) <= bound;
  return __ballot_sync(NEAREST_LANES, near);
}

/* Everything but the leaves that were searched at the start, which are first .. last. */
template <class W, class T>
__device__ __forceinline__ void descend(const nearest_job<T> &job, nearest_shared<W> *at, seeker<T, W::DIM, W::K> *mine,
                                        bool active, uint32_t first, uint32_t last, uint32_t lane) {
  T low[W::DIM], high[W::DIM];
#pragma unroll
  for (int j = 0; j < W::DIM; j++) {
    high[j] = warp_max(active ? mine->x[j] : static_cast<T>(-INFINITY));
    low[j] = -warp_max(active ? -mine->x[j] : static_cast<T>(-INFINITY));
  }
  uint32_t level = job.level_count - 1, base = 0;
  uint32_t mask = near_boxes<W>(job, level, 0, low, high, warp_max(active ? mine->bound : T(-1)), lane);
  for (;;) {
    while (!mask) { /* up, to where something is left */
      if (++level == job.level_count) return;
      mask = at->masks[level];
      base = at->bases[level];
      __syncwarp();
    }
    uint32_t box = base + __ffs(mask) - 1;
    mask &= mask - 1;
    if (level == 0) {
      if (box >= first && box <= last) continue;
      bool near = active && box_sum<W>(job, job.levels[0], box, mine->x, mine->x) <= mine->bound;
      if (__any_sync(NEAREST_LANES, near)) search_leaf<W>(job, at, mine, box, lane);
      continue;
    }
    if (lane == 0) {
      at->masks[level] = mask;
      at->bases[level] = base;
    }
    __syncwarp();
    insert_waiting<W>(job, at, mine, lane); /* for the best bounds there are */
    level--;
    base = box * ADJI_GPU_FAN;
    mask = near_boxes<W>(job, level, base, low, high, warp_max(active ? mine->bound : T(-1)), lane);
  }
}

/* The leaf whose box is nearest to a query, level by level: that of lane 0. */
template <class W, class T>
__device__ __forceinline__ uint32_t find_place(const nearest_job<T> &job, const seeker<T, W::DIM, W::K> &mine,
                                               uint32_t lane) {
  T x[W::DIM];
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    x[j] = __shfl_sync(NEAREST_LANES, mine.x[j], 0);
  uint32_t box = 0;
  for (uint32_t level = job.level_count; level--;) {
    uint32_t i = box * ADJI_GPU_FAN + lane;
    T s = static_cast<T>(INFINITY);
    if (i < job.levels[level].count) s = box_sum<W>(job, job.levels[level], i, x, x);
    T least = -warp_max(-s);
    box = box * ADJI_GPU_FAN + __ffs(__ballot_sync(NEAREST_LANES, i < job.levels[level].count && s <= least)) - 1;
  }
  return box;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

template <class W, class T>
__device__ __forceinline__ seeker<T, W::DIM, W::K> open_seeker(const nearest_job<T> &job, uint64_t position,
                                                               bool active) {
  seeker<T, W::DIM, W::K> mine;
#pragma unroll
  for (int j = 0; j < W::WIDTH; j++)
    mine.x[j] = active ? job.left_coords[position * W::WIDTH + j] : T(0);
  mine.row = active ? job.left_ids[position] : ADJ_NO_ID;
  mine.waiting = 0;
  mine.bound = active ? job.limit : T(-1);
#pragma unroll
  for (int i = 0; i < W::K; i++) {
    mine.sums[i] = static_cast<T>(INFINITY);
    mine.ids[i] = ADJ_NO_ID;
  }
  return mine;
}

template <class W>
__global__ void __launch_bounds__(NEAREST_WARPS *ADJI_WARP) find_nearest(const nearest_job<typename W::T> job) {
  typedef typename W::T T;
  __shared__ nearest_shared<W> memory[NEAREST_WARPS];
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  uint64_t query = (static_cast<uint64_t>(blockIdx.x) * NEAREST_WARPS + warp) * ADJI_WARP + lane;
  bool active = query < job.query_count;
  if (!__any_sync(NEAREST_LANES, active)) return;
  uint64_t position = job.queries && active ? job.queries[query] : query;
  nearest_shared<W> *at = &memory[warp];
  seeker<T, W::DIM, W::K> mine = open_seeker<W>(job, position, active);

  uint32_t leaves = job.levels[0].count;
  uint32_t place = job.same_sets ? __shfl_sync(NEAREST_LANES, static_cast<uint32_t>(position / ADJI_WARP), 0)
                                 : find_place<W>(job, mine, lane);
  uint32_t first = place ? place - 1 : 0, last = place + 1 < leaves ? place + 1 : leaves - 1;
  search_leaf<W>(job, at, &mine, place, lane);
  for (uint32_t near = first; near <= last; near++)
    if (near != place) search_leaf<W>(job, at, &mine, near, lane);
  insert_waiting<W>(job, at, &mine, lane);
  descend<W>(job, at, &mine, active, first, last, lane);
  insert_waiting<W>(job, at, &mine, lane);

  if (!active) return;
  uint64_t to = static_cast<uint64_t>(mine.row) * job.k;
#pragma unroll
  for (int i = 0; i < W::K; i++) {
    if (i >= static_cast<int>(job.k)) break;
    bool there = mine.sums[i] <= job.limit && mine.ids[i] != ADJ_NO_ID;
    job.ids[to + i] = there ? mine.ids[i] : ADJ_NO_ID;
    job.sums[to + i] = there ? mine.sums[i] : static_cast<T>(INFINITY);
  }
}

}  // namespace

#endif
