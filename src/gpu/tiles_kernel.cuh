/* SPDX-License-Identifier: MIT
 *
 * The kernel of the range join.
 *
 * Computes: for each query q, the candidates c in cells within reach of q's whose canonical sum s(q, c) is at most
 * the limit: how many (counting), or their ids in q's row of the result (filling).
 *
 * A warp owns 32 queries that follow each other in the order of the grid, and lane i the i-th of them: its place,
 * its count, its row. Queries of one cell have the same candidates, so the warp goes through them run by run:
 *
 *   1. ranges     lanes look up rows of cells, 32 at a time: each is one range of positions. Non-empty ones go to a
 *                 list in shared memory, with their lengths added up, as if they were one long range.
 *   2. candidates lanes take one candidate each from the long range, all dimensions into registers (or, of many
 *                 dimensions, one after the other), so that short ranges leave no lane idle.
 *   3. compare    each candidate with up to QUERIES queries of the run, whose coordinates are in registers (in
 *                 shared memory in many dimensions). Sums grow, so where no pair of the warp can belong any more
 *                 the rest of the dimensions is left out.
 *   4. keep       counting: a lane counts for itself, added up at the end. Filling: a vote gives each hit its place
 *                 behind those of lower lanes, so a row is written front to back in contiguous pieces and nothing is
 *                 counted in memory.
 *
 * Grid: one warp for 32 queries, WARPS warps a block. No block waits for another. A row never gets more entries than
 * were counted.
 *
 * Limits: instruction issue for dense cells (2-D: 8 instructions a comparison when counting, 14 when filling);
 * latency of the look-ups where a cell has few points.
 */
#ifndef ADJI_TILES_KERNEL_CUH
#define ADJI_TILES_KERNEL_CUH

#include "gpu/tiles.cuh"

namespace {

enum { WARPS = 4, QUERIES = 8, CHECK_EVERY = 8 };
constexpr uint32_t ALL_LANES = 0xffffffffu;

/* What the kernel gets: adji_tiles_job with its types. */
template <class T>
struct tiles {
  const T *left_coords, *right_coords;
  uint64_t left_stride, right_stride;
  const uint32_t *left_ids, *right_ids;
  const void *left_numbers;
  bool wide_numbers;
  adji_gpu_cells cells;
  const int64_t *row_offsets;
  uint32_t row_count, reach;
  uint32_t dim;
  T limit;
  adji_gpu_measure<T> measure;
  bool drop_self; /* counting: the query itself was counted and is taken off */
  const uint32_t *queries;
  uint64_t first_query, query_count;
  uint32_t *degrees;
  unsigned long long *answers;
  const uint64_t *offsets;
  uint64_t base;
  uint32_t *ids;
  T *sums;
};

struct range {
  uint32_t begin, count;
};

/* The ranges of a round, one behind the other: entry i holds the candidates numbered first[i] and on, at positions
 * shift[i] later. */
struct range_list {
  uint32_t first[ADJI_WARP], shift[ADJI_WARP];
  uint32_t count, total;
};

/* The first cell numbered `number` or more. */
__device__ __forceinline__ uint32_t first_cell(const adji_gpu_cells &cells, uint64_t number) {
  uint64_t bucket = number >> cells.shift;
  if (bucket > cells.last) return cells.count;
  uint32_t low = cells.directory[bucket], high = cells.directory[bucket + 1];
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (cells.numbers[middle] < number)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The positions of the cells around the one numbered `middle`, `reach` to either side. */
template <class T>
__device__ __forceinline__ range row_of_cells(const tiles<T> &job, int64_t middle) {
  int64_t low = middle - job.reach, high = middle + job.reach + 1;
  if (high <= 0 || low >= static_cast<int64_t>(job.cells.keys)) return range{0, 0};
  uint64_t from = low < 0 ? 0 : static_cast<uint64_t>(low);
  uint64_t to = high > static_cast<int64_t>(job.cells.keys) ? job.cells.keys : static_cast<uint64_t>(high);
  if (!job.cells.numbers) {
    uint32_t begin = job.cells.directory[from];
    return range{begin, job.cells.directory[to] - begin};
  }
  uint32_t cell = first_cell(job.cells, from), end = cell;
  if (job.reach <= 2)
    while (end < job.cells.count && job.cells.numbers[end] < to)
      end++;
  else
    end = first_cell(job.cells, to);
  uint32_t begin = job.cells.starts[cell];
  return range{begin, job.cells.starts[end] - begin};
}

/* Step 1: the rows of cells numbered `round` * 32 and on around the cell `number`. */
template <class T>
__device__ __forceinline__ void list_ranges(const tiles<T> &job, uint64_t number, uint32_t round, uint32_t lane,
                                            range_list *list) {
  uint32_t row = round * ADJI_WARP + lane;
  range mine = {0, 0};
  if (row < job.row_count) mine = row_of_cells(job, static_cast<int64_t>(number) + job.row_offsets[row]);
  uint32_t some = __ballot_sync(ALL_LANES, mine.count > 0);
  uint32_t sum = mine.count;
#pragma unroll
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t before = __shfl_up_sync(ALL_LANES, sum, step);
    if (lane >= step) sum += before;
  }
  __syncwarp(); /* nobody reads the last list any more */
  if (mine.count) {
    uint32_t at = __popc(some & ((1u << lane) - 1));
    list->first[at] = sum - mine.count;
    list->shift[at] = mine.begin - (sum - mine.count);
  }
  if (lane == ADJI_WARP - 1) {
    list->count = __popc(some);
    list->total = sum;
  }
  __syncwarp();
}

/* A lane's place in the list. */
struct cursor {
  uint32_t end, shift; /* of the range it is in: the first number behind it */
};

__device__ __forceinline__ cursor find_range(const range_list *list, uint32_t number) {
  uint32_t at = 0, count = list->count;
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    if (at + step < count && list->first[at + step] <= number) at += step;
  return cursor{at + 1 < count ? list->first[at + 1] : list->total, list->shift[at]};
}

__device__ __forceinline__ uint64_t number_at(const void *numbers, bool wide, uint64_t position) {
  return wide ? static_cast<const uint64_t *>(numbers)[position] : static_cast<const uint32_t *>(numbers)[position];
}

/* The queries of a comparison: in registers. */
template <class T, int DIM>
struct query_group {
  T x[QUERIES][DIM];
};

/* Sums of a candidate with the queries: DIM dimensions from registers. */
template <int STEP, int DIM, class T>
__device__ __forceinline__ void sums_of(const tiles<T> &job, const T (&query)[QUERIES][DIM], uint32_t position, T (&s)[QUERIES]) {
#pragma unroll
  for (int k = 0; k < QUERIES; k++)
    s[k] = 0;
#pragma unroll
  for (int j = 0; j < DIM; j++) {
    T c = job.right_coords[j * job.right_stride + position];
#pragma unroll
    for (int k = 0; k < QUERIES; k++)
      s[k] = adji_gpu_step<STEP>(s[k], query[k][j], c, job.measure, j);
  }
#pragma unroll
  for (int k = 0; k < QUERIES; k++)
    s[k] = adji_gpu_finish<STEP>(s[k]);
}

/* The same for any number of dimensions. Query k's coordinate j is at query[j * stride + k]. */
template <int STEP, class T>
__device__ __forceinline__ void sums_of_many(const tiles<T> &job, const T *query, uint32_t position, T (&s)[QUERIES]) {
#pragma unroll
  for (int k = 0; k < QUERIES; k++)
    s[k] = 0;
  const T *candidate = job.right_coords + position;
  for (uint32_t j = 0; j < job.dim;) {
    uint32_t end = j + CHECK_EVERY < job.dim ? j + CHECK_EVERY : job.dim;
    for (; j < end; j++) {
      T c = candidate[j * job.right_stride];
#pragma unroll
      for (int k = 0; k < QUERIES; k++)
        s[k] = adji_gpu_step<STEP>(s[k], query[j * QUERIES + k], c, job.measure, j);
    }
    if (STEP == ADJI_STEP_DOT) continue;
    T least = s[0];
#pragma unroll
    for (int k = 1; k < QUERIES; k++)
      least = s[k] < least ? s[k] : least;
    if (!__any_sync(ALL_LANES, least <= job.limit)) break;
  }
#pragma unroll
  for (int k = 0; k < QUERIES; k++)
    s[k] = adji_gpu_finish<STEP>(s[k]);
}

/* Whether a query is its own neighbour: at distance 0 it always is, by its inner product perhaps. */
template <int STEP, class T>
__device__ __forceinline__ bool belongs_to_itself(const tiles<T> &job, uint64_t position) {
  if (STEP != ADJI_STEP_DOT) return true;
  T s = 0;
  for (uint32_t j = 0; j < job.dim; j++) {
    T x = job.left_coords[j * job.left_stride + position];
    s = adji_gpu_step<STEP>(s, x, x, job.measure, j);
  }
  return adji_gpu_finish<STEP>(s) <= job.limit;
}

/* Lane's own query. */
struct own {
  uint64_t position;
  uint32_t row, found, room;
  uint64_t place; /* of its row in ids */
};

/* Steps 2 to 4 for the queries [first, first + many) of the warp and the ranges of a list. */
template <class T, int STEP, int DIM, int KEEP, bool FILL>
__device__ __forceinline__ void compare(const tiles<T> &job, const range_list *list, const T *x, const T *staged, uint32_t first,
                                        uint32_t many, uint32_t lane, own *mine) {
  T query[QUERIES][DIM ? DIM : 1];
  uint32_t found[QUERIES], row[QUERIES], room[QUERIES];
  uint64_t place[QUERIES];
#pragma unroll
  for (int k = 0; k < QUERIES; k++) {
    uint32_t from = (first + k) % ADJI_WARP;
    if (DIM) {
#pragma unroll
      for (int j = 0; j < DIM; j++)
        query[k][j] = __shfl_sync(ALL_LANES, x[j], from);
    }
    found[k] = FILL ? __shfl_sync(ALL_LANES, mine->found, from) : 0;
    row[k] = FILL || KEEP == ADJI_KEEP_ABOVE ? __shfl_sync(ALL_LANES, mine->row, from) : 0;
    room[k] = FILL ? __shfl_sync(ALL_LANES, mine->room, from) : 0;
    place[k] = FILL ? __shfl_sync(ALL_LANES, mine->place, from) : 0;
  }
  cursor at = {0, 0};
  uint32_t total = list->total, below = (1u << lane) - 1;
  for (uint32_t left = total, number = lane; left; left -= left < ADJI_WARP ? left : ADJI_WARP, number += ADJI_WARP) {
    bool valid = lane < left;
    if (valid && number >= at.end) at = find_range(list, number);
    uint32_t position = valid ? number + at.shift : 0;
    uint32_t id = FILL || KEEP == ADJI_KEEP_ABOVE ? job.right_ids[position] : 0;
    T s[QUERIES];
    if (DIM)
      sums_of<STEP, DIM ? DIM : 1>(job, query, position, s);
    else
      sums_of_many<STEP>(job, staged, position, s);
#pragma unroll
    for (int k = 0; k < QUERIES; k++) {
      if (k >= many) break;
      bool belongs = valid && s[k] <= job.limit;
      if (KEEP == ADJI_KEEP_ABOVE) belongs = belongs && id > row[k];
      if (KEEP == ADJI_KEEP_OTHERS && FILL) belongs = belongs && id != row[k];
      if (!FILL) {
        found[k] += belongs;
        continue;
      }
      uint32_t vote = __ballot_sync(ALL_LANES, belongs);
      uint32_t to = found[k] + __popc(vote & below);
      if (belongs && to < room[k]) {
        job.ids[place[k] + to] = id;
        if (job.sums) job.sums[place[k] + to] = s[k];
      }
      found[k] += __popc(vote);
    }
  }
#pragma unroll
  for (int k = 0; k < QUERIES; k++) {
    if (k >= many) break;
    uint32_t sum = FILL ? found[k] : __reduce_add_sync(ALL_LANES, found[k]);
    if (lane == first + k) mine->found = FILL ? sum : mine->found + sum;
  }
}

/* Many dimensions: the coordinates of QUERIES queries, dimension by dimension, to where all lanes read them. */
template <class T>
__device__ __forceinline__ void stage(const tiles<T> &job, T *staged, uint64_t position, uint32_t first, uint32_t lane) {
  uint32_t k = lane % QUERIES;
  uint64_t from = __shfl_sync(ALL_LANES, position, (first + k) % ADJI_WARP);
  __syncwarp();
  for (uint32_t j = lane / QUERIES; j < job.dim; j += ADJI_WARP / QUERIES)
    staged[j * QUERIES + k] = job.left_coords[j * job.left_stride + from];
  __syncwarp();
}

/* The queries [begin, end) of a warp, which are in one cell. Returns how many comparisons it took. */
template <class T, int STEP, int DIM, int KEEP, bool FILL>
__device__ __forceinline__ uint64_t join_run(const tiles<T> &job, range_list *list, const T *x, T *staged, uint64_t number,
                                             uint32_t begin, uint32_t end, uint32_t lane, own *mine) {
  uint64_t candidates = 0;
  for (uint32_t round = 0; round * ADJI_WARP < job.row_count; round++) {
    list_ranges(job, number, round, lane, list);
    if (!list->total) continue;
    candidates += list->total;
    for (uint32_t first = begin; first < end; first += QUERIES) {
      uint32_t many = end - first < QUERIES ? end - first : QUERIES;
      if (!DIM) stage(job, staged, mine->position, first, lane);
      compare<T, STEP, DIM, KEEP, FILL>(job, list, x, staged, first, many, lane, mine);
    }
  }
  return candidates * (end - begin);
}

/* Puts what was counted where it belongs, and adds up the totals. */
template <class T, int STEP, bool FILL>
__device__ __forceinline__ void settle(const tiles<T> &job, bool active, uint32_t lane, own *mine, uint64_t candidates) {
  if (FILL) {
    uint32_t broken = __ballot_sync(ALL_LANES, active && mine->found != mine->room);
    if (lane == 0 && broken) atomicAdd(job.answers + ADJI_ANSWER_BROKEN, static_cast<unsigned long long>(__popc(broken)));
  } else {
    if (active && job.drop_self && belongs_to_itself<STEP>(job, mine->position)) mine->found--;
    if (active && job.degrees) job.degrees[mine->row] = mine->found;
    unsigned long long pairs = active ? mine->found : 0;
#pragma unroll
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
      pairs += __shfl_xor_sync(ALL_LANES, pairs, step);
    if (lane == 0) atomicAdd(job.answers + ADJI_ANSWER_PAIRS, pairs);
  }
  if (lane == 0) atomicAdd(job.answers + ADJI_ANSWER_CANDIDATES, static_cast<unsigned long long>(candidates));
}

template <class T, int STEP, int DIM, int KEEP, bool FILL>
__global__ void __launch_bounds__(WARPS *ADJI_WARP) join_tiles(const tiles<T> job) {
  __shared__ range_list lists[WARPS];
  extern __shared__ __align__(16) unsigned char staging[];
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  uint64_t query = (static_cast<uint64_t>(blockIdx.x) * WARPS + warp) * ADJI_WARP + lane;
  bool active = query < job.query_count;
  if (!__any_sync(ALL_LANES, active)) return;
  own mine = {};
  uint64_t number = 0;
  T x[DIM ? DIM : 1];
  if (active) {
    mine.position = job.queries ? job.queries[query] : job.first_query + query;
    mine.row = job.left_ids[mine.position];
    number = number_at(job.left_numbers, job.wide_numbers, mine.position);
    if (FILL) {
      mine.place = job.offsets[mine.row] - job.base;
      mine.room = static_cast<uint32_t>(job.offsets[mine.row + UINT64_C(1)] - job.offsets[mine.row]);
    }
  }
#pragma unroll
  for (int j = 0; j < DIM; j++)
    x[j] = active ? job.left_coords[j * job.left_stride + mine.position] : 0;
  uint64_t before = __shfl_up_sync(ALL_LANES, number, 1);
  uint32_t heads = __ballot_sync(ALL_LANES, active && (lane == 0 || number != before));
  uint32_t actives = __popc(__ballot_sync(ALL_LANES, active));
  T *staged = reinterpret_cast<T *>(staging) + static_cast<uint64_t>(warp) * QUERIES * job.dim;
  uint64_t candidates = 0;
  while (heads) {
    uint32_t begin = __ffs(heads) - 1;
    heads &= heads - 1;
    uint32_t end = heads ? __ffs(heads) - 1 : actives;
    candidates += join_run<T, STEP, DIM, KEEP, FILL>(job, &lists[warp], x, staged,
                                                     __shfl_sync(ALL_LANES, number, begin), begin, end, lane, &mine);
  }
  settle<T, STEP, FILL>(job, active, lane, &mine, candidates);
}

/* ---- Launching ----------------------------------------------------------------------------------------------- */

/* Bytes of shared memory for coordinates of queries that a block may have on every device. */
enum { MOST_STAGED = 96 << 10 };

template <class T, int STEP, int DIM, int KEEP, bool FILL>
adj_status launch(adji_gpu *gpu, cudaStream_t stream, const tiles<T> &job) {
  auto kernel = join_tiles<T, STEP, DIM, KEEP, FILL>;
  uint64_t shared = DIM ? 0 : static_cast<uint64_t>(WARPS) * QUERIES * job.dim * sizeof(T);
  if (shared > MOST_STAGED)
    return adji_fail(ADJ_E_UNSUPPORTED, "device %d: range joins of more than %d dimensions do not run on a GPU", gpu->device,
                     static_cast<int>(MOST_STAGED / (WARPS * QUERIES * sizeof(T))));
  if (shared > 48 << 10)
    ADJI_CUDA(gpu, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  uint64_t blocks = (job.query_count + WARPS * ADJI_WARP - 1) / (WARPS * ADJI_WARP);
  kernel<<<static_cast<uint32_t>(blocks), WARPS * ADJI_WARP, shared, stream>>>(job);
  ADJI_LAUNCHED(gpu, "join_tiles");
  return ADJ_OK;
}

template <class T, int STEP, int DIM>
adj_status launch_as(adji_gpu *gpu, cudaStream_t stream, const tiles<T> &job, adji_gpu_keep keep) {
  if (job.ids) {
    if (keep == ADJI_KEEP_ABOVE) return launch<T, STEP, DIM, ADJI_KEEP_ABOVE, true>(gpu, stream, job);
    if (keep == ADJI_KEEP_OTHERS) return launch<T, STEP, DIM, ADJI_KEEP_OTHERS, true>(gpu, stream, job);
    return launch<T, STEP, DIM, ADJI_KEEP_ALL, true>(gpu, stream, job);
  }
  if (keep == ADJI_KEEP_ABOVE) return launch<T, STEP, DIM, ADJI_KEEP_ABOVE, false>(gpu, stream, job);
  return launch<T, STEP, DIM, ADJI_KEEP_ALL, false>(gpu, stream, job);
}

template <class T>
tiles<T> with_types(adji_gpu *gpu, const adji_tiles_job *job) {
  tiles<T> typed = {};
  typed.left_coords = static_cast<const T *>(job->left->coords);
  typed.right_coords = static_cast<const T *>(job->right->coords);
  typed.left_stride = job->left->stride;
  typed.right_stride = job->right->stride;
  typed.left_ids = job->left->ids;
  typed.right_ids = job->right->ids;
  typed.left_numbers = job->left->numbers;
  typed.wide_numbers = job->left->wide_numbers;
  typed.cells = job->right->cells;
  typed.row_offsets = job->grid->offsets;
  typed.row_count = job->grid->row_count;
  typed.reach = job->grid->reach;
  typed.dim = job->dim;
  typed.limit = static_cast<T>(job->limit);
  typed.measure.power = job->measure->power;
  typed.measure.box = static_cast<const T *>(job->box);
  typed.drop_self = job->keep == ADJI_KEEP_OTHERS;
  typed.queries = job->queries;
  typed.first_query = job->first_query;
  typed.query_count = job->query_count;
  typed.degrees = job->degrees;
  typed.answers = adji_answer_at(gpu, 0);
  typed.offsets = job->offsets;
  typed.base = job->base;
  typed.ids = job->ids;
  typed.sums = static_cast<T *>(job->sums);
  return typed;
}

} // namespace

#endif
