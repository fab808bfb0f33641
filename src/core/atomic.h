/* SPDX-License-Identifier: MIT
 *
 * Atomic members of structs that C and CUDA's C++ share: the same object, by the name it has in each language.
 */
#ifndef ADJI_ATOMIC_H
#define ADJI_ATOMIC_H

#ifdef __cplusplus
#include <atomic>
#define ADJI_ATOMIC(type) std::atomic<type>
#else
#include <stdatomic.h>
#define ADJI_ATOMIC(type) _Atomic type
#endif

#endif
