/* SPDX-License-Identifier: MIT
 *
 * Rows to memory that nobody reads soon. Cache lines that a row fills are written past the caches, which would read
 * each of them first only to have it overwritten.
 */
#ifndef ADJI_STREAM_ROW_H
#define ADJI_STREAM_ROW_H

#include <stdint.h>
#include <string.h>

enum { ADJI_LINE = 64 };

/* adji_kernels.stream_row. */
void adji_stream_row_portable(void *row, const void *from, uint64_t bytes);

/* What such a function does, which says how it copies less than a line, and a line to where one begins. */
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
