/* SPDX-License-Identifier: MIT
 *
 * Range joins through a tree: for few queries, and for queries that each have a limit. No grid is needed.
 */
#ifndef ADJI_GPU_RANGE_RANGE_TREE_CUH
#define ADJI_GPU_RANGE_RANGE_TREE_CUH

#include "gpu/index/tree.cuh"
#include "gpu/range/tiles_job.cuh"

/* What a launch needs beyond the job. Of the job, grid, right, query hits and tile hits are not used. */
typedef struct adji_range_tree_job {
  const adji_gpu_tree *tree; /* host */
  const void *limits;        /* by row, on the device, of the type of the sums; NULL: all rows have the job's limit */
  uint32_t most_blocks;      /* blocks that run at a time; 0: as many as fit */
} adji_range_tree_job;

/* Only for metrics and dimensions that trees support (gpu/knn/knn.h). */
adj_status adji_range_tree_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job,
                               const adji_range_tree_job *tree);

#endif
