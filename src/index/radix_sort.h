/* SPDX-License-Identifier: MIT
 *
 * A parallel, stable radix sort of 64-bit items by some of their bits.
 */
#ifndef ADJI_RADIX_SORT_H
#define ADJI_RADIX_SORT_H

#include "core/context.h"

/* Items, ids that move with them or NULL, and spare arrays of the same sizes. */
typedef struct adji_sorted {
  uint64_t *items, *spare;
  uint32_t *ids, *spare_ids; /* NULL: none */
} adji_sorted;

/* Sorts count items ascending by bits [low_bit, low_bit + bits). Equal items keep their order. On return items and ids
 * are the sorted arrays: they may have been exchanged with the spare ones. Time: one pass for every 11 bits. Memory: a
 * few KiB per thread. */
adj_status adji_radix_sort(adj_ctx *ctx, adji_sorted *sorted, uint64_t count, uint32_t low_bit, uint32_t bits);

/* Sorts values ascending. None may be NaN. single: all of them are floats, which takes fewer passes. Temporary memory:
 * 16 bytes per value. */
adj_status adji_radix_sort_values(adj_ctx *ctx, double *values, uint64_t count, bool single);

#endif
