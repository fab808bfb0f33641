/* SPDX-License-Identifier: MIT
 *
 * A right set on a device, as its joins see it.
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
  adji_block points; /* form POINTS: a copy; nothing if the given ones are used in place */
  adji_gpu_rows rows;
  adji_gpu_tree tree;
  adji_gpu_grid grid;
  adji_gpu_index index;
  adji_device_stats work; /* of making it: the first join reports it as its own */
  adji_stopwatch watch;
  bool reported;
  double row_chunks; /* of a row of the last range join, for the room of the next one's count cache; 0: not known */
};

/* Whether the caller is its first join; and what making it took, which that one reports. */
static inline bool adji_gpu_right_is_new(adji_gpu_right *right) {
  bool is_new = !right->reported;
  right->reported = true;
  return is_new;
}
adji_device_stats adji_gpu_right_work(adji_gpu_right *right);

/* The limits of a join's left rows, in the type of the sums, to a block of their own; nothing if all have the same. */
adj_status adji_gpu_send_limits(adji_gpu *gpu, const adji_join *join, adji_device_stats *work, adji_block *to);

/* Packs points of up to ADJI_TREE_DIMS dimensions as an index has them, in their own order; cells and numbers are not
 * made. Notes the first coordinate that is not finite in ADJI_ANSWER_NOT_FINITE, as its complement: the caller clears
 * that answer before. */
adj_status adji_gpu_index_pack(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_index *out);

/* Fails if packing has found such a coordinate, by the answers fetched last. */
adj_status adji_gpu_check_packed(const adji_gpu *gpu, uint32_t dim);

#endif
