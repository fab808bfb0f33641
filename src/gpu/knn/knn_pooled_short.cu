/* SPDX-License-Identifier: MIT
 *
 * The pooled kernel of kNN joins (knn_pool.cuh) for lists of up to 14 entries. Lanes hold queries.
 *
 * Computes: for each query q the k candidates with the smallest (s(q, c), id), in that order, where s is the canonical
 * sum.
 *
 * Input: trees and queries in device memory (adji_knn_job). Output: ids and sums, row by row, in device memory.
 *
 *   1. compare  all lanes compare eight points of the pool at a time with their queries. A point within the lane's
 *               bound becomes a key in the lane's column in shared memory: the sum as a fixed-point number, and the
 *               place in the pool. At first the bound is the reach
 *   2. sort     all columns, each by its lane in registers, once at the end; or earlier, if a column may overflow. Then
 *               the least keys stay, and the bound becomes shorter
 *   3. write    the rows. If two neighbours in a column's order have the same number, its lane finds the k nearest of
 *               the column by sums and ids instead
 *
 * A column may have one more entry than there are neighbours to find: the query itself, which is a candidate like
 * others.
 */
#include "gpu/knn/knn_pool.cuh"

namespace {

/* AT_ONCE: candidates compared before the columns are checked. COLUMN: entries of a column. KEPT: entries that stay
 * after sorting. */
enum { AT_ONCE = 8, COLUMN = 32, KEPT = 16, PLACE_BITS = 10 };

constexpr uint32_t NO_KEY = UINT32_MAX;
constexpr float HALF = 8388608; /* 2^23: for n below that, the last bits of HALF + n are those of n */
constexpr float LAST_NUMBER = (1 << (32 - PLACE_BITS)) - 2;

template <class V>
struct short_memory : pool_memory<V> {
  static_assert(V::POOL <= 1 << PLACE_BITS, "places have so many bits");
  union {
    uint32_t columns[COLUMN][ADJI_WARP];
    struct {
      uint32_t ids[KEPT][ADJI_WARP + 1];
    } rows;
  };
};

/* The query of a lane. */
template <class W>
struct lane_search {
  typename W::T x[W::ROOM], bound; /* -1: not open */
  uint32_t row, count;             /* count: keys in the column */
  bool open, within, failed; /* within: the query's bound is within the reach, which then has all its neighbours */
};

/* The key of a sum: a number that is monotone in it, and a place. scale: maps the reach to LAST_NUMBER. */
__device__ __forceinline__ uint32_t key_of(float s, float scale, uint32_t place) {
  return __float_as_uint(__fmaf_rn(s, scale, HALF)) << PLACE_BITS | place;
}

/* A reach of 0, or one so small that the quotient overflows, gets the largest scale; sums may then share a number. */
__device__ __forceinline__ float scale_of(float reach) {
  return fminf(LAST_NUMBER / reach, FLT_MAX);
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* Loads the least keys of the lane's column, in ascending order. */
template <class V>
__device__ __forceinline__ void sort_column(const short_memory<V> *at, uint32_t (&keys)[KEPT], uint32_t lane) {
  uint32_t others[KEPT];
#pragma unroll
  for (uint32_t e = 0; e < KEPT; e++) {
    keys[e] = at->columns[e][lane];
    others[e] = at->columns[KEPT + e][lane];
  }
  sort_entries(keys);
  sort_entries(others);
#pragma unroll
  for (int e = 0; e < KEPT; e++)
    keys[e] = min(keys[e], others[KEPT - 1 - e]);
#pragma unroll
  for (int step = KEPT / 2; step; step /= 2)
#pragma unroll
    for (int e = 0; e < KEPT; e++)
      if (!(e & step)) put_in_order(&keys[e], &keys[e + step]);
}

/* Entry e of sorted keys, for any e. */
__device__ __forceinline__ uint32_t key_at(const uint32_t (&keys)[KEPT], uint32_t e) {
  uint32_t key = NO_KEY;
#pragma unroll
  for (uint32_t i = 0; i < KEPT; i++)
    if (i == e) key = keys[i];
  return key;
}

/* Drops keys of the lane's column whose number is larger than that of `last`. */
template <class V>
__device__ __forceinline__ void drop_behind(short_memory<V> *at, lane_search<typename V::W> *own_query, uint32_t last,
                                            uint32_t lane) {
  uint32_t kept = 0;
#pragma unroll 1
  for (uint32_t e = 0; e < own_query->count; e++) {
    uint32_t key = at->columns[e][lane];
    at->columns[e][lane] = NO_KEY;
    if (key >> PLACE_BITS <= last >> PLACE_BITS) at->columns[kept++][lane] = key;
  }
  own_query->count = kept;
  own_query->failed = kept > COLUMN - AT_ONCE;
}

/* Makes room in the columns. The least keys stay. If there are enough, all neighbours are within the number of the last
 * key that is wanted, plus two for roundings: that becomes the bound. If keys that would be dropped have this number
 * too, all keys up to it stay, or the query fails. */
template <class V>
__device__ __forceinline__ void shorten_column(short_memory<V> *at, lane_search<typename V::W> *own_query,
                                               uint32_t enough, float reach, uint32_t lane) {
  uint32_t keys[KEPT];
  sort_column(at, keys, lane);
  uint32_t last = key_at(keys, enough - 1);
  bool equal = own_query->count > KEPT && last >> PLACE_BITS == keys[KEPT - 1] >> PLACE_BITS;
  if (equal) {
    drop_behind(at, own_query, last, lane);
  } else {
#pragma unroll
    for (uint32_t e = 0; e < KEPT; e++) {
      at->columns[e][lane] = keys[e];
      at->columns[KEPT + e][lane] = NO_KEY;
    }
    own_query->count = min(own_query->count, static_cast<uint32_t>(KEPT));
  }
  if (own_query->failed) own_query->bound = -1;
  if (own_query->failed || last == NO_KEY) return;
  float bound = static_cast<float>((last >> PLACE_BITS) + 2) / scale_of(reach) * 1.00001f;
  if (bound < own_query->bound) own_query->bound = bound;
}

/* Step 1 for all points of the pool. */
template <class V, class T>
__device__ __forceinline__ void compare_all(const knn_job<T> &job, short_memory<V> *at,
                                            lane_search<typename V::W> *own_query,
                                            const pool_search<typename V::W> &search, uint32_t enough, uint32_t lane) {
  float scale = scale_of(search.reach);
  uint32_t *tail = &at->columns[0][lane];
#pragma unroll 1
  for (uint32_t first = 0; first < search.pooled; first += AT_ONCE) {
#pragma unroll
    for (uint32_t c = 0; c < AT_ONCE; c += STEP) {
      typename pool_memory<V>::point points[STEP];
#pragma unroll
      for (uint32_t i = 0; i < STEP; i++) /* all loads come before the stores, since loads take long */
        points[i] = at->pool[first + c + i];
#pragma unroll
      for (uint32_t i = 0; i < STEP; i++) {
        T x[V::W::ROOM];
#pragma unroll
        for (int j = 0; j < V::W::DIM; j++)
          x[j] = points[i].x[j];
        T s = sum_of<typename V::W>(job, own_query->x, x);
        if (!(s <= own_query->bound)) continue;
        *tail = key_of(s, scale, first + c + i);
        tail += ADJI_WARP;
      }
    }
    own_query->count = static_cast<uint32_t>(tail - &at->columns[0][lane]) / ADJI_WARP;
    if (!__any_sync(KNN_LANES, own_query->count > COLUMN - AT_ONCE)) continue;
    shorten_column(at, own_query, enough, search.reach, lane);
    tail = &at->columns[own_query->count % COLUMN][lane];
  }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Writes the row of a lane with equal numbers in its column: k times it finds the nearest point after the one
 * before. */
template <class V, class T>
__device__ __forceinline__ void write_exactly(const knn_job<T> &job, const short_memory<V> *at,
                                              const lane_search<typename V::W> &own_query, uint32_t lane) {
  T after = -1;
  uint32_t after_id = 0;
  uint64_t to = entries_of(job, own_query.row);
#pragma unroll 1
  for (uint32_t i = 0; i < job.k; i++) {
    T best = static_cast<T>(INFINITY);
    uint32_t best_id = ADJ_NO_ID;
#pragma unroll 1
    for (uint32_t e = 0; e < own_query.count; e++) {
      list_point<T> point = sum_at<V>(job, at, own_query.x, at->columns[e][lane] & ((1u << PLACE_BITS) - 1));
      if (job.drop_self && point.id == own_query.row) continue;
      if (!comes_before(after, after_id, point.s, point.id) || !comes_before(point.s, point.id, best, best_id))
        continue;
      best = point.s;
      best_id = point.id;
    }
    write_entry(job, to + i, best, best_id);
    after = best;
    after_id = best_id;
  }
}

/* Writes the rows of all lanes in `complete`, EACH entries of a few rows at a time. */
template <int EACH, class V, class T>
__device__ __forceinline__ void write_rows(const knn_job<T> &job, const short_memory<V> *at, uint32_t complete,
                                           uint32_t lane) {
  uint32_t e = lane % EACH;
#pragma unroll 1
  for (uint32_t l = lane / EACH; l < ADJI_WARP; l += ADJI_WARP / EACH) {
    if (!(complete >> l & 1) || e >= job.k) continue;
    typename pool_memory<V>::point query = at->queries[l];
    T x[V::W::ROOM];
#pragma unroll
    for (int j = 0; j < V::W::DIM; j++)
      x[j] = query.x[j];
    uint32_t place = at->rows.ids[e][l];
    list_point<T> point = sum_at<V>(job, at, x, place == NO_KEY ? 0 : place);
    uint64_t to = entries_of(job, adji_gpu_id(query.x[query.ID])) + e;
    write_entry(job, to, point.s, place == NO_KEY ? ADJ_NO_ID : point.id);
  }
}

/* Lists the places of the lane's neighbours in order, without the query itself. */
template <class V, class T>
__device__ __forceinline__ void list_places(const knn_job<T> &job, short_memory<V> *at,
                                            const lane_search<typename V::W> &own_query, const uint32_t (&keys)[KEPT],
                                            uint32_t enough, uint32_t lane) {
  uint32_t listed = 0;
#pragma unroll
  for (uint32_t e = 0; e < KEPT - 1; e++) {
    if (e >= enough) break;
    uint32_t place = keys[e] & ((1u << PLACE_BITS) - 1);
    bool there = keys[e] != NO_KEY;
    if (there && job.drop_self) there = adji_gpu_id(at->pool[place].x[pool_memory<V>::point::ID]) != own_query.row;
    if (there && listed < job.k) at->rows.ids[listed++][lane] = place;
  }
  for (; listed < job.k; listed++)
    at->rows.ids[listed][lane] = NO_KEY;
}

/* Steps 2 and 3. Closes the queries that have rows. */
template <class V, class T>
__device__ __forceinline__ void finish(const knn_job<T> &job, short_memory<V> *at,
                                       lane_search<typename V::W> *own_query, pool_search<typename V::W> *search,
                                       uint32_t enough, uint32_t lane) {
  uint32_t keys[KEPT];
  sort_column(at, keys, lane);
  bool complete = own_query->open && !own_query->failed && (own_query->within || own_query->count >= enough),
       same = false;
#pragma unroll
  for (uint32_t e = 0; e + 1 < KEPT; e++)
    same |= e < enough && keys[e] != NO_KEY && keys[e] >> PLACE_BITS == keys[e + 1] >> PLACE_BITS;
  same = same && complete;
  if (same) write_exactly(job, at, *own_query, lane);
  __syncwarp(); /* places are listed in the memory of the columns */
  search->open &= ~__ballot_sync(KNN_LANES, complete);
  search->failed |= __ballot_sync(KNN_LANES, own_query->failed);
  search->fewest = __reduce_min_sync(KNN_LANES, own_query->open && !complete ? own_query->count : UINT32_MAX);
  uint32_t rows = __ballot_sync(KNN_LANES, complete && !same);
  list_places(job, at, *own_query, keys, enough, lane);
  __syncwarp();
  if (job.k <= 8)
    write_rows<8>(job, at, rows, lane);
  else
    write_rows<16>(job, at, rows, lane);
  __syncwarp();
}

template <class V>
struct by_lanes {
  typedef short_memory<V> memory;
  template <class T>
  static __device__ __forceinline__ void select(const knn_job<T> &job, memory *at, pool_search<typename V::W> *search,
                                                const wanted_points &wanted, uint32_t lane) {
    lane_search<typename V::W> own_query = {};
    typename pool_memory<V>::point query = at->queries[lane];
#pragma unroll
    for (int j = 0; j < V::W::DIM; j++)
      own_query.x[j] = query.x[j];
    own_query.row = adji_gpu_id(query.x[query.ID]);
    own_query.open = search->open >> lane & 1;
    if (own_query.open) {
      T bound = bound_of(job, own_query.row);
      own_query.within = bound <= search->reach;
      own_query.bound = own_query.within ? bound : search->reach;
    } else {
      own_query.bound = -1;
    }
#pragma unroll
    for (uint32_t e = 0; e < COLUMN; e++)
      at->columns[e][lane] = NO_KEY;
    uint32_t padded = (search->pooled + AT_ONCE - 1) / AT_ONCE * AT_ONCE, i = search->pooled + lane;
    if (i < padded) at->pool[i].x[0] = static_cast<T>(NAN);
    __syncwarp();
    search->compared += search->pooled * __popc(search->open);
    compare_all(job, at, &own_query, *search, wanted.enough, lane);
    finish(job, at, &own_query, search, wanted.enough, lane);
  }
};

template <int DIM, int SLOTS, int BLOCKS>
adj_status launch_short(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  typedef pool_instance<knn_instance<float, ADJI_STEP_L2, DIM>, SLOTS, 1, 1, BLOCKS> V;
  return launch_pooled<V, by_lanes<V>>(gpu, stream, job);
}

}  // namespace

adj_status adji_knn_pooled_short(adji_gpu *gpu, cudaStream_t stream, const adji_knn_job *job) {
  if (job->dim == 2)
    return job->k <= 8 ? launch_short<2, 8, 14>(gpu, stream, job) : launch_short<2, 12, 10>(gpu, stream, job);
  return job->k <= 8 ? launch_short<3, 14, 9>(gpu, stream, job) : launch_short<3, 16, 8>(gpu, stream, job);
}
