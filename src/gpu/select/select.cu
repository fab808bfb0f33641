/* SPDX-License-Identifier: MIT
 *
 * The k smallest of each row of a matrix: the choice of an algorithm, its memory, and its launches.
 *
 * Up to 2,048 of long rows (select_bound.cuh, select_scan.cuh, select_finish.cuh):
 * 1. A sample gives each row a bound.
 * 2. One pass collects what is not above it, a few times k keys.
 * 3. Sorting these gives the answer.
 *
 * The bound hardly ever fails. If it does, there are fewer than k keys up to it or more than there is room for, and the
 * counts show it. Otherwise everything up to the bound was collected, at least k keys, so the k smallest are among
 * them. Rows that fail get a second bound, from a sample that no order of the values can mislead, and a second pass.
 * Those that fail again are done by a block each, without a bound. This is sample select in one stage, with one
 * splitter; select_sample.cuh has it for any k. Short rows stay in shared memory (select_short.cu).
 *
 * Nothing returns to the host in between: rows to be done again are in lists on the device, which are empty as a rule.
 * With few rows, the time before and after the pass counts: each kernel begins while the previous one is still running,
 * as far as possible (select_keys.cuh).
 */
#include "gpu/select/select.cuh"

#include <cmath>

#include "gpu/select/select_bitonic.cuh"
#include "gpu/select/select_bound.cuh"
#include "gpu/select/select_finish.cuh"
#include "gpu/select/select_scan.cuh"

namespace {

/* ---- Plans ----------------------------------------------------------------------------------- */

enum { LEAST_LOG_SIZE = LOG_GROUPS, SHORTEST_ROW = 4096, MOST_PARTS = 256, MOST_CAPACITY = 131072 };

/* A sample, and how many keys are expected up to its bound. */
struct sample_plan {
  sampling how;
  double expected;
};

/* Of 2^log_size values, the number of groups that hold one of the k smallest is about binomial. The rank is `safety`
 * deviations above its mean, plus 5 for the tail if few are expected. expected: how many values make `rank` groups
 * hold one. */
sample_plan plan_of_size(uint32_t columns, uint32_t k, uint32_t log_size, uint32_t log_run, double safety) {
  double each = std::ldexp(1.0, static_cast<int>(log_size)) / GROUPS;
  double hit = 1 - std::pow(1 - static_cast<double>(k) / columns, each), mean = GROUPS * hit;
  double rank = std::ceil(mean + safety * std::sqrt(mean * (1 - hit)) + 5);
  sample_plan plan = {{log_size, log_run, GROUPS, 1}, double(columns)};
  if (rank >= GROUPS) return plan;
  plan.how.rank = static_cast<uint32_t>(rank);
  plan.expected = columns * (1 - std::pow(1 - rank / GROUPS, 1 / each));
  return plan;
}

/* The smallest sample with at most `goal` expected keys, or the best one of up to 1/16 of the row. */
sample_plan plan_sample(uint32_t columns, uint32_t k, uint32_t log_run, double safety, double goal) {
  sample_plan best = {{LEAST_LOG_SIZE, log_run, GROUPS, 1}, INFINITY};
  for (uint32_t log_size = LEAST_LOG_SIZE; columns >> log_size >= 16 && best.expected > goal; log_size++) {
    sample_plan plan = plan_of_size(columns, k, log_size, log_run, safety);
    if (plan.expected < best.expected) best = plan;
  }
  return best;
}

struct bound_plan {
  bool few;          /* several blocks share a row's sample, which is robust at once */
  sample_plan first; /* in runs of one access; few: each run in one group */
  sample_plan again; /* single values, for rows where the first bound failed */
  uint32_t capacity; /* keys per row */
  uint32_t length;   /* vectors per segment */
  uint32_t segments;
};

uint32_t divided_up(uint64_t a, uint64_t b) {
  return static_cast<uint32_t>((a + b - 1) / b);
}

/* Segments short enough that each multiprocessor gets several, so that all end at about the same time. */
template <class T>
void plan_segments(const adji_gpu *gpu, uint64_t rows, uint32_t columns, bound_plan *plan) {
  constexpr uint32_t UNIT = SCAN_WARPS * SCAN_VECTORS * ADJI_WARP;
  uint64_t vectors = columns / key_traits<T>::VECTOR + 1;
  uint64_t units = vectors * rows / (static_cast<uint64_t>(gpu->multiprocessors) * 64) / UNIT;
  units = units < 2 ? 2 : units > 16 ? 16 : units;
  plan->segments = divided_up(vectors, units * UNIT);
  plan->length = divided_up(divided_up(vectors, plan->segments), UNIT) * UNIT;
}

/* A sample that several blocks share. With 6 deviations a bound has fewer than k keys up to it once in 10^8 rows, even
 * if neighbours are alike, since a run counts for one group. There are then up to as many times more keys as a run has
 * values; the capacity is twice that. */
template <class T>
void plan_parts(uint64_t rows, uint32_t columns, uint32_t k, bound_plan *plan) {
  plan->first = plan_sample(columns, k, 0, 6, 2.6 * k + 1600);
  sampling *how = &plan->first.how;
  bool runs = how->log_size >= LOG_GROUPS + LOG_PART_RUN<T>;
  how->log_run = runs ? LOG_PART_RUN<T> : 0;
  uint32_t accesses = (1u << how->log_size) / (runs ? key_traits<T>::VECTOR : 1);
  while (how->parts < MOST_PARTS && accesses / how->parts > PART_ACCESSES * PART_THREADS && how->parts * rows < 2048)
    how->parts *= 2;
  plan->capacity = 32768;
  while (plan->capacity < 2 * std::ldexp(plan->first.expected, static_cast<int>(how->log_run)) &&
         plan->capacity < MOST_CAPACITY)
    plan->capacity *= 2;
}

/* False: the rows are too short, or k too large a share of them, for a bound to help. */
template <class T>
bool plan_bounds(const adji_gpu *gpu, const adji_gpu_select *job, bound_plan *plan) {
  uint32_t columns = static_cast<uint32_t>(job->columns), k = job->k;
  if (columns < SHORTEST_ROW || k > ADJI_SELECT_MOST) return false;
  uint32_t log_access = sizeof(T) == 8 ? 2 : 3; /* values per 32 bytes */
  plan->few = job->rows < static_cast<uint64_t>(gpu->multiprocessors);
  double goal = k > 1024 ? 1.65 * k : 2.0 * k + 600;
  if (plan->few) {
    plan_parts<T>(job->rows, columns, k, plan);
  } else {
    plan->first = plan_sample(columns, k, log_access, 5.5, goal);
    plan->capacity = 1024;
    while (plan->capacity < 8192 && plan->capacity < 4 * plan->first.expected)
      plan->capacity *= 2;
  }
  plan_segments<T>(gpu, job->rows, columns, plan);
  double most = std::fmin(plan->capacity / 1.3, columns / 3.0);
  plan->again = plan_sample(columns, k, 0, 8, std::fmin(2 * goal, most));
  return plan->first.expected <= most && (plan->few || plan->again.expected <= most);
}

/* ---- Launches -------------------------------------------------------------------------------- */

template <class T>
struct work {
  adji_gpu *gpu;
  selection<T> s;
  bound_plan plan;
  adji_block bounds, counts, keys, pools, parts, unfinished; /* unfinished: two counters, then the rows */
  uint32_t finishers;                                        /* blocks that have a pool */

  findings<T> found() const {
    return findings<T>{adji_at<key_of<T>>(bounds), adji_at<key_of<T>>(keys), adji_at<uint32_t>(counts), plan.capacity};
  }
  unfinished_rows unfinished_list() const {
    uint32_t *at = adji_at<uint32_t>(unfinished);
    return unfinished_rows{at + 2, at, at + 1, s.rows};
  }
};

row_list all_rows(uint32_t rows) {
  return row_list{NULL, NULL, NULL, rows};
}

template <class T>
void free_work(work<T> *w) {
  adji_block *blocks[] = {&w->bounds, &w->counts, &w->keys, &w->pools, &w->parts, &w->unfinished};
  for (adji_block *block : blocks)
    adji_block_free(w->gpu, w->gpu->compute, block);
}

template <class T>
adj_status get_pools(work<T> *w) {
  w->finishers = static_cast<uint32_t>(w->gpu->multiprocessors) * 2;
  if (w->finishers > w->s.rows && w->plan.few) w->finishers = w->s.rows;
  return adji_block_get(w->gpu, w->gpu->compute, uint64_t(w->finishers) * BLOCK_KEYS<T> * sizeof(key_of<T>),
                        "selection", &w->pools);
}

template <class T>
adj_status get_findings(work<T> *w) {
  cudaStream_t stream = w->gpu->compute;
  uint64_t rows = w->s.rows, size = sizeof(key_of<T>);
  adj_status status = adji_block_get(w->gpu, stream, rows * size, "selection", &w->bounds);
  if (!status) status = adji_block_get(w->gpu, stream, rows * 4, "selection", &w->counts);
  if (!status) status = adji_block_get(w->gpu, stream, rows * w->plan.capacity * size, "selection", &w->keys);
  return status;
}

template <class T>
adj_status launch_finish(work<T> *w, const row_list &list) {
  ADJI_CUDA(w->gpu, cudaFuncSetAttribute(finish_by_blocks<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(finish_bytes<T>())));
  finishing<T> f = {w->found(), list, adji_at<key_of<T>>(w->pools)};
  finish_by_blocks<T><<<w->finishers, FINISH_THREADS, finish_bytes<T>(), w->gpu->compute>>>(w->s, f);
  ADJI_LAUNCHED(w->gpu, "finish_by_blocks");
  return ADJ_OK;
}

template <class T>
adj_status launch_scan(work<T> *w, const row_list &list, uint64_t most_blocks) {
  uint64_t tasks = uint64_t(w->s.rows) * w->plan.segments, blocks = tasks < most_blocks ? tasks : most_blocks;
  scan_rows<T><<<static_cast<uint32_t>(blocks), SCAN_WARPS * ADJI_WARP, 0, w->gpu->compute>>>(
      w->s, list, w->found(), w->plan.length, w->plan.segments);
  ADJI_LAUNCHED(w->gpu, "scan_rows");
  return ADJ_OK;
}

template <class T>
adj_status launch_bounds(work<T> *w, const sampling &how, const row_list &list, uint32_t rows_per_block,
                         uint32_t blocks) {
  find_row_bounds<T><<<blocks, GROUPS, 0, w->gpu->compute>>>(
      w->s, how, list, rows_per_block, adji_at<key_of<T>>(w->bounds), adji_at<uint32_t>(w->counts));
  ADJI_LAUNCHED(w->gpu, "find_row_bounds");
  return ADJ_OK;
}

constexpr uint64_t MANY_BLOCKS = 0x7fffffff;

/* Launches kernels that may overlap the end of the previous one, if they were compiled to wait for what they need. */
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

template <class T>
adj_status make_overlapping_launch(work<T> *w, overlapping_launch *out) {
  cudaFuncAttributes compiled;
  ADJI_CUDA(w->gpu, cudaFuncGetAttributes(&compiled, scan_rows<T>));
  *out = overlapping_launch{w->gpu, compiled.ptxVersion >= 90};
  return ADJ_OK;
}

template <class T>
adj_status launch_sample(work<T> *w) {
  const sampling &how = w->plan.first.how;
  dim3 blocks(how.parts, w->s.rows);
  key_of<T> *parts = adji_at<key_of<T>>(w->parts);
  if (how.log_run)
    sample_parts<T, true><<<blocks, PART_THREADS, 0, w->gpu->compute>>>(w->s, how, parts);
  else
    sample_parts<T, false><<<blocks, PART_THREADS, 0, w->gpu->compute>>>(w->s, how, parts);
  ADJI_LAUNCHED(w->gpu, "sample_parts");
  return ADJ_OK;
}

/* Few rows: all blocks sample all rows, and the bound is so safe that a row that fails may take its time. */
template <class T>
adj_status select_few(work<T> *w) {
  const sampling &how = w->plan.first.how;
  uint64_t bytes = uint64_t(w->s.rows) * how.parts * GROUPS * sizeof(key_of<T>);
  adj_status status = adji_block_get(w->gpu, w->gpu->compute, bytes, "selection", &w->parts);
  if (!status) status = get_findings(w);
  if (!status) status = get_pools(w);
  overlapping_launch follow = {};
  if (!status) status = make_overlapping_launch(w, &follow);
  if (!status) status = launch_sample(w);
  if (status) return status;
  ADJI_CUDA(w->gpu, follow(find_bounds_of_parts<T>, w->s.rows, PART_THREADS, 0, how, adji_at<key_of<T>>(w->parts),
                           adji_at<key_of<T>>(w->bounds), adji_at<uint32_t>(w->counts)));
  row_list all = all_rows(w->s.rows);
  uint64_t tasks = uint64_t(w->s.rows) * w->plan.segments, blocks = tasks < MANY_BLOCKS ? tasks : MANY_BLOCKS;
  ADJI_CUDA(w->gpu, follow(scan_rows<T>, static_cast<uint32_t>(blocks), SCAN_WARPS * ADJI_WARP, 0, w->s, all,
                           w->found(), w->plan.length, w->plan.segments));
  ADJI_CUDA(w->gpu, cudaFuncSetAttribute(finish_few<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(finish_bytes<T>())));
  finishing<T> f = {w->found(), all, adji_at<key_of<T>>(w->pools)};
  ADJI_CUDA(w->gpu, follow(finish_few<T>, w->s.rows, FEW_THREADS, finish_bytes<T>(), w->s, f));
  return ADJ_OK;
}

/* Finishes the rows whose bound held, except those that buckets are not for. About as many buckets as keys are
 * expected. */
template <class T>
adj_status finish_found(work<T> *w) {
  bucket_layout layout = {LEAST_BUCKETS, w->s.k + BUCKET_MOST};
  while (layout.most < MOST_BUCKETS && layout.most < w->plan.first.expected)
    layout.most *= 2;
  uint32_t bytes = layout.bytes<T>();
  /* The same for all: contexts in other threads set it too. */
  ADJI_CUDA(w->gpu, cudaFuncSetAttribute(finish_by_buckets<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(all_buckets().bytes<T>())));
  finish_by_buckets<T>
      <<<w->s.rows, FINISH_THREADS, bytes, w->gpu->compute>>>(w->s, w->found(), layout, w->unfinished_list());
  ADJI_LAUNCHED(w->gpu, "finish_by_buckets");
  return ADJ_OK;
}

template <class T>
adj_status select_many(work<T> *w) {
  uint32_t rows = w->s.rows, rows_per_block = rows / 1024;
  rows_per_block = rows_per_block < 1 ? 1 : rows_per_block > MOST_ROWS_PER_BLOCK ? MOST_ROWS_PER_BLOCK : rows_per_block;
  uint32_t busy = static_cast<uint32_t>(w->gpu->multiprocessors) * 4;
  adj_status status = get_findings(w);
  if (!status) status = get_pools(w);
  if (!status) status = adji_block_get(w->gpu, w->gpu->compute, (uint64_t(rows) + 2) * 4, "selection", &w->unfinished);
  if (status) return status;
  ADJI_CUDA(w->gpu, cudaMemsetAsync(w->unfinished.at, 0, 2 * sizeof(uint32_t), w->gpu->compute));
  status = launch_bounds(w, w->plan.first.how, all_rows(rows), rows_per_block, divided_up(rows, rows_per_block));
  if (!status) status = launch_scan(w, all_rows(rows), MANY_BLOCKS);
  if (!status) status = finish_found(w);
  if (status) return status;
  unfinished_rows unfinished = w->unfinished_list();
  row_list wrong = {unfinished.rows, NULL, unfinished.wrong, rows},
           rest = {unfinished.rows, unfinished.many, unfinished.wrong, rows};
  status = launch_bounds(w, w->plan.again.how, wrong, 1, busy);
  if (!status) status = launch_scan(w, wrong, busy);
  return status ? status : launch_finish(w, rest);
}

/* ---- Without a bound ------------------------------------------------------------------------- */

/* Few rows are cut into parts, each much longer than what remains of it. */
template <class T>
uint32_t parts_of_rows(const work<T> *w) {
  uint64_t blocks = static_cast<uint64_t>(w->gpu->multiprocessors) * 2, parts = blocks / w->s.rows;
  uint64_t most = w->s.columns / (4 * uint64_t(w->s.k) + 4 * BLOCK_KEYS<T>);
  return static_cast<uint32_t>(parts < most ? parts : most);
}

/* By buffers or in chunks, see select_by_blocks. */
template <class T>
adj_status select_by_gathering(work<T> *w, bool in_chunks) {
  uint32_t parts = parts_of_rows(w);
  if (parts < 1) parts = 1;
  uint32_t columns = divided_up(w->s.columns, parts);
  parts = divided_up(w->s.columns, columns);
  w->plan.capacity = parts > 1 ? parts * w->s.k : 0;
  adj_status status = get_findings(w);
  if (!status) status = get_pools(w);
  if (status) return status;
  uint64_t tasks = uint64_t(w->s.rows) * parts;
  if (parts > 1) ADJI_CUDA(w->gpu, cudaMemsetAsync(w->counts.at, 0, w->s.rows * sizeof(uint32_t), w->gpu->compute));
  ADJI_CUDA(w->gpu, cudaFuncSetAttribute(select_by_blocks<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(finish_bytes<T>())));
  uint32_t blocks = tasks < w->finishers ? static_cast<uint32_t>(tasks) : w->finishers;
  select_by_blocks<T><<<blocks, FINISH_THREADS, finish_bytes<T>(), w->gpu->compute>>>(
      w->s, w->found(), adji_at<key_of<T>>(w->pools), parts, columns, in_chunks);
  ADJI_LAUNCHED(w->gpu, "select_by_blocks");
  return parts > 1 ? launch_finish(w, all_rows(w->s.rows)) : ADJ_OK;
}

/* ---- All rows -------------------------------------------------------------------------------- */

/* Rows done at a time. What is found of them takes at most a quarter of the available memory, and at most 1 GiB.
 * Batches have equal sizes, since a small one takes nearly as long. */
uint64_t rows_at_once(adji_gpu *gpu, const bound_plan &plan, uint64_t rows, size_t key_size) {
  uint64_t bytes = adji_gpu_available(gpu) / 4, most = UINT64_C(1) << 30;
  uint64_t fit = (bytes < most ? bytes : most) / (uint64_t(plan.capacity) * key_size + 64);
  fit = fit < 1 ? 1 : fit > 1 << 24 ? 1 << 24 : fit;
  uint64_t batches = (rows + fit - 1) / fit;
  return (rows + batches - 1) / batches;
}

template <class T>
adj_status select_batch(work<T> *w, adji_select_algorithm algorithm) {
  if (algorithm == ADJI_SELECT_BITS) return select_by_gathering(w, false);
  if (algorithm == ADJI_SELECT_BITONIC) return select_by_gathering(w, true);
  return w->plan.few ? select_few(w) : select_many(w);
}

/* By a bound, for which there must be a plan, or by gathering. */
template <class T>
adj_status select_some(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  bound_plan plan = {};
  if (job->algorithm == ADJI_SELECT_BOUND) plan_bounds<T>(gpu, job, &plan);
  uint64_t at_once = rows_at_once(gpu, plan, job->rows, sizeof(key_of<T>));
  for (uint64_t first = 0; first < job->rows; first += at_once) {
    uint64_t here = job->rows - first < at_once ? job->rows - first : at_once;
    work<T> w = {};
    w.gpu = gpu;
    w.plan = plan;
    w.s = selection_of<T>(job, out_k, first, here);
    adj_status status = select_batch(&w, job->algorithm);
    free_work(&w);
    if (status) return status;
  }
  return ADJ_OK;
}

/* Writes the padding entries beyond the columns of the matrix. One thread per entry; output in device memory. */
template <class T>
__global__ void pad_rows(uint64_t rows, uint32_t from, uint32_t k, T padding, uint32_t *columns, T *values) {
  uint64_t each = k - from, i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < rows * each; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    uint64_t to = i / each * k + from + i % each;
    columns[to] = ADJ_NO_ID;
    if (values) values[to] = padding;
  }
}

template <class T>
adj_status pad(adji_gpu *gpu, const adji_gpu_select *job) {
  uint32_t from = static_cast<uint32_t>(job->columns);
  T padding = static_cast<T>(job->largest ? -INFINITY : INFINITY);
  pad_rows<T><<<1024, 256, 0, gpu->compute>>>(job->rows, from, job->k, padding, job->columns_out,
                                              static_cast<T *>(job->values_out));
  ADJI_LAUNCHED(gpu, "pad_rows");
  return ADJ_OK;
}

/* Chooses the algorithm, if none was requested or the requested one is not for such rows.
 *
 * Short rows: those of which two fit a multiprocessor's shared memory, so that one is read while the other is
 * processed, if that is faster than a bound (on an H200, f32: up to 8,192 columns for few values, 4,096 for many, and
 * whenever k is too large a share of the row for a bound). */
enum { SHORT_FEW = 8192, SHORT_MANY = 4096, FEW_VALUES = 128, BOUND_SHARE = 8 };

bool suits_short(const adji_gpu_select *job) {
  return job->columns <= (job->k <= FEW_VALUES ? SHORT_FEW : SHORT_MANY) ||
         static_cast<uint64_t>(job->k) * BOUND_SHARE > job->columns;
}

/* Without a useful bound: k is up to 2,048 and a large share of the row, which then has fewer than 16,384 columns.
 * Shared memory takes these on a device that has 227 KiB of it per block. On others a row that a block can sort at
 * once is read once, where digits take five readings. A longer row would be sorted again and again in a buffer that
 * discards little, which on an H200 took 13 ms where digits took 7.9 (16,384 rows of 32,768, k = 2,048). */
adj_status choose_without_bound(adji_gpu *gpu, adji_gpu_select *job) {
  bool fits = false, sorted_at_once = job->columns <= (job->type == ADJ_F64 ? BLOCK_KEYS<double> : BLOCK_KEYS<float>);
  adj_status status = adji_select_short_fits(gpu, job, 1, &fits);
  job->algorithm = fits ? ADJI_SELECT_SHORT : sorted_at_once ? ADJI_SELECT_BITS : ADJI_SELECT_RADIX;
  return status;
}

/* More than 2,048. From three quarters of the row on, not sorting saves nothing. Samples move fewer bytes than digits;
 * they were twice as fast in rows of 4 million and slower in rows of 32,768 (H200, k up to 2,048). For larger k that
 * was not measured, so they are used only on request. */
adji_select_algorithm choose_for_many(const adji_gpu_select *job) {
  return static_cast<uint64_t>(job->k) >= job->columns / 4 * 3 ? ADJI_SELECT_SORT : ADJI_SELECT_RADIX;
}

adj_status choose_algorithm(adji_gpu *gpu, adji_gpu_select *job) {
  bool automatic = job->algorithm == ADJI_SELECT_AUTO, fits = false;
  if (automatic || job->algorithm == ADJI_SELECT_SHORT) {
    adj_status status = adji_select_short_fits(gpu, job, automatic ? 2 : 1, &fits);
    if (status) return status;
    if (automatic && !suits_short(job)) fits = false;
    job->algorithm = fits ? ADJI_SELECT_SHORT : job->k <= ADJI_SELECT_MOST ? ADJI_SELECT_BOUND : choose_for_many(job);
  }
  if (job->algorithm != ADJI_SELECT_BOUND) return ADJ_OK;
  bound_plan plan = {};
  bool bound = job->type == ADJ_F64 ? plan_bounds<double>(gpu, job, &plan) : plan_bounds<float>(gpu, job, &plan);
  return bound ? ADJ_OK : choose_without_bound(gpu, job);
}

}  // namespace

adj_status adji_gpu_select_rows(adji_gpu *gpu, const adji_gpu_select *job) {
  if (!job->rows) return ADJ_OK;
  bool f64 = job->type == ADJ_F64;
  adji_gpu_select mine = *job;
  if (mine.k > mine.columns) {
    adj_status padded = f64 ? pad<double>(gpu, job) : pad<float>(gpu, job);
    if (padded || !mine.columns) return padded;
    mine.k = static_cast<uint32_t>(mine.columns);
  }
  adj_status status = choose_algorithm(gpu, &mine);
  if (status) return status;
  if (mine.algorithm == ADJI_SELECT_SHORT) return adji_select_short(gpu, &mine, job->k);
  if (mine.algorithm >= ADJI_SELECT_RADIX) return adji_select_large(gpu, &mine, job->k);
  return f64 ? select_some<double>(gpu, &mine, job->k) : select_some<float>(gpu, &mine, job->k);
}
