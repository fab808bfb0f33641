/* SPDX-License-Identifier: MIT
 *
 * The dense kernel of kNN joins: a warp for 32 queries that are near each other. For f32 in two and three dimensions
 * there are faster kernels (knn_pool.cuh), whose pools have room for all candidates.
 *
 * Computes: for each query q the k candidates with the smallest (s(q, c), id), in that order, where s is the canonical
 * sum.
 *
 * Input: trees and queries in device memory (adji_knn_job). Output: ids and sums, row by row, in device memory.
 *
 * A warp owns 32 consecutive queries along the curve. Lane i owns the i-th of them and its list: K sums and ids in
 * registers, ascending. The first K - k entries come before everything and never move, so the last entry is the lane's
 * bound.
 *
 *   1. start    search the group of 32 leaves around the queries' own position, which fills the lists and so gives good
 *               bounds. Long lists start with a bound that is guessed, and proven by counting
 *   2. descend  each lane tests one box of a group: the distance between the box of the warp's queries and that box,
 *               against the largest bound of the warp. The nearest is searched first; the others stay as a mask
 *   3. gather   the points of up to eight near leaves, two per lane, are tested in the same way. Those that are near,
 *               a third or a fourth of them, go to a pool in shared memory
 *   4. compare  all lanes compare eight points of the pool at a time with their queries. Points within the lane's bound
 *               go to a short queue of the lane in shared memory
 *   5. insert   when a queue may overflow, or a group is done, all lanes sort some of their queue and merge it into
 *               their lists, in lockstep
 *
 * Queries that are far apart although consecutive along the curve would keep a warp busy long after all others. Such a
 * warp gives up and leaves them to knn_per_query.cu.
 *
 * Grid: one warp per 32 queries. Warps synchronise with __syncwarp only; no block waits for another.
 *
 * Limits: instruction issue, and the latency of loads at this occupancy. In 3-D with k = 8, a warp compares about 290
 * candidates (12 instructions each), gathers 25 times (100 each), and sorts and merges 17 times (330 each).
 */
#include "gpu/knn/knn_keys.cuh"
#include "gpu/knn/knn_private.cuh"

namespace {

/* AT_ONCE: candidates compared before the queues are checked. LONG: lists of at least this many entries are long. FEW:
 * queue entries that may stay pending. */
enum { DENSE_WARPS = 2, AT_ONCE = 8, LONG = 16, FEW = 3 };

/* Entries sorted at once, for lists of k; and the capacity of a lane's queue. */
__host__ __device__ constexpr int sorted_at_once(int k) {
  return k < LONG ? 8 : 16;
}
__host__ __device__ constexpr uint32_t queue_capacity(int k) {
  return 2 * sorted_at_once(k);
}

/* An entry of a queue. */
template <class T>
struct alignas(2 * sizeof(T)) queue_entry {
  T s;
  uint32_t id;
};

/* A lane's query and what it has found. */
template <class W, int K>
struct lane_query {
  typename W::T x[W::ROOM];
  uint32_t row;
  uint32_t tail;       /* the end of its queue: an address in shared memory */
  typename W::T bound; /* candidates farther than this do not enter the list; -1: not a query */
  list_key<typename W::T> list[K];
};

/* The shared memory of a warp. */
template <class W, int K>
struct dense_shared {
  typedef typename W::T T;
  pooled_point<T, W::DIM> pool[2 * ADJI_WARP + AT_ONCE];   /* candidates to be compared */
  queue_entry<T> queue[queue_capacity(K)][ADJI_WARP + 1];  /* per lane: candidates that may enter its list */
  uint32_t masks[ADJI_GPU_LEVELS], bases[ADJI_GPU_LEVELS]; /* per level: boxes of a group still to be visited */
};

/* The state of the whole warp: the box of its queries; its largest bound, and up to which id candidates at that bound
 * may enter a list; the size of the pool; and the work done, as leaves and groups tested and candidates compared. */
template <class W>
struct warp_state {
  static constexpr bool ORDERS_TIES = false; /* boxes often have equal sums: 0, if they meet the box of the queries */
  typename W::T low[W::ROOM], high[W::ROOM], bound;
  uint32_t last_id, pooled, tests, compared;
};

/* The leaves base + i for the set bits i of mask. there: false at the end of the search. */
struct leaf_group {
  uint32_t base, mask;
  bool there;
};

/* The address of entry e of the lane's queue. */
template <class W, int K>
__device__ __forceinline__ uint32_t queue_at(const dense_shared<W, K> *at, uint32_t e, uint32_t lane) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(&at->queue[e][lane]));
}

__device__ __forceinline__ void store_queued(uint32_t to, float s, uint32_t id) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(__float_as_uint(s)), "r"(id) : "memory");
}
__device__ __forceinline__ void store_queued(uint32_t to, double s, uint32_t id) {
  asm volatile("st.shared.f64 [%0], %1;\n\tst.shared.b32 [%0 + 8], %2;" ::"r"(to), "d"(s), "r"(id) : "memory");
}

/* ---- The list -------------------------------------------------------------------------------- */

/* Step 5: inserts the pending candidates, SORTED at a time. The element-wise minima of the list read backwards and the
 * sorted candidates read forwards form a bitonic sequence, and so do its halves after each exchange. */
template <class W, int K>
__device__ __forceinline__ void insert_sorted(const dense_shared<W, K> *at, lane_query<W, K> *mine, uint32_t pending,
                                              uint32_t self, uint32_t lane) {
  typedef typename W::T T;
  constexpr int SORTED = sorted_at_once(K);
#pragma unroll 1
  for (uint32_t first = 0; __any_sync(KNN_LANES, pending > first); first += SORTED) {
    list_key<T> some[SORTED];
#pragma unroll
    for (uint32_t e = 0; e < SORTED; e++) {
      queue_entry<T> entry = at->queue[first + e][lane];
      bool there = first + e < pending && entry.id != self;
      some[e] = there ? list_key<T>::of(entry.s, entry.id) : list_key<T>::last();
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
__device__ __forceinline__ void insert_pending(const knn_job<typename W::T> &job, dense_shared<W, K> *at,
                                               lane_query<W, K> *mine, warp_state<W> *warp, uint32_t lane) {
  typedef typename W::T T;
  uint32_t begin = queue_at(at, 0, lane), step = queue_at(at, 1, lane) - begin;
  insert_sorted(at, mine, (mine->tail - begin) / step, job.drop_self ? mine->row : ADJ_NO_ID, lane);
  mine->tail = begin;
  T last = mine->list[K - 1].sum();
  if (mine->bound > last) mine->bound = last;
  warp->bound = warp_max(mine->bound);
  uint32_t last_id = mine->bound == last ? mine->list[K - 1].id() : ADJ_NO_ID;
  warp->last_id = __reduce_max_sync(KNN_LANES, mine->bound == warp->bound ? last_id : 0);
}

/* ---- Candidates ------------------------------------------------------------------------------ */

/* The lane's point among those of the next leaves of a group, and whether there is one. */
template <class W>
struct gathered {
  typename W::T x[W::ROOM];
  uint32_t id;
  bool there;
};

template <class W, class T>
__device__ __forceinline__ gathered<W> gather(const knn_job<T> &job, leaf_group *group, uint32_t lane) {
  gathered<W> mine = {};
  uint32_t mask = group->mask;
#pragma unroll
  for (uint32_t i = 0; i < ADJI_WARP / ADJI_TREE_LEAF; i++) {
    if (i == lane / ADJI_TREE_LEAF) mask = group->mask;
    group->mask &= group->mask - 1; /* 0 stays 0 */
  }
  mine.there = mask;
  uint64_t leaf = group->base + __ffs(mask) - 1;
  if (mask)
    mine.id =
        load_record<W>(job, job.right_coords, job.right_ids, leaf * ADJI_TREE_LEAF + lane % ADJI_TREE_LEAF, mine.x);
  return mine;
}

/* Adds points near the box of the queries to the pool. Points at exactly the bound are added whatever their ids: their
 * leaf has passed is_near(), and one comparison here costs 5 % of the whole search. Padding after the last point is
 * NaN, which is compared like other points and is near nothing. */
template <class W, int K, class T>
__device__ __forceinline__ void keep_near(const knn_job<T> &job, dense_shared<W, K> *at, warp_state<W> *warp,
                                          const gathered<W> &mine, uint32_t lane) {
  box<W> around;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++)
    around.low[j] = around.high[j] = mine.x[j];
  bool near = mine.there && near_sum<W>(job, around, warp->low, warp->high) <= warp->bound;
  uint32_t found = __ballot_sync(KNN_LANES, near), to = warp->pooled + __popc(found & ((1u << lane) - 1));
  pooled_point<T, W::DIM> point = {};
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    point.x[j] = mine.x[j];
  point.x[point.ID] = adji_gpu_id_as(mine.id, T());
  if (near) at->pool[to] = point;
  warp->pooled += __popc(found);
}

/* Step 3: loads the next leaves of a group, one or two points per lane. With two, both loads are in flight together. */
template <class W, int K, class T>
__device__ __forceinline__ void gather_near(const knn_job<T> &job, dense_shared<W, K> *at, warp_state<W> *warp,
                                            leaf_group *group, uint32_t lane) {
  gathered<W> first = gather<W>(job, group, lane);
  bool more = group->mask;
  gathered<W> second = gather<W>(job, group, lane);
  warp->tests += (more + 1) * (ADJI_WARP / ADJI_TREE_LEAF);
  keep_near(job, at, warp, first, lane);
  if (more) keep_near(job, at, warp, second, lane);
  __syncwarp();
}

/* Step 4: compares AT_ONCE candidates of the pool, or all of them if there are fewer, with all queries. */
template <class W, int K, class T>
__device__ __forceinline__ void compare_pool(const knn_job<T> &job, dense_shared<W, K> *at, lane_query<W, K> *mine,
                                             warp_state<W> *warp, uint32_t lane) {
  constexpr uint32_t LOADED = W::DIM < 4 ? 4 : 2;
  if (warp->pooled < AT_ONCE) {
    if (lane >= warp->pooled && lane < AT_ONCE) at->pool[lane].x[0] = static_cast<T>(NAN);
    warp->pooled = AT_ONCE;
    __syncwarp();
  }
  warp->pooled -= AT_ONCE;
  warp->compared += AT_ONCE;
#pragma unroll
  for (uint32_t c = 0; c < AT_ONCE; c += LOADED) {
    pooled_point<T, W::DIM> points[LOADED];
#pragma unroll
    for (uint32_t i = 0; i < LOADED; i++) /* all loads come before the stores, since loads take long */
      points[i] = at->pool[warp->pooled + c + i];
#pragma unroll
    for (uint32_t i = 0; i < LOADED; i++) {
      T x[W::ROOM];
#pragma unroll
      for (int j = 0; j < W::DIM; j++)
        x[j] = points[i].x[j];
      T s = sum_of<W>(job, mine->x, x);
      if (!(s <= mine->bound)) continue;
      store_queued(mine->tail, s, adji_gpu_id(points[i].x[points[i].ID]));
      mine->tail += sizeof at->queue[0];
    }
  }
  __syncwarp();
}

/* ---- Boxes ----------------------------------------------------------------------------------- */

/* A lower bound of the sum between the warp's queries and box base + lane of a level. */
template <class W, class T>
__device__ __forceinline__ T group_sum(const knn_job<T> &job, const warp_state<W> &warp, uint32_t level, uint32_t base,
                                       uint32_t lane) {
  uint32_t i = base + lane;
  if (i >= job.levels[level].count) return static_cast<T>(NAN);
  return near_sum<W>(job, load_box<W>(job, job.levels[level], i), warp.low, warp.high);
}

/* Step 2: the next group of leaves, and which of them are near. Its member there is false if there is none left or the
 * warp gives up. Group `done` was searched at the start. */
template <class W, int K, class T>
__device__ __forceinline__ leaf_group next_group(const knn_job<T> &job, dense_shared<W, K> *at, warp_state<W> *warp,
                                                 path<T> *p, uint32_t done, uint32_t lane) {
  p->mask &= __ballot_sync(KNN_LANES, p->s <= warp->bound); /* so often that ids are left to the test of leaves */
  for (;;) {
    uint32_t box = next_of_path(job, at, *warp, p, lane), below = box * ADJI_GPU_FAN;
    if (box == UINT32_MAX || ++warp->tests > job.budget) return leaf_group{0, 0, false};
    if (p->level > 1) {
      go_down(job, at, *warp, p, box, lane);
      continue;
    }
    if (below == done) continue;
    T s = group_sum(job, *warp, 0, below, lane);
    uint32_t mask = __ballot_sync(KNN_LANES, is_near(job, *warp, 0, below + lane, s));
    if (mask) return leaf_group{below, mask, true};
  }
}

/* The whole search: first the leaves of the queries themselves, which are `first` in their own group, then the others
 * of this group, and then all others that are near. Returns false if the warp gave up. The comparison and the insertion
 * appear once each in the code, since more copies would exceed the instruction cache. */
template <class W, int K, class T>
__device__ __forceinline__ bool search(const knn_job<T> &job, dense_shared<W, K> *at, lane_query<W, K> *mine,
                                       warp_state<W> *warp, uint32_t base, uint32_t first, uint32_t lane) {
  constexpr uint32_t ROOM = queue_capacity(K) - AT_ONCE; /* entries that leave space for one more comparison step */
  uint32_t there = __ballot_sync(KNN_LANES, base + lane < job.levels[0].count), later = there & ~first;
  leaf_group group = {base, there & first, true};
  path<T> p = {job.level_count, 0, 0, T(0)};
  bool started = job.level_count < 2, ended = false; /* there is only one group */
  for (;;) {
    bool over = !group.mask, compare = warp->pooled >= AT_ONCE || (over && warp->pooled && (!started || ended));
    uint32_t most = ROOM;
    if (over && !compare) { /* short lists are filled for better bounds if that pays; long lists have good ones */
      bool all = ended || (K < LONG && !started) || warp->bound == static_cast<T>(INFINITY);
      most = all ? 0 : K < LONG ? FEW : ROOM;
    }
    if (__any_sync(KNN_LANES, mine->tail > queue_at(at, most, lane))) insert_pending(job, at, mine, warp, lane);
    if (compare) {
      do
        compare_pool(job, at, mine, warp, lane);
      while (warp->pooled >= AT_ONCE && !__any_sync(KNN_LANES, mine->tail > queue_at(at, ROOM, lane)));
      continue;
    }
    if (!over) {
      do
        gather_near(job, at, warp, &group, lane);
      while (group.mask && warp->pooled < AT_ONCE);
      continue;
    }
    if (ended) return warp->tests <= job.budget;
    if (later) {
      T s = group_sum(job, *warp, 0, base, lane);
      group.mask = later & __ballot_sync(KNN_LANES, is_near(job, *warp, 0, base + lane, s));
      later = 0;
      continue;
    }
    if (!started) {
      started = true;
      p = open_path(job, *warp, job.level_count - 1, 0, lane);
    }
    group = next_group(job, at, warp, &p, base, lane);
    ended = !group.there;
  }
}

/* ---- The first bound ------------------------------------------------------------------------- */

/* Before long lists are filled, tries sums within which there are probably k neighbours. Counting in the queries' own
 * group proves which of these sums do have k. Then few candidates other than the k nearest enter a list. */
enum { TRIES = 4 };

/* An estimate of the sum within which there are k neighbours. It assumes that the warp's queries fill their box
 * evenly. */
template <class W>
__device__ __forceinline__ float guess_sum(const warp_state<W> &warp, uint32_t k) {
  constexpr float BALL[] = {1, 2, 3.1416f, 4.1888f, 4.9348f, 5.2638f, 5.1677f};
  float volume = static_cast<float>(k) / (ADJI_WARP * BALL[W::ROOM]);
#pragma unroll
  for (int j = 0; j < W::ROOM; j++)
    volume *= static_cast<float>(warp.high[j] - warp.low[j]);
  return exp2f(log2f(volume) * (2.0f / W::ROOM)); /* 0 if the volume is 0 */
}

template <class W, int K, class T>
__device__ __forceinline__ void bound_first(const knn_job<T> &job, lane_query<W, K> *mine, warp_state<W> *warp,
                                            uint32_t base, uint32_t lane) {
  T tries[TRIES];
  uint32_t counts[TRIES] = {0}, wanted = job.k + job.drop_self; /* the query itself is among the points counted */
  float guess = guess_sum(*warp, wanted);
#pragma unroll
  for (int i = 0; i < TRIES; i++)
    tries[i] = static_cast<T>(guess * (0.5f * static_cast<float>(1 << i)));
  T away = group_sum(job, *warp, 0, base, lane);
  for (uint32_t mask = __ballot_sync(KNN_LANES, away <= tries[TRIES - 1]); mask; mask &= mask - 1) {
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

/* ---- The kernel ------------------------------------------------------------------------------ */

template <class W, int K, class T>
__device__ __forceinline__ lane_query<W, K> open_lane_query(const knn_job<T> &job, dense_shared<W, K> *at,
                                                            uint64_t position, bool active, uint32_t lane) {
  lane_query<W, K> mine;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++)
    mine.x[j] = 0;
  mine.row = ADJ_NO_ID;
  if (active) mine.row = load_record<W>(job, job.left_coords, job.left_ids, position, mine.x);
  mine.tail = queue_at(at, 0, lane);
  mine.bound = active ? bound_of(job, mine.row) : T(-1);
#pragma unroll
  for (int i = 0; i < K; i++)
    mine.list[i] = i < K - static_cast<int>(job.k) ? list_key<T>::first() : list_key<T>::last();
  return mine;
}

template <class W, class T>
__device__ __forceinline__ warp_state<W> open_warp(const knn_job<T> &job, const T (&x)[W::ROOM], bool active) {
  warp_state<W> warp = {};
#pragma unroll
  for (int j = 0; j < W::ROOM; j++) {
    warp.high[j] = warp_largest(active ? x[j] : static_cast<T>(-INFINITY));
    warp.low[j] = -warp_largest(active ? -x[j] : static_cast<T>(-INFINITY));
  }
  warp.bound = job.limit;
  warp.last_id = ADJ_NO_ID;
  return warp;
}

/* Writes all lists to their rows: eight entries of each at a time through shared memory, so that neighbouring lanes
 * write neighbouring entries of a row. */
template <class W, int K, class T>
__device__ __forceinline__ void write_rows(const knn_job<T> &job, dense_shared<W, K> *at, const lane_query<W, K> &mine,
                                           uint32_t lane) {
  constexpr uint32_t EACH = 8;
  uint32_t unused = K - job.k;
#pragma unroll
  for (uint32_t first = 0; first < K; first += EACH) {
    __syncwarp();
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
      at->queue[i][lane] = queue_entry<T>{mine.list[first + i].sum(), mine.list[first + i].id()};
    __syncwarp();
#pragma unroll 1
    for (uint32_t l = lane / EACH; l < ADJI_WARP; l += ADJI_WARP / EACH) {
      uint32_t row = __shfl_sync(KNN_LANES, mine.row, l), i = first + lane % EACH;
      queue_entry<T> entry = at->queue[lane % EACH][l];
      if (row == ADJ_NO_ID || i < unused) continue;
      uint64_t to = entries_of(job, row) + i - unused;
      job.ids[to] = entry.id;
      job.sums[to] = entry.id == ADJ_NO_ID ? static_cast<T>(INFINITY) : job.root ? adji_root(entry.s) : entry.s;
    }
  }
}

template <class T>
__device__ __forceinline__ void give_up(const knn_job<T> &job, bool active, uint64_t position, uint32_t lane) {
  uint32_t all = __ballot_sync(KNN_LANES, active);
  unsigned long long to = 0;
  if (lane == 0) to = atomicAdd(job.hard_count, static_cast<unsigned long long>(__popc(all)));
  to = __shfl_sync(KNN_LANES, to, 0) + __popc(all & ((1u << lane) - 1));
  if (active) job.hard[to] = static_cast<uint32_t>(position);
}

/* Blocks that should fit a multiprocessor. With fewer there are not enough warps to hide latency. With more, lists
 * would not stay in registers; lists of f64 get as many registers as possible. */
template <class W>
__host__ __device__ constexpr int least_blocks(int k) {
  return sizeof(typename W::T) == 8 ? 1 : k >= 32 ? 8 : k <= 8 && W::DIM > 3 ? 12 : 1;
}

template <class W, int K>
__global__ void __launch_bounds__(DENSE_WARPS *ADJI_WARP, least_blocks<W>(K))
    find_dense(const knn_job<typename W::T> job) {
  typedef typename W::T T;
  __shared__ dense_shared<W, K> memory[DENSE_WARPS];
  uint32_t lane = threadIdx.x % ADJI_WARP, number = threadIdx.x / ADJI_WARP;
  uint64_t query = job.first_query + (static_cast<uint64_t>(blockIdx.x) * DENSE_WARPS + number) * ADJI_WARP + lane;
  bool active = query < job.query_count;
  if (!__any_sync(KNN_LANES, active)) return;
  uint64_t position = job.queries && active ? job.queries[query] : query;
  dense_shared<W, K> *at = &memory[number];
  lane_query<W, K> mine = open_lane_query<W, K>(job, at, position, active, lane);
  warp_state<W> warp = open_warp<W>(job, mine.x, active);
  if (job.bounds) warp.bound = warp_max(mine.bound);

  uint32_t base, first = 0; /* the leaves of the queries themselves come first */
  if (job.same_sets) {
    uint32_t own = __shfl_sync(KNN_LANES, static_cast<uint32_t>(position / ADJI_TREE_LEAF), 0);
    base = own / ADJI_GPU_FAN * ADJI_GPU_FAN;
    first = 0xfu << (own - base);
  } else {
    T x[W::ROOM];
#pragma unroll
    for (int j = 0; j < W::ROOM; j++)
      x[j] = __shfl_sync(KNN_LANES, mine.x[j], 0);
    base = find_group<W>(job, x, lane);
  }
  if (K >= LONG) bound_first(job, &mine, &warp, base, lane);
  if (search(job, at, &mine, &warp, base, first, lane))
    write_rows(job, at, mine, lane);
  else
    give_up(job, active, position, lane);
  if (lane == 0)
    atomicAdd(job.candidates + blockIdx.x % ADJI_SPREAD, static_cast<unsigned long long>(warp.compared) * ADJI_WARP);
}

template <class W, int K>
adj_status launch_dense(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  uint64_t threads = DENSE_WARPS * ADJI_WARP, all = job->query_count;
  uint64_t each = job->most_blocks ? job->most_blocks * threads : all;
  knn_job<typename W::T> typed = with_types<typename W::T>(job);
  for (uint64_t first = 0; first < all; first += each) { /* one launch, unless blocks are limited */
    uint64_t many = all - first < each ? all - first : each;
    typed.first_query = first;
    typed.query_count = first + many;
    find_dense<W, K><<<adji_blocks_for(many, threads), threads, 0, stream>>>(typed);
    ADJI_LAUNCHED(gpu, "find_dense");
  }
  return ADJ_OK;
}

template <class T, int DIM>
adj_status launch_dense_k(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  typedef knn_instance<T, ADJI_STEP_L2, DIM> W;
  if (job->k <= 8) return launch_dense<W, 8>(gpu, stream, job);
  return job->k <= 16 ? launch_dense<W, 16>(gpu, stream, job) : launch_dense<W, 32>(gpu, stream, job);
}

}  // namespace

/* Instances: L2 in one and in four to six dimensions in f32, and in two and three dimensions in f64. */
bool adji_knn_has_dense(adj_type type, int step, uint32_t dim, uint32_t k) {
  bool plane_or_space = dim == 2 || dim == 3;
  return step == ADJI_STEP_L2 && k <= ADJI_MOST_DENSE &&
         (type == ADJ_F32 ? dim <= ADJI_TREE_DIMS && !plane_or_space : plane_or_space);
}

adj_status adji_knn_dense(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  if (job->type == ADJ_F64)
    return job->dim == 2 ? launch_dense_k<double, 2>(gpu, stream, job) : launch_dense_k<double, 3>(gpu, stream, job);
  if (job->dim == 1) return launch_dense_k<float, 1>(gpu, stream, job);
  if (job->dim == 4) return launch_dense_k<float, 4>(gpu, stream, job);
  return job->dim == 5 ? launch_dense_k<float, 5>(gpu, stream, job) : launch_dense_k<float, 6>(gpu, stream, job);
}
