/* SPDX-License-Identifier: MIT
 *
 * Range joins on a device for lists of queries. A host passes lists as positions in its own order. The rows of a list
 * are in a slot, one after the other, whatever their numbers are.
 */
#ifndef ADJI_GPU_RANGE_RANGE_LIST_H
#define ADJI_GPU_RANGE_RANGE_LIST_H

#include "gpu/range/range.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Queries of the host, as ranges of its order. pairs: the entries of their rows; 0 when counting. */
typedef struct adji_list_ranges {
  const adji_batch *ranges;
  uint64_t count;
  uint64_t pairs;
} adji_list_ranges;

/* The parts of a slot. Counting: the number of each row in the result, and its count. Filling: the number of each row
 * in the result, where its entries begin in the slot (and, at the end, where the last ones end), and the entries. */
typedef enum adji_list_part {
  ADJI_LIST_ROWS,    /* uint32_t */
  ADJI_LIST_COUNTS,  /* uint32_t */
  ADJI_LIST_OFFSETS, /* uint64_t */
  ADJI_LIST_IDS,     /* uint32_t */
  ADJI_LIST_SUMS     /* of the type of the points */
} adji_list_part;

/* Some entries of a part, and where they go in a buffer, in bytes. */
typedef struct adji_list_stretch {
  adji_list_part part;
  uint64_t first, entries;
  uint64_t to;
} adji_list_stretch;

typedef struct adji_gpu_lists adji_gpu_lists;

/* Lists for an open range join, which is closed after them. */
ADJI_OP adj_status adji_gpu_lists_open(adji_gpu_range *range, adji_gpu_lists **out);
ADJI_OP void adji_gpu_lists_close(adji_gpu_lists *lists);

/* Sets the host's order: rows[i] is the row of its i-th query. NULL: the device's order. */
ADJI_OP adj_status adji_gpu_lists_follow(adji_gpu_lists *lists, const uint32_t *rows);

/* Copies the order of the device to host memory: rows[i] is the row of its i-th query. */
ADJI_OP adj_status adji_gpu_lists_order(adji_gpu_lists *lists, uint32_t *rows);

/* A pass counts, or fills rows of a window, whose offsets are copied to the device. Slots get room for `queries`
 * queries of a list and for `pairs` entries, or for as many as there is memory for, but at least for the entries of the
 * longest row.
 *
 * Between adji_gpu_range_begin_count and _end_count, a pass with single set finds each pair once and counts it for both
 * points. The slots are then empty. */
typedef struct adji_lists_request {
  const adji_window *window; /* NULL: counts */
  bool single;
  uint64_t longest;
  uint64_t queries, pairs;
} adji_lists_request;
ADJI_OP adj_status adji_gpu_lists_begin(adji_gpu_lists *lists, adji_lists_request *request);
ADJI_OP void adji_gpu_lists_end(adji_gpu_lists *lists);

/* Starts to count or fill those rows of a list's queries that are in the window. *rows receives their number. Ranges
 * are copied through a pinned buffer (gpu/device/staging.h). */
ADJI_OP adj_status adji_gpu_lists_list(adji_gpu_lists *lists, const adji_list_ranges *list, uint32_t slot,
                                       uint32_t buffer, uint64_t *rows);
/* Waits for a list. *found: the totals of all lists of this pass, up to this one. Fails with ADJ_E_INTERNAL if the
 * length of a row differs from its count. */
ADJI_OP adj_status adji_gpu_lists_listed(adji_gpu_lists *lists, uint32_t slot, adji_tally *found);
/* Starts to copy a part of a slot to a pinned buffer. */
ADJI_OP adj_status adji_gpu_lists_fetch(adji_gpu_lists *lists, uint32_t slot, const adji_list_stretch *stretch,
                                        uint32_t buffer);
#ifdef __cplusplus
}
#endif
#endif
