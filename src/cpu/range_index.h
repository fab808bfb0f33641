/* SPDX-License-Identifier: MIT
 *
 * What the cores search in a range join: both sets in the order of a grid, and what belongs to it. The part of the
 * right set is the base. It is the same for all joins with that set, whatever the left set and for every radius up to
 * the one it was made for; so it can be kept and shared.
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
  adji_code_scale *code_scale; /* of the prefilter of codes, the same; ctx NULL: none   */
  adji_box_use boxes;
  bool ego; /* candidates by recursion over the boxes, not by the cells */
} adji_range_index_options;

typedef struct adji_range_base {
  adj_ctx *ctx;
  adji_grid grid;
  adji_index right;
  adji_boxes boxes;
  bool has_boxes, ego;
  bool ordered; /* points within long cells are ordered for boxes */
  adji_code_scale code_scale;
  adji_codes codes;
} adji_range_base;

/* join: of its left set and k nothing is used. Time: sorts the right set. Memory: a copy of the points and about 12
 * bytes a point; codes: dim bytes more. Leaves nothing to clear on failure. */
adj_status adji_range_base_build(const adji_join *join, const adji_range_index_options *options, adji_range_base *base);
void adji_range_base_clear(adji_range_base *base);
uint64_t adji_range_base_bytes(const adji_range_base *base);

/* Does not move once it is made. grid, right, boxes and codes are those of the base: the arrays stay there. Only the
 * limits of the boxes are the join's own. */
typedef struct adji_range_index {
  adj_ctx *ctx;
  adji_grid grid;
  adji_index right, own_left;
  const adji_index *left; /* of the queries: own_left, or right where one index serves both */
  adji_boxes boxes;
  bool has_boxes;
  adji_codes left_codes, right_codes; /* left_codes is unused in a self-join                    */
  adji_prefilter_plan prefilter;      /* filter NULL: no codes                                  */
  bool ego;
  bool symmetric; /* one index of one set, in which a pair can be met once */
} adji_range_index;

/* Time: sorts the left set, unless it is the right one. Memory: as the base, for the left set. What a failure leaves is
 * cleared with the index. */
adj_status adji_range_index_build(const adji_join *join, const adji_range_base *base, adji_range_index *index);
void adji_range_index_clear(adji_range_index *index);

/* Estimates the number of pairs from two samples. In many dimensions a few points in dense regions own most pairs. A
 * few hundred queries compared with every point are then a poor and expensive sample. Thousands of queries compared
 * with a fraction of the points are better and cheaper. */
adj_status adji_estimate_pairs(const adji_join *join, const adji_range_index *index, double *pairs);

#endif
