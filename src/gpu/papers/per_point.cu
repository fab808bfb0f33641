/* SPDX-License-Identifier: MIT
 *
 * Launches the per_point kernels, with what comes before and after: queries sorted by their work, counters of rows, the
 * longest row, and rows that differ from their count.
 */
#include "gpu/papers/per_point.cuh"

#include <utility>

#include "gpu/papers/per_point_kernel.cuh"
#include "gpu/shared/arrays.cuh"

enum { THREADS = 256 };

/* ---- The order of the queries ---------------------------------------------------------------- */

/* Counts the candidates of the points of each cell, the same for all of them: written to work, at the position of the
 * cell's first point. One thread per position; all arrays in device memory. A count is at most the number of points,
 * since no cell is visited twice. */
template <class T>
static __global__ void weigh_cells(const points<T> job, uint64_t count, uint32_t *work) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const tiles<T> &t = job.common;
  uint64_t number = number_at(t.left_numbers, t.wide_numbers, i);
  if (i && number_at(t.left_numbers, t.wide_numbers, i - 1) == number) return;
  uint64_t row = number / t.row_stride;
  uint32_t odd = job.access == ADJI_ACCESS_UNICOMP ? adji_odd_slabs(&job.strides, number) : 0, candidates = 0;
  for (uint32_t visit = job.first_visit; visit < job.visits; visit++) {
    bool both;
    candidates += range_of_visit(job, static_cast<int64_t>(row), number - row * t.row_stride, odd, visit, &both).count;
  }
  work[i] = candidates;
}

/* Copies the count of weigh_cells to each position of a cell, as a key that is the smaller the larger the count. One
 * thread per position. */
static __global__ void weigh_points(const void *numbers, bool wide, uint64_t count, const uint32_t *work,
                                    uint32_t *weights, uint32_t *positions) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint64_t number = number_at(numbers, wide, i), low = 0, high = i; /* the first of the cell is in [low, high] */
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (number_at(numbers, wide, middle) < number)
      low = middle + 1;
    else
      high = middle;
  }
  weights[i] = ~work[low];
  positions[i] = static_cast<uint32_t>(i);
}

template <class T>
static adj_status weigh(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job, uint32_t *work) {
  points<T> typed = make_points<T>(gpu, state, job);
  weigh_cells<T>
      <<<adji_blocks_for(job->left->count, THREADS), THREADS, 0, gpu->compute>>>(typed, job->left->count, work);
  ADJI_LAUNCHED(gpu, "weigh_cells");
  return ADJ_OK;
}

/* keys: two numbers per position. positions: as large as the order. */
static adj_status sort_by_work(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job, uint32_t *keys,
                               adji_block *positions) {
  uint64_t count = job->left->count;
  uint32_t *work = keys + count;
  adj_status status = job->type == ADJ_F64 ? weigh<double>(gpu, state, job, work) : weigh<float>(gpu, state, job, work);
  if (status) return status;
  weigh_points<<<adji_blocks_for(count, THREADS), THREADS, 0, gpu->compute>>>(
      job->left->numbers, job->left->wide_numbers, count, work, keys, adji_at<uint32_t>(*positions));
  ADJI_LAUNCHED(gpu, "weigh_points");
  adji_pairs<uint32_t> pairs = {keys, work, adji_at<uint32_t>(*positions), adji_at<uint32_t>(state->order)};
  status = adji_sort_pairs(gpu, &state->temporary, &pairs, count, 32);
  if (pairs.values == positions->at) std::swap(state->order, *positions);
  return status;
}

/* Memory: 4 bytes per query, and 12 more while sorting. */
static adj_status find_order(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job) {
  adji_block keys = {}, positions = {};
  uint64_t bytes = job->left->count * 4;
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "order of the queries", &state->order);
  if (!status) status = adji_block_get(gpu, gpu->compute, bytes, "order of the queries", &positions);
  if (!status) status = adji_block_get(gpu, gpu->compute, 2 * bytes, "order of the queries", &keys);
  if (!status) status = sort_by_work(gpu, state, job, adji_at<uint32_t>(keys), &positions);
  adji_block_free(gpu, gpu->compute, &keys);
  adji_block_free(gpu, gpu->compute, &positions);
  if (status) adji_block_free(gpu, gpu->compute, &state->order);
  return status;
}

/* ---- After the launch ------------------------------------------------------------------------ */

static __global__ void find_longest(const uint32_t *degrees, uint64_t rows, unsigned long long *longest) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  uint32_t most = __reduce_max_sync(ALL_LANES, i < rows ? degrees[i] : 0);
  if (threadIdx.x % ADJI_WARP == 0 && most)
    atomicMax(longest + blockIdx.x % ADJI_SPREAD, static_cast<unsigned long long>(most));
}

static __global__ void check_cursors(const uint64_t *offsets, uint64_t first_row, uint64_t rows,
                                     const uint32_t *cursors, unsigned long long *broken) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  bool wrong = i < rows && cursors[i] != offsets[first_row + i + 1] - offsets[first_row + i];
  int many = __syncthreads_count(wrong);
  if (threadIdx.x == 0 && many) atomicAdd(broken + blockIdx.x % ADJI_SPREAD, static_cast<unsigned long long>(many));
}

static adj_status account_rows(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job) {
  unsigned long long *spread = adji_answer_at(gpu, ADJI_ANSWER_SPREAD);
  if (job->ids) {
    uint64_t rows = job->end_row - job->first_row;
    check_cursors<<<adji_blocks_for(rows, THREADS), THREADS, 0, gpu->compute>>>(
        job->offsets, job->first_row, rows, adji_at<uint32_t>(state->cursors), spread + 2 * ADJI_SPREAD);
    ADJI_LAUNCHED(gpu, "check_cursors");
  } else if (job->degrees) {
    uint64_t rows = job->left->count;
    find_longest<<<adji_blocks_for(rows, THREADS), THREADS, 0, gpu->compute>>>(job->degrees, rows,
                                                                               spread + 3 * ADJI_SPREAD);
    ADJI_LAUNCHED(gpu, "find_longest");
  }
  return ADJ_OK;
}

/* ---- The launch ------------------------------------------------------------------------------ */

static adj_status clear_cursors(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job) {
  uint64_t bytes = (job->end_row - job->first_row) * 4;
  adj_status status = adji_block_reserve(gpu, gpu->compute, bytes, &state->cursors);
  if (status) return status;
  ADJI_CUDA(gpu, cudaMemsetAsync(state->cursors.at, 0, bytes, gpu->compute));
  return ADJ_OK;
}

template <class T, int STEP, int DIM>
static adj_status launch_instance(adji_gpu *gpu, const points<T> &job) {
  if (!job.common.ids) return launch_points<what<T, STEP, DIM, COUNT, EVERYWHERE>>(gpu, job);
  if (!job.common.sums) return launch_points<what<T, STEP, DIM, IDS, EVERYWHERE>>(gpu, job);
  return launch_points<what<T, STEP, DIM, IDS_AND_SUMS, EVERYWHERE>>(gpu, job);
}

/* L2 in f32 has instances for the papers' dimensions. Abandoning sums (SHORTC) uses the one for any dimension. */
template <class T>
static adj_status launch(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job) {
  points<T> typed = make_points<T>(gpu, state, job);
  if (job->measure->step != ADJI_STEP_L2) return launch_instance<T, RARE_STEP, 0>(gpu, typed);
  if constexpr (sizeof(T) == 4) {
    uint32_t dim = typed.shortc ? 0 : job->dim;
    if (dim == 2) return launch_instance<T, ADJI_STEP_L2, 2>(gpu, typed);
    if (dim == 3) return launch_instance<T, ADJI_STEP_L2, 3>(gpu, typed);
    if (dim == 6) return launch_instance<T, ADJI_STEP_L2, 6>(gpu, typed);
  }
  return launch_instance<T, ADJI_STEP_L2, 0>(gpu, typed);
}

adj_status adji_per_point_run(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job) {
  if (!job->query_count || !job->right->count || (job->ids && job->first_row == job->end_row)) return ADJ_OK;
  adj_status status = ADJ_OK;
  bool ordered = state->options.order > ADJI_WORK_INDEX_ORDER;
  if (ordered && job->degrees && !state->order.at) status = find_order(gpu, state, job);
  if (!status && job->ids) status = clear_cursors(gpu, state, job);
  if (!status) status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_HEAD, 1);
  if (status) return status;
  adji_tiles_job mine = *job;
  if (!mine.queries) mine.queries = adji_at<uint32_t>(state->order); /* NULL: index order */
  status = mine.type == ADJ_F64 ? launch<double>(gpu, state, &mine) : launch<float>(gpu, state, &mine);
  return status ? status : account_rows(gpu, state, &mine);
}

void adji_per_point_clear(adji_gpu *gpu, adji_per_point *state) {
  adji_block *blocks[] = {&state->order, &state->cursors, &state->temporary};
  for (adji_block *block : blocks)
    adji_block_free(gpu, gpu->compute, block);
}
