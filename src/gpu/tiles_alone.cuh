/* SPDX-License-Identifier: MIT
 *
 * Sparse places in few dimensions: each lane compares its query with candidates of its own. tiles_kernel.cuh.
 */
#ifndef ADJI_TILES_ALONE_CUH
#define ADJI_TILES_ALONE_CUH

#include "gpu/tiles_queue.cuh"

namespace {

template <class W, class T, int DIM>
__device__ __forceinline__ T sum_of(const tiles<T> &job, const own<T, DIM> &mine, uint32_t position) {
  T s = 0;
  if (DIM) {
#pragma unroll
    for (int j = 0; j < DIM; j++)
      s = adji_gpu_step<W::STEP>(s, mine.x[j], job.right_coords[j * job.right_stride + position], job.measure, j);
  } else {
    for (uint32_t j = 0; j < job.dim; j++) {
      T x = job.left_coords[j * job.left_stride + mine.position];
      s = adji_gpu_step<W::STEP>(s, x, job.right_coords[j * job.right_stride + position], job.measure, j);
      if (W::STEP != ADJI_STEP_DOT && !(s <= job.limit)) break;
    }
  }
  return adji_gpu_finish<W::STEP>(s);
}

/* One candidate of the lane's own. */
template <class W, class T, int DIM>
__device__ __forceinline__ void meet(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, uint32_t position,
                                     uint32_t lane) {
  uint32_t id = W::FILL || job.keep == ADJI_KEEP_ABOVE ? job.right_ids[position] : 0;
  T s = sum_of<W>(job, *mine, position);
  keep<W>(at, mine, s <= job.limit && stays<W>(job, id, mine->row), id, s, lane);
}

/* The queries of the lanes that take part. Three rows of cells at a time, so that looking them up takes one wait. */
template <class W, class T, int DIM>
__device__ __forceinline__ void join_alone(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, bool takes_part,
                                           supply *pieces, effort *took, uint32_t lane) {
  for (uint32_t row = 0; row < job.row_count; row += 3) {
    range r[3];
#pragma unroll
    for (int k = 0; k < 3; k++) {
      r[k] = range{0, 0};
      if (takes_part && row + k < job.row_count)
        r[k] = row_of_cells(job, mine->cell_row + job.row_steps[row + k], mine->cell, mine->cell);
    }
#pragma unroll
    for (int k = 0; k < 3; k++) {
      took->candidates += r[k].count;
      if (counts<W>(job)) took->steps += __reduce_max_sync(ALL_LANES, r[k].count);
      uint32_t position = r[k].begin, end = position + r[k].count;
      while (W::FILL ? __any_sync(ALL_LANES, position < end) : position < end) {
        /* As much as the queue has room for. */
        uint32_t stop = !W::FILL || end - position < BETWEEN ? end : position + BETWEEN;
#pragma unroll 2
        for (; position < stop; position++)
          meet<W>(job, at, mine, position, lane);
        if (W::FILL) flush<W, BY_LANE>(job, at, mine, pieces, false, 0, lane);
      }
    }
  }
}

}  // namespace

#endif
