/* SPDX-License-Identifier: MIT
 *
 * Bounding boxes of blocks of consecutive points of an index, in a binary tree of blocks. For a group of queries they
 * show which long ranges of candidates cannot belong, and which belong as a whole.
 *
 * Exactness. Rounding is monotone, so the canonical sum never decreases when one |t| grows. The canonical sum of the
 * smallest possible |t| (the gap between two boxes, rounded) is therefore a lower bound of the canonical sum of every
 * pair. The canonical sum of the largest possible |t| is an upper bound. No slack is needed: a range is dropped iff the
 * lower bound is above the limit, and accepted whole iff the upper bound is not. Two cases need a slack, which
 * adji_boxes_limit() adds to the limits: powers that are not whole numbers are monotone only up to a slack, and for L2
 * lower bounds are added up in any order, which is faster.
 *
 * In a periodic dimension of length L, |t| = min(d, L - d), where d, the rounded difference, lies between the gap g and
 * the largest difference h. |t| rises with d and then falls. So it is at least the smaller of its values at g and h,
 * and at most min(h, L - g).
 */
#ifndef ADJI_BOXES_H
#define ADJI_BOXES_H

#include "index/grid.h"

enum { ADJI_BLOCK = 64, ADJI_MAX_LEVELS = 32 };

/* The order within long cells, a step of adji_index_build(). The grid does not order points inside a cell: points in
 * clumps, or points that differ only in dimensions without an index, are in input order. Cutting them in halves along
 * their widest dimension, down to blocks, gives blocks with small boxes. Cuts are at multiples of ADJI_BLOCK, counted
 * over the whole index, so that the leaves are the blocks.
 *
 * Reorders index->view.ids within cells of at least ADJI_LONG_CELL points. Call it before coordinates are gathered.
 * Time: O(m log m) for a cell of m points. Memory: 16 bytes per point of the largest cell. */
enum { ADJI_LONG_CELL = 256 };
adj_status adji_block_order(adj_ctx *ctx, const adj_dataset *set, adji_index *index);

typedef struct adji_boxes {
  adj_ctx *ctx;
  adj_type type;
  const adji_measure *measure;
  double drop_above, take_within; /* limits for the sums of two boxes */
  uint32_t dim, count;            /* of the points */
  uint32_t levels;                /* level 0: blocks of ADJI_BLOCK points; every level above pairs two */
  uint64_t level_blocks[ADJI_MAX_LEVELS];
  void *level_bounds[ADJI_MAX_LEVELS]; /* per block: dim lows, dim highs, in the type of the data */
} adji_boxes;

/* Builds the boxes for joins with this limit. Time: one pass. Memory: 4 * dim * sizeof(T) bytes per 64 points. */
adj_status adji_boxes_build(adj_ctx *ctx, const adji_index *index, const adji_measure *measure, double limit,
                            adji_boxes *out);
void adji_boxes_clear(adji_boxes *boxes);
/* Sets another limit. */
void adji_boxes_limit(adji_boxes *boxes, double limit);

/* Writes the bounding box of some positions of a view to bounds: dim lows, then dim highs. */
void adji_box_of(const adji_view *view, adj_type type, const uint32_t *positions, uint32_t count, void *bounds);

/* Splits a range of candidates, for all queries in the box `bounds`: `near` must be compared, `inside` belongs to
 * every query. Adjacent ranges are joined. Both arrays need room for *near_count + *inside_count + 2 * ((end - begin)
 * / ADJI_BLOCK + 2) ranges. */
typedef struct adji_split {
  adji_range *near, *inside;
  uint32_t near_count, inside_count;
  bool compare_all; /* the caller needs sums: ranges for inside go to near */
} adji_split;

void adji_boxes_split(const adji_boxes *boxes, const void *bounds, adji_range range, adji_split *out);

#endif
