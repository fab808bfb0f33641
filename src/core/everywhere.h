/* SPDX-License-Identifier: MIT
 *
 * Functions in headers that C code and CUDA kernels share.
 */
#ifndef ADJI_EVERYWHERE_H
#define ADJI_EVERYWHERE_H

#include "core/exact.h"

#if defined(__CUDACC__)
#define ADJI_EVERYWHERE static inline __host__ __device__
#else
#define ADJI_EVERYWHERE static inline __attribute__((always_inline))
#endif

#endif
