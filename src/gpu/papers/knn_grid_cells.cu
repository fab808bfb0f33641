/* SPDX-License-Identifier: MIT
 *
 * The kernel of kNN joins through a grid, after the kernel of HybridKNN-Join (Gowanlock, Algorithm 1 and section 4.7),
 * except that it keeps the k nearest instead of every pair within epsilon.
 *
 * Computes: for a query q the k candidates c with the smallest (s(q, c), id) among those with s <= limit, in that
 * order, if there are enough. They are then the k nearest of all: every point with s <= limit is in a cell around that
 * of q (see index/grid.h), so points that are not visited come after them. Otherwise q fails and is reported.
 *
 * A group of 1, 2, .. or 32 lanes owns a query. A warp holds as many groups as fit, and its lanes stay converged. A
 * query's list is in shared memory, unordered. Entry i belongs to lane i mod n of the n lanes of the group. Each lane
 * knows the last of its own entries in the order of (s, id), and the group knows the last of all.
 *
 *   1. cell    find the cell of the query
 *   2. look up each lane finds one row of cells around it; their candidates are numbered consecutively, in shared
 *              memory
 *   3. compare the lanes of the group take the candidates in turn
 *   4. keep    candidates that come before the last entry of the list, one by one: each takes the next free entry, or
 *              replaces the last one
 *   5. rank    for each entry, the entries before it are counted, which gives its place in the row
 *
 * Memory: points and cells in device memory; in shared memory a list of k entries per query and 8 bytes per thread.
 *
 * Grid: a block has as many threads as its lists allow (knn_grid.h). Synchronisation is within the warp; no block waits
 * for another.
 *
 * Limits: the latency of scattered reads, and groups that wait for the group of their warp with the most candidates.
 */
#include "gpu/papers/knn_grid.cuh"

#include "gpu/knn/knn_search.cuh"
#include "gpu/range/tiles_cells.cuh"

namespace {

/* adji_knn_grid_job with types. */
template <class T>
struct grid_job {
  knn_job<T> common; /* its right points are those of the index, its limit is that of epsilon */
  cell_index cells;
  adji_axis axes[ADJI_TREE_DIMS]; /* by dimension; 0 slabs where there is no axis */
  uint32_t enough, thread_bits;
  uint32_t *failed;
  unsigned long long *failed_count;
};

/* The lanes that share a query: log2 of their number, their number, this lane's number among them and in the warp. */
struct lane_group {
  uint32_t bits, threads, member, lane;
};

/* ---- The list -------------------------------------------------------------------------------- */

/* A query's list. The same in all lanes of a group, except for the lane's own last entry. */
template <class T>
struct grid_list {
  T *sums;
  uint32_t *ids;
  uint32_t count, k;
  T last; /* the last of all entries once there are k; before that the limit */
  uint32_t last_id;
  T own; /* the last of this lane's entries; own_at: where it is */
  uint32_t own_id, own_at;
};

template <class T>
__device__ __forceinline__ grid_list<T> open_list(unsigned char *memory, uint32_t k, T limit, const lane_group &t) {
  uint32_t stride = ADJI_GRID_STRIDE(k), lists = blockDim.x >> t.bits, mine = threadIdx.x >> t.bits;
  T *sums = reinterpret_cast<T *>(memory);
  uint32_t *ids = reinterpret_cast<uint32_t *>(sums + lists * stride);
  return grid_list<T>{sums + mine * stride, ids + mine * stride, 0, k, limit, ADJ_NO_ID, T(-1), 0, 0};
}

template <class T>
__device__ __forceinline__ void find_own_last(grid_list<T> *list, const lane_group &t) {
  list->own = T(-1); /* before everything, for lanes without an entry */
  list->own_id = list->own_at = 0;
  for (uint32_t i = t.member; i < list->k; i += t.threads) {
    if (comes_before(list->sums[i], list->ids[i], list->own, list->own_id)) continue;
    list->own = list->sums[i];
    list->own_id = list->ids[i];
    list->own_at = i;
  }
}

/* Step 4: one candidate per group, the same in all its lanes. The warp must be converged. */
template <class T>
__device__ __forceinline__ void keep(grid_list<T> *list, bool there, T s, uint32_t id, const lane_group &t) {
  bool takes = there && comes_before(s, id, list->last, list->last_id), stale = false;
  if (takes && list->count < list->k) {
    if ((list->count & (t.threads - 1)) == t.member) {
      list->sums[list->count] = s;
      list->ids[list->count] = id;
    }
    stale = ++list->count == list->k;
  } else if (takes && list->own == list->last && list->own_id == list->last_id) {
    list->sums[list->own_at] = s;
    list->ids[list->own_at] = id;
    stale = true;
  }
  if (stale) find_own_last(list, t);
  bool full = list->count == list->k;
  if (!__any_sync(KNN_LANES, takes && full)) return;
  T last = list->own;
  uint32_t last_id = list->own_id;
  for (uint32_t step = 1; step < t.threads; step *= 2) {
    T other = __shfl_xor_sync(KNN_LANES, last, step);
    uint32_t other_id = __shfl_xor_sync(KNN_LANES, last_id, step);
    if (!comes_before(last, last_id, other, other_id)) continue;
    last = other;
    last_id = other_id;
  }
  if (!full) return;
  list->last = last;
  list->last_id = last_id;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

/* Rows of cells whose candidates are numbered consecutively: the end of a thread's row, and what to add to a number to
 * get its position. */
struct grid_rows {
  uint32_t ends[ADJI_GRID_BLOCK], shifts[ADJI_GRID_BLOCK];
};

/* A query: the same in all lanes of a group. */
template <class W>
struct grid_query {
  typename W::T x[W::ROOM];
  uint32_t position, row;
  bool active;
  int64_t cell_row;
  uint64_t cell;
};

template <class W, class T>
__device__ __forceinline__ grid_query<W> open_grid_query(const grid_job<T> &job, uint64_t number) {
  grid_query<W> mine = {};
  mine.active = number < job.common.query_count;
  if (!mine.active) return mine;
  mine.position = job.common.queries ? job.common.queries[number] : static_cast<uint32_t>(number);
  mine.row = load_record<W>(job.common, job.common.left_coords, job.common.left_ids, mine.position, mine.x);
  uint64_t cell = 0;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++)
    if (job.axes[j].slabs) cell += job.axes[j].stride * adji_gpu_slab(job.axes[j], static_cast<double>(mine.x[j]));
  uint64_t row = cell / job.cells.row_stride;
  mine.cell_row = static_cast<int64_t>(row);
  mine.cell = cell - row * job.cells.row_stride;
  return mine;
}

/* Step 2: finds rows first .. first + lanes - 1 around the query's cell. Returns how many candidates they have. */
template <class W, class T>
__device__ __forceinline__ uint32_t look_up(const grid_job<T> &job, const grid_query<W> &mine, uint32_t first,
                                            grid_rows *rows, const lane_group &t) {
  range r = {0, 0};
  uint32_t number = first + t.member;
  if (mine.active && number < job.cells.row_count)
    r = row_of_cells(job.cells, mine.cell_row, number, mine.cell, mine.cell);
  uint32_t end = r.count;
  for (uint32_t step = 1; step < t.threads; step *= 2) {
    uint32_t before = __shfl_up_sync(KNN_LANES, end, step, t.threads);
    if (t.member >= step) end += before;
  }
  __syncwarp(); /* the previous rows are finished */
  rows->ends[threadIdx.x] = end;
  rows->shifts[threadIdx.x] = r.begin - (end - r.count);
  __syncwarp();
  return __shfl_sync(KNN_LANES, end, t.threads - 1, t.threads);
}

/* Steps 3 and 4. Returns how many candidates this lane compared. */
template <class W, class T>
__device__ __forceinline__ uint32_t compare_rows(const grid_job<T> &job, const grid_query<W> &mine,
                                                 const grid_rows *rows, uint32_t total, grid_list<T> *list,
                                                 const lane_group &t) {
  uint32_t at = threadIdx.x - t.member, compared = 0;
  uint32_t turns = __reduce_max_sync(KNN_LANES, (total >> t.bits) + ((total & (t.threads - 1)) != 0));
  for (uint32_t turn = 0; turn < turns; turn++) {
    uint32_t number = (turn << t.bits) + t.member, id = ADJ_NO_ID;
    T s = 0;
    bool near = false;
    if (number < total) {
      T c[W::ROOM];
      while (number >= rows->ends[at])
        at++;
      id = load_record<W>(job.common, job.common.right_coords, job.common.right_ids, number + rows->shifts[at], c);
      s = sum_of<W>(job.common, mine.x, c);
      near = comes_before(s, id, list->last, list->last_id) && !(job.common.drop_self && id == mine.row);
      compared++;
    }
    for (uint32_t pending; (pending = __ballot_sync(KNN_LANES, near)) != 0;) {
      uint32_t group = pending >> (t.lane - t.member);
      if (t.threads < ADJI_WARP) group &= (1u << t.threads) - 1;
      uint32_t next = group ? __ffs(group) - 1 : 0;
      T next_s = __shfl_sync(KNN_LANES, s, next, t.threads);
      uint32_t next_id = __shfl_sync(KNN_LANES, id, next, t.threads);
      keep(list, group != 0, next_s, next_id, t);
      if (group && t.member == next) near = false;
    }
  }
  return compared;
}

/* ---- The kernel ------------------------------------------------------------------------------ */

/* Step 5. */
template <class W, class T>
__device__ __forceinline__ void write_list(const grid_job<T> &job, const grid_query<W> &mine, const grid_list<T> &list,
                                           const lane_group &t) {
  uint64_t to = entries_of(job.common, mine.row);
  for (uint32_t i = t.member; i < list.count; i += t.threads) {
    T s = list.sums[i];
    uint32_t id = list.ids[i], rank = 0;
    for (uint32_t other = 0; other < list.count; other++)
      rank += comes_before(list.sums[other], list.ids[other], s, id);
    job.common.ids[to + rank] = id;
    job.common.sums[to + rank] = job.common.root ? adji_root(s) : s;
  }
  for (uint32_t i = list.count + t.member; i < list.k; i += t.threads) {
    job.common.ids[to + i] = ADJ_NO_ID;
    job.common.sums[to + i] = static_cast<T>(INFINITY);
  }
}

/* Appends failed queries to those of other warps. */
template <class T>
__device__ __forceinline__ void report_failed(const grid_job<T> &job, bool fails, uint32_t position, uint32_t lane) {
  uint32_t all = __ballot_sync(KNN_LANES, fails);
  if (!all) return;
  unsigned long long to = 0;
  if (lane == 0) to = atomicAdd(job.failed_count, static_cast<unsigned long long>(__popc(all)));
  to = __shfl_sync(KNN_LANES, to, 0) + __popc(all & ((1u << lane) - 1));
  if (fails) job.failed[to] = position;
}

template <class W>
__global__ void __launch_bounds__(ADJI_GRID_BLOCK) find_in_cells(const grid_job<typename W::T> job) {
  typedef typename W::T T;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ grid_rows rows;
  lane_group t = {job.thread_bits, 1u << job.thread_bits, 0, threadIdx.x % ADJI_WARP};
  t.member = t.lane & (t.threads - 1);
  uint64_t number = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) >> t.bits, compared = 0;
  grid_query<W> mine = open_grid_query<W>(job, number);
  grid_list<T> list = open_list<T>(memory, job.common.k, job.common.limit, t);
  for (uint32_t first = 0; first < job.cells.row_count; first += t.threads) {
    uint32_t total = look_up(job, mine, first, &rows, t);
    compared += compare_rows(job, mine, &rows, total, &list, t);
  }
  __syncwarp();
  bool fails = mine.active && list.count < job.enough;
  if (mine.active && !fails) write_list(job, mine, list, t);
  report_failed(job, fails && t.member == 0, mine.position, t.lane);
  adji_answer_add(job.common.candidates, compared, t.lane);
}

/* ---- Launching ------------------------------------------------------------------------------- */

template <class T>
grid_job<T> with_cells(const adji_knn_grid_job *job) {
  const adji_gpu_grid *grid = job->cells;
  const adji_gpu_index *index = job->index;
  grid_job<T> typed = {};
  typed.common = with_types<T>(job->common);
  typed.common.right_coords = static_cast<const T *>(index->coords);
  typed.common.right_ids = index->ids;
  typed.common.limit = static_cast<T>(job->limit);
  typed.cells = index_of_cells(grid, index, true); /* no point is a candidate twice */
  for (uint32_t a = 0; a < grid->axis_count; a++)
    typed.axes[grid->axes[a].dim] = grid->axes[a];
  typed.enough = job->enough;
  for (uint32_t threads = job->shape.threads; threads > 1; threads /= 2)
    typed.thread_bits++;
  typed.failed = job->failed;
  typed.failed_count = job->failed_count;
  return typed;
}

template <class T, int STEP, int DIM>
adj_status launch_in_cells(adji_gpu *gpu, cudaStream_t stream, const adji_knn_grid_job *job) {
  typedef knn_instance<T, STEP, DIM> W;
  uint32_t blocks = adji_blocks_for(job->common->query_count, job->shape.block / job->shape.threads);
  find_in_cells<W><<<blocks, job->shape.block, job->shape.bytes, stream>>>(with_cells<T>(job));
  ADJI_LAUNCHED(gpu, "find_in_cells");
  return ADJ_OK;
}

template <class T>
adj_status in_cells_any(adji_gpu *gpu, cudaStream_t stream, const adji_knn_grid_job *job) {
  switch (job->common->measure->step) {
    case ADJI_STEP_L1:
      return launch_in_cells<T, ADJI_STEP_L1, 0>(gpu, stream, job);
    case ADJI_STEP_LINF:
      return launch_in_cells<T, ADJI_STEP_LINF, 0>(gpu, stream, job);
    default:
      return launch_in_cells<T, ADJI_STEP_L2, 0>(gpu, stream, job);
  }
}

}  // namespace

/* L2 in f32 has instances for the papers' dimensions. */
adj_status adji_knn_grid_run(adji_gpu *gpu, cudaStream_t stream, const adji_knn_grid_job *job) {
  const adji_knn_job *common = job->common;
  if (!common->query_count) return ADJ_OK;
  if (common->type == ADJ_F64) return in_cells_any<double>(gpu, stream, job);
  if (common->measure->step == ADJI_STEP_L2) {
    if (common->dim == 2) return launch_in_cells<float, ADJI_STEP_L2, 2>(gpu, stream, job);
    if (common->dim == 3) return launch_in_cells<float, ADJI_STEP_L2, 3>(gpu, stream, job);
    if (common->dim == 4) return launch_in_cells<float, ADJI_STEP_L2, 4>(gpu, stream, job);
    if (common->dim == 6) return launch_in_cells<float, ADJI_STEP_L2, 6>(gpu, stream, job);
  }
  return in_cells_any<float>(gpu, stream, job);
}
