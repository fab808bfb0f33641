/* SPDX-License-Identifier: MIT
 *
 * Rows of ids with f64 sums. The order is a parameter of the kernels: with keys of 16 bytes that costs little.
 */
#include "gpu/shared/row_sort_private.cuh"

adj_status adji_row_sort_f64(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  with_doubles entries = {job->ids, static_cast<double *>(job->sums), job->order == ADJ_ORDER_DISTANCE};
  return sort_lengths<16>(gpu, stream, job, entries);
}
