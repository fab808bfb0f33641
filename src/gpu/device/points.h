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

/* Points in memory of their own, packed by rows. */
typedef struct adji_gpu_points {
  adji_gpu *gpu; /* NULL: none */
  adji_gpu_rows rows;
  uint64_t bytes;
} adji_gpu_points;

#ifdef __cplusplus
extern "C" {
#endif

/* In the order of the device's work. */
void adji_gpu_points_free(adji_gpu_points *points);

#ifdef __cplusplus
}
#endif

#endif
