/* SPDX-License-Identifier: MIT
 *
 * Sparse places in many dimensions: lanes share the candidates of a few queries. Part of tiles_kernel.cuh.
 *
 * In a self-join each pair of points may be compared once. The first of them in the order of the index finds the other:
 * rows of cells before its own are not looked up, and in its own row only the points after it. Both rows are counted in
 * memory, by atomics, when pairs are written: pairs are few compared with the comparisons that are saved.
 */
#ifndef ADJI_GPU_RANGE_TILES_HIGH_DIM_CUH
#define ADJI_GPU_RANGE_TILES_HIGH_DIM_CUH

#include "gpu/range/tiles_dense.cuh"

namespace {

/* ---- Pairs on their way to memory ------------------------------------------------------------------- */

/* Room for pairs of a warp in shared memory: up to 31 wait, and every lane can find two before the next check. */
enum { PAIR_QUEUE = 96 };
static_assert(PAIR_QUEUE >= 3 * ADJI_WARP - 1, "a queue must not run over");

/* Adds a pair that belongs, from any lane. */
template <class W, class T>
__device__ __forceinline__ void add_pair(const tiles<T> &job, const shared<T> &at, uint32_t row, uint32_t id, T s) {
  uint32_t entry = atomicAdd(at.pair_count, 1u);
  bool swap = job.keep == ADJI_KEEP_ABOVE && id < row;
  at.pairs[entry] = swap ? adji_gpu_pair{id, row} : adji_gpu_pair{row, id};
  if (W::SUMS) at.sums[entry] = s;
}

/* Writes pairs while there are 32 of them, or all at the end. own_query->found counts the entries of rows that they
 * stand for. */
template <class W, class T, int DIM>
__device__ __forceinline__ void flush_pairs(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                            bool end, uint32_t lane) {
  __syncwarp();
  uint32_t waiting = __shfl_sync(ALL_LANES, *at.pair_count, 0); /* one lane reads it: others may already add to it */
  if (waiting < ADJI_WARP && !(end && waiting)) return;
  while (waiting >= ADJI_WARP || (end && waiting)) {
    uint32_t many = waiting < ADJI_WARP ? waiting : ADJI_WARP;
    waiting -= many;
    uint64_t to = job.pairs ? request_items(job, ADJI_WARP, lane) + lane : 0;
    if (lane >= many) continue;
    adji_gpu_pair pair = at.pairs[waiting + lane];
    bool both = job.keep != ADJI_KEEP_ABOVE && pair.row != pair.id;
    own_query->found += both ? 2 : 1;
    if (job.degrees) {
      atomicAdd(job.degrees + pair.row, 1u);
      if (both) atomicAdd(job.degrees + pair.id, 1u);
    }
    if (!job.pairs || to >= job.pair_room) continue;
    job.pairs[to] = pair;
    if (W::SUMS) job.sums[to] = at.sums[waiting + lane];
  }
  __syncwarp();
  if (lane == 0) *at.pair_count = waiting;
  __syncwarp();
}

/* Adds the pairs of each query with itself, if queries are their own neighbours. */
template <class W, class T, int DIM>
__device__ __forceinline__ void add_selves(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                           bool active, uint32_t lane) {
  if (job.keep != ADJI_KEEP_ALL) return;
  if (active) add_pair<W>(job, at, own_query->row, own_query->row, T(0));
  flush_pairs<W>(job, at, own_query, false, lane);
}

/* ---- Rows of cells near enough ---------------------------------------------------------------------- */

/* The sums of the squares of axes begin .. end - 1 for all combinations of slabs, the last axis fastest. */
__device__ __forceinline__ void sum_gaps(const gaps *g, uint32_t begin, uint32_t end, uint32_t lane, float *to) {
  uint32_t many = 1;
  for (uint32_t a = begin; a < end; a++)
    many *= 3;
  for (uint32_t i = lane; i < many; i += ADJI_WARP) {
    float sum = 0;
    for (uint32_t a = end, rest = i; a-- > begin; rest /= 3)
      sum += g->squares[a][rest % 3];
    to[i] = sum;
  }
}

template <class W, class T>
__device__ __forceinline__ double staged_coordinate(const shared<T> &at, uint32_t lane, uint32_t j) {
  return W::DIM ? at.points[lane * 8 + j] : at.queries[j * ADJI_WARP + lane];
}

/* Lower bounds of the distances from the queries of lanes [begin, end), which are in one row of cells, to the rows of
 * cells around them.
 *
 * Along axis a let q = (x - low) * inverse as computed, and f = q - floor(q) a query's place in its cell. A point one
 * slab below has a computed q' < floor(q). Computed values are within 2^-20.9 of the true ones (index/slab.h), so the
 * points are at least (f - 2^-19.9) / inverse apart, and one slab above (1 - f - 2^-19.9) / inverse. The canonical t is
 * at least that times 1 - 2^-24, and the canonical sum at least the sum of the t^2 times 1 - dim * 2^-24.
 * The constants below are wider, and also cover the roundings of this function: 1e-5 of a cell, factors of 1 - 1e-5
 * and, of the limit, 1 + 1e-3, which is enough for 16,000 dimensions. Squares that underflow have no such factors, so
 * tiny limits have no gaps (with_types() in tiles_kernel.cuh). Only L2 has gaps.
 *
 * If the gaps of a row leave l of the limit, in squares, its candidates are no further than sqrt(l) away along the
 * last axis: see near_cells() below, which adds 1e-3 of a cell for roundings. */
template <class W, class T, int DIM>
__device__ __forceinline__ void find_gaps(const tiles<T> &job, const shared<T> &at, const lane_query<T, DIM> &own_query,
                                          uint32_t begin, uint32_t end, uint32_t lane) {
  uint32_t members = (end - begin < 32 ? (1u << (end - begin)) - 1 : ALL_LANES) << begin;
  uint64_t first = __shfl_sync(ALL_LANES, own_query.cell, begin);
  gaps *to = at.gap;
  __syncwarp();
  if (members >> lane & 1) {
    for (uint32_t a = 0; a <= job.near.axes; a++) {
      double q = (staged_coordinate<W>(at, lane, job.near.dim[a]) - job.near.low[a]) * job.near.inverse[a];
      /* Queries before the first slab belong to it, and so do candidates. */
      float f = static_cast<float>(a < job.near.axes ? q - floor(q) : fmax(q - static_cast<double>(first), 0.0));
      float least = __uint_as_float(__reduce_min_sync(members, __float_as_uint(f)));
      float most = __uint_as_float(__reduce_max_sync(members, __float_as_uint(f)));
      if (lane == begin && a < job.near.axes) {
        float below = fmaxf(least - 1e-5f, 0.0f) * job.near.width[a],
              above = fmaxf(1 - most - 1e-5f, 0.0f) * job.near.width[a];
        to->squares[a][0] = below * below;
        to->squares[a][1] = 0;
        to->squares[a][2] = above * above;
      } else if (lane == begin) {
        to->least = least;
        to->most = most;
      }
    }
  }
  __syncwarp();
  sum_gaps(to, 0, job.near.first_axes, lane, to->first);
  sum_gaps(to, job.near.first_axes, job.near.axes, lane, to->rest);
  __syncwarp();
}

/* The limit minus the squared gaps of a row. Negative: the row is too far away. */
template <class T>
__device__ __forceinline__ float remaining_limit(const tiles<T> &job, const gaps *g, uint32_t row) {
  adji_gpu_parts parts = job.near.parts[row];
  return job.near.limit - (g->first[parts.first] + g->rest[parts.rest]);
}

/* The positions of the cells of a row that are near enough. remaining: the limit minus the row's gaps. */
template <class T>
__device__ __forceinline__ range near_cells(const tiles<T> &job, const gaps *g, const cell_stretch &around, int64_t row,
                                            float remaining) {
  float extent = sqrtf(remaining) * job.near.scale + 1e-3f, reach = static_cast<float>(job.reach);
  float from = fmaxf(floorf(g->least - extent), -reach);
  float to = fminf(floorf(g->most + extent), static_cast<float>(around.last - around.first) + reach);
  int64_t low = static_cast<int64_t>(around.first) + static_cast<int64_t>(from);
  int64_t high = static_cast<int64_t>(around.first) + static_cast<int64_t>(to);
  /* Points beyond the last slab belong to it. */
  int64_t last = job.near.last_slab;
  low = low < 0 ? 0 : low > last ? last : low;
  high = high > last ? last : high;
  return range_of_cells(job, row, static_cast<uint64_t>(low), static_cast<uint64_t>(high));
}

/* ---- Comparing -------------------------------------------------------------------------------------- */

/* Adds the terms of query k and a candidate to s. Stops early if s exceeds the limit. */
template <int STEP, class T>
__device__ __forceinline__ void add_until_limit(const tiles<T> &job, const shared<T> &at, T &s, uint32_t position,
                                                uint32_t k) {
  for (uint32_t j = 0; j < job.dim; j++) {
    s = adji_gpu_step<STEP>(s, at.queries[j * ADJI_WARP + k], job.right.at(position, j), job.measure, j);
    if (STEP != ADJI_STEP_DOT && j % CHECK_EVERY == CHECK_EVERY - 1 && !(s <= job.limit)) break;
  }
}

/* The sum of query k and one of the lane's candidates; or, if it exceeds the limit, any sum that does. */
template <class W, class T>
__device__ __forceinline__ T high_dim_sum(const tiles<T> &job, const shared<T> &at, const candidate<W> &c,
                                          const T (&x)[8], uint32_t k) {
  T s = 0;
  if (W::DIM) {
#pragma unroll
    for (int j = 0; j < W::DIM; j++)
      s = adji_gpu_step<W::STEP>(s, x[j], c.x[j], job.measure, j);
    return adji_gpu_finish<W::STEP>(s);
  }
  if (c.position == UINT32_MAX) return static_cast<T>(NAN);
  if constexpr (W::STEP == RARE_STEP) {
#define ADD(STEP) add_until_limit<STEP>(job, at, s, c.position, k)
    SWITCH_RARE_STEP(job.step, ADD)
#undef ADD
  } else {
    add_until_limit<W::STEP>(job, at, s, c.position, k);
  }
  return adji_gpu_finish<W::STEP>(s);
}

/* If a candidate belongs to query k, counts it and puts it into the queue of k. found[k] counts for all lanes. */
template <class W, class T>
__device__ __forceinline__ void note(const tiles<T> &job, const shared<T> &at, const candidate<W> &c, T s, uint32_t k,
                                     uint32_t begin) {
  if (!(s <= job.limit)) return;
  if (W::MIRRORED && c.position <= at.found[k]) return; /* the query itself, or a point before it */
  uint32_t id = c.id;
  if (!W::HAS_ID && (W::FILL || W::MIRRORED || job.keep == ADJI_KEEP_ABOVE)) id = job.right_ids[c.position];
  if (W::MIRRORED) {
    add_pair<W>(job, at, at.rows[k], id, s);
    return;
  }
  if (!stays<W>(job, id, at.rows[k])) return;
  uint32_t entry = atomicAdd(at.found + k, 1u), slot = slot_of<SHARED_OUT>(entry, k, begin);
  if (!W::FILL) return;
  at.queue[slot] = id;
  if (has_sums<W>(job)) at.sums[slot] = s;
}

/* Compares two candidates of each lane with the queries of lanes [begin, end). */
template <class W, class T, int DIM>
__device__ __forceinline__ void step_high_dim(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                              const candidate<W> &one, const candidate<W> &other, uint32_t begin,
                                              uint32_t end, supply *items, uint32_t lane) {
#pragma unroll 1
  for (uint32_t k = begin; k < end; k++) {
    T x[8];
    if (DIM) load_all(at.points + k * 8, x);
    T first = high_dim_sum<W>(job, at, one, x, k), second = high_dim_sum<W>(job, at, other, x, k);
    note<W>(job, at, one, first, k, begin);
    note<W>(job, at, other, second, k, begin);
    if (W::MIRRORED) flush_pairs<W>(job, at, own_query, false, lane);
  }
  __syncwarp();
  if (!W::FILL) return;
  if (lane >= begin && lane < end) own_query->found = at.found[lane];
  flush<W, SHARED_OUT>(job, at, own_query, items, begin, lane);
}

/* The rest of a range, from a position on. */
__device__ __forceinline__ range rest_of_range(range r, uint32_t position) {
  uint32_t before = position > r.begin ? position - r.begin : 0;
  if (before > r.count) before = r.count;
  return range{r.begin + before, r.count - before};
}

/* Compares the candidates of the list with the queries of lanes [begin, end), and empties the list. */
template <class W, class T, int DIM>
__device__ __forceinline__ void join_list(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                          progress *p, uint32_t begin, uint32_t end, supply *items, work_totals *totals,
                                          uint32_t lane) {
  if (lane == 0) totals->candidates += static_cast<uint64_t>(p->total) * (end - begin);
  constexpr uint32_t EACH = 2 * ADJI_WARP;
  uint32_t steps = p->total / EACH + (p->total % EACH > 0);
  totals->steps += static_cast<uint64_t>(steps) * 2 * (end - begin);
  for (uint32_t step = 0, done = 0; step < steps; step++, done += EACH) {
    candidate<W> one = fetch<W, false>(job, at.list, p, done, lane),
                 other = fetch<W, false>(job, at.list, p, done + ADJI_WARP, lane);
    step_high_dim<W>(job, at, own_query, one, other, begin, end, items, lane);
  }
  *p = progress{0, 0, 0};
  __syncwarp();
}

/* Compares the queries of lanes [begin, end), which are in one row of cells.
 *
 *   1. lanes test rows of cells, 32 at a time; rows that are near enough wait in a list
 *   2. when there are 32 of them, lanes look them up; ranges that are not empty go to the list of ranges
 *   3. when the list of ranges is half full, its candidates are compared */
template <class W, class T, int DIM>
__device__ __forceinline__ void join_high_dim(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                              uint32_t begin, uint32_t end, supply *items, work_totals *totals,
                                              uint32_t lane) {
  cell_stretch around = {__shfl_sync(ALL_LANES, own_query->cell_row, begin),
                         __shfl_sync(ALL_LANES, own_query->cell, begin),
                         __shfl_sync(ALL_LANES, own_query->cell, end - 1)};
  bool near = W::STEP == ADJI_STEP_L2 && job.near.axes;
  if (near) find_gaps<W>(job, at, *own_query, begin, end, lane);
  progress p = {0, 0, 0};
  uint32_t waiting = 0, middle = job.row_count / 2; /* the queries' own row */
  uint32_t least = __shfl_sync(ALL_LANES, own_query->position, begin), first = W::MIRRORED ? middle : 0;
  for (uint32_t row = first + lane, ahead = job.row_count - first; ahead; row += ADJI_WARP) {
    ahead = ahead > ADJI_WARP ? ahead - ADJI_WARP : 0;
    float remaining = near && row < job.row_count ? remaining_limit(job, at.gap, row) : 0;
    uint32_t wanted = __ballot_sync(ALL_LANES, row < job.row_count && remaining >= 0);
    if (wanted >> lane & 1) {
      uint32_t to = waiting + __popc(wanted & ((1u << lane) - 1));
      at.wanted->row[to] = row;
      at.wanted->remaining[to] = remaining;
    }
    waiting += __popc(wanted);
    __syncwarp();
    while (waiting >= ADJI_WARP || (!ahead && waiting)) {
      uint32_t many = waiting < ADJI_WARP ? waiting : ADJI_WARP;
      waiting -= many;
      range found = {0, 0};
      if (lane < many) {
        uint32_t wanted_row = at.wanted->row[waiting + lane];
        int64_t of_cells = around.row + job.row_steps[wanted_row];
        found = near ? near_cells(job, at.gap, around, of_cells, at.wanted->remaining[waiting + lane])
                     : row_of_cells(job, around.row, wanted_row, around.first, around.last);
        if (W::MIRRORED && wanted_row == middle) found = rest_of_range(found, least);
      }
      add_ranges(at.list, &p, found, lane);
      if (p.count > ADJI_WARP) join_list<W>(job, at, own_query, &p, begin, end, items, totals, lane);
    }
  }
  if (p.count) join_list<W>(job, at, own_query, &p, begin, end, items, totals, lane);
  if (W::FILL) empty_queues<W, SHARED_OUT>(job, at, own_query, begin, lane); /* the next queries use the same memory */
}

/* Compares the queries of the lanes in `members`, those of a few cells of a row at a time. */
template <class W, class T, int DIM>
__device__ __forceinline__ void join_cells(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                           uint32_t members, supply *items, work_totals *totals, uint32_t lane) {
  uint32_t group = own_query->cell / job.group;
  uint32_t before = __shfl_up_sync(ALL_LANES, group, 1);
  int64_t row_before = __shfl_up_sync(ALL_LANES, own_query->cell_row, 1);
  at.found[lane] = W::MIRRORED ? own_query->position : own_query->found;
  at.rows[lane] = own_query->row;
  __syncwarp();
  bool member = members >> lane & 1;
  uint32_t heads = __ballot_sync(ALL_LANES, member && (lane == 0 || !(members >> (lane - 1) & 1) || group != before ||
                                                       own_query->cell_row != row_before));
  for (uint32_t remaining = heads; remaining; remaining &= remaining - 1) {
    uint32_t begin = __ffs(remaining) - 1;
    uint32_t others = (heads | ~members) & ~((2u << begin) - 1); /* another group begins, or no member */
    uint32_t end = others && begin < 31 ? __ffs(others) - 1 : ADJI_WARP;
    for (uint32_t first = begin; first < end; first += HIGH_DIM_QUERIES) {
      uint32_t last = end - first < HIGH_DIM_QUERIES ? end : first + HIGH_DIM_QUERIES;
      join_high_dim<W>(job, at, own_query, first, last, items, totals, lane);
    }
  }
  __syncwarp();
  if (member && !W::MIRRORED) own_query->found = at.found[lane];
}

}  // namespace

#endif
