/* SPDX-License-Identifier: MIT
 *
 * Distances and selection in one kernel, as in Hanak's thesis (3.3.2, 4.2): no matrix in memory, for few dimensions and
 * small k.
 *
 *     the k nearest of each query among all right points: canonical sums, by (sum, column)
 *
 * Queries, points and results are in device memory. A block has 16 queries, whose coordinates stay in shared memory,
 * and all right points, which pass through it 64 at a time. Each query has a buffer of 64 keys in shared memory, and
 * the 64 smallest so far in the registers of 16 threads.
 *
 * 1. The next 64 points go to shared memory.
 * 2. A thread sums 2 x 2 pairs, in the order of the dimensions.
 * 3. A sum below the k-th smallest of its query so far goes to the buffer of that query, by atomicAdd.
 * 4. When a buffer is full, all buffers are sorted and merged with their lists (block_sort.cuh), by shuffles.
 *
 * Two barriers per window, and one for each attempt to insert. Limited by loads from shared memory.
 */
#include "gpu/brute/brute_distance.cuh"
#include "gpu/brute/brute_fused.cuh"
#include "gpu/shared/block_sort.cuh"
#include "gpu/shared/value_keys.cuh"

namespace {

enum {
  THREADS = 256,
  QUERIES = 16,
  WINDOW = 64, /* points */
  SIDE = 2,    /* queries of a thread's pairs, and points of them */
  LANES = 16,  /* threads that share a list */
  EACH = 4,    /* keys per thread of a list */
  KEYS = LANES * EACH
};
static_assert(QUERIES * LANES == THREADS && static_cast<int>(KEYS) == static_cast<int>(ADJI_FUSED_MOST_K),
              "every thread has a part of a list");
static_assert(QUERIES * WINDOW == SIDE * SIDE * THREADS, "every thread has as many pairs");

template <class T>
struct fused_job {
  distances<T> d;
  uint32_t k, first_id;
  bool root;
  uint32_t *ids;
  T *results;
};

/* Shared memory of a block. Rows of coordinates are an odd number of values apart. */
template <class T>
struct fused_memory {
  key_of<T> buffers[QUERIES][KEYS];
  key_of<T> bounds[QUERIES];
  T queries[QUERIES][ADJI_FUSED_MOST_DIM + 1];
  T points[WINDOW][ADJI_FUSED_MOST_DIM + 1];
  uint32_t counts[QUERIES];
};

/* Copies rows of coordinates to shared memory. */
template <class T>
__device__ __forceinline__ void load_rows(const T *from, uint32_t rows, uint32_t dim,
                                          T (*to)[ADJI_FUSED_MOST_DIM + 1]) {
  for (uint32_t i = threadIdx.x; i < rows * dim; i += THREADS)
    to[i / dim][i % dim] = __ldg(from + i);
}

/* The query of a thread's i-th pair, and its point in the window: a warp has two queries and all points. */
__device__ __forceinline__ uint32_t query_of(int i) {
  return threadIdx.x / ADJI_WARP + i / SIDE * (QUERIES / SIDE);
}
__device__ __forceinline__ uint32_t point_of(int i) {
  return threadIdx.x % ADJI_WARP + i % SIDE * (WINDOW / SIDE);
}

/* Step 2. */
template <class T, int STEP>
__device__ __forceinline__ void sum_pairs(const fused_memory<T> *m, const distances<T> &d, T (&sums)[SIDE * SIDE]) {
#pragma unroll
  for (int i = 0; i < SIDE * SIDE; i++)
    sums[i] = 0;
  for (uint32_t k = 0; k < d.dim; k++) {
    T x[SIDE], c[SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
      x[i] = m->queries[query_of(i * SIDE)][k];
      c[i] = m->points[point_of(i)][k];
    }
#pragma unroll
    for (int i = 0; i < SIDE * SIDE; i++)
      sums[i] = adji_gpu_step<STEP>(sums[i], x[i / SIDE], c[i % SIDE], d.measure, k);
  }
}

/* Step 4. All threads call it. Keys that they inserted before are visible after its first barrier. */
template <class T>
__device__ __forceinline__ void merge_buffers(fused_memory<T> *m, uint32_t k, key_of<T> (&best)[EACH]) {
  uint32_t list = threadIdx.x / LANES, first = threadIdx.x % LANES * EACH;
  key_of<T> v[EACH];
  __syncthreads();
  uint32_t held = m->counts[list] < KEYS ? m->counts[list] : KEYS;
#pragma unroll
  for (int i = 0; i < EACH; i++)
    v[i] = first + i < held ? m->buffers[list][first + i] : last_key<T>();
  __syncthreads();
  if (first == 0) m->counts[list] = 0;
  sort_lists<EACH, LANES>(v);
  keep_smaller_lists<EACH, LANES>(best, v);
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (first + i == k - 1) m->bounds[list] = best[i];
  __syncthreads();
}

/* Steps 3 and 4 for the pairs of a window that begins with point `first`. */
template <class T, int STEP>
__device__ __forceinline__ void insert_pairs(fused_memory<T> *m, const fused_job<T> &job, uint32_t first_query,
                                             uint32_t first, const T (&sums)[SIDE * SIDE], key_of<T> (&best)[EACH]) {
  const distances<T> &d = job.d;
  key_of<T> keys[SIDE * SIDE];
  uint32_t pending = 0;
#pragma unroll
  for (int i = 0; i < SIDE * SIDE; i++) {
    uint32_t row = first_query + query_of(i), column = first + point_of(i);
    bool there = row < d.rows && column < d.columns;
    T s = there ? d.kept(adji_gpu_finish<STEP>(sums[i]), d.own(row), column) : T(NAN);
    keys[i] = make_key(order_of_value(s), column);
    if (s == s && less(keys[i], m->bounds[query_of(i)])) pending |= 1u << i;
  }
  for (;;) {
#pragma unroll
    for (int i = 0; i < SIDE * SIDE; i++) {
      if (!(pending >> i & 1)) continue;
      uint32_t to = atomicAdd(&m->counts[query_of(i)], 1u);
      if (to >= KEYS) continue;
      m->buffers[query_of(i)][to] = keys[i];
      pending &= ~(1u << i);
    }
    if (!__syncthreads_or(pending != 0)) return;
    merge_buffers(m, job.k, best);
#pragma unroll
    for (int i = 0; i < SIDE * SIDE; i++)
      if ((pending >> i & 1) && !less(keys[i], m->bounds[query_of(i)])) pending &= ~(1u << i);
  }
}

template <class T>
__device__ __forceinline__ void write_list(const fused_job<T> &job, uint32_t first_query,
                                           const key_of<T> (&best)[EACH]) {
  uint32_t row = first_query + threadIdx.x / LANES, first = threadIdx.x % LANES * EACH;
  if (row >= job.d.rows) return;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    if (first + i >= job.k) continue;
    uint64_t to = static_cast<uint64_t>(row) * job.k + first + i;
    bool none = !less(best[i], last_key<T>());
    T s = from_order(key_order(best[i]));
    job.ids[to] = none ? ADJ_NO_ID : key_column(best[i]) + job.first_id;
    job.results[to] = none ? T(INFINITY) : job.root ? adji_root(s) : s;
  }
}

template <class T, int STEP>
__global__ void __launch_bounds__(THREADS) nearest_fused(fused_job<T> job) {
  __shared__ __align__(16) unsigned char memory[sizeof(fused_memory<T>)];
  fused_memory<T> *m = reinterpret_cast<fused_memory<T> *>(memory);
  const distances<T> &d = job.d;
  uint32_t first_query = blockIdx.x * QUERIES, queries = min(static_cast<uint32_t>(QUERIES), d.rows - first_query);
  key_of<T> best[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++)
    best[i] = last_key<T>();
  if (threadIdx.x < QUERIES) {
    m->counts[threadIdx.x] = 0;
    m->bounds[threadIdx.x] = last_key<T>();
  }
  load_rows(d.query(first_query), queries, d.dim, m->queries);
  for (uint64_t first = 0; first < d.columns; first += WINDOW) {
    uint32_t begin = static_cast<uint32_t>(first), points = min(static_cast<uint32_t>(WINDOW), d.columns - begin);
    __syncthreads(); /* the previous window is no longer read */
    load_rows(d.point(begin), points, d.dim, m->points);
    __syncthreads();
    T sums[SIDE * SIDE];
    sum_pairs<T, STEP>(m, d, sums);
    insert_pairs<T, STEP>(m, job, first_query, begin, sums, best);
  }
  merge_buffers(m, job.k, best);
  write_list(job, first_query, best);
}

/* ---- Launches -------------------------------------------------------------------------------- */

template <class T, int STEP>
adj_status launch(adji_gpu *gpu, const fused_job<T> &job) {
  nearest_fused<T, STEP><<<adji_blocks_for(job.d.rows, QUERIES), THREADS, 0, gpu->compute>>>(job);
  ADJI_LAUNCHED(gpu, "nearest_fused");
  return ADJ_OK;
}

template <class T>
adj_status search(adji_gpu *gpu, const adji_brute_job *job, uint64_t first, uint64_t rows) {
  uint64_t size = job->dim * sizeof(T);
  adji_distance_job shape = {};
  shape.type = job->type;
  shape.measure = job->measure;
  shape.dim = job->dim;
  shape.rows = static_cast<uint32_t>(rows);
  shape.columns = static_cast<uint32_t>(job->right_count);
  shape.queries = static_cast<const char *>(job->left) + (job->first_row + first - job->left_first) * size;
  shape.points = job->right;
  shape.first_row = job->first_row + first;
  shape.first_point = job->right_first;
  shape.drop_self = job->drop_self;
  shape.limit = job->limit;
  fused_job<T> typed = {distances_of<T>(&shape),
                        job->k,
                        static_cast<uint32_t>(job->right_first),
                        job->root,
                        job->ids + first * job->k,
                        static_cast<T *>(job->distances) + first * job->k};
  switch (job->measure->step) {
    case ADJI_STEP_L2:
      return launch<T, ADJI_STEP_L2>(gpu, typed);
    case ADJI_STEP_L1:
      return launch<T, ADJI_STEP_L1>(gpu, typed);
    default:
      return launch<T, ADJI_STEP_LINF>(gpu, typed);
  }
}

}  // namespace

adj_status adji_brute_fused(adji_gpu *gpu, const adji_brute_job *job) {
  const uint64_t most = UINT64_C(1) << 30; /* rows per launch */
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; first < job->queries && !status; first += most) {
    uint64_t rows = job->queries - first < most ? job->queries - first : most;
    status = job->type == ADJ_F64 ? search<double>(gpu, job, first, rows) : search<float>(gpu, job, first, rows);
  }
  return status;
}
