/* SPDX-License-Identifier: MIT
 *
 * Rows too long for the registers of a block: they are listed, then sorted digit by digit, a block per row
 * (arrays.cuh).
 */
#include "gpu/shared/arrays.cuh"
#include "gpu/shared/row_sort_private.cuh"

namespace {

struct long_rows {
  adji_gpu *gpu;
  cudaStream_t stream;
  const adji_row_sort_job *job;
  adji_block begins, ends, ids, sums, temporary;
  adji_segments rows;
};

/* Lists where the rows longer than `least` begin and end, in any order; *count: their number. */
__global__ void list_long(const uint64_t *offsets, uint64_t first_row, uint64_t end_row, uint64_t base, uint64_t least,
                          int64_t *begins, int64_t *ends, unsigned long long *count) {
  uint64_t row = first_row + static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= end_row || offsets[row + 1] - offsets[row] <= least) return;
  unsigned long long at = atomicAdd(count, 1ull);
  begins[at] = static_cast<int64_t>(offsets[row] - base);
  ends[at] = static_cast<int64_t>(offsets[row + 1] - base);
}

/* Copies the values of the rows from one array to another, or converts them in place: unchanged, to ordered numbers, or
 * back. One block per row. */
template <class FROM, class TO, class VALUE>
__global__ void copy_long(adji_segments rows, const FROM *from, TO *to, VALUE value) {
  for (int64_t i = rows.begins[blockIdx.x] + threadIdx.x; i < rows.ends[blockIdx.x]; i += blockDim.x)
    to[i] = value(from[i]);
}

struct same {
  template <class V>
  __device__ V operator()(V x) const {
    return x;
  }
};
struct to_order {
  template <class T>
  __device__ auto operator()(T x) const {
    return in_order(x);
  }
};
struct to_value {
  template <class ORDER>
  __device__ auto operator()(ORDER x) const {
    return from_order(x);
  }
};

template <class FROM, class TO, class VALUE>
adj_status copy(long_rows *l, const FROM *from, TO *to, VALUE value) {
  copy_long<<<static_cast<uint32_t>(l->rows.count), 256, 0, l->stream>>>(l->rows, from, to, value);
  ADJI_LAUNCHED(l->gpu, "copy_long");
  return ADJ_OK;
}

/* Copies the rows back to their place, unless they are already there. */
template <class V>
adj_status put_back(long_rows *l, const V *sorted, void *place) {
  return sorted == place ? ADJ_OK : copy(l, sorted, static_cast<V *>(place), same());
}

adj_status sort_long_ids(long_rows *l) {
  adji_pairs<uint32_t> ids = {l->job->ids, adji_at<uint32_t>(l->ids), NULL, NULL};
  adj_status status = adji_sort_segments(l->gpu, l->stream, &l->temporary, &ids, &l->rows, 32);
  return status ? status : put_back(l, ids.keys, l->job->ids);
}

/* Sorts by id, then by sum if wanted; the second sort is stable. */
template <class T, class ORDER>
adj_status sort_long_pairs(long_rows *l) {
  adji_pairs<uint32_t, ORDER> by_id = {l->job->ids, adji_at<uint32_t>(l->ids), static_cast<ORDER *>(l->job->sums),
                                       adji_at<ORDER>(l->sums)};
  adj_status status = adji_sort_segments(l->gpu, l->stream, &l->temporary, &by_id, &l->rows, 32);
  adji_pairs<ORDER> by_sum = {by_id.values, by_id.other_values, by_id.keys, by_id.other_keys};
  T *sums = static_cast<T *>(l->job->sums);
  if (l->job->order == ADJ_ORDER_DISTANCE) {
    if (!status) status = copy(l, reinterpret_cast<T *>(by_sum.keys), by_sum.keys, to_order());
    if (!status) status = adji_sort_segments(l->gpu, l->stream, &l->temporary, &by_sum, &l->rows, 8 * sizeof(T));
    if (!status) status = copy(l, by_sum.keys, sums, to_value());
  } else if (!status) {
    status = put_back(l, by_sum.keys, sums);
  }
  return status ? status : put_back(l, by_sum.values, l->job->ids);
}

adj_status find_long(long_rows *l, uint64_t least) {
  const adji_row_sort_job *job = l->job;
  cudaStream_t stream = l->stream;
  uint64_t most = job->pairs / least + 1, rows = job->end_row - job->first_row;
  adj_status status = adji_block_get(l->gpu, stream, most * 8, "long rows", &l->begins);
  if (!status) status = adji_block_get(l->gpu, stream, most * 8, "long rows", &l->ends);
  if (!status) status = adji_answer_clear(l->gpu, stream, ADJI_ANSWER_LONG, 1);
  if (status) return status;
  int64_t *begins = adji_at<int64_t>(l->begins), *ends = adji_at<int64_t>(l->ends);
  list_long<<<adji_blocks_for(rows, 256), 256, 0, stream>>>(job->offsets, job->first_row, job->end_row, job->base,
                                                            least, begins, ends,
                                                            adji_answer_at(l->gpu, ADJI_ANSWER_LONG));
  ADJI_LAUNCHED(l->gpu, "list_long");
  status = adji_answers_fetch(l->gpu, stream);
  l->rows = adji_segments{begins, ends, 0, l->gpu->answers[ADJI_ANSWER_LONG], job->pairs};
  return status;
}

adj_status sort_found(long_rows *l) {
  const adji_row_sort_job *job = l->job;
  size_t size = job->type == ADJ_F64 ? 8 : 4;
  adj_status status = adji_block_get(l->gpu, l->stream, job->pairs * 4, "long rows", &l->ids);
  if (!status && job->sums) status = adji_block_get(l->gpu, l->stream, job->pairs * size, "long rows", &l->sums);
  if (status) return status;
  if (!job->sums) return sort_long_ids(l);
  return job->type == ADJ_F64 ? sort_long_pairs<double, uint64_t>(l) : sort_long_pairs<float, uint32_t>(l);
}

}  // namespace

adj_status adji_row_sort_long(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, uint64_t least) {
  if (job->longest <= least) return ADJ_OK;
  long_rows l = {gpu, stream, job, {}, {}, {}, {}, {}, {}};
  adj_status status = find_long(&l, least);
  if (!status && l.rows.count) status = sort_found(&l);
  for (adji_block *block : {&l.begins, &l.ends, &l.ids, &l.sums, &l.temporary})
    adji_block_free(gpu, stream, block);
  return status;
}
