/* SPDX-License-Identifier: MIT
 *
 * A copy of an f64 kd-tree in f32: the same leaves and nodes, with every coordinate x as (x - origin) * scale, rounded
 * to f32. Instead of ids, points have the numbers of their places in the tree.
 *
 * The origin and the scale, a power of two, put all points between -1 and 1. With X = (x - origin) * scale, computed
 * exactly, the copy of x differs from X by at most 2^-25 + 2^-53: the difference is rounded to f64, and numbers up to 1
 * are rounded to f32. Rounding is monotone, so the boxes of the copies are the copies of the boxes.
 */
#ifndef ADJI_TREE_NARROW_H
#define ADJI_TREE_NARROW_H

#include "index/tree.h"

enum { ADJI_FRAME_MOST_DIM = 32 };

typedef struct adji_frame {
  double scale, origin[ADJI_FRAME_MOST_DIM];
} adji_frame;

/* Larger than the difference of any copy from the exact number. */
#define ADJI_FRAME_ERROR (0x1p-25 * (1 + 0x1p-20))

/* Finds a frame for the points of both trees, which must have points, in up to ADJI_FRAME_MOST_DIM dimensions. False:
 * there is none, since the points spread too little or too far. Otherwise the farthest two points differ by 2^-400 to
 * 2^402 in some dimension. */
bool adji_frame_of(const adji_tree *a, const adji_tree *b, adji_frame *out);

/* Bytes of such a copy. */
uint64_t adji_tree_narrow_bytes(const adji_tree *wide);
/* Time: O(n), in parallel. */
adj_status adji_tree_narrow(const adji_tree *wide, const adji_frame *frame, adji_tree *out);

#endif
