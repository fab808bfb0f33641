/* SPDX-License-Identifier: MIT
 *
 * Points in leaves of eight along Hilbert's curve, with bounding boxes of leaves, of groups of 32 leaves, of 32 such
 * groups, and so on. kNN joins in few dimensions search this tree.
 *
 * Leaves are as small as is worthwhile. All points of a leaf are compared, so a warp with 32 queries in 3-D and k = 8
 * compares 320 candidates if leaves hold eight points. If they hold 32, it compares 780, with half as many tests of
 * boxes. Along Morton's curve it would compare 1,400, and many thousands where the curve jumps.
 */
#ifndef ADJI_GPU_INDEX_TREE_CUH
#define ADJI_GPU_INDEX_TREE_CUH

#include "gpu/index/index.cuh"

/* Levels for 2^32 points in leaves, groups of 32, and so on. */
enum { ADJI_TREE_DIMS = 6, ADJI_TREE_LEAF = 8, ADJI_GPU_FAN = 32, ADJI_GPU_LEVELS = 7 };

/* The number of values of a box: the least coordinates, then the largest, padded to 16 bytes. */
template <class T>
__host__ __device__ constexpr uint32_t adji_box_width(uint32_t dim) {
  return (2 * dim * sizeof(T) + 15) / 16 * 16 / sizeof(T);
}

typedef struct adji_gpu_level {
  const void *bounds;    /* box after box */
  const uint32_t *least; /* the least id in each box */
  uint32_t count;
} adji_gpu_level;

typedef struct adji_gpu_tree {
  adji_gpu_index points; /* in the order of the curve, or of a host; at most ADJI_TREE_DIMS dimensions */
  adji_gpu_level levels[ADJI_GPU_LEVELS]; /* leaves first; the last level has at most 32 boxes */
  uint32_t level_count;
  adji_block bounds, least;
} adji_gpu_tree;

/* How a tree is built. */
typedef struct adji_gpu_tree_options {
  const double *low, *high; /* of all coordinates, in host memory */
  bool boxes;               /* candidates are searched in it */
  bool cut;                 /* runs of the curve are cut in two (tree_cut.cu) */
} adji_gpu_tree_options;

adj_status adji_gpu_tree_build(adji_gpu *gpu, const adji_gpu_rows *rows, const adji_gpu_tree_options *options,
                               adji_gpu_tree *out);
/* Cuts runs of the points in two repeatedly, down to leaves: see tree_cut.cu. There must be points. Changes nothing if
 * a block cannot have the shared memory for it. */
adj_status adji_gpu_tree_cut(adji_gpu *gpu, adj_type type, uint32_t dim, adji_gpu_index *points);
/* Moves the points into the order of a host's kd-tree. The host's i-th point is at position order[i]; afterwards it is
 * at or near position i, and order has its new position. A host passes queries by whole nodes of its tree. In this
 * order a warp's 32 queries are neighbours; in the order of the curve they would be neighbours only if no query were
 * missing. If there is no memory for a second copy of the points, it fails and changes nothing. */
adj_status adji_gpu_tree_follow(adji_gpu *gpu, adj_type type, uint32_t dim, uint32_t *order, adji_gpu_tree *tree);
void adji_gpu_tree_clear(adji_gpu *gpu, adji_gpu_tree *tree);

#endif
