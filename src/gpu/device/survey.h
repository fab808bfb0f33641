/* SPDX-License-Identifier: MIT
 *
 * What a plan needs to know about points on a device.
 */
#ifndef ADJI_GPU_DEVICE_SURVEY_H
#define ADJI_GPU_DEVICE_SURVEY_H

#include "gpu/device/staging.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest possible sample in rows, at least 1. A survey comes back through one buffer: the bounds, the number of
 * the first value that is not finite, then the sample. */
static inline uint64_t adji_gpu_survey_rows(uint32_t dim, adj_type type) {
  uint64_t row = dim * adji_type_size(type), bounds = (2 * (uint64_t)dim + 1) * 8;
  uint64_t rows = bounds < ADJI_STAGE_BYTES ? (ADJI_STAGE_BYTES - bounds) / row : 0;
  return rows ? rows : 1;
}

/* Writes the bounds of the points to low and high (dim entries each), and `sample` rows spread over all points, packed,
 * to rows. Every coordinate must be finite. */
ADJI_OP adj_status adji_gpu_survey(adji_gpu *gpu, const adji_gpu_rows *points, double *low, double *high,
                                   uint64_t sample, void *rows);
/* The failure for coordinate number row * dim + column, which is not finite. */
static inline adj_status adji_gpu_refuse_value(uint64_t value, uint32_t dim) {
  return adji_fail(ADJ_E_DATA, "row %llu, column %llu: is not a finite number", (unsigned long long)(value / dim + 1),
                   (unsigned long long)(value % dim + 1));
}

#ifdef __cplusplus
}
#endif
#endif
