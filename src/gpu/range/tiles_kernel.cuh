/* SPDX-License-Identifier: MIT
 *
 * The kernel of the range join.
 *
 * Computes: for each query q the candidates c, in cells within reach of q's cell, whose canonical sum s(q, c) is at
 * most the limit: their number (counting), or their ids in q's row of the result (filling).
 *
 * A warp owns 32 consecutive queries in the order of the grid, lane i the i-th of them, with its coordinates, its count
 * and its row.
 *
 * Dense places: all queries of a stretch, which lies in one row of cells and is at most a few cells wide, are compared
 * with the candidates of all of them:
 *
 *   1. ranges     lanes look up rows of cells, 32 at a time. Each row is one range of positions. Non-empty ranges go to
 *                 a list in shared memory, with their lengths summed, so that they form one long range.
 *   2. stage      lanes take one candidate each from the long range, and put its coordinates into shared memory; in two
 *                 and three dimensions only if it is near enough to the box around the queries.
 *   3. compare    every lane compares its own query with the 32 candidates, which all lanes read at the same time. Or,
 *                 in two and three dimensions, it compares a tile of 4 queries and 8 candidates, and then every query
 *                 gets its hits in a word.
 *
 * Sparse places, where cells hold few points: in up to three dimensions each lane looks up the ranges of its own query
 * and compares the query with its own candidates; neighbouring lanes read memory that is close together. In more
 * dimensions there are too many rows of cells for that. The warp takes the queries of a few cells of a row at a time;
 * lanes look up the rows that are not provably too far away, and share their candidates. Dense and sparse places then
 * have separate kernels, which run in parallel on different queries.
 *
 * Counting adds up in registers. Where rows are short it may cache the hits of sparse queries, and another kernel fills
 * their rows (tiles.cu). When ids are wanted, they wait in a queue in shared memory, and the warp writes them when
 * there are enough for a line: to the row, whose place and length are known (filling), or to a chunk of 32 entries that
 * records its row (counting with row chunks). Every query has its own chunk, for its last entries; the others are taken
 * from a counter in memory, 16 at a time. Long rows in dense places of two and three dimensions are filled from words,
 * through a ring per query in which ids wait: lane i adds candidate i if its bit is set, as many entries after the last
 * one as there are lower bits. Rows are written front to back, and never get more entries than were counted.
 *
 * Grid: one warp for 32 queries. No block waits for another.
 *
 * Limits: instruction issue for dense cells (2-D: about 7 instructions for 32 comparisons when counting); latency
 * of the look-ups where a cell has few points.
 */
#ifndef ADJI_GPU_RANGE_TILES_KERNEL_CUH
#define ADJI_GPU_RANGE_TILES_KERNEL_CUH

#include "gpu/range/tiles_dense.cuh"
#include "gpu/range/tiles_high_dim.cuh"
#include "gpu/range/tiles_per_query.cuh"

namespace {

/* ---- The kernel ---------------------------------------------------------------------------------- */

/* Whether a query is its own neighbour: always where its distance is 0, perhaps where inner products decide. */
template <int STEP, class T>
__device__ __forceinline__ bool belongs_to_itself(const tiles<T> &job, uint64_t position) {
  if (STEP != ADJI_STEP_DOT) return true;
  T s = 0;
  for (uint32_t j = 0; j < job.dim; j++) {
    T x = job.left.at(position, j);
    s = adji_gpu_step<STEP>(s, x, x, job.measure, j);
  }
  return adji_gpu_finish<STEP>(s) <= job.limit;
}

/* Stores the counts, and adds to the totals. */
template <class W, class T, int DIM>
__device__ __forceinline__ void store_counts(const tiles<T> &job, bool active, lane_query<T, DIM> *own_query,
                                             const work_totals &totals, uint32_t lane) {
  if (!counts<W>(job)) {
    const uint64_t *bounds = bounds_of(job, own_query->row);
    adji_answer_add(job.spread_answers + 2 * ADJI_SPREAD, active && own_query->found != bounds[1] - bounds[0], lane);
    return;
  }
  if (!W::DROPS_SELF && !W::MIRRORED && active && job.keep == ADJI_KEEP_OTHERS &&
      belongs_to_itself<W::STEP>(job, own_query->position))
    own_query->found--;
  if (active && job.degrees && !W::MIRRORED) job.degrees[own_query->row] = own_query->found;
  uint32_t longest = __reduce_max_sync(ALL_LANES, active && !W::MIRRORED ? own_query->found : 0);
  if (lane == 0) {
    atomicMax(job.spread_answers + 3 * ADJI_SPREAD + blockIdx.x % ADJI_SPREAD,
              static_cast<unsigned long long>(longest));
    atomicAdd(job.spread_answers + 4 * ADJI_SPREAD + blockIdx.x % ADJI_SPREAD,
              static_cast<unsigned long long>(totals.steps * ADJI_WARP));
  }
  adji_answer_add(job.spread_answers, active || W::MIRRORED ? own_query->found : 0, lane);
  adji_answer_add(job.spread_answers + ADJI_SPREAD, totals.candidates, lane);
}

template <class W, class T>
__device__ __forceinline__ lane_query<T, W::DIM> open_query(const tiles<T> &job, uint64_t query, bool active) {
  lane_query<T, W::DIM> own_query = {};
  if (!active) return own_query;
  own_query.position = job.queries ? job.queries[query] : static_cast<uint32_t>(job.first_query + query);
  if (W::DIM) load_point<W>(job.left, own_query.position, own_query.x);
  own_query.row = W::HAS_ID ? adji_gpu_id(own_query.x[W::HAS_ID ? W::WIDTH - 1 : 0]) : job.left_ids[own_query.position];
  uint64_t number = number_at(job.left_numbers, job.wide_numbers, own_query.position);
  if (job.wide_numbers)
    own_query.cell_row = static_cast<int64_t>(number / job.row_stride);
  else /* 32-bit division is many times faster */
    own_query.cell_row = static_cast<uint32_t>(number) / static_cast<uint32_t>(job.row_stride);
  own_query.cell = static_cast<uint32_t>(number - static_cast<uint64_t>(own_query.cell_row) * job.row_stride);
  return own_query;
}

/* The number of entries of the queue in shared memory. */
template <class W, class T>
__host__ __device__ __forceinline__ uint32_t queue_entries(const tiles<T> &job) {
  return W::PLACES == SPARSE && job.staged ? HIGH_DIM_QUEUE * (HIGH_DIM_QUERIES + 1) : job.queue * (ADJI_WARP + 1);
}

/* The numbers of values in shared memory: of a warp's candidates, and of its queries. */
template <class W>
__host__ __device__ constexpr uint64_t stage_values(uint32_t dim, bool staged) {
  return W::PLACES == SPARSE || W::REPLAYS || !staged ? 0 : (W::DIM ? W::DIM : dim) * ADJI_WARP;
}
template <class W>
__host__ __device__ constexpr uint64_t query_values(uint32_t dim, bool staged) {
  return W::DIM ? (W::PLACES == SPARSE ? 8 * ADJI_WARP : 0) : staged ? dim * ADJI_WARP : 0;
}

/* Bytes of shared memory of a warp; carve() says where things are in it. */
template <class W, class T>
__host__ __device__ __forceinline__ uint64_t shared_bytes(const tiles<T> &job) {
  uint64_t size = sizeof(T), entries = queue_entries<W>(job);
  uint64_t values = stage_values<W>(job.dim, job.staged) + query_values<W>(job.dim, job.staged);
  uint64_t bytes = values * size + sizeof(range_list), align = W::RINGS ? RING * sizeof(uint32_t) : 16;
  if (W::RINGS)
    bytes += RING_BYTES;
  else if (W::FILL)
    bytes += entries * (4 + (has_sums<W>(job) ? size : 0)) + ADJI_WARP * sizeof(target);
  if (W::MIRRORED) bytes += PAIR_QUEUE * (sizeof(adji_gpu_pair) + (W::SUMS ? size : 0)) + 16;
  bytes += W::PLACES == SPARSE ? 2 * ADJI_WARP * 4 + sizeof(gaps) + sizeof(wanted_rows) : ADJI_WARP * 4;
  return (bytes + align - 1) / align * align;
}

template <class W, class T>
__device__ __forceinline__ shared<T> carve(const tiles<T> &job, unsigned char *memory) {
  shared<T> at = {};
  uint32_t entries = W::FILL ? queue_entries<W>(job) : W::MIRRORED ? PAIR_QUEUE : 0;
  uint32_t *rings = reinterpret_cast<uint32_t *>(memory);
  if (W::RINGS) memory += RING_BYTES;
  at.candidates = reinterpret_cast<T *>(memory);
  at.queries = at.points = at.candidates + stage_values<W>(job.dim, job.staged);
  at.sums = at.queries + query_values<W>(job.dim, job.staged);
  at.targets = reinterpret_cast<target *>(at.sums + (has_sums<W>(job) ? entries : 0));
  at.pairs = reinterpret_cast<adji_gpu_pair *>(at.targets);
  at.queue = reinterpret_cast<uint32_t *>(at.targets + (W::FILL ? ADJI_WARP : 0));
  uint32_t *rest = at.queue + (W::MIRRORED ? 2 * entries : entries);
  if (W::RINGS) { /* once the rings are empty, the queue and its targets use their memory */
    rest = reinterpret_cast<uint32_t *>(at.targets);
    at.queue = at.rings = rings;
    at.targets = reinterpret_cast<target *>(rings + QUEUE * (ADJI_WARP + 1));
    at.cursors = reinterpret_cast<uint2 *>(rings + ADJI_WARP * RING);
  }
  if (W::MIRRORED) {
    at.pair_count = rest;
    rest += 4;
  }
  if (W::PLACES == SPARSE) {
    at.found = rest;
    at.rows = at.found + ADJI_WARP;
    at.gap = reinterpret_cast<gaps *>(at.rows + ADJI_WARP);
    at.wanted = reinterpret_cast<wanted_rows *>(at.gap + 1);
    at.list = reinterpret_cast<range_list *>(at.wanted + 1);
  } else {
    at.ids = rest;
    at.list = reinterpret_cast<range_list *>(rest + ADJI_WARP);
  }
  return at;
}

template <class T>
__device__ __forceinline__ void stage_queries(const tiles<T> &job, const shared<T> &at, uint64_t position, bool active,
                                              uint32_t lane) {
  for (uint32_t j = 0; j < job.dim; j++)
    at.queries[j * ADJI_WARP + lane] = active ? job.left.at(position, j) : 0;
  __syncwarp();
}

/* The lanes of sparse queries. heads: the lanes at which a stretch of queries in one row of cells begins. */
template <class W, class T, int DIM>
__device__ __forceinline__ uint32_t find_sparse(const tiles<T> &job, const lane_query<T, DIM> &own_query,
                                                uint32_t heads, uint32_t actives) {
  if (W::MIRRORED || (!W::DIM && !job.staged)) return ALL_LANES;
  uint32_t sparse = 0;
  while (heads) {
    uint32_t begin = __ffs(heads) - 1;
    heads &= heads - 1;
    uint32_t end = heads ? __ffs(heads) - 1 : actives;
    uint32_t spread = __shfl_sync(ALL_LANES, own_query.cell, end - 1) - __shfl_sync(ALL_LANES, own_query.cell, begin);
    bool dense = spread <= job.spread && end - begin >= DENSE_QUERIES;
    if (W::PLACES != EVERYWHERE) dense = dense && spread * 8 <= end - begin;
    if (W::QUERY_HITS) dense = dense && (spread + 1) * DENSE_QUERY_HITS <= end - begin;
    if (!dense) sparse |= (end - begin < 32 ? (1u << (end - begin)) - 1 : ALL_LANES) << begin;
  }
  return sparse;
}

template <class W>
__global__ void __launch_bounds__(MOST_WARPS *ADJI_WARP, W::BLOCKS) join_tiles(const tiles<typename W::T> job) {
  typedef typename W::T T;
  extern __shared__ __align__(256) unsigned char memory[];
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  uint64_t query = (static_cast<uint64_t>(blockIdx.x) * blockDim.x / ADJI_WARP + warp) * job.lanes + lane;
  bool active = lane < job.lanes && query < job.query_count;
  if (!__any_sync(ALL_LANES, active)) return;
  lane_query<T, W::DIM> own_query = open_query<W>(job, query, active);
  int64_t before = __shfl_up_sync(ALL_LANES, own_query.cell_row, 1);
  bool head = lane == 0 || own_query.cell_row != before;
  if (W::PLACES == EVERYWHERE && job.queries) /* which may come in any order */
    head = __shfl_up_sync(ALL_LANES, own_query.position, 1) > own_query.position || head;
  uint32_t heads = __ballot_sync(ALL_LANES, active && head);
  uint32_t members = __ballot_sync(ALL_LANES, active);
  uint32_t sparse = find_sparse<W>(job, own_query, heads, __popc(members)) & members;
  if (W::PLACES == DENSE) members &= ~sparse;
  if (W::PLACES == SPARSE) members = sparse;
  if (!members) return;
  active = members >> lane & 1;

  shared<T> at = carve<W>(job, memory + warp * shared_bytes<W>(job));
  own_query.tail = lane;
  if (!W::DIM && job.staged) stage_queries(job, at, own_query.position, active, lane);
  if (W::FILL && active) prefetch_target(job, own_query.row);
#pragma unroll
  for (int j = 0; j < W::DIM && W::PLACES == SPARSE; j++)
    at.points[lane * 8 + j] = own_query.x[j];
  __syncwarp();
  supply items = {0, 0};
  work_totals totals = {0, 0};
  if (W::MIRRORED) {
    if (lane == 0) *at.pair_count = 0;
    __syncwarp();
    add_selves<W>(job, at, &own_query, active, lane);
  }
  for (uint32_t remaining = heads & ~sparse; remaining && W::PLACES != SPARSE; remaining &= remaining - 1) {
    uint32_t begin = __ffs(remaining) - 1, others = heads & ~((2u << begin) - 1);
    uint32_t end = others && begin < 31 ? __ffs(others) - 1 : ADJI_WARP - __clz(members | sparse);
    if constexpr (W::REPLAYS)
      replay(job, at, &own_query, begin, end, lane);
    else
      join_dense<W>(job, at, &own_query, begin, end, &items, &totals, lane);
  }
  if (W::RINGS) empty_rings(job, at, &own_query, lane);
  if constexpr (W::QUERY_HITS) {
    bool has_hits = sparse && count_query_hits<W>(job, &own_query, sparse >> lane & 1, &totals);
    note_without_hits(job, own_query, active && !has_hits, lane);
  } else if (W::PLACES == SPARSE && (W::DIM || job.staged))
    join_cells<W>(job, at, &own_query, sparse, &items, &totals, lane);
  else if (W::PLACES != DENSE && sparse)
    join_per_query<W>(job, at, &own_query, sparse >> lane & 1, &items, &totals, lane);
  if (W::FILL && (W::PLACES != SPARSE || !(W::DIM || job.staged)))
    empty_queues<W, BY_LANE>(job, at, &own_query, 0, lane);
  if (W::MIRRORED) flush_pairs<W>(job, at, &own_query, true, lane);
  store_counts<W>(job, active, &own_query, totals, lane);
}

/* ---- Launching ----------------------------------------------------------------------------------------------- */

/* Bytes of shared memory that a block can have on every device. */
enum { MOST_SHARED = 96 << 10 };

/* Whether queries and candidates in many dimensions fit into shared memory. The same for dense and sparse places. */
template <class W>
bool fits_stage(uint32_t dim) {
  return 2 * dim * ADJI_WARP * sizeof(typename W::T) + QUEUE * (ADJI_WARP + 1) * 12 + 4096 <= MOST_SHARED;
}

template <class W>
adj_status launch(adji_gpu *gpu, cudaStream_t stream, tiles<typename W::T> job) {
  job.staged = W::DIM || fits_stage<W>(job.dim);
  bool half = W::PLACES == EVERYWHERE && !W::RINGS && job.short_rows && !job.row_chunks;
  job.line = half ? ADJI_WARP / 2 : ADJI_WARP;
  job.queue = half ? SHORT_QUEUE : QUEUE;
  uint64_t each = shared_bytes<W>(job), warps = MOST_SHARED / each;
  if (warps > MOST_WARPS) warps = MOST_WARPS;
  if (warps * each > 48 << 10) /* the same value in all threads, since other contexts set it too */
    ADJI_CUDA(gpu, cudaFuncSetAttribute(join_tiles<W>, cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_SHARED));
  uint64_t threads = warps * ADJI_WARP, queries = warps * job.lanes;
  uint64_t blocks = (job.query_count + queries - 1) / queries;
  join_tiles<W><<<static_cast<uint32_t>(blocks), static_cast<uint32_t>(threads), warps * each, stream>>>(job);
  ADJI_LAUNCHED(gpu, "join_tiles");
  return ADJ_OK;
}

template <class T, int STEP, int DIM, work WORK>
adj_status launch_places(adji_gpu *gpu, cudaStream_t stream, const tiles<T> &job) {
  if constexpr (DIM == 1 || DIM == 2 || DIM == 3)
    return launch<kernel_traits<T, STEP, DIM, WORK, EVERYWHERE>>(gpu, stream, job);
  if constexpr (DIM == 0 || DIM > 3) { /* in parallel: alone, each would leave much of the device idle at its end */
    adj_status status = adji_gpu_fork(gpu, stream);
    if (status) return status;
    status = launch<kernel_traits<T, STEP, DIM, WORK, DENSE>>(gpu, gpu->side, job);
    if (!status) status = launch<kernel_traits<T, STEP, DIM, WORK, SPARSE>>(gpu, stream, job);
    return adji_gpu_rejoin(gpu, stream, status);
  }
}

template <class T, int STEP, int DIM>
adj_status launch_mirrored(adji_gpu *gpu, cudaStream_t stream, const tiles<T> &job) {
  if constexpr (STEP == ADJI_STEP_L2 && (DIM == 0 || DIM > 3))
    return job.sums ? launch<kernel_traits<T, STEP, DIM, PAIRS_AND_SUMS, SPARSE>>(gpu, stream, job)
                    : launch<kernel_traits<T, STEP, DIM, PAIRS, SPARSE>>(gpu, stream, job);
  return adji_fail(ADJ_E_INTERNAL, "a kernel that compares every two points once is missing");
}

template <class T, int STEP, int DIM>
adj_status launch_as(adji_gpu *gpu, cudaStream_t stream, const tiles<T> &job) {
  if (job.mirrored) return launch_mirrored<T, STEP, DIM>(gpu, stream, job);
  if constexpr (sizeof(T) == 4 && STEP == ADJI_STEP_L2 && (DIM == 2 || DIM == 3))
    if (job.tile_hits)
      return job.ids ? launch_places<T, STEP, DIM, FROM_TILE_HITS>(gpu, stream, job)
                     : launch_places<T, STEP, DIM, COUNT_AND_TILE_HITS>(gpu, stream, job);
  if constexpr (STEP == ADJI_STEP_L2 && (DIM == 2 || DIM == 3))
    if (job.query_hits && !job.ids) return launch_places<T, STEP, DIM, COUNT_AND_QUERY_HITS>(gpu, stream, job);
  if (!job.ids) return launch_places<T, STEP, DIM, COUNT>(gpu, stream, job);
  if constexpr (sizeof(T) == 4 && STEP == ADJI_STEP_L2 && (DIM == 2 || DIM == 3))
    if (job.long_rows && !job.sums && !job.row_chunks) return launch_places<T, STEP, DIM, LONG_ROWS>(gpu, stream, job);
  if constexpr (STEP == ADJI_STEP_L2)
    return job.sums ? launch_places<T, STEP, DIM, IDS_AND_SUMS>(gpu, stream, job)
                    : launch_places<T, STEP, DIM, IDS>(gpu, stream, job);
  else
    return launch_places<T, STEP, DIM, IDS_PERHAPS_SUMS>(gpu, stream, job);
}

template <class T>
tiles<T> with_types(const adji_tiles_job *job) {
  const adji_gpu_index *left = job->left, *right = job->right;
  uint32_t reach = job->grid->reach;
  /* A point and its image must not both be candidates of a query, so only cells within reach are looked up. */
  tiles<T> typed = {*job, index_of_cells(job->grid, right, right->images)};
  typed.spread = right->images ? 0 : reach * 3 + 2;
  typed.group = right->images || !reach ? 1 : 2 * reach;
  typed.left = coordinates<T>{static_cast<const T *>(left->coords), left->point_step, left->dim_step};
  typed.right = coordinates<T>{static_cast<const T *>(right->coords), right->point_step, right->dim_step};
  typed.left_ids = left->ids;
  typed.right_ids = right->ids;
  typed.left_numbers = left->numbers;
  typed.near = job->grid->near;
  typed.near.limit = static_cast<float>(job->limit) * 1.001f;
  if (!(job->limit > 1e-30)) typed.near.axes = 0;
  typed.same_sets = left == right;
  typed.limit = static_cast<T>(job->limit);
  typed.measure.power = job->measure->power;
  typed.measure.box = static_cast<const T *>(job->box);
  if (!typed.lanes) typed.lanes = ADJI_WARP;
  typed.sums = static_cast<T *>(job->sums);
  typed.step = job->measure->step;
  return typed;
}

/* Instances for L2: for two and for three dimensions, and one for all others. */
template <class T>
adj_status launch_l2(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  tiles<T> typed = with_types<T>(job);
  if (job->dim == 2) return launch_as<T, ADJI_STEP_L2, 2>(gpu, stream, typed);
  if (job->dim == 3) return launch_as<T, ADJI_STEP_L2, 3>(gpu, stream, typed);
  return launch_as<T, ADJI_STEP_L2, 0>(gpu, stream, typed);
}

/* Instances for other metrics, and for periodic boxes: any number of dimensions. Lp shares one with periodic boxes of
 * metrics other than L2. */
template <class T>
adj_status launch_metric(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  tiles<T> typed = with_types<T>(job);
  switch (job->measure->step) {
    case ADJI_STEP_L1:
      return launch_as<T, ADJI_STEP_L1, 0>(gpu, stream, typed);
    case ADJI_STEP_LINF:
      return launch_as<T, ADJI_STEP_LINF, 0>(gpu, stream, typed);
    case ADJI_STEP_DOT:
      return launch_as<T, ADJI_STEP_DOT, 0>(gpu, stream, typed);
    case ADJI_STEP_L2_BOX:
      return launch_as<T, ADJI_STEP_L2_BOX, 0>(gpu, stream, typed);
    case ADJI_STEP_LP:
    case ADJI_STEP_L1_BOX:
    case ADJI_STEP_LINF_BOX:
    case ADJI_STEP_LP_BOX:
      return launch_as<T, RARE_STEP, 0>(gpu, stream, typed);
    default:
      return adji_fail(ADJ_E_INTERNAL, "measure: step %d has no kernel", static_cast<int>(job->measure->step));
  }
}

}  // namespace

#endif
