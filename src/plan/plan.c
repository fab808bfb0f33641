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
#include "index/build.h"
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

/* Whether the filter of codes can be used, and is likely to drop most candidates. */
static adj_status choose_codes(adj_plan *plan) {
  const adji_prefilter_codes *filter = adji_prefilter_codes_for(plan->ctx->isa);
  uint32_t dim = plan->join.left->dim, least = plan->tuning.codes == ADJI_ON ? 1 : ADJI_CODE_MIN_DIM;
  if (!filter || plan->tuning.codes == ADJI_OFF || plan->measure.step != ADJI_STEP_L2 || dim < least ||
      dim > ADJI_CODE_MAX_DIM || !strcmp(plan->choice.algorithm, "brute"))
    return ADJ_OK;
  bool useful;
  adj_status status = adji_code_scale_init(plan->ctx, plan->join.right, plan->join.limit, &plan->code_scale, &useful);
  if (!status && useful)
    plan->prefilter = (adji_prefilter_plan){filter, NULL, &plan->right_codes, plan->code_scale.reach_sq};
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
  if (!strcmp(plan->choice.algorithm, "ego")) return true;
  if (!adji_measure_grows(&plan->measure)) return false; /* no gap bounds an inner product */
  if (plan->tuning.boxes != ADJI_AUTO) return plan->tuning.boxes == ADJI_ON;
  return long_cells && strcmp(plan->choice.algorithm, "brute");
}

/* The index of the right set, and of the left one where it is another: with images of points among the
 * candidates, queries have an index without. */
static adj_status build_orders(adj_plan *plan) {
  adji_order_options order = {.boxes = choose_boxes(plan, true)};
  adji_order_options candidates = order;
  candidates.images = adji_grid_is_periodic(&plan->grid) && !strcmp(plan->choice.algorithm, "grid");
  plan->one_index = plan->self_join && !candidates.images;
  adj_status status = adji_index_build(plan->ctx, &plan->grid, plan->join.right, &candidates, &plan->right_index);
  if (!status && !plan->one_index)
    status = adji_index_build(plan->ctx, &plan->grid, plan->join.left, &order, &plan->left_index);
  return status;
}

static adj_status build_index(adj_plan *plan) {
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
                                .ego = !strcmp(plan->choice.algorithm, "ego"),
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

adj_status adji_choose_for_cores(adj_plan *plan, const char *algorithm) {
  uint64_t begin = adji_now_ns();
  plan->choice.backend = "cpu";
  plan->choice.algorithm = algorithm ? algorithm : adji_measure_grows(&plan->measure) ? "grid" : "brute";
  adj_status status = choose_codes(plan);
  if (!status && strcmp(plan->choice.algorithm, "brute")) status = adji_choose_grid(plan);
  if (!algorithm && !plan->grid.axis_count && adji_measure_grows(&plan->measure)) plan->choice.algorithm = "ego";
  plan->plan_s = seconds(begin, adji_now_ns());
  return status;
}

adj_status adji_prepare_cores(adj_plan *plan) {
  uint64_t begin = adji_now_ns(), chose = (uint64_t)(plan->plan_s * 1e9);
  adj_status status = build_index(plan);
  uint64_t indexed = adji_now_ns();
  plan->cells = plan->right_index.cell_count;
  if (!status) status = estimate(plan);
  if (!status) {
    adji_choose_single(plan);
    adji_range_set_single(&plan->engine, plan->choice.once);
  }
  plan->index_s = seconds(begin, indexed);
  plan->plan_s += seconds(indexed, adji_now_ns());
  adji_trace(plan->ctx, "plan", 0, begin - chose, 0);
  return status;
}

adj_status adji_plan_range_on_cores(adj_plan *plan, const char *algorithm) {
  adj_status status = adji_choose_for_cores(plan, algorithm);
  return status ? status : adji_prepare_cores(plan);
}

adj_status adji_choose_for_device(adj_plan *plan, const char *algorithm, adji_gpu_worker_options *out) {
  plan->choice.backend = "gpu";
  plan->choice.algorithm = algorithm && !strcmp(algorithm, "brute") ? "brute" : "grid";
  if (!adji_measure_grows(&plan->measure)) plan->choice.algorithm = "brute";
  adj_status status = ADJ_OK;
  if (!strcmp(plan->choice.algorithm, "grid") || plan->tuning.product == ADJI_ON) status = adji_choose_grid(plan);
  adji_point_options points;
  if (!status) status = adji_choose_access(plan, &points);
  if (status) return status;
  *out = (adji_gpu_worker_options){.range = {.join = &plan->join,
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
      adji_gpu_range_estimate(&plan->engine, plan->sampled, &plan->estimated_pairs, &plan->estimated_candidates);
  plan->cells = adji_gpu_range_engine_cells(&plan->engine); /* known now */
  plan->device_chunk = adji_gpu_range_engine_chunk(&plan->engine);
  return status;
}

/* The device builds the index; the grid is chosen here. */
static adj_status prepare_gpu(adj_plan *plan, const char *algorithm) {
  uint64_t begin = adji_now_ns();
  adji_gpu_worker_options options;
  adj_status status = adji_choose_for_device(plan, algorithm, &options);
  uint64_t planned = adji_now_ns();
  if (!status) status = adji_gpu_range_create(&options, &plan->engine);
  uint64_t indexed = adji_now_ns();
  if (status) return status;
  status = estimate_on_device(plan);
  plan->index_s = seconds(planned, indexed);
  plan->plan_s = seconds(begin, planned) + seconds(indexed, adji_now_ns());
  adji_trace(plan->ctx, "plan", 0, begin, 0);
  return status;
}

static adj_status prepare_reference(adj_plan *plan) {
  plan->choice.backend = "reference";
  plan->choice.algorithm = "brute";
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "asked for: every pair, one at a time");
  return adji_reference_create(&plan->join, &plan->engine);
}

adj_status adj_plan_create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                           adj_plan **out) {
  if (!ctx || !spec || !left || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, left and out: none may be NULL");
  adj_join_spec mine;
  adj_join_spec_init(&mine, sizeof mine);
  adji_tuning tuning;
  const char *algorithm;
  bool self_join = !right || right == left;
  if (self_join) right = left;
  adj_status status = adji_take_struct(&mine, sizeof mine, spec, "adj_join_spec");
  if (!status) status = adji_check_spec(&mine, left, right, &algorithm);
  if (!status) status = adji_tuning_parse(mine.tuning, &tuning);
  if (!status) status = adji_tuning_fits(&tuning, mine.kind, algorithm);
  if (!status && mine.backend == ADJ_BACKEND_HYBRID) status = adji_gpu_can_be(ctx);
  if (status) return status;

  adj_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return adji_fail(ADJ_E_MEMORY, "no memory for a plan");
  adji_call outer = adji_call_begin(&ctx->cancels);
  mine.algorithm = mine.tuning = NULL;
  *plan = (adj_plan){.ctx = ctx, .left = left, .right = right, .self_join = self_join, .spec = mine, .tuning = tuning};
  adji_memory_reset_peak(&ctx->memory);
  status = adji_describe_join(plan);
  plan->spec.box = NULL; /* the caller's, who need not keep it */
  if (!status)
    status = mine.backend == ADJ_BACKEND_REFERENCE                        ? prepare_reference(plan)
             : mine.kind == ADJ_KNN && mine.backend == ADJ_BACKEND_GPU    ? adji_plan_knn_on_gpu(plan, algorithm)
             : mine.backend == ADJ_BACKEND_GPU                            ? prepare_gpu(plan, algorithm)
             : mine.kind == ADJ_KNN && mine.backend == ADJ_BACKEND_HYBRID ? adji_plan_knn_hybrid(plan, algorithm)
             : mine.kind == ADJ_KNN && mine.backend == ADJ_BACKEND_AUTO   ? adji_plan_knn_anywhere(plan, algorithm)
             : mine.kind == ADJ_KNN                                       ? adji_plan_knn(plan, algorithm)
             : mine.backend == ADJ_BACKEND_HYBRID                         ? adji_plan_range_hybrid(plan, algorithm)
             : mine.backend == ADJ_BACKEND_AUTO                           ? adji_plan_range_anywhere(plan, algorithm)
                                                                          : adji_plan_range_on_cores(plan, algorithm);
  if (!status) status = adji_engine_prepare(&plan->engine);
  plan->plan_peak = atomic_load(&ctx->memory.peak);
  adji_call_set(outer);
  if (status)
    adj_plan_destroy(plan);
  else
    *out = plan;
  return status;
}

void adji_forget_cores(adj_plan *plan) {
  adji_engine_clear(&plan->engine);
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

void adj_worker_init(adj_worker *worker, size_t struct_size) {
  adj_worker defaults = {0};
  adji_init_struct(worker, struct_size, &defaults, sizeof defaults);
}

adj_status adj_plan_worker(const adj_plan *plan, uint32_t i, adj_worker *out) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  if (i >= plan->last.worker_count)
    return adji_fail(ADJ_E_ARGUMENT, "i: worker %u, but the last run had %u", i, plan->last.worker_count);
  return adji_give_struct(out, &plan->last_workers[i], sizeof *out, "adj_worker");
}

adj_status adj_plan_estimate(const adj_plan *plan, adj_estimate *out) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  adj_estimate mine = {.pairs = plan->estimated_pairs, .candidates = plan->estimated_candidates};
  mine.result_bytes = plan->estimated_pairs * (double)adji_plan_entry_bytes(plan) + 8 * ((double)plan->left->count + 1);
  mine.seconds = plan->estimated_seconds;
  return adji_give_struct(out, &mine, sizeof mine, "adj_estimate");
}
