/* SPDX-License-Identifier: MIT
 *
 * Sparse places in many dimensions: lanes share out the candidates of a few queries. tiles_kernel.cuh.
 */
#ifndef ADJI_TILES_FLAT_CUH
#define ADJI_TILES_FLAT_CUH

#include "gpu/tiles_together.cuh"

namespace {

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

/* Rows of cells that are too far away for the queries of lanes [begin, end), all of one cell.
 *
 * Along axis a let q = (x - low) * inverse as computed, f = q - floor(q) a query's place in its cell. A point one slab
 * below has a computed q' < floor(q). Computed values are within 2^-20.9 of the true ones (index/grid.c), so the points
 * are at least (f - 2^-19.9) / inverse apart, and one slab above (1 - f - 2^-19.9) / inverse; the canonical t is that
 * up to a factor 1 - 2^-24, and the canonical sum at least the sum of the t^2 up to a factor 1 - dim * 2^-24. The
 * constants below leave out more than that, and roundings of this function with it: 1e-5 of a cell, factors of 1 - 1e-5
 * and, in far_away(), 1 + 1e-3, which is enough for 16,000 dimensions. Squares that underflow have no such factors, so
 * tiny limits have no gaps (adji_gpu_near). Only the metric L2 has them. */
template <class T, int DIM>
__device__ __forceinline__ void find_gaps(const tiles<T> &job, const own<T, DIM> &mine, uint32_t begin, uint32_t end,
                                          uint32_t lane, gaps *to) {
  uint32_t members = (end - begin < 32 ? (1u << (end - begin)) - 1 : ALL_LANES) << begin;
  __syncwarp();
  if (members >> lane & 1) {
    for (uint32_t a = 0; a < job.near.axes; a++) {
      double x = job.left_coords[job.near.dim[a] * job.left_stride + mine.position];
      double q = (x - job.near.low[a]) * job.near.inverse[a];
      float f = static_cast<float>(q - floor(q));
      float least = __uint_as_float(__reduce_min_sync(members, __float_as_uint(f)));
      float most = __uint_as_float(__reduce_max_sync(members, __float_as_uint(f)));
      if (lane == begin) {
        float below = fmaxf(least - 1e-5f, 0.0f) * job.near.width[a],
              above = fmaxf(1 - most - 1e-5f, 0.0f) * job.near.width[a];
        to->squares[a][0] = below * below;
        to->squares[a][1] = 0;
        to->squares[a][2] = above * above;
      }
    }
  }
  __syncwarp();
  sum_gaps(to, 0, job.near.first_axes, lane, to->first);
  sum_gaps(to, job.near.first_axes, job.near.axes, lane, to->rest);
  __syncwarp();
}

template <class T>
__device__ __forceinline__ bool far_away(const tiles<T> &job, const gaps *g, uint32_t row) {
  adji_gpu_parts parts = job.near.parts[row];
  return g->first[parts.first] + g->rest[parts.rest] > job.near.limit;
}

/* Compares the lane's candidate with the queries of lanes [begin, end). found counts for all of them. */
template <class W, class T>
__device__ __forceinline__ void compare_flat(const tiles<T> &job, const shared<T> &at, const candidate<W> &c,
                                             uint32_t begin, uint32_t end) {
  if (c.position == UINT32_MAX) return;
  for (uint32_t k = begin; k < end; k++) {
    T s = 0;
    if (W::DIM) {
      T x[8];
      load_all(at.points + k * 8, x);
#pragma unroll
      for (int j = 0; j < W::DIM; j++)
        s = adji_gpu_step<W::STEP>(s, x[j], c.x[j], job.measure, j);
    } else {
      for (uint32_t j = 0; j < job.dim; j++) {
        s = adji_gpu_step<W::STEP>(s, at.queries[j * ADJI_WARP + k],
                                   job.right_coords[j * job.right_stride + c.position], job.measure, j);
        if (W::STEP != ADJI_STEP_DOT && j % CHECK_EVERY == CHECK_EVERY - 1 && !(s <= job.limit)) break;
      }
    }
    s = adji_gpu_finish<W::STEP>(s);
    if (!(s <= job.limit) || !stays<W>(job, c.id, at.rows[k])) continue;
    uint32_t entry = atomicAdd(at.found + k, 1u), slot = slot_of<SHARED_OUT>(entry, k, begin);
    if (!W::FILL) continue;
    at.queue[slot] = c.id;
    if (W::SUMS) at.sums[slot] = s;
  }
}

template <class W, class T, int DIM>
__device__ __forceinline__ void step_flat(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                          const candidate<W> &c, uint32_t begin, uint32_t end, supply *pieces,
                                          uint32_t lane) {
  compare_flat<W>(job, at, c, begin, end);
  __syncwarp();
  if (!W::FILL) return;
  if (lane >= begin && lane < end) mine->found = at.found[lane];
  flush<W, SHARED_OUT>(job, at, mine, pieces, false, begin, lane);
}

/* The queries of lanes [begin, end), which are in one cell. */
template <class W, class T, int DIM>
__device__ __forceinline__ void join_flat(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, uint32_t begin,
                                          uint32_t end, supply *pieces, effort *took, uint32_t lane) {
  cell_stretch around = {__shfl_sync(ALL_LANES, mine->cell_row, begin), __shfl_sync(ALL_LANES, mine->cell, begin), 0};
  around.last = around.first;
  bool near = W::STEP == ADJI_STEP_L2 && job.near.axes;
  if (near) find_gaps(job, *mine, begin, end, lane, at.gap);
  for (uint32_t round = 0; round * ADJI_WARP < job.row_count; round++) {
    uint32_t row = round * ADJI_WARP + lane;
    bool wanted = row < job.row_count && !(near && far_away(job, at.gap, row));
    list_ranges(job, around, row, wanted, lane, at.list);
    uint32_t total = at.list->total;
    if (lane == 0) took->candidates += static_cast<uint64_t>(total) * (end - begin);
    took->steps += static_cast<uint64_t>(total / ADJI_WARP + (total % ADJI_WARP > 0)) * (end - begin);
    for (uint32_t done = 0; done < total; done += 2 * ADJI_WARP) { /* two at a time: one is on its way */
      candidate<W> one = fetch<W>(job, at.list, done + lane), other = fetch<W>(job, at.list, done + ADJI_WARP + lane);
      step_flat<W>(job, at, mine, one, begin, end, pieces, lane);
      if (done + ADJI_WARP < total) step_flat<W>(job, at, mine, other, begin, end, pieces, lane);
    }
  }
  if (W::FILL) /* the next cell's queries use the same memory */
    while (__any_sync(ALL_LANES, lane >= begin && lane < end && mine->found > mine->written))
      flush<W, SHARED_OUT>(job, at, mine, pieces, true, begin, lane);
}

/* All queries of the lanes in `members`, cell by cell. */
template <class W, class T, int DIM>
__device__ __forceinline__ void join_cells(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                           uint32_t members, supply *pieces, effort *took, uint32_t lane) {
  uint64_t before = __shfl_up_sync(ALL_LANES, mine->cell, 1);
  int64_t row_before = __shfl_up_sync(ALL_LANES, mine->cell_row, 1);
  at.found[lane] = mine->found;
  at.rows[lane] = mine->row;
  __syncwarp();
  bool member = members >> lane & 1;
  uint32_t heads = __ballot_sync(ALL_LANES, member && (lane == 0 || !(members >> (lane - 1) & 1) ||
                                                       mine->cell != before || mine->cell_row != row_before));
  for (uint32_t left = heads; left; left &= left - 1) {
    uint32_t begin = __ffs(left) - 1;
    uint32_t others = (heads | ~members) & ~((2u << begin) - 1); /* where another begins, or none is */
    uint32_t end = others && begin < 31 ? __ffs(others) - 1 : ADJI_WARP;
    for (uint32_t first = begin; first < end; first += FLAT_QUERIES) {
      uint32_t last = end - first < FLAT_QUERIES ? end : first + FLAT_QUERIES;
      join_flat<W>(job, at, mine, first, last, pieces, took, lane);
    }
  }
  __syncwarp();
  if (member) mine->found = at.found[lane];
}

}  // namespace

#endif
