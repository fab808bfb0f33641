/* SPDX-License-Identifier: MIT
 *
 * Dense places: all lanes of a warp compare their queries with the same candidates. tiles_kernel.cuh.
 */
#ifndef ADJI_TILES_TOGETHER_CUH
#define ADJI_TILES_TOGETHER_CUH

#include "gpu/tiles_queue.cuh"

namespace {

/* Compares candidates first .. first + MANY - 1 of the stage. limit is NaN for lanes that do not take part. BY_ID: what
 * belongs also depends on the ids. */
template <class W, int MANY, bool BY_ID, class T, int DIM>
__device__ __forceinline__ void compare_some(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, T limit,
                                             uint32_t first, uint32_t valid, uint32_t lane) {
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
        s[u] = adji_gpu_step<W::STEP>(s[u], mine->x[j], c[u], job.measure, j);
    }
  } else {
    for (uint32_t j = 0; j < job.dim;) {
      uint32_t end = j + CHECK_EVERY < job.dim ? j + CHECK_EVERY : job.dim;
      for (; j < end; j++) {
        T x = at.queries[j * ADJI_WARP + lane], c[MANY];
        load_all(at.candidates + j * ADJI_WARP + first, c);
#pragma unroll
        for (int u = 0; u < MANY; u++)
          s[u] = adji_gpu_step<W::STEP>(s[u], x, c[u], job.measure, j);
      }
      if (W::STEP == ADJI_STEP_DOT) continue;
      T least = s[0];
#pragma unroll
      for (int u = 1; u < MANY; u++)
        least = s[u] < least ? s[u] : least;
      if (!__any_sync(ALL_LANES, least <= limit)) return; /* sums grow: none of these belongs */
    }
  }
  uint32_t ids[MANY] = {0};
  if (W::FILL || BY_ID) load_all(at.ids + first, ids);
#pragma unroll
  for (int u = 0; u < MANY; u++) {
    s[u] = adji_gpu_finish<W::STEP>(s[u]);
    bool belongs = s[u] <= limit;
    if (!W::NAN_STAYS_OUT) belongs = belongs && first + u < valid;
    if (BY_ID) belongs = belongs && (job.keep == ADJI_KEEP_ABOVE ? ids[u] > mine->row : ids[u] != mine->row);
    keep<W>(at, mine, belongs, ids[u], s[u]);
  }
}

template <class W, bool BY_ID, class T, int DIM>
__device__ __forceinline__ void compare_stage(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, T limit,
                                              uint32_t valid, supply *pieces, uint32_t lane) {
  constexpr int MANY = DIM ? TOGETHER : MANY_TOGETHER;
#pragma unroll 1
  for (uint32_t first = 0; first < valid; first += BETWEEN) {
#pragma unroll
    for (uint32_t more = 0; more < BETWEEN; more += MANY)
      compare_some<W, MANY, BY_ID>(job, at, mine, limit, first + more, valid, lane);
    if (W::FILL) flush<W, BY_LANE>(job, at, mine, pieces, 0, lane);
  }
}

/* Step 2: the next 32 candidates of the list, behind those that are done; behind the last one they are NaN. Without
 * ids they are only there where they come with the point. */
template <class W, bool IDS, class T>
__device__ __forceinline__ candidate<W> fetch(const tiles<T> &job, const range_list *list, progress *p, uint32_t done,
                                              uint32_t lane) {
  candidate<W> c;
  uint32_t position = next_position(list, p, done, lane);
  bool valid = done + lane < p->total;
  c.position = valid ? position : UINT32_MAX;
  if (W::DIM) load_point<W>(job.right, valid ? position : 0, c.x);
  c.id = W::HAS_ID ? id_in(c.x[W::WIDTH ? W::WIDTH - 1 : 0]) : ADJ_NO_ID;
  if (!W::HAS_ID && IDS && valid && (W::FILL || job.keep == ADJI_KEEP_ABOVE)) c.id = job.right_ids[position];
  if (!valid) c.x[0] = static_cast<T>(NAN); /* and so is the sum */
  return c;
}

template <class W, class T>
__device__ __forceinline__ void put(const tiles<T> &job, const shared<T> &at, const candidate<W> &c, uint32_t lane) {
  __syncwarp(); /* nobody reads the last ones any more */
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    at.candidates[j * ADJI_WARP + lane] = c.x[j];
  if (!W::DIM)
    for (uint32_t j = 0; j < job.dim; j++)
      at.candidates[j * ADJI_WARP + lane] =
          c.position != UINT32_MAX ? job.right.at(c.position, j) : static_cast<T>(NAN);
  at.ids[lane] = c.id;
  __syncwarp();
}

/* The queries of lanes [begin, end), which are in one row of cells. */
template <class W, class T, int DIM>
__device__ __forceinline__ void join_together(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                              uint32_t begin, uint32_t end, supply *pieces, effort *took,
                                              uint32_t lane) {
  cell_stretch around = {__shfl_sync(ALL_LANES, mine->cell_row, begin), __shfl_sync(ALL_LANES, mine->cell, begin),
                         __shfl_sync(ALL_LANES, mine->cell, end - 1)};
  uint32_t low = __shfl_sync(ALL_LANES, mine->position, begin);
  uint32_t high = __shfl_sync(ALL_LANES, mine->position, end - 1);
  T limit = lane >= begin && lane < end ? job.limit : static_cast<T>(NAN);
  for (uint32_t round = 0; round * ADJI_WARP < job.row_count; round++) {
    uint32_t row = round * ADJI_WARP + lane;
    range found = {0, 0};
    if (row < job.row_count) found = row_of_cells(job, around.row, row, around.first, around.last);
    progress p = {0, 0, 0};
    __syncwarp(); /* nobody reads the last list any more */
    add_ranges(at.list, &p, found, lane);
    uint32_t total = p.total;
    if (lane == 0) took->candidates += static_cast<uint64_t>(total) * (end - begin);
    took->steps += (total + BETWEEN - 1) / BETWEEN * BETWEEN; /* the last ones are filled up */
    if (!total) continue;
    candidate<W> next = fetch<W, true>(job, at.list, &p, 0, lane);
    for (uint32_t done = 0; done < total;) {
      candidate<W> now = next;
      put<W>(job, at, now, lane);
      uint32_t valid = total - done < ADJI_WARP ? total - done : ADJI_WARP;
      done += valid;
      if (done < total) next = fetch<W, true>(job, at.list, &p, done, lane);
      bool met = now.position >= low && now.position <= high; /* perhaps one of the queries themselves */
      bool by_id = job.keep == ADJI_KEEP_ABOVE ||
                   (job.keep == ADJI_KEEP_OTHERS && W::FILL && (!job.same_sets || __any_sync(ALL_LANES, met)));
      if (by_id)
        compare_stage<W, true>(job, at, mine, limit, valid, pieces, lane);
      else
        compare_stage<W, false>(job, at, mine, limit, valid, pieces, lane);
    }
  }
}

}  // namespace

#endif
