/* SPDX-License-Identifier: MIT
 *
 * Shared by build.c, build_order.c and build_buckets.c.
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
  uint64_t count;    /* number of items: points and images */
  uint32_t id_bits;  /* bits of the row number in an item, below the cell number; 0: row numbers have their own array */
  uint32_t low_bits; /* bits of the cell number in an item */
  uint64_t parts;    /* parts by the other bits of cell numbers */
  uint64_t *part_starts; /* parts + 1 entries */
  uint64_t *slice_parts; /* per slice: points of each part; later, their places */
  uint64_t slices;
  uint64_t *slice_cells; /* per slice: cells (or images) that begin in it; later, the number of its first one */
} adji_build;

/* If items are too long by up to this many bits, points are sorted in parts. More parts are not worth it. */
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

/* build_order.c: makes the items of all points, and sorts them. */
adj_status adji_build_order(adji_build *b);

/* Computes the cell numbers of rows from `begin` on, up to a block of them. Returns the end of the block. */
enum { ADJI_KEY_BLOCK = 256 };
uint64_t adji_number_block(const adji_build *b, uint64_t begin, uint64_t end, uint64_t *keys);

/* Allocate ids, coordinates and cells, with the entries after their ends that vectors read. adji_clear_slack() clears
 * those of coordinates. */
adj_status adji_build_ids(const adji_build *b);
adj_status adji_build_coords(const adji_build *b);
void adji_clear_slack(const adji_build *b);
adj_status adji_build_cells(const adji_build *b, uint64_t cells);

/* build_buckets.c: builds the whole index in few dimensions. *done: false if the points do not suit buckets. Then
 * nothing remains allocated. */
adj_status adji_build_buckets(adji_build *b, bool *done);

#endif
