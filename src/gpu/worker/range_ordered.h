/* SPDX-License-Identifier: MIT
 *
 * The rows of a window from a device in the order of the result: the mode that makes a device that is alone fast.
 */
#ifndef ADJI_GPU_WORKER_RANGE_ORDERED_H
#define ADJI_GPU_WORKER_RANGE_ORDERED_H

#include "gpu/range/range.h"
#include "queue/run.h"

/* Bytes of one batch of the result, unless the options say otherwise: few enough that the first one is soon on its way,
 * enough for a kernel that fills the device. */
static const uint64_t ADJI_GPU_BATCH = (uint64_t)256 << 20;

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

#endif
