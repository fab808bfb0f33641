/* SPDX-License-Identifier: MIT
 *
 * The range kernels of the papers, beside the default ones of range/tiles.cuh. A query has one thread, or a few, of its
 * own. gpu/papers/access.h lists the choices; docs/tuning.md says what they are for.
 */
#ifndef ADJI_GPU_PAPERS_PER_POINT_CUH
#define ADJI_GPU_PAPERS_PER_POINT_CUH

#include "gpu/range/tiles_job.cuh"

extern "C" {
#include "gpu/papers/access.h"
}

/* The state of these kernels that a join keeps between launches. */
typedef struct adji_per_point {
  adji_point_options options;
  adji_block order;     /* positions of the left index, most work first; made by the first count if requested */
  adji_block cursors;   /* the number of entries that each row of a window has so far */
  adji_block temporary; /* for CUB */
  adji_block dims;      /* the order of the dimensions, if there is one */
} adji_per_point;

/* Some queries of a job: `count` of them, with the numbers first, first + step, and so on. Their entries go to rows and
 * ids, and their sums to the job's sums unless these are NULL, one after the other in any order; entries of rows
 * outside the job's are dropped. All of this is device memory. answers: laid out as the device's own (enum
 * adji_answer), 0 before the launch. ADJI_ANSWER_CACHE becomes the number of entries, which may be more than there is
 * room for. Comparisons and slots are added to the totals. */
typedef struct adji_point_batch {
  uint64_t first, step, count;
  uint32_t *rows, *ids;
  uint64_t room;
  unsigned long long *answers;
} adji_point_batch;

/* Runs a batch on a stream. job->queries: the queries to which the batch's numbers refer; NULL: they are positions. */
adj_status adji_per_point_batch(adji_gpu *gpu, cudaStream_t stream, const adji_per_point *state,
                                const adji_tiles_job *job, const adji_point_batch *batch);

/* Counts or fills (job->apart) the rows of a host's list of queries, on a stream. The job has answers of its own, which
 * are 0 before the launch. After adji_per_point_begin_lists() a row must be in one list only, so that lists on several
 * streams do not write the same row. begin: before the first list of a pass, on the compute stream. */
adj_status adji_per_point_begin_lists(adji_gpu *gpu, adji_per_point *state, uint64_t rows);
adj_status adji_per_point_list(adji_gpu *gpu, cudaStream_t stream, const adji_per_point *state,
                               const adji_tiles_job *job);

/* The queue of HEGJoin: the rows of all queries, most work first, and the counts of every step-th of them. All memory
 * is on the device; rows has room for all queries, queries and counts have room for the samples. The job must be one
 * that counts, with degrees that are 0. */
typedef struct adji_point_queue {
  uint32_t *rows, *queries, *counts;
  uint64_t samples, step;
} adji_point_queue;
adj_status adji_per_point_queue(adji_gpu *gpu, adji_per_point *state, adji_tiles_job *job, const adji_point_queue *out);

/* Does what adji_tiles_run() does, on the compute stream, with these differences. Row chunks are not supported. Only
 * rows job->first_row .. end_row - 1 are written, whatever the queries find; if each pair of cells is compared only
 * once, the queries must be all of them. Rows are unordered. */
adj_status adji_per_point_open(adji_gpu *gpu, const adji_point_options *options, uint32_t dim, adji_per_point *state);
adj_status adji_per_point_run(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job);
void adji_per_point_clear(adji_gpu *gpu, adji_per_point *state);

#endif
