/* SPDX-License-Identifier: MIT
 *
 * Building an index: points into the order of a grid.
 */
#ifndef ADJI_BUILD_H
#define ADJI_BUILD_H

#include "index/grid.h"

typedef struct adji_order_options {
  bool boxes;  /* long cells get an order in which blocks of points have small bounding boxes */
  bool images; /* points near the faces of a periodic box are there twice, see index/images.h */
} adji_order_options;

/* Sorts the points of set into the order of the grid.
 * Time: O(n) passes. Memory, images counting as points: 4 bytes a point for ids, the size of the points, 12 bytes a
 * cell; while building, 16 bytes a point more. */
adj_status adji_index_build(adj_ctx *ctx, const adji_grid *grid, const adj_dataset *set,
                            const adji_order_options *options, adji_index *out);
void adji_index_clear(adji_index *index);

#endif
