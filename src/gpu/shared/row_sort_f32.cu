/* SPDX-License-Identifier: MIT
 *
 * Rows of ids with f32 sums. An order has kernels of its own.
 */
#include "gpu/shared/row_sort_private.cuh"

adj_status adji_row_sort_f32(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  float *sums = static_cast<float *>(job->sums);
  if (job->order == ADJ_ORDER_DISTANCE) return sort_lengths<32>(gpu, stream, job, with_floats<true>{job->ids, sums});
  return sort_lengths<32>(gpu, stream, job, with_floats<false>{job->ids, sums});
}
