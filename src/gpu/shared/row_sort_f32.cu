/* SPDX-License-Identifier: MIT
 *
 * Rows of ids with f32 sums. Each order has its own kernels: buckets by id, networks by sum.
 */
#include "gpu/shared/row_sort_private.cuh"

adj_status adji_row_sort_f32(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  float *sums = static_cast<float *>(job->sums);
  if (job->order == ADJ_ORDER_DISTANCE) return sort_lengths<32>(gpu, stream, job, with_floats<true>{job->ids, sums});
  with_floats<false> entries = {job->ids, sums};
  adj_status status = sort_shape<row_shape<1, 0, 4>, 8>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<1, 4, 12, 20>, 4>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<2, 10, 12, 20>, 8>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<4, 8, 12, 20>, 4>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<8, 8, 12, 20>, 2>(gpu, stream, job, entries);
  if (!status) status = sort_shape<row_shape<16, 8, 12, 20>, 1>(gpu, stream, job, entries);
  return status ? status : adji_row_sort_long(gpu, stream, job, 16 * ADJI_WARP * 16);
}
