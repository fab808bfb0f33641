/* SPDX-License-Identifier: MIT
 *
 * The canonical sums (L2) of one query with listed points stored row by row. Prefilters leave such lists: short and
 * scattered. Lanes run over the points, and each lane sums its own dimensions in order, so the bits are those of
 * kernels.h.
 */
#ifndef ADJI_ROWS_SUMS_H
#define ADJI_ROWS_SUMS_H

#include <stdint.h>

#include "adjoin.h"

typedef struct adji_rows_task {
  const void *query; /* dim coordinates, packed */
  const void *rows;  /* row i begins at entry i * stride */
  uint64_t stride;
  uint32_t dim;
  uint32_t count;
  const uint32_t *list; /* row numbers */
  double limit;         /* exact in the type of the data */
} adji_rows_task;

/* sums[i] receives the sum of row list[i]. A sum above the limit may be abandoned early, but never below the limit. */
typedef void (*adji_rows_fn)(const adji_rows_task *task, void *sums);

typedef struct adji_rows_kernels {
  adji_rows_fn sums[2]; /* f32, f64 */
} adji_rows_kernels;

const adji_rows_kernels *adji_rows_kernels_for(const char *isa);

#if defined(__x86_64__)
extern const adji_rows_kernels adji_rows_kernels_avx2;
extern const adji_rows_kernels adji_rows_kernels_avx512;
#endif

#endif
