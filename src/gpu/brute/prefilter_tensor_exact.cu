/* SPDX-License-Identifier: MIT
 *
 * Queries that the prefilter cannot certify, among points in tree order: every point of the tiles within reach is
 * compared by its canonical sum. This is for clusters much smaller than their distance from the centre of all points.
 * Half-precision copies cannot tell the points of such a cluster apart, and more pairs pass than a list holds; but few
 * tiles are within reach.
 *
 * Bounds need no products here. A neighbour's canonical sum is at most that of the k-th best so far. This takes the
 * place of a radius in prefilter_tensor.h and gives p; the rest follows as in prefilter_tensor_tiles.cuh.
 */
#include <cuda_fp16.h>

#include "gpu/brute/prefilter_tensor_tiles.cuh"

namespace {

enum { THREADS = ADJI_TENSOR_ROWS, TILE = ADJI_TENSOR_TILE, AT_ONCE = 4, LONG_PART = 32, LEAST_LONG = 64 };

template <class T>
struct exact_job : adji_tensor_view {
  const T *left, *right;
  const __half *copies; /* copies of the queries */
  const float *boxes;
  uint32_t box_dims, queries, tiles;
  const uint32_t *entries, *counts; /* `tiles` entries for each block; NULL: `starts` of them */
  uint32_t starts, most;            /* most: the most entries of a list in this pass */
  bool last;                        /* the second of two passes */
  bool root, fours;                 /* fours: four coordinates can be read at once */
  uint64_t left_first, first_row;
  uint32_t *ids;
  T *sums;
};

/* A query may have at most this many times the p^2 of its block's median query. */
constexpr float WIDE = 9;

/* A block's shared memory: queries and points by dimension, copies of queries, lists, ids of points. */
template <class T>
struct exact_memory {
  T *x, *y, *sums;
  float *copies;
  uint32_t *ids, *points;
  static __host__ __device__ uint32_t bytes(uint32_t dim, uint32_t box_dims, uint32_t k) {
    return (dim * (THREADS + TILE) + k * THREADS) * sizeof(T) + (box_dims * THREADS + k * THREADS + TILE) * 4;
  }
  __device__ exact_memory(unsigned char *at, uint32_t dim, uint32_t box_dims, uint32_t k) {
    x = reinterpret_cast<T *>(at);
    y = x + dim * THREADS;
    sums = y + dim * TILE;
    copies = reinterpret_cast<float *>(sums + k * THREADS);
    ids = reinterpret_cast<uint32_t *>(copies + box_dims * THREADS);
    points = ids + k * THREADS;
  }
};

/* A thread's query. */
template <class T>
struct exact_query {
  uint32_t row, last_id; /* last: the k-th best so far */
  T last_sum;
  float reach; /* p^2; negative: there is no query */
  bool changed;
};

template <class T>
__device__ __forceinline__ void load_four(const T *from, T (&to)[AT_ONCE]);
template <>
__device__ __forceinline__ void load_four(const float *from, float (&to)[AT_ONCE]) {
  float4 four = *reinterpret_cast<const float4 *>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
template <>
__device__ __forceinline__ void load_four(const double *from, double (&to)[AT_ONCE]) {
  double2 low = *reinterpret_cast<const double2 *>(from), high = *reinterpret_cast<const double2 *>(from + 2);
  to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}

/* Whether a tile is within reach of the thread's query. */
template <class T>
__device__ __forceinline__ bool is_near(const exact_job<T> &job, const exact_memory<T> &at, float reach,
                                        uint32_t tile) {
  const float *box = job.boxes + static_cast<uint64_t>(tile) * 2 * job.box_dims;
  float sum = 0;
  for (uint32_t j = 0; j < job.box_dims; j++)
    sum = adji_tensor_add_gap(sum, at.copies[j * THREADS + threadIdx.x], __ldg(box + j), __ldg(box + job.box_dims + j));
  return sum <= reach;
}

/* Puts a point into the thread's list, which ascends by (sum, id). */
template <class T>
__device__ __forceinline__ void insert(const exact_job<T> &job, const exact_memory<T> &at, T s, uint32_t id,
                                       exact_query<T> *q) {
  uint32_t i = job.k - 1;
  for (; i > 0; i--) {
    T before = at.sums[(i - 1) * THREADS + threadIdx.x];
    uint32_t other = at.ids[(i - 1) * THREADS + threadIdx.x];
    if (before < s || (before == s && other < id)) break;
    at.sums[i * THREADS + threadIdx.x] = before;
    at.ids[i * THREADS + threadIdx.x] = other;
  }
  at.sums[i * THREADS + threadIdx.x] = s;
  at.ids[i * THREADS + threadIdx.x] = id;
  q->last_sum = at.sums[(job.k - 1) * THREADS + threadIdx.x];
  q->last_id = at.ids[(job.k - 1) * THREADS + threadIdx.x];
  q->changed = true;
}

/* Compares the thread's query with all points of the tile in shared memory. */
template <class T>
__device__ __forceinline__ void compare_tile(const exact_job<T> &job, const exact_memory<T> &at, exact_query<T> *q) {
  const T limit = static_cast<T>(job.limit);
#pragma unroll 1
  for (uint32_t c = 0; c < TILE; c += AT_ONCE) {
    T s[AT_ONCE] = {0, 0, 0, 0};
#pragma unroll 4
    for (uint32_t j = 0; j < job.rules.dim; j++) {
      T x = at.x[j * THREADS + threadIdx.x], y[AT_ONCE];
      load_four(at.y + j * TILE + c, y);
#pragma unroll
      for (int i = 0; i < AT_ONCE; i++)
        s[i] = adji_gpu_add_square(s[i], adji_gpu_difference(x, y[i]));
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      T sum = adji_gpu_finish<ADJI_STEP_L2>(s[i]);
      uint32_t id = at.points[c + i];
      if (sum > q->last_sum || sum > limit || id == ADJ_NO_ID) continue;
      if (sum == q->last_sum && id > q->last_id) continue;
      if (job.drop_self && id == q->row) continue;
      insert(job, at, sum, id, q);
    }
  }
}

/* Copies a tile's points to shared memory, by dimension; missing ones have no id. */
template <class T>
__device__ __forceinline__ void load_tile(const exact_job<T> &job, const exact_memory<T> &at, uint32_t tile) {
  for (uint32_t i = threadIdx.x; i < TILE; i += THREADS) {
    uint64_t position = static_cast<uint64_t>(tile) * TILE + i;
    bool there = position < job.point_count;
    uint32_t point = there ? __ldg(job.order + position) : 0;
    at.points[i] = there ? static_cast<uint32_t>(job.right_first + point) : ADJ_NO_ID;
    const T *from = job.right + static_cast<uint64_t>(point) * job.rules.dim;
    for (uint32_t j = 0; j < job.rules.dim; j += AT_ONCE) {
      T four[AT_ONCE];
      if (job.fours)
        load_four(from + j, four);
      else
        for (uint32_t n = 0; n < AT_ONCE; n++)
          four[n] = j + n < job.rules.dim ? __ldg(from + j + n) : T(0);
#pragma unroll
      for (uint32_t n = 0; n < AT_ONCE; n++)
        if (j + n < job.rules.dim) at.y[(j + n) * TILE + i] = four[n];
    }
  }
}

/* Loads the thread's query and its list: an empty list, or that of the first pass. */
template <class T>
__device__ __forceinline__ exact_query<T> open_query(const exact_job<T> &job, const exact_memory<T> &at) {
  uint32_t query = blockIdx.x * THREADS + threadIdx.x;
  bool there = query < job.queries;
  exact_query<T> q = {there ? job.query_info[query].row : ADJ_NO_ID, ADJ_NO_ID, INFINITY, there ? INFINITY : -1.0f,
                      false};
  for (uint32_t j = 0; j < job.rules.dim; j++)
    at.x[j * THREADS + threadIdx.x] = there ? job.left[(q.row - job.left_first) * job.rules.dim + j] : T(0);
  for (uint32_t j = 0; j < job.box_dims; j++)
    at.copies[j * THREADS + threadIdx.x] =
        j < job.rules.dim ? __half2float(job.copies[static_cast<uint64_t>(query) * job.rules.width + j]) : 0;
  bool again = job.last && there;
  for (uint32_t i = 0; i < job.k; i++) {
    uint64_t from = (q.row - job.first_row) * job.k + i;
    at.sums[i * THREADS + threadIdx.x] = again ? job.sums[from] : static_cast<T>(INFINITY);
    at.ids[i * THREADS + threadIdx.x] = again ? job.ids[from] : ADJ_NO_ID;
  }
  if (!again) return q;
  q.last_sum = at.sums[(job.k - 1) * THREADS + threadIdx.x];
  q.last_id = at.ids[(job.k - 1) * THREADS + threadIdx.x];
  q.reach = job.reaches[query];
  return q;
}

/* Updates p^2 of the query from its k-th best sum. */
template <class T>
__device__ __forceinline__ void tighten(const exact_job<T> &job, exact_query<T> *q) {
  uint32_t query = blockIdx.x * THREADS + threadIdx.x;
  q->changed = false;
  double limit = job.limit;
  if (q->last_id != ADJ_NO_ID && static_cast<double>(q->last_sum) < limit) limit = static_cast<double>(q->last_sum);
  if (!(limit < INFINITY)) return;
  double error = static_cast<double>(job.query_info[query].error) + static_cast<double>(job.frame->most);
  q->reach = adji_tensor_reach_sq(adji_tensor_reach_of(&job.rules, job.frame->scale, limit), error);
}

/* Fails queries that reach much farther than most queries of the block: a few points between the clusters would make
 * the block's list long. Called by all threads, after the first pass. */
template <class T>
__device__ __forceinline__ void drop_wide(const exact_job<T> &job, const exact_memory<T> &at, exact_query<T> *q) {
  float *reaches = reinterpret_cast<float *>(at.points); /* the tile's points are no longer needed */
  uint32_t query = blockIdx.x * THREADS + threadIdx.x, before = 0, all = 0;
  __syncthreads();
  reaches[threadIdx.x] = q->reach;
  __syncthreads();
  for (uint32_t i = 0; i < THREADS; i++) {
    float other = reaches[i];
    all += other >= 0;
    before += other >= 0 && (other < q->reach || (other == q->reach && i < threadIdx.x));
  }
  if (q->reach >= 0 && before == all / 2) reaches[THREADS] = q->reach;
  __syncthreads();
  if (q->reach < 0) return;
  if (q->reach > WIDE * reaches[THREADS]) {
    adji_tensor_fail(job, q->row);
    q->reach = -1;
  }
  job.reaches[query] = q->reach;
}

/* Searches the tiles of each block's list. A block owns 128 queries, a thread one of them, with its list in shared
 * memory; everything else is in device memory. For each tile of the list:
 * 1. Each thread tests whether the tile is still within reach of its query. If no query needs it, the tile is skipped.
 * 2. The points of the tile go to shared memory.
 * 3. In each warp with a query that needs the tile, every thread compares its query with all points; the k best stay.
 *
 * At the end rows are written; reaches are written after the first pass. A list that is too long for one block fails
 * its queries. Limited by issue: 2.5 instructions per dimension of a pair. */
template <class T>
__global__ void __launch_bounds__(THREADS) search_tiles(const __grid_constant__ exact_job<T> job) {
  extern __shared__ __align__(16) unsigned char memory[];
  exact_memory<T> at(memory, job.rules.dim, job.box_dims, job.k);
  const uint32_t *entries = job.entries + static_cast<uint64_t>(blockIdx.x) * job.tiles;
  uint32_t count = job.last ? job.counts[blockIdx.x] : job.starts, query = blockIdx.x * THREADS + threadIdx.x;
  if (count > job.most) {
    if (query < job.queries && job.reaches[query] >= 0) adji_tensor_fail(job, job.query_info[query].row);
    return;
  }
  exact_query<T> q = open_query(job, at);
  if (!job.last && q.reach >= 0) tighten(job, &q);
#pragma unroll 1
  for (uint32_t e = 0; e < count; e++) {
    uint32_t tile = entries[e] & ADJI_TILE_MASK;
    bool needed = is_near(job, at, q.reach, tile);
    if (!__syncthreads_or(needed)) continue;
    load_tile(job, at, tile);
    __syncthreads();
    if (__any_sync(0xffffffffu, needed) && q.reach >= 0) compare_tile(job, at, &q);
    if (q.changed) tighten(job, &q);
  }
  if (!job.last) drop_wide(job, at, &q);
  if (q.reach < 0) return;
  uint64_t to = (q.row - job.first_row) * job.k;
  for (uint32_t i = 0; i < job.k; i++) {
    T s = at.sums[i * THREADS + threadIdx.x];
    job.ids[to + i] = at.ids[i * THREADS + threadIdx.x];
    job.sums[to + i] = job.last && job.root ? adji_root(s) : s;
  }
}

/* One pass over the lists in `entries`. */
template <class T>
adj_status search_pass(adji_gpu *gpu, const adji_tensor_batch *b, bool last) {
  const adji_brute_job *job = b->job;
  uint32_t blocks = adji_blocks_for(job->queries, THREADS);
  exact_job<T> e = {adji_tensor_view_of(b)};
  e.left = static_cast<const T *>(job->left);
  e.right = static_cast<const T *>(job->right);
  e.copies = adji_at<__half>(b->values);
  e.boxes = adji_at<float>(b->points->boxes);
  e.box_dims = adji_tile_box_dims(job->dim);
  e.queries = static_cast<uint32_t>(job->queries);
  e.tiles = adji_blocks_for(b->points->count, TILE);
  adji_tile_lists lists = adji_tile_lists_of(b);
  e.entries = last ? lists.sorted : lists.work;
  e.counts = last ? lists.listed : NULL;
  e.starts = b->starts;
  e.most = e.tiles / LONG_PART > LEAST_LONG ? e.tiles / LONG_PART : LEAST_LONG;
  e.last = last;
  e.root = job->root;
  e.fours = job->dim % AT_ONCE == 0 && reinterpret_cast<uintptr_t>(job->right) % 16 == 0;
  e.left_first = job->left_first;
  e.first_row = job->first_row;
  e.ids = job->ids;
  e.sums = static_cast<T *>(job->distances);
  ADJI_ALLOW_SHARED(gpu, search_tiles<T>);
  search_tiles<T><<<blocks, THREADS, exact_memory<T>::bytes(job->dim, e.box_dims, job->k), gpu->compute>>>(e);
  ADJI_LAUNCHED(gpu, "search_tiles");
  return ADJ_OK;
}

adj_status run_pass(adji_gpu *gpu, const adji_tensor_batch *b, bool last) {
  return b->job->type == ADJ_F64 ? search_pass<double>(gpu, b, last) : search_pass<float>(gpu, b, last);
}

}  // namespace

bool adji_tile_exact_can(const adji_gpu *gpu, const adji_brute_job *job) {
  uint32_t dims = adji_tile_box_dims(job->dim);
  uint32_t bytes = job->type == ADJ_F64 ? exact_memory<double>::bytes(job->dim, dims, job->k)
                                        : exact_memory<float>::bytes(job->dim, dims, job->k);
  return job->k <= ADJI_TILE_EXACT_MOST_K && bytes <= static_cast<uint32_t>(gpu->block_shared_bytes);
}

adj_status adji_tile_exact(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                           adji_tensor_batch *b, adji_tensor_outcome *out) {
  uint64_t tiles = adji_blocks_for(points->count, TILE);
  b->points = points;
  b->job = job;
  b->rounds = adji_tensor_rounds{};
  b->starts = b->nearest = static_cast<uint32_t>(tiles < ADJI_TILE_EXACT_STARTS ? tiles : ADJI_TILE_EXACT_STARTS);
  adj_status status = adji_tensor_batch_get(gpu, b);
  if (!status) status = adji_tensor_copy_queries(gpu, b);
  if (!status) status = adji_tile_lists_get(gpu, b);
  if (!status) status = adji_tile_begin(gpu, b);
  if (!status) status = run_pass(gpu, b, false);
  if (!status) status = adji_tile_list(gpu, b);
  if (!status) status = run_pass(gpu, b, true);
  *out = adji_tensor_outcome{};
  return status ? status : adji_tensor_fetch(gpu, b, out);
}
