/* SPDX-License-Identifier: MIT
 *
 * Copies rows to memory that is not read soon. Cache lines that a row fills are written past the caches; otherwise each
 * line would be read first, only to be overwritten.
 */
#ifndef ADJI_STREAM_ROW_H
#define ADJI_STREAM_ROW_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { ADJI_LINE = 64 };

/* Called after the last row: makes writes past the caches visible to other threads. */
static inline void adji_stream_fence(void) {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/* Implements adji_kernels.stream_row with two functions: one copies less than a line, the other one aligned line. */
static inline void adji_stream_by(void (*few)(char *to, const char *from, uint64_t bytes),
                                  void (*line)(char *to, const char *from), char *to, const char *from,
                                  uint64_t bytes) {
  uint64_t head = (0 - (uintptr_t)to) % ADJI_LINE;
  if (bytes < head + ADJI_LINE) {
    memcpy(to, from, bytes);
    return;
  }
  few(to, from, head);
  to += head;
  from += head;
  for (bytes -= head; bytes >= ADJI_LINE; bytes -= ADJI_LINE, to += ADJI_LINE, from += ADJI_LINE)
    line(to, from);
  few(to, from, bytes);
}

#endif
