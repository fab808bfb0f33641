/* SPDX-License-Identifier: MIT
 *
 * The order of points within long cells. Inside a cell the grid says nothing: points that lie in
 * clumps, or in dimensions that are not indexed, come as the rows did. Cut in halves along their
 * widest dimension, again and again down to blocks, they get bounding boxes that tell something.
 */
#ifndef ADJI_BLOCK_ORDER_H
#define ADJI_BLOCK_ORDER_H

#include "index/grid.h"

/* Reorders index->view.ids within cells of at least ADJI_LONG_CELL points; before coordinates are
 * gathered. Time: O(m log m) for a cell of m points. Memory: 16 bytes a point of the largest cell. */
enum { ADJI_LONG_CELL = 256 };
adj_status adji_block_order(adj_ctx *ctx, const adj_dataset *set, adji_index *index);

#endif
