/* SPDX-License-Identifier: MIT
 *
 * Runs tensor-core instructions on operands that the host chose, to find out how they add up.
 */
#include <cuda_runtime.h>

#include <cmath>
#include <cstring>

#include "core/atomic.h" /* before the C headers: it has templates */
#include "gpu/device/tensor.cuh"

extern "C" {
#include "gpu/device/tensor_probe.h"
}

enum { WARP = 32 };

/* NaNs as they arise in distances: from operands that are NaN with any sign and payload, and from infinities. */
__device__ static float computed_nan(int way, float nan, float infinity, float one) {
  switch (way) {
    case 0:
      return nan - one;
    case 1:
      return one - nan;
    case 2:
      return infinity - infinity;
    case 3:
      return __fmaf_rn(nan, nan, one);
    case 4:
      return __fmaf_rn(one, one, nan);
    case 5:
      return __fmaf_rn(infinity, one - one, one);
    case 6:
      return fabsf(nan - one) + one;
    default:
      return nan * one;
  }
}

/* A warp per case. A lane has four pairs of a, two of b and four sums, as the PTX manual lays them out. One more block
 * computes NaNs. All arrays are in device memory. Takes a few microseconds. */
__global__ static void run_cases(const adji_tensor_case *cases, uint32_t count, adji_tensor_answer *to, uint32_t *nans,
                                 float nan, float infinity, float one) {
  if (blockIdx.x == count) {
    if (threadIdx.x < ADJI_COMPUTED_NANS)
      nans[threadIdx.x] = __float_as_uint(computed_nan(static_cast<int>(threadIdx.x), nan, infinity, one));
    return;
  }
  const adji_tensor_case *t = cases + blockIdx.x;
  uint32_t row = threadIdx.x / 4, pair = threadIdx.x % 4 * 2, a[4], b[2];
  for (uint32_t i = 0; i < 4; i++)
    a[i] = *reinterpret_cast<const uint32_t *>(&t->a[row + i % 2 * 8][pair + i / 2 * 8]);
  for (uint32_t i = 0; i < 2; i++)
    b[i] = *reinterpret_cast<const uint32_t *>(&t->b[row][pair + i * 8]);
  float d[4];
  for (uint32_t i = 0; i < 4; i++)
    d[i] = t->c[row + i / 2 * 8][pair + i % 2];
  for (uint32_t step = 0; step < t->steps; step++)
    multiply(d, a, b[0], b[1]);
  for (uint32_t i = 0; i < 4; i++)
    to[blockIdx.x].d[row + i / 2 * 8][pair + i % 2] = d[i];
}

static cudaError_t run(const adji_tensor_case *cases, uint32_t count, adji_tensor_answer *out, uint32_t *nans,
                       char *memory) {
  size_t from = count * sizeof *cases, to = count * sizeof *out;
  adji_tensor_answer *answers = reinterpret_cast<adji_tensor_answer *>(memory + from);
  uint32_t *found = reinterpret_cast<uint32_t *>(memory + from + to), odd_nan = 0xffc12345;
  float nan;
  memcpy(&nan, &odd_nan, sizeof nan);
  cudaError_t error = cudaMemcpy(memory, cases, from, cudaMemcpyHostToDevice);
  if (error != cudaSuccess) return error;
  run_cases<<<count + 1, WARP>>>(reinterpret_cast<const adji_tensor_case *>(memory), count, answers, found, nan,
                                 INFINITY, 1.0f);
  error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaMemcpy(out, answers, to, cudaMemcpyDeviceToHost);
  return error == cudaSuccess ? cudaMemcpy(nans, found, ADJI_COMPUTED_NANS * 4, cudaMemcpyDeviceToHost) : error;
}

adj_status adji_tensor_run(const adji_tensor_case *cases, uint32_t count, adji_tensor_answer *out,
                           uint32_t nans[ADJI_COMPUTED_NANS]) {
  char *memory = NULL;
  cudaError_t error = cudaMalloc(&memory, count * (sizeof *cases + sizeof *out) + ADJI_COMPUTED_NANS * 4);
  if (error == cudaSuccess) error = run(cases, count, out, nans, memory);
  cudaFree(memory);
  if (error == cudaSuccess) return ADJ_OK;
  return adji_fail(ADJ_E_DEVICE, "check of tensor cores: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
}
