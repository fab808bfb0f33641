/* SPDX-License-Identifier: MIT
 *
 * Kernels for bench/gpu --select and --brute: they make random values, and measure how fast memory is read.
 */
#include <cuda_runtime.h>

#include <cstdint>

#include "gpu_values.h"

/* Values are hashes of their places, uniform in [0, 1), or descend along each row. */
__global__ void fill(float *values, uint64_t count, uint64_t columns, bool descending) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    hash ^= hash >> 29;
    values[i] = descending ? static_cast<float>(columns - i % columns) : static_cast<float>(hash >> 40) * 0x1p-24f;
  }
}

cudaError_t fill_values(float *values, uint64_t count, uint64_t columns, int descending) {
  fill<<<132 * 16, 256>>>(values, count, columns, descending != 0);
  return cudaGetLastError();
}

/* Reads 16 bytes at a time, four at once, and adds them up. The sum is not used. */
__global__ void read(const float4 *values, uint64_t count, float *to) {
  float sum = 0;
  uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x, i = static_cast<uint64_t>(blockIdx.x) * blockDim.x;
  for (i += threadIdx.x; i + 3 * step < count; i += 4 * step) {
    float4 v[4];
#pragma unroll
    for (int u = 0; u < 4; u++)
      v[u] = __ldcs(values + i + u * step);
#pragma unroll
    for (int u = 0; u < 4; u++)
      sum += v[u].x + v[u].y + v[u].z + v[u].w;
  }
  if (sum == -1) *to = sum;
}

cudaError_t read_values(const float *values, uint64_t count, float *to) {
  read<<<132 * 8, 256>>>(reinterpret_cast<const float4 *>(values), count / 4, to);
  return cudaGetLastError();
}
