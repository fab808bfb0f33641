/* SPDX-License-Identifier: MIT
 *
 * The pooled kernel of kNN joins in few dimensions: a warp for 32 queries that are near each other, with their
 * candidates in the registers of its lanes.
 *
 * Computes: for each query q the k candidates with the smallest (s(q, c), id), in that order, where s is the canonical
 * sum.
 *
 * Input: trees and queries in device memory (adji_knn_job). Output: ids and sums, row by row, in device memory.
 *
 * A warp owns 32 consecutive queries along the curve. No list is kept while candidates are found: how far they may be
 * away is guessed first, and whether the guess was far enough is known when they are counted.
 *
 *   1. guess    a reach: a sum within which each query probably has k neighbours, from a few of the queries and the
 *               points around them along the curve
 *   2. gather   all points within the reach of the box of the queries, into a pool in shared memory. If the pool is full,
 *               the reach is shortened, and points beyond it are dropped
 *   3. select   for two queries at a time, with the pool in registers, 32 points per register: count the points within
 *               a radius until there are k or a few more, list these, and sort the list across the lanes
 *   4. repeat   for queries with fewer than k points within the reach: from step 2, with a longer one and the box of only
 *               these queries
 *
 * A row is complete: the pool has all points within the reach of a query, since a sum to the box of the queries is at most
 * that to a query (knn_search.cuh); no radius is longer than the reach; and within the radius there are k points, or
 * the reach is the query's own bound.
 *
 * The sort is by 32 bits: the sum as a fixed-point number, and the place in the pool. If two neighbours in that order have
 * the same number, the list is sorted again by sums and ids.
 *
 * Queries that do not get their rows in a few rounds are left to knn_per_query.cu: those far from all others, or with
 * too many candidates at one distance.
 *
 * Grid: one warp per 32 queries. Warps synchronise with __syncwarp only; no block waits for another.
 */
#include "gpu/knn/knn_keys.cuh"
#include "gpu/knn/knn_private.cuh"

#include <type_traits>

namespace {

/* SAMPLES: queries that the guess is made from. TRIES: for a radius. STEP: registers of candidates that are compared together. SHRINKS: of a reach. */
enum { SAMPLES = 4, TRIES = 8, STEP = 4, ROUNDS = 5, SHRINKS = 16 };
enum { SOME_LEAVES = 2 * ADJI_WARP / ADJI_TREE_LEAF, MOST_LEAVES = ADJI_WARP + SOME_LEAVES };

/* An instance. SLOTS: candidates of a lane. E: entries of a lane in the list of a query. PAIR: queries at a time.
 * BLOCKS: that should fit a multiprocessor. */
template <class W_, int SLOTS_, int E_, int PAIR_, int BLOCKS_>
struct pool_instance {
  typedef W_ W;
  typedef typename W_::T T;
  static constexpr uint32_t SLOTS = SLOTS_, E = E_, PAIR = PAIR_, POOL = SLOTS_ * ADJI_WARP, LIST = E_ * ADJI_WARP;
  static constexpr int BLOCKS = BLOCKS_;
  static constexpr uint32_t PLACE_BITS = E == 1 ? 5 : E == 2 ? 6 : E == 4 ? 7 : 8; /* of a place in a list */
  static constexpr bool IN_REGISTERS = SLOTS_ <= 24; /* more candidates stay in shared memory */
  static constexpr uint32_t WARPS = IN_REGISTERS ? 2 : 1;
  /* Leaves around the queries that the guess is made from, and points of these per lane. */
  static constexpr uint32_t WINDOW = E < 4 ? 16 : 64, WINDOW_SLOTS = WINDOW * ADJI_TREE_LEAF / ADJI_WARP;
  typedef std::conditional_t<SLOTS_ <= 32, uint32_t, uint64_t> mask;
  static_assert(SLOTS_ <= 64 && SLOTS_ % STEP == 0 && LIST == 1 << PLACE_BITS, "as masks and keys have it");
};

/* The shared memory of a warp. */
template <class V>
struct pool_shared {
  typedef pooled_point<typename V::T, V::W::DIM> point;
  point pool[V::POOL];
  point queries[ADJI_WARP]; /* with their rows as ids */
  uint16_t lists[V::PAIR][V::LIST]; /* places in the pool */
  uint32_t leaves[MOST_LEAVES];
  uint32_t masks[ADJI_GPU_LEVELS], bases[ADJI_GPU_LEVELS]; /* per level: boxes of a group still to be visited */
};

/* The search of a warp. The same in all lanes. */
template <class W>
struct pool_search {
  typename W::T low[W::ROOM], high[W::ROOM]; /* the box of the queries that have no rows yet */
  typename W::T reach, radius;               /* radius: for the next query */
  uint32_t open, failed;                     /* queries without rows; and those that cannot get one here */
  uint32_t fewest;                           /* points within the reach of an open query */
  uint32_t pooled, leaves, tests;
  unsigned long long compared;
};

/* ---- Gathering ------------------------------------------------------------------------------- */

template <class V, class T>
__device__ __forceinline__ void pool_near(const knn_job<T> &job, pool_shared<V> *at, pool_search<typename V::W> *search,
                                          const T (&x)[V::W::ROOM], uint32_t id, bool there, uint32_t lane) {
  typedef typename V::W W;
  box<W> around;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++)
    around.low[j] = around.high[j] = x[j];
  bool near = there && near_sum<W>(job, around, search->low, search->high) <= search->reach;
  uint32_t found = __ballot_sync(KNN_LANES, near), to = search->pooled + __popc(found & ((1u << lane) - 1));
  typename pool_shared<V>::point point = {};
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    point.x[j] = x[j];
  point.x[point.ID] = adji_gpu_id_as(id, T());
  if (near) at->pool[to] = point;
  search->pooled += __popc(found);
}

/* Makes room in the pool for the points of some leaves, by a shorter reach. False if that does not help. */
template <class V, class T>
__device__ __forceinline__ bool make_room(const knn_job<T> &job, pool_shared<V> *at, pool_search<typename V::W> *search,
                                          uint32_t lane) {
  for (uint32_t i = 0; search->pooled + SOME_LEAVES * ADJI_TREE_LEAF > V::POOL; i++) {
    if (i == SHRINKS) return false;
    uint32_t many = search->pooled;
    search->reach *= T(0.75);
    search->pooled = 0;
    for (uint32_t first = 0; first < many; first += ADJI_WARP) {
      typename pool_shared<V>::point point = at->pool[first + lane];
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
__device__ __forceinline__ bool pool_leaves(const knn_job<T> &job, pool_shared<V> *at, pool_search<typename V::W> *search,
                                            uint32_t lane) {
  typedef typename V::W W;
  uint32_t some = search->leaves < SOME_LEAVES ? search->leaves : SOME_LEAVES;
  if (!make_room(job, at, search, lane)) return false;
  search->leaves -= some;
  search->tests += some;
  T x[2][W::ROOM];
  uint32_t ids[2];
  bool there[2];
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t number = (i * ADJI_WARP + lane) / ADJI_TREE_LEAF;
    there[i] = number < some;
    uint64_t leaf = at->leaves[search->leaves + (there[i] ? number : 0)];
    ids[i] = load_record<W>(job, job.right_coords, job.right_ids, leaf * ADJI_TREE_LEAF + lane % ADJI_TREE_LEAF, x[i]);
  }
#pragma unroll
  for (uint32_t i = 0; i < 2; i++)
    pool_near(job, at, search, x[i], ids[i], there[i], lane);
  __syncwarp();
  return true;
}

/* Which boxes of a group are within the reach. */
template <class W, class T>
__device__ __forceinline__ uint32_t near_boxes(const knn_job<T> &job, pool_search<W> *search, uint32_t level,
                                               uint32_t base, uint32_t lane) {
  uint32_t i = base + lane;
  bool near = i < job.levels[level].count &&
              near_sum<W>(job, load_box<W>(job, job.levels[level], i), search->low, search->high) <= search->reach;
  search->tests++;
  return __ballot_sync(KNN_LANES, near);
}

/* Step 2. False if there are too many, or it takes too long. */
template <class V, class T>
__device__ __forceinline__ bool fill_pool(const knn_job<T> &job, pool_shared<V> *at, pool_search<typename V::W> *search,
                                          uint32_t lane) {
  uint32_t level = job.level_count - 1, base = 0, mask = near_boxes(job, search, level, 0, lane);
  search->pooled = search->leaves = 0;
  for (;;) {
    bool found = level == 0; /* base and mask are of leaves */
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

/* ---- Counting -------------------------------------------------------------------------------- */

/* The candidates of a lane: in registers, or in shared memory, lane by lane. What is missing is NaN, and within no
 * radius. */
template <class V>
struct lane_pool {
  typename V::T x[V::IN_REGISTERS ? V::SLOTS : V::WINDOW_SLOTS][V::W::ROOM];
};

/* A query during selection. The same in all lanes, except for mask. */
template <class V>
struct selection {
  typename V::T x[V::W::ROOM], radius, most; /* most: of the radius */
  typename V::mask mask;                     /* the lane's candidates within the radius */
  uint32_t row, count;                       /* count: those of all lanes */
};

/* Hides that a value does not change. Otherwise the compiler keeps sums for another radius, which takes more registers
 * than there are. */
__device__ __forceinline__ void renew(float *x) {
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

/* 1 or 0, in one instruction. */
__device__ __forceinline__ float is_within(float s, float radius) {
  float within;
  asm("set.le.f32.f32 %0, %1, %2;" : "=f"(within) : "f"(s), "f"(radius));
  return within;
}

/* Compares one candidate of the lane with each query. */
template <class V, int MANY, class T>
__device__ __forceinline__ void compare_slot(const knn_job<T> &job, const T (&c)[V::W::ROOM], uint32_t slot,
                                             selection<V> (&of)[MANY]) {
#pragma unroll
  for (int q = 0; q < MANY; q++)
    if (sum_of<typename V::W>(job, of[q].x, c) <= of[q].radius) of[q].mask |= static_cast<typename V::mask>(1) << slot;
}

template <class V, class T>
__device__ __forceinline__ void load_slot(const pool_shared<V> *at, uint32_t slot, T (&c)[V::W::ROOM], uint32_t lane) {
  typename pool_shared<V>::point point = at->pool[slot * ADJI_WARP + lane];
#pragma unroll
  for (int j = 0; j < V::W::DIM; j++)
    c[j] = point.x[j];
}

/* Sets the mask of each query, from candidates in registers. slots: how many. Masks are added up as numbers, which are
 * exact up to 24 bits: that unit has less to do than the one for integers and comparisons. */
template <class V, int MANY, class T>
__device__ __forceinline__ void compare_registers(const knn_job<T> &job, const lane_pool<V> &pool, uint32_t slots,
                                                  selection<V> (&of)[MANY]) {
  constexpr uint32_t MOST = sizeof pool.x / sizeof pool.x[0];
  static_assert(MOST <= 24, "of a number");
  float masks[MANY];
#pragma unroll
  for (int q = 0; q < MANY; q++) {
    masks[q] = 0;
#pragma unroll
    for (int j = 0; j < V::W::DIM; j++)
      renew(&of[q].x[j]);
  }
#pragma unroll
  for (uint32_t first = 0; first < MOST; first += STEP) {
    if (first >= slots) break;
#pragma unroll
    for (uint32_t j = first; j < first + STEP; j++)
#pragma unroll
      for (int q = 0; q < MANY; q++) {
        float within = is_within(sum_of<typename V::W>(job, of[q].x, pool.x[j]), of[q].radius);
        masks[q] = __fmaf_rn(within, static_cast<float>(1u << j), masks[q]);
      }
  }
#pragma unroll
  for (int q = 0; q < MANY; q++)
    of[q].mask = static_cast<uint32_t>(masks[q]);
}

/* The same, from wherever they are. */
template <class V, class T>
__device__ __forceinline__ void compare_slots(const knn_job<T> &job, const pool_shared<V> *at, const lane_pool<V> &pool,
                                              uint32_t slots, selection<V> (&of)[V::PAIR], uint32_t lane) {
  if constexpr (V::IN_REGISTERS) {
    compare_registers(job, pool, slots, of);
    return;
  }
#pragma unroll
  for (uint32_t q = 0; q < V::PAIR; q++)
    of[q].mask = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < slots; first += STEP) {
    T c[STEP][V::W::ROOM];
#pragma unroll
    for (uint32_t j = 0; j < STEP; j++)
      load_slot<V>(at, first + j, c[j], lane);
#pragma unroll
    for (uint32_t j = 0; j < STEP; j++)
      compare_slot<V>(job, c[j], first + j, of);
  }
}

template <class W>
__device__ __forceinline__ float grown(float ratio) { /* of sums, where the number of points grows by that */
  return exp2f(log2f(ratio) * (2.0f / W::DIM));
}

template <class V, class T>
__device__ __forceinline__ void load_query(const pool_shared<V> *at, uint32_t number, selection<V> *of) {
  typename pool_shared<V>::point point = at->queries[number];
#pragma unroll
  for (int j = 0; j < V::W::DIM; j++)
    of->x[j] = point.x[j];
  of->row = adji_gpu_id(point.x[point.ID]);
}

/* Step 1: the least sum, of some queries, within which there are about as many as wanted. window: the first of the
 * leaves; many: active queries, which are the first ones. */
template <class V, class T>
__device__ __forceinline__ T guess_reach(const knn_job<T> &job, const pool_shared<V> *at,
                                         const pool_search<typename V::W> &search, uint32_t window, uint32_t many,
                                         float wanted, uint32_t lane) {
  typedef typename V::W W;
  lane_pool<V> pool;
#pragma unroll
  for (uint32_t j = 0; j < V::WINDOW_SLOTS; j++) {
    uint64_t i = static_cast<uint64_t>(window) * ADJI_TREE_LEAF + j * ADJI_WARP + lane;
    if (i < job.right_count)
      load_record<W>(job, job.right_coords, job.right_ids, i, pool.x[j]);
    else
      pool.x[j][0] = static_cast<T>(NAN);
  }
  float volume = wanted / (4 * ADJI_WARP), widest = 0;
#pragma unroll
  for (int j = 0; j < W::DIM; j++) {
    float wide = static_cast<float>(search.high[j] - search.low[j]);
    volume *= wide;
    widest = fmaxf(widest, wide);
  }
  T sum = grown<W>(volume), least = static_cast<T>(INFINITY);
  if (!(sum > 0)) sum = widest * widest;
  for (uint32_t i = 0; i < SAMPLES; i++) {
    selection<V> of[1];
    load_query<V, T>(at, (2 * i + 1) * many / (2 * SAMPLES), &of[0]);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
      of[0].radius = sum;
      compare_registers(job, pool, V::WINDOW_SLOTS, of);
      float count = static_cast<float>(__reduce_add_sync(KNN_LANES, bits_of(of[0].mask)));
      sum *= grown<W>(wanted / fmaxf(count, 0.25f * wanted));
      if (count >= 0.5f * wanted && count <= 2 * wanted) break;
    }
    if (sum < least) least = sum;
  }
  return least;
}

/* ---- Selecting ------------------------------------------------------------------------------- */

/* How many points a query wants within its radius: so many are enough, most fit the list, and about `some` are tried
 * for. */
struct wanted_points {
  uint32_t enough, most;
  float some;
};

/* Adjusts the radius of a query, within the bounds found so far. True if the count is as wanted, or the radius as long as
 * it can be. */
template <class V, class T>
__device__ __forceinline__ bool adjust_radius(const wanted_points &wanted, selection<V> *of, T *low, T *high) {
  bool few = of->count < wanted.enough, many = of->count > wanted.most;
  if (!many && (!few || of->radius >= of->most)) return true;
  if (few)
    *low = of->radius;
  else
    *high = of->radius;
  T next = of->radius * grown<typename V::W>(wanted.some / fmaxf(static_cast<float>(of->count), 1.0f));
  if (!(next > *low && next < *high)) next = T(0.5) * *low + T(0.5) * *high;
  of->radius = next < of->most ? next : of->most;
  return false;
}

/* Counts candidates within the radius, adjusts it until the count is as wanted, and lists them. False: no radius has
 * a count as wanted. */
template <class V, class T>
__device__ __forceinline__ bool find_radius(const knn_job<T> &job, pool_shared<V> *at, const lane_pool<V> &pool,
                                            uint32_t slots, const wanted_points &wanted, selection<V> (&of)[V::PAIR],
                                            uint32_t lane) {
  T low[V::PAIR], high[V::PAIR];
#pragma unroll
  for (uint32_t q = 0; q < V::PAIR; q++) {
    low[q] = 0;
    high[q] = static_cast<T>(INFINITY);
  }
#pragma unroll 1
  for (uint32_t tries = 0; tries < TRIES; tries++) {
    compare_slots(job, at, pool, slots, of, lane);
    uint32_t mine = 0; /* 16 bits for each query */
#pragma unroll
    for (uint32_t q = 0; q < V::PAIR; q++)
      mine |= bits_of(of[q].mask) << 16 * q;
    uint32_t sum = mine;
#pragma unroll
    for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
      uint32_t before = __shfl_up_sync(KNN_LANES, sum, step);
      if (lane >= step) sum += before;
    }
    uint32_t all = __shfl_sync(KNN_LANES, sum, ADJI_WARP - 1);
    bool done = true;
#pragma unroll
    for (uint32_t q = 0; q < V::PAIR; q++) {
      of[q].count = all >> 16 * q & 0xffff;
      if (!adjust_radius(wanted, &of[q], &low[q], &high[q])) done = false;
    }
    if (!done) continue;
#pragma unroll
    for (uint32_t q = 0; q < V::PAIR; q++) {
      uint32_t to = (sum - mine) >> 16 * q & 0xffff;
      for (typename V::mask mask = of[q].mask; mask; mask &= mask - 1)
        at->lists[q][to++] = static_cast<uint16_t>(first_bit(mask) * ADJI_WARP + lane);
    }
    __syncwarp();
    return true;
  }
  return false;
}

/* An entry of a list: a point and the sum to the query. */
template <class T>
struct list_point {
  T s;
  uint32_t id;
};

template <class V, class T>
__device__ __forceinline__ list_point<T> sum_at(const knn_job<T> &job, const pool_shared<V> *at,
                                                const T (&x)[V::W::ROOM], uint32_t place) {
  typename pool_shared<V>::point point = at->pool[place];
  T c[V::W::ROOM];
#pragma unroll
  for (int j = 0; j < V::W::DIM; j++)
    c[j] = point.x[j];
  return list_point<T>{sum_of<typename V::W>(job, x, c), adji_gpu_id(point.x[point.ID])};
}

/* ---- Sorting --------------------------------------------------------------------------------- */

/* Keys are sorted as numbers of f32: positive ones, whose bits order as they do. */
constexpr uint32_t NO_KEY = 0x7f7fffff;

/* The key of a sum: a fixed-point number, monotone in s, and the place in the list. */
template <class V>
__device__ __forceinline__ constexpr uint32_t last_number() {
  return (NO_KEY >> V::PLACE_BITS) - 1;
}
template <class V, class T>
__device__ __forceinline__ uint32_t key_of(T s, T scale, uint32_t place) {
  uint32_t number = static_cast<uint32_t>(s * scale); /* conversions saturate, and NaN is 0 */
  return (number < last_number<V>() ? number : last_number<V>()) << V::PLACE_BITS | place;
}

/* A step of a sorting network across the lanes: those whose number has the bit `step` keep the larger of their key and
 * the key of lane ^ other. Keys are negative in these lanes, so that all keep the lesser one. */
__device__ __forceinline__ float sign_of(uint32_t step, uint32_t lane) {
  return lane & step ? -1.0f : 1.0f;
}
__device__ __forceinline__ void exchange(float *key, uint32_t other) {
  *key = fminf(*key, -__shfl_xor_sync(KNN_LANES, *key, other));
}

/* Sorts E keys per lane, entry 32 e + l in lane l; MANY such lists. A sorted run and the next one read backwards are
 * bitonic. Of two runs of 32 only the lesser half is sorted in the end. */
template <int E, int MANY>
__device__ __forceinline__ void sort_keys(float (&keys)[MANY][E], uint32_t lane) {
  float sign = 1; /* of all keys */
#pragma unroll
  for (uint32_t size = 2; size <= ADJI_WARP; size *= 2)
#pragma unroll
    for (uint32_t step = size / 2; step; step /= 2) {
      float turned = sign * sign_of(step, lane);
      sign = sign_of(step, lane);
#pragma unroll
      for (int e = 0; e < MANY * E; e++) {
        keys[e / E][e % E] *= turned;
        exchange(&keys[e / E][e % E], step == size / 2 ? size - 1 : step);
      }
    }
#pragma unroll
  for (int e = 0; e < MANY * E; e++)
    keys[e / E][e % E] *= sign;
#pragma unroll
  for (int run = 2; run <= E; run *= 2) {
#pragma unroll
    for (int e = 0; e < MANY * E; e++) {
      int other = e ^ (run - 1);
      if (other < e) continue;
      float *a = &keys[e / E][e % E], *b = &keys[other / E][other % E], first = *a;
      *a = fminf(first, __shfl_xor_sync(KNN_LANES, *b, ADJI_WARP - 1));
      *b = fmaxf(*b, __shfl_xor_sync(KNN_LANES, first, ADJI_WARP - 1));
    }
#pragma unroll
    for (int step = run / 4; step; step /= 2)
#pragma unroll
      for (int e = 0; e < MANY * E; e++) {
        if (e & step) continue;
        float *a = &keys[e / E][e % E], *b = &keys[(e + step) / E][(e + step) % E], first = *a;
        *a = fminf(first, *b);
        *b = fmaxf(first, *b);
      }
    sign = 1;
#pragma unroll
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
      float turned = sign * sign_of(step, lane);
      sign = sign_of(step, lane);
#pragma unroll
      for (int e = 0; e < MANY * E; e++) {
        if (E == 2 && e % E) continue;
        keys[e / E][e % E] *= turned;
        exchange(&keys[e / E][e % E], step);
      }
    }
#pragma unroll
    for (int e = 0; e < MANY * E; e++)
      if (E != 2 || e % E == 0) keys[e / E][e % E] *= sign;
  }
}

template <class T>
__device__ __forceinline__ list_key<T> key_of_lane(const list_key<T> &key, uint32_t other) {
  return list_key<T>::of(__shfl_xor_sync(KNN_LANES, key.sum(), other), __shfl_xor_sync(KNN_LANES, key.id(), other));
}

/* The same step for keys of sums and ids; equal keys are identical. */
template <int E, class T>
__device__ __forceinline__ void exchange_all(list_key<T> (&keys)[E], uint32_t step, uint32_t other, uint32_t lane) {
#pragma unroll
  for (int e = 0; e < E; e++) {
    list_key<T> key = key_of_lane(keys[e], other);
    if (key.before(keys[e]) == !(lane & step)) keys[e] = key;
  }
}

/* Sorts keys of sums and ids in the same way. That is seldom needed, so its code is short rather than fast. */
template <int E, class T>
__device__ __forceinline__ void sort_exactly(list_key<T> (&keys)[E], uint32_t lane) {
#pragma unroll 1
  for (uint32_t size = 2; size <= ADJI_WARP; size *= 2)
#pragma unroll 1
    for (uint32_t step = size / 2; step; step /= 2)
      exchange_all(keys, step, step == size / 2 ? size - 1 : step, lane);
#pragma unroll
  for (int run = 2; run <= E; run *= 2) {
#pragma unroll
    for (int e = 0; e < E; e++) {
      int other = e ^ (run - 1);
      if (other < e) continue;
      list_key<T> a = key_of_lane(keys[other], ADJI_WARP - 1), b = key_of_lane(keys[e], ADJI_WARP - 1);
      if (a.before(keys[e])) keys[e] = a;
      if (keys[other].before(b)) keys[other] = b;
    }
#pragma unroll
    for (int step = run / 4; step; step /= 2)
#pragma unroll
      for (int e = 0; e < E; e++)
        if (!(e & step)) put_in_order(&keys[e], &keys[e + step]);
#pragma unroll 1
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
      exchange_all(keys, step, step, lane);
  }
}

/* Whether two entries of the result, or the last one and one that is not in it, have the same number. */
template <class V>
__device__ __forceinline__ bool has_ties(const uint32_t (&keys)[V::E], uint32_t k, uint32_t lane) {
  bool same = false;
#pragma unroll
  for (uint32_t e = 0; e < (V::E == 2 ? 1 : V::E); e++) {
    uint32_t after = NO_KEY, next = __shfl_down_sync(KNN_LANES, keys[e], 1);
    if (V::E == 2) after = __reduce_min_sync(KNN_LANES, keys[V::E - 1]);
    if (V::E > 2 && e + 1 < V::E) after = __shfl_sync(KNN_LANES, keys[(e + 1) % V::E], 0);
    if (lane == ADJI_WARP - 1) next = after;
    same |= e * ADJI_WARP + lane < k && keys[e] != NO_KEY && keys[e] >> V::PLACE_BITS == next >> V::PLACE_BITS;
  }
  return __any_sync(KNN_LANES, same);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

template <class T>
__device__ __forceinline__ void write_entry(const knn_job<T> &job, uint64_t to, T s, uint32_t id) {
  job.ids[to] = id;
  job.sums[to] = id == ADJ_NO_ID ? static_cast<T>(INFINITY) : job.root ? adji_root(s) : s;
}

/* Sorts the list of a query by sums and ids, and writes its row. */
template <class V, class T>
__device__ __forceinline__ void write_exactly(const knn_job<T> &job, const pool_shared<V> *at, uint32_t number,
                                              const uint16_t *list, uint32_t count, uint32_t lane) {
  selection<V> of;
  load_query<V, T>(at, number, &of);
  list_key<T> keys[V::E];
#pragma unroll
  for (uint32_t e = 0; e < V::E; e++) {
    uint32_t i = e * ADJI_WARP + lane;
    list_point<T> point = sum_at<V>(job, at, of.x, i < count ? list[i] : 0);
    bool there = i < count && !(job.drop_self && point.id == of.row);
    keys[e] = there ? list_key<T>::of(point.s, point.id) : list_key<T>::last();
  }
  sort_exactly(keys, lane);
  uint64_t to = entries_of(job, of.row);
#pragma unroll
  for (uint32_t e = 0; e < V::E; e++)
    if (e * ADJI_WARP + lane < job.k) write_entry(job, to + e * ADJI_WARP + lane, keys[e].sum(), keys[e].id());
}

/* Sorts the lists of queries and writes their rows. numbers: of the queries; written: which of them get rows. */
template <class V, class T>
__device__ __forceinline__ void write_lists(const knn_job<T> &job, const pool_shared<V> *at,
                                            const selection<V> (&of)[V::PAIR], const uint32_t (&numbers)[V::PAIR],
                                            const bool (&written)[V::PAIR], uint32_t lane) {
  float sorted[V::PAIR][V::E];
  uint32_t ties = 0;
#pragma unroll
  for (uint32_t q = 0; q < V::PAIR; q++) {
    T scale = static_cast<T>(last_number<V>()) / of[q].radius;
#pragma unroll
    for (uint32_t e = 0; e < V::E; e++) {
      uint32_t i = e * ADJI_WARP + lane;
      list_point<T> point = sum_at<V>(job, at, of[q].x, i < of[q].count ? at->lists[q][i] : 0);
      bool there = i < of[q].count && !(job.drop_self && point.id == of[q].row);
      sorted[q][e] = __uint_as_float(there ? key_of<V>(point.s, scale, i) : NO_KEY);
    }
  }
  sort_keys(sorted, lane);
#pragma unroll
  for (uint32_t q = 0; q < V::PAIR; q++) {
    if (!written[q]) continue;
    uint32_t keys[V::E];
#pragma unroll
    for (uint32_t e = 0; e < V::E; e++)
      keys[e] = __float_as_uint(sorted[q][e]);
    if (has_ties<V>(keys, job.k, lane)) {
      ties |= 1u << q;
      continue;
    }
    uint64_t to = entries_of(job, of[q].row);
#pragma unroll
    for (uint32_t e = 0; e < V::E; e++) {
      if (e * ADJI_WARP + lane >= job.k) continue;
      bool there = keys[e] != NO_KEY;
      uint32_t place = there ? at->lists[q][keys[e] & (V::LIST - 1)] : 0;
      list_point<T> point = sum_at<V>(job, at, of[q].x, place);
      write_entry(job, to + e * ADJI_WARP + lane, point.s, there ? point.id : ADJ_NO_ID);
    }
  }
#pragma unroll 1
  for (; ties; ties &= ties - 1) {
    bool first = ties & 1;
    write_exactly<V>(job, at, first ? numbers[0] : numbers[V::PAIR - 1], first ? at->lists[0] : at->lists[V::PAIR - 1],
                     first ? of[0].count : of[V::PAIR - 1].count, lane);
  }
  __syncwarp();
}

/* Step 3, for V::PAIR queries. */
template <class V, class T>
__device__ __forceinline__ void select_some(const knn_job<T> &job, pool_shared<V> *at, const lane_pool<V> &pool,
                                            pool_search<typename V::W> *search, const uint32_t (&numbers)[V::PAIR],
                                            const wanted_points &wanted, uint32_t lane) {
  selection<V> of[V::PAIR];
  bool within[V::PAIR]; /* the reach, which then has all that the query may have */
#pragma unroll
  for (uint32_t q = 0; q < V::PAIR; q++) {
    load_query<V, T>(at, numbers[q], &of[q]);
    T bound = bound_of(job, of[q].row);
    within[q] = bound <= search->reach;
    of[q].most = within[q] ? bound : search->reach;
    of[q].radius = search->radius < of[q].most ? search->radius : of[q].most;
  }
  uint32_t slots = (search->pooled + ADJI_WARP - 1) / ADJI_WARP;
  search->compared += search->pooled * V::PAIR;
  if (!find_radius(job, at, pool, slots, wanted, of, lane)) {
#pragma unroll
    for (uint32_t q = 0; q < V::PAIR; q++)
      search->failed |= 1u << numbers[q];
    return;
  }
#pragma unroll
  for (uint32_t q = 0; q < V::PAIR; q++) {
    if (of[q].radius < of[q].most) /* the next query is near: its radius is about that */
      search->radius = of[q].radius * (1 + (wanted.some - static_cast<float>(of[q].count)) / (wanted.some * V::W::DIM));
    within[q] |= of[q].count >= wanted.enough;
    if (within[q])
      search->open &= ~(1u << numbers[q]);
    else
      search->fewest = min(search->fewest, of[q].count);
  }
  write_lists<V>(job, at, of, numbers, within, lane);
}

template <class V, class T>
__device__ __forceinline__ void select_all(const knn_job<T> &job, pool_shared<V> *at, pool_search<typename V::W> *search,
                                           const wanted_points &wanted, uint32_t lane) {
  uint32_t step = STEP * ADJI_WARP, padded = (search->pooled + step - 1) / step * step;
  for (uint32_t i = search->pooled + lane; i < padded; i += ADJI_WARP)
    at->pool[i].x[0] = static_cast<T>(NAN);
  __syncwarp();
  lane_pool<V> pool;
  if constexpr (V::IN_REGISTERS) {
#pragma unroll
    for (uint32_t first = 0; first < V::SLOTS; first += STEP) {
      if (first * ADJI_WARP >= search->pooled) break;
#pragma unroll
      for (uint32_t j = first; j < first + STEP; j++)
        load_slot<V>(at, j, pool.x[j], lane);
    }
  }
  search->fewest = UINT32_MAX;
#pragma unroll 1
  for (uint32_t todo = search->open; todo;) {
    uint32_t numbers[V::PAIR];
#pragma unroll
    for (uint32_t q = 0; q < V::PAIR; q++) { /* the last one may be there twice */
      numbers[q] = q && !todo ? numbers[q - 1] : __ffs(todo) - 1;
      todo &= todo - 1;
    }
    select_some(job, at, pool, search, numbers, wanted, lane);
  }
}

/* ---- The kernel ------------------------------------------------------------------------------ */

/* Sets the box of the open queries. x: of the lane's query. */
template <class W, class T>
__device__ __forceinline__ void box_of_open(pool_search<W> *search, const T (&x)[W::ROOM], uint32_t lane) {
  bool open = search->open >> lane & 1;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++) {
    search->high[j] = warp_largest(open ? x[j] : static_cast<T>(-INFINITY));
    search->low[j] = -warp_largest(open ? -x[j] : static_cast<T>(-INFINITY));
  }
}

/* Leaves the open queries to another kernel. */
template <class T>
__device__ __forceinline__ void give_up(const knn_job<T> &job, uint32_t open, uint64_t position, uint32_t lane) {
  unsigned long long to = 0;
  if (lane == 0) to = atomicAdd(job.hard_count, static_cast<unsigned long long>(__popc(open)));
  to = __shfl_sync(KNN_LANES, to, 0) + __popc(open & ((1u << lane) - 1));
  if (open >> lane & 1) job.hard[to] = static_cast<uint32_t>(position);
}

/* The first leaf of the window: around the queries, or in the group nearest to the one in their middle. */
template <class V, class T>
__device__ __forceinline__ uint32_t window_of(const knn_job<T> &job, const T (&mine)[V::W::ROOM], uint64_t position,
                                              uint32_t many, uint32_t lane) {
  uint32_t leaf;
  if (job.same_sets) {
    leaf = __shfl_sync(KNN_LANES, static_cast<uint32_t>(position / ADJI_TREE_LEAF), many / 2);
  } else {
    T x[V::W::ROOM];
#pragma unroll
    for (int j = 0; j < V::W::ROOM; j++)
      x[j] = __shfl_sync(KNN_LANES, mine[j], many / 2);
    leaf = find_group<typename V::W>(job, x, lane) + ADJI_GPU_FAN / 2;
  }
  uint32_t first = leaf > V::WINDOW / 2 ? leaf - V::WINDOW / 2 : 0, all = job.levels[0].count;
  return first + V::WINDOW <= all ? first : all > V::WINDOW ? all - V::WINDOW : 0;
}

template <class V>
__global__ void __launch_bounds__(V::WARPS *ADJI_WARP, V::BLOCKS) find_pooled(const knn_job<typename V::T> job) {
  typedef typename V::W W;
  typedef typename V::T T;
  __shared__ pool_shared<V> memory[V::WARPS];
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  uint64_t query = job.first_query + (static_cast<uint64_t>(blockIdx.x) * V::WARPS + warp) * ADJI_WARP + lane;
  bool active = query < job.query_count;
  pool_search<W> search = {};
  search.open = __ballot_sync(KNN_LANES, active);
  if (!search.open) return;
  uint64_t position = job.queries && active ? job.queries[query] : query;
  pool_shared<V> *at = &memory[warp];
  T x[W::ROOM] = {};
  uint32_t row = active ? load_record<W>(job, job.left_coords, job.left_ids, position, x) : ADJ_NO_ID;
  typename pool_shared<V>::point point = {};
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    point.x[j] = x[j];
  point.x[point.ID] = adji_gpu_id_as(row, T());
  at->queries[lane] = point;
  __syncwarp();
  box_of_open(&search, x, lane);
  uint32_t many = __popc(search.open), enough = job.k + job.drop_self;
  wanted_points wanted = {enough, V::LIST, sqrtf(static_cast<float>(enough * V::LIST))};
  T sum = guess_reach<V>(job, at, search, window_of<V>(job, x, position, many, lane), many, static_cast<float>(enough), lane);
  search.reach = sum * job.stretch;
  search.radius = sum * grown<W>(wanted.some / static_cast<float>(enough));
  for (uint32_t round = 0; round < ROUNDS; round++) {
    if (round) box_of_open(&search, x, lane);
    if (!fill_pool(job, at, &search, lane)) break;
    select_all(job, at, &search, wanted, lane);
    search.open &= ~search.failed;
    if (!search.open) break;
    float least = static_cast<float>(max(search.fewest, 1u));
    search.reach *= 1.2f * grown<W>(fminf(1.2f * wanted.enough / least, 64.0f));
  }
  search.open |= search.failed;
  if (search.open) give_up(job, search.open, position, lane);
  if (lane == 0) atomicAdd(job.candidates + blockIdx.x % ADJI_SPREAD, search.compared);
}

template <class V>
adj_status launch_pooled(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  uint64_t threads = V::WARPS * ADJI_WARP, all = job->query_count;
  uint64_t each = job->most_blocks ? job->most_blocks * threads : all;
  knn_job<typename V::T> typed = with_types<typename V::T>(job);
  typed.stretch = getenv("KNN_C") ? atof(getenv("KNN_C")) : V::E == 1 ? 2.2f : 1.5f;
  for (uint64_t first = 0; first < all; first += each) { /* one launch, unless blocks are limited */
    uint64_t many = all - first < each ? all - first : each;
    typed.first_query = first;
    typed.query_count = first + many;
    find_pooled<V><<<adji_blocks_for(many, threads), threads, 0, stream>>>(typed);
    ADJI_LAUNCHED(gpu, "find_pooled");
  }
  return ADJ_OK;
}

template <int DIM, int SLOTS, int E, int PAIR, int BLOCKS>
adj_status launch_as(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  typedef knn_instance<float, ADJI_STEP_L2, DIM> W;
  return launch_pooled<pool_instance<W, SLOTS, E, PAIR, BLOCKS>>(gpu, stream, job);
}

}  // namespace

bool adji_knn_has_pooled(adj_type type, int step, uint32_t dim, uint32_t k) {
  return type == ADJ_F32 && (dim == 2 || dim == 3) && step == ADJI_STEP_L2 && k <= ADJI_MOST_POOLED;
}

adj_status adji_knn_pooled(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  uint32_t k = job->k;
  if (job->dim == 2) {
    if (k <= 16) return launch_as<2, 8, 1, 2, 12>(gpu, stream, job);
    if (k <= 32) return launch_as<2, 12, 2, 2, 10>(gpu, stream, job);
    return k <= 80 ? launch_as<2, 16, 4, 1, 8>(gpu, stream, job) : launch_as<2, 24, 8, 1, 7>(gpu, stream, job);
  }
  if (k <= 16) return launch_as<3, 12, 1, 2, 10>(gpu, stream, job);
  if (k <= 32) return launch_as<3, 20, 2, 2, 8>(gpu, stream, job);
  return k <= 80 ? launch_as<3, 32, 4, 1, 12>(gpu, stream, job) : launch_as<3, 52, 8, 1, 8>(gpu, stream, job);
}
