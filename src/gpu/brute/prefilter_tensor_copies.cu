/* SPDX-License-Identifier: MIT
 *
 * Half-precision copies for brute force: their centre, their scale, and their errors. Limited by memory: each
 * coordinate is read once and written once, in half its size.
 */
#include <cuda_fp16.h>

#include "gpu/brute/prefilter_tensor.cuh"
#include "gpu/brute/prefilter_tensor_tiles.cuh"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;
enum { THREADS = 256, AT_ONCE = 8, SAMPLE = 256, BINS = 1024, MOST_STRAYS = 64 };

/* The largest coordinate of the sample is scaled to about this value. That leaves room for much larger and much smaller
 * ones. */
#define AIM 0x1p10

/* ---- The frame ------------------------------------------------------------------------------- */

/* centre[j] = median of dimension j in a sample, so that a few distant points do not move it. One block per dimension:
 * a bitonic network sorts 256 values in shared memory, one per thread. rows, centre and frame are in device memory;
 * frame->spread is the largest distance from the centre, by atomicMax. */
template <class T>
__global__ void find_centre(const T *rows, uint64_t count, uint32_t dim, T *centre, adji_tensor_frame *frame) {
  __shared__ double values[SAMPLE];
  uint32_t i = threadIdx.x, j = blockIdx.x;
  values[i] = static_cast<double>(rows[count * i / SAMPLE * dim + j]);
  for (uint32_t size = 2; size <= SAMPLE; size *= 2)
    for (uint32_t step = size / 2; step; step /= 2) {
      __syncthreads();
      uint32_t other = i ^ step;
      if (other < i) continue;
      double a = values[i], b = values[other];
      if ((a > b) == ((i & size) == 0)) values[i] = b, values[other] = a;
    }
  __syncthreads();
  if (i) return;
  double middle = values[SAMPLE / 2], below = middle - values[0], above = values[SAMPLE - 1] - middle;
  centre[j] = static_cast<T>(middle);
  atomicMax(&frame->spread, static_cast<unsigned long long>(__double_as_longlong(below > above ? below : above)));
}

__global__ void choose_scale(adji_tensor_frame *frame) {
  double largest = __longlong_as_double(static_cast<long long>(frame->spread));
  int exponent = largest > 0 && largest < INFINITY ? ilogb(largest) : 0;
  frame->scale = ldexp(AIM, exponent > -1000 ? -exponent : 1000);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* What is copied: entry i is row numbers[i], or row (first + i * stride) modulo `of`; entries from `count` on are 0. */
template <class T>
struct copying {
  const T *rows;
  const uint32_t *numbers;
  uint64_t first, stride, of;
  uint64_t base; /* the number of the first row at `rows` */
  uint64_t count, capacity;
  uint32_t dim, width, lanes; /* lanes: per row, a power of two */
  bool fours;                 /* four coordinates can be read at once */
  const T *centre;
  const adji_tensor_frame *frame;
  uint4 *values;
};

template <class T>
__device__ __forceinline__ uint64_t row_of(const copying<T> &c, uint64_t i) {
  if (c.numbers) return c.numbers[i];
  return (c.first + i * c.stride) % c.of;
}

/* Loads eight values; those past the last dimension are 0. */
__device__ __forceinline__ void load_eight(const float *from, float (&to)[AT_ONCE]) {
  float4 low = __ldg(reinterpret_cast<const float4 *>(from)), high = __ldg(reinterpret_cast<const float4 *>(from) + 1);
  to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
  to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}
__device__ __forceinline__ void load_eight(const double *from, double (&to)[AT_ONCE]) {
#pragma unroll
  for (uint32_t k = 0; k < AT_ONCE; k += 2) {
    double2 two = __ldg(reinterpret_cast<const double2 *>(from + k));
    to[k] = two.x, to[k + 1] = two.y;
  }
}
template <class T>
__device__ __forceinline__ void load_values(const T *from, bool fours, uint32_t first, uint32_t dim, T (&to)[AT_ONCE]) {
  if (fours && first + AT_ONCE <= dim) return load_eight(from + first, to);
#pragma unroll
  for (uint32_t k = 0; k < AT_ONCE; k++)
    to[k] = first + k < dim ? from[first + k] : 0;
}

/* Copies eight coordinates of a row as halves and adds their part to the sums of squares. In the type of the points z
 * is off by half an ulp, z - x^ is exact, and the squares of halves are exact; eight squares are added up before their
 * sum becomes f64. */
template <class T>
__device__ __forceinline__ uint4 copy_eight(const copying<T> &c, uint64_t row, uint32_t first,
                                            adji_tensor_scaling<T> scale, T *rest_sq, double *norm_sq) {
  __half eight[AT_ONCE];
  T x[AT_ONCE], centre[AT_ONCE], sum = 0;
  load_values(c.rows + (row - c.base) * c.dim, c.fours, first, c.dim, x);
  load_values(c.centre, c.fours, first, c.dim, centre);
#pragma unroll
  for (uint32_t k = 0; k < AT_ONCE; k++) {
    T z = (x[k] - centre[k]) * scale.first * scale.second;
    T most = static_cast<T>(ADJI_HALVES_LARGEST);
    eight[k] = __half(z > most ? most : z < -most ? -most : z);
    T rounded = static_cast<T>(__half2float(eight[k])), rest = z - rounded;
    *rest_sq += rest * rest;
    sum += rounded * rounded;
  }
  *norm_sq += static_cast<double>(sum);
  uint4 packed;
  memcpy(&packed, eight, sizeof packed);
  return packed;
}

/* Copies a row with `lanes` lanes, each of which takes eight halves at a time. Every lane returns the row's sums. */
template <class T>
__device__ __forceinline__ void copy_row(const copying<T> &c, uint64_t i, uint32_t lane, T *rest_sq, double *norm_sq) {
  uint64_t row = i < c.count ? row_of(c, i) : 0;
  adji_tensor_scaling<T> scale = adji_tensor_scale_for(c.frame->scale, T());
  *rest_sq = 0;
  *norm_sq = 0;
  for (uint32_t first = lane * AT_ONCE; first < c.width && i < c.capacity; first += c.lanes * AT_ONCE) {
    uint4 packed = {0, 0, 0, 0};
    if (i < c.count) packed = copy_eight(c, row, first, scale, rest_sq, norm_sq);
    c.values[(i * c.width + first) / AT_ONCE] = packed;
  }
  for (uint32_t step = c.lanes / 2; step; step /= 2) {
    *rest_sq += __shfl_xor_sync(ALL_LANES, *rest_sq, step);
    *norm_sq += __shfl_xor_sync(ALL_LANES, *norm_sq, step);
  }
}

/* Bins ascend with the error; there are eight bins per binade. */
__device__ __forceinline__ uint32_t bin_of(float error) {
  uint32_t eighths = __float_as_uint(error) >> 20;
  uint32_t low = (127 - 80) << 3;
  return eighths < low ? 0 : eighths - low < BINS ? eighths - low : BINS - 1;
}
__device__ __forceinline__ float end_of_bin(uint32_t bin) {
  return bin + 1 >= BINS ? INFINITY : __uint_as_float((bin + 1 + ((127 - 80) << 3)) << 20);
}

/* Copies the candidates. starts: -v or, past the last candidate, a value that never passes. bins: the histogram of
 * errors; each block first makes its own in shared memory. All arrays in device memory; `lanes` lanes per row. */
template <class T>
__global__ void copy_points(const copying<T> c, float *starts, float *errors, uint32_t *bins) {
  __shared__ uint32_t block_bins[BINS];
  for (uint32_t b = threadIdx.x; b < BINS; b += THREADS)
    block_bins[b] = 0;
  __syncthreads();
  uint64_t thread = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x, i = thread / c.lanes;
  T rest_sq;
  double norm_sq;
  copy_row(c, i, static_cast<uint32_t>(thread % c.lanes), &rest_sq, &norm_sq);
  if (thread % c.lanes == 0 && i < c.capacity) {
    float error = i < c.count ? adji_tensor_error(static_cast<double>(rest_sq), norm_sq) : 0;
    starts[i] = i < c.count ? static_cast<float>(-norm_sq / 2) : -ADJI_HALVES_ABSENT;
    errors[i] = error;
    if (i < c.count) atomicAdd(&block_bins[bin_of(error)], 1);
  }
  __syncthreads();
  for (uint32_t b = threadIdx.x; b < BINS; b += THREADS)
    if (block_bins[b]) atomicAdd(bins + b, block_bins[b]);
}

/* Chooses `most` such that at most MOST_STRAYS errors are larger. One warp; each lane sums its part of the bins. */
__global__ void choose_most(const uint32_t *bins, adji_tensor_frame *frame) {
  uint32_t lane = threadIdx.x, each = BINS / ADJI_WARP, above = 0;
  uint64_t sum = 0;
  for (uint32_t b = lane * each; b < (lane + 1) * each; b++)
    sum += bins[b];
  for (uint32_t l = ADJI_WARP; l-- > 0;) { /* from the top */
    uint64_t part = __shfl_sync(ALL_LANES, sum, l);
    if (above + part > MOST_STRAYS || l == 0) {
      uint32_t b = (l + 1) * each;
      while (b > l * each && above + bins[b - 1] <= MOST_STRAYS)
        above += bins[--b];
      if (lane == 0) frame->most = b ? end_of_bin(b - 1) : 0;
      return;
    }
    above += static_cast<uint32_t>(part);
  }
}

/* Makes points with a larger error strays, which always pass. One thread per point. */
__global__ void mark_strays(const adji_tensor_frame *frame, const float *errors, uint64_t count, float *starts) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count && !(errors[i] <= frame->most)) starts[i] = ADJI_HALVES_PASS;
}

/* Copies the queries and describes them. `lanes` lanes per row; all arrays in device memory. */
template <class T>
__global__ void copy_queries(const copying<T> c, adji_tensor_query *query_info) {
  uint64_t thread = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x, i = thread / c.lanes;
  T rest_sq;
  double norm_sq;
  copy_row(c, i, static_cast<uint32_t>(thread % c.lanes), &rest_sq, &norm_sq);
  if (thread % c.lanes || i >= c.count) return;
  query_info[i] = adji_tensor_query{norm_sq, adji_tensor_error(static_cast<double>(rest_sq), norm_sq),
                                    static_cast<uint32_t>(row_of(c, i))};
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* What the copies of points and of queries have in common. */
template <class T>
copying<T> copying_of(const adji_tensor_points *points, const void *rows) {
  copying<T> c = {};
  c.rows = static_cast<const T *>(rows);
  c.dim = points->rules.dim;
  c.width = points->rules.width;
  c.lanes = 1;
  while (c.lanes < ADJI_WARP && c.lanes * AT_ONCE < c.width)
    c.lanes *= 2;
  c.fours = c.dim % 4 == 0 && reinterpret_cast<uintptr_t>(rows) % 16 == 0;
  c.centre = adji_at<T>(points->centre);
  c.frame = adji_at<adji_tensor_frame>(points->frame);
  return c;
}

template <class T>
adj_status find_frame(adji_gpu *gpu, const adji_brute_job *job, const adji_tensor_points *to) {
  adji_tensor_frame *frame = adji_at<adji_tensor_frame>(to->frame);
  ADJI_CUDA(gpu, cudaMemsetAsync(frame, 0, sizeof *frame, gpu->compute));
  find_centre<T><<<job->dim, SAMPLE, 0, gpu->compute>>>(static_cast<const T *>(job->right), job->right_count, job->dim,
                                                        adji_at<T>(to->centre), frame);
  ADJI_LAUNCHED(gpu, "find_centre");
  choose_scale<<<1, 1, 0, gpu->compute>>>(frame);
  ADJI_LAUNCHED(gpu, "choose_scale");
  return ADJ_OK;
}

template <class T>
adj_status copy_all(adji_gpu *gpu, const adji_brute_job *job, const adji_tensor_points *to, uint32_t *bins) {
  adji_tensor_frame *frame = adji_at<adji_tensor_frame>(to->frame);
  copying<T> c = copying_of<T>(to, job->right);
  c.numbers = adji_at<uint32_t>(to->order);
  c.stride = to->stride;
  c.of = c.count = to->count;
  c.capacity = to->capacity;
  c.values = adji_at<uint4>(to->values);
  float *starts = adji_at<float>(to->starts), *errors = adji_at<float>(to->errors);
  copy_points<T><<<adji_blocks_for(c.capacity * c.lanes, THREADS), THREADS, 0, gpu->compute>>>(c, starts, errors, bins);
  ADJI_LAUNCHED(gpu, "copy_points");
  choose_most<<<1, ADJI_WARP, 0, gpu->compute>>>(bins, frame);
  ADJI_LAUNCHED(gpu, "choose_most");
  mark_strays<<<adji_blocks_for(to->count, THREADS), THREADS, 0, gpu->compute>>>(frame, errors, to->count, starts);
  ADJI_LAUNCHED(gpu, "mark_strays");
  return ADJ_OK;
}

template <class T>
adj_status copy_batch(adji_gpu *gpu, const adji_tensor_batch *to) {
  const adji_brute_job *job = to->job;
  copying<T> c = copying_of<T>(to->points, job->left);
  c.numbers = job->numbers;
  c.stride = 1;
  c.first = job->first_row;
  c.of = UINT64_MAX;
  c.base = job->left_first;
  c.count = job->queries;
  c.capacity = to->row_capacity;
  c.values = adji_at<uint4>(to->values);
  copy_queries<T><<<adji_blocks_for(c.capacity * c.lanes, THREADS), THREADS, 0, gpu->compute>>>(
      c, adji_at<adji_tensor_query>(to->query_info));
  ADJI_LAUNCHED(gpu, "copy_queries");
  return ADJ_OK;
}

uint64_t divisor_of(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* A stride through all points that visits distant parts of them one after the other: the first number from the golden
 * section of their count on that has no common divisor with the count. */
uint64_t stride_of(uint64_t count) {
  uint64_t stride = static_cast<uint64_t>(static_cast<double>(count) * 0.6180339887498949);
  while (stride < 2 || divisor_of(count, stride) != 1)
    stride++;
  return stride;
}

adj_status copy_in_order(adji_gpu *gpu, const adji_brute_job *job, const adji_tensor_points *to, adji_block *bins) {
  ADJI_CUDA(gpu, cudaMemsetAsync(bins->at, 0, bins->bytes, gpu->compute));
  uint32_t *at = adji_at<uint32_t>(*bins);
  return job->type == ADJ_F64 ? copy_all<double>(gpu, job, to, at) : copy_all<float>(gpu, job, to, at);
}

adj_status make_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to, adji_block *bins) {
  const char *what = "half-precision points";
  adj_status status = adji_block_get(gpu, gpu->compute, to->capacity * to->row_bytes, what, &to->values);
  if (!status) status = adji_block_get(gpu, gpu->compute, to->capacity * sizeof(float), what, &to->starts);
  if (!status) status = adji_block_get(gpu, gpu->compute, to->capacity * sizeof(float), what, &to->errors);
  if (!status) status = adji_block_get(gpu, gpu->compute, BINS * sizeof(uint32_t), "errors", bins);
  if (!status) status = adji_tensor_find_frame(gpu, job, to);
  if (status) return status;
  return copy_in_order(gpu, job, to, bins);
}

/* Copies the points again, in tree order, which is found from the copies in the points' own order. */
adj_status order_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to, adji_block *bins) {
  adji_order_job order = {to->values.at, to->count, to->rules.dim, to->rules.width};
  adji_block numbers = {};
  adj_status status = adji_block_get(gpu, gpu->compute, to->count * sizeof(uint32_t), "order of the points", &numbers);
  if (!status) status = adji_tile_order(gpu, &order, adji_at<uint32_t>(numbers));
  to->order = numbers;
  if (!status) status = copy_in_order(gpu, job, to, bins);
  return status ? status : adji_tile_boxes(gpu, to);
}

/* rows = numbers[order[i]], or first + order[i] if numbers is NULL, for runs of RUN_ROWS positions i that are visited
 * in steps of `stride` runs. So a batch of queries is a sample of all queries, but each block still has neighbouring
 * queries. Positions after the last whole run stay in place. One thread per row; all arrays in device memory. */
enum { RUN_ROWS = 2048 };
__global__ void spread_rows(const uint32_t *order, uint64_t count, uint64_t stride, const uint32_t *numbers,
                            uint32_t first, uint32_t *rows) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x, runs = count / RUN_ROWS, run = i / RUN_ROWS;
  if (i >= count) return;
  uint64_t from = run < runs ? run * stride % runs * RUN_ROWS + i % RUN_ROWS : i;
  rows[i] = numbers ? numbers[order[from]] : first + order[from];
}

/* Finds the tree order of queries that are not the right points. */
adj_status order_rows(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job, adji_block *order) {
  adji_tensor_batch all = {points, job, job->queries};
  const char *what = "half-precision queries";
  adj_status status = adji_block_get(gpu, gpu->compute, job->queries * points->row_bytes, what, &all.values);
  if (!status)
    status = adji_block_get(gpu, gpu->compute, job->queries * sizeof(adji_tensor_query), what, &all.query_info);
  if (!status) status = adji_block_get(gpu, gpu->compute, job->queries * sizeof(uint32_t), what, order);
  if (!status) status = adji_tensor_copy_queries(gpu, &all);
  adji_order_job orders = {all.values.at, job->queries, points->rules.dim, points->rules.width};
  if (!status) status = adji_tile_order(gpu, &orders, adji_at<uint32_t>(*order));
  adji_tensor_batch_clear(gpu, &all);
  return status;
}

}  // namespace

adj_status adji_tensor_find_frame(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to) {
  adj_status status = adji_block_get(gpu, gpu->compute, job->dim * sizeof(double), "centre of the points", &to->centre);
  if (!status) status = adji_block_get(gpu, gpu->compute, sizeof(adji_tensor_frame), "scale of the points", &to->frame);
  if (status) return status;
  return job->type == ADJ_F64 ? find_frame<double>(gpu, job, to) : find_frame<float>(gpu, job, to);
}

adj_status adji_tensor_copy_points(adji_gpu *gpu, const adji_brute_job *job, bool ordered, adji_tensor_points *to) {
  *to = adji_tensor_points{};
  to->rules = adji_tensor_rules_of(job->dim, job->type == ADJ_F64);
  to->row_bytes = to->rules.width * 2;
  to->count = job->right_count;
  to->capacity = adji_rounded_up(job->right_count, ADJI_TENSOR_TILE);
  to->stride = ordered ? 1 : stride_of(to->count);
  adji_block bins = {};
  adj_status status = make_points(gpu, job, to, &bins);
  if (!status && ordered) status = order_points(gpu, job, to, &bins);
  adji_block_free(gpu, gpu->compute, &bins);
  adji_block_free(gpu, gpu->compute, &to->errors); /* they are no longer needed: the frame and the starts remain */
  if (status) adji_tensor_points_clear(gpu, to);
  return status;
}

void adji_tensor_points_clear(adji_gpu *gpu, adji_tensor_points *points) {
  adji_blocks_free(gpu, {&points->centre, &points->frame, &points->values, &points->starts, &points->errors,
                         &points->order, &points->boxes});
}

adj_status adji_tensor_copy_queries(adji_gpu *gpu, const adji_tensor_batch *batch) {
  return batch->job->type == ADJ_F64 ? copy_batch<double>(gpu, batch) : copy_batch<float>(gpu, batch);
}

adj_status adji_tensor_order_queries(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                     uint32_t *rows) {
  adji_block order = {};
  bool same = job->left == job->right && !job->numbers && !job->first_row && job->queries == points->count;
  adj_status status = same ? ADJ_OK : order_rows(gpu, points, job, &order);
  if (!status && job->queries) {
    uint64_t runs = job->queries / RUN_ROWS;
    const uint32_t *from = adji_at<uint32_t>(same ? points->order : order);
    spread_rows<<<adji_blocks_for(job->queries, THREADS), THREADS, 0, gpu->compute>>>(
        from, job->queries, runs > 2 ? stride_of(runs) : 1, job->numbers, static_cast<uint32_t>(job->first_row), rows);
    adji_block_free(gpu, gpu->compute, &order);
    ADJI_LAUNCHED(gpu, "spread_rows");
  }
  adji_block_free(gpu, gpu->compute, &order);
  return status;
}
