/* SPDX-License-Identifier: MIT
 *
 * Ascending order of a row's ids. The portable one is here for the tables and for tails.
 */
#ifndef ADJI_SORT_IDS_H
#define ADJI_SORT_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* Insertion for short rows, radix by bytes for long ones. Uses no memory of its own beyond the stack
 * for rows up to 1024; longer rows are sorted in place by recursion on the leading byte. */
void adji_sort_ids_portable(uint32_t *ids, uint32_t count);

/* adji_kernels.place_ids with the sort above. */
uint32_t adji_place_ids_portable(uint32_t *ids, uint32_t count, uint32_t drop, bool sort, uint32_t *to);

#endif
