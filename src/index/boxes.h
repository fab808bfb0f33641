/* SPDX-License-Identifier: MIT
 *
 * Bounding boxes of blocks of consecutive points of an index, in a binary tree of blocks. They tell,
 * for a group of queries, which long stretches of candidates cannot belong and which all do.
 *
 * Exactness. Rounding is monotone, so the canonical sum never decreases when one |t| grows. The
 * canonical sum of the smallest possible |t| (the gap between two boxes, rounded) is therefore a
 * lower bound of the canonical sum of every pair, and that of the largest possible |t| an upper one:
 * no slack is needed. A stretch is dropped iff the lower bound is above the limit, and taken whole
 * iff the upper bound is not. Only powers that are not whole are monotone up to a slack, by which both
 * tests are made stricter: see adji_boxes_build.
 *
 * In a periodic dimension of length L, |t| = min(d, L - d) where d, the rounded difference, lies
 * between the gap g and the largest difference h. It rises with d and then falls, so it is at least the
 * lesser of its values at g and h, and at most min(h, L - g).
 */
#ifndef ADJI_BOXES_H
#define ADJI_BOXES_H

#include "index/grid.h"

enum { ADJI_BLOCK = 64, ADJI_MAX_LEVELS = 32 };

typedef struct adji_boxes {
  adj_ctx *ctx;
  adj_type type;
  const adji_measure *measure;
  double drop_above, take_within; /* sums of boxes                                */
  uint32_t dim, count;            /* of the points                                           */
  uint32_t levels;                /* level 0: blocks of ADJI_BLOCK points; each pairs two     */
  uint64_t level_blocks[ADJI_MAX_LEVELS];
  void *level_bounds[ADJI_MAX_LEVELS]; /* per block: dim lows, dim highs, in the type of the data */
} adji_boxes;

/* For joins with this limit. Time: one pass. Memory: 4 * dim * sizeof(T) bytes for every 64 points. */
adj_status adji_boxes_build(adj_ctx *ctx, const adji_index *index, const adji_measure *measure, double limit,
                            adji_boxes *out);
void adji_boxes_clear(adji_boxes *boxes);

/* The box of some positions of a view: dim lows, dim highs to bounds. */
void adji_box_of(const adji_view *view, adj_type type, const uint32_t *positions, uint32_t count, void *bounds);

/* Sorts a stretch of candidates into what must be compared (near) and what belongs for every query in
 * the box `bounds` (inside). Both arrays have room for *near_count + *inside_count + 2 *
 * ((end - begin) / ADJI_BLOCK + 2) ranges; adjacent ranges are joined. */
typedef struct adji_split {
  adji_range *near, *inside;
  uint32_t near_count, inside_count;
  bool compare_all; /* put into near what would go inside: the sums are wanted */
} adji_split;

void adji_boxes_split(const adji_boxes *boxes, const void *bounds, adji_range stretch, adji_split *out);

#endif
