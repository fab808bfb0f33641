/* SPDX-License-Identifier: MIT
 *
 * Selection from long rows for k up to 2,048, with a bound or without one: memory and launches. select.cu describes the
 * algorithm; its kernels are in select_bound.cuh, select_scan.cuh and select_finish.cuh.
 *
 * The host does not wait in between: rows to be done again are in lists on the device, which are usually empty. With
 * few rows, the time before and after the pass matters, so each kernel begins while the previous one is still running,
 * as far as possible (select_keys.cuh).
 */
#ifndef ADJI_GPU_SELECT_SELECT_LONG_CUH
#define ADJI_GPU_SELECT_SELECT_LONG_CUH

#include "gpu/select/select_bound.cuh"
#include "gpu/select/select_finish.cuh"

namespace {

/* ---- Launches -------------------------------------------------------------------------------- */

template <class T>
struct work {
  adji_gpu *gpu;
  selection<T> s;
  adji_select_plan plan;
  scratch memory;
  key_of<T> *bounds, *keys, *parts;
  uint32_t *counts;
  key_of<T> *pools; /* one for each of `finishers` blocks */
  uint32_t finishers;

  findings<T> found() const {
    return findings<T>{bounds, keys, counts, plan.capacity};
  }
};

/* Launches kernels that may overlap the end of the previous one, if they were compiled to wait for the results they
 * need. */
struct overlapping_launch {
  adji_gpu *gpu;
  bool overlap;

  template <class... NEEDED, class... GIVEN>
  cudaError_t operator()(void (*kernel)(NEEDED...), uint32_t blocks, uint32_t threads, uint32_t bytes,
                         const GIVEN &...given) const {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = bytes;
    config.stream = gpu->compute;
    config.attrs = &attribute;
    config.numAttrs = overlap;
    return cudaLaunchKernelEx(&config, kernel, NEEDED(given)...);
  }
};

row_list all_rows(uint32_t rows) {
  return row_list{NULL, NULL, NULL, rows};
}

/* Gets memory for the keys found in the rows, and for the blocks that finish the rows. */
template <class T>
adj_status get_findings(work<T> *w) {
  uint64_t rows = w->s.rows;
  w->finishers = static_cast<uint32_t>(w->gpu->multiprocessors) * 2;
  if (w->finishers > rows && w->plan.few) w->finishers = w->s.rows;
  adj_status status = w->memory.get(rows, &w->bounds);
  if (!status) status = w->memory.get(rows, &w->counts);
  if (!status) status = w->memory.get(rows * w->plan.capacity, &w->keys);
  return status ? status : w->memory.get(uint64_t(w->finishers) * BLOCK_KEYS<T>, &w->pools);
}

template <class T>
adj_status launch_finish(const work<T> *w, const overlapping_launch &launch, const finishing<T> &f, uint32_t blocks,
                         uint32_t threads) {
  ADJI_CUDA(w->gpu, cudaFuncSetAttribute(finish_by_blocks<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(finish_bytes<T>())));
  ADJI_CUDA(w->gpu, launch(finish_by_blocks<T>, blocks, threads, finish_bytes<T>(), w->s, f));
  return ADJ_OK;
}

template <class T>
adj_status launch_scan(const work<T> *w, const overlapping_launch &launch, const row_list &list, uint64_t most_blocks) {
  uint64_t tasks = uint64_t(w->s.rows) * w->plan.segments, blocks = tasks < most_blocks ? tasks : most_blocks;
  ADJI_CUDA(w->gpu, launch(scan_rows<T>, static_cast<uint32_t>(blocks), SCAN_WARPS * ADJI_WARP, 0, w->s, list,
                           w->found(), w->plan.length, w->plan.segments));
  return ADJ_OK;
}

template <class T>
adj_status launch_bounds(work<T> *w, const adji_sampling &how, const row_list &list, uint32_t rows_per_block,
                         uint32_t blocks) {
  find_row_bounds<T><<<blocks, GROUPS, 0, w->gpu->compute>>>(w->s, how, list, rows_per_block, w->bounds, w->counts);
  ADJI_LAUNCHED(w->gpu, "find_row_bounds");
  return ADJ_OK;
}

constexpr uint64_t MANY_BLOCKS = 0x7fffffff;

template <class T>
adj_status make_overlapping_launch(work<T> *w, overlapping_launch *out) {
  cudaFuncAttributes compiled;
  ADJI_CUDA(w->gpu, cudaFuncGetAttributes(&compiled, scan_rows<T>));
  *out = overlapping_launch{w->gpu, compiled.ptxVersion >= 90};
  return ADJ_OK;
}

/* Selects from few rows: all blocks sample all rows. The bound fails so rarely that a row that fails may take long. */
template <class T>
adj_status select_few(work<T> *w) {
  const adji_sampling &how = w->plan.first.how;
  overlapping_launch follow = {};
  adj_status status = w->memory.get(uint64_t(w->s.rows) * how.parts * GROUPS, &w->parts);
  if (!status) status = get_findings(w);
  if (!status) status = make_overlapping_launch(w, &follow);
  if (status) return status;
  auto sample = how.log_run ? sample_parts<T, true> : sample_parts<T, false>;
  sample<<<dim3(how.parts, w->s.rows), PART_THREADS, 0, w->gpu->compute>>>(w->s, how, w->parts);
  ADJI_LAUNCHED(w->gpu, "sample_parts");
  ADJI_CUDA(w->gpu, follow(find_bounds_of_parts<T>, w->s.rows, PART_THREADS, 0, how, w->parts, w->bounds, w->counts));
  status = launch_scan(w, follow, all_rows(w->s.rows), MANY_BLOCKS);
  finishing<T> f = {w->found(), all_rows(w->s.rows), w->pools};
  return status ? status : launch_finish(w, follow, f, w->s.rows, FEW_THREADS);
}

/* Finishes the rows whose bound held, except those that do not suit buckets. Uses about as many buckets as keys are
 * expected. */
template <class T>
adj_status finish_found(work<T> *w, const unfinished_rows &unfinished) {
  bucket_layout layout = {LEAST_BUCKETS, w->s.k + BUCKET_MOST};
  while (layout.most < MOST_BUCKETS && layout.most < w->plan.first.expected)
    layout.most *= 2;
  uint32_t bytes = layout.bytes<T>();
  /* The same value in all calls, since contexts in other threads set it too. */
  ADJI_CUDA(w->gpu, cudaFuncSetAttribute(finish_by_buckets<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(all_buckets().bytes<T>())));
  finish_by_buckets<T><<<w->s.rows, FINISH_THREADS, bytes, w->gpu->compute>>>(w->s, w->found(), layout, unfinished);
  ADJI_LAUNCHED(w->gpu, "finish_by_buckets");
  return ADJ_OK;
}

template <class T>
adj_status select_many(work<T> *w) {
  uint32_t rows = w->s.rows, rows_per_block = rows / 1024;
  rows_per_block = rows_per_block < 1 ? 1 : rows_per_block > MOST_ROWS_PER_BLOCK ? MOST_ROWS_PER_BLOCK : rows_per_block;
  uint32_t busy = static_cast<uint32_t>(w->gpu->multiprocessors) * 4;
  overlapping_launch alone = {w->gpu, false};
  uint32_t *counters = NULL; /* two counters, then the rows */
  adj_status status = get_findings(w);
  if (!status) status = w->memory.get(uint64_t(rows) + 2, &counters);
  if (status) return status;
  unfinished_rows unfinished = {counters + 2, counters, counters + 1, rows};
  ADJI_CUDA(w->gpu, cudaMemsetAsync(counters, 0, 2 * sizeof(uint32_t), w->gpu->compute));
  status = launch_bounds(w, w->plan.first.how, all_rows(rows), rows_per_block, adji_blocks_for(rows, rows_per_block));
  if (!status) status = launch_scan(w, alone, all_rows(rows), MANY_BLOCKS);
  if (!status) status = finish_found(w, unfinished);
  if (status) return status;
  row_list wrong = {unfinished.rows, NULL, unfinished.wrong, rows},
           rest = {unfinished.rows, unfinished.many, unfinished.wrong, rows};
  status = launch_bounds(w, w->plan.again.how, wrong, 1, busy);
  if (!status) status = launch_scan(w, alone, wrong, busy);
  finishing<T> f = {w->found(), rest, w->pools};
  return status ? status : launch_finish(w, alone, f, w->finishers, FINISH_THREADS);
}

/* ---- Without a bound ------------------------------------------------------------------------- */

/* The number of parts of each row: few rows are cut into parts, each much longer than the list of keys it leaves. */
template <class T>
uint32_t parts_of_rows(const work<T> *w) {
  uint64_t blocks = static_cast<uint64_t>(w->gpu->multiprocessors) * 2, parts = blocks / w->s.rows;
  uint64_t most = w->s.columns / (4 * uint64_t(w->s.k) + 4 * BLOCK_KEYS<T>);
  return static_cast<uint32_t>(parts < most ? parts : most);
}

template <class T>
adj_status select_without_bound(work<T> *w, bool in_chunks) {
  uint32_t parts = parts_of_rows(w);
  if (parts < 1) parts = 1;
  uint32_t columns = adji_blocks_for(w->s.columns, parts);
  parts = adji_blocks_for(w->s.columns, columns);
  w->plan.capacity = parts > 1 ? parts * w->s.k : 0;
  adj_status status = get_findings(w);
  if (status) return status;
  uint64_t tasks = uint64_t(w->s.rows) * parts;
  if (parts > 1) ADJI_CUDA(w->gpu, cudaMemsetAsync(w->counts, 0, w->s.rows * sizeof(uint32_t), w->gpu->compute));
  auto select = in_chunks ? select_by_blocks<T, true> : select_by_blocks<T, false>;
  ADJI_CUDA(w->gpu, cudaFuncSetAttribute(select, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(finish_bytes<T>())));
  uint32_t blocks = tasks < w->finishers ? static_cast<uint32_t>(tasks) : w->finishers;
  select<<<blocks, FINISH_THREADS, finish_bytes<T>(), w->gpu->compute>>>(w->s, w->found(), w->pools, parts, columns);
  ADJI_LAUNCHED(w->gpu, "select_by_blocks");
  finishing<T> f = {w->found(), all_rows(w->s.rows), w->pools};
  return parts == 1 ? ADJ_OK : launch_finish(w, overlapping_launch{w->gpu, false}, f, w->finishers, FINISH_THREADS);
}

/* ---- All rows -------------------------------------------------------------------------------- */

/* The number of rows done at a time. The keys found in them take at most a quarter of the available memory, and at most
 * 1 GiB. Batches have equal sizes, since a small one takes nearly as long. */
uint64_t rows_at_once(adji_gpu *gpu, const adji_select_plan &plan, uint64_t rows, size_t key_size) {
  uint64_t bytes = adji_gpu_available(gpu) / 4, most = UINT64_C(1) << 30;
  uint64_t fit = (bytes < most ? bytes : most) / (uint64_t(plan.capacity) * key_size + 64);
  fit = fit < 1 ? 1 : fit > 1 << 24 ? 1 << 24 : fit;
  uint64_t batches = (rows + fit - 1) / fit;
  return (rows + batches - 1) / batches;
}

template <class T>
adj_status select_batch(work<T> *w, adji_select_algorithm algorithm) {
  if (algorithm == ADJI_SELECT_BITS) return select_without_bound(w, false);
  if (algorithm == ADJI_SELECT_BITONIC) return select_without_bound(w, true);
  return w->plan.few ? select_few(w) : select_many(w);
}

template <class T>
adj_status select_long(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k, const adji_select_plan *plan) {
  uint64_t at_once = rows_at_once(gpu, *plan, job->rows, sizeof(key_of<T>));
  for (uint64_t first = 0; first < job->rows; first += at_once) {
    uint64_t here = job->rows - first < at_once ? job->rows - first : at_once;
    work<T> w = {};
    w.gpu = w.memory.gpu = gpu;
    w.plan = *plan;
    w.s = selection_of<T>(job, out_k, first, here);
    adj_status status = select_batch(&w, job->algorithm);
    w.memory.free();
    if (status) return status;
  }
  return ADJ_OK;
}

}  // namespace

#endif
