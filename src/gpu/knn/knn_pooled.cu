/* SPDX-License-Identifier: MIT
 *
 * The pooled kernel of kNN joins (knn_pool.cuh) for lists of 15 and more entries. Lanes hold candidates.
 *
 * Computes: for each query q the k candidates with the smallest (s(q, c), id), in that order, where s is the canonical
 * sum.
 *
 * Input: trees and queries in device memory (adji_knn_job). Output: ids and sums, row by row, in device memory.
 *
 * Two queries at a time, with the pool in registers, 32 points per register, or in shared memory for long lists:
 *
 *   1. count    the points within a radius, which is that of the query before; adjust the radius until there are k, and
 *               no more than a list has room for
 *   2. list     the places of these points
 *   3. sort     the list across the lanes, by 32 bits: the sum as a fixed-point number, and the place in the list. If
 *               two neighbours in that order have the same number, the list is sorted again by sums and ids
 *   4. write    the row, a lane per entry
 *
 * No radius is longer than the reach, so the pool misses none of the k nearest.
 */
#include "gpu/knn/knn_pool.cuh"

namespace {

template <class V>
struct pool_shared : pool_memory<V> {
  uint16_t lists[V::PAIR][V::LIST]; /* places in the pool */
};

/* ---- Counting -------------------------------------------------------------------------------- */

template <class V, class T>
__device__ __forceinline__ void load_slot(const pool_memory<V> *at, uint32_t slot, T (&c)[V::W::ROOM], uint32_t lane) {
  typename pool_memory<V>::point point = at->pool[slot * ADJI_WARP + lane];
#pragma unroll
  for (int j = 0; j < V::W::DIM; j++)
    c[j] = point.x[j];
}

/* Sets the mask of each query, from candidates in registers or in shared memory. */
template <class V, class T>
__device__ __forceinline__ void compare_slots(const knn_job<T> &job, const pool_memory<V> *at, const lane_pool<V> &pool,
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

/* ---- Selecting ------------------------------------------------------------------------------- */

/* Adjusts the radius of a query, within the bounds found so far. True if the count is as wanted, or if there are too
 * few points and the radius cannot be longer. */
template <class V, class T>
__device__ __forceinline__ bool adjust_radius(const wanted_points &wanted, selection<V> *of, T *low, T *high) {
  bool few = of->count<wanted.enough, many = of->count> wanted.most;
  if (!many && (!few || of->radius >= of->most)) return true;
  if (few)
    *low = of->radius;
  else
    *high = of->radius;
  T next = of->radius * sum_growth<typename V::W>(wanted.some / fmaxf(static_cast<float>(of->count), 1.0f));
  if (!(next > *low && next < *high)) next = T(0.5) * *low + T(0.5) * *high;
  of->radius = next < of->most ? next : of->most;
  return false;
}

/* Counts the candidates within the radius of each query, adjusts the radius until the count is as wanted, and lists the
 * candidates. False: no such radius was found. */
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
    uint32_t own_counts = 0; /* 16 bits for each query */
#pragma unroll
    for (uint32_t q = 0; q < V::PAIR; q++)
      own_counts |= bits_of(of[q].mask) << 16 * q;
    uint32_t sum = own_counts;
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
      uint32_t to = (sum - own_counts) >> 16 * q & 0xffff;
      for (typename V::mask mask = of[q].mask; mask; mask &= mask - 1)
        at->lists[q][to++] = static_cast<uint16_t>(first_bit(mask) * ADJI_WARP + lane);
    }
    __syncwarp();
    return true;
  }
  return false;
}

/* ---- Sorting --------------------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t of_lane(uint32_t key, uint32_t other) {
  return __shfl_xor_sync(KNN_LANES, key, other);
}
template <class T>
__device__ __forceinline__ list_key<T> of_lane(const list_key<T> &key, uint32_t other) {
  return list_key<T>::of(__shfl_xor_sync(KNN_LANES, key.sum(), other), __shfl_xor_sync(KNN_LANES, key.id(), other));
}
__device__ __forceinline__ uint32_t lesser_of(uint32_t a, uint32_t b, bool lesser) {
  return lesser ? min(a, b) : max(a, b);
}
template <class T>
__device__ __forceinline__ list_key<T> lesser_of(const list_key<T> &a, const list_key<T> &b, bool lesser) {
  return b.before(a) == lesser ? b : a;
}

/* Sorts E keys per lane, entry 32 e + l in lane l; MANY such lists. A sorted run and the next one read backwards are
 * bitonic. If E is 2, only the first run of 32 is sorted in the end. UNROLLED: whether the steps across lanes are
 * unrolled. */
template <int E, int MANY, int UNROLLED, class KEY>
__device__ __forceinline__ void sort_keys(KEY (&keys)[MANY][E], uint32_t lane) {
#pragma unroll UNROLLED
  for (uint32_t size = 2; size <= ADJI_WARP; size *= 2)
#pragma unroll UNROLLED
    for (uint32_t step = size / 2; step; step /= 2)
#pragma unroll
      for (int e = 0; e < MANY * E; e++) {
        KEY *key = &keys[e / E][e % E];
        *key = lesser_of(*key, of_lane(*key, step == size / 2 ? size - 1 : step), !(lane & step));
      }
#pragma unroll
  for (int run = 2; run <= E; run *= 2) {
#pragma unroll
    for (int e = 0; e < MANY * E; e++) {
      int other = e ^ (run - 1);
      if (other < e) continue;
      KEY *a = &keys[e / E][e % E], *b = &keys[other / E][other % E], first = *a;
      *a = lesser_of(first, of_lane(*b, ADJI_WARP - 1), true);
      *b = lesser_of(*b, of_lane(first, ADJI_WARP - 1), false);
    }
#pragma unroll
    for (int step = run / 4; step; step /= 2)
#pragma unroll
      for (int e = 0; e < MANY * E; e++) {
        if (e & step) continue;
        KEY *a = &keys[e / E][e % E], *b = &keys[(e + step) / E][(e + step) % E], first = *a;
        *a = lesser_of(first, *b, true);
        *b = lesser_of(first, *b, false);
      }
#pragma unroll UNROLLED
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
#pragma unroll
      for (int e = 0; e < MANY * E; e++) {
        if (E == 2 && e % E) continue;
        KEY *key = &keys[e / E][e % E];
        *key = lesser_of(*key, of_lane(*key, step), !(lane & step));
      }
  }
}

constexpr uint32_t NO_KEY = UINT32_MAX;

/* The key of a sum: a fixed-point number, monotone in s, and the place in the list. */
template <class V, class T>
__device__ __forceinline__ uint32_t key_of(T s, T scale, uint32_t place) {
  constexpr uint32_t LAST = (1u << (32 - V::PLACE_BITS)) - 2;
  uint32_t number = static_cast<uint32_t>(s * scale); /* conversions saturate, and NaN is 0 */
  return (number < LAST ? number : LAST) << V::PLACE_BITS | place;
}

/* Whether two neighbouring entries of the result, or its last entry and the one after it, have the same number. */
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

/* Sorts the list of a query by sums and ids, and writes its row. */
template <class V, class T>
__device__ __forceinline__ void write_exactly(const knn_job<T> &job, const pool_shared<V> *at, uint32_t number,
                                              const uint16_t *list, uint32_t count, uint32_t lane) {
  selection<V> of;
  load_query<V, T>(at, number, &of);
  list_key<T> keys[1][V::E];
#pragma unroll
  for (uint32_t e = 0; e < V::E; e++) {
    uint32_t i = e * ADJI_WARP + lane;
    list_point<T> point = sum_at<V>(job, at, of.x, i < count ? list[i] : 0);
    bool there = i < count && !(job.drop_self && point.id == of.row);
    keys[0][e] = there ? list_key<T>::of(point.s, point.id) : list_key<T>::last();
  }
  sort_keys<V::E, 1, 1>(keys, lane);
  uint64_t to = entries_of(job, of.row);
#pragma unroll
  for (uint32_t e = 0; e < V::E; e++)
    if (e * ADJI_WARP + lane < job.k) write_entry(job, to + e * ADJI_WARP + lane, keys[0][e].sum(), keys[0][e].id());
}

/* Sorts the lists of queries and writes their rows. numbers: the queries' numbers; written: which of them get rows. */
template <class V, class T>
__device__ __forceinline__ void write_lists(const knn_job<T> &job, const pool_shared<V> *at,
                                            const selection<V> (&of)[V::PAIR], const uint32_t (&numbers)[V::PAIR],
                                            const bool (&written)[V::PAIR], uint32_t lane) {
  uint32_t keys[V::PAIR][V::E], ties = 0;
#pragma unroll
  for (uint32_t q = 0; q < V::PAIR; q++) {
    T scale = static_cast<T>((1u << (32 - V::PLACE_BITS)) - 4) / of[q].radius;
#pragma unroll
    for (uint32_t e = 0; e < V::E; e++) {
      uint32_t i = e * ADJI_WARP + lane;
      list_point<T> point = sum_at<V>(job, at, of[q].x, i < of[q].count ? at->lists[q][i] : 0);
      bool there = i < of[q].count && !(job.drop_self && point.id == of[q].row);
      keys[q][e] = there ? key_of<V>(point.s, scale, i) : NO_KEY;
    }
  }
  sort_keys<V::E, V::PAIR, V::E <= 8 ? 32 : 1>(keys, lane); /* more unrolled code would not stay in the cache */
#pragma unroll
  for (uint32_t q = 0; q < V::PAIR; q++) {
    if (!written[q]) continue;
    if (has_ties<V>(keys[q], job.k, lane)) {
      ties |= 1u << q;
      continue;
    }
    uint64_t to = entries_of(job, of[q].row);
#pragma unroll
    for (uint32_t e = 0; e < V::E; e++) {
      if (e * ADJI_WARP + lane >= job.k) continue;
      bool there = keys[q][e] != NO_KEY;
      uint32_t place = there ? at->lists[q][keys[q][e] & (V::LIST - 1)] : 0;
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
  bool within[V::PAIR]; /* whether the query's bound is within the reach, which then has all its neighbours */
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
    if (of[q].radius < of[q].most) /* the next query is near, so its radius is about the same */
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
__device__ __forceinline__ void select_all(const knn_job<T> &job, pool_shared<V> *at,
                                           pool_search<typename V::W> *search, const wanted_points &wanted,
                                           uint32_t lane) {
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
    for (uint32_t q = 0; q < V::PAIR; q++) { /* the last query may be there twice */
      numbers[q] = q && !todo ? numbers[q - 1] : __ffs(todo) - 1;
      todo &= todo - 1;
    }
    select_some(job, at, pool, search, numbers, wanted, lane);
  }
}

template <class V>
struct across_lanes {
  typedef pool_shared<V> memory;
  template <class T>
  static __device__ __forceinline__ void select(const knn_job<T> &job, memory *at, pool_search<typename V::W> *search,
                                                const wanted_points &wanted, uint32_t lane) {
    select_all(job, at, search, wanted, lane);
  }
};

template <int DIM, int SLOTS, int E, int PAIR, int BLOCKS>
adj_status launch_as(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  typedef knn_instance<float, ADJI_STEP_L2, DIM> W;
  typedef pool_instance<W, SLOTS, E, PAIR, BLOCKS> V;
  return launch_pooled<V, across_lanes<V>>(gpu, stream, job);
}

}  // namespace

bool adji_knn_has_pooled(adj_type type, int step, uint32_t dim, uint32_t k) {
  return type == ADJ_F32 && (dim == 2 || dim == 3) && step == ADJI_STEP_L2 && k <= ADJI_MOST_POOLED;
}

adj_status adji_knn_pooled(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  uint32_t k = job->k;
  if (k <= ADJI_MOST_SHORT) return adji_knn_pooled_short(gpu, stream, job);
  if (job->dim == 2) {
    if (k <= 32) return launch_as<2, 12, 2, 2, 10>(gpu, stream, job);
    if (k <= 112) return launch_as<2, 16, 4, 1, 8>(gpu, stream, job);
    return k <= 232 ? launch_as<2, 24, 8, 1, 7>(gpu, stream, job) : launch_as<2, 48, 16, 1, 9>(gpu, stream, job);
  }
  if (k <= 32) return launch_as<3, 20, 2, 2, 8>(gpu, stream, job);
  if (k <= 112) return launch_as<3, 32, 4, 1, 12>(gpu, stream, job);
  return k <= 232 ? launch_as<3, 52, 8, 1, 8>(gpu, stream, job) : launch_as<3, 64, 16, 1, 6>(gpu, stream, job);
}
