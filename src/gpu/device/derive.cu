/* SPDX-License-Identifier: MIT
 *
 * Derived sets on a device. data/derive_row.h, shared with the host, computes a row; the kernels here fetch its
 * coordinates. A unit vector needs its row three times: for the largest coordinate, for the sum of the squares, whose
 * order is fixed, and for the quotients.
 *
 * Two answers of the device are the first coordinate that is not finite and the first row without a derived point. They
 * are stored as complements: an answer starts at 0, and the largest complement belongs to the lowest number.
 */
#include "gpu/device/device.cuh"

extern "C" {
#include "data/derive.h"
#include "gpu/device/derive.h"
#include "gpu/device/survey.h"
}

enum { THREADS = 128, WARPS = THREADS / ADJI_WARP, FEW_DIMS = 8 };

static __device__ void note_first(unsigned long long *answer, uint64_t number) {
  atomicMax(answer, ~static_cast<unsigned long long>(number));
}

/* Whether a coordinate is finite; otherwise records it. */
static __device__ bool is_finite(const adji_gpu_rows &rows, uint64_t row, uint32_t j, double x,
                                 unsigned long long *answers) {
  if (isfinite(x)) return true;
  note_first(answers + ADJI_ANSWER_NOT_FINITE, row * rows.dim + j);
  return false;
}

/* ---- Kernels ------------------------------------------------------------------------------------------- */

/* Longitude and latitude to a place on the unit sphere; each coordinate is rounded to T once. In: rows of two
 * coordinates, any strides. Out: `to`, three coordinates per row, packed; answers. A thread has one row; blocks cover
 * all rows. Bound by f64 arithmetic where that is slow, otherwise by memory. */
template <class T>
static __global__ void derive_places(adji_gpu_rows rows, bool degrees, T *to, unsigned long long *answers) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= rows.count) return;
  const T *row = static_cast<const T *>(rows.data) + i * rows.row_stride;
  double longitude = row[0], latitude = row[rows.column_stride];
  if (!is_finite(rows, i, 0, longitude, answers) || !is_finite(rows, i, 1, latitude, answers)) return;
  adji_place place;
  if (adji_place_of(longitude, latitude, degrees, sizeof(T) == sizeof(float), &place)) {
    note_first(answers + ADJI_ANSWER_FAULT, i);
    return;
  }
  to[3 * i] = static_cast<T>(place.x);
  to[3 * i + 1] = static_cast<T>(place.y);
  to[3 * i + 2] = static_cast<T>(place.z);
}

/* Rows divided by their lengths: x[j] * 2^-e / sqrt(sum over j of (x[j] * 2^-e)^2), with e such that the largest is in
 * [1/2, 1); in f64, rounded to T once. In: rows, any strides. Out: `to`, packed; answers. A thread has one row, which
 * suits short rows and rows that are interleaved in memory; blocks cover all rows. Bound by memory: each row is read
 * three times, mostly from the first two levels of cache. */
template <class T>
static __global__ void derive_units(adji_gpu_rows rows, T *to, unsigned long long *answers) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= rows.count) return;
  const T *row = static_cast<const T *>(rows.data) + i * rows.row_stride;
  double largest = 0, sum = 0;
  for (uint32_t j = 0; j < rows.dim; j++) {
    double x = row[j * rows.column_stride];
    if (!is_finite(rows, i, j, x, answers)) return;
    largest = fmax(largest, fabs(x));
  }
  if (largest == 0) {
    note_first(answers + ADJI_ANSWER_FAULT, i);
    return;
  }
  int exponent = adji_unit_exponent(largest);
  for (uint32_t j = 0; j < rows.dim; j++)
    sum = adji_unit_add(sum, row[j * rows.column_stride], exponent);
  double length = sqrt(sum);
  for (uint32_t j = 0; j < rows.dim; j++)
    to[i * rows.dim + j] = static_cast<T>(adji_unit_at(row[j * rows.column_stride], exponent, length));
}

/* The largest absolute coordinate of a row, in all lanes. The lanes of a warp share the row; the order does not
 * matter. */
template <class T>
static __device__ T find_largest(const adji_gpu_rows &rows, uint64_t i, uint32_t lane, unsigned long long *answers) {
  const T *row = static_cast<const T *>(rows.data) + i * rows.row_stride;
  T largest = 0;
#pragma unroll 4
  for (uint32_t j = lane; j < rows.dim; j += ADJI_WARP) {
    T x = row[j] < 0 ? -row[j] : row[j];
    if (is_finite(rows, i, j, x, answers)) largest = x > largest ? x : largest;
  }
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
    T other = __shfl_xor_sync(0xffffffffu, largest, step);
    largest = other > largest ? other : largest;
  }
  return largest;
}

/* The same as derive_units, for long rows with contiguous coordinates. In: rows with a column_stride of 1. Out and
 * answers as above. A warp has 32 rows, one per lane; blocks cover all rows. Shared memory: a square of 32 rows and 32
 * coordinates per warp.
 *   1. The largest coordinates, row by row: lanes share a row.
 *   2. The sums: squares of coordinates go through shared memory, from which each lane adds up its row in order.
 *   3. The quotients, row by row: lanes share a row, and write coalesced.
 *
 * Warps do not wait for each other. Bound by memory: points are read three times, two of those times from the caches if
 * the 32 rows of all warps fit there, and written once. */
template <class T>
static __global__ void derive_units_across(adji_gpu_rows rows, T *to, unsigned long long *answers) {
  __shared__ T squares[WARPS][ADJI_WARP][ADJI_WARP + 1];
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  uint64_t first = (static_cast<uint64_t>(blockIdx.x) * WARPS + warp) * ADJI_WARP;
  if (first >= rows.count) return;
  uint32_t row_count = rows.count - first < ADJI_WARP ? static_cast<uint32_t>(rows.count - first) : ADJI_WARP;
  const T *row = static_cast<const T *>(rows.data) + first * rows.row_stride; /* the row of lane 0 */

  /* 1. */
  T own_largest = 1;
  for (uint32_t r = 0; r < row_count; r++) {
    T largest = find_largest<T>(rows, first + r, lane, answers);
    if (lane == r) own_largest = largest;
  }
  if (own_largest == 0) note_first(answers + ADJI_ANSWER_FAULT, first + lane);
  int exponent = adji_unit_exponent(own_largest);

  /* 2. */
  double sum = 0;
  T(*square)[ADJI_WARP + 1] = squares[warp];
  for (uint32_t begin = 0; begin < rows.dim; begin += ADJI_WARP) {
    uint32_t wide = rows.dim - begin < ADJI_WARP ? rows.dim - begin : ADJI_WARP;
#pragma unroll 8
    for (uint32_t r = 0; r < row_count; r++)
      if (lane < wide) square[r][lane] = row[r * rows.row_stride + begin + lane];
    __syncwarp();
    for (uint32_t j = 0; lane < row_count && j < wide; j++)
      sum = adji_unit_add(sum, square[lane][j], exponent);
    __syncwarp();
  }

  /* 3. */
  double length = sqrt(sum);
  for (uint32_t r = 0; r < row_count; r++) {
    int row_exponent = __shfl_sync(0xffffffffu, exponent, r);
    double row_length = __shfl_sync(0xffffffffu, length, r);
    for (uint32_t j = lane; j < rows.dim; j += ADJI_WARP)
      to[(first + r) * rows.dim + j] =
          static_cast<T>(adji_unit_at(row[r * rows.row_stride + j], row_exponent, row_length));
  }
}

/* ---- Launches ------------------------------------------------------------------------------------------- */

template <class T>
static adj_status launch_units(adji_gpu *gpu, const adji_gpu_rows *rows, void *to) {
  uint32_t blocks = adji_blocks_for(rows->count, THREADS);
  unsigned long long *answers = adji_answer_at(gpu, 0);
  if (rows->dim > FEW_DIMS && rows->column_stride == 1) {
    derive_units_across<T><<<blocks, THREADS, 0, gpu->compute>>>(*rows, static_cast<T *>(to), answers);
    ADJI_LAUNCHED(gpu, "derive_units_across");
  } else {
    derive_units<T><<<blocks, THREADS, 0, gpu->compute>>>(*rows, static_cast<T *>(to), answers);
    ADJI_LAUNCHED(gpu, "derive_units");
  }
  return ADJ_OK;
}

template <class T>
static adj_status launch_places(adji_gpu *gpu, const adji_gpu_rows *rows, bool degrees, void *to) {
  derive_places<T><<<adji_blocks_for(rows->count, THREADS), THREADS, 0, gpu->compute>>>(
      *rows, degrees, static_cast<T *>(to), adji_answer_at(gpu, 0));
  ADJI_LAUNCHED(gpu, "derive_places");
  return ADJ_OK;
}

/* Fetches one value of a row to the host. */
template <class T>
static adj_status fetch_value(adji_gpu *gpu, const adji_gpu_rows *rows, uint64_t row, uint32_t j, double *to) {
  const T *at = static_cast<const T *>(rows->data) + row * rows->row_stride + j * rows->column_stride;
  T value = 0;
  ADJI_CUDA(gpu, cudaMemcpyAsync(&value, at, sizeof value, cudaMemcpyDeviceToHost, gpu->compute));
  ADJI_CUDA(gpu, cudaStreamSynchronize(gpu->compute));
  *to = value;
  return ADJ_OK;
}

/* What a derivation computes, and from which rows. */
typedef struct derivation {
  const adji_gpu_rows *rows;
  uint32_t dim; /* of the derived points */
  bool places, degrees;
} derivation;

static adj_status refuse_place(adji_gpu *gpu, const derivation *d, uint64_t row) {
  double x[2] = {0, 0};
  for (uint32_t j = 0; j < 2; j++) {
    adj_status status = d->rows->type == ADJ_F64 ? fetch_value<double>(gpu, d->rows, row, j, &x[j])
                                                 : fetch_value<float>(gpu, d->rows, row, j, &x[j]);
    if (status) return status;
  }
  adji_place place;
  adji_fault fault = adji_place_of(x[0], x[1], d->degrees, d->rows->type == ADJ_F32, &place);
  return adji_derive_refuse(fault, row, x[0], x[1]);
}

static adj_status fill(adji_gpu *gpu, const derivation *d, void *to) {
  static_assert(ADJI_ANSWER_FAULT == ADJI_ANSWER_NOT_FINITE + 1, "both are cleared at once");
  const adji_gpu_rows *rows = d->rows;
  bool wide = rows->type == ADJ_F64;
  adj_status status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_NOT_FINITE, 2);
  if (status) return status;
  if (d->places)
    status = wide ? launch_places<double>(gpu, rows, d->degrees, to) : launch_places<float>(gpu, rows, d->degrees, to);
  else
    status = wide ? launch_units<double>(gpu, rows, to) : launch_units<float>(gpu, rows, to);
  if (!status) status = adji_answers_fetch(gpu, gpu->compute);
  if (status) return status;
  uint64_t value = ~gpu->answers[ADJI_ANSWER_NOT_FINITE], row = ~gpu->answers[ADJI_ANSWER_FAULT];
  if (value != UINT64_MAX) return adji_gpu_refuse_value(value, rows->dim);
  if (row == UINT64_MAX) return ADJ_OK;
  return d->places ? refuse_place(gpu, d, row) : adji_derive_refuse(ADJI_FAULT_ZEROS, row, 0, 0);
}

static adj_status derive(adji_gpu *gpu, const derivation *d, adji_gpu_points *out) {
  const adji_gpu_rows *rows = d->rows;
  adji_block block;
  uint64_t bytes = adji_mul(adji_mul(rows->count, d->dim), rows->type == ADJ_F64 ? sizeof(double) : sizeof(float));
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "derived points", &block);
  if (status) return status;
  if (rows->count) status = fill(gpu, d, block.at);
  if (status) {
    adji_block_free(gpu, gpu->compute, &block);
    return status;
  }
  out->gpu = gpu;
  out->rows = adji_gpu_rows{block.at, rows->type, d->dim, rows->count, d->dim, 1};
  out->bytes = block.bytes;
  return ADJ_OK;
}

adj_status adji_gpu_derive_units(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_points *out) {
  derivation d = {rows, rows->dim, false, false};
  return derive(gpu, &d, out);
}

adj_status adji_gpu_derive_sphere(adji_gpu *gpu, const adji_gpu_rows *rows, adj_angle angle, adji_gpu_points *out) {
  derivation d = {rows, 3, true, angle == ADJ_DEGREES};
  return derive(gpu, &d, out);
}
