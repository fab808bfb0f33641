/* SPDX-License-Identifier: MIT
 *
 * Sorts rows, with a kernel that depends on their length. A warp sorts a row of up to 1,152 ids; several warps of a
 * block sort longer ones (row_sort_rows.cuh), up to 8,192 entries, or 4,096 with f64 sums. row_sort_long.cu sorts
 * longer rows.
 */
#include "gpu/shared/row_sort_private.cuh"

/* If no row is longer than this, a network of few levels is as fast. */
enum { SHORT_ROWS = 64 };

/* Milliseconds for 1 G random ids on an H200, in rows of 129 to 640: 3.2; to 1,152: 2.9; to 2,048: 3.3 (one warp per
 * row: 5.5; four: 4.3); to 4,096: 3.5 (two warps: 4.6; eight: 4.3); to 8,192: 3.6 (eight: 4.3). Networks take 6.9 in
 * rows of 400, and 8.4 in rows of 1,000. */
static adj_status sort_ids(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  ids_alone entries = {job->ids};
  if (job->longest <= SHORT_ROWS) return sort_class<0, 2>(gpu, stream, job, entries);
  adj_status status = sort_shape<row_shape<1, 0, 4>, 12>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<1, 4, 12, 20>, 6>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<1, 20, 28, 36>, 4>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<2, 18, 20, 28, 36>, 8>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<4, 16, 20, 28, 36>, 5>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<4, 32, 36, 44, 52, 60, 68>, 3>(gpu, stream, job, entries);
  return status ? status : adji_row_sort_long(gpu, stream, job, 32 * ADJI_WARP * 8);
}

adj_status adji_row_sort(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  if (!job->pairs || job->end_row == job->first_row) return ADJ_OK;
  if (!job->sums) return sort_ids(gpu, stream, job);
  return job->type == ADJ_F64 ? adji_row_sort_f64(gpu, stream, job) : adji_row_sort_f32(gpu, stream, job);
}
