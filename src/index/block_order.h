/* SPDX-License-Identifier: MIT
 *
 * The order of points within long cells. The grid does not order points inside a cell: points in clumps, or points that
 * differ only in dimensions without an index, lie in input order. Cutting them in halves along their widest dimension,
 * down to blocks, gives blocks with small bounding boxes (index/boxes.h). A step of adji_index_build.
 */
#ifndef ADJI_BLOCK_ORDER_H
#define ADJI_BLOCK_ORDER_H

#include "index/grid.h"

/* Reorders index->view.ids within cells of at least ADJI_LONG_CELL points. Call it before coordinates are gathered.
 * Time: O(m log m) for a cell of m points. Memory: 16 bytes per point of the largest cell. */
enum { ADJI_LONG_CELL = 256 };
adj_status adji_block_order(adj_ctx *ctx, const adj_dataset *set, adji_index *index);

#endif
