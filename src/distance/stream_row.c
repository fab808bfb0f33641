/* SPDX-License-Identifier: MIT
 *
 * Copying rows past the caches, 16 bytes at a time; memcpy where the CPU has no such stores.
 */
#include "distance/stream_row.h"

#ifdef __SSE2__
#include <emmintrin.h>

static inline void copy_few(char *to, const char *from, uint64_t bytes) {
  memcpy(to, from, bytes);
}

static inline void stream_line(char *to, const char *from) {
  for (int i = 0; i < ADJI_LINE; i += 16)
    _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
}

void adji_stream_row_portable(void *row, const void *from, uint64_t bytes) {
  adji_stream_by(copy_few, stream_line, row, from, bytes);
}

#else

void adji_stream_row_portable(void *row, const void *from, uint64_t bytes) {
  memcpy(row, from, bytes);
}

#endif
