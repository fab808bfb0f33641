/* SPDX-License-Identifier: MIT
 *
 * What a plan needs to know of points on a device.
 */
#ifndef ADJI_GPU_DEVICE_SURVEY_H
#define ADJI_GPU_DEVICE_SURVEY_H

#include "gpu/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bounds of the points, to low and high (dim entries each), and `sample` rows spread over them, packed, to rows.
 * Every coordinate must be finite. */
uint64_t adji_gpu_survey_rows(uint32_t dim, adj_type type); /* the largest possible sample, at least 1 */
ADJI_OP adj_status adji_gpu_survey(adji_gpu *gpu, const adji_gpu_rows *points, double *low, double *high,
                                   uint64_t sample, void *rows);
/* The failure for coordinate number row * dim + column, which is not finite. */
adj_status adji_gpu_refuse_value(uint64_t value, uint32_t dim);

#ifdef __cplusplus
}
#endif
#endif
