/* SPDX-License-Identifier: MIT
 *
 * The kind of the devices: GPUs, in builds with CUDA. Alone in its file: a program that defines adji_kind_ops itself,
 * and links the static library, has another kind (tests/software).
 */
#include "gpu/ops/ops.h"

#ifdef ADJI_HAVE_CUDA
const adji_device_ops *const adji_kind_ops = &adji_cuda_ops;
#else
const adji_device_ops *const adji_kind_ops = NULL;
#endif
