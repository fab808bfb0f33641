/* SPDX-License-Identifier: MIT
 *
 * What the pooled kernels of kNN joins share (knn_pooled.cu, knn_pooled_short.cu). A warp searches for 32 queries that
 * are near each other, with all their candidates in a pool in shared memory.
 *
 * A warp owns 32 consecutive queries along the curve. No list is kept while candidates are gathered. Instead, the
 * distance that they may have is guessed first, and counting them shows whether the guess was large enough.
 *
 *   1. guess    a reach: a sum within which each query probably has k neighbours, from a few of the queries and the
 *               points around them along the curve
 *   2. gather   all points within the reach of the box of the queries, into the pool. If the pool is full, the reach is
 *               shortened, and points beyond it are dropped
 *   3. select   the k nearest of each query from the pool, and write the rows. This is where the kernels differ
 *   4. repeat   from step 2 for queries with fewer than k points within the reach, with a longer reach and the box of
 *               only these queries
 *
 * A row is complete: the pool has all points within the reach of a query, since the sum to the box of the queries is at
 * most that to a query (knn_search.cuh). And either there are k points within the reach, or the reach is the query's
 * own bound.
 *
 * Queries that do not get their rows in a few rounds are left to knn_per_query.cu. These are queries far from all
 * others, or with too many candidates at one distance.
 *
 * Grid: one warp per 32 queries. Warps synchronise with __syncwarp only; no block waits for another.
 */
#ifndef ADJI_GPU_KNN_KNN_POOL_CUH
#define ADJI_GPU_KNN_KNN_POOL_CUH

#include <cfloat>
#include <type_traits>

#include "gpu/knn/knn_keys.cuh"
#include "gpu/knn/knn_private.cuh"

namespace {

/* SAMPLES: queries that the guess is made from. TRIES: attempts to find a radius. STEP: registers of candidates that
 * are compared together. ROUNDS: of step 4. SHRINKS: how often a reach is shortened for several queries; MOST_SHRINKS:
 * for one. */
enum { SAMPLES = 4, TRIES = 8, STEP = 4, ROUNDS = 12, SHRINKS = 4, MOST_SHRINKS = 24 };
enum { SOME_LEAVES = 2 * ADJI_WARP / ADJI_TREE_LEAF, MOST_LEAVES = ADJI_WARP + SOME_LEAVES };

/* An instance. SLOTS: candidates per lane. E: entries per lane in the list of a query. PAIR: queries at a time. BLOCKS:
 * blocks that should fit a multiprocessor. */
template <class W_, int SLOTS_, int E_, int PAIR_, int BLOCKS_>
struct pool_instance {
  typedef W_ W;
  typedef typename W_::T T;
  static constexpr uint32_t SLOTS = SLOTS_, E = E_, PAIR = PAIR_, POOL = SLOTS_ * ADJI_WARP, LIST = E_ * ADJI_WARP;
  static constexpr int BLOCKS = BLOCKS_;
  static constexpr uint32_t PLACE_BITS = 5 + (E > 1) + (E > 2) + (E > 4) + (E > 8); /* bits of a place in a list */
  static constexpr bool IN_REGISTERS = E_ > 1 && SLOTS_ <= 24; /* otherwise candidates stay in shared memory */
  static constexpr uint32_t WARPS = SLOTS_ <= 24 ? 2 : 1;
  /* Leaves around the queries that the guess is made from, and the points per lane in them. */
  static constexpr uint32_t WINDOW = E < 4 ? 16 : 64, WINDOW_SLOTS = WINDOW * ADJI_TREE_LEAF / ADJI_WARP;
  typedef std::conditional_t<SLOTS_ <= 32, uint32_t, uint64_t> mask;
  static_assert(SLOTS_ <= 64 && (E == 1 || SLOTS_ % STEP == 0) && LIST == 1 << PLACE_BITS, "as masks and keys have it");
};

/* The part of a warp's shared memory that all kernels have. */
template <class V>
struct pool_memory {
  typedef pooled_point<typename V::T, V::W::DIM> point;
  point pool[V::POOL];
  point queries[ADJI_WARP]; /* with their rows as ids */
  uint32_t leaves[MOST_LEAVES];
  uint32_t masks[ADJI_GPU_LEVELS], bases[ADJI_GPU_LEVELS]; /* per level: boxes of a group still to be visited */
};

/* The search of a warp. The same in all lanes. */
template <class W>
struct pool_search {
  typename W::T low[W::ROOM], high[W::ROOM]; /* the box of the queries that have no rows yet */
  typename W::T reach, radius;               /* radius: for the next query */
  uint32_t open, later, failed; /* queries without rows; open ones set aside; queries that get no row here */
  uint32_t fewest;              /* the fewest points within the reach of an open query */
  uint32_t pooled, leaves, tests;
  unsigned long long compared;
};

/* ---- Gathering ------------------------------------------------------------------------------- */

template <class V, class T>
__device__ __forceinline__ typename pool_memory<V>::point point_of(const T (&x)[V::W::ROOM], uint32_t id) {
  typename pool_memory<V>::point point = {};
#pragma unroll
  for (int j = 0; j < V::W::DIM; j++)
    point.x[j] = x[j];
  point.x[point.ID] = adji_gpu_id_as(id, T());
  return point;
}

/* Adds the lane's point to the pool if it exists and is within the reach. */
template <class V, class T>
__device__ __forceinline__ void pool_near(const knn_job<T> &job, pool_memory<V> *at, pool_search<typename V::W> *search,
                                          const T (&x)[V::W::ROOM], uint32_t id, bool there, uint32_t lane) {
  typedef typename V::W W;
  box<W> around;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++)
    around.low[j] = around.high[j] = x[j];
  bool near = there && near_sum<W>(job, around, search->low, search->high) <= search->reach;
  uint32_t found = __ballot_sync(KNN_LANES, near), to = search->pooled + __popc(found & ((1u << lane) - 1));
  if (near) at->pool[to] = point_of<V>(x, id);
  search->pooled += __popc(found);
}

/* Makes room in the pool for the points of SOME_LEAVES leaves, by shortening the reach. False if that does not help. */
template <class V, class T>
__device__ __forceinline__ bool make_room(const knn_job<T> &job, pool_memory<V> *at, pool_search<typename V::W> *search,
                                          uint32_t lane) {
  for (uint32_t i = 0; search->pooled + SOME_LEAVES * ADJI_TREE_LEAF > V::POOL; i++) {
    if (i == (search->open & (search->open - 1) ? SHRINKS : MOST_SHRINKS)) return false;
    uint32_t many = search->pooled;
    search->reach *= T(0.75);
    search->pooled = 0;
    for (uint32_t first = 0; first < many; first += ADJI_WARP) {
      typename pool_memory<V>::point point = at->pool[first + lane];
      T x[V::W::ROOM];
#pragma unroll
      for (int j = 0; j < V::W::DIM; j++)
        x[j] = point.x[j];
      __syncwarp();
      pool_near(job, at, search, x, adji_gpu_id(point.x[point.ID]), first + lane < many, lane);
      __syncwarp();
    }
  }
  return true;
}

/* Adds the points of the last SOME_LEAVES of the listed leaves, or of all if there are fewer: two per lane. */
template <class V, class T>
__device__ __forceinline__ bool pool_leaves(const knn_job<T> &job, pool_memory<V> *at,
                                            pool_search<typename V::W> *search, uint32_t lane) {
  typedef typename V::W W;
  uint32_t some = search->leaves < SOME_LEAVES ? search->leaves : SOME_LEAVES;
  if (!make_room(job, at, search, lane)) return false;
  search->leaves -= some;
  search->tests++;
  T x[2][W::ROOM];
  uint32_t ids[2];
  bool there[2];
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t number = (i * ADJI_WARP + lane) / ADJI_TREE_LEAF;
    uint64_t leaf = at->leaves[search->leaves + (number < some ? number : 0)];
    uint64_t from = leaf * ADJI_TREE_LEAF + lane % ADJI_TREE_LEAF;
    there[i] = number < some && from < job.right_count; /* padding is NaN and would seem near: it has no gap to a box */
    ids[i] = load_record<W>(job, job.right_coords, job.right_ids, from, x[i]);
  }
#pragma unroll
  for (uint32_t i = 0; i < 2; i++)
    pool_near(job, at, search, x[i], ids[i], there[i], lane);
  __syncwarp();
  return true;
}

/* The mask of the boxes of a group that are within the reach. */
template <class W, class T>
__device__ __forceinline__ uint32_t near_boxes(const knn_job<T> &job, pool_search<W> *search, uint32_t level,
                                               uint32_t base, uint32_t lane) {
  uint32_t i = base + lane;
  bool near = i < job.levels[level].count &&
              near_sum<W>(job, load_box<W>(job, job.levels[level], i), search->low, search->high) <= search->reach;
  search->tests++;
  return __ballot_sync(KNN_LANES, near);
}

/* Step 2. False if there are too many points, or if it takes too long. */
template <class V, class T>
__device__ __forceinline__ bool fill_pool(const knn_job<T> &job, pool_memory<V> *at, pool_search<typename V::W> *search,
                                          uint32_t lane) {
  uint32_t level = job.level_count - 1, base = 0, mask = near_boxes(job, search, level, 0, lane);
  search->pooled = search->leaves = 0;
  for (;;) {
    bool found = level == 0; /* then base and mask are those of leaves */
    if (found) {
      if (mask >> lane & 1) at->leaves[search->leaves + __popc(mask & ((1u << lane) - 1))] = base + lane;
      search->leaves += __popc(mask);
      mask = 0;
      __syncwarp();
    }
    while (!mask && level + 1 < job.level_count) {
      level++;
      mask = at->masks[level];
      base = at->bases[level];
    }
    uint32_t most = mask ? SOME_LEAVES - 1 : 0;
    while (search->leaves > most)
      if (!pool_leaves(job, at, search, lane)) return false;
    if (!mask) return true;
    if (search->tests > job.budget) return false;
    uint32_t next = base + __ffs(mask) - 1;
    __syncwarp();
    if (lane == 0) {
      at->masks[level] = mask & (mask - 1);
      at->bases[level] = base;
    }
    __syncwarp();
    level--;
    base = next * ADJI_GPU_FAN;
    mask = near_boxes(job, search, level, base, lane);
  }
}

/* ---- The guess ------------------------------------------------------------------------------- */

/* The candidates of a lane, in registers. Missing ones are NaN, which is within no radius. */
template <class V>
struct lane_pool {
  typename V::T x[V::IN_REGISTERS ? V::SLOTS : V::WINDOW_SLOTS][V::W::ROOM];
};

/* A query during selection. The same in all lanes, except for mask. */
template <class V>
struct selection {
  typename V::T x[V::W::ROOM], radius, most; /* most: the longest radius allowed */
  typename V::mask mask;                     /* the lane's candidates within the radius */
  uint32_t row, count;                       /* count: the candidates within the radius, of all lanes */
};

/* Hides from the compiler that a value does not change. Otherwise it keeps sums to reuse them with another radius,
 * which takes more registers than there are. */
__device__ __forceinline__ void hide_constant(float *x) {
  asm volatile("" : "+f"(*x));
}

__device__ __forceinline__ uint32_t bits_of(uint32_t mask) {
  return __popc(mask);
}
__device__ __forceinline__ uint32_t bits_of(uint64_t mask) {
  return __popcll(mask);
}
__device__ __forceinline__ uint32_t first_bit(uint32_t mask) {
  return __ffs(mask) - 1;
}
__device__ __forceinline__ uint32_t first_bit(uint64_t mask) {
  return __ffsll(mask) - 1;
}

/* Compares one candidate of the lane with each query. */
template <class V, int MANY, class T>
__device__ __forceinline__ void compare_slot(const knn_job<T> &job, const T (&c)[V::W::ROOM], uint32_t slot,
                                             selection<V> (&of)[MANY]) {
#pragma unroll
  for (int q = 0; q < MANY; q++)
    if (sum_of<typename V::W>(job, of[q].x, c) <= of[q].radius) of[q].mask |= static_cast<typename V::mask>(1) << slot;
}

/* Sets the mask of each query, from candidates in registers. slots: the number of registers in use. */
template <class V, int MANY, class T>
__device__ __forceinline__ void compare_registers(const knn_job<T> &job, const lane_pool<V> &pool, uint32_t slots,
                                                  selection<V> (&of)[MANY]) {
  constexpr uint32_t MOST = sizeof pool.x / sizeof pool.x[0];
#pragma unroll
  for (int q = 0; q < MANY; q++) {
    of[q].mask = 0;
#pragma unroll
    for (int j = 0; j < V::W::DIM; j++)
      hide_constant(&of[q].x[j]);
  }
#pragma unroll
  for (uint32_t first = 0; first < MOST; first += STEP) {
    if (first >= slots) break;
#pragma unroll
    for (uint32_t j = first; j < first + STEP; j++)
      compare_slot<V>(job, pool.x[j], j, of);
  }
}

/* The factor by which a sum has to grow for the number of points within it to grow by `ratio`. */
template <class W>
__device__ __forceinline__ float sum_growth(float ratio) {
  return exp2f(log2f(ratio) * (2.0f / W::DIM));
}

template <class V, class T>
__device__ __forceinline__ void load_query(const pool_memory<V> *at, uint32_t number, selection<V> *of) {
  typename pool_memory<V>::point point = at->queries[number];
#pragma unroll
  for (int j = 0; j < V::W::DIM; j++)
    of->x[j] = point.x[j];
  of->row = adji_gpu_id(point.x[point.ID]);
}

/* Step 1: for some of the queries, finds a sum within which there are about `all` points, and returns the least of
 * these sums. window: the first leaf of the window; many: the number of active queries, which are the first ones. */
template <class V, class T>
__device__ __forceinline__ T guess_reach(const knn_job<T> &job, const pool_memory<V> *at,
                                         const pool_search<typename V::W> &search, uint32_t window, uint32_t many,
                                         float all, uint32_t lane) {
  typedef typename V::W W;
  constexpr float MOST = 0.35f * V::WINDOW * ADJI_TREE_LEAF; /* more would extend beyond the window */
  float wanted = fminf(all, MOST);
  lane_pool<V> pool;
#pragma unroll
  for (uint32_t j = 0; j < V::WINDOW_SLOTS; j++) {
    uint64_t i = static_cast<uint64_t>(window) * ADJI_TREE_LEAF + j * ADJI_WARP + lane;
    if (i < job.right_count)
      load_record<W>(job, job.right_coords, job.right_ids, i, pool.x[j]);
    else
      pool.x[j][0] = static_cast<T>(NAN);
  }
  float volume = log2f(wanted / (4 * ADJI_WARP)), widest = 0; /* the logarithm, since the volume may overflow */
#pragma unroll
  for (int j = 0; j < W::DIM; j++) {
    float wide = static_cast<float>(search.high[j] - search.low[j]);
    volume += log2f(wide);
    widest = fmaxf(widest, wide);
  }
  T sum = fminf(exp2f(volume * (2.0f / W::DIM)), FLT_MAX), least = static_cast<T>(INFINITY);
  if (!(sum > 0)) sum = widest * widest;
  for (uint32_t i = 0; i < SAMPLES; i++) {
    selection<V> of[1];
    load_query<V, T>(at, (2 * i + 1) * many / (2 * SAMPLES), &of[0]);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
      of[0].radius = sum;
      compare_registers(job, pool, V::WINDOW_SLOTS, of);
      float count = static_cast<float>(__reduce_add_sync(KNN_LANES, bits_of(of[0].mask)));
      sum *= sum_growth<W>(wanted / fmaxf(count, 0.25f * wanted));
      if (count >= 0.5f * wanted && count <= 2 * wanted) break;
    }
    if (sum < least) least = sum;
  }
  return least * sum_growth<W>(all / wanted);
}

/* An entry of a list: a point and the sum to the query. */
template <class T>
struct list_point {
  T s;
  uint32_t id;
};

template <class V, class T>
__device__ __forceinline__ list_point<T> sum_at(const knn_job<T> &job, const pool_memory<V> *at,
                                                const T (&x)[V::W::ROOM], uint32_t place) {
  typename pool_memory<V>::point point = at->pool[place];
  T c[V::W::ROOM];
#pragma unroll
  for (int j = 0; j < V::W::DIM; j++)
    c[j] = point.x[j];
  return list_point<T>{sum_of<typename V::W>(job, x, c), adji_gpu_id(point.x[point.ID])};
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* How many points a query wants within its radius: at least `enough`, at most `most`, which fit the list, and ideally
 * `some`. */
struct wanted_points {
  uint32_t enough, most;
  float some;
};

template <class T>
__device__ __forceinline__ void write_entry(const knn_job<T> &job, uint64_t to, T s, uint32_t id) {
  job.ids[to] = id;
  job.sums[to] = id == ADJ_NO_ID ? static_cast<T>(INFINITY) : job.root ? adji_root(s) : s;
}

/* ---- The search ------------------------------------------------------------------------------ */

/* The reach as a multiple of the guess. The more neighbours, the less their distances differ. With a longer reach there
 * are more candidates, with a shorter one more queries take another round. */
template <class V>
__device__ __forceinline__ constexpr float reach_factor() {
  if (V::E > 8) return V::W::DIM == 2 ? 1.3f : 1.18f;
  return V::E == 1 ? V::W::DIM == 2 ? 2.7f : 1.8f : V::W::DIM == 2 ? 1.6f : 1.35f;
}

/* Sets the box of the open queries. x: the coordinates of the lane's query. */
template <class W, class T>
__device__ __forceinline__ void box_of_open(pool_search<W> *search, const T (&x)[W::ROOM], uint32_t lane) {
  bool open = search->open >> lane & 1;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++) {
    search->high[j] = warp_largest(open ? x[j] : static_cast<T>(-INFINITY));
    search->low[j] = -warp_largest(open ? -x[j] : static_cast<T>(-INFINITY));
  }
}

/* Sets half of the open queries aside, since there are too many points around all of them. A query that is alone
 * fails. */
template <class W>
__device__ __forceinline__ void halve(pool_search<W> *search) {
  uint32_t second = search->open;
  for (uint32_t i = __popc(search->open) / 2; i; i--)
    second &= second - 1;
  search->open &= ~second;
  if (search->open)
    search->later |= second;
  else
    search->failed |= second;
}

/* Leaves the open queries to another kernel. */
template <class T>
__device__ __forceinline__ void give_up(const knn_job<T> &job, uint32_t open, uint64_t position, uint32_t lane) {
  unsigned long long to = 0;
  if (lane == 0) to = atomicAdd(job.hard_count, static_cast<unsigned long long>(__popc(open)));
  to = __shfl_sync(KNN_LANES, to, 0) + __popc(open & ((1u << lane) - 1));
  if (open >> lane & 1) job.hard[to] = static_cast<uint32_t>(position);
}

/* The first leaf of the window: around the queries' own leaves, or in the group nearest to the middle query. */
template <class V, class T>
__device__ __forceinline__ uint32_t window_of(const knn_job<T> &job, const T (&own_point)[V::W::ROOM],
                                              uint64_t position, uint32_t many, uint32_t lane) {
  uint32_t leaf;
  if (job.same_sets) {
    leaf = __shfl_sync(KNN_LANES, static_cast<uint32_t>(position / ADJI_TREE_LEAF), many / 2);
  } else {
    T x[V::W::ROOM];
#pragma unroll
    for (int j = 0; j < V::W::ROOM; j++)
      x[j] = __shfl_sync(KNN_LANES, own_point[j], many / 2);
    leaf = find_group<typename V::W>(job, x, lane) + ADJI_GPU_FAN / 2;
  }
  uint32_t first = leaf > V::WINDOW / 2 ? leaf - V::WINDOW / 2 : 0, all = job.levels[0].count;
  return first + V::WINDOW <= all ? first : all > V::WINDOW ? all - V::WINDOW : 0;
}

/* Chooses the queries and the reach of the next round. If there was no room for the candidates of all open queries,
 * these are halved; otherwise they get a longer reach. Once none is open, those set aside follow. */
template <class W, class T>
__device__ __forceinline__ void choose_round(pool_search<W> *search, bool shortened, T guessed,
                                             const wanted_points &wanted) {
  if (search->open && shortened)
    halve(search);
  else if (search->open)
    search->reach *=
        1.2f * sum_growth<W>(fminf(1.2f * wanted.enough / static_cast<float>(max(search->fewest, 1u)), 64.0f));
  if (search->open) return;
  search->open = search->later;
  search->later = 0;
  search->reach = guessed;
}

/* The whole search of a warp. S is what a kernel adds: its memory, and select(), which does step 3 and closes the
 * queries that have their rows. */
template <class V, class S>
__global__ void __launch_bounds__(V::WARPS *ADJI_WARP, V::BLOCKS) find_pooled(const knn_job<typename V::T> job) {
  typedef typename V::W W;
  typedef typename V::T T;
  __shared__ typename S::memory memory[V::WARPS];
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  uint64_t query = job.first_query + (static_cast<uint64_t>(blockIdx.x) * V::WARPS + warp) * ADJI_WARP + lane;
  bool active = query < job.query_count;
  pool_search<W> search = {};
  search.open = __ballot_sync(KNN_LANES, active);
  if (!search.open) return;
  uint64_t position = job.queries && active ? job.queries[query] : query;
  typename S::memory *at = &memory[warp];
  T x[W::ROOM] = {};
  uint32_t row = active ? load_record<W>(job, job.left_coords, job.left_ids, position, x) : ADJ_NO_ID;
  at->queries[lane] = point_of<V>(x, row);
  __syncwarp();
  box_of_open(&search, x, lane);
  uint32_t many = __popc(search.open), enough = job.k + job.drop_self;
  wanted_points wanted = {enough, V::LIST, sqrtf(static_cast<float>(enough * V::LIST))};
  T sum = guess_reach<V>(job, at, search, window_of<V>(job, x, position, many, lane), many, static_cast<float>(enough),
                         lane);
  search.reach = sum * reach_factor<V>();
  search.radius = sum * sum_growth<W>(wanted.some / static_cast<float>(enough));
  T guessed = search.reach;
  for (uint32_t round = 0; round < ROUNDS && search.tests <= job.budget; round++) {
    if (round) box_of_open(&search, x, lane);
    T reach = search.reach;
    bool filled = fill_pool<V>(job, at, &search, lane);
    if (filled) {
      if (search.pooled == job.right_count) search.reach = static_cast<T>(INFINITY); /* the pool has all points */
      S::select(job, at, &search, wanted, lane);
      search.open &= ~search.failed;
    }
    bool shortened = !filled || search.reach < reach;
    search.reach = reach;
    choose_round(&search, shortened, guessed, wanted);
    if (!search.open) break;
  }
  search.open |= search.later | search.failed;
  if (search.open) give_up(job, search.open, position, lane);
  if (lane == 0) atomicAdd(job.candidates + blockIdx.x % ADJI_SPREAD, search.compared);
}

template <class V, class S>
adj_status launch_pooled(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  uint64_t threads = V::WARPS * ADJI_WARP, all = job->query_count;
  uint64_t each = job->most_blocks ? job->most_blocks * threads : all;
  knn_job<typename V::T> typed = with_types<typename V::T>(job);
  for (uint64_t first = 0; first < all; first += each) { /* one launch, unless blocks are limited */
    uint64_t many = all - first < each ? all - first : each;
    typed.first_query = first;
    typed.query_count = first + many;
    find_pooled<V, S><<<adji_blocks_for(many, threads), threads, 0, stream>>>(typed);
    ADJI_LAUNCHED(gpu, "find_pooled");
  }
  return ADJ_OK;
}

}  // namespace

#endif
