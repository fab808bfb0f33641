/* SPDX-License-Identifier: MIT
 *
 * What the files of build.c share.
 */
#ifndef ADJI_BUILD_PRIVATE_H
#define ADJI_BUILD_PRIVATE_H

#include "index/build.h"
#include "index/radix_sort.h"

typedef struct adji_build {
  adj_ctx *ctx;
  const adji_grid *grid;
  const adj_dataset *set;
  adji_index *index;
  const adji_order_options *options;
  adji_sorted sorted;
  uint64_t count;        /* of items: points and images */
  uint32_t id_bits;      /* of an item, below the cell number; 0: row numbers are apart */
  uint32_t low_bits;     /* of a cell number, in an item */
  uint64_t parts;        /* by the other bits */
  uint64_t *part_starts; /* parts + 1 entries */
  uint64_t *slice_parts; /* per slice: points of each part; then where they go */
  uint64_t slices;
  uint64_t *slice_cells; /* per slice: cells (or images) that begin in it; then the number of its first one */
} adji_build;

/* So many bits too many make parts; more are not worth it. */
enum { ADJI_MOST_PART_BITS = 6 };

/* Turns the counts of the slices into starting positions; returns the total. */
static inline uint64_t adji_slices_add_up(adji_build *b) {
  uint64_t total = 0;
  for (uint64_t s = 0; s < b->slices; s++) {
    uint64_t many = b->slice_cells[s];
    b->slice_cells[s] = total;
    total += many;
  }
  return total;
}

/* build_order.c: the items of all points, sorted. */
adj_status adji_build_order(adji_build *b);

/* Cell numbers of rows from `begin` on, a block at a time. Returns the end of the block. */
enum { ADJI_KEY_BLOCK = 256 };
uint64_t adji_number_block(const adji_build *b, uint64_t begin, uint64_t end, uint64_t *keys);

/* Room for ids, for coordinates and for cells, with what vectors read behind them; behind coordinates that is still to
 * be cleared. */
adj_status adji_build_ids(const adji_build *b);
adj_status adji_build_coords(const adji_build *b);
void adji_clear_slack(const adji_build *b);
adj_status adji_build_cells(const adji_build *b, uint64_t cells);

/* build_buckets.c: the whole index of few dimensions. *done: false if its points are not for buckets; nothing is left
 * behind then. */
adj_status adji_build_buckets(adji_build *b, bool *done);

#endif
