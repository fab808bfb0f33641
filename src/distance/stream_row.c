/* SPDX-License-Identifier: MIT
 *
 * Rows past the caches: 16 bytes at a time, or as memcpy does it.
 */
#include "distance/stream_row.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

void adji_stream_row_portable(void *row, const void *from, uint64_t bytes) {
  char *to = row;
  const char *next = from;
  uint64_t head = (0 - (uintptr_t)to) % ADJI_LINE;
  if (bytes < head + ADJI_LINE) {
    memcpy(to, next, bytes);
    return;
  }
  memcpy(to, next, head);
  to += head;
  next += head;
  for (bytes -= head; bytes >= ADJI_LINE; bytes -= ADJI_LINE, to += ADJI_LINE, next += ADJI_LINE) {
    for (int i = 0; i < ADJI_LINE; i += 16)
      _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(next + i)));
  }
  memcpy(to, next, bytes);
}

#else

void adji_stream_row_portable(void *row, const void *from, uint64_t bytes) {
  memcpy(row, from, bytes);
}

#endif
