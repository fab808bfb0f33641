/* SPDX-License-Identifier: MIT
 *
 * The range join's kernel for trees: a warp per query.
 *
 * Computes: for a query q the candidates c whose canonical sum s(q, c) is at most the query's limit: their number
 * (counting), their ids in q's row (filling), or both with row chunks (adji_tiles_task).
 *
 * Input: a tree and queries in device memory. Output: counts, ids and sums, in device memory.
 *
 *   1. descend  each lane tests one box of a group of 32. Boxes within the limit are visited one after the other; those
 *               of a level that are still to be visited are in the registers of one lane
 *   2. leaves   up to eight leaves at a time, two candidates per lane, so that two loads are in flight
 *   3. write    ids wait in shared memory until there are 32, which are written at once
 *
 * A box is skipped only if the least sum to it is above the limit: see knn_search.cuh. The limit is fixed, so the order
 * of the visits does not matter.
 *
 * Grid: warps take queries round-robin. Warps synchronise with __syncwarp only; no block waits for another.
 *
 * Limits: with few queries the latency of loads, of which about 20 depend on each other; otherwise instructions.
 */
#include "gpu/range/range_tree.cuh"

#include "gpu/knn/knn_search.cuh"

namespace {

enum { TREE_WARPS = 4, AT_ONCE = 2, LEAVES_AT_ONCE = ADJI_WARP / ADJI_TREE_LEAF };
/* Room for waiting entries: fewer than a line of them, and those that one step adds. */
enum { QUEUE_ROOM = ADJI_WARP + AT_ONCE * ADJI_WARP };

template <class T>
struct tree_task : adji_tiles_task {
  knn_job<T> tree; /* only its points, its tree and its limits are used */
  T *sums;
};

template <class T>
struct entry_queue {
  uint32_t ids[QUEUE_ROOM];
  T sums[QUEUE_ROOM];
};

/* A query and its limit, the same in all lanes. */
template <class W>
struct query_ball {
  typename W::T x[W::ROOM], limit;
  uint32_t row, position;
  uint32_t found, written, pending;
  uint64_t place; /* where its row begins, when filling */
  uint32_t room;
};

/* Totals of a warp. */
struct warp_totals {
  unsigned long long pairs, candidates;
  uint32_t longest, broken;
};

/* ---- Entries ------------------------------------------------------------------------------------ */

/* Where the next 32 entries go: after those written to the row, or to a chunk. UINT64_MAX: there is no room. */
template <class W, class T>
__device__ __forceinline__ uint64_t place_of(const tree_task<T> &job, const query_ball<W> &q, bool last,
                                             uint32_t lane) {
  if (!job.row_chunks) return q.place + q.written;
  uint64_t chunk = last ? q.position : job.own_chunks + request_items(job, 1, lane);
  if (chunk >= job.chunk_room) return UINT64_MAX;
  if (lane == 0) job.row_chunks[chunk] = adji_row_chunk{q.row, q.written};
  return chunk * ADJI_WARP;
}

/* Writes up to 32 of the waiting entries, and moves the others to the front. */
template <class W, class T>
__device__ __forceinline__ void write_some(const tree_task<T> &job, entry_queue<T> *at, query_ball<W> *q, bool last,
                                           uint32_t lane) {
  uint32_t many = q->pending < ADJI_WARP ? q->pending : ADJI_WARP;
  uint64_t place = place_of(job, *q, last, lane);
  __syncwarp();
  bool fits = place != UINT64_MAX && lane < many && (job.row_chunks || q->written + lane < q->room);
  if (fits) job.ids[place + lane] = at->ids[lane];
  if (fits && job.sums) job.sums[place + lane] = at->sums[lane];
  q->written += many;
  q->pending -= many;
#pragma unroll
  for (uint32_t i = 0; i < AT_ONCE * ADJI_WARP; i += ADJI_WARP) {
    bool stays = i + lane < q->pending;
    uint32_t id = stays ? at->ids[ADJI_WARP + i + lane] : 0;
    T sum = stays ? at->sums[ADJI_WARP + i + lane] : T(0);
    __syncwarp();
    if (stays) at->ids[i + lane] = id;
    if (stays) at->sums[i + lane] = sum;
    __syncwarp();
  }
}

template <class T>
__device__ __forceinline__ bool stays(const tree_task<T> &job, uint32_t id, uint32_t row) {
  return job.keep == ADJI_KEEP_ALL || (job.keep == ADJI_KEEP_ABOVE ? id > row : id != row);
}

/* Step 3 for one candidate per lane. */
template <class W, bool KEEPS, class T>
__device__ __forceinline__ void add_entry(const tree_task<T> &job, entry_queue<T> *at, query_ball<W> *q, bool belongs,
                                          uint32_t id, T sum, uint32_t lane) {
  uint32_t lanes = __ballot_sync(KNN_LANES, belongs);
  q->found += __popc(lanes);
  if (!KEEPS) return;
  if (belongs) {
    uint32_t to = q->pending + __popc(lanes & ((1u << lane) - 1));
    at->ids[to] = id;
    at->sums[to] = sum;
  }
  q->pending += __popc(lanes);
}

/* ---- The walk ----------------------------------------------------------------------------------- */

/* The boxes of a group of 32 that may have candidates within the limit. */
template <class W, class T>
__device__ __forceinline__ uint32_t near_boxes(const knn_job<T> &tree, const query_ball<W> &q, uint32_t level,
                                               uint32_t base, uint32_t lane) {
  uint32_t i = base + lane;
  bool near = i < tree.levels[level].count;
  if (near) near = near_sum<W>(tree, load_box<W>(tree, tree.levels[level], i), q.x, q.x) <= q.limit;
  return __ballot_sync(KNN_LANES, near);
}

/* Step 2 for the next leaves of a group. Returns the mask of those that remain. */
template <class W, bool KEEPS, class T>
__device__ __forceinline__ uint32_t compare_leaves(const tree_task<T> &job, entry_queue<T> *at, query_ball<W> *q,
                                                   uint32_t base, uint32_t mask, uint32_t lane) {
  const knn_job<T> &tree = job.tree;
  T x[AT_ONCE][W::ROOM];
  uint32_t ids[AT_ONCE];
  bool there[AT_ONCE];
#pragma unroll
  for (int u = 0; u < AT_ONCE; u++) {
    uint32_t leaf = UINT32_MAX;
#pragma unroll
    for (uint32_t i = 0; i < LEAVES_AT_ONCE; i++) {
      if (lane / ADJI_TREE_LEAF == i && mask) leaf = base + __ffs(mask) - 1;
      mask &= mask - 1; /* 0 stays 0 */
    }
    uint64_t position = static_cast<uint64_t>(leaf) * ADJI_TREE_LEAF + lane % ADJI_TREE_LEAF;
    there[u] = leaf != UINT32_MAX && position < tree.right_count;
    if (there[u]) ids[u] = load_record<W>(tree, tree.right_coords, tree.right_ids, position, x[u]);
  }
#pragma unroll
  for (int u = 0; u < AT_ONCE; u++) {
    T sum = 0;
    bool belongs = false;
    if (there[u]) {
      sum = sum_of<W>(tree, q->x, x[u]);
      belongs = sum <= q->limit && stays(job, ids[u], q->row);
    }
    add_entry<W, KEEPS>(job, at, q, belongs, there[u] ? ids[u] : 0, sum, lane);
  }
  if (KEEPS) {
    __syncwarp();
    while (q->pending >= ADJI_WARP)
      write_some(job, at, q, false, lane);
  }
  return mask;
}

/* Steps 1 to 3. Returns the number of candidates. */
template <class W, bool KEEPS, class T>
__device__ __forceinline__ uint32_t walk(const tree_task<T> &job, entry_queue<T> *at, query_ball<W> *q, uint32_t lane) {
  const knn_job<T> &tree = job.tree;
  uint32_t level = tree.level_count - 1, base = 0, mask = near_boxes(tree, *q, level, base, lane);
  uint32_t kept_mask = 0, kept_base = 0, leaves = 0; /* lane l has the boxes still to visit of level l */
  for (;;) {
    while (!mask) {
      if (++level >= tree.level_count) return leaves * ADJI_TREE_LEAF;
      mask = __shfl_sync(KNN_LANES, kept_mask, level);
      base = __shfl_sync(KNN_LANES, kept_base, level);
    }
    if (!level) {
      uint32_t remain = compare_leaves<W, KEEPS>(job, at, q, base, mask, lane);
      leaves += __popc(mask ^ remain);
      mask = remain;
      continue;
    }
    uint32_t box = base + __ffs(mask) - 1;
    if (lane == level) {
      kept_mask = mask & (mask - 1);
      kept_base = base;
    }
    level--;
    base = box * ADJI_GPU_FAN;
    mask = near_boxes(tree, *q, level, base, lane);
  }
}

/* ---- The kernel --------------------------------------------------------------------------------- */

template <class W, bool KEEPS, class T>
__device__ __forceinline__ query_ball<W> open_query(const tree_task<T> &job, uint64_t query) {
  query_ball<W> q = {};
  q.position = job.queries ? job.queries[query] : static_cast<uint32_t>(job.first_query + query);
  q.row = load_record<W>(job.tree, job.tree.left_coords, job.tree.left_ids, q.position, q.x);
  q.limit = bound_of(job.tree, q.row);
  if (!KEEPS || job.row_chunks) return q;
  const uint64_t *bounds = bounds_of(job, q.row);
  q.place = bounds[0] - job.base;
  q.room = static_cast<uint32_t>(bounds[1] - bounds[0]);
  return q;
}

/* Adds a warp's totals to the answers: for fills only the broken rows, for counts all others. */
__device__ __forceinline__ void add_totals(const adji_tiles_task &job, const warp_totals &totals, bool counts) {
  unsigned long long *to = job.spread_answers + blockIdx.x % ADJI_SPREAD;
  if (!counts) {
    if (totals.broken) atomicAdd(to + 2 * ADJI_SPREAD, static_cast<unsigned long long>(totals.broken));
    return;
  }
  if (totals.pairs) atomicAdd(to, totals.pairs);
  if (totals.candidates) atomicAdd(to + ADJI_SPREAD, totals.candidates);
  if (totals.longest) atomicMax(to + 3 * ADJI_SPREAD, static_cast<unsigned long long>(totals.longest));
  if (totals.candidates) atomicAdd(to + 4 * ADJI_SPREAD, totals.candidates);
}

template <class W, bool KEEPS>
__global__ void __launch_bounds__(TREE_WARPS *ADJI_WARP) find_within(const tree_task<typename W::T> job) {
  typedef typename W::T T;
  __shared__ entry_queue<T> memory[KEEPS ? TREE_WARPS : 1];
  uint32_t lane = threadIdx.x % ADJI_WARP, number = threadIdx.x / ADJI_WARP;
  entry_queue<T> *at = &memory[KEEPS ? number : 0];
  bool counts = !KEEPS || job.row_chunks;
  warp_totals totals = {};
  for (uint64_t query = static_cast<uint64_t>(blockIdx.x) * TREE_WARPS + number; query < job.query_count;
       query += static_cast<uint64_t>(gridDim.x) * TREE_WARPS) {
    query_ball<W> q = open_query<W, KEEPS>(job, query);
    totals.candidates += walk<W, KEEPS>(job, at, &q, lane);
    if (KEEPS && q.pending) write_some(job, at, &q, true, lane);
    totals.pairs += q.found;
    totals.longest = q.found > totals.longest ? q.found : totals.longest;
    totals.broken += !counts && q.found != q.room;
    if (counts && job.degrees && lane == 0) job.degrees[q.row] = q.found;
  }
  if (lane == 0) add_totals(job, totals, counts);
}

template <class W>
adj_status launch(adji_gpu *gpu, cudaStream_t stream, const tree_task<typename W::T> &task, uint32_t most_blocks) {
  uint32_t blocks = adji_blocks_for(task.query_count, TREE_WARPS);
  uint32_t most = static_cast<uint32_t>(gpu->multiprocessors) * 16;
  if (most_blocks && most_blocks < most) most = most_blocks;
  if (blocks > most) blocks = most;
  auto kernel = task.ids ? find_within<W, true> : find_within<W, false>;
  kernel<<<blocks, TREE_WARPS * ADJI_WARP, 0, stream>>>(task);
  ADJI_LAUNCHED(gpu, "find_within");
  return ADJ_OK;
}

template <class T>
tree_task<T> task_of(const adji_tiles_job *job, const adji_range_tree_job *tree) {
  tree_task<T> task = {*job};
  knn_job<T> *t = &task.tree;
  t->dim = job->dim;
  t->left_coords = static_cast<const T *>(job->left->coords);
  t->right_coords = static_cast<const T *>(tree->tree->points.coords);
  t->left_ids = job->left->ids;
  t->right_ids = tree->tree->points.ids;
  t->right_count = tree->tree->points.count;
  for (uint32_t l = 0; l < tree->tree->level_count; l++)
    t->levels[l] = tree->tree->levels[l];
  t->level_count = tree->tree->level_count;
  t->limit = static_cast<T>(job->limit);
  t->bounds = static_cast<const T *>(tree->limits);
  t->measure.power = job->measure->power;
  task.sums = static_cast<T *>(job->sums);
  return task;
}

/* Instances: L2 in f32 in two and three dimensions, and one for each metric and type. */
template <class T>
adj_status run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job, const adji_range_tree_job *tree) {
  tree_task<T> task = task_of<T>(job, tree);
  if (job->measure->step == ADJI_STEP_L1)
    return launch<knn_instance<T, ADJI_STEP_L1, 0>>(gpu, stream, task, tree->most_blocks);
  if (job->measure->step == ADJI_STEP_LINF)
    return launch<knn_instance<T, ADJI_STEP_LINF, 0>>(gpu, stream, task, tree->most_blocks);
  if constexpr (sizeof(T) == 4) {
    if (job->dim == 2) return launch<knn_instance<T, ADJI_STEP_L2, 2>>(gpu, stream, task, tree->most_blocks);
    if (job->dim == 3) return launch<knn_instance<T, ADJI_STEP_L2, 3>>(gpu, stream, task, tree->most_blocks);
  }
  return launch<knn_instance<T, ADJI_STEP_L2, 0>>(gpu, stream, task, tree->most_blocks);
}

}  // namespace

adj_status adji_range_tree_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job,
                               const adji_range_tree_job *tree) {
  if (!job->query_count || !tree->tree->points.count) return ADJ_OK;
  return job->type == ADJ_F64 ? run<double>(gpu, stream, job, tree) : run<float>(gpu, stream, job, tree);
}
