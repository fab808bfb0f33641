/* SPDX-License-Identifier: MIT
 *
 * What the parts of the worker of a range join share: range.c is the worker, range_ordered.c the rows of a window in
 * the order of the result, range_batches.c the same in LBJoin's batches of queries, range_add.c what cores found in a
 * single evaluation. range_create.c makes workers of devices that are alone.
 */
#ifndef ADJI_GPU_WORKER_RANGE_PRIVATE_H
#define ADJI_GPU_WORKER_RANGE_PRIVATE_H

#include "gpu/worker/range.h"

/* A device whose range has counted, and has the offsets. */
typedef struct adji_ordered_fill {
  adji_gpu *gpu;
  adji_gpu_range *range;
  const adji_row_style *style;
  uint64_t batch_bytes; /* of the device, for one batch of the result; 0: ADJI_GPU_BATCH */
  uint64_t slots;       /* batches in flight; 0: the default                             */
  uint64_t longest;     /* no row is longer                                              */
} adji_ordered_fill;

/* A window that the device has begun to fill before it was asked for. */
typedef struct adji_prefetched {
  uint64_t first_row, end_row;
  uint32_t slots;
  uint64_t slot_pairs;
  uint64_t filled; /* slots that are under way; 0: none, and the rest is not used */
} adji_prefetched;

/* Fills the window. prefetched may be NULL. */
adj_status adji_ordered_fill_window(const adji_ordered_fill *fill, adji_run *run, const adji_window *window,
                                    adji_prefetched *prefetched);
/* Begins to fill it, and returns. A failure leaves nothing prefetched. */
void adji_ordered_prefetch(const adji_ordered_fill *fill, adji_run *run, const adji_window *window,
                           adji_prefetched *out);

/* The same by the kernels of the papers, in batches of queries. Rows may be in several batches. */
typedef struct adji_batched_fill {
  adji_gpu *gpu;
  adji_gpu_range *range;
  const adji_row_style *style;
  adji_access access;
  adji_work order;
  adji_batch_options batches;
  uint64_t batch_bytes; /* of the device, for one batch, at most; 0: no limit */
  uint64_t longest;     /* no row is longer */
} adji_batched_fill;
adj_status adji_batched_fill_window(const adji_batched_fill *fill, adji_run *run, const adji_window *window);

/* Single evaluation: the pairs that cores found, to a device that makes the rows of the result. ADJ_E_DEVICE_MEMORY:
 * there is no room for them, and nothing was sent. */
adj_status adji_gpu_range_send_found(adji_gpu *gpu, adji_gpu_range *range, const adji_join *join, adji_run *run,
                                     const adji_found *found);

#endif
