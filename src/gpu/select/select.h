/* SPDX-License-Identifier: MIT
 *
 * The k smallest, or largest, of each row of a matrix on a device: for adj_cuda_select_k and for the distances of brute
 * force. select.cu chooses the algorithm.
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
  ADJI_SELECT_BOUND,   /* a bound from a sample, one pass that collects the values below it, a sort: k <= 2048 */
  ADJI_SELECT_BITS,    /* one pass with a buffer that is sorted when full: k <= 2048 */
  ADJI_SELECT_BITONIC, /* one pass in chunks that are sorted and merged with the smallest so far: k <= 2048 */
  ADJI_SELECT_RADIX,   /* digit by digit: any k */
  ADJI_SELECT_SAMPLE,  /* by splitters from samples: any k */
  ADJI_SELECT_SORT,    /* sort each row: any k */
  /* As in Hanak's thesis, a block per row. */
  ADJI_SELECT_BLOCK_BITS,    /* the smallest in registers, a buffer in shared memory; k > 2048: in memory: any k */
  ADJI_SELECT_BLOCK_BITONIC, /* the same without a filter: k <= 2048 */
  ADJI_SELECT_BLOCK_RADIX,   /* buckets by digits; the bucket of the k-th smallest is moved to a list: any k */
  ADJI_SELECT_BLOCK_SAMPLE,  /* the same with buckets between splitters: any k */
  ADJI_SELECT_STREAM_SORT    /* sort each row, several rows at a time in separate streams: any k */
} adji_select_algorithm;

/* Options of the thesis's kernels; 0: the default. */
typedef struct adji_select_how {
  uint32_t parts;   /* blocks that share a row in BLOCK_BITS; 1, and 128 or 256 for a single row */
  uint32_t reads;   /* reads that a thread of BLOCK_BITS has in flight, up to 8; 4 */
  uint32_t streams; /* streams of STREAM_SORT; 8 */
  bool no_prefetch; /* BLOCK_BITS does not prefetch to the L2 cache */
} adji_select_how;

enum { ADJI_SELECT_MOST = 2048 }; /* the largest k of the algorithms that keep it in one block */

static inline bool adji_select_takes(adji_select_algorithm algorithm, uint32_t k) {
  bool any = algorithm >= ADJI_SELECT_RADIX && algorithm != ADJI_SELECT_BLOCK_BITONIC;
  return algorithm == ADJI_SELECT_AUTO || any || k <= ADJI_SELECT_MOST;
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
  adji_select_how how;
} adji_gpu_select;

/* Queues the work on the device's compute stream and does not wait. Memory: up to 128 KiB per row, or up to 2 MiB per
 * row if there are fewer rows than multiprocessors; as many rows are done at a time as a quarter of the available
 * memory allows. radix, sample and sort: 16 bytes (f64: 24) per sorted value of the rows done at a time; sample up to 2
 * (f64: 4) per other value. */
ADJI_OP adj_status adji_gpu_select_rows(adji_gpu *gpu, const adji_gpu_select *job);

#ifdef __cplusplus
}
#endif
#endif
