/* SPDX-License-Identifier: MIT
 *
 * Sorting the ids of a row in ascending order: the portable version, for the kernel tables without a better one.
 */
#ifndef ADJI_SORT_IDS_H
#define ADJI_SORT_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* Insertion for short rows, in-place radix by the leading bits for long ones. No memory beyond the stack. */
void adji_sort_ids_portable(uint32_t *ids, uint32_t count);

/* adji_kernels.place_ids with the sort above. */
uint32_t adji_place_ids_portable(uint32_t *ids, uint32_t count, uint32_t drop, bool sort, uint32_t *to);

#endif
