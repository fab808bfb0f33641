/* SPDX-License-Identifier: MIT
 *
 * Queries of a host's order on a device: where each of them is in the order of the device.
 */
#ifndef ADJI_LIST_ORDER_CUH
#define ADJI_LIST_ORDER_CUH

#include "gpu/cuda.cuh"

extern "C" {
#include "gpu/list_order.h"
#include "queue/scheduler.h"
}

/* A range of the host's order, and where it begins in the list. */
typedef struct adji_list_range {
  uint32_t begin, count;
  uint64_t to;
} adji_list_range;

/* Makes the device's position of the host's i-th query, whose row is rows[i]; ids are the rows of the device's order.
 * Memory: 4 bytes a query, and as many meanwhile. All lanes take part in the copy. */
adj_status adji_order_make(adji_gpu *gpu, const uint32_t *ids, const uint32_t *rows, uint64_t count, adji_block *order,
                           adji_device_work *work);

/* Copies ranges through a pinned buffer to a block with room for ADJI_MOST_RANGES; *queries: how many they have. */
adj_status adji_order_make_ranges(adji_gpu *gpu, adji_block *out);
adj_status adji_order_send(adji_gpu *gpu, const adji_batch *ranges, uint64_t count, const adji_block *to,
                           uint32_t buffer, uint64_t *queries);

/* The positions of the queries of such ranges, one after the other. order: a block without memory where the host's
 * order is the device's. */
adj_status adji_order_gather(adji_gpu *gpu, const adji_block *ranges, uint64_t count, const adji_block *order,
                             uint32_t *queries);

#endif
