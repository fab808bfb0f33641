/* SPDX-License-Identifier: MIT
 *
 * From sums to reported distances, on the device: the operations of distance/measure.c.
 */
#ifndef ADJI_GPU_SHARED_REPORT_CUH
#define ADJI_GPU_SHARED_REPORT_CUH

#include "gpu/shared/steps.cuh"

/* Converts `count` values of the type, in place. */
adj_status adji_gpu_report(adji_gpu *gpu, cudaStream_t stream, const adji_measure *measure, adj_type type,
                           uint64_t count, void *values);

#endif
