/* SPDX-License-Identifier: MIT
 *
 * What the range engine of the cores searches: both sets in the order of a grid, and what goes along with it.
 */
#ifndef ADJI_RANGE_INDEX_H
#define ADJI_RANGE_INDEX_H

#include "cpu/range.h"

/* Where blocks of points get bounding boxes. */
typedef enum adji_box_use { ADJI_BOXES_NEVER, ADJI_BOXES_IN_LONG_CELLS, ADJI_BOXES_ALWAYS } adji_box_use;

typedef struct adji_range_index {
  adj_ctx *ctx; /* NULL: it is not built */
  adji_index left, right;
  bool one; /* the right one is that of the left set too */
  adji_boxes boxes;
  bool has_boxes;
  adji_code_scale code_scale;
  adji_codes left_codes, right_codes; /* left_codes is unused in a self-join */
  adji_prefilter_plan prefilter;      /* filter NULL: no codes               */
} adji_range_index;

/* Codes will be built too, if they are of use at this radius; otherwise *useful is false, and nothing is kept. */
adj_status adji_range_index_use_codes(const adji_join *join, const adji_prefilter_codes *filter,
                                      adji_range_index *index, bool *useful);

typedef struct adji_range_index_options {
  const adji_join *join;
  const adji_grid *grid;
  bool images; /* of points near the faces of a periodic box, among the candidates */
  adji_box_use boxes;
} adji_range_index_options;

/* Time: sorts both sets. Memory: a copy of the points and about 12 bytes a point; codes: dim bytes more. What a failure
 * leaves is cleared with the index. */
adj_status adji_range_index_build(const adji_range_index_options *options, adji_range_index *index);

/* Of the queries. */
static inline const adji_index *adji_range_index_left(const adji_range_index *index) {
  return index->one ? &index->right : &index->left;
}

void adji_range_index_clear(adji_range_index *index);

#endif
