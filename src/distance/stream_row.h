/* SPDX-License-Identifier: MIT
 *
 * Rows to memory that nobody reads soon. Cache lines that a row fills are written past the caches, which would read
 * each of them first only to have it overwritten. The portable one is here for the tables and for short rows.
 */
#ifndef ADJI_STREAM_ROW_H
#define ADJI_STREAM_ROW_H

#include <stdint.h>

enum { ADJI_LINE = 64 };

/* adji_kernels.stream_row. */
void adji_stream_row_portable(void *row, const void *from, uint64_t bytes);

#endif
