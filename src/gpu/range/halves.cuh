/* SPDX-License-Identifier: MIT
 *
 * The half-precision copies of the points of a join, on the device: see gpu/shared/halves.h.
 */
#ifndef ADJI_GPU_RANGE_HALVES_CUH
#define ADJI_GPU_RANGE_HALVES_CUH

#include "gpu/index/index.cuh"
#include "gpu/shared/halves.h"

/* Dimensions in which tiles of candidates have bounding boxes, ascending: the axes of the grid, whose order keeps the
 * boxes small. */
typedef struct adji_gpu_boxes {
  uint32_t axes;
  uint32_t dim[ADJI_MAX_AXES];
  const float *bounds; /* device: low of every tile and axis 0, high of axis 0, low of axis 1, ... */
} adji_gpu_boxes;

/* Copies of both sets, in the order of their indexes; those of the right set fill whole tiles. */
typedef struct adji_gpu_halves {
  adji_halves_scale scale;
  uint64_t tiles;
  const void *left, *right; /* halves: scale.width a point */
  const float *u, *v;       /* u: of queries; v: of candidates */
  adji_gpu_boxes boxes;
  adji_block centre, most, left_values, right_values, u_block, v_block, bounds;
} adji_gpu_halves;

adj_status adji_gpu_halves_make(adji_gpu *gpu, const adji_halves_plan *plan, const adji_gpu_grid *grid,
                                const adji_gpu_index *left, const adji_gpu_index *right, adji_gpu_halves *out);
void adji_gpu_halves_clear(adji_gpu *gpu, adji_gpu_halves *halves);

#endif
