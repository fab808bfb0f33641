/* SPDX-License-Identifier: MIT
 *
 * The range join's default kernels: a warp has 32 queries that are neighbours in the order of the grid.
 */
#ifndef ADJI_TILES_CUH
#define ADJI_TILES_CUH

#include "gpu/index.cuh"
#include "gpu/steps.cuh"

typedef enum adji_gpu_keep {
  ADJI_KEEP_ALL,    /* of what belongs, every candidate                */
  ADJI_KEEP_OTHERS, /* all but the query itself, by id                 */
  ADJI_KEEP_ABOVE   /* those whose id is above the query's             */
} adji_gpu_keep;

/* What a launch does. All memory is the device's. */
typedef struct adji_tiles_job {
  adj_type type;
  const adji_measure *measure; /* host; its box is not used               */
  const void *box;             /* of the measure, on the device, or NULL  */
  double limit;
  uint32_t dim;
  const adji_gpu_grid *grid; /* host */
  const adji_gpu_index *left, *right;
  adji_gpu_keep keep;
  /* The queries: positions in left, ascending; NULL: first_query and those behind it. */
  const uint32_t *queries;
  uint64_t first_query, query_count;
  /* Counting, when ids is NULL: degrees[row] (may be NULL) and the answers ADJI_ANSWER_PAIRS, _CANDIDATES. */
  uint32_t *degrees;
  /* Filling: entries of row r go to ids + offsets[r] - base, as many as were counted; their sums too unless sums
   * is NULL. Rows of another length are counted in ADJI_ANSWER_BROKEN, and nothing is written behind them. */
  const uint64_t *offsets;
  uint64_t base;
  uint32_t *ids;
  void *sums;
} adji_tiles_job;

adj_status adji_tiles_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job);

#endif
