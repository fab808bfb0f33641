/* SPDX-License-Identifier: MIT
 *
 * Points in leaves of eight along a curve that fills space (Hilbert's), with bounding boxes of leaves, of 32 leaves, of
 * 32 of these and so on: what kNN joins in few dimensions search on a device.
 *
 * Leaves are as small as pays: where all points of a leaf are compared, a warp with 32 queries in 3-D compares 320
 * candidates for k = 8 where leaves hold eight points, and 780 where they hold 32, for twice as many tests of boxes.
 * Along Morton's curve it would be 1,400, and where the curve leaps, many thousands.
 */
#ifndef ADJI_GPU_INDEX_TREE_CUH
#define ADJI_GPU_INDEX_TREE_CUH

#include "gpu/index/index.cuh"

/* Leaves of 2^32 points, in groups of 32, and so on. */
enum { ADJI_TREE_DIMS = 6, ADJI_TREE_LEAF = 8, ADJI_GPU_FAN = 32, ADJI_GPU_LEVELS = 7 };

/* Values that a box takes: the least coordinates, the largest ones, and up to the next 16 bytes. */
template <class T>
__host__ __device__ constexpr uint32_t adji_box_width(uint32_t dim) {
  return (2 * dim * sizeof(T) + 15) / 16 * 16 / sizeof(T);
}

typedef struct adji_gpu_level {
  const void *bounds; /* box after box */
  uint32_t count;
} adji_gpu_level;

typedef struct adji_gpu_tree {
  adji_gpu_index points;                  /* in the order of the curve, or a host's; ADJI_TREE_DIMS at most */
  adji_gpu_level levels[ADJI_GPU_LEVELS]; /* of leaves first; the last has 32 boxes at most */
  uint32_t level_count;
  adji_block bounds;
} adji_gpu_tree;

/* How a tree is built. */
typedef struct adji_gpu_tree_options {
  const double *low, *high; /* of all coordinates, in host memory                */
  bool boxes;               /* candidates are looked for in it                   */
  bool cut;                 /* runs of the curve are cut in two (tree_cut.cu)    */
} adji_gpu_tree_options;

adj_status adji_gpu_tree_build(adji_gpu *gpu, const adji_gpu_rows *rows, const adji_gpu_tree_options *options,
                               adji_gpu_tree *out);
/* Cuts runs of the points in two again and again, down to leaves: see tree_cut.cu. There are points. They stay in the
 * order they are in where a block cannot have the shared memory for it. */
adj_status adji_gpu_tree_cut(adji_gpu *gpu, adj_type type, uint32_t dim, adji_gpu_index *points);
/* Brings the points into the order of a host's kd-tree: its i-th point is at position order[i], and then at that of the
 * host or near it, which order says. Queries that a host hands over by whole nodes of its tree are then 32 neighbours
 * to a warp, as they are along the curve only where none is missing. Fails without memory for the points again, and has
 * changed nothing. */
adj_status adji_gpu_tree_follow(adji_gpu *gpu, adj_type type, uint32_t dim, uint32_t *order, adji_gpu_tree *tree);
void adji_gpu_tree_clear(adji_gpu *gpu, adji_gpu_tree *tree);

#endif
