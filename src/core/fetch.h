/* SPDX-License-Identifier: MIT
 *
 * Functions that only prefetch. GCC considers such a function to have no effect and removes its calls, unless it is
 * inlined first.
 */
#ifndef ADJI_FETCH_H
#define ADJI_FETCH_H

#include <stdint.h>

#define ADJI_FETCHES static inline __attribute__((always_inline)) void

/* Prefetches memory that will be written soon. */
ADJI_FETCHES adji_fetch_to_write(const void *at, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 64)
    __builtin_prefetch((const char *)at + i, 1);
}

#endif
