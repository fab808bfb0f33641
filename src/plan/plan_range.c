/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a range join on cores, or on a GPU: choose, index, estimate.
 */
#include <stdio.h>

#include "cpu/range.h"
#include "plan/plan.h"

/* ---- Choices and index ------------------------------------------------------------------------------------ */

static adj_status refuse_codes(const char *why) {
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: prefilter=codes: %s", why);
}

/* Whether codes can be the prefilter, and are likely to drop most candidates. */
static adj_status choose_codes(adj_plan *plan, adji_code_scale *out) {
  bool wanted = plan->tuning.prefilter == ADJI_PREFILTER_CODES, *useful = &plan->question.codes;
  uint32_t dim = plan->join.left->dim;
  const char *cannot = !adji_prefilter_codes_for(plan->ctx->isa) ? "this CPU has no AVX-512 VNNI, or may not use it"
                       : plan->measure.step != ADJI_STEP_L2      ? "it is for L2 without a periodic box"
                       : dim > ADJI_CODE_MAX_DIM                 ? "the points have too many dimensions"
                                                                 : NULL;
  if (cannot && wanted) return refuse_codes(cannot);
  if (cannot || plan->choice.algorithm == ADJI_ALGORITHM_BRUTE || plan->tuning.prefilter == ADJI_PREFILTER_OFF ||
      (!wanted && dim < ADJI_CODE_MIN_DIM))
    return ADJ_OK;
  adj_status status = adji_code_scale_init(plan->ctx, plan->join.right, plan->join.limit, out, useful);
  if (!*useful) adji_code_scale_clear(out);
  if (!status && !*useful && wanted && plan->join.right->count)
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

static adj_status build_index(adj_plan *plan, adji_cores_choice *chosen) {
  adji_range_index_options options = {.grid = &chosen->grid.grid,
                                      .code_scale = &chosen->code_scale,
                                      .boxes = choose_boxes(plan),
                                      .ego = plan->choice.algorithm == ADJI_ALGORITHM_EGO};
  if (plan->tuning.boxes == ADJI_ON && !adji_measure_grows(&plan->measure))
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: test.boxes=on: boxes do not bound inner products");
  return adji_range_create(&plan->join, &options, plan->tuning.batch, &plan->engine);
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

void adji_cores_choice_clear(adj_ctx *ctx, adji_cores_choice *choice) {
  adji_code_scale_clear(&choice->code_scale);
  adji_grid_choice_clear(ctx, &choice->grid);
}

adj_status adji_choose_for_cores(adj_plan *plan, adji_algorithm algorithm, adji_cores_choice *out) {
  uint64_t begin = adji_now_ns();
  *out = (adji_cores_choice){0};
  plan->choice.backend = ADJ_BACKEND_CPU;
  adji_algorithm usual = adji_measure_grows(&plan->measure) ? ADJI_ALGORITHM_GRID : ADJI_ALGORITHM_BRUTE;
  plan->choice.algorithm = algorithm ? algorithm : usual;
  adj_status status = choose_codes(plan, &out->code_scale);
  if (!status && plan->choice.algorithm != ADJI_ALGORITHM_BRUTE)
    status = adji_choose_grid(&plan->question, false, &out->grid);
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "%s", out->grid.reason);
  if (!algorithm && !out->grid.grid.axis_count && adji_measure_grows(&plan->measure))
    plan->choice.algorithm = ADJI_ALGORITHM_EGO;
  if (status) adji_cores_choice_clear(plan->ctx, out);
  plan->plan_s = seconds(begin, adji_now_ns());
  return status;
}

adj_status adji_prepare_cores(adj_plan *plan, adji_cores_choice *chosen) {
  uint64_t begin = adji_now_ns(), chose = (uint64_t)(plan->plan_s * 1e9);
  adj_status status = build_index(plan, chosen);
  adji_cores_choice_clear(plan->ctx, chosen);
  uint64_t indexed = adji_now_ns();
  if (!status) status = estimate(plan);
  if (status) return status;
  const adji_range_index *index = adji_range_index_of(&plan->engine);
  plan->cells = index->right.cell_count;
  adji_single_choice single = {0};
  status =
      adji_choose_single(&plan->question, index->symmetric, plan->estimated_pairs, plan->estimated_candidates, &single);
  plan->choice.single = single.single;
  plan->estimated_seconds = single.seconds;
  if (!status) adji_range_set_single(&plan->engine, single.single);
  plan->index_s = seconds(begin, indexed);
  plan->plan_s += seconds(indexed, adji_now_ns());
  adji_trace(plan->ctx, "plan", 0, begin - chose, 0);
  return status;
}

adj_status adji_plan_range_on_cores(adj_plan *plan, adji_algorithm algorithm) {
  adji_cores_choice chosen;
  adj_status status = adji_choose_for_cores(plan, algorithm, &chosen);
  return status ? status : adji_prepare_cores(plan, &chosen);
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
                                          .tensor = &grid->tensor,
                                          .mirrored = adji_choose_device_mirrored(&q, grid),
                                          .single = adji_choose_device_single(&q, grid),
                                          .single_pairs = tuning->device_pairs,
                                          .tile_hit_candidates = adji_choose_device_tile_hits(&q, grid, false, 0),
                                          .query_hits = adji_choose_device_query_hits(&q, grid, false),
                                          .blocks = (uint32_t)tuning->device_blocks,
                                          .points = points},
                                .batch_bytes = tuning->device_batch,
                                .slots = tuning->streams,
                                .slices = tuning->slices,
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
  plan->question.codes = false;
}

void adji_forget_device(adj_plan *plan) {
  adji_grid_choice_clear(plan->ctx, &plan->device.grid);
}
