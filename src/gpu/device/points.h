/* SPDX-License-Identifier: MIT
 *
 * Points on a device, as a caller gave them or as they were copied there.
 */
#ifndef ADJI_GPU_DEVICE_POINTS_H
#define ADJI_GPU_DEVICE_POINTS_H

#include "gpu/device/device.h"

/* Coordinate j of row i is at data[i * row_stride + j * column_stride], in elements. */
typedef struct adji_gpu_rows {
  const void *data;
  adj_type type;
  uint32_t dim;
  uint64_t count;
  uint64_t row_stride, column_stride;
} adji_gpu_rows;

#endif
