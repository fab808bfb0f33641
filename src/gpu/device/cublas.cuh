/* SPDX-License-Identifier: MIT
 *
 * Matrix products by cuBLAS, which is loaded on first use. Nothing links with it. In a build without its header,
 * adji_cublas_begin fails and says so.
 */
#ifndef ADJI_GPU_DEVICE_CUBLAS_CUH
#define ADJI_GPU_DEVICE_CUBLAS_CUH

#include "gpu/device/device.cuh"

/* Products of rows of points with rows of points, all packed and in device memory: values[i * stride + j] = -x_i y_j,
 * in the arithmetic of the type, with no reduced precision. */
typedef struct adji_products {
  adj_type type;
  uint32_t width; /* coordinates of a row */
  uint64_t rows, columns, stride;
  const void *x, *y;
  void *values;
} adji_products;

/* On the first call, loads the library and makes the device's handle. Sets the workspace, which must stay until the
 * products are done. ADJ_E_UNSUPPORTED: the message says what is missing. */
enum { ADJI_CUBLAS_LEAST_ROOM = 16 << 10, ADJI_CUBLAS_ROOM = 32 << 20 };
adj_status adji_cublas_begin(adji_gpu *gpu, const adji_block *room);

/* Runs on the compute stream. */
adj_status adji_cublas_multiply(adji_gpu *gpu, const adji_products *job);

#endif
