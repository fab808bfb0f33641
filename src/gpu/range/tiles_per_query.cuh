/* SPDX-License-Identifier: MIT
 *
 * Sparse places in few dimensions: each lane compares its query with its own candidates. A count may store query hits,
 * so that a fill (tiles.cu) need not compare again. Part of tiles_kernel.cuh.
 */
#ifndef ADJI_GPU_RANGE_TILES_PER_QUERY_CUH
#define ADJI_GPU_RANGE_TILES_PER_QUERY_CUH

#include "gpu/range/tiles_queue.cuh"

namespace {

/* Candidates of a lane that are loaded before the first is compared. */
constexpr uint32_t AT_ONCE = 4;
static_assert(uint32_t(BETWEEN) % AT_ONCE == 0 && AT_ONCE <= uint32_t(ADJI_GPU_BEHIND), "what is read must be there");

template <class W, int WIDTH, class T>
__device__ __forceinline__ void load_some(const tiles<T> &job, uint32_t position, T (&c)[AT_ONCE][WIDTH]) {
#pragma unroll
  for (int u = 0; u < AT_ONCE; u++)
    load_point<W>(job.right, position + u, c[u]);
}

/* The sum of the lane's query and a candidate. */
template <class W, class T, int DIM>
__device__ __forceinline__ T sum_of(const tiles<T> &job, const lane_query<T, DIM> &own_query, const T *c) {
  T s = 0;
#pragma unroll
  for (int j = 0; j < DIM; j++)
    s = adji_gpu_step<W::STEP>(s, own_query.x[j], c[j], job.measure, j);
  return adji_gpu_finish<W::STEP>(s);
}

/* Compares the lane's candidates position .. stop - 1, but at most AT_ONCE of them. */
template <class W, class T, int DIM>
__device__ __forceinline__ void compare_candidates(const tiles<T> &job, const shared<T> &at,
                                                   lane_query<T, DIM> *own_query, uint32_t position, uint32_t stop) {
  T c[AT_ONCE][W::WIDTH ? W::WIDTH : 1];
  uint32_t ids[AT_ONCE];
  load_some<W>(job, position, c);
#pragma unroll
  for (int u = 0; u < AT_ONCE; u++) {
    if (W::HAS_ID)
      ids[u] = adji_gpu_id(c[u][W::WIDTH ? W::WIDTH - 1 : 0]);
    else
      ids[u] = W::DROPS_SELF || job.keep == ADJI_KEEP_ABOVE ? __ldg(job.right_ids + position + u) : 0;
  }
#pragma unroll
  for (int u = 0; u < AT_ONCE; u++) {
    T s = sum_of<W>(job, *own_query, c[u]);
    keep<W>(job, at, own_query, u < stop - position && s <= job.limit && stays<W>(job, ids[u], own_query->row), ids[u],
            s);
  }
}

/* Compares one of the lane's candidates, in any number of dimensions. */
template <class W, class T, int DIM>
__device__ __forceinline__ void compare_candidate(const tiles<T> &job, const shared<T> &at,
                                                  lane_query<T, DIM> *own_query, uint32_t position) {
  uint32_t id = W::DROPS_SELF || job.keep == ADJI_KEEP_ABOVE ? job.right_ids[position] : 0;
  T s = 0;
  for (uint32_t j = 0; j < job.dim; j++) {
    s = add_term<W>(job, s, job.left.at(own_query->position, j), job.right.at(position, j), j);
    if (W::STEP != ADJI_STEP_DOT && !(s <= job.limit)) break;
  }
  s = adji_gpu_finish<W::STEP>(s);
  keep<W>(job, at, own_query, s <= job.limit && stays<W>(job, id, own_query->row), id, s);
}

/* Looks up rows of cells row .. row + 2, or fewer. Three at a time, so that there is one wait for all. */
template <class T, int DIM>
__device__ __forceinline__ void look_up_three(const tiles<T> &job, const lane_query<T, DIM> &own_query, bool takes_part,
                                              uint32_t row, range (&to)[3]) {
#pragma unroll
  for (int k = 0; k < 3; k++) {
    to[k] = range{0, 0};
    if (takes_part && row + k < job.row_count)
      to[k] = row_of_cells(job, own_query.cell_row, row + k, own_query.cell, own_query.cell);
  }
}

/* Compares the queries of the lanes that take part. */
template <class W, class T, int DIM>
__device__ __forceinline__ void join_per_query(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                               bool takes_part, supply *items, work_totals *totals, uint32_t lane) {
  for (uint32_t row = 0; row < job.row_count; row += 3) {
    range r[3];
    look_up_three(job, *own_query, takes_part, row, r);
#pragma unroll
    for (int k = 0; k < 3; k++) {
      totals->candidates += r[k].count;
      constexpr uint32_t EACH = DIM ? AT_ONCE : 1;
      if (counts<W>(job)) totals->steps += (__reduce_max_sync(ALL_LANES, r[k].count) + EACH - 1) / EACH * EACH;
      uint32_t position = r[k].begin, end = position + r[k].count;
      while (W::FILL ? __any_sync(ALL_LANES, position < end) : position < end) {
        uint32_t stop = end; /* or as far as the queue has room */
        if (W::FILL && position < end && end - position > BETWEEN) stop = position + BETWEEN;
        for (; position < stop; position += DIM ? AT_ONCE : 1)
          if (DIM)
            compare_candidates<W>(job, at, own_query, position, stop);
          else
            compare_candidate<W>(job, at, own_query, position);
        if (W::FILL) flush<W, BY_LANE>(job, at, own_query, items, 0, lane);
      }
    }
  }
}

/* ---- Query hits ---------------------------------------------------------------------------------- */

/* With this many queries per cell or more, a place counts as dense: ranges would be too long for hits. */
enum { DENSE_QUERY_HITS = 11 };
static_assert(3 * DENSE_QUERY_HITS > ADJI_QUERY_HIT_BITS, "a range that fits the bits should get hits");

/* A bit for each of the candidates position .. end - 1, of which only the first AT_ONCE are compared. */
template <class W, class T, int DIM>
__device__ __forceinline__ uint32_t hits_of_some(const tiles<T> &job, const lane_query<T, DIM> &own_query,
                                                 uint32_t position, uint32_t end) {
  T c[AT_ONCE][W::WIDTH];
  load_some<W>(job, position, c);
  uint32_t bits = 0;
#pragma unroll
  for (int u = 0; u < AT_ONCE; u++)
    bits |= static_cast<uint32_t>(u < end - position && sum_of<W>(job, own_query, c[u]) <= job.limit) << u;
  return bits;
}

/* Counts the candidates of a range that belong, and returns their bits, without that of the query itself. */
template <class W, class T, int DIM>
__device__ __forceinline__ uint32_t hits_of_range(const tiles<T> &job, lane_query<T, DIM> *own_query, range r) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < r.count; i += AT_ONCE) {
    uint32_t some = hits_of_some<W>(job, *own_query, r.begin + i, r.begin + r.count);
    own_query->found += __popc(some);
    bits |= i < ADJI_QUERY_HIT_BITS ? some << i : 0;
  }
  uint32_t self = own_query->position - r.begin;
  return job.keep == ADJI_KEEP_OTHERS && self < ADJI_QUERY_HIT_BITS ? bits & ~(1u << self) : bits;
}

/* The query hits of a row. */
template <class T, int DIM>
__device__ __forceinline__ adji_query_hits *query_hits_of(const tiles<T> &job, const lane_query<T, DIM> &own_query) {
  return job.query_hits + static_cast<uint64_t>(own_query.row) * (job.row_count / ADJI_QUERY_HIT_GROUP);
}

/* Counts for the queries of the lanes that take part. Returns whether the lane's query has hits, which means that none
 * of its ranges is too long. */
template <class W, class T, int DIM>
__device__ __forceinline__ bool count_query_hits(const tiles<T> &job, lane_query<T, DIM> *own_query, bool takes_part,
                                                 work_totals *totals) {
  uint32_t longest = 0;
  for (uint32_t row = 0; row < job.row_count; row += ADJI_QUERY_HIT_GROUP) {
    range r[ADJI_QUERY_HIT_GROUP];
    uint32_t bits[ADJI_QUERY_HIT_GROUP];
    look_up_three(job, *own_query, takes_part, row, r);
#pragma unroll
    for (int k = 0; k < ADJI_QUERY_HIT_GROUP; k++) {
      totals->candidates += r[k].count;
      totals->steps += (__reduce_max_sync(ALL_LANES, r[k].count) + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
      longest = longest > r[k].count ? longest : r[k].count;
      bits[k] = hits_of_range<W>(job, own_query, r[k]);
    }
    if (!takes_part) continue;
    uint4 *to = reinterpret_cast<uint4 *>(query_hits_of(job, *own_query) + row / ADJI_QUERY_HIT_GROUP);
    to[0] = uint4{r[0].begin, r[1].begin, r[2].begin, 0};
    to[1] = uint4{bits[0], bits[1], bits[2], 0};
  }
  return takes_part && longest <= ADJI_QUERY_HIT_BITS;
}

/* Records the queries without hits. */
template <class T, int DIM>
__device__ __forceinline__ void note_without_hits(const tiles<T> &job, const lane_query<T, DIM> &own_query,
                                                  bool without_hits, uint32_t lane) {
  uint32_t lanes = __ballot_sync(ALL_LANES, without_hits);
  if (!lanes) return;
  uint64_t first = request_items(job, __popc(lanes), lane);
  if (!without_hits) return;
  query_hits_of(job, own_query)->begin[0] = ADJI_NO_QUERY_HITS;
  job.without_hits[first + __popc(lanes & ((1u << lane) - 1))] = own_query.position;
}

}  // namespace

#endif
