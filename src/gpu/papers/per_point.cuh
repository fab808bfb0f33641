/* SPDX-License-Identifier: MIT
 *
 * The range join's kernels of the papers, beside the default ones of tiles.cuh: a query has one thread, or a few, to
 * itself. gpu/papers/access.h says what can be chosen, docs/tuning.md what for.
 */
#ifndef ADJI_GPU_PAPERS_PER_POINT_CUH
#define ADJI_GPU_PAPERS_PER_POINT_CUH

#include "gpu/range/tiles_job.cuh"

extern "C" {
#include "gpu/papers/access.h"
}

/* What these kernels keep from launch to launch of a join. */
typedef struct adji_per_point {
  adji_point_options options;
  adji_block order;     /* positions of the left index, the most work first; made by the first count if it is wanted */
  adji_block cursors;   /* how many entries the rows of a window have already                                        */
  adji_block temporary; /* for CUB */
} adji_per_point;

/* What adji_tiles_run() does, on the compute stream. Row chunks are not supported; of the rows that are filled only
 * job->first_row .. end_row - 1 are written, whatever the queries find; where pairs of cells are met once, the queries
 * must be all of them for that. Rows have no order. */
adj_status adji_per_point_run(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job);
void adji_per_point_clear(adji_gpu *gpu, adji_per_point *state);

/* The launches by type and metric, one file each. */
adj_status adji_per_point_l2(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job);
adj_status adji_per_point_metrics(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job);

#endif
