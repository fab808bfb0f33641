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
  adji_gpu_index points;                  /* in the order of the curve; up to six dimensions */
  adji_gpu_level levels[ADJI_GPU_LEVELS]; /* of leaves first; the last has 32 boxes at most */
  uint32_t level_count;
  adji_block bounds;
} adji_gpu_tree;

/* low and high: of all coordinates, in host memory. boxes: candidates are looked for in it. */
adj_status adji_gpu_tree_build(adji_gpu *gpu, const adji_gpu_rows *rows, const double *low, const double *high,
                               bool boxes, adji_gpu_tree *out);
void adji_gpu_tree_clear(adji_gpu *gpu, adji_gpu_tree *tree);

#endif
