/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a range join on cores, or on a GPU: choose, index, estimate.
 */
#include "plan/plan_range.h"

#include <stdio.h>

#include "cpu/range.h"
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
  const adji_prefilter_codes *filter = adji_prefilter_codes_for(plan->ctx->isa);
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
  adj_status status = adji_range_index_use_codes(&plan->join, filter, &plan->index, &plan->question.codes);
  if (!status && !plan->question.codes && wanted && plan->join.right->count)
    return refuse_codes("the radius is too small for 8 bits a dimension to tell anything");
  return status;
}

/* Boxes are for recursion and for long cells; brute force compares every pair. */
static adji_box_use choose_boxes(const adj_plan *plan) {
  if (plan->choice.algorithm == ADJI_ALGORITHM_EGO) return ADJI_BOXES_ALWAYS;
  if (!adji_measure_grows(&plan->measure)) return ADJI_BOXES_NEVER; /* no gap bounds an inner product */
  if (plan->tuning.boxes) return plan->tuning.boxes == ADJI_ON ? ADJI_BOXES_ALWAYS : ADJI_BOXES_NEVER;
  return plan->choice.algorithm == ADJI_ALGORITHM_BRUTE ? ADJI_BOXES_NEVER : ADJI_BOXES_IN_LONG_CELLS;
}

static adj_status build_index(adj_plan *plan) {
  if (plan->tuning.boxes == ADJI_ON && !adji_measure_grows(&plan->measure))
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: test.boxes=on: boxes do not bound inner products");
  const adji_grid *grid = &plan->cores.grid;
  adji_range_index *index = &plan->index;
  adji_algorithm algorithm = plan->choice.algorithm;
  adji_range_index_options wanted = {.join = &plan->join, .grid = grid, .boxes = choose_boxes(plan)};
  wanted.images = adji_grid_is_periodic(grid) && algorithm == ADJI_ALGORITHM_GRID;
  adj_status status = adji_range_index_build(&wanted, index);
  if (status) return status;
  adji_range_options options = {.grid = grid,
                                .left = adji_range_index_left(index),
                                .right = &index->right,
                                .boxes = index->has_boxes ? &index->boxes : NULL,
                                .prefilter = index->prefilter.filter ? &index->prefilter : NULL,
                                .ego = algorithm == ADJI_ALGORITHM_EGO,
                                .symmetric = index->one && adji_measure_grows(&plan->measure),
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
  if (!status && plan->choice.algorithm != ADJI_ALGORITHM_BRUTE)
    status = adji_choose_grid(&plan->question, false, &plan->cores);
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "%s", plan->cores.reason);
  if (!algorithm && !plan->cores.grid.axis_count && adji_measure_grows(&plan->measure))
    plan->choice.algorithm = ADJI_ALGORITHM_EGO;
  plan->plan_s = seconds(begin, adji_now_ns());
  return status;
}

adj_status adji_prepare_cores(adj_plan *plan) {
  uint64_t begin = adji_now_ns(), chose = (uint64_t)(plan->plan_s * 1e9);
  adj_status status = build_index(plan);
  uint64_t indexed = adji_now_ns();
  plan->cells = plan->index.right.cell_count;
  if (!status) status = estimate(plan);
  adji_single_choice single = {0};
  if (!status)
    status = adji_choose_single(&plan->question, plan->index.one, plan->estimated_pairs, plan->estimated_candidates,
                                &single);
  plan->choice.once = single.single;
  plan->estimated_seconds = single.seconds;
  if (!status) adji_range_set_single(&plan->engine, single.single);
  plan->index_s = seconds(begin, indexed);
  plan->plan_s += seconds(indexed, adji_now_ns());
  adji_trace(plan->ctx, "plan", 0, begin - chose, 0);
  return status;
}

adj_status adji_plan_range_on_cores(adj_plan *plan, adji_algorithm algorithm) {
  adj_status status = adji_choose_for_cores(plan, algorithm);
  return status ? status : adji_prepare_cores(plan);
}

adj_status adji_choose_for_device(const adji_range_question *question, adji_algorithm algorithm,
                                  adji_device_choice *out) {
  adji_range_question q = *question;
  const adji_tuning *tuning = q.tuning;
  const adji_grid_choice *grid = &out->grid;
  bool brute = algorithm == ADJI_ALGORITHM_BRUTE || !adji_measure_grows(q.measure);
  q.device = true;
  q.codes = false;
  *out = (adji_device_choice){.algorithm = brute ? ADJI_ALGORITHM_BRUTE : ADJI_ALGORITHM_GRID};
  adj_status status = ADJ_OK;
  if (!brute || tuning->prefilter == ADJI_PREFILTER_TENSOR) status = adji_choose_grid(&q, brute, &out->grid);
  adji_point_options points;
  if (!status) status = adji_choose_access(&q, grid, &points);
  if (!status) status = adji_check_device_kernels(&q, grid);
  if (status) {
    adji_grid_choice_clear(q.join->ctx, &out->grid);
    return status;
  }
  out->options =
      (adji_gpu_worker_options){.range = {.join = q.join,
                                          .measure = q.measure,
                                          .grid = &grid->grid,
                                          .timed = true,
                                          .product = &grid->tensor,
                                          .mirrored = adji_choose_device_mirrored(&q, grid),
                                          .once = adji_choose_device_single(&q, grid),
                                          .single_pairs = tuning->device_pairs,
                                          .tile_hit_candidates = adji_choose_device_tile_hits(&q, grid, false, 0),
                                          .marks = adji_choose_device_query_hits(&q, grid, false),
                                          .blocks = (uint32_t)tuning->device_blocks,
                                          .points = points},
                                .batch_bytes = tuning->device_batch,
                                .slots = tuning->streams,
                                .chunk = tuning->device_chunk};
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
adj_status adji_plan_range_on_gpu(adj_plan *plan, adji_algorithm algorithm) {
  uint64_t begin = adji_now_ns();
  adj_status status = adji_choose_for_device(&plan->question, algorithm, &plan->device);
  plan->choice.backend = ADJ_BACKEND_GPU;
  plan->choice.algorithm = plan->device.algorithm;
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "%s", plan->device.grid.reason);
  uint64_t planned = adji_now_ns();
  if (!status) status = adji_gpu_range_create(&plan->device.options, &plan->engine);
  uint64_t indexed = adji_now_ns();
  if (status) return status;
  status = estimate_on_device(plan);
  plan->index_s = seconds(planned, indexed);
  plan->plan_s = seconds(begin, planned) + seconds(indexed, adji_now_ns());
  adji_trace(plan->ctx, "plan", 0, begin, 0);
  return status;
}

void adji_forget_cores(adj_plan *plan) {
  adji_engine_clear(&plan->engine);
  adji_range_index_clear(&plan->index);
  adji_grid_choice_clear(plan->ctx, &plan->cores);
  plan->question.codes = false;
}

void adji_forget_device(adj_plan *plan) {
  adji_grid_choice_clear(plan->ctx, &plan->device.grid);
}
