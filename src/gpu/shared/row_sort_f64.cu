/* SPDX-License-Identifier: MIT
 *
 * Rows of ids with f64 sums. The kernels are told the order: what it costs is little beside keys of 16 bytes.
 */
#include "gpu/shared/row_sort_private.cuh"

adj_status adji_row_sort_f64(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  with_doubles entries = {job->ids, static_cast<double *>(job->sums), job->order == ADJ_ORDER_DISTANCE};
  adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
  if (!status) status = sort_class<8, 16>(gpu, stream, job, entries);
  if (!status) status = sort_together<16, 2>(gpu, stream, job, entries);
  if (!status) status = sort_together<16, 4>(gpu, stream, job, entries);
  if (!status) status = sort_together<16, 8>(gpu, stream, job, entries);
  return status ? status : adji_row_sort_long(gpu, stream, job, 16 * ADJI_WARP * 8);
}
