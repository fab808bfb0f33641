/* SPDX-License-Identifier: MIT
 *
 * Building what the cores search in a range join.
 */
#include "cpu/range_index.h"

#include "index/boxes.h"
#include "index/build.h"

/* The index of the right set, and of the left one where it is another: with images of points among the candidates,
 * queries have an index without. */
static adj_status build_orders(const adji_join *join, const adji_range_index_options *options,
                               adji_range_index *index) {
  adji_order_options order = {.boxes = options->boxes != ADJI_BOXES_NEVER}, candidates = order;
  candidates.images = adji_grid_is_periodic(&index->grid) && !options->ego;
  bool one = join->self_join && !candidates.images;
  index->left = one ? &index->right : &index->own_left;
  index->symmetric = one && adji_measure_grows(join->style.measure);
  adj_status status = adji_index_build(join->ctx, &index->grid, join->right, &candidates, &index->right);
  if (!status && !one) status = adji_index_build(join->ctx, &index->grid, join->left, &order, &index->own_left);
  return status;
}

static adj_status build_codes(const adji_join *join, adji_range_index *index) {
  const adji_code_scale *scale = &index->code_scale;
  if (!scale->ctx) return ADJ_OK;
  const adji_codes *left = join->self_join ? &index->right_codes : &index->left_codes;
  index->prefilter =
      (adji_prefilter_plan){adji_prefilter_codes_for(join->ctx->isa), left, &index->right_codes, scale->reach_sq};
  adj_status status = adji_codes_build(join->ctx, &index->right, scale, &index->right_codes);
  if (!status && !join->self_join) status = adji_codes_build(join->ctx, index->left, scale, &index->left_codes);
  return status;
}

adj_status adji_range_index_build(const adji_join *join, const adji_range_index_options *options,
                                  adji_range_index *index) {
  *index = (adji_range_index){
      .ctx = join->ctx, .grid = *options->grid, .code_scale = *options->code_scale, .ego = options->ego};
  *options->grid = (adji_grid){0};
  *options->code_scale = (adji_code_scale){0};
  adj_status status = build_orders(join, options, index);
  index->has_boxes = options->boxes == ADJI_BOXES_ALWAYS ||
                     (options->boxes == ADJI_BOXES_IN_LONG_CELLS && index->right.largest_cell >= ADJI_LONG_CELL);
  if (!status && index->has_boxes)
    status = adji_boxes_build(join->ctx, &index->right, join->style.measure, join->limit, &index->boxes);
  return status ? status : build_codes(join, index);
}

void adji_range_index_clear(adji_range_index *index) {
  adji_boxes_clear(&index->boxes);
  adji_codes_clear(&index->left_codes);
  adji_codes_clear(&index->right_codes);
  adji_code_scale_clear(&index->code_scale);
  adji_index_clear(&index->own_left);
  adji_index_clear(&index->right);
  if (index->ctx) adji_grid_clear(index->ctx, &index->grid);
}
