/* SPDX-License-Identifier: MIT
 *
 * Selection for any k: radix selection (select_radix.cuh), sample selection (select_sample.cuh), or either as in
 * Hanak's thesis (select_block_buckets.cuh), then a sort of the selected entries; or a sort of all entries
 * (arrays.cuh). Sorts get entries in the order of columns and are stable, so equal values end up in the order of
 * columns.
 */
#include <cmath>

#include "gpu/select/select.cuh"
#include "gpu/select/select_block_buckets.cuh"
#include "gpu/select/select_radix.cuh"
#include "gpu/select/select_sample.cuh"
#include "gpu/shared/arrays.cuh"

namespace {

/* LONG_ROW: if there are few rows, longer rows are sorted one by one, each by the whole device. */
enum { LONG_ROW = 1 << 17, FEW_ROWS = 64, SPREAD_BLOCKS = 4096 };

template <class T>
struct work {
  adji_gpu *gpu;
  selection<T> s;
  scratch memory;
  adji_block temporary;
  /* For sorting, with room for two per entry. */
  order_of<T> *orders;
  uint32_t *columns;
  /* For radix selection and for sample selection. */
  two_counts *places;
  kth<T> *state;
  uint32_t *histograms;
  row_search<T> *searches;
  key_of<T> *lists[2];
  uint32_t streams; /* streams in which rows are sorted, each by the whole device; 0: sorted as suits them */
};

/* ---- Sorting --------------------------------------------------------------------------------- */

template <class T>
adj_status get_entries(work<T> *w, uint32_t each) {
  uint64_t entries = 2 * static_cast<uint64_t>(w->s.rows) * each;
  adj_status status = w->memory.get(entries, &w->orders);
  return status ? status : w->memory.get(entries, &w->columns);
}

/* Sorts row after row. The sorted pairs of all rows end up in the same one of the two buffers. */
template <class T>
adj_status sort_one_by_one(work<T> *w, uint32_t each, adji_pairs<order_of<T>> *all) {
  adji_pairs<order_of<T>> sorted = *all;
  for (uint64_t row = 0; row < w->s.rows; row++) {
    uint64_t at = row * each;
    sorted = {all->keys + at, all->other_keys + at, all->values + at, all->other_values + at};
    adj_status status = adji_sort_pairs(w->gpu, &w->temporary, &sorted, each, sizeof(T) * 8);
    if (status) return status;
  }
  if (sorted.values != all->values + (w->s.rows - UINT64_C(1)) * each)
    *all = {all->other_keys, all->keys, all->other_values, all->values};
  return ADJ_OK;
}

/* Streams that begin after the work so far on the compute stream, which then waits for them (thesis, 5.5.1: rows are
 * sorted in several streams in turn).
 */
enum { MOST_STREAMS = 16, DEFAULT_STREAMS = 8 };

struct side_streams {
  adji_gpu *gpu;
  cudaStream_t streams[MOST_STREAMS];
  adji_block rooms[MOST_STREAMS];
  cudaEvent_t event;
  uint32_t count;

  adj_status open(uint32_t stream_count) {
    ADJI_CUDA(gpu, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    ADJI_CUDA(gpu, cudaEventRecord(event, gpu->compute));
    for (uint32_t i = 0; i < stream_count; i++) {
      ADJI_CUDA(gpu, cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
      count++;
      ADJI_CUDA(gpu, cudaStreamWaitEvent(streams[i], event, 0));
    }
    return ADJ_OK;
  }
  /* The compute stream waits for these streams. */
  adj_status join() {
    for (uint32_t i = 0; i < count; i++) {
      ADJI_CUDA(gpu, cudaEventRecord(event, streams[i]));
      ADJI_CUDA(gpu, cudaStreamWaitEvent(gpu->compute, event, 0));
    }
    return ADJ_OK;
  }
  /* Memory of the streams is freed in the order of the compute stream, so that must have waited for them. */
  void close(bool joined) {
    for (uint32_t i = 0; i < count; i++) {
      if (!joined) cudaStreamSynchronize(streams[i]);
      adji_block_free(gpu, gpu->compute, &rooms[i]);
      cudaStreamDestroy(streams[i]);
    }
    if (event) cudaEventDestroy(event);
  }
};

template <class T>
adj_status sort_in_streams(work<T> *w, uint32_t each, adji_pairs<order_of<T>> *all) {
  side_streams side = {};
  side.gpu = w->gpu;
  adj_status status = side.open(w->streams);
  adji_pairs<order_of<T>> sorted = *all;
  for (uint64_t row = 0; row < w->s.rows && !status; row++) {
    uint64_t at = row * each, i = row % w->streams;
    sorted = {all->keys + at, all->other_keys + at, all->values + at, all->other_values + at};
    status = adji_sort_pairs(w->gpu, side.streams[i], &side.rooms[i], &sorted, each, sizeof(T) * 8);
  }
  adj_status joined = side.join();
  side.close(!joined);
  if (!status) status = joined;
  if (!status && sorted.values != all->values + (w->s.rows - UINT64_C(1)) * each)
    *all = {all->other_keys, all->keys, all->other_values, all->values};
  return status;
}

template <class T>
adj_status sort_side_by_side(work<T> *w, uint32_t each, adji_pairs<order_of<T>> *all) {
  adji_segments rows = {NULL, NULL, each, w->s.rows, static_cast<uint64_t>(w->s.rows) * each};
  return adji_sort_segments(w->gpu, w->gpu->compute, &w->temporary, all, &rows, sizeof(T) * 8);
}

/* Sorts `each` entries of every row and writes the first k. */
template <class T>
adj_status sort_and_write(work<T> *w, uint32_t each) {
  uint64_t entries = static_cast<uint64_t>(w->s.rows) * each;
  adji_pairs<order_of<T>> all = {w->orders, w->orders + entries, w->columns, w->columns + entries};
  adj_status status = w->streams                                ? sort_in_streams(w, each, &all)
                      : w->s.rows < FEW_ROWS && each > LONG_ROW ? sort_one_by_one(w, each, &all)
                                                                : sort_side_by_side(w, each, &all);
  if (status) return status;
  write_sorted<T><<<SPREAD_BLOCKS, 256, 0, w->gpu->compute>>>(w->s, all.keys, all.values, each);
  ADJI_LAUNCHED(w->gpu, "write_sorted");
  return ADJ_OK;
}

template <class T>
adj_status select_by_sort(work<T> *w) {
  adj_status status = get_entries(w, w->s.columns);
  if (status) return status;
  list_values<T><<<SPREAD_BLOCKS, 256, 0, w->gpu->compute>>>(w->s, w->orders, w->columns);
  ADJI_LAUNCHED(w->gpu, "list_values");
  return sort_and_write(w, w->s.columns);
}

/* ---- Radix selection ------------------------------------------------------------------------- */

template <class T>
adj_status find_kth(work<T> *w) {
  uint32_t rows = w->s.rows;
  uint64_t length = static_cast<uint64_t>(w->s.columns) * rows / (static_cast<uint64_t>(w->gpu->multiprocessors) * 64);
  length = length < 16384 ? 16384 : length > 131072 ? 131072 : length;
  uint32_t pieces = adji_blocks_for(w->s.columns, static_cast<uint32_t>(length));
  ADJI_CUDA(w->gpu, cudaMemsetAsync(w->histograms, 0, static_cast<uint64_t>(rows) * DIGITS * 4, w->gpu->compute));
  begin_rows<T><<<adji_blocks_for(rows, 256), 256, 0, w->gpu->compute>>>(rows, w->s.k, w->state);
  ADJI_LAUNCHED(w->gpu, "begin_rows");
  constexpr int BITS = sizeof(T) * 8;
  for (int end = BITS; end > 0; end -= DIGIT_BITS) {
    uint32_t shift = end > DIGIT_BITS ? static_cast<uint32_t>(end - DIGIT_BITS) : 0;
    order_of<T> above = end == BITS ? 0 : ~order_of<T>(0) << end;
    count_digits<T><<<rows * pieces, RADIX_THREADS, 0, w->gpu->compute>>>(w->s, w->state, w->histograms, shift, above,
                                                                          pieces, static_cast<uint32_t>(length));
    ADJI_LAUNCHED(w->gpu, "count_digits");
    choose_digit<T><<<rows, RADIX_THREADS, 0, w->gpu->compute>>>(w->histograms, w->state, shift);
    ADJI_LAUNCHED(w->gpu, "choose_digit");
  }
  return ADJ_OK;
}

/* Turns the counts of each piece into the sums of all pieces before it. */
template <class T>
adj_status add_up_places(work<T> *w, uint64_t pieces) {
  uint64_t *both = reinterpret_cast<uint64_t *>(w->places);
  return adji_add_up(w->gpu, &w->temporary, both, both, pieces);
}

template <class T>
adj_status write_up_to_kth(work<T> *w, const selected<T> &to) {
  uint32_t each = warp_pieces(w->s.columns);
  uint64_t pieces = static_cast<uint64_t>(w->s.rows) * each;
  uint32_t blocks = adji_blocks_for(pieces, RADIX_THREADS / ADJI_WARP);
  count_pieces<T><<<blocks, RADIX_THREADS, 0, w->gpu->compute>>>(w->s, w->state, w->places, pieces);
  ADJI_LAUNCHED(w->gpu, "count_pieces");
  adj_status status = add_up_places(w, pieces);
  if (status) return status;
  write_selected<T><<<blocks, RADIX_THREADS, 0, w->gpu->compute>>>(w->s, w->state, w->places, pieces, to);
  ADJI_LAUNCHED(w->gpu, "write_selected");
  return ADJ_OK;
}

template <class T>
adj_status select_by_digits(work<T> *w, bool sorted) {
  uint64_t rows = w->s.rows, pieces = rows * warp_pieces(w->s.columns);
  adj_status status = w->memory.get(rows, &w->state);
  if (!status) status = w->memory.get(rows * DIGITS, &w->histograms);
  if (!status) status = w->memory.get(pieces, &w->places);
  if (!status && sorted) status = get_entries(w, w->s.k);
  if (!status) status = find_kth(w);
  if (status) return status;
  selected<T> to = {w->orders, w->columns};
  status = write_up_to_kth(w, to);
  return status || !sorted ? status : sort_and_write(w, w->s.k);
}

/* ---- By blocks ------------------------------------------------------------------------------- */

template <class T>
adj_status select_in_blocks(work<T> *w, bool sorted, bool by_sample) {
  uint32_t rows = w->s.rows;
  adj_status status = w->memory.get(static_cast<uint64_t>(rows) * w->s.columns, &w->lists[0]);
  if (!status && sorted) status = get_entries(w, w->s.k);
  if (status) return status;
  selected<T> to = {w->orders, w->columns};
  if (by_sample)
    select_by_buckets<T, true><<<rows, BUCKET_THREADS, 0, w->gpu->compute>>>(w->s, w->lists[0], to);
  else
    select_by_buckets<T, false><<<rows, BUCKET_THREADS, 0, w->gpu->compute>>>(w->s, w->lists[0], to);
  ADJI_LAUNCHED(w->gpu, "select_by_buckets");
  return sorted ? sort_and_write(w, w->s.k) : ADJ_OK;
}

/* ---- Sample selection ------------------------------------------------------------------------ */

/* The number of successive samples, and the capacities per row of the two lists that consecutive passes use in turn. */
struct sample_plan {
  uint32_t levels;
  uint32_t capacity[2];
};

enum { EACH_SHORT = 8, EACH_LONG = 16, LONG_SAMPLED = 1 << 17 };

uint32_t sample_keys_of(uint32_t columns) {
  return columns < LONG_SAMPLED ? SAMPLE_KEYS<EACH_SHORT> : SAMPLE_KEYS<EACH_LONG>;
}

/* Plans as many samples as it takes until a block can do the rest. Between splitters that are `apart` ranks apart there
 * are about apart * length / size keys, with a gamma distribution: 6 deviations are added, and 10 for its tail. From
 * the second sample on the k-th smallest may be anywhere; the middle, which needs the most, is assumed. */
sample_plan plan_samples(uint32_t columns, uint32_t k) {
  sample_plan plan = {};
  float size = static_cast<float>(sample_keys_of(columns)), share = static_cast<float>(k) / static_cast<float>(columns);
  for (double length = columns; length > LAST_KEYS; plan.levels++, share = 0.5f) {
    splitter_ranks ranks = ranks_of_splitters(size, share);
    float apart = (ranks.high < size ? ranks.high : size) - (ranks.low > 0 ? ranks.low : 0);
    length = std::floor(length * static_cast<double>(apart + 6 * sqrtf(apart) + 10) / static_cast<double>(size)) + 64;
    uint32_t *capacity = &plan.capacity[plan.levels % 2];
    if (length > *capacity) *capacity = static_cast<uint32_t>(length);
  }
  return plan;
}

template <class T, int EACH>
adj_status launch_splitters(work<T> *w, const key_lists<T> &from) {
  constexpr uint32_t BYTES = gapped<EACH>(SAMPLE_KEYS<EACH>) * sizeof(key_of<T>);
  ADJI_CUDA(w->gpu, cudaFuncSetAttribute(choose_splitters<T, EACH>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(BYTES)));
  choose_splitters<T, EACH><<<w->s.rows, FINISH_THREADS, BYTES, w->gpu->compute>>>(w->s, from, w->searches);
  ADJI_LAUNCHED(w->gpu, "choose_splitters");
  return ADJ_OK;
}

/* A pass over the matrix, or over the keys that the previous pass collected. */
template <class T, bool WRITE>
adj_status launch_split(work<T> *w, const key_lists<T> &from, const key_lists<T> &to) {
  uint32_t each = from.keys ? (from.capacity - 1) / LIST_COLUMNS + 1 : warp_pieces(w->s.columns);
  uint32_t blocks = adji_blocks_for(static_cast<uint64_t>(w->s.rows) * each, SPLIT_WARPS);
  splitting<T> p = {w->searches, w->places, to, each};
  list_pieces<T> lists = {from};
  row_pieces<T> matrix;
  if (from.keys)
    split_rows<T, list_pieces<T>, WRITE><<<blocks, SPLIT_THREADS, 0, w->gpu->compute>>>(w->s, lists, p);
  else
    split_rows<T, row_pieces<T>, WRITE><<<blocks, SPLIT_THREADS, 0, w->gpu->compute>>>(w->s, matrix, p);
  ADJI_LAUNCHED(w->gpu, "split_rows");
  return ADJ_OK;
}

/* Finds the k-th smallest key of each row, and writes all keys up to it or counts them in pieces. */
template <class T, bool WRITE>
adj_status find_kth_by_samples(work<T> *w, const sample_plan &plan) {
  key_lists<T> from = {NULL, 0};
  for (uint32_t level = 0; level < plan.levels; level++) {
    key_lists<T> to = {w->lists[level % 2], plan.capacity[level % 2]};
    adj_status status = w->s.columns < LONG_SAMPLED ? launch_splitters<T, EACH_SHORT>(w, from)
                                                    : launch_splitters<T, EACH_LONG>(w, from);
    if (!status) status = launch_split<T, WRITE>(w, from, to);
    if (status) return status;
    from = to;
  }
  find_kth_keys<T, WRITE><<<w->s.rows, KTH_THREADS, 0, w->gpu->compute>>>(w->s, from, w->searches, w->places);
  ADJI_LAUNCHED(w->gpu, "find_kth_keys");
  return ADJ_OK;
}

/* Writes all keys up to the k-th smallest by column, for a sort. */
template <class T>
adj_status write_up_to_keys(work<T> *w) {
  uint32_t each = warp_pieces(w->s.columns);
  uint64_t pieces = static_cast<uint64_t>(w->s.rows) * each;
  adj_status status = add_up_places(w, pieces);
  if (status) return status;
  selected<T> to = {w->orders, w->columns};
  uint32_t blocks = adji_blocks_for(pieces, RADIX_THREADS / ADJI_WARP);
  write_up_to<T><<<blocks, RADIX_THREADS, 0, w->gpu->compute>>>(w->s, w->searches, w->places, pieces, to);
  ADJI_LAUNCHED(w->gpu, "write_up_to");
  return ADJ_OK;
}

/* Uses one stage if the answer may be unordered, two if it must be sorted. */
template <class T>
adj_status select_by_samples(work<T> *w, bool sorted) {
  sample_plan plan = plan_samples(w->s.columns, w->s.k);
  uint64_t rows = w->s.rows, pieces = sorted ? rows * warp_pieces(w->s.columns) : 0;
  adj_status status = w->memory.get(rows, &w->searches);
  for (int i = 0; i < 2 && !status; i++)
    if (plan.capacity[i]) status = w->memory.get(rows * plan.capacity[i], &w->lists[i]);
  if (!status && sorted) status = w->memory.get(pieces, &w->places);
  if (!status && sorted) status = get_entries(w, w->s.k);
  if (status) return status;
  if (!sorted) return find_kth_by_samples<T, true>(w, plan);
  status = find_kth_by_samples<T, false>(w, plan);
  if (!status) status = write_up_to_keys(w);
  return status ? status : sort_and_write(w, w->s.k);
}

/* ---- All rows -------------------------------------------------------------------------------- */

bool is_in_blocks(const adji_gpu_select *job) {
  return job->algorithm == ADJI_SELECT_BLOCK_RADIX || job->algorithm == ADJI_SELECT_BLOCK_SAMPLE;
}

/* Bytes per row, without those for sorting. */
uint64_t bytes_of_row(const adji_gpu_select *job, size_t size) {
  uint32_t columns = static_cast<uint32_t>(job->columns);
  uint64_t pieces = sizeof(two_counts) * static_cast<uint64_t>(warp_pieces(columns));
  if (job->algorithm == ADJI_SELECT_RADIX) return 64 + pieces + DIGITS * 4;
  if (job->algorithm == ADJI_SELECT_SORT || job->algorithm == ADJI_SELECT_STREAM_SORT) return 64;
  if (is_in_blocks(job)) return 64 + job->columns * 2 * size;
  sample_plan plan = plan_samples(columns, job->k);
  return 64 + pieces + (static_cast<uint64_t>(plan.capacity[0]) + plan.capacity[1]) * 2 * size;
}

/* The number of rows done at a time: they take a third of the available memory, and CUB takes some of the rest. */
uint64_t rows_at_once(adji_gpu *gpu, const adji_gpu_select *job, size_t size) {
  bool all = job->algorithm == ADJI_SELECT_SORT || job->algorithm == ADJI_SELECT_STREAM_SORT;
  uint64_t entries = all ? job->columns : job->sorted ? job->k : 0;
  uint64_t bytes = entries * (2 * size + 8) + bytes_of_row(job, size);
  uint64_t rows = adji_gpu_available(gpu) / 3 / bytes, most = 1 << 16; /* so that the number of blocks fits */
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
    w.gpu = w.memory.gpu = gpu;
    w.s = selection_of<T>(job, out_k, first, here);
    if (job->algorithm == ADJI_SELECT_STREAM_SORT) w.streams = job->how.streams ? job->how.streams : DEFAULT_STREAMS;
    bool by_sample = job->algorithm == ADJI_SELECT_BLOCK_SAMPLE;
    adj_status status = job->algorithm == ADJI_SELECT_SAMPLE  ? select_by_samples(&w, job->sorted)
                        : job->algorithm == ADJI_SELECT_RADIX ? select_by_digits(&w, job->sorted)
                        : is_in_blocks(job)                   ? select_in_blocks(&w, job->sorted, by_sample)
                                                              : select_by_sort(&w);
    w.memory.free();
    adji_block_free(gpu, gpu->compute, &w.temporary);
    if (status) return status;
  }
  return ADJ_OK;
}

}  // namespace

adj_status adji_select_large(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  return job->type == ADJ_F64 ? select_all<double>(gpu, job, out_k) : select_all<float>(gpu, job, out_k);
}
