/* SPDX-License-Identifier: MIT
 *
 * Results on a device: a window of rows, or all of them.
 */
#ifndef ADJI_GPU_DEVICE_RESULT_H
#define ADJI_GPU_DEVICE_RESULT_H

#include "gpu/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows first_row .. end_row - 1 of the result. */
typedef struct adji_gpu_window {
  uint64_t first_row, end_row;
  uint64_t base, pairs; /* its entries of the whole result: base .. base + pairs - 1 */
} adji_gpu_window;

/* A whole result, owned by whoever holds this. distances is NULL unless asked for; a table of neighbours has no
 * offsets. */
typedef struct adji_gpu_csr {
  adji_gpu *gpu;
  uint64_t rows, pairs; /* kNN: padding is not counted */
  uint64_t *offsets;
  uint32_t *ids;
  void *distances;
  uint64_t bytes[3]; /* of offsets, ids and distances */
} adji_gpu_csr;
/* In the order of the stream. */
ADJI_OP void adji_gpu_csr_free(adji_gpu_csr *csr, void *stream);

#ifdef __cplusplus
}
#endif
#endif
