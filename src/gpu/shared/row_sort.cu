/* SPDX-License-Identifier: MIT
 *
 * Sorts rows by their length. A warp sorts a row in its registers; several warps of a block sort longer ones
 * (row_sort_kernels.cuh), up to 8,192 entries, or 4,096 with f64 sums. Longer rows: row_sort_long.cu.
 */
#include "gpu/shared/row_sort_private.cuh"

static adj_status sort_ids(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  ids_alone entries = {job->ids};
  adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
  if (!status) status = sort_class<8, 32>(gpu, stream, job, entries);
  if (!status) status = sort_class<32, 64>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 4>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 8>(gpu, stream, job, entries);
  return status ? status : adji_row_sort_long(gpu, stream, job, 32 * ADJI_WARP * 8);
}

adj_status adji_row_sort(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  if (!job->pairs || job->end_row == job->first_row) return ADJ_OK;
  if (!job->sums) return sort_ids(gpu, stream, job);
  return job->type == ADJ_F64 ? adji_row_sort_f64(gpu, stream, job) : adji_row_sort_f32(gpu, stream, job);
}
