/* SPDX-License-Identifier: MIT
 *
 * The range kernels of the papers, beside the default ones of range/tiles.cuh: a query has one thread, or a few, of its
 * own. gpu/papers/access.h lists the choices, docs/tuning.md what they are for.
 */
#ifndef ADJI_GPU_PAPERS_PER_POINT_CUH
#define ADJI_GPU_PAPERS_PER_POINT_CUH

#include "gpu/range/tiles_job.cuh"

extern "C" {
#include "gpu/papers/access.h"
}

/* The state of these kernels from launch to launch of a join. */
typedef struct adji_per_point {
  adji_point_options options;
  adji_block order;     /* positions of the left index, most work first; made by the first count if requested */
  adji_block cursors;   /* entries that the rows of a window have so far */
  adji_block temporary; /* for CUB */
} adji_per_point;

/* Does what adji_tiles_run() does, on the compute stream, with these differences. Row chunks are not supported. Only
 * rows job->first_row .. end_row - 1 are written, whatever the queries find; where pairs of cells are met once, the
 * queries must then be all of them. Rows are unordered. */
adj_status adji_per_point_run(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job);
void adji_per_point_clear(adji_gpu *gpu, adji_per_point *state);

#endif
