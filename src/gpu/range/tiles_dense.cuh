/* SPDX-License-Identifier: MIT
 *
 * Dense places: all lanes of a warp compare their queries with the same candidates. Part of tiles_kernel.cuh.
 */
#ifndef ADJI_GPU_RANGE_TILES_DENSE_CUH
#define ADJI_GPU_RANGE_TILES_DENSE_CUH

#include "gpu/range/tiles_hit_words.cuh"

namespace {

/* Adds the terms of dimensions j .. end - 1 to the sums of the lane's query and MANY candidates of the stage. */
template <int STEP, int MANY, class T>
__device__ __forceinline__ void add_terms(const tiles<T> &job, const shared<T> &at, T (&s)[MANY], uint32_t first,
                                          uint32_t &j, uint32_t end, uint32_t lane) {
  for (; j < end; j++) {
    T x = at.queries[j * ADJI_WARP + lane], c[MANY];
    load_all(at.candidates + j * ADJI_WARP + first, c);
#pragma unroll
    for (int u = 0; u < MANY; u++)
      s[u] = adji_gpu_step<STEP>(s[u], x, c[u], job.measure, j);
  }
}

/* Compares candidates first .. first + MANY - 1 of the stage. limit is NaN for idle lanes. BY_ID: whether a candidate
 * belongs also depends on ids. */
template <class W, int MANY, bool BY_ID, class T, int DIM>
__device__ __forceinline__ void compare_some(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                             T limit, uint32_t first, uint32_t valid, uint32_t lane) {
  T s[MANY];
#pragma unroll
  for (int u = 0; u < MANY; u++)
    s[u] = 0;
  if (DIM) {
#pragma unroll
    for (int j = 0; j < DIM; j++) {
      T c[MANY];
      load_all(at.candidates + j * ADJI_WARP + first, c);
#pragma unroll
      for (int u = 0; u < MANY; u++)
        s[u] = adji_gpu_step<W::STEP>(s[u], own_query->x[j], c[u], job.measure, j);
    }
  } else {
    for (uint32_t j = 0; j < job.dim;) {
      uint32_t end = j + CHECK_EVERY < job.dim ? j + CHECK_EVERY : job.dim;
      if constexpr (W::STEP == RARE_STEP) {
#define ADD(STEP) add_terms<STEP>(job, at, s, first, j, end, lane)
        SWITCH_RARE_STEP(job.step, ADD)
#undef ADD
      } else {
        add_terms<W::STEP>(job, at, s, first, j, end, lane);
      }
      if (W::STEP == ADJI_STEP_DOT) continue;
      T least = s[0];
#pragma unroll
      for (int u = 1; u < MANY; u++)
        least = s[u] < least ? s[u] : least;
      if (!__any_sync(ALL_LANES, least <= limit)) return; /* sums only grow: none of these belongs */
    }
  }
  uint32_t ids[MANY] = {0};
  if (W::FILL || BY_ID) load_all(at.ids + first, ids);
#pragma unroll
  for (int u = 0; u < MANY; u++) {
    s[u] = adji_gpu_finish<W::STEP>(s[u]);
    bool belongs = s[u] <= limit;
    if (!W::NAN_STAYS_OUT) belongs = belongs && first + u < valid;
    if (BY_ID) belongs = belongs && (job.keep == ADJI_KEEP_ABOVE ? ids[u] > own_query->row : ids[u] != own_query->row);
    keep<W>(job, at, own_query, belongs, ids[u], s[u]);
  }
}

template <class W, bool BY_ID, class T, int DIM>
__device__ __forceinline__ void compare_stage(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                              T limit, uint32_t valid, supply *items, uint32_t lane) {
  constexpr int MANY = DIM ? TILED_CANDIDATES : TILED_CANDIDATES_ANY;
#pragma unroll 1
  for (uint32_t first = 0; first < valid; first += BETWEEN) {
#pragma unroll
    for (uint32_t more = 0; more < BETWEEN; more += MANY)
      compare_some<W, MANY, BY_ID>(job, at, own_query, limit, first + more, valid, lane);
    if (W::FILL) flush<W, BY_LANE>(job, at, own_query, items, 0, lane);
  }
}

/* Step 2: fetches the lane's candidate of the next 32 of the list; NaN after the last one. Where points do not contain
 * their ids, ids are loaded only if needed. */
template <class W, bool IDS, class T>
__device__ __forceinline__ candidate<W> fetch(const tiles<T> &job, const range_list *list, progress *p, uint32_t done,
                                              uint32_t lane) {
  candidate<W> c;
  uint32_t position = next_position(list, p, done, lane);
  bool valid = done + lane < p->total;
  c.position = valid ? position : UINT32_MAX;
  if (W::DIM) load_point<W>(job.right, valid ? position : 0, c.x);
  c.id = W::HAS_ID ? adji_gpu_id(c.x[W::WIDTH ? W::WIDTH - 1 : 0]) : ADJ_NO_ID;
  if (!W::HAS_ID && IDS && valid && (W::DROPS_SELF || job.keep == ADJI_KEEP_ABOVE)) c.id = job.right_ids[position];
  if (!valid) c.x[0] = static_cast<T>(NAN); /* so the sum is NaN too */
  return c;
}

/* Puts a candidate into the stage. */
template <class W, class T>
__device__ __forceinline__ void put(const tiles<T> &job, const shared<T> &at, const candidate<W> &c, uint32_t slot) {
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    at.candidates[j * ADJI_WARP + slot] = c.x[j];
  if (!W::DIM)
    for (uint32_t j = 0; j < job.dim; j++)
      at.candidates[j * ADJI_WARP + slot] =
          c.position != UINT32_MAX ? job.right.at(c.position, j) : static_cast<T>(NAN);
  at.ids[slot] = c.id;
}

/* Whether a candidate may belong to a query of the stretch: not if its sum with the nearest point of their box is above
 * the limit. Along every axis no query is nearer to the candidate than that point, whose coordinate is either a query's
 * or the candidate's own. So no difference of a query is smaller before rounding, which is monotone, and neither is any
 * partial sum. A NaN belongs to no query. */
template <class W, class T>
__device__ __forceinline__ bool may_belong(const tiles<T> &job, const stretch<W> &span, const candidate<W> &c) {
  T s = 0;
#pragma unroll
  for (int j = 0; j < W::DIM; j++) {
    T nearest = c.x[j] < span.least[j] ? span.least[j] : c.x[j];
    nearest = nearest > span.most[j] ? span.most[j] : nearest;
    s = adji_gpu_step<W::STEP>(s, nearest, c.x[j], job.measure, j);
  }
  return s <= job.limit;
}

/* Slots from NEXT_STAGE on belong to the next stage; NO_SLOT is for a candidate that is skipped. */
enum : uint32_t { NEXT_STAGE = ADJI_WARP, NO_SLOT = UINT32_MAX };

/* The slot of a lane's candidate, after those that wait in the stage. The slot may be beyond the room of the stage. */
template <class W, class T>
__device__ __forceinline__ uint32_t find_slot(const tiles<T> &job, const stretch<W> &span, const candidate<W> &c,
                                              uint32_t *waiting, uint32_t lane) {
  if (!W::TRIMS) {
    *waiting = ADJI_WARP;
    return lane;
  }
  bool stays = may_belong(job, span, c);
  uint32_t kept_lanes = __ballot_sync(ALL_LANES, stays), slot = *waiting + __popc(kept_lanes & ((1u << lane) - 1));
  *waiting += __popc(kept_lanes);
  return stays ? slot : static_cast<uint32_t>(NO_SLOT);
}

/* Compares the stage, which has `valid` candidates. may_be_query: the lane's candidate may be one of the queries. */
template <class W, class T, int DIM>
__device__ __forceinline__ void compare(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                        const stretch<W> &span, uint32_t valid, bool may_be_query, supply *items,
                                        work_totals *totals, uint32_t lane) {
  if (counts<W>(job)) {
    if (lane == 0) totals->candidates += static_cast<uint64_t>(valid) * (span.end - span.begin);
    totals->steps += W::WORDS ? ADJI_WARP : (valid + BETWEEN - 1) / BETWEEN * BETWEEN; /* the last step is padded */
  }
  bool by_id = job.keep == ADJI_KEEP_ABOVE || (job.keep == ADJI_KEEP_OTHERS && W::DROPS_SELF &&
                                               (!job.same_sets || __any_sync(ALL_LANES, may_be_query)));
  if constexpr (W::WORDS) {
    uint32_t word = by_id ? find_word<W, true>(job, at, *own_query, span, lane)
                          : find_word<W, false>(job, at, *own_query, span, lane);
    if (W::RINGS) put_words(job, at, *own_query, lanes{span.begin, span.end}, word, at.ids[lane], lane);
    if (W::KEEPS) keep_tile_hits(job, items, word, at.ids[lane], lane);
    own_query->found += __popc(word);
  } else {
    T limit = lane >= span.begin && lane < span.end ? job.limit : static_cast<T>(NAN);
    if (by_id)
      compare_stage<W, true>(job, at, own_query, limit, valid, items, lane);
    else
      compare_stage<W, false>(job, at, own_query, limit, valid, items, lane);
  }
}

/* Opens the stretch of lanes [begin, end). */
template <class W, class T, int DIM>
__device__ __forceinline__ stretch<W> open_stretch(const lane_query<T, DIM> &own_query, uint32_t begin, uint32_t end,
                                                   uint32_t lane) {
  constexpr int EACH = tile_of<T>::EACH, SHARE = tile_of<T>::SHARE;
  stretch<W> span;
  span.begin = begin;
  span.end = end;
  span.low = __shfl_sync(ALL_LANES, own_query.position, begin);
  span.high = __shfl_sync(ALL_LANES, own_query.position, end - 1);
  bool inside = lane >= begin && lane < end;
#pragma unroll
  for (int j = 0; j < DIM && W::TRIMS; j++) {
    span.least[j] = span.most[j] = __shfl_sync(ALL_LANES, own_query.x[j], inside ? lane : begin);
#pragma unroll
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
      T low = __shfl_xor_sync(ALL_LANES, span.least[j], step), high = __shfl_xor_sync(ALL_LANES, span.most[j], step);
      span.least[j] = low < span.least[j] ? low : span.least[j];
      span.most[j] = high > span.most[j] ? high : span.most[j];
    }
  }
#pragma unroll
  for (int i = 0; i < EACH * DIM && W::WORDS; i++) {
    uint32_t from = lane % SHARE + i / stretch<W>::DIMS * SHARE;
    T x = __shfl_sync(ALL_LANES, own_query.x[i % stretch<W>::DIMS], from);
    span.x[i / stretch<W>::DIMS][i % stretch<W>::DIMS] = from >= begin && from < end ? x : static_cast<T>(NAN);
  }
  return span;
}

/* Compares the queries of lanes [begin, end), which are in one row of cells. */
template <class W, class T, int DIM>
__device__ __forceinline__ void join_dense(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                           uint32_t begin, uint32_t end, supply *items, work_totals *totals,
                                           uint32_t lane) {
  cell_stretch around = {__shfl_sync(ALL_LANES, own_query->cell_row, begin),
                         __shfl_sync(ALL_LANES, own_query->cell, begin),
                         __shfl_sync(ALL_LANES, own_query->cell, end - 1)};
  stretch<W> span = open_stretch<W>(*own_query, begin, end, lane);
  if (W::RINGS) find_place(job, own_query);
  uint32_t waiting = 0;      /* candidates that wait in the stage */
  bool may_be_query = false; /* of the candidate that this lane put there */
  uint64_t first_tile = 0;
  for (uint32_t round = 0; round * ADJI_WARP < job.row_count; round++) {
    uint32_t row = round * ADJI_WARP + lane;
    range found = {0, 0};
    if (row < job.row_count) found = row_of_cells(job, around.row, row, around.first, around.last);
    progress p = {0, 0, 0};
    __syncwarp(); /* the list of the last round is no longer read */
    add_ranges(at.list, &p, found, lane);
    uint32_t total = p.total;
    if (W::KEEPS) { /* the only round */
      *items = claim_tile_hits(job, total, lane);
      first_tile = items->next;
    }
    bool last = W::TRIMS && (round + 1) * ADJI_WARP >= job.row_count; /* then waiting candidates are compared too */
    if (!total && !(last && waiting)) continue;
    candidate<W> next = fetch<W, true>(job, at.list, &p, 0, lane);
    for (uint32_t done = 0; done < total || (last && waiting);) {
      candidate<W> now = next; /* NaN after the last one */
      uint32_t slot = find_slot<W>(job, span, now, &waiting, lane);
      if (slot < NEXT_STAGE) put<W>(job, at, now, slot);
      bool query = now.position >= span.low && now.position <= span.high; /* perhaps the query itself */
      may_be_query = may_be_query || (query && slot < NEXT_STAGE);
      uint32_t fetched = total - done < ADJI_WARP ? total - done : ADJI_WARP, valid = W::TRIMS ? ADJI_WARP : fetched;
      if (W::TRIMS && done == total) {
        if (lane >= waiting) at.candidates[lane] = static_cast<T>(NAN); /* so the sum is NaN too */
        valid = waiting;
        waiting = ADJI_WARP;
      }
      done += fetched;
      if (done < total || last) next = fetch<W, true>(job, at.list, &p, done, lane);
      if (waiting < ADJI_WARP) continue;
      __syncwarp();
      compare<W>(job, at, own_query, span, valid, may_be_query, items, totals, lane);
      __syncwarp(); /* the stage is no longer read */
      waiting -= ADJI_WARP;
      bool next = W::TRIMS && slot >= NEXT_STAGE && slot != NO_SLOT;
      if (next) put<W>(job, at, now, slot - NEXT_STAGE);
      may_be_query = query && next;
    }
  }
  if (W::KEEPS && lane == 0)
    job.tile_hit_starts[span.low] =
        adji_tile_hits{static_cast<uint32_t>(first_tile), static_cast<uint32_t>(items->next - first_tile)};
}

}  // namespace

#endif
