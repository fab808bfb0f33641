/* SPDX-License-Identifier: MIT
 *
 * Points in leaves of 32 along a curve that fills space, with bounding boxes of leaves, of 32 leaves, of 32 of these
 * and so on: what kNN joins in few dimensions search on a device.
 */
#ifndef ADJI_GPU_TREE_CUH
#define ADJI_GPU_TREE_CUH

#include "gpu/index.cuh"

/* Leaves of 2^32 points, in groups of 32, and so on. */
enum { ADJI_GPU_LEVELS = 7, ADJI_GPU_FAN = 32 };

/* Boxes of one level: the least coordinate j of box i is at bounds[(2 * j) * stride + i], the largest behind it at
 * [(2 * j + 1) * stride + i]. */
typedef struct adji_gpu_level {
  const void *bounds;
  uint64_t stride;
  uint32_t count;
} adji_gpu_level;

typedef struct adji_gpu_tree {
  uint64_t count;
  void *coords; /* as adji_gpu_index has them, ADJI_GPU_BEHIND more; behind the last point of the last leaf NaN */
  uint64_t point_step, dim_step;
  uint32_t *ids;
  adji_gpu_level levels[ADJI_GPU_LEVELS]; /* of leaves first; the last has 32 boxes at most */
  uint32_t level_count;
  adji_block coords_block, ids_block, bounds_block;
} adji_gpu_tree;

#endif
