/* SPDX-License-Identifier: MIT
 *
 * Making a plan: check the request, choose, index, estimate.
 */
#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/range.h"
#include "cpu/reference.h"
#include "index/block_order.h"
#include "index/images.h"
#include "plan/check.h"
#include "plan/choose_access.h"
#include "plan/choose_backend.h"
#include "plan/choose_grid.h"
#include "plan/choose_single.h"
#include "plan/describe.h"
#include "plan/plan_hybrid.h"
#include "plan/plan_knn.h"
#include "plan/plan_range.h"

void adj_join_spec_init(adj_join_spec *spec, size_t struct_size) {
  adj_join_spec defaults = {.kind = ADJ_RANGE, .metric = ADJ_L2, .radius = INFINITY, .p = 2};
  adji_init_struct(spec, struct_size, &defaults, sizeof defaults);
}

void adj_estimate_init(adj_estimate *estimate, size_t struct_size) {
  adj_estimate defaults = {0};
  adji_init_struct(estimate, struct_size, &defaults, sizeof defaults);
}

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
static adj_status prepare_gpu(adj_plan *plan, adji_algorithm algorithm) {
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

static adj_status prepare_reference(adj_plan *plan, adji_algorithm algorithm) {
  (void)algorithm; /* there is only one */
  plan->choice.backend = ADJ_BACKEND_REFERENCE;
  plan->choice.algorithm = ADJI_ALGORITHM_BRUTE;
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "asked for: every pair, one at a time");
  return adji_reference_create(&plan->join, &plan->engine);
}

/* Who makes a plan, by the kind of join and the backend. */
typedef adj_status planner(adj_plan *plan, adji_algorithm algorithm);
static planner *const planners[][ADJ_BACKEND_REFERENCE + 1] = {
    [ADJ_RANGE] = {[ADJ_BACKEND_AUTO] = adji_plan_range_anywhere,
                   [ADJ_BACKEND_CPU] = adji_plan_range_on_cores,
                   [ADJ_BACKEND_GPU] = prepare_gpu,
                   [ADJ_BACKEND_HYBRID] = adji_plan_range_hybrid,
                   [ADJ_BACKEND_REFERENCE] = prepare_reference},
    [ADJ_KNN] = {[ADJ_BACKEND_AUTO] = adji_plan_knn_anywhere,
                 [ADJ_BACKEND_CPU] = adji_plan_knn,
                 [ADJ_BACKEND_GPU] = adji_plan_knn_on_gpu,
                 [ADJ_BACKEND_HYBRID] = adji_plan_knn_hybrid,
                 [ADJ_BACKEND_REFERENCE] = prepare_reference},
};

/* What is asked for: spec->backend becomes the one that the settings leave. */
static adj_status check_request(adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                                adji_tuning *tuning, adji_tuning_scope *scope) {
  adj_status status = adji_check_spec(spec, left, right, &scope->algorithm);
  if (!status) status = adji_check_algorithm_on(spec->kind, spec->backend, scope->algorithm);
  if (!status) status = adji_tuning_parse(spec->tuning, tuning);
  scope->kind = spec->kind;
  scope->metric = spec->metric;
  scope->backend = spec->backend;
  if (!status) status = adji_tuning_fit(tuning, scope);
  if (!status) status = adji_check_algorithm_on(spec->kind, scope->backend, scope->algorithm);
  spec->backend = scope->backend;
  return status;
}

adj_status adj_plan_create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                           adj_plan **out) {
  if (!ctx || !spec || !left || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, left and out: none may be NULL");
  adj_join_spec mine;
  adj_join_spec_init(&mine, sizeof mine);
  adji_tuning tuning;
  adji_tuning_scope scope = {0};
  bool self_join = !right || right == left;
  if (self_join) right = left;
  adj_status status = adji_take_struct(&mine, sizeof mine, spec, "adj_join_spec");
  if (!status) status = check_request(&mine, left, right, &tuning, &scope);
  if (!status) status = adji_check_cancel(ctx);
  if (status) return status;

  adj_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return adji_fail(ADJ_E_MEMORY, "no memory for a plan");
  mine.algorithm = mine.tuning = NULL;
  *plan = (adj_plan){.ctx = ctx, .left = left, .right = right, .self_join = self_join, .spec = mine, .tuning = tuning};
  plan->backends = scope.backends;
  adji_memory_reset_peak(&ctx->memory);
  status = adji_describe_join(plan);
  plan->spec.box = NULL; /* the caller's, who need not keep it */
  if (!status) status = planners[mine.kind][mine.backend](plan, scope.algorithm);
  plan->plan_peak = atomic_load(&ctx->memory.peak);
  if (status)
    adj_plan_destroy(plan);
  else
    *out = plan;
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

void adj_plan_destroy(adj_plan *plan) {
  if (!plan) return;
  adji_forget_cores(plan);
  adji_tree_clear(&plan->left_tree);
  adji_tree_clear(&plan->right_tree);
  adji_grid_clear(plan->ctx, &plan->device_grid);
  adji_forget_join(plan);
  free(plan);
}

adj_status adj_plan_estimate(const adj_plan *plan, adj_estimate *out) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  adj_estimate mine = {.pairs = plan->estimated_pairs, .candidates = plan->estimated_candidates};
  mine.result_bytes = plan->estimated_pairs * (double)adji_plan_entry_bytes(plan) + 8 * ((double)plan->left->count + 1);
  mine.seconds = plan->estimated_seconds;
  return adji_give_struct(out, &mine, sizeof mine, "adj_estimate");
}
