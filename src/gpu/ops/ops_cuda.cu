/* SPDX-License-Identifier: MIT
 *
 * The table of operations of GPUs. The .cu files of the other folders define them, under adji_cuda_ and their names in
 * the table. Names of C++ hold the types of the parameters: a definition that does not fit its place is not linked.
 */
#include "gpu/device/device.cuh"

extern "C" {
#include "gpu/ops/ops.h"
}

#define ADJI_DECLARE_(function, operation) __typeof__(function) adji_cuda_##operation;
ADJI_DEVICE_OPS(ADJI_DECLARE_)
#undef ADJI_DECLARE_
adj_status adji_cuda_open(const adji_device_ops *ops, adj_ctx *ctx, uint32_t i, adji_gpu **out);
void adji_cuda_close(adji_gpu *gpu);
int adji_cuda_current(void);
void adji_cuda_make_current(int device);

#define ADJI_ENTER_(function, operation) adji_cuda_##operation,
const adji_device_ops adji_cuda_ops = {adji_cuda_open, adji_cuda_close, adji_cuda_current, adji_cuda_make_current,
                                       ADJI_DEVICE_OPS(ADJI_ENTER_)};
#undef ADJI_ENTER_
