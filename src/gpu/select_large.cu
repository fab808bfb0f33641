/* SPDX-License-Identifier: MIT
 *
 * Selection for any k: radix selection (select_radix.cuh) and a sort of what it leaves, or a sort of everything. CUB
 * sorts; entries come to it by column, and its sorts are stable, so that equal values end by column.
 */
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/cub.cuh>

#include "gpu/select.cuh"
#include "gpu/select_radix.cuh"

namespace {

/* Rows longer than this are sorted one by one where they are few, by all of the device. */
enum { LONG_ROW = 1 << 17, FEW_ROWS = 64, SPREAD_BLOCKS = 4096 };

template <class T>
struct work {
  adji_gpu *gpu;
  selection<T> s;
  adji_block orders, sorted_orders, columns, sorted_columns, temporary; /* of what is sorted */
  adji_block state, histograms, places;
};

template <class T>
void free_work(work<T> *w) {
  adji_block *blocks[] = {&w->orders,    &w->sorted_orders, &w->columns,    &w->sorted_columns,
                          &w->temporary, &w->state,         &w->histograms, &w->places};
  for (adji_block *block : blocks)
    adji_block_free(w->gpu, w->gpu->compute, block);
}

/* ---- Sorting -------------------------------------------------------------------------------------------------------
 */

struct times {
  int64_t each;
  __host__ __device__ int64_t operator()(int64_t i) const {
    return i * each;
  }
};

template <class T>
adj_status get_entries(work<T> *w, uint64_t count) {
  cudaStream_t stream = w->gpu->compute;
  adj_status status = adji_block_get(w->gpu, stream, count * sizeof(T), "selection", &w->orders);
  if (!status) status = adji_block_get(w->gpu, stream, count * sizeof(T), "selection", &w->sorted_orders);
  if (!status) status = adji_block_get(w->gpu, stream, count * 4, "selection", &w->columns);
  if (!status) status = adji_block_get(w->gpu, stream, count * 4, "selection", &w->sorted_columns);
  return status;
}

template <class T>
adj_status sort_one_by_one(work<T> *w, uint32_t each) {
  for (uint64_t row = 0; row < w->s.rows; row++) {
    uint64_t at = row * each;
    const order_of<T> *orders = adji_at<order_of<T>>(w->orders) + at;
    const uint32_t *columns = adji_at<uint32_t>(w->columns) + at;
    order_of<T> *to_orders = adji_at<order_of<T>>(w->sorted_orders) + at;
    uint32_t *to_columns = adji_at<uint32_t>(w->sorted_columns) + at;
    ADJI_CUB(w->gpu, &w->temporary, cub::DeviceRadixSort::SortPairs, orders, to_orders, columns, to_columns,
             static_cast<int64_t>(each), 0, static_cast<int>(sizeof(T) * 8));
  }
  return ADJ_OK;
}

template <class T>
adj_status sort_segments(work<T> *w, uint32_t each) {
  auto begins = thrust::make_transform_iterator(thrust::make_counting_iterator<int64_t>(0), times{each});
  auto ends = begins + 1;
  const order_of<T> *orders = adji_at<order_of<T>>(w->orders);
  const uint32_t *columns = adji_at<uint32_t>(w->columns);
  ADJI_CUB(w->gpu, &w->temporary, cub::DeviceSegmentedRadixSort::SortPairs, orders,
           adji_at<order_of<T>>(w->sorted_orders), columns, adji_at<uint32_t>(w->sorted_columns),
           static_cast<int64_t>(w->s.rows) * each, static_cast<int64_t>(w->s.rows), begins, ends, 0,
           static_cast<int>(sizeof(T) * 8));
  return ADJ_OK;
}

/* Sorts `each` entries of every row, and tells the first k. */
template <class T>
adj_status sort_and_tell(work<T> *w, uint32_t each) {
  adj_status status = w->s.rows < FEW_ROWS && each > LONG_ROW ? sort_one_by_one(w, each) : sort_segments(w, each);
  if (status) return status;
  tell_sorted<T><<<SPREAD_BLOCKS, 256, 0, w->gpu->compute>>>(w->s, adji_at<order_of<T>>(w->sorted_orders),
                                                             adji_at<uint32_t>(w->sorted_columns), each);
  ADJI_LAUNCHED(w->gpu, "tell_sorted");
  return ADJ_OK;
}

template <class T>
adj_status select_by_sort(work<T> *w) {
  adj_status status = get_entries(w, static_cast<uint64_t>(w->s.rows) * w->s.columns);
  if (status) return status;
  list_values<T><<<SPREAD_BLOCKS, 256, 0, w->gpu->compute>>>(w->s, adji_at<order_of<T>>(w->orders),
                                                             adji_at<uint32_t>(w->columns));
  ADJI_LAUNCHED(w->gpu, "list_values");
  return sort_and_tell(w, w->s.columns);
}

/* ---- Radix selection ----------------------------------------------------------------------------------------------
 */

template <class T>
adj_status find_kth(work<T> *w) {
  cudaStream_t stream = w->gpu->compute;
  uint32_t rows = w->s.rows;
  kth<T> *state = adji_at<kth<T>>(w->state);
  uint32_t *histograms = adji_at<uint32_t>(w->histograms);
  uint64_t length = static_cast<uint64_t>(w->s.columns) * rows / (static_cast<uint64_t>(w->gpu->multiprocessors) * 64);
  length = length < 16384 ? 16384 : length > 131072 ? 131072 : length;
  uint32_t pieces = adji_blocks_for(w->s.columns, static_cast<uint32_t>(length));
  ADJI_CUDA(w->gpu, cudaMemsetAsync(histograms, 0, static_cast<uint64_t>(rows) * DIGITS * sizeof *histograms, stream));
  begin_rows<T><<<adji_blocks_for(rows, 256), 256, 0, stream>>>(rows, w->s.k, state);
  ADJI_LAUNCHED(w->gpu, "begin_rows");
  constexpr int BITS = sizeof(T) * 8;
  for (int end = BITS; end > 0; end -= DIGIT_BITS) {
    uint32_t shift = end > DIGIT_BITS ? static_cast<uint32_t>(end - DIGIT_BITS) : 0;
    order_of<T> above = end == BITS ? 0 : ~order_of<T>(0) << end;
    count_digits<T><<<rows * pieces, RADIX_THREADS, 0, stream>>>(w->s, state, histograms, shift, above, pieces,
                                                                 static_cast<uint32_t>(length));
    ADJI_LAUNCHED(w->gpu, "count_digits");
    choose_digit<T><<<rows, RADIX_THREADS, 0, stream>>>(histograms, state, shift);
    ADJI_LAUNCHED(w->gpu, "choose_digit");
  }
  return ADJ_OK;
}

template <class T>
adj_status write_up_to_kth(work<T> *w, const selected<T> &to) {
  cudaStream_t stream = w->gpu->compute;
  uint32_t each = warp_pieces(w->s.columns);
  uint64_t pieces = static_cast<uint64_t>(w->s.rows) * each;
  uint32_t blocks = adji_blocks_for(pieces, RADIX_THREADS / ADJI_WARP);
  const kth<T> *state = adji_at<kth<T>>(w->state);
  two_counts *places = adji_at<two_counts>(w->places);
  count_pieces<T><<<blocks, RADIX_THREADS, 0, stream>>>(w->s, state, places, pieces);
  ADJI_LAUNCHED(w->gpu, "count_pieces");
  add_up_pieces<<<w->s.rows, RADIX_THREADS, 0, stream>>>(places, each);
  ADJI_LAUNCHED(w->gpu, "add_up_pieces");
  write_selected<T><<<blocks, RADIX_THREADS, 0, stream>>>(w->s, state, places, pieces, to);
  ADJI_LAUNCHED(w->gpu, "write_selected");
  return ADJ_OK;
}

template <class T>
adj_status select_by_digits(work<T> *w, bool sorted) {
  cudaStream_t stream = w->gpu->compute;
  uint64_t rows = w->s.rows, pieces = rows * warp_pieces(w->s.columns);
  adj_status status = adji_block_get(w->gpu, stream, rows * sizeof(kth<T>), "selection", &w->state);
  if (!status) status = adji_block_get(w->gpu, stream, rows * DIGITS * 4, "selection", &w->histograms);
  if (!status) status = adji_block_get(w->gpu, stream, pieces * sizeof(two_counts), "selection", &w->places);
  if (!status && sorted) status = get_entries(w, rows * w->s.k);
  if (!status) status = find_kth(w);
  if (status) return status;
  selected<T> to = {adji_at<order_of<T>>(w->orders), adji_at<uint32_t>(w->columns)};
  status = write_up_to_kth(w, to);
  return status || !sorted ? status : sort_and_tell(w, w->s.k);
}

/* ---- All rows -----------------------------------------------------------------------------------------------------
 */

/* Rows done at a time, in a third of the memory there is; CUB takes some of the rest. */
uint64_t rows_at_once(adji_gpu *gpu, const adji_gpu_select *job, size_t size) {
  bool radix = job->algorithm == ADJI_SELECT_RADIX;
  uint64_t entries = radix ? job->sorted ? job->k : 0 : job->columns, bytes = entries * (2 * size + 8) + 64;
  if (radix) bytes += DIGITS * 4 + 8 * static_cast<uint64_t>(warp_pieces(static_cast<uint32_t>(job->columns)));
  uint64_t rows = adji_gpu_left(gpu) / 3 / bytes, most = 1 << 16; /* so that blocks can be counted */
  uint64_t blocks = UINT64_C(0x7fffffff) / (job->columns / 4096 + 1);
  if (blocks < most) most = blocks;
  return rows < 1 ? 1 : rows > most ? most : rows;
}

template <class T>
adj_status select_all(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  uint64_t at_once = rows_at_once(gpu, job, sizeof(T));
  for (uint64_t first = 0; first < job->rows; first += at_once) {
    uint64_t here = job->rows - first < at_once ? job->rows - first : at_once;
    work<T> w = {};
    w.gpu = gpu;
    w.s = selection_of<T>(job, out_k, first, here);
    adj_status status = job->algorithm == ADJI_SELECT_RADIX ? select_by_digits(&w, job->sorted) : select_by_sort(&w);
    free_work(&w);
    if (status) return status;
  }
  return ADJ_OK;
}

}  // namespace

adj_status adji_select_large(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  return job->type == ADJ_F64 ? select_all<double>(gpu, job, out_k) : select_all<float>(gpu, job, out_k);
}
