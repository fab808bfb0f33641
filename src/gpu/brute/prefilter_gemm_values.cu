/* SPDX-License-Identifier: MIT
 *
 * Brute force by matrix products, around the products: adding norms, and certifying the lists of the smallest values.
 */
#include <cfloat>

#include "gpu/brute/prefilter_gemm.cuh"

namespace {

enum { THREADS = 256, ROWS_EACH = 8, MOST_BLOCKS_ACROSS = 65535 };

/* ---- Norms ----------------------------------------------------------------------------------- */

/* 16 bytes of a row of the matrix. */
template <class T>
struct alignas(16) part {
  enum { COUNT = 16 / sizeof(T) };
  T at[COUNT];
};

template <class T>
struct values_of {
  uint64_t rows, columns, stride, first_row, first_point;
  bool drop_self;
  const T *halves;
  T *values;
};

template <class T>
__device__ __forceinline__ T value_of(T product, T half, bool self) {
  return self ? T(NAN) : half == T(-INFINITY) ? half : product + half;
}

/* value = h - x^y^, in place; the matrix, in device memory, holds -x^y^. A thread owns 16 bytes of columns, whose h it
 * keeps in registers, and every gridDim.y-th row; a block has 256 threads side by side. Limited by memory: each value
 * is read and written once. */
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
    uint64_t own = job.first_row + row - job.first_point; /* wraps to a huge number if that point is not here */
    if (first + COUNT <= job.columns) {
      part<T> mine = *reinterpret_cast<const part<T> *>(to);
#pragma unroll
      for (uint32_t c = 0; c < COUNT; c++)
        mine.at[c] = value_of(mine.at[c], halves[c], job.drop_self && first + c == own);
      *reinterpret_cast<part<T> *>(to) = mine;
    } else {
#pragma unroll
      for (uint32_t c = 0; c < COUNT; c++)
        if (first + c < job.columns) to[c] = value_of(to[c], halves[c], job.drop_self && first + c == own);
    }
  }
}

template <class T>
adj_status launch_norms(adji_gpu *gpu, const adji_gemm_values *job) {
  values_of<T> v = {};
  v.rows = job->rows;
  v.columns = job->columns;
  v.stride = job->stride;
  v.first_row = job->first_row;
  v.first_point = job->first_point;
  v.drop_self = job->drop_self;
  v.halves = static_cast<const T *>(job->halves);
  v.values = static_cast<T *>(job->values);
  uint32_t across = adji_blocks_for(job->rows, ROWS_EACH), most = MOST_BLOCKS_ACROSS;
  dim3 grid(adji_blocks_for(job->columns, THREADS * part<T>::COUNT), across < most ? across : most);
  add_norms<T><<<grid, THREADS, 0, gpu->compute>>>(v);
  ADJI_LAUNCHED(gpu, "add_norms");
  return ADJ_OK;
}

/* ---- The certificate ------------------------------------------------------------------------- */

template <class T>
struct certifying {
  adji_tensor_rules rules;
  const adji_tensor_frame *frame;
  const adji_tensor_query *about;
  uint64_t rows;
  uint32_t k, listed;
  bool all; /* every pair is listed */
  double limit;
  const uint32_t *positions; /* `listed` per row, ascending by value; infinity after the last */
  const T *values;
  float *bounds;
  uint32_t *counts;
  uint2 *passed;
  uint32_t *failed;
};

/* How many of the ascending values are not above the limit. */
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

/* The largest value, -w', of what may belong, from `count` values. */
template <class T>
__device__ __forceinline__ double largest_of(const certifying<T> &job, const adji_tensor_query &about, const T *values,
                                             uint32_t count) {
  double scale = job.frame->scale, error = static_cast<double>(about.error), reach = INFINITY;
  uint32_t strays = count_up_to(values, count, -INFINITY);
  if (job.limit < INFINITY) reach = adji_tensor_reach_of(&job.rules, scale, job.limit);
  if (count - strays >= job.k) {
    double w = -static_cast<double>(__ldg(values + strays + job.k - 1));
    double nearer = adji_tensor_reach(&job.rules, scale, adji_tensor_farthest(&job.rules, about.norm_sq, w), error);
    if (nearer < reach) reach = nearer;
  }
  return reach < INFINITY ? -adji_tensor_smallest(&job.rules, about.norm_sq, reach, error) : INFINITY;
}

/* Certifies lists; prefilter_gemm.h has the proof. One warp per query; lists and output in device memory.
 * 1. Compute the bound.
 * 2. Count the listed pairs within it.
 * 3. If all of the list is within it, the query fails, unless no pair is missing.
 * 4. Otherwise these pairs go to adji_tensor_refine.
 *
 * Small beside the rest. */
template <class T>
__global__ void certify(const __grid_constant__ certifying<T> job) {
  uint64_t query = (static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x) / ADJI_WARP;
  uint32_t lane = threadIdx.x % ADJI_WARP;
  if (query >= job.rows) return;
  const adji_tensor_query about = job.about[query];
  const T *values = job.values + query * job.listed;
  const uint32_t *positions = job.positions + query * job.listed;
  uint32_t count = count_up_to(values, job.listed, DBL_MAX);
  uint32_t within = count_up_to(values, count, largest_of(job, about, values, count));
  bool proved = about.norm_sq < INFINITY && (job.all || within < job.listed);
  if (lane == 0) {
    job.bounds[query] = proved ? 0 : INFINITY;
    job.counts[query] = within;
    if (!proved) job.failed[2 + atomicAdd(job.failed, 1)] = about.row;
  }
  for (uint32_t i = lane; i < within && proved; i += ADJI_WARP)
    job.passed[query * job.listed + i] = uint2{0, positions[i]};
}

template <class T>
adj_status launch_certify(adji_gpu *gpu, const adji_gemm_lists *lists) {
  const adji_tensor_batch *batch = lists->batch;
  certifying<T> c = {};
  c.rules = lists->points->rules;
  c.frame = adji_at<adji_tensor_frame>(lists->points->frame);
  c.about = adji_at<adji_tensor_query>(batch->about) + lists->first;
  c.rows = lists->rows;
  c.k = lists->job->k;
  c.listed = batch->rounds.capacity;
  c.all = c.listed == lists->points->count;
  c.limit = lists->job->limit;
  c.positions = lists->positions;
  c.values = static_cast<const T *>(lists->values);
  c.bounds = adji_at<float>(batch->bounds) + lists->first;
  c.counts = adji_at<uint32_t>(batch->counts) + lists->first;
  c.passed = adji_at<uint2>(batch->passed) + lists->first * c.listed;
  c.failed = adji_at<uint32_t>(batch->failed);
  certify<T><<<adji_blocks_for(c.rows * ADJI_WARP, THREADS), THREADS, 0, gpu->compute>>>(c);
  ADJI_LAUNCHED(gpu, "certify");
  return ADJ_OK;
}

}  // namespace

adj_status adji_gemm_add_norms(adji_gpu *gpu, const adji_gemm_values *job) {
  if (!job->rows || !job->columns) return ADJ_OK;
  return job->type == ADJ_F64 ? launch_norms<double>(gpu, job) : launch_norms<float>(gpu, job);
}

adj_status adji_gemm_certify(adji_gpu *gpu, const adji_gemm_lists *lists) {
  if (!lists->rows) return ADJ_OK;
  return lists->job->type == ADJ_F64 ? launch_certify<double>(gpu, lists) : launch_certify<float>(gpu, lists);
}
