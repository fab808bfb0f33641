/* SPDX-License-Identifier: MIT
 *
 * Lists of queries that a host hands over to a device: ranges of an order of its own.
 */
#ifndef ADJI_GPU_INDEX_LIST_ORDER_H
#define ADJI_GPU_INDEX_LIST_ORDER_H

/* So many ranges of a list fit a pinned buffer; they should be no longer than a block of threads has in a moment. */
enum { ADJI_MOST_RANGES = 1 << 16, ADJI_LONGEST_RANGE = 4096 };

/* Lists that a device has room for: some are at work while what another found is copied, which takes long where the
 * memory of the result is fresh. */
enum { ADJI_LISTS = 4 };

#endif
