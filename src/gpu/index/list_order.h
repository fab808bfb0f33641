/* SPDX-License-Identifier: MIT
 *
 * Lists of queries that a host passes to a device: ranges of the host's own order.
 */
#ifndef ADJI_GPU_INDEX_LIST_ORDER_H
#define ADJI_GPU_INDEX_LIST_ORDER_H

/* The ranges of a list that fit a pinned buffer. A range should not keep a block of threads busy for long. */
enum { ADJI_MOST_RANGES = 1 << 16, ADJI_LONGEST_RANGE = 4096 };

/* Lists that a device has room for. Some are in progress while the results of another are copied, which takes long
 * where the memory of the result is touched for the first time. */
enum { ADJI_LISTS = 4 };

#endif
