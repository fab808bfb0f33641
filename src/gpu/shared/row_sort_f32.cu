/* SPDX-License-Identifier: MIT
 *
 * Rows of ids with f32 sums. An order has kernels of its own.
 */
#include "gpu/shared/row_sort_private.cuh"

template <bool BY_SUM>
static adj_status sort_by(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  with_floats<BY_SUM> entries = {job->ids, static_cast<float *>(job->sums)};
  adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
  if (!status) status = sort_class<8, 32>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 2>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 4>(gpu, stream, job, entries);
  if (!status) status = sort_together<32, 8>(gpu, stream, job, entries);
  return status ? status : adji_row_sort_long(gpu, stream, job, 32 * ADJI_WARP * 8);
}

adj_status adji_row_sort_f32(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  return job->order == ADJ_ORDER_DISTANCE ? sort_by<true>(gpu, stream, job) : sort_by<false>(gpu, stream, job);
}
