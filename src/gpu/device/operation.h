/* SPDX-License-Identifier: MIT
 *
 * ADJI_OP marks the operations of a device. The .cu files define them for GPUs. tests/software defines them once more,
 * for programs of tests that have its objects: those never reach the .cu files of the static library. A build without
 * CUDA has neither, and refers to them weakly: no device can be opened, so nobody calls them.
 */
#ifndef ADJI_GPU_DEVICE_OPERATION_H
#define ADJI_GPU_DEVICE_OPERATION_H

#ifdef ADJI_NO_CUDA
#define ADJI_OP __attribute__((weak, visibility("hidden")))
#else
#define ADJI_OP
#endif

#endif
