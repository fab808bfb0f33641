/* SPDX-License-Identifier: MIT
 *
 * Building what the range engine of the cores searches.
 */
#include "cpu/range_index.h"

#include "index/block_order.h"
#include "index/build.h"

adj_status adji_range_index_use_codes(const adji_join *join, const adji_prefilter_codes *filter,
                                      adji_range_index *index, bool *useful) {
  adj_status status = adji_code_scale_init(join->ctx, join->right, join->limit, &index->code_scale, useful);
  if (!status && *useful)
    index->prefilter = (adji_prefilter_plan){filter, NULL, &index->right_codes, index->code_scale.reach_sq};
  return status;
}

/* The index of the right set, and of the left one where it is another: with images of points among the candidates,
 * queries have an index without. */
static adj_status build_orders(const adji_range_index_options *options, adji_range_index *index) {
  const adji_join *join = options->join;
  adji_order_options order = {.boxes = options->boxes != ADJI_BOXES_NEVER}, candidates = order;
  candidates.images = options->images;
  index->one = join->self_join && !candidates.images;
  adj_status status = adji_index_build(join->ctx, options->grid, join->right, &candidates, &index->right);
  if (!status && !index->one) status = adji_index_build(join->ctx, options->grid, join->left, &order, &index->left);
  return status;
}

static adj_status build_codes(const adji_join *join, adji_range_index *index) {
  if (!index->prefilter.filter) return ADJ_OK;
  index->prefilter.left = join->self_join ? &index->right_codes : &index->left_codes;
  adj_status status = adji_codes_build(join->ctx, &index->right, &index->code_scale, &index->right_codes);
  if (!status && !join->self_join)
    status = adji_codes_build(join->ctx, &index->left, &index->code_scale, &index->left_codes);
  return status;
}

adj_status adji_range_index_build(const adji_range_index_options *options, adji_range_index *index) {
  const adji_join *join = options->join;
  adj_status status = build_orders(options, index);
  index->ctx = join->ctx;
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
  adji_index_clear(&index->left);
  adji_index_clear(&index->right);
  *index = (adji_range_index){0};
}
