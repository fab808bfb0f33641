/* SPDX-License-Identifier: MIT
 *
 * What the parts of the worker of a range join share. range.c is the worker. range_ordered.c fills the rows of a window
 * in the order of the result, range_batches.c does so in LBJoin's batches of queries. range_add.c sends the pairs that
 * cores found in a single evaluation. range_create.c makes workers of devices that do a join alone.
 */
#ifndef ADJI_GPU_WORKER_RANGE_PRIVATE_H
#define ADJI_GPU_WORKER_RANGE_PRIVATE_H

#include "gpu/worker/range.h"

/* A fill in the order of the result. The range has counted, and has the offsets. */
typedef struct adji_ordered_fill {
  adji_gpu *gpu;
  adji_gpu_range *range;
  const adji_row_style *style;
  uint64_t batch_bytes; /* of the device, for one batch of the result; 0: ADJI_GPU_BATCH */
  uint64_t slots;       /* batches in flight; 0: the default */
  uint64_t longest;     /* no row is longer */
} adji_ordered_fill;

/* A window that the device has started to fill before it was requested. */
typedef struct adji_prefetched {
  uint64_t first_row, end_row;
  uint32_t slots;
  uint64_t slot_pairs;
  uint64_t filled; /* slots that are being filled; 0: none, and the other members are not used */
} adji_prefetched;

/* Fills the window. prefetched: what adji_ordered_prefetch has started; may be NULL. */
adj_status adji_ordered_fill_window(const adji_ordered_fill *fill, adji_run *run, const adji_window *window,
                                    adji_prefetched *prefetched);
/* Starts to fill the window, and returns without waiting. After a failure nothing is prefetched. */
void adji_ordered_prefetch(const adji_ordered_fill *fill, adji_run *run, const adji_window *window,
                           adji_prefetched *out);

/* A fill by the papers' kernels, in batches of queries. A row may be in several batches. */
typedef struct adji_batched_fill {
  adji_gpu *gpu;
  adji_gpu_range *range;
  const adji_row_style *style;
  adji_access access;
  adji_work order;
  adji_batch_options batches;
  uint64_t batch_bytes; /* most bytes of the device for one batch; 0: no limit */
  uint64_t longest;     /* no row is longer */
} adji_batched_fill;
adj_status adji_batched_fill_window(const adji_batched_fill *fill, adji_run *run, const adji_window *window);

/* Single evaluation: sends the pairs that cores found to a device, which makes the rows of the result. Fails with
 * ADJ_E_DEVICE_MEMORY if there is no room for them; then nothing was sent. */
adj_status adji_gpu_range_send_found(adji_gpu *gpu, adji_gpu_range *range, const adji_join *join, adji_run *run,
                                     const adji_found *found);

#endif
