/* SPDX-License-Identifier: MIT
 *
 * Queries given in a host's order, and their positions in the order of the device.
 */
#ifndef ADJI_GPU_INDEX_LIST_ORDER_CUH
#define ADJI_GPU_INDEX_LIST_ORDER_CUH

#include "gpu/shared/arrays.cuh"

extern "C" {
#include "gpu/index/index.h"
#include "queue/queue.h"
#include "queue/stats.h"
}

static_assert(static_cast<int>(ADJI_LISTS) <= static_cast<int>(ADJI_KEPT_ANSWERS), "each list leaves its totals");

/* A range of the host's order, and where it begins in the list. */
typedef struct adji_list_range {
  uint32_t begin, count;
  uint64_t to;
} adji_list_range;

/* Finds the device's position of the host's i-th query, whose row is rows[i]. ids are the rows in the device's order.
 * Memory: 4 bytes per query, and as much again during the call. All lanes take part in the copy. */
adj_status adji_order_make(adji_gpu *gpu, const uint32_t *ids, const uint32_t *rows, uint64_t count, adji_block *order,
                           adji_device_stats *work);

/* Copies ranges through a pinned buffer to a block with room for ADJI_MOST_RANGES. *queries: receives the number of
 * queries in them. */
adj_status adji_order_make_ranges(adji_gpu *gpu, adji_block *out);
adj_status adji_order_send(adji_gpu *gpu, const adji_batch *ranges, uint64_t count, const adji_block *to,
                           uint32_t buffer, uint64_t *queries);

/* The input of a list. */
typedef struct adji_order_list {
  const adji_block *ranges, *order; /* order: a block without memory if the host's order is the device's */
  uint64_t range_count;
  adji_wanted_rows wanted;
  uint64_t rows;         /* all rows of the set */
  adji_block *queries;   /* two blocks, each with room for all queries of the ranges */
  adji_block *temporary; /* for CUB */
  bool as_given;         /* the queries stay in the host's order */
} adji_order_list;

/* Lists the positions of the wanted queries of the ranges: ascending, so that consecutive queries are neighbours, or as
 * given. *out is in one of the two blocks; rows receives their rows. *count: in, the number of queries of the ranges;
 * out, that of the list. */
adj_status adji_order_queries(adji_gpu *gpu, const adji_order_list *list, uint64_t *count, uint32_t **out,
                              uint32_t *rows);

#endif
