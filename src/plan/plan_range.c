/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a range join on cores, or on a GPU: choose, index, estimate.
 */
#include "plan/plan_range.h"

#include "cpu/range.h"
#include "index/block_order.h"
#include "index/images.h"
#include "plan/choose_access.h"
#include "plan/choose_grid.h"
#include "plan/choose_single.h"

/* ---- Choices and index ------------------------------------------------------------------------------------ */

static adj_status refuse_codes(const char *why) {
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: prefilter=codes: %s", why);
}

/* Whether codes can be the prefilter, and are likely to drop most candidates. */
static adj_status choose_codes(adj_plan *plan) {
  const adji_code_filter *filter = adji_code_filter_for(plan->ctx->isa);
  bool wanted = plan->tuning.prefilter == ADJI_PREFILTER_CODES;
  uint32_t dim = plan->join.left->dim;
  const char *cannot = !filter                              ? "this CPU has no AVX-512 VNNI, or may not use it"
                       : plan->measure.step != ADJI_STEP_L2 ? "it is for L2 without a periodic box"
                       : dim > ADJI_CODE_MAX_DIM            ? "the points have too many dimensions"
                                                            : NULL;
  if (cannot && wanted) return refuse_codes(cannot);
  if (cannot || plan->choice.algorithm == ADJI_ALGORITHM_BRUTE || plan->tuning.prefilter == ADJI_PREFILTER_OFF ||
      (!wanted && dim < ADJI_CODE_MIN_DIM))
    return ADJ_OK;
  bool useful;
  adj_status status = adji_code_scale_init(plan->ctx, plan->join.right, plan->join.limit, &plan->code_scale, &useful);
  if (!status && useful)
    plan->prefilter = (adji_prefilter_plan){filter, NULL, &plan->right_codes, plan->code_scale.reach_sq};
  if (!status && !useful && wanted && plan->join.right->count)
    return refuse_codes("the radius is too small for 8 bits a dimension to tell anything");
  return status;
}

static adj_status build_codes(adj_plan *plan) {
  if (!plan->prefilter.filter) return ADJ_OK;
  plan->prefilter.left = plan->self_join ? &plan->right_codes : &plan->left_codes;
  adj_status status = adji_codes_build(plan->ctx, &plan->right_index, &plan->code_scale, &plan->right_codes);
  if (!status && !plan->self_join)
    status = adji_codes_build(plan->ctx, &plan->left_index, &plan->code_scale, &plan->left_codes);
  return status;
}

/* Boxes are for recursion and for long cells; brute force compares every pair. */
static bool choose_boxes(const adj_plan *plan, bool long_cells) {
  if (plan->choice.algorithm == ADJI_ALGORITHM_EGO) return true;
  if (!adji_measure_grows(&plan->measure)) return false; /* no gap bounds an inner product */
  if (plan->tuning.boxes) return plan->tuning.boxes == ADJI_ON;
  return long_cells && plan->choice.algorithm != ADJI_ALGORITHM_BRUTE;
}

/* The index of the right set, and of the left one where it is another: with images of points among the
 * candidates, queries have an index without. */
static adj_status build_orders(adj_plan *plan) {
  adji_order_options order = {.boxes = choose_boxes(plan, true)};
  adji_order_options candidates = order;
  candidates.images = adji_grid_is_periodic(&plan->grid) && plan->choice.algorithm == ADJI_ALGORITHM_GRID;
  plan->one_index = plan->self_join && !candidates.images;
  adj_status status = adji_index_build(plan->ctx, &plan->grid, plan->join.right, &candidates, &plan->right_index);
  if (!status && !plan->one_index)
    status = adji_index_build(plan->ctx, &plan->grid, plan->join.left, &order, &plan->left_index);
  return status;
}

static adj_status build_index(adj_plan *plan) {
  if (plan->tuning.boxes == ADJI_ON && !adji_measure_grows(&plan->measure))
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: test.boxes=on: boxes do not bound inner products");
  adj_status status = build_orders(plan);
  bool boxes = choose_boxes(plan, plan->right_index.largest_cell >= ADJI_LONG_CELL);
  if (!status && boxes)
    status = adji_boxes_build(plan->ctx, &plan->right_index, &plan->measure, plan->join.limit, &plan->boxes);
  if (!status) status = build_codes(plan);
  if (status) return status;
  adji_range_options options = {.grid = &plan->grid,
                                .left = plan->one_index ? &plan->right_index : &plan->left_index,
                                .right = &plan->right_index,
                                .boxes = boxes ? &plan->boxes : NULL,
                                .prefilter = plan->prefilter.filter ? &plan->prefilter : NULL,
                                .ego = plan->choice.algorithm == ADJI_ALGORITHM_EGO,
                                .symmetric = plan->one_index && adji_measure_grows(&plan->measure),
                                .batch = plan->tuning.batch};
  return adji_range_create(&plan->join, &options, &plan->engine);
}

/* About one query in 500, spread over the whole order. */
static adj_status estimate(adj_plan *plan) {
  uint64_t sample = plan->left->count / 512;
  if (sample < 256) sample = 256;
  if (sample > 2048) sample = 2048;
  if (plan->tuning.sample) sample = plan->tuning.sample;
  plan->sampled = sample < plan->left->count ? sample : plan->left->count;
  return adji_range_estimate(&plan->engine, sample, &plan->estimated_pairs, &plan->estimated_candidates);
}

static double seconds(uint64_t from, uint64_t to) {
  return (double)(to - from) * 1e-9;
}

adj_status adji_choose_for_cores(adj_plan *plan, adji_algorithm algorithm) {
  uint64_t begin = adji_now_ns();
  plan->choice.backend = ADJ_BACKEND_CPU;
  adji_algorithm usual = adji_measure_grows(&plan->measure) ? ADJI_ALGORITHM_GRID : ADJI_ALGORITHM_BRUTE;
  plan->choice.algorithm = algorithm ? algorithm : usual;
  adj_status status = choose_codes(plan);
  if (!status && plan->choice.algorithm != ADJI_ALGORITHM_BRUTE) status = adji_choose_grid(plan);
  if (!algorithm && !plan->grid.axis_count && adji_measure_grows(&plan->measure))
    plan->choice.algorithm = ADJI_ALGORITHM_EGO;
  plan->plan_s = seconds(begin, adji_now_ns());
  return status;
}

adj_status adji_prepare_cores(adj_plan *plan) {
  uint64_t begin = adji_now_ns(), chose = (uint64_t)(plan->plan_s * 1e9);
  adj_status status = build_index(plan);
  uint64_t indexed = adji_now_ns();
  plan->cells = plan->right_index.cell_count;
  if (!status) status = estimate(plan);
  if (!status) status = adji_choose_single(plan);
  if (!status) adji_range_set_single(&plan->engine, plan->choice.once);
  plan->index_s = seconds(begin, indexed);
  plan->plan_s += seconds(indexed, adji_now_ns());
  adji_trace(plan->ctx, "plan", 0, begin - chose, 0);
  return status;
}

adj_status adji_plan_range_on_cores(adj_plan *plan, adji_algorithm algorithm) {
  adj_status status = adji_choose_for_cores(plan, algorithm);
  return status ? status : adji_prepare_cores(plan);
}

adj_status adji_choose_for_device(adj_plan *plan, adji_algorithm algorithm, adji_gpu_engine_options *out) {
  plan->choice.backend = ADJ_BACKEND_GPU;
  plan->choice.algorithm = algorithm == ADJI_ALGORITHM_BRUTE ? ADJI_ALGORITHM_BRUTE : ADJI_ALGORITHM_GRID;
  if (!adji_measure_grows(&plan->measure)) plan->choice.algorithm = ADJI_ALGORITHM_BRUTE;
  adj_status status = ADJ_OK;
  if (plan->choice.algorithm == ADJI_ALGORITHM_GRID || plan->tuning.prefilter == ADJI_PREFILTER_TENSOR)
    status = adji_choose_grid(plan);
  adji_point_options points;
  if (!status) status = adji_choose_access(plan, &points);
  if (!status) status = adji_check_device_kernels(plan);
  if (status) return status;
  *out = (adji_gpu_engine_options){.range = {.join = &plan->join,
                                             .measure = &plan->measure,
                                             .grid = &plan->grid,
                                             .timed = true,
                                             .product = &plan->product,
                                             .mirrored = adji_choose_device_mirrored(plan),
                                             .once = adji_choose_device_single(plan),
                                             .single_pairs = plan->tuning.device_pairs,
                                             .tile_hit_candidates = adji_choose_device_tile_hits(plan, false, 0),
                                             .marks = adji_choose_device_query_hits(plan, false),
                                             .blocks = (uint32_t)plan->tuning.device_blocks,
                                             .points = points},
                                   .batch_bytes = plan->tuning.device_batch,
                                   .slots = plan->tuning.streams,
                                   .chunk = plan->tuning.device_chunk};
  return ADJ_OK;
}

uint64_t adji_device_sample(const adj_plan *plan) {
  uint64_t sample = plan->tuning.sample ? plan->tuning.sample : 4096;
  return sample < plan->left->count ? sample : plan->left->count;
}

static adj_status estimate_on_device(adj_plan *plan) {
  plan->sampled = adji_device_sample(plan);
  adj_status status =
      adji_gpu_engine_estimate(&plan->engine, plan->sampled, &plan->estimated_pairs, &plan->estimated_candidates);
  plan->cells = adji_gpu_engine_cells(&plan->engine); /* known now */
  plan->device_chunk = adji_gpu_engine_chunk(&plan->engine);
  return status;
}

/* The device builds the index; the grid is chosen here. */
adj_status adji_plan_range_on_gpu(adj_plan *plan, adji_algorithm algorithm) {
  uint64_t begin = adji_now_ns();
  adji_gpu_engine_options options;
  adj_status status = adji_choose_for_device(plan, algorithm, &options);
  uint64_t planned = adji_now_ns();
  if (!status) status = adji_gpu_engine_create(&options, &plan->engine);
  uint64_t indexed = adji_now_ns();
  if (status) return status;
  status = estimate_on_device(plan);
  plan->index_s = seconds(planned, indexed);
  plan->plan_s = seconds(begin, planned) + seconds(indexed, adji_now_ns());
  adji_trace(plan->ctx, "plan", 0, begin, 0);
  return status;
}

void adji_forget_cores(adj_plan *plan) {
  if (plan->engine.destroy) plan->engine.destroy(plan->engine.state);
  plan->engine = (adji_engine){0};
  adji_boxes_clear(&plan->boxes);
  adji_codes_clear(&plan->left_codes);
  adji_codes_clear(&plan->right_codes);
  adji_code_scale_clear(&plan->code_scale);
  plan->prefilter = (adji_prefilter_plan){0};
  adji_index_clear(&plan->left_index);
  adji_index_clear(&plan->right_index);
  adji_grid_clear(plan->ctx, &plan->grid);
  plan->grid = (adji_grid){0};
}
