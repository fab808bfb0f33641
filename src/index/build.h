/* SPDX-License-Identifier: MIT
 *
 * Builds an index: sorts points into grid order.
 */
#ifndef ADJI_BUILD_H
#define ADJI_BUILD_H

#include "index/grid.h"

typedef struct adji_order_options {
  bool boxes;  /* order points within long cells so that blocks have small bounding boxes (index/boxes.h) */
  bool images; /* list points near the faces of a periodic box a second time (build_order.c) */
} adji_order_options;

/* Sorts the points of set into grid order. Time: O(n) passes. Memory, with images counted as points: 4 bytes per point
 * for ids, the size of the points, and 12 bytes per cell. During the build, before there are cells, rows of 8 to 24
 * bytes take 8 bytes and the size of the points more (build_buckets.c), and 24 bytes for each point of the largest
 * bucket and thread. Other rows, and rows for which the limit does not allow that, take 16 bytes per point before there
 * are coordinates, or 20 if cell and row numbers have more than 70 bits together. */
adj_status adji_index_build(adj_ctx *ctx, const adji_grid *grid, const adj_dataset *set,
                            const adji_order_options *options, adji_index *out);
void adji_index_clear(adji_index *index);

#endif
