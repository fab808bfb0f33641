/* SPDX-License-Identifier: MIT
 *
 * What a plan needs to know about points on a device: bounds, a sample, and whether every coordinate is finite.
 *
 * A thread reads up to DIMS dimensions of many rows. Where dimensions are many and contiguous, it reads one dimension,
 * and the next thread the next one. A block combines its results in shared memory, then in device memory, as integers
 * with the order of the values. One pass over the points, limited by memory.
 */
#include <cmath>

#include "gpu/device/device.cuh"

extern "C" {
#include "gpu/device/survey.h"
}

enum { DIMS = 4, FEW_DIMS = 8, THREADS = 256, WARPS = THREADS / ADJI_WARP, ROWS_A_BLOCK = 2048 };

static __host__ __device__ uint64_t in_order(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? ~bits : bits | UINT64_C(0x8000000000000000);
}

static double from_order(uint64_t bits) {
  bits = bits >> 63 ? bits & UINT64_C(0x7fffffffffffffff) : ~bits;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* bounds: dim lows, dim highs, and the number of the first value (row * dim + column) that is not finite. */
template <class T>
static __global__ void find_bounds(adji_gpu_rows rows, unsigned long long *bounds) {
  uint32_t first = blockIdx.y * DIMS;
  uint64_t begin = static_cast<uint64_t>(blockIdx.x) * ROWS_A_BLOCK, bad = UINT64_MAX;
  uint64_t end = begin + ROWS_A_BLOCK < rows.count ? begin + ROWS_A_BLOCK : rows.count;
  T low[DIMS], high[DIMS];
#pragma unroll
  for (int d = 0; d < DIMS; d++) {
    low[d] = INFINITY;
    high[d] = -INFINITY;
  }
#pragma unroll 4
  for (uint64_t i = begin + threadIdx.x; i < end; i += THREADS) {
    const T *row = static_cast<const T *>(rows.data) + i * rows.row_stride;
#pragma unroll
    for (int d = 0; d < DIMS; d++) {
      if (first + d >= rows.dim) continue;
      T x = __ldg(row + (first + d) * rows.column_stride);
      low[d] = x < low[d] ? x : low[d];
      high[d] = x > high[d] ? x : high[d];
      if (!isfinite(x) && i * rows.dim + first + d < bad) bad = i * rows.dim + first + d;
    }
  }
  __shared__ T lows[DIMS][WARPS], highs[DIMS][WARPS];
  uint32_t warp = threadIdx.x / ADJI_WARP;
#pragma unroll
  for (int d = 0; d < DIMS; d++) {
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
      T l = __shfl_xor_sync(0xffffffffu, low[d], step), h = __shfl_xor_sync(0xffffffffu, high[d], step);
      low[d] = l < low[d] ? l : low[d];
      high[d] = h > high[d] ? h : high[d];
    }
    if (threadIdx.x % ADJI_WARP) continue;
    lows[d][warp] = low[d];
    highs[d][warp] = high[d];
  }
  __syncthreads();
  if (threadIdx.x < DIMS && first + threadIdx.x < rows.dim) { /* a thread per dimension */
    T least = lows[threadIdx.x][0], most = highs[threadIdx.x][0];
    for (int w = 1; w < WARPS; w++) {
      least = lows[threadIdx.x][w] < least ? lows[threadIdx.x][w] : least;
      most = highs[threadIdx.x][w] > most ? highs[threadIdx.x][w] : most;
    }
    atomicMin(bounds + first + threadIdx.x, static_cast<unsigned long long>(in_order(least)));
    atomicMax(bounds + rows.dim + first + threadIdx.x, static_cast<unsigned long long>(in_order(most)));
  }
  if (bad != UINT64_MAX) atomicMin(bounds + 2 * static_cast<uint64_t>(rows.dim), static_cast<unsigned long long>(bad));
}

/* The same for rows of many contiguous dimensions. A block has `wide` dimensions, a power of two up to THREADS, and
 * THREADS / wide rows at a time. */
template <class T>
static __global__ void find_bounds_across(adji_gpu_rows rows, uint32_t wide, unsigned long long *bounds) {
  __shared__ T lows[THREADS], highs[THREADS];
  uint32_t column = blockIdx.y * wide + threadIdx.x % wide, at_once = THREADS / wide;
  uint64_t begin = static_cast<uint64_t>(blockIdx.x) * ROWS_A_BLOCK, bad = UINT64_MAX;
  uint64_t end = begin + ROWS_A_BLOCK < rows.count ? begin + ROWS_A_BLOCK : rows.count;
  T low = INFINITY, high = -INFINITY;
  if (column < rows.dim) {
    const T *values = static_cast<const T *>(rows.data) + column;
#pragma unroll 8
    for (uint64_t i = begin + threadIdx.x / wide; i < end; i += at_once) {
      T x = __ldg(values + i * rows.row_stride);
      low = x < low ? x : low;
      high = x > high ? x : high;
      if (!isfinite(x) && i * rows.dim + column < bad) bad = i * rows.dim + column;
    }
  }
  lows[threadIdx.x] = low;
  highs[threadIdx.x] = high;
  __syncthreads();
  if (threadIdx.x < wide && column < rows.dim) {
    for (uint32_t t = threadIdx.x + wide; t < THREADS; t += wide) {
      low = lows[t] < low ? lows[t] : low;
      high = highs[t] > high ? highs[t] : high;
    }
    atomicMin(bounds + column, static_cast<unsigned long long>(in_order(low)));
    atomicMax(bounds + rows.dim + column, static_cast<unsigned long long>(in_order(high)));
  }
  if (bad != UINT64_MAX) atomicMin(bounds + 2 * static_cast<uint64_t>(rows.dim), static_cast<unsigned long long>(bad));
}

/* Sets the bounds to their initial values and takes the sample: one row, chosen by a hash, from each of `sample` equal
 * parts. */
template <class T>
static __global__ void begin_survey(adji_gpu_rows rows, unsigned long long *bounds, uint64_t sample, T *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x, highs = rows.dim, bad = 2 * highs;
  if (i <= bad) bounds[i] = i < highs || i == bad ? UINT64_MAX : 0;
  if (i >= sample) return;
  uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15), begin = rows.count / sample * i, each = rows.count / sample;
  hash ^= hash >> 29;
  const T *row = static_cast<const T *>(rows.data) + (begin + hash % each) * rows.row_stride;
  for (uint32_t j = 0; j < rows.dim; j++)
    to[i * rows.dim + j] = row[j * rows.column_stride];
}

typedef struct survey {
  adji_gpu *gpu;
  const adji_gpu_rows *points;
  uint64_t sample, bytes; /* rows, and their bytes */
  adji_block found;       /* bounds, then the sample */
  uint64_t *host;         /* the same on the host */
} survey;

template <class T>
static adj_status run_survey(survey *s) {
  const adji_gpu_rows *points = s->points;
  cudaStream_t stream = s->gpu->compute;
  uint64_t bounds = 2 * static_cast<uint64_t>(points->dim) + 1;
  unsigned long long *d_bounds = adji_at<unsigned long long>(s->found);
  begin_survey<T><<<adji_blocks_for(bounds > s->sample ? bounds : s->sample, THREADS), THREADS, 0, stream>>>(
      *points, d_bounds, s->sample, reinterpret_cast<T *>(d_bounds + bounds));
  ADJI_LAUNCHED(s->gpu, "begin_survey");
  bool across = points->dim > FEW_DIMS && points->column_stride == 1;
  uint32_t wide = FEW_DIMS;
  while (wide < points->dim && wide < THREADS)
    wide *= 2;
  dim3 grid(adji_blocks_for(points->count, ROWS_A_BLOCK), adji_blocks_for(points->dim, across ? wide : DIMS));
  if (across)
    find_bounds_across<T><<<grid, THREADS, 0, stream>>>(*points, wide, d_bounds);
  else
    find_bounds<T><<<grid, THREADS, 0, stream>>>(*points, d_bounds);
  ADJI_LAUNCHED(s->gpu, "find_bounds");
  ADJI_CUDA(s->gpu, cudaMemcpyAsync(s->host, d_bounds, bounds * 8 + s->bytes, cudaMemcpyDeviceToHost, stream));
  ADJI_CUDA(s->gpu, cudaStreamSynchronize(stream));
  return ADJ_OK;
}

static adj_status copy_out(const survey *s, double *low, double *high, void *rows) {
  uint32_t dim = s->points->dim;
  uint64_t bad = s->host[2 * static_cast<uint64_t>(dim)];
  if (bad != UINT64_MAX) return adji_gpu_refuse_value(bad, dim);
  for (uint32_t j = 0; j < dim; j++) {
    low[j] = from_order(s->host[j]);
    high[j] = from_order(s->host[dim + j]);
  }
  memcpy(rows, s->host + 2 * static_cast<uint64_t>(dim) + 1, s->bytes);
  return ADJ_OK;
}

adj_status adji_gpu_survey(adji_gpu *gpu, const adji_gpu_rows *points, double *low, double *high, uint64_t sample,
                           void *rows) {
  if (!points->count) return ADJ_OK;
  survey s = {gpu, points, sample, sample * points->dim * (points->type == ADJ_F64 ? 8 : 4), {}, NULL};
  uint64_t bytes = (2 * static_cast<uint64_t>(points->dim) + 1) * 8 + s.bytes;
  adj_status status = adji_staging_open(gpu, 1);
  if (!status && bytes > ADJI_STAGE_BYTES)
    status =
        adji_fail(ADJ_E_UNSUPPORTED, "points of %u dimensions are too large for the buffers of a GPU", points->dim);
  if (!status) status = adji_block_get(gpu, gpu->compute, bytes, "sample", &s.found);
  if (status) return status;
  s.host = static_cast<uint64_t *>(adji_staging_at(gpu, 0));
  status = points->type == ADJ_F64 ? run_survey<double>(&s) : run_survey<float>(&s);
  if (!status) status = copy_out(&s, low, high, rows);
  adji_block_free(gpu, gpu->compute, &s.found);
  return status;
}
