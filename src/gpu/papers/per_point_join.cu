/* SPDX-License-Identifier: MIT
 *
 * The per_point kernel of range joins: a query has threads of its own. It follows GPUCalcGlobal of LBJoin (Gallet and
 * Gowanlock, Algorithm 1) and GPU-Join (Gowanlock and Karsin, Algorithm 1).
 *
 * Computes: the same as join_tiles (range/tiles_kernel.cuh). With an access pattern that compares each pair of cells
 * once, a pair of points of two cells is compared once and counted, or written, for both rows. The canonical sum has
 * the same bits in either direction, since t = a - b only changes its sign, and products commute.
 *
 * Memory: everything is in device memory, nothing in shared memory. Coordinates are read in the layout of the index.
 *
 * A group of 1, 2, .. or 32 lanes owns a query; a warp holds as many groups as fit. A block has 256 threads, and the
 * grid has a group for every query. Steps of a warp:
 *
 *   1. queries    take the next ones by the warp's number, or from the head of the queue
 *   2. visit      all groups look up the cell, or row of cells, with the same visit number around their own. If it is
 *                 not to be visited, the range is empty. With sortidu two binary searches narrow the range
 *   3. compare    the lanes of a group take the candidates of the range in turn
 *   4. account    lanes add up what they counted
 *
 * The lanes of a warp meet at every visit. The slots of a warp, the comparisons it could have made without waiting
 * lanes, are then 32 times the largest number of comparisons of a lane, summed over the visits. Counts and batches
 * report them.
 *
 * Filling rows: an atomic counter per row gives an entry its place. The entry is written only if the row has room.
 *
 * Filling a batch: one atomic counter gives entries, (row, id), their places one after the other, as in the papers.
 * Lanes that find an entry at the same time take their places together. Entries beyond the room are counted, but not
 * written.
 *
 * Limits: the latency of scattered reads, and lanes that wait for the lane of their warp with the most candidates.
 * Sorting the queries by work reduces that wait.
 */
#include "gpu/papers/per_point.cuh"

#include <utility>

#include "gpu/range/tiles_kernel.cuh"
#include "gpu/shared/arrays.cuh"

extern "C" {
#include "gpu/papers/reorder.h"
}

namespace {

enum { POINT_BLOCK = 256 };

/* The parameters of the kernel. */
template <class T>
struct points {
  tiles<T> common; /* shared with the default kernels */
  adji_access access;
  uint32_t thread_bits; /* log2 of the threads per query */
  bool shortc, sortidu;
  const uint32_t *dims; /* the order of the dimensions for the filter of reorder.h, or NULL */
  T dims_limit;         /* its limit */
  uint32_t sort_dim;
  adji_strides strides;
  uint32_t width;                   /* cells of a row that are visited: 2 * reach + 1 */
  bool by_cell;                     /* visit rows of cells cell by cell */
  uint32_t first_visit, row_visits; /* the visits of rows; then follow the cells of the query's own row */
  uint32_t visits;                  /* the number of all visits */
  unsigned long long *head;         /* head of the queue, or NULL */
  uint32_t *cursors;                /* filling: the number of entries so far of row first_row + i */
  uint64_t first_row, end_row;
  adji_point_batch batch; /* if its rows are NULL, it has all queries of the launch, and entries go to their rows */
};

/* ---- Metrics --------------------------------------------------------------------------------- */

/* The sum s plus the term of dimension j. The papers' metric, L2, has kernels of its own. All other metrics share
 * kernels, those of RARE_STEP, which switch by metric for each term. */
template <class W, class T>
__device__ __forceinline__ T add_term_of_point(const tiles<T> &t, T s, T x, T c, uint32_t j) {
  if constexpr (W::STEP == ADJI_STEP_L2) return adji_gpu_step<ADJI_STEP_L2>(s, x, c, t.measure, j);
  switch (t.step) {
#define TERM(name, NAME) \
  case ADJI_STEP_##NAME: \
    return adji_gpu_step<ADJI_STEP_##NAME>(s, x, c, t.measure, j);
    ADJI_STEP_LIST(TERM)
#undef TERM
  }
  return s;
}

template <class W, class T>
__device__ __forceinline__ bool is_dot(const tiles<T> &t) {
  return W::STEP != ADJI_STEP_L2 && t.step == ADJI_STEP_DOT;
}

/* ---- Visits ---------------------------------------------------------------------------------- */

/* The candidates of a visit. for_both: the comparison counts for both points, since the candidates do not visit the
 * query's cell. */
template <class T>
__device__ __forceinline__ range range_of_visit(const points<T> &job, int64_t cell_row, uint64_t cell, uint32_t odd,
                                                uint32_t visit, bool *for_both) {
  const tiles<T> &t = job.common;
  int64_t step, row = cell_row;
  *for_both = adji_access_mirrors(job.access);
  if (visit < job.row_visits) {
    uint32_t number = job.by_cell ? visit / job.width : visit;
    if (!adji_access_visits_row(job.access, number, t.row_count, odd)) return range{0, 0};
    if (!job.by_cell) return row_of_cells(t, row, number, cell, cell);
    row += t.row_steps[number];
    step = static_cast<int64_t>(visit - number * job.width) - t.reach;
  } else {
    step = static_cast<int64_t>(visit - job.row_visits) - t.reach;
    *for_both = step != 0;
    uint32_t last = job.strides.axes ? job.strides.axes - 1 : 0;
    if (!adji_access_visits_cell(job.access, step, odd >> last & 1)) return range{0, 0};
  }
  int64_t at = static_cast<int64_t>(cell) + step;
  if (at < 0 || at >= static_cast<int64_t>(t.row_stride)) return range{0, 0};
  return range_of_cells(t, row, static_cast<uint64_t>(at), static_cast<uint64_t>(at));
}

/* SORTIDU: narrows a cell, whose points ascend along dimension u, to those that may belong by that dimension alone.
 *
 * Let f(c) be the canonical step from 0 for x = x_u and c = c_u: fl(t * t), |t| and |t| with t = fl(x - c). Sums never
 * decrease from step to step, and rounding is monotone. The sum before u is s' >= 0, so the sum after u, and hence the
 * whole sum, is at least f(c). A candidate with f(c) > limit does not belong, and no margin is needed. As c ascends
 * towards x, |t| descends; beyond x it ascends; f is monotone in |t|. So "c < x and f(c) > limit" holds for the first
 * points of the cell and for no others, and "c > x and f(c) > limit" for the last ones. For Lp the power is not proven
 * to be monotone, and in a periodic box |t| is not: such joins are refused (plan/choose_kernels.c). */
template <class W, class T>
__device__ __forceinline__ range narrow(const points<T> &job, uint64_t position, range all) {
  const tiles<T> &t = job.common;
  uint32_t u = job.sort_dim, begin = all.begin, high = all.begin + all.count;
  T x = t.left.at(position, u);
  while (begin < high) {
    uint32_t middle = begin + (high - begin) / 2;
    T c = t.right.at(middle, u);
    if (c < x && add_term_of_point<W>(t, T(0), x, c, u) > t.limit)
      begin = middle + 1;
    else
      high = middle;
  }
  uint32_t end = begin;
  high = all.begin + all.count;
  while (end < high) {
    uint32_t middle = end + (high - end) / 2;
    T c = t.right.at(middle, u);
    if (c > x && add_term_of_point<W>(t, T(0), x, c, u) > t.limit)
      high = middle;
    else
      end = middle + 1;
  }
  return range{begin, end - begin};
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* What a lane has counted. */
struct tally {
  uint32_t found;      /* entries of its query's row */
  uint64_t mirrored;   /* entries of other rows */
  uint64_t candidates; /* compared */
  uint64_t turns;      /* slots of this lane: see the top of this file */
};

/* REORDER with SHORTC: whether the sum in another order of the dimensions proves that the candidate does not belong
 * (gpu/papers/reorder.h). Coordinates of a dimension are side by side in the index, so this reads them as if they were
 * stored in that order. */
template <class W, class T>
__device__ __forceinline__ bool reordered_drops(const points<T> &job, uint32_t query, uint32_t position) {
  const tiles<T> &t = job.common;
  T s = 0;
  for (uint32_t i = 0; i < t.dim; i++) {
    uint32_t j = job.dims[i];
    s = add_term_of_point<W>(t, s, t.left.at(query, j), t.right.at(position, j), j);
    if (s > job.dims_limit) return true;
  }
  return false;
}

/* The canonical sum, with or without SHORTC; or a number above the limit, if REORDER drops the candidate. Instances for
 * a fixed dimension never abandon a sum. */
template <class W, class T, int DIM>
__device__ __forceinline__ T point_sum(const points<T> &job, const lane_query<T, DIM> &mine, uint32_t position) {
  const tiles<T> &t = job.common;
  T s = 0, c[W::WIDTH ? W::WIDTH : 1];
  if (!DIM && job.dims && reordered_drops<W>(job, mine.position, position)) return job.dims_limit;
  if (DIM) load_point<W>(t.right, position, c);
#pragma unroll
  for (int j = 0; j < DIM; j++)
    s = add_term_of_point<W>(t, s, mine.x[j], c[j], j);
  for (uint32_t j = 0; !DIM && j < t.dim; j++) {
    s = add_term_of_point<W>(t, s, t.left.at(mine.position, j), t.right.at(position, j), j);
    if (job.shortc && !is_dot<W>(t) && !(s <= t.limit)) break;
  }
  return is_dot<W>(t) ? adji_gpu_finish<ADJI_STEP_DOT>(s) : s;
}

/* Appends an entry to those of the batch. The lanes that happen to be here together take their places with one
 * atomic. */
template <class W, class T>
__device__ __forceinline__ void append_entry(const points<T> &job, uint32_t row, uint32_t id, T s) {
  uint32_t here = __activemask(), lane = threadIdx.x % ADJI_WARP, leader = __ffs(static_cast<int>(here)) - 1;
  unsigned long long first = 0;
  if (lane == leader)
    first = atomicAdd(job.batch.answers + ADJI_ANSWER_CACHE, static_cast<unsigned long long>(__popc(here)));
  first = __shfl_sync(here, first, static_cast<int>(leader));
  uint64_t at = first + __popc(here & ((1u << lane) - 1));
  if (at >= job.batch.room) return;
  job.batch.rows[at] = row;
  job.common.ids[at] = id;
  if (W::SUMS) job.common.sums[at] = s;
}

/* Writes an entry of a row, if the row is being filled and has room. */
template <class W, class T>
__device__ __forceinline__ void put_entry(const points<T> &job, uint32_t row, uint32_t id, T s) {
  if (row < job.first_row || row >= job.end_row) return;
  if (job.batch.rows) {
    append_entry<W>(job, row, id, s);
    return;
  }
  uint32_t entry = atomicAdd(job.cursors + (row - job.first_row), 1u);
  const uint64_t *bounds = bounds_of(job.common, row);
  if (entry >= bounds[1] - bounds[0]) return;
  job.common.ids[bounds[0] - job.common.base + entry] = id;
  if (W::SUMS) job.common.sums[bounds[0] - job.common.base + entry] = s;
}

template <class W, class T, int DIM>
__device__ __forceinline__ void meet_candidate(const points<T> &job, const lane_query<T, DIM> &mine, uint32_t position,
                                               bool for_both, tally *sum) {
  const tiles<T> &t = job.common;
  T s = point_sum<W>(job, mine, position);
  if (!(s <= t.limit)) return;
  uint32_t id = W::FILL || for_both || t.keep == ADJI_KEEP_ABOVE ? t.right_ids[position] : 0;
  if (stays<W>(t, id, mine.row)) {
    sum->found++;
    if (W::FILL) put_entry<W>(job, mine.row, id, s);
  }
  if (for_both && stays<W>(t, mine.row, id)) {
    sum->mirrored++;
    if (W::FILL) put_entry<W>(job, id, mine.row, s);
    if (!W::FILL && t.degrees) atomicAdd(t.degrees + id, 1u);
  }
}

/* Steps 2 and 3. Lanes without a query take part in the shuffles. */
template <class W, class T, int DIM>
__device__ __forceinline__ void visit_all(const points<T> &job, const lane_query<T, DIM> &mine, bool active,
                                          uint32_t lane, tally *sum) {
  uint32_t threads = 1u << job.thread_bits, member = lane & (threads - 1), odd = 0;
  if (job.access == ADJI_ACCESS_UNICOMP)
    odd = adji_odd_slabs(&job.strides, static_cast<uint64_t>(mine.cell_row) * job.common.row_stride + mine.cell);
  for (uint32_t visit = job.first_visit; visit < job.visits; visit++) {
    bool for_both = false;
    range r = {0, 0};
    if (active) r = range_of_visit(job, mine.cell_row, mine.cell, odd, visit, &for_both);
    if (job.sortidu && r.count) r = narrow<W>(job, mine.position, r);
    uint32_t turns = r.count > member ? ((r.count - member - 1) >> job.thread_bits) + 1 : 0;
    if (!W::FILL || job.batch.rows) {
      sum->candidates += turns;
      sum->turns += __reduce_max_sync(ALL_LANES, turns);
    }
    uint32_t position = r.begin + member;
    for (uint32_t remaining = turns; remaining; remaining--, position += threads)
      meet_candidate<W>(job, mine, position, for_both, sum);
  }
}

/* Step 4: comparisons and slots. */
__device__ __forceinline__ void account_effort(unsigned long long *spread, const tally &sum, uint32_t lane) {
  adji_answer_add(spread + ADJI_SPREAD, sum.candidates, lane);
  adji_answer_add(spread + 4 * ADJI_SPREAD, sum.turns, lane);
}

/* Step 4, counting: rows and totals. The query itself is among its candidates once and is subtracted here. */
template <class W, class T, int DIM>
__device__ __forceinline__ void account_count(const points<T> &job, const lane_query<T, DIM> &mine, bool active,
                                              uint32_t lane, const tally &sum) {
  const tiles<T> &t = job.common;
  uint32_t threads = 1u << job.thread_bits, found = sum.found;
  for (uint32_t step = 1; step < threads; step *= 2)
    found += __shfl_xor_sync(ALL_LANES, found, step);
  bool first = active && (lane & (threads - 1)) == 0;
  if (first && t.keep == ADJI_KEEP_OTHERS && (!is_dot<W>(t) || belongs_to_itself<ADJI_STEP_DOT>(t, mine.position)))
    found--;
  if (first && t.degrees && !adji_access_mirrors(job.access)) t.degrees[mine.row] = found;
  if (first && t.degrees && adji_access_mirrors(job.access) && found) atomicAdd(t.degrees + mine.row, found);
  adji_answer_add(t.spread_answers, (first ? found : 0) + sum.mirrored, lane);
  account_effort(t.spread_answers, sum, lane);
}

template <class W>
__global__ void __launch_bounds__(POINT_BLOCK, 4) join_points(const points<typename W::T> job) {
  typedef typename W::T T;
  uint32_t lane = threadIdx.x % ADJI_WARP, groups = ADJI_WARP >> job.thread_bits;
  uint64_t first = (static_cast<uint64_t>(blockIdx.x) * POINT_BLOCK + threadIdx.x) / ADJI_WARP * groups;
  if (job.head) {
    unsigned long long taken = 0;
    if (lane == 0) taken = atomicAdd(job.head, static_cast<unsigned long long>(groups));
    first = __shfl_sync(ALL_LANES, taken, 0);
  }
  uint64_t query = first + (lane >> job.thread_bits);
  bool active = query < job.batch.count;
  if (!__any_sync(ALL_LANES, active)) return;
  lane_query<T, W::DIM> mine = open_query<W>(job.common, job.batch.first + query * job.batch.step, active);
  tally sum = {0, 0, 0, 0};
  visit_all<W>(job, mine, active, lane, &sum);
  if (!W::FILL) account_count<W>(job, mine, active, lane, sum);
  if (W::FILL && job.batch.rows) account_effort(job.batch.answers + ADJI_ANSWER_SPREAD, sum, lane);
}

/* ---- Launching ------------------------------------------------------------------------------- */

template <class T>
points<T> make_points(const adji_per_point *state, const adji_tiles_job *job) {
  const adji_point_options *options = &state->options;
  adji_point_batch whole = {0, 1, job->query_count, NULL, NULL, 0, NULL};
  points<T> p = {};
  p.common = with_types<T>(job);
  p.common.exact = true; /* no cell may be visited twice */
  p.access = options->access;
  for (uint32_t threads = options->threads; threads > 1; threads /= 2)
    p.thread_bits++;
  p.shortc = options->shortc;
  if (state->dims.at && p.shortc && job->measure->step != ADJI_STEP_DOT) {
    p.dims = adji_at<uint32_t>(state->dims);
    p.dims_limit = static_cast<T>(adji_reordered_limit(job->type, job->limit, job->dim));
  }
  p.sortidu = p.by_cell = options->sortidu;
  p.sort_dim = options->sort_dim;
  p.strides.axes = job->grid->axis_count;
  for (uint32_t a = 0; a < job->grid->axis_count; a++)
    p.strides.each[a] = job->grid->axes[a].stride;
  p.width = 2 * job->grid->reach + 1;
  uint32_t each = p.by_cell ? p.width : 1; /* visits per row */
  p.row_visits = job->grid->row_count * each;
  if (p.access == ADJI_ACCESS_LID_UNICOMP) p.first_visit = (job->grid->row_count / 2 + 1) * each;
  p.visits = p.row_visits + (adji_access_mirrors(p.access) ? p.width : 0);
  if (options->order == ADJI_WORK_QUEUE) p.head = job->answers + ADJI_ANSWER_HEAD;
  p.cursors = adji_at<uint32_t>(state->cursors);
  p.first_row = job->first_row;
  p.end_row = job->end_row;
  p.batch = whole;
  return p;
}

template <class W>
adj_status launch_points(adji_gpu *gpu, cudaStream_t stream, const points<typename W::T> &job) {
  uint64_t queries = POINT_BLOCK >> job.thread_bits; /* queries per block */
  uint32_t blocks = static_cast<uint32_t>((job.batch.count + queries - 1) / queries);
  join_points<W><<<blocks, POINT_BLOCK, 0, stream>>>(job);
  ADJI_LAUNCHED(gpu, "join_points");
  return ADJ_OK;
}

}  // namespace

enum { THREADS = 256 };

/* ---- The order of the queries ---------------------------------------------------------------- */

/* Counts the candidates that each point of a cell has, and writes the count to work, at the position of the cell's
 * first point. One thread per position; all arrays in device memory. A count is at most the number of points, since no
 * cell is visited twice. */
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
    bool for_both;
    candidates +=
        range_of_visit(job, static_cast<int64_t>(row), number - row * t.row_stride, odd, visit, &for_both).count;
  }
  work[i] = candidates;
}

/* Copies the count of weigh_cells to each position of a cell, as a key that gets smaller as the count grows. One thread
 * per position. */
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

/* The row of each position. One thread per position. */
static __global__ void find_rows(const uint32_t *positions, uint64_t count, const uint32_t *ids, uint32_t *rows) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) rows[i] = ids[positions[i]];
}

template <class T>
static adj_status weigh(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job, uint32_t *work) {
  points<T> typed = make_points<T>(state, job);
  weigh_cells<T>
      <<<adji_blocks_for(job->left->count, THREADS), THREADS, 0, gpu->compute>>>(typed, job->left->count, work);
  ADJI_LAUNCHED(gpu, "weigh_cells");
  return ADJ_OK;
}

/* keys has room for two numbers per position, positions for as many as the order. */
static adj_status sort_by_work(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job, uint32_t *keys,
                               adji_block *positions, uint32_t *rows) {
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
  if (status || !rows) return status;
  find_rows<<<adji_blocks_for(count, THREADS), THREADS, 0, gpu->compute>>>(adji_at<uint32_t>(state->order), count,
                                                                           job->left->ids, rows);
  ADJI_LAUNCHED(gpu, "find_rows");
  return ADJ_OK;
}

/* Orders the queries by work. rows, unless NULL, receives the rows of the queries in that order. Memory: 4 bytes per
 * query, and 12 more while sorting. */
static adj_status find_order(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job, uint32_t *rows) {
  adji_block keys = {}, positions = {};
  uint64_t bytes = job->left->count * 4;
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "order of the queries", &state->order);
  if (!status) status = adji_block_get(gpu, gpu->compute, bytes, "order of the queries", &positions);
  if (!status) status = adji_block_get(gpu, gpu->compute, 2 * bytes, "order of the queries", &keys);
  if (!status) status = sort_by_work(gpu, state, job, adji_at<uint32_t>(keys), &positions, rows);
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

/* The same for the rows of a list, whose bounds are given. One thread per query. */
static __global__ void check_listed(const uint32_t *queries, uint64_t count, const uint32_t *ids,
                                    const ulonglong2 *bounds, const uint32_t *cursors, unsigned long long *broken) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  bool wrong = false;
  if (i < count) {
    uint32_t row = ids[queries[i]];
    ulonglong2 row_bounds = bounds[row];
    wrong = cursors[row] != row_bounds.y - row_bounds.x;
  }
  int many = __syncthreads_count(wrong);
  if (threadIdx.x == 0 && many) atomicAdd(broken + blockIdx.x % ADJI_SPREAD, static_cast<unsigned long long>(many));
}

static adj_status account_listed(adji_gpu *gpu, cudaStream_t stream, const adji_per_point *state,
                                 const adji_tiles_job *job) {
  check_listed<<<adji_blocks_for(job->query_count, THREADS), THREADS, 0, stream>>>(
      job->queries, job->query_count, job->left->ids, reinterpret_cast<const ulonglong2 *>(job->offsets),
      adji_at<uint32_t>(state->cursors), job->spread_answers + 2 * ADJI_SPREAD);
  ADJI_LAUNCHED(gpu, "check_listed");
  return ADJ_OK;
}

static adj_status account_rows(adji_gpu *gpu, const adji_per_point *state, const adji_tiles_job *job) {
  unsigned long long *spread = job->spread_answers;
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
static adj_status launch_instance(adji_gpu *gpu, cudaStream_t stream, const points<T> &job) {
  if (!job.common.ids) return launch_points<kernel_traits<T, STEP, DIM, COUNT, EVERYWHERE>>(gpu, stream, job);
  if (!job.common.sums) return launch_points<kernel_traits<T, STEP, DIM, IDS, EVERYWHERE>>(gpu, stream, job);
  return launch_points<kernel_traits<T, STEP, DIM, IDS_AND_SUMS, EVERYWHERE>>(gpu, stream, job);
}

/* L2 in f32 has instances for the papers' dimensions. With SHORTC, which abandons sums, the instance for any dimension
 * is used. */
template <class T>
static adj_status launch(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job, const points<T> &typed) {
  if (job->measure->step != ADJI_STEP_L2) return launch_instance<T, RARE_STEP, 0>(gpu, stream, typed);
  if constexpr (sizeof(T) == 4) {
    uint32_t dim = typed.shortc ? 0 : job->dim;
    if (dim == 2) return launch_instance<T, ADJI_STEP_L2, 2>(gpu, stream, typed);
    if (dim == 3) return launch_instance<T, ADJI_STEP_L2, 3>(gpu, stream, typed);
    if (dim == 6) return launch_instance<T, ADJI_STEP_L2, 6>(gpu, stream, typed);
  }
  return launch_instance<T, ADJI_STEP_L2, 0>(gpu, stream, typed);
}

adj_status adji_per_point_run(adji_gpu *gpu, adji_per_point *state, const adji_tiles_job *job) {
  adji_tiles_job mine = *job;
  if (!mine.query_count || !mine.right->count || (mine.ids && mine.first_row == mine.end_row)) return ADJ_OK;
  adj_status status = ADJ_OK;
  bool ordered = state->options.order > ADJI_WORK_INDEX_ORDER && !mine.queries;
  if (ordered && mine.degrees && !state->order.at) status = find_order(gpu, state, &mine, NULL);
  if (!status && mine.ids) status = clear_cursors(gpu, state, &mine);
  if (!status) status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_HEAD, 1);
  if (status) return status;
  if (!mine.queries) mine.queries = adji_at<uint32_t>(state->order); /* NULL: index order */
  status = mine.type == ADJ_F64 ? launch(gpu, gpu->compute, &mine, make_points<double>(state, &mine))
                                : launch(gpu, gpu->compute, &mine, make_points<float>(state, &mine));
  return status ? status : account_rows(gpu, state, &mine);
}

adj_status adji_per_point_open(adji_gpu *gpu, const adji_point_options *options, uint32_t dim, adji_per_point *state) {
  state->options = *options;
  state->options.dims = NULL; /* which are on the host */
  if (!options->dims || !options->shortc) return ADJ_OK;
  adj_status status = adji_block_get(gpu, gpu->compute, dim * 4, "order of the dimensions", &state->dims);
  if (status) return status;
  /* On return the pageable memory has been read. */
  ADJI_CUDA(gpu, cudaMemcpyAsync(state->dims.at, options->dims, dim * 4, cudaMemcpyHostToDevice, gpu->compute));
  return ADJ_OK;
}

/* ---- A queue for the host --------------------------------------------------------------------- */

/* Picks every step-th query of the order; then their counts. One thread per sampled query. */
static __global__ void pick_queries(const uint32_t *order, uint64_t step, uint64_t count, uint32_t *queries) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) queries[i] = order[i * step];
}
static __global__ void pick_counts(const uint32_t *queries, uint64_t count, const uint32_t *ids,
                                   const uint32_t *degrees, uint32_t *counts) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) counts[i] = degrees[ids[queries[i]]];
}

adj_status adji_per_point_queue(adji_gpu *gpu, adji_per_point *state, adji_tiles_job *job,
                                const adji_point_queue *out) {
  adj_status status = ADJ_OK;
  if (!job->left->count) return ADJ_OK;
  adji_block_free(gpu, gpu->compute, &state->order);
  status = find_order(gpu, state, job, out->rows);
  if (status) return status;
  uint32_t blocks = adji_blocks_for(out->samples, THREADS);
  pick_queries<<<blocks, THREADS, 0, gpu->compute>>>(adji_at<uint32_t>(state->order), out->step, out->samples,
                                                     out->queries);
  ADJI_LAUNCHED(gpu, "pick_queries");
  job->queries = out->queries;
  job->query_count = out->samples;
  status = adji_per_point_run(gpu, state, job);
  if (status) return status;
  pick_counts<<<blocks, THREADS, 0, gpu->compute>>>(out->queries, out->samples, job->left->ids, job->degrees,
                                                    out->counts);
  ADJI_LAUNCHED(gpu, "pick_counts");
  return ADJ_OK;
}

/* ---- Lists ------------------------------------------------------------------------------------ */

adj_status adji_per_point_begin_lists(adji_gpu *gpu, adji_per_point *state, uint64_t rows) {
  adji_tiles_job all = {};
  all.end_row = rows;
  return clear_cursors(gpu, state, &all);
}

adj_status adji_per_point_list(adji_gpu *gpu, cudaStream_t stream, const adji_per_point *state,
                               const adji_tiles_job *job) {
  adji_tiles_job mine = *job;
  mine.end_row = mine.left->count; /* a list may have any rows */
  if (!mine.query_count || !mine.right->count) return ADJ_OK;
  adj_status status = mine.type == ADJ_F64 ? launch(gpu, stream, &mine, make_points<double>(state, &mine))
                                           : launch(gpu, stream, &mine, make_points<float>(state, &mine));
  return status || !mine.ids ? status : account_listed(gpu, stream, state, &mine);
}

/* ---- Batches ---------------------------------------------------------------------------------- */

template <class T>
static adj_status launch_batch(adji_gpu *gpu, cudaStream_t stream, const adji_per_point *state,
                               const adji_tiles_job *job, const adji_point_batch *batch) {
  points<T> typed = make_points<T>(state, job);
  typed.batch = *batch;
  if (typed.head) typed.head = batch->answers + ADJI_ANSWER_HEAD;
  return launch(gpu, stream, job, typed);
}

adj_status adji_per_point_batch(adji_gpu *gpu, cudaStream_t stream, const adji_per_point *state,
                                const adji_tiles_job *job, const adji_point_batch *batch) {
  if (!batch->count || !job->right->count) return ADJ_OK;
  adji_tiles_job mine = *job;
  mine.ids = batch->ids;
  return mine.type == ADJ_F64 ? launch_batch<double>(gpu, stream, state, &mine, batch)
                              : launch_batch<float>(gpu, stream, state, &mine, batch);
}

void adji_per_point_clear(adji_gpu *gpu, adji_per_point *state) {
  adji_block *blocks[] = {&state->order, &state->cursors, &state->temporary, &state->dims};
  for (adji_block *block : blocks)
    adji_block_free(gpu, gpu->compute, block);
}
