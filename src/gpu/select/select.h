/* SPDX-License-Identifier: MIT
 *
 * The k smallest, or largest, of each row of a matrix on a device: for adj_cuda_select_k and for the distances of brute
 * force. select.cu has the algorithms and chooses one.
 */
#ifndef ADJI_GPU_SELECT_SELECT_H
#define ADJI_GPU_SELECT_SELECT_H

#include "gpu/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In the order of the names in tuning.c. */
typedef enum adji_select_algorithm {
  ADJI_SELECT_AUTO,
  ADJI_SELECT_SHORT,   /* each row in shared memory, read once: k <= 2048, rows of up to 16384 that fit */
  ADJI_SELECT_BOUND,   /* a bound from a sample, one pass that collects what is below, a sort: k <= 2048 */
  ADJI_SELECT_BITS,    /* one pass with a buffer that is sorted when full: k <= 2048 */
  ADJI_SELECT_BITONIC, /* one pass in chunks that are sorted and merged with the smallest so far: k <= 2048 */
  ADJI_SELECT_RADIX,   /* digit by digit: any k */
  ADJI_SELECT_SAMPLE,  /* by splitters from samples: any k */
  ADJI_SELECT_SORT     /* sort each row: any k */
} adji_select_algorithm;

enum { ADJI_SELECT_MOST = 2048 }; /* the largest k of the algorithms that keep it in one block */

static inline bool adji_select_takes(adji_select_algorithm algorithm, uint32_t k) {
  return algorithm == ADJI_SELECT_AUTO || algorithm >= ADJI_SELECT_RADIX || k <= ADJI_SELECT_MOST;
}

/* All pointers are device memory. */
typedef struct adji_gpu_select {
  adj_type type;
  const void *values;
  uint64_t rows, columns; /* columns <= ADJ_MAX_COUNT */
  uint64_t row_stride;    /* in values */
  uint32_t k;             /* >= 1; entries beyond the columns are ADJ_NO_ID and infinity */
  bool largest;           /* instead of the smallest: descending, ties by the lower column */
  bool sorted;
  const uint32_t *ids; /* reported instead of column numbers; may be NULL */
  uint32_t *columns_out;
  void *values_out; /* may be NULL */
  adji_select_algorithm algorithm;
} adji_gpu_select;

/* Queues the work on the device's compute stream and does not wait. Memory: up to 128 KiB per row, or up to 2 MiB if
 * rows are fewer than multiprocessors, for as many rows at a time as a quarter of the available memory allows. radix,
 * sample and sort: 16 bytes (f64: 24) per sorted value of the rows done at a time; sample up to 2 (f64: 4) per other
 * value. */
ADJI_OP adj_status adji_gpu_select_rows(adji_gpu *gpu, const adji_gpu_select *job);

#ifdef __cplusplus
}
#endif
#endif
