/* SPDX-License-Identifier: MIT
 *
 * A parallel, stable radix sort of 64-bit items by some of their bits.
 */
#ifndef ADJI_RADIX_SORT_H
#define ADJI_RADIX_SORT_H

#include "core/context.h"

/* Items and as much room again; and, if they have any, ids that move with them, with room again. */
typedef struct adji_sorted {
  uint64_t *items, *spare;
  uint32_t *ids, *spare_ids; /* NULL: none */
} adji_sorted;

/* Sorts count items ascending by bits [low_bit, low_bit + bits); equal items keep their order. On return items and ids
 * are the sorted ones: they may have been exchanged with the spare arrays. Time: one pass for every 11 bits. Memory: a
 * few KiB per thread. */
adj_status adji_radix_sort(adj_ctx *ctx, adji_sorted *sorted, uint64_t count, uint32_t low_bit, uint32_t bits);

/* Sorts values ascending; none is a NaN. single: each of them is a float, which takes fewer passes. Memory: 16 bytes a
 * value until it returns. */
adj_status adji_radix_sort_values(adj_ctx *ctx, double *values, uint64_t count, bool single);

#endif
