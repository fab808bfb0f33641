/* SPDX-License-Identifier: MIT
 *
 * The index that the cores search in a range join: both sets in the order of a grid, with boxes and codes. The part for
 * the right set is the base. It is the same for all joins with that set, whatever the left set, and for every radius up
 * to the one it was made for. So it can be kept and shared.
 */
#ifndef ADJI_RANGE_INDEX_H
#define ADJI_RANGE_INDEX_H

#include "cpu/prefilter.h"
#include "index/boxes.h"
#include "index/grid.h"
#include "queue/join.h"

/* Where blocks of points get bounding boxes. */
typedef enum adji_box_use { ADJI_BOXES_NEVER, ADJI_BOXES_IN_LONG_CELLS, ADJI_BOXES_ALWAYS } adji_box_use;

typedef struct adji_range_index_options {
  adji_grid *grid;             /* the base takes it over                                */
  adji_code_scale *code_scale; /* scale of the prefilter of codes, also taken over; ctx NULL: none */
  adji_box_use boxes;
  bool ego; /* candidates by recursion over the boxes, not by the cells */
} adji_range_index_options;

typedef struct adji_range_base {
  adj_ctx *ctx;
  adji_grid grid;
  adji_index right;
  adji_boxes boxes;
  bool has_boxes, ego;
  bool ordered; /* points in long cells are ordered for boxes */
  adji_code_scale code_scale;
  adji_codes codes;
} adji_range_base;

/* join: its left set and k are not used. Time: sorts the right set. Memory: a copy of the points and about 12 bytes per
 * point; with codes dim more bytes. After a failure there is nothing to clear. */
adj_status adji_range_base_build(const adji_join *join, const adji_range_index_options *options, adji_range_base *base);
void adji_range_base_clear(adji_range_base *base);
uint64_t adji_range_base_bytes(const adji_range_base *base);

/* Must not be moved once it is made. grid, right, boxes and codes are copied from the base, which owns their arrays.
 * Only the limits of the boxes belong to the join. */
typedef struct adji_range_index {
  adj_ctx *ctx;
  adji_grid grid;
  adji_index right, own_left;
  const adji_index *left; /* index of the queries: own_left, or right if one index serves both sets */
  adji_boxes boxes;
  bool has_boxes;
  adji_codes left_codes, right_codes; /* left_codes is unused in a self-join                    */
  adji_prefilter_plan prefilter;      /* filter NULL: no codes                                  */
  bool ego;
  bool symmetric; /* one index of one set, so a pair can be evaluated once */
} adji_range_index;

/* Time: sorts the left set, unless it is the right one. Memory: like the base, for the left set. After a failure it
 * must still be cleared. */
adj_status adji_range_index_build(const adji_join *join, const adji_range_base *base, adji_range_index *index);
void adji_range_index_clear(adji_range_index *index);

/* Estimates the number of pairs from two samples. In many dimensions a few points in dense regions own most pairs. A
 * few hundred queries compared with every point are then a poor and expensive sample. Thousands of queries compared
 * with a fraction of the points are better and cheaper. */
adj_status adji_estimate_pairs(const adji_join *join, const adji_range_index *index, double *pairs);

#endif
