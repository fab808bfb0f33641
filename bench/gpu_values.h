/* SPDX-License-Identifier: MIT
 *
 * The kernels of bench/gpu --select and --brute: see gpu_values.cu.
 */
#ifndef ADJOIN_BENCH_GPU_VALUES_H
#define ADJOIN_BENCH_GPU_VALUES_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills a matrix with values uniform in [0, 1), or descending along each row. */
cudaError_t fill_values(float *values, uint64_t count, uint64_t columns, int descending);

/* Reads all values. to: room for one value. */
cudaError_t read_values(const float *values, uint64_t count, float *to);

#ifdef __cplusplus
}
#endif
#endif
