/* SPDX-License-Identifier: MIT
 *
 * The kernel of kNN joins for many queries that are near each other.
 *
 * Computes: for each query q the k candidates with the smallest (s(q, c), id), in that order, s the canonical sum.
 *
 * A warp owns 32 queries that follow each other along the curve, lane i the i-th of them with its list: K sums and ids
 * in registers, ascending, of which the first K - k are before everything and stay where they are: so the last one is
 * the lane's bound. Candidates that are no farther wait in a short queue of the lane in shared memory; when a queue may
 * run over, all lanes insert what waits, side by side.
 *
 *   1. start    the group of 32 leaves around the queries' own place: lists become good bounds. Long lists begin with
 *               one that is guessed, and proven by counting
 *   2. descend  boxes of a group are tested by a lane each: the distance between the box of the warp's queries and that
 *               box, against the largest bound of the warp. The nearest is searched first, the others wait as a mask.
 *   3. leaf     every lane tests the leaf's box with its own query and bound; if any is near, all lanes compare its
 *               eight points, which they read at once.
 *
 * Queries that are not as near to each other as the curve says would keep a warp busy long after all others are done:
 * it gives up, and leaves them to nearest_alone.cuh.
 *
 * Grid: one warp for 32 queries. No block waits for another.
 *
 * Limits: instruction issue. In 3-D, k = 8, a warp compares about 320 candidates (12 instructions each), tests 64 boxes
 * of leaves (25 each), and inserts about 40 times (60 each).
 */
#ifndef ADJI_NEAREST_TOGETHER_CUH
#define ADJI_NEAREST_TOGETHER_CUH

#include "gpu/nearest_search.cuh"

namespace {

/* SORTED: entries that are sorted at once, for lists at least as long. */
enum { TOGETHER_WARPS = 2, SORTED = 16, AT_ONCE = 8 };

/* Entries of a lane's queue. */
__host__ __device__ constexpr uint32_t queue_room(int k) {
  return k >= SORTED ? 2 * SORTED : SORTED;
}

/* An entry of a list, with an order that takes few instructions: that of (sum, id). */
template <class T>
struct list_key;

template <>
struct list_key<float> { /* sums are not negative: their bits are in order */
  uint64_t bits;
  static __device__ __forceinline__ list_key of(float s, uint32_t id) {
    return list_key{static_cast<uint64_t>(__float_as_uint(s)) << 32 | id};
  }
  static __device__ __forceinline__ list_key first() { /* its sum is a bound like any other */
    return list_key{0};
  }
  __device__ __forceinline__ bool before(const list_key &other) const {
    return bits < other.bits;
  }
  __device__ __forceinline__ float sum() const {
    return __uint_as_float(static_cast<uint32_t>(bits >> 32));
  }
  __device__ __forceinline__ uint32_t id() const {
    return static_cast<uint32_t>(bits);
  }
};

template <>
struct list_key<double> {
  double s;
  uint32_t i;
  static __device__ __forceinline__ list_key of(double s, uint32_t id) {
    return list_key{s, id};
  }
  static __device__ __forceinline__ list_key first() {
    return list_key{-1, 0};
  }
  __device__ __forceinline__ bool before(const list_key &other) const {
    return comes_before(s, i, other.s, other.i);
  }
  __device__ __forceinline__ double sum() const {
    return s;
  }
  __device__ __forceinline__ uint32_t id() const {
    return i;
  }
};

/* A lane's query and what it has found. */
template <class W, int K>
struct seeker {
  typename W::T x[W::ROOM];
  uint32_t row;
  uint32_t waiting;    /* entries of its queue */
  typename W::T bound; /* candidates farther than this do not get into the list; -1: not a query */
  list_key<typename W::T> list[K];
};

/* Values of a point and its id, as they wait to be compared: what one or two loads bring. */
__host__ __device__ constexpr uint32_t pool_width(int dim) {
  return dim < 2 ? 2 : dim < 4 ? 4 : 8;
}

/* A warp's shared memory. */
template <class W, int K>
struct together_shared {
  typedef typename W::T T;
  struct alignas(16) {
    T x[ADJI_WARP + AT_ONCE][pool_width(W::DIM)];
  } pool;                                                  /* candidates that wait to be compared */
  T queue_sums[queue_room(K)][ADJI_WARP + 1];
  uint32_t queue_ids[queue_room(K)][ADJI_WARP + 1];
  uint32_t masks[ADJI_GPU_LEVELS], bases[ADJI_GPU_LEVELS]; /* boxes of a group that are still to be seen */
};

/* The box of the warp's queries, its largest bound, candidates that wait to be compared, and what the search took:
 * leaves and groups looked at, and candidates compared. */
template <class W>
struct warp_state {
  typename W::T low[W::ROOM], high[W::ROOM], bound;
  uint32_t pooled, tests, compared;
};

/* Leaves base + i of the bits i of mask; there: it is one. */
struct leaf_group {
  uint32_t base, mask;
  bool there;
};

/* ---- The list ------------------------------------------------------------------------------------------------- */

/* Each place behind the new entry takes what the one before it has: all of them at once. */
template <class W, int K>
__device__ __forceinline__ void insert(seeker<W, K> *mine, const list_key<typename W::T> &entry) {
#pragma unroll
  for (int i = K - 1; i > 0; i--)
    mine->list[i] = entry.before(mine->list[i - 1]) ? mine->list[i - 1]
                    : entry.before(mine->list[i])   ? entry
                                                    : mine->list[i];
  if (entry.before(mine->list[0])) mine->list[0] = entry;
}

/* Two entries in order. */
template <class T>
__device__ __forceinline__ void put_in_order(list_key<T> *a, list_key<T> *b) {
  bool turned = b->before(*a);
  list_key<T> first = turned ? *b : *a, second = turned ? *a : *b;
  *a = first;
  *b = second;
}

/* Sorts entries by Batcher's network. */
template <int N, class T>
__device__ __forceinline__ void sort_entries(list_key<T> (&entries)[N]) {
#pragma unroll
  for (int size = 1; size < N; size *= 2)
#pragma unroll
    for (int step = size; step; step /= 2)
#pragma unroll
      for (int i = 0; i + step < N; i++) {
        int j = i - step % size;
        bool met = j >= 0 && j / step % 2 == 0 && i / (2 * size) == (i + step) / (2 * size);
        if (met) put_in_order(&entries[i], &entries[i + step]);
      }
}

/* Inserts what waits one by one; lanes with less insert something that stays behind. For short lists. */
template <class W, int K>
__device__ __forceinline__ void insert_each(const together_shared<W, K> *at, seeker<W, K> *mine, uint32_t lane) {
  typedef typename W::T T;
  uint32_t most = __reduce_max_sync(NEAREST_LANES, mine->waiting);
  for (uint32_t e = 0; e < most; e++) {
    bool there = e < mine->waiting;
    insert(mine, list_key<T>::of(there ? at->queue_sums[e][lane] : static_cast<T>(INFINITY),
                                 there ? at->queue_ids[e][lane] : ADJ_NO_ID));
  }
}

/* Inserts what waits, SORTED at a time: the lesser of the list from its end backwards and of the others from their
 * beginning forwards are bitonic, and so are halves of them once they are in order with each other. */
template <class W, int K>
__device__ __forceinline__ void insert_sorted(const together_shared<W, K> *at, seeker<W, K> *mine, uint32_t lane) {
  typedef typename W::T T;
#pragma unroll 1
  for (uint32_t first = 0; __any_sync(NEAREST_LANES, mine->waiting > first); first += SORTED) {
    list_key<T> some[SORTED];
#pragma unroll
    for (uint32_t e = 0; e < SORTED; e++) {
      bool there = first + e < mine->waiting;
      some[e] = list_key<T>::of(there ? at->queue_sums[first + e][lane] : static_cast<T>(INFINITY),
                                there ? at->queue_ids[first + e][lane] : ADJ_NO_ID);
    }
    sort_entries(some);
#pragma unroll
    for (int i = 0; i < SORTED; i++)
      if (some[i].before(mine->list[K - 1 - i])) mine->list[K - 1 - i] = some[i];
#pragma unroll
    for (int step = K / 2; step; step /= 2)
#pragma unroll
      for (int i = 0; i < K; i++)
        if (!(i & step)) put_in_order(&mine->list[i], &mine->list[i + step]);
  }
}

template <class W, int K>
__device__ __forceinline__ void insert_waiting(const together_shared<W, K> *at, seeker<W, K> *mine, warp_state<W> *warp,
                                               uint32_t lane) {
  typedef typename W::T T;
  if constexpr (K < SORTED)
    insert_each(at, mine, lane);
  else
    insert_sorted(at, mine, lane);
  mine->waiting = 0;
  T last = mine->list[K - 1].sum();
  if (mine->bound > last) mine->bound = last;
  warp->bound = warp_max(mine->bound);
}

/* ---- Candidates ----------------------------------------------------------------------------------------------- */

template <class T>
__device__ __forceinline__ T bits_as(uint32_t id);
template <>
__device__ __forceinline__ float bits_as<float>(uint32_t id) {
  return __uint_as_float(id);
}
template <>
__device__ __forceinline__ double bits_as<double>(uint32_t id) {
  return __longlong_as_double(static_cast<long long>(id));
}

/* The next leaves of a group, a point a lane: those that are near the box of the queries join those that wait. */
template <class W, int K, class T>
__device__ __forceinline__ void gather_near(const nearest_job<T> &job, together_shared<W, K> *at,
                                            warp_state<W> *warp, leaf_group *group, uint32_t lane) {
  uint32_t which = lane / ADJI_TREE_LEAF, mask = group->mask;
#pragma unroll
  for (uint32_t i = 0; i < ADJI_WARP / ADJI_TREE_LEAF; i++) {
    if (i == which) mask = group->mask;
    warp->tests += group->mask != 0;
    group->mask &= group->mask - 1; /* of 0: 0 */
  }
  bool near = false;
  T x[W::ROOM];
  uint32_t id = 0;
  if (mask) {
    uint64_t leaf = group->base + __ffs(mask) - 1;
    id = load_record<W>(job, job.right_coords, job.right_ids, leaf * ADJI_TREE_LEAF + lane % ADJI_TREE_LEAF, x);
    box<W> b;
#pragma unroll
    for (int j = 0; j < W::ROOM; j++)
      b.low[j] = b.high[j] = x[j];
    near = near_sum<W>(job, b, warp->low, warp->high) <= warp->bound;
  }
  uint32_t found = __ballot_sync(NEAREST_LANES, near);
  uint32_t to = warp->pooled + __popc(found & ((1u << lane) - 1));
  if (near) {
#pragma unroll
    for (int j = 0; j < W::DIM; j++)
      at->pool.x[to][j] = x[j];
    at->pool.x[to][W::DIM] = bits_as<T>(id);
  }
  warp->pooled += __popc(found);
  __syncwarp();
}

/* Compares AT_ONCE of those that wait, or all if they are fewer, with all queries. */
template <class W, int K, class T>
__device__ __forceinline__ void compare_pool(const nearest_job<T> &job, together_shared<W, K> *at, seeker<W, K> *mine,
                                             warp_state<W> *warp, uint32_t lane) {
  uint32_t self = job.drop_self ? mine->row : ADJ_NO_ID;
  if (warp->pooled < AT_ONCE) {
    if (lane >= warp->pooled && lane < AT_ONCE) at->pool.x[lane][0] = static_cast<T>(NAN);
    warp->pooled = AT_ONCE;
    __syncwarp();
  }
  warp->pooled -= AT_ONCE;
  warp->compared += AT_ONCE;
#pragma unroll
  for (uint32_t c = 0; c < AT_ONCE; c++) {
    T x[W::ROOM];
#pragma unroll
    for (int j = 0; j < W::DIM; j++)
      x[j] = at->pool.x[warp->pooled + c][j];
    uint32_t id = id_bits(at->pool.x[warp->pooled + c][W::DIM]);
    T s = sum_of<W>(job, mine->x, x);
    if (s <= mine->bound && id != self) {
      at->queue_sums[mine->waiting][lane] = s;
      at->queue_ids[mine->waiting][lane] = id;
      mine->waiting++;
    }
  }
  __syncwarp();
}

/* ---- Boxes ---------------------------------------------------------------------------------------------------- */

/* The sum from the warp's queries to box base + lane of a level, or less. */
template <class W, class T>
__device__ __forceinline__ T group_sum(const nearest_job<T> &job, const warp_state<W> &warp, uint32_t level,
                                       uint32_t base, uint32_t lane) {
  uint32_t i = base + lane;
  if (i >= job.levels[level].count) return static_cast<T>(NAN);
  return near_sum<W>(job, load_box<W>(job, job.levels[level], i), warp.low, warp.high);
}

/* Where the search of the tree is: boxes of a level from base on, of which those in mask are still to be seen. */
template <class T>
struct path {
  uint32_t level, base, mask;
  T s; /* to box base + lane, or less */
};

template <class W, class T>
__device__ __forceinline__ path<T> open_path(const nearest_job<T> &job, const warp_state<W> &warp, uint32_t level,
                                             uint32_t base, uint32_t lane) {
  path<T> at = {level, base, 0, group_sum(job, warp, level, base, lane)};
  at.mask = __ballot_sync(NEAREST_LANES, at.s <= warp.bound);
  return at;
}

/* Step 2: the next group of leaves, and which of them are near; not there: no more, or the warp gives up. done was
 * searched at the start. */
template <class W, int K, class T>
__device__ __forceinline__ leaf_group next_group(const nearest_job<T> &job, together_shared<W, K> *at,
                                                 warp_state<W> *warp, path<T> *p, uint32_t done, uint32_t lane) {
  p->mask &= __ballot_sync(NEAREST_LANES, p->s <= warp->bound);
  for (;;) {
    while (!p->mask) { /* up, to where something is left */
      uint32_t level = p->level + 1;
      if (level >= job.level_count) return leaf_group{0, 0, false};
      uint32_t left = at->masks[level];
      *p = open_path(job, *warp, level, at->bases[level], lane);
      p->mask &= left;
      __syncwarp();
    }
    uint32_t next = lane_of_least(p->mask, p->s, lane), below = (p->base + next) * ADJI_GPU_FAN;
    p->mask &= ~(1u << next);
    if (++warp->tests > job.budget) return leaf_group{0, 0, false};
    if (p->level == 1) {
      if (below == done) continue;
      T s = group_sum(job, *warp, 0, below, lane);
      uint32_t mask = __ballot_sync(NEAREST_LANES, s <= warp->bound);
      if (mask) return leaf_group{below, mask, true};
      continue;
    }
    if (lane == 0) {
      at->masks[p->level] = p->mask;
      at->bases[p->level] = p->base;
    }
    __syncwarp();
    *p = open_path(job, *warp, p->level - 1, below, lane);
  }
}

/* Everything: the leaves of the queries themselves, which are `first` of their own group, the others of it, and what is
 * near. False: the warp gave up. There is one place each where leaves are compared and where lists are filled: more
 * would be more code than the instruction cache holds. */
template <class W, int K, class T>
__device__ __forceinline__ bool search(const nearest_job<T> &job, together_shared<W, K> *at, seeker<W, K> *mine,
                                       warp_state<W> *warp, uint32_t base, uint32_t first, uint32_t lane) {
  uint32_t there = __ballot_sync(NEAREST_LANES, base + lane < job.levels[0].count), later = there & ~first;
  leaf_group group = {base, there & first, true};
  path<T> p = {job.level_count, 0, 0, T(0)};
  bool begun = job.level_count < 2, ended = false; /* one group is all there is */
  for (;;) {
    bool over = !group.mask, compare = warp->pooled >= AT_ONCE || (over && warp->pooled && (!begun || ended));
    uint32_t most = queue_room(K) - AT_ONCE;
    /* Short lists are filled at once, for the best bounds there are; long ones have good bounds already. */
    if (over && !compare && (K < SORTED || ended || warp->bound == static_cast<T>(INFINITY))) most = 0;
    if (__any_sync(NEAREST_LANES, mine->waiting > most)) insert_waiting(at, mine, warp, lane);
    if (compare) {
      compare_pool(job, at, mine, warp, lane);
      continue;
    }
    if (!over) {
      gather_near(job, at, warp, &group, lane);
      continue;
    }
    if (ended) return warp->tests <= job.budget;
    if (later) {
      T s = group_sum(job, *warp, 0, base, lane);
      group.mask = later & __ballot_sync(NEAREST_LANES, s <= warp->bound);
      later = 0;
      continue;
    }
    if (!begun) {
      begun = true;
      p = open_path(job, *warp, job.level_count - 1, 0, lane);
    }
    group = next_group(job, at, warp, &p, base, lane);
    ended = !group.there;
  }
}

/* ---- The first bound ------------------------------------------------------------------------------------------ */

/* Before long lists are filled: distances that probably have k neighbours, and those which have by counting them in the
 * queries' own group. Few candidates beyond the k nearest then get into a list. */
enum { TRIES = 4 };

/* About the sum within which there are k neighbours, if the warp's queries fill their box evenly. */
template <class W>
__device__ __forceinline__ float guess_sum(const warp_state<W> &warp, uint32_t k) {
  constexpr float BALL[] = {1, 2, 3.1416f, 4.1888f, 4.9348f, 5.2638f, 5.1677f};
  float volume = static_cast<float>(k) / (ADJI_WARP * BALL[W::ROOM]);
#pragma unroll
  for (int j = 0; j < W::ROOM; j++)
    volume *= static_cast<float>(warp.high[j] - warp.low[j]);
  return exp2f(log2f(volume) * (2.0f / W::ROOM)); /* of nothing: 0 */
}

template <class W, int K, class T>
__device__ __forceinline__ void bound_first(const nearest_job<T> &job, seeker<W, K> *mine, warp_state<W> *warp,
                                            uint32_t base, uint32_t lane) {
  T tries[TRIES];
  uint32_t counts[TRIES] = {0}, wanted = job.k + job.drop_self; /* the query itself is among them */
  float guess = guess_sum(*warp, wanted);
#pragma unroll
  for (int i = 0; i < TRIES; i++)
    tries[i] = static_cast<T>(guess * (0.5f * static_cast<float>(1 << i)));
  T away = group_sum(job, *warp, 0, base, lane);
  for (uint32_t mask = __ballot_sync(NEAREST_LANES, away <= tries[TRIES - 1]); mask; mask &= mask - 1) {
    uint64_t first = static_cast<uint64_t>(base + __ffs(mask) - 1) * ADJI_TREE_LEAF;
#pragma unroll
    for (uint32_t c = 0; c < ADJI_TREE_LEAF; c++) {
      T x[W::ROOM];
      load_record<W>(job, job.right_coords, job.right_ids, first + c, x);
      T s = sum_of<W>(job, mine->x, x);
#pragma unroll
      for (int i = 0; i < TRIES; i++)
        counts[i] += s <= tries[i];
    }
  }
#pragma unroll
  for (int i = TRIES - 1; i >= 0; i--)
    if (counts[i] >= wanted && mine->bound > tries[i]) mine->bound = tries[i];
  warp->bound = warp_max(mine->bound);
}

/* ---- The kernel ----------------------------------------------------------------------------------------------- */

template <class W, int K, class T>
__device__ __forceinline__ seeker<W, K> open_seeker(const nearest_job<T> &job, uint64_t position, bool active) {
  seeker<W, K> mine;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++)
    mine.x[j] = 0;
  mine.row = ADJ_NO_ID;
  if (active) mine.row = load_record<W>(job, job.left_coords, job.left_ids, position, mine.x);
  mine.waiting = 0;
  mine.bound = active ? job.limit : T(-1);
#pragma unroll
  for (int i = 0; i < K; i++)
    mine.list[i] =
        i < K - static_cast<int>(job.k) ? list_key<T>::first() : list_key<T>::of(static_cast<T>(INFINITY), ADJ_NO_ID);
  return mine;
}

template <class W, class T>
__device__ __forceinline__ warp_state<W> open_warp(const nearest_job<T> &job, const T (&x)[W::ROOM], bool active) {
  warp_state<W> warp = {};
#pragma unroll
  for (int j = 0; j < W::ROOM; j++) {
    warp.high[j] = warp_largest(active ? x[j] : static_cast<T>(-INFINITY));
    warp.low[j] = -warp_largest(active ? -x[j] : static_cast<T>(-INFINITY));
  }
  warp.bound = job.limit;
  return warp;
}

/* All lists to their rows: eight entries of each at a time through shared memory, so that neighbours in a row are
 * written by neighbouring lanes. */
template <class W, int K, class T>
__device__ __forceinline__ void write_rows(const nearest_job<T> &job, together_shared<W, K> *at,
                                           const seeker<W, K> &mine, uint32_t lane) {
  constexpr uint32_t EACH = 8;
  uint32_t unused = K - job.k;
#pragma unroll
  for (uint32_t first = 0; first < K; first += EACH) {
    __syncwarp();
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
      at->queue_sums[i][lane] = mine.list[first + i].sum();
      at->queue_ids[i][lane] = mine.list[first + i].id();
    }
    __syncwarp();
#pragma unroll 1
    for (uint32_t l = lane / EACH; l < ADJI_WARP; l += ADJI_WARP / EACH) {
      uint32_t row = __shfl_sync(NEAREST_LANES, mine.row, l), i = first + lane % EACH;
      T s = at->queue_sums[lane % EACH][l];
      uint32_t id = at->queue_ids[lane % EACH][l];
      if (row == ADJ_NO_ID || i < unused) continue;
      uint64_t to = entries_of(job, row) + i - unused;
      job.ids[to] = id;
      job.sums[to] = id == ADJ_NO_ID ? static_cast<T>(INFINITY) : job.root ? root_of_sum(s) : s;
    }
  }
}

template <class T>
__device__ __forceinline__ void leave_to_others(const nearest_job<T> &job, bool active, uint64_t position,
                                                uint32_t lane) {
  uint32_t all = __ballot_sync(NEAREST_LANES, active);
  unsigned long long to = 0;
  if (lane == 0) to = atomicAdd(job.hard_count, static_cast<unsigned long long>(__popc(all)));
  to = __shfl_sync(NEAREST_LANES, to, 0) + __popc(all & ((1u << lane) - 1));
  if (active) job.hard[to] = static_cast<uint32_t>(position);
}

template <class W, int K>
__global__ void __launch_bounds__(TOGETHER_WARPS *ADJI_WARP) find_together(const nearest_job<typename W::T> job) {
  typedef typename W::T T;
  __shared__ together_shared<W, K> memory[TOGETHER_WARPS];
  uint32_t lane = threadIdx.x % ADJI_WARP, number = threadIdx.x / ADJI_WARP;
  uint64_t query = job.first_query + (static_cast<uint64_t>(blockIdx.x) * TOGETHER_WARPS + number) * ADJI_WARP + lane;
  bool active = query < job.query_count;
  if (!__any_sync(NEAREST_LANES, active)) return;
  uint64_t position = job.queries && active ? job.queries[query] : query;
  together_shared<W, K> *at = &memory[number];
  seeker<W, K> mine = open_seeker<W, K>(job, position, active);
  warp_state<W> warp = open_warp<W>(job, mine.x, active);

  uint32_t base, first = 0; /* the leaves of the queries themselves come first */
  if (job.same_sets) {
    uint32_t own = __shfl_sync(NEAREST_LANES, static_cast<uint32_t>(position / ADJI_TREE_LEAF), 0);
    base = own / ADJI_GPU_FAN * ADJI_GPU_FAN;
    first = 0xfu << (own - base);
  } else {
    T x[W::ROOM];
#pragma unroll
    for (int j = 0; j < W::ROOM; j++)
      x[j] = __shfl_sync(NEAREST_LANES, mine.x[j], 0);
    base = find_group<W>(job, x, lane);
  }
  if (K >= SORTED) bound_first(job, &mine, &warp, base, lane);
  if (search(job, at, &mine, &warp, base, first, lane))
    write_rows(job, at, mine, lane);
  else
    leave_to_others(job, active, position, lane);
  if (lane == 0)
    atomicAdd(job.candidates + blockIdx.x % ADJI_SPREAD,
              static_cast<unsigned long long>(warp.compared) * ADJI_WARP);
}

template <class W, int K>
adj_status launch_together(adji_gpu *gpu, cudaStream_t stream, const adji_nearest_job *job) {
  uint64_t threads = TOGETHER_WARPS * ADJI_WARP, all = job->query_count;
  uint64_t each = job->most_blocks ? job->most_blocks * threads : all;
  nearest_job<typename W::T> typed = with_types<typename W::T>(job);
  for (uint64_t first = 0; first < all; first += each) { /* one launch, unless blocks are limited */
    uint64_t many = all - first < each ? all - first : each;
    typed.first_query = first;
    typed.query_count = first + many;
    find_together<W, K><<<adji_blocks_for(many, threads), threads, 0, stream>>>(typed);
    ADJI_LAUNCHED(gpu, "find_together");
  }
  return ADJ_OK;
}

template <class T, int DIM>
adj_status launch_together_k(adji_gpu *gpu, cudaStream_t stream, const adji_nearest_job *job) {
  typedef nearest_what<T, ADJI_STEP_L2, DIM> W;
  if (job->k <= 8) return launch_together<W, 8>(gpu, stream, job);
  return job->k <= 16 ? launch_together<W, 16>(gpu, stream, job) : launch_together<W, 32>(gpu, stream, job);
}

}  // namespace

#endif
