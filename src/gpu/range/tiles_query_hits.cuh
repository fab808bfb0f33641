/* SPDX-License-Identifier: MIT
 *
 * Sparse places in few dimensions, counted so that a fill need not compare again. Each lane compares its query with
 * its own candidates, and stores where each range begins, with a bit for every candidate that belongs. Part of
 * tiles_kernel.cuh; tiles.cu reads the hits.
 */
#ifndef ADJI_GPU_RANGE_TILES_QUERY_HITS_CUH
#define ADJI_GPU_RANGE_TILES_QUERY_HITS_CUH

#include "gpu/range/tiles_per_query.cuh"

namespace {

/* With this many queries per cell, a dense place is faster: their ranges would be too long. */
enum { DENSE_QUERY_HITS = 11 };
static_assert(3 * DENSE_QUERY_HITS > ADJI_QUERY_HIT_BITS, "what could be marked should be");

/* A bit for each of candidates position .. end - 1; only the first AT_ONCE are compared. */
template <class W, class T, int DIM>
__device__ __forceinline__ uint32_t hits_of_some(const tiles<T> &job, const own<T, DIM> &mine, uint32_t position,
                                                 uint32_t end) {
  T c[AT_ONCE][W::WIDTH];
  load_some<W>(job, position, c);
  uint32_t bits = 0;
#pragma unroll
  for (int u = 0; u < AT_ONCE; u++)
    bits |= static_cast<uint32_t>(u < end - position && sum_of<W>(job, mine, c[u]) <= job.limit) << u;
  return bits;
}

/* Counts the candidates of a range, and sets the bits of those that belong, except the query itself. */
template <class W, class T, int DIM>
__device__ __forceinline__ uint32_t hits_of_range(const tiles<T> &job, own<T, DIM> *mine, range r) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < r.count; i += AT_ONCE) {
    uint32_t some = hits_of_some<W>(job, *mine, r.begin + i, r.begin + r.count);
    mine->found += __popc(some);
    bits |= i < ADJI_QUERY_HIT_BITS ? some << i : 0;
  }
  uint32_t self = mine->position - r.begin;
  return job.keep == ADJI_KEEP_OTHERS && self < ADJI_QUERY_HIT_BITS ? bits & ~(1u << self) : bits;
}

/* The query hits of a row. */
template <class T, int DIM>
__device__ __forceinline__ adji_query_hits *query_hits_of(const tiles<T> &job, const own<T, DIM> &mine) {
  return job.query_hits + static_cast<uint64_t>(mine.row) * (job.row_count / ADJI_QUERY_HIT_GROUP);
}

/* The queries of the active lanes. Returns whether the lane's query has hits: none of its ranges is too long. */
template <class W, class T, int DIM>
__device__ __forceinline__ bool count_query_hits(const tiles<T> &job, own<T, DIM> *mine, bool takes_part,
                                                 effort *took) {
  uint32_t longest = 0;
  for (uint32_t row = 0; row < job.row_count; row += ADJI_QUERY_HIT_GROUP) {
    range r[ADJI_QUERY_HIT_GROUP];
    uint32_t bits[ADJI_QUERY_HIT_GROUP];
    look_up_three(job, *mine, takes_part, row, r);
#pragma unroll
    for (int k = 0; k < ADJI_QUERY_HIT_GROUP; k++) {
      took->candidates += r[k].count;
      took->steps += (__reduce_max_sync(ALL_LANES, r[k].count) + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
      longest = longest > r[k].count ? longest : r[k].count;
      bits[k] = hits_of_range<W>(job, mine, r[k]);
    }
    if (!takes_part) continue;
    uint4 *to = reinterpret_cast<uint4 *>(query_hits_of(job, *mine) + row / ADJI_QUERY_HIT_GROUP);
    to[0] = uint4{r[0].begin, r[1].begin, r[2].begin, 0};
    to[1] = uint4{bits[0], bits[1], bits[2], 0};
  }
  return takes_part && longest <= ADJI_QUERY_HIT_BITS;
}

/* Records the queries of the lanes without hits. */
template <class T, int DIM>
__device__ __forceinline__ void note_without_hits(const tiles<T> &job, const own<T, DIM> &mine, bool without_hits,
                                                  uint32_t lane) {
  uint32_t lanes = __ballot_sync(ALL_LANES, without_hits);
  if (!lanes) return;
  unsigned long long first = 0;
  if (lane == 0) first = atomicAdd(job.answers + ADJI_ANSWER_CACHE, static_cast<unsigned long long>(__popc(lanes)));
  first = __shfl_sync(ALL_LANES, first, 0);
  if (!without_hits) return;
  query_hits_of(job, mine)->begin[0] = ADJI_NO_QUERY_HITS;
  job.without_hits[first + __popc(lanes & ((1u << lane) - 1))] = mine.position;
}

}  // namespace

#endif
