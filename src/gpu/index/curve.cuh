/* SPDX-License-Identifier: MIT
 *
 * Hilbert's curve: the order of points where there are no cells (index.cuh).
 */
#ifndef ADJI_GPU_INDEX_CURVE_CUH
#define ADJI_GPU_INDEX_CURVE_CUH

#include "gpu/device/device.cuh"

extern "C" {
#include "gpu/device/points.h"
}

/* Hilbert's curve through a cube. Coordinates become integers of `bits` bits. */
enum { ADJI_CURVE_DIMS = 6 };
typedef struct adji_gpu_curve {
  uint32_t bits; /* of each dimension */
  double low[ADJI_CURVE_DIMS], scale;
} adji_gpu_curve;

/* Transforms coordinates of `bits` bits so that their bits, interleaved from the highest down, are the number on
 * Hilbert's curve (J. Skilling's method). From the highest bit down, the part of the cube that a bit selects is
 * turned so that its curve begins where the one before it ends; then a reflected Gray code is decoded. */
template <int DIM>
static __device__ __forceinline__ void to_curve(uint32_t bits, uint32_t (&x)[DIM]) {
  for (uint32_t bit = 1u << (bits - 1); bit > 1; bit >>= 1) {
#pragma unroll
    for (int j = 0; j < DIM; j++) {
      uint32_t swapped = (x[0] ^ x[j]) & (bit - 1);
      bool reflected = x[j] & bit;
      x[0] ^= reflected ? bit - 1 : swapped;
      if (!reflected && j) x[j] ^= swapped;
    }
  }
#pragma unroll
  for (int j = 1; j < DIM; j++)
    x[j] ^= x[j - 1];
  uint32_t turned = 0;
  for (uint32_t bit = 1u << (bits - 1); bit > 1; bit >>= 1)
    if (x[DIM - 1] & bit) turned ^= bit - 1;
#pragma unroll
  for (int j = 0; j < DIM; j++)
    x[j] ^= turned;
}

template <class T, class KEY, int DIM>
static __global__ void number_on_curve(adji_gpu_curve curve, adji_gpu_rows rows, KEY *numbers, uint32_t *ids) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows.count) return;
  uint32_t whole[DIM];
  T scale = static_cast<T>(curve.scale), end = static_cast<T>(1u << curve.bits);
#pragma unroll
  for (int j = 0; j < DIM; j++) {
    T x = static_cast<const T *>(rows.data)[i * rows.row_stride + j * rows.column_stride];
    T q = (x - static_cast<T>(curve.low[j])) * scale;
    whole[j] = q > 0 ? q < end ? static_cast<uint32_t>(q) : (1u << curve.bits) - 1 : 0;
  }
  to_curve(curve.bits, whole);
  KEY number = 0;
  for (uint32_t bit = curve.bits; bit--;)
#pragma unroll
    for (int j = 0; j < DIM; j++)
      number = static_cast<KEY>(number << 1 | (whole[j] >> bit & 1));
  numbers[i] = number;
  ids[i] = static_cast<uint32_t>(i);
}

#endif
