/* SPDX-License-Identifier: MIT
 *
 * A right set on a device, for the joins that search it.
 */
#ifndef ADJI_GPU_INDEX_RIGHT_CUH
#define ADJI_GPU_INDEX_RIGHT_CUH

#include "gpu/device/stopwatch.cuh"
#include "gpu/index/tree.cuh"

extern "C" {
#include "gpu/index/right.h"
}

struct adji_gpu_right {
  adji_gpu *gpu;
  adji_right_form form;
  bool shared;
  adji_block points; /* form POINTS: a copy; empty if the given points are used in place */
  adji_gpu_rows rows;
  adji_gpu_tree tree;
  adji_gpu_grid grid;
  adji_gpu_index index;
  adji_device_stats work; /* the work of making it; the first join reports it as its own */
  adji_stopwatch watch;
  bool reported;
  double row_chunks; /* per row in the last range join; sizes the next join's count cache; 0: not known */
};

/* Whether the caller is the first join; adji_gpu_right_work: the work of making the set, which that join reports. */
static inline bool adji_gpu_right_is_new(adji_gpu_right *right) {
  bool is_new = !right->reported;
  right->reported = true;
  return is_new;
}
adji_device_stats adji_gpu_right_work(adji_gpu_right *right);

/* Copies the limits of a join's left rows, in the type of the sums, to a new block; does nothing if all rows have the
 * same limit. */
adj_status adji_gpu_send_limits(adji_gpu *gpu, const adji_join *join, adji_device_stats *work, adji_block *to);

/* Packs points of up to ADJI_TREE_DIMS dimensions as in an index, but in their own order and without cells and numbers.
 * Records the first coordinate that is not finite in ADJI_ANSWER_NOT_FINITE, as its complement. The caller clears that
 * answer before. */
adj_status adji_gpu_index_pack(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_index *out);

/* Fails if packing has found such a coordinate, according to the answers fetched last. */
adj_status adji_gpu_check_packed(const adji_gpu *gpu, uint32_t dim);

#endif
