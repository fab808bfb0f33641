/* SPDX-License-Identifier: MIT
 *
 * ADJI_OP marks the operations of a device. The .cu files define them for GPUs. tests/software defines them again, for
 * test programs that link its objects: these programs never take the .cu files from the static library. A build without
 * CUDA has neither, and refers to the operations weakly: no device can be opened, so nothing calls them.
 */
#ifndef ADJI_GPU_DEVICE_OPERATION_H
#define ADJI_GPU_DEVICE_OPERATION_H

#ifdef ADJI_NO_CUDA
#define ADJI_OP __attribute__((weak, visibility("hidden")))
#else
#define ADJI_OP
#endif

#endif
