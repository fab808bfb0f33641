/* SPDX-License-Identifier: MIT
 *
 * Rows too long for a block's registers: they are listed, and CUB sorts them.
 */
#include "gpu/shared/row_sort_long_private.cuh"

#include "gpu/shared/row_sort_private.cuh"

namespace {

/* Where the rows longer than `least` begin and end, in any order; *count: how many. */
__global__ void list_long(const uint64_t *offsets, uint64_t first_row, uint64_t end_row, uint64_t base, uint64_t least,
                          int64_t *begins, int64_t *ends, unsigned long long *count) {
  uint64_t row = first_row + static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= end_row || offsets[row + 1] - offsets[row] <= least) return;
  unsigned long long at = atomicAdd(count, 1ull);
  begins[at] = static_cast<int64_t>(offsets[row] - base);
  ends[at] = static_cast<int64_t>(offsets[row + 1] - base);
}

adj_status sort_long_ids(adji_long_rows *l) {
  const uint32_t *ids = l->job->ids;
  SEGMENTED(l, cub::DeviceSegmentedSort::SortKeys, ids, adji_at<uint32_t>(l->ids));
  return copy_back<uint32_t>(l, l->ids, l->job->ids);
}

adj_status find_long(adji_long_rows *l, uint64_t least) {
  const adji_row_sort_job *job = l->job;
  uint64_t most = job->pairs / least + 1, rows = job->end_row - job->first_row;
  adj_status status = adji_block_get(l->gpu, l->stream, most * 8, "long rows", &l->begins);
  if (!status) status = adji_block_get(l->gpu, l->stream, most * 8, "long rows", &l->ends);
  if (!status) status = adji_answer_clear(l->gpu, l->stream, ADJI_ANSWER_LONG, 1);
  if (status) return status;
  list_long<<<adji_blocks_for(rows, 256), 256, 0, l->stream>>>(
      job->offsets, job->first_row, job->end_row, job->base, least, adji_at<int64_t>(l->begins),
      adji_at<int64_t>(l->ends), adji_answer_at(l->gpu, ADJI_ANSWER_LONG));
  ADJI_LAUNCHED(l->gpu, "list_long");
  status = adji_answers_fetch(l->gpu, l->stream);
  l->count = l->gpu->answers[ADJI_ANSWER_LONG];
  return status;
}

adj_status sort_found(adji_long_rows *l) {
  const adji_row_sort_job *job = l->job;
  size_t size = job->type == ADJ_F64 ? 8 : 4;
  adj_status status = adji_block_get(l->gpu, l->stream, job->pairs * 4, "long rows", &l->ids);
  if (!status && job->sums) status = adji_block_get(l->gpu, l->stream, job->pairs * size, "long rows", &l->sums);
  if (status) return status;
  if (!job->sums) return sort_long_ids(l);
  return job->type == ADJ_F64 ? adji_sort_long_f64(l) : adji_sort_long_f32(l);
}

}  // namespace

adj_status adji_row_sort_long(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, uint64_t least) {
  if (job->longest <= least) return ADJ_OK;
  adji_long_rows l = {gpu, stream, job, {}, {}, {}, {}, {}, 0};
  adj_status status = find_long(&l, least);
  if (!status && l.count) status = sort_found(&l);
  for (adji_block *block : {&l.begins, &l.ends, &l.ids, &l.sums, &l.temporary})
    adji_block_free(gpu, stream, block);
  return status;
}
