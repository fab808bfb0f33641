/* SPDX-License-Identifier: MIT
 *
 * Brute force by matrix products: copies of the points, and tiles of queries and points, one after the other.
 *
 * 1. A tile is a matrix in device memory of products (cublas.cuh); norms are added in place.
 * 2. Selection lists the smallest values of its rows. If the right set is cut into column ranges, their lists are
 *    merged.
 * 3. A query with a complete list is certified or fails.
 * 4. After the last tile the canonical sums of the certified lists are computed.
 *
 * Memory, without the copies: the matrix, up to 4 GiB or a quarter of the available memory; the memory of selection;
 * one list per query of a matrix, 3 with several column ranges; up to 32 MiB for cuBLAS. If any of this does not fit,
 * the matrix is made smaller.
 */
#include "gpu/brute/prefilter_gemm.cuh"

#include <cfloat>

#include "gpu/brute/brute_matrix.cuh"
#include "gpu/device/cublas.cuh"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;
enum { THREADS = 256, ROWS_EACH = 8, MOST_BLOCKS_ACROSS = 65535 };

/* A batch of queries, and its current tile. */
struct tile_work : adji_brute_work {
  const adji_tensor_batch *batch;
};

/* ---- Copies: centred, scaled, with their norms ------------------------------------------------ */

template <class T>
struct copying {
  const T *rows; /* packed */
  uint64_t count;
  uint32_t dim, width, lanes; /* lanes: per row, a power of two */
  const T *centre;
  const adji_tensor_frame *frame;
  T *values;
  /* For candidates: halves. For queries: query_info, and the row of the first query. One of the two pointers is
   * NULL. */
  T *halves;
  adji_tensor_query *query_info;
  uint64_t first_row;
};

/* Writes what follows from the norm of row i: h for a candidate, the whole description for a query. */
template <class T>
__device__ __forceinline__ void describe_row(const copying<T> &c, uint64_t i, double norm_sq) {
  bool stray = adji_gemm_is_stray(norm_sq);
  if (c.halves)
    c.halves[i] = stray ? T(-INFINITY) : static_cast<T>(norm_sq / 2);
  else
    c.query_info[i] =
        adji_tensor_query{stray ? static_cast<double>(INFINITY) : norm_sq, adji_gemm_error(norm_sq, sizeof(T) == 8),
                          static_cast<uint32_t>(c.first_row + i)};
}

/* x^ = (x - c) * scale, and the sum of its squares in f64. Input and output in device memory. A row is copied by
 * `lanes` neighbouring lanes, which read and write neighbouring coordinates; those past the last dimension become 0.
 * Shuffles add up the norm. Limited by memory. */
template <class T>
__global__ void copy_rows(const __grid_constant__ copying<T> c) {
  uint64_t thread = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x, i = thread / c.lanes;
  uint32_t lane = static_cast<uint32_t>(thread % c.lanes);
  adji_tensor_scaling<T> scale = adji_tensor_scale_for(c.frame->scale, T());
  double norm_sq = 0;
  for (uint32_t j = lane; j < c.width && i < c.count; j += c.lanes) {
    T z = j < c.dim ? (c.rows[i * c.dim + j] - c.centre[j]) * scale.first * scale.second : T(0);
    c.values[i * c.width + j] = z;
    norm_sq += static_cast<double>(z) * static_cast<double>(z);
  }
  for (uint32_t step = c.lanes / 2; step; step /= 2)
    norm_sq += __shfl_xor_sync(ALL_LANES, norm_sq, step);
  if (lane == 0 && i < c.count) describe_row(c, i, norm_sq);
}

template <class T>
adj_status launch(adji_gpu *gpu, copying<T> c, const adji_tensor_points *points) {
  c.dim = points->rules.dim;
  c.width = points->rules.width;
  c.lanes = 1;
  while (c.lanes < ADJI_WARP && c.lanes < c.width)
    c.lanes *= 2;
  c.centre = adji_at<T>(points->centre);
  c.frame = adji_at<adji_tensor_frame>(points->frame);
  copy_rows<T><<<adji_blocks_for(c.count * c.lanes, THREADS), THREADS, 0, gpu->compute>>>(c);
  ADJI_LAUNCHED(gpu, "copy_rows");
  return ADJ_OK;
}

template <class T>
adj_status copy_points(adji_gpu *gpu, const adji_brute_job *job, const adji_tensor_points *to) {
  copying<T> c = {};
  c.rows = static_cast<const T *>(job->right);
  c.count = to->count;
  c.values = adji_at<T>(to->values);
  c.halves = adji_at<T>(to->starts);
  return launch(gpu, c, to);
}

template <class T>
adj_status copy_queries(adji_gpu *gpu, const adji_tensor_batch *to) {
  const adji_brute_job *job = to->job;
  copying<T> c = {};
  c.rows = static_cast<const T *>(job->left) + (job->first_row - job->left_first) * job->dim;
  c.count = job->queries;
  c.values = adji_at<T>(to->values);
  c.query_info = adji_at<adji_tensor_query>(to->query_info);
  c.first_row = job->first_row;
  return launch(gpu, c, to->points);
}

adj_status make_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to) {
  const char *what = "points for products";
  adj_status status = adji_block_get(gpu, gpu->compute, adji_mul(to->count, to->row_bytes), what, &to->values);
  if (!status) status = adji_block_get(gpu, gpu->compute, to->count * adji_type_size(job->type), what, &to->starts);
  if (!status) status = adji_tensor_find_frame(gpu, job, to);
  if (status) return status;
  return job->type == ADJ_F64 ? copy_points<double>(gpu, job, to) : copy_points<float>(gpu, job, to);
}

/* ---- Norms ----------------------------------------------------------------------------------- */

/* 16 bytes of a row of the matrix. */
template <class T>
struct alignas(16) part {
  enum { COUNT = 16 / sizeof(T) };
  T at[COUNT];
};

/* The values of some queries with a range of the right set. first_row, first_point: rows of their sets. */
template <class T>
struct values_of {
  uint64_t rows, columns, stride, first_row, first_point;
  bool drop_self;
  const T *halves; /* h of the points */
  T *values;
};

template <class T>
__device__ __forceinline__ T value_of(T product, T half, bool self) {
  return self ? T(NAN) : half == T(-INFINITY) ? half : product + half;
}

/* value = h - x^y^, in place; NaN for a point with itself, minus infinity for strays. Selection then takes the smallest
 * values. The matrix, in device memory, holds -x^y^. A thread owns 16 bytes of columns, whose h it keeps in registers,
 * and every gridDim.y-th row; a block has 256 threads side by side. Limited by memory: each value is read and written
 * once. */
template <class T>
__global__ void add_norms(const __grid_constant__ values_of<T> job) {
  enum { COUNT = part<T>::COUNT };
  uint64_t first = (static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x) * COUNT;
  if (first >= job.columns) return;
  T halves[COUNT];
#pragma unroll
  for (uint32_t c = 0; c < COUNT; c++)
    halves[c] = first + c < job.columns ? job.halves[first + c] : T(0);
#pragma unroll 4
  for (uint64_t row = blockIdx.y; row < job.rows; row += gridDim.y) {
    T *to = job.values + row * job.stride + first;
    uint64_t own = job.first_row + row - job.first_point; /* wraps to a huge number if that point is not in the range */
    if (first + COUNT <= job.columns) {
      part<T> vector = *reinterpret_cast<const part<T> *>(to);
#pragma unroll
      for (uint32_t c = 0; c < COUNT; c++)
        vector.at[c] = value_of(vector.at[c], halves[c], job.drop_self && first + c == own);
      *reinterpret_cast<part<T> *>(to) = vector;
    } else {
#pragma unroll
      for (uint32_t c = 0; c < COUNT; c++)
        if (first + c < job.columns) to[c] = value_of(to[c], halves[c], job.drop_self && first + c == own);
    }
  }
}

template <class T>
adj_status launch_norms(tile_work *w, uint64_t first, uint64_t columns) {
  values_of<T> v = {w->tile.rows,
                    columns,
                    w->tile.stride,
                    w->job->first_row + w->first,
                    w->job->right_first + first,
                    w->job->drop_self,
                    adji_at<T>(w->batch->points->starts) + first,
                    adji_at<T>(w->matrix)};
  uint32_t across = adji_blocks_for(v.rows, ROWS_EACH), most = MOST_BLOCKS_ACROSS;
  dim3 grid(adji_blocks_for(columns, THREADS * part<T>::COUNT), across < most ? across : most);
  add_norms<T><<<grid, THREADS, 0, w->gpu->compute>>>(v);
  ADJI_LAUNCHED(w->gpu, "add_norms");
  return ADJ_OK;
}

/* ---- The certificate ------------------------------------------------------------------------- */

/* For queries first .. first + rows - 1 of a batch. The view's arrays begin with query `first`; its capacity is the
 * length of a list. */
template <class T>
struct certifying : adji_tensor_view {
  uint64_t rows;
  bool all;                  /* every pair is listed */
  const uint32_t *positions; /* ascending by value; infinity after the last */
  const T *values;
};

/* The number of the ascending values that are not above the limit. */
template <class T>
__device__ __forceinline__ uint32_t count_up_to(const T *values, uint32_t count, double limit) {
  uint32_t low = 0, high = count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    bool in = static_cast<double>(__ldg(values + middle)) <= limit;
    low = in ? middle + 1 : low;
    high = in ? high : middle;
  }
  return low;
}

/* The largest value, -w', that a point may have and belong, from `count` values. */
template <class T>
__device__ __forceinline__ double largest_of(const certifying<T> &job, const adji_tensor_query &query_info,
                                             const T *values, uint32_t count) {
  double scale = job.frame->scale, error = static_cast<double>(query_info.error), reach = INFINITY;
  uint32_t strays = count_up_to(values, count, -INFINITY);
  if (job.limit < INFINITY) reach = adji_tensor_reach_of(&job.rules, scale, job.limit);
  if (count - strays >= job.k) {
    double w = -static_cast<double>(__ldg(values + strays + job.k - 1));
    double nearer =
        adji_tensor_reach(&job.rules, scale, adji_tensor_farthest(&job.rules, query_info.norm_sq, w), error);
    if (nearer < reach) reach = nearer;
  }
  return reach < INFINITY ? -adji_tensor_smallest(&job.rules, query_info.norm_sq, reach, error) : INFINITY;
}

/* Certifies lists; prefilter_gemm.h has the proof. One warp per query; lists and output in device memory.
 * 1. Compute the bound.
 * 2. Count the listed pairs within it.
 * 3. If the whole list is within it, the query fails, unless every pair is listed.
 * 4. Otherwise these pairs go to adji_tensor_refine.
 *
 * Small beside the rest. */
template <class T>
__global__ void certify(const __grid_constant__ certifying<T> job) {
  uint64_t query = (static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x) / ADJI_WARP;
  uint32_t lane = threadIdx.x % ADJI_WARP;
  if (query >= job.rows) return;
  const adji_tensor_query query_info = job.query_info[query];
  const T *values = job.values + query * job.capacity;
  const uint32_t *positions = job.positions + query * job.capacity;
  uint32_t count = count_up_to(values, job.capacity, DBL_MAX);
  uint32_t within = count_up_to(values, count, largest_of(job, query_info, values, count));
  bool proved = query_info.norm_sq < INFINITY && (job.all || within < job.capacity);
  if (lane == 0) {
    job.bounds[query] = proved ? 0 : INFINITY;
    job.counts[query] = within;
    if (!proved) adji_tensor_fail(job, query_info.row);
  }
  for (uint32_t i = lane; i < within && proved; i += ADJI_WARP)
    job.passed[query * job.capacity + i] = uint2{0, positions[i]};
}

template <class T>
adj_status launch_certify(tile_work *w) {
  certifying<T> c = {adji_tensor_view_of(w->batch)};
  c.query_info += w->first;
  c.bounds += w->first;
  c.counts += w->first;
  c.passed += w->first * c.capacity;
  c.rows = w->tile.rows;
  c.all = c.capacity == c.point_count;
  c.positions = w->lists.best.ids;
  c.values = static_cast<const T *>(w->lists.best.sums);
  certify<T><<<adji_blocks_for(c.rows * ADJI_WARP, THREADS), THREADS, 0, w->gpu->compute>>>(c);
  ADJI_LAUNCHED(w->gpu, "certify");
  return ADJ_OK;
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

adj_status multiply(tile_work *w, uint64_t first, uint64_t columns) {
  const adji_tensor_points *points = w->batch->points;
  adji_products p = {};
  p.type = w->job->type;
  p.width = points->rules.width;
  p.rows = w->tile.rows;
  p.columns = columns;
  p.stride = w->tile.stride;
  p.x = adji_at<char>(w->batch->values) + w->first * points->row_bytes;
  p.y = adji_at<char>(points->values) + first * points->row_bytes;
  p.values = w->matrix.at;
  return adji_cublas_multiply(w->gpu, &p);
}

template <class T>
adj_status search_tile(tile_work *w) {
  uint64_t count = w->job->right_count;
  adj_status status = adji_brute_running_get(w->gpu, &w->lists, NULL, w->tile.columns < count);
  for (uint64_t first = 0; first < count && !status; first += w->tile.columns) {
    uint64_t columns = count - first < w->tile.columns ? count - first : w->tile.columns;
    status = multiply(w, first, columns);
    if (!status) status = launch_norms<T>(w, first, columns);
    if (!status) status = adji_brute_select(w, columns, adji_brute_running_next(&w->lists));
    if (!status) status = adji_brute_running_add_columns(w->gpu, &w->lists, first);
  }
  return status ? status : launch_certify<T>(w);
}

/* Gets memory for cuBLAS and finds the lists of all queries. */
adj_status list_all(const tile_work &all) {
  adji_gpu *gpu = all.gpu;
  uint64_t bytes = adji_gpu_available(gpu) / 16, least = ADJI_CUBLAS_LEAST_ROOM, most = ADJI_CUBLAS_ROOM;
  bytes = bytes < least ? least : bytes < most ? adji_rounded_up(bytes, least) : most;
  adji_block workspace = {};
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "cuBLAS workspace", &workspace);
  if (!status) status = adji_cublas_begin(gpu, &workspace);
  if (!status)
    status = adji_brute_search_tiles(all, all.job->type == ADJ_F64 ? search_tile<double> : search_tile<float>);
  adji_block_free(gpu, gpu->compute, &workspace);
  return status;
}

}  // namespace

bool adji_gemm_can(const adji_brute_job *job) {
  return adji_tensor_can(job) && job->k <= ADJI_GEMM_MOST_K;
}

uint64_t adji_gemm_query_bytes(const adji_brute_job *job) {
  return adji_gemm_width(job->dim) * adji_type_size(job->type) + sizeof(adji_tensor_query) + 12 +
         adji_gemm_listed(job->k, job->right_count) * sizeof(uint2);
}

adj_status adji_gemm_copy_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to) {
  *to = adji_tensor_points{};
  to->rules = adji_gemm_rules_of(job->dim, job->type == ADJ_F64);
  to->row_bytes = to->rules.width * adji_type_size(job->type);
  to->count = to->capacity = job->right_count;
  to->stride = 1;
  adj_status status = make_points(gpu, job, to);
  if (status) adji_tensor_points_clear(gpu, to);
  return status;
}

adj_status adji_gemm_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                            const adji_brute_choice *choice, adji_tensor_batch *batch, adji_tensor_outcome *out) {
  *out = adji_tensor_outcome{};
  if (!job->queries) return ADJ_OK;
  adji_tensor_rounds rounds = {adji_gemm_listed(job->k, points->count), 2, 0, 0};
  while (rounds.most < rounds.capacity || rounds.most < job->k)
    rounds.most *= 2;
  batch->points = points;
  batch->job = job;
  batch->rounds = rounds;
  tile_work all = {};
  all.gpu = gpu;
  all.job = job;
  all.choice = choice;
  all.k = rounds.capacity;
  all.batch = batch;
  adj_status status = adji_tensor_batch_get(gpu, batch);
  if (!status) status = job->type == ADJ_F64 ? copy_queries<double>(gpu, batch) : copy_queries<float>(gpu, batch);
  if (!status) status = list_all(all);
  if (!status) status = adji_tensor_refine(gpu, batch);
  return status ? status : adji_tensor_fetch(gpu, batch, out);
}
