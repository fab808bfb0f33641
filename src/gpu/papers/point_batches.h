/* SPDX-License-Identifier: MIT
 *
 * Batches of the queries of a range join on a device, after LBJoin (Gallet and Gowanlock, section II-C.2). Each batch
 * is one launch of the per_point kernels, which writes entries (row, id) one after the other; then they are sorted by
 * row. Batches run on streams of their own, so that kernels, sorting and copies of several batches overlap.
 *
 * If each pair of cells is compared only once, a batch has entries of the rows of both points. The entries of a row may
 * then be in several batches.
 */
#ifndef ADJI_GPU_PAPERS_POINT_BATCHES_H
#define ADJI_GPU_PAPERS_POINT_BATCHES_H

#include "gpu/range/range.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ADJI_MOST_STREAMS = 8 };

/* LBJoin's parameters; 0: the published value, which each comment names. */
typedef struct adji_batch_options {
  uint32_t streams;   /* ADJI_BATCH_STREAMS */
  uint64_t pairs;     /* b_s, the entries that a batch has room for: ADJI_BATCH_PAIRS */
  double sample_part; /* fraction of the queries from which the number of batches is estimated: ADJI_BATCH_SAMPLE */
} adji_batch_options;
enum { ADJI_BATCH_STREAMS = 3, ADJI_BATCH_PAIRS = 100000000 };
static const double ADJI_BATCH_SAMPLE = 0.01;

typedef struct adji_gpu_batches adji_gpu_batches;

typedef struct adji_batches_request {
  uint32_t streams;
  uint64_t pairs;              /* entries that each stream has room for */
  uint64_t first_row, end_row; /* other rows are not wanted */
} adji_batches_request;

/* Batches of a range join that has counted; it is closed after them. *queries: the number of queries to divide into
 * batches. Fails with ADJ_E_DEVICE_MEMORY if there is no room. */
ADJI_OP adj_status adji_gpu_batches_open(adji_gpu_range *range, const adji_batches_request *request, uint64_t *queries,
                                         adji_gpu_batches **out);
/* Waits for kernels and copies in progress. */
ADJI_OP void adji_gpu_batches_close(adji_gpu_batches *batches);

/* Some of the queries, with the numbers first, first + step, and so on; in the order of their work, if there is one. */
typedef struct adji_batch_queries {
  uint64_t first, step, count;
} adji_batch_queries;

typedef struct adji_batch_found {
  uint64_t entries; /* if more than there is room for, the batch must be done again with fewer queries */
  uint64_t candidates, slots;
} adji_batch_found;

/* Starts a batch on a stream whose last entries are no longer needed. */
ADJI_OP adj_status adji_gpu_batches_start(adji_gpu_batches *batches, uint32_t stream,
                                          const adji_batch_queries *queries);
/* Waits until a batch has found all its entries, and starts to sort them. */
ADJI_OP adj_status adji_gpu_batches_found(adji_gpu_batches *batches, uint32_t stream, adji_batch_found *out);

/* The parts of a batch, in ascending order of the rows. */
typedef enum adji_batch_part { ADJI_BATCH_ROWS, ADJI_BATCH_IDS, ADJI_BATCH_SUMS } adji_batch_part;

/* Starts to copy entries to a pinned buffer (gpu/device/staging.h), `to` bytes from its beginning. May be called by any
 * thread, but one at a time. */
ADJI_OP adj_status adji_gpu_batches_fetch(adji_gpu_batches *batches, uint32_t stream, adji_batch_part part,
                                          uint64_t first, uint64_t entries, uint32_t buffer, uint64_t to);

#ifdef __cplusplus
}
#endif
#endif
