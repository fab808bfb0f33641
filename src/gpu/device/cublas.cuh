/* SPDX-License-Identifier: MIT
 *
 * Matrix products by cuBLAS, which is looked for when they are first asked for: nothing is linked with it, and a
 * library that was built without its header says so.
 */
#ifndef ADJI_GPU_DEVICE_CUBLAS_CUH
#define ADJI_GPU_DEVICE_CUBLAS_CUH

#include "gpu/device/device.cuh"

/* Rows of points by rows of points, all packed and in memory of the device: the product of x_i and y_j, negative, goes
 * to values[i * stride + j]. In the arithmetic of the type: no sum or product is rounded to less. */
typedef struct adji_products {
  adj_type type;
  uint32_t width; /* coordinates of a row */
  uint64_t rows, columns, stride;
  const void *x, *y;
  void *values;
} adji_products;

/* Finds the library and makes the device's handle, the first time; sets the room that it works in, which must stay
 * until the products are there. ADJ_E_UNSUPPORTED says what is missing. */
enum { ADJI_CUBLAS_LEAST_ROOM = 16 << 10, ADJI_CUBLAS_ROOM = 32 << 20 };
adj_status adji_cublas_begin(adji_gpu *gpu, const adji_block *room);

/* On the compute stream. */
adj_status adji_cublas_multiply(adji_gpu *gpu, const adji_products *job);

#endif
