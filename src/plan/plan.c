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
#include "plan/choose_grid.h"
#include "plan/choose_once.h"
#include "plan/plan_nearest.h"

void adj_join_spec_init(adj_join_spec *spec, size_t struct_size) {
  adj_join_spec defaults = {.kind = ADJ_RANGE, .metric = ADJ_L2, .radius = INFINITY, .p = 2};
  adji_init_struct(spec, struct_size, &defaults, sizeof defaults);
}

void adj_estimate_init(adj_estimate *estimate, size_t struct_size) {
  adj_estimate defaults = {0};
  adji_init_struct(estimate, struct_size, &defaults, sizeof defaults);
}

/* ---- Checks --------------------------------------------------------------------------------------------- */

static adj_status check_kind(const adj_join_spec *spec) {
  if (spec->kind != ADJ_RANGE && spec->kind != ADJ_KNN)
    return adji_fail(ADJ_E_ARGUMENT, "kind: %d is no kind of join", (int)spec->kind);
  if (isnan(spec->radius) || spec->radius < 0)
    return adji_fail(ADJ_E_ARGUMENT, "radius: %g is not a distance", spec->radius);
  if (isinf(spec->radius) && spec->kind == ADJ_RANGE)
    return adji_fail(ADJ_E_ARGUMENT, "radius: a range join needs a finite radius");
  if (spec->kind == ADJ_KNN && !spec->k) return adji_fail(ADJ_E_ARGUMENT, "k: a kNN join needs at least 1 neighbour");
  if (spec->metric < ADJ_L2 || spec->metric > ADJ_HAVERSINE)
    return adji_fail(ADJ_E_ARGUMENT, "metric: %d is no metric", (int)spec->metric);
  if (spec->metric > ADJ_LINF)
    return adji_fail(ADJ_E_UNSUPPORTED, "metric: only L2, L1 and Linf are in this version yet");
  return ADJ_OK;
}

static adj_status check_style(const adj_join_spec *spec, bool self_join) {
  if (spec->order < ADJ_ORDER_ID || spec->order > ADJ_ORDER_ANY)
    return adji_fail(ADJ_E_ARGUMENT, "order: %d is no order", (int)spec->order);
  if (spec->flags & ~(uint32_t)(ADJ_WITH_DISTANCE | ADJ_WITH_SELF | ADJ_ONE_WAY))
    return adji_fail(ADJ_E_ARGUMENT, "flags: 0x%x has bits this library does not know", spec->flags);
  if ((spec->flags & ADJ_ONE_WAY) && spec->kind == ADJ_KNN)
    return adji_fail(ADJ_E_ARGUMENT, "flags: ADJ_ONE_WAY is for range joins");
  if ((spec->flags & ADJ_ONE_WAY) && !self_join)
    return adji_fail(ADJ_E_ARGUMENT, "flags: ADJ_ONE_WAY is for joins of a set with itself");
  if ((spec->flags & ADJ_ONE_WAY) && (spec->flags & ADJ_WITH_SELF))
    return adji_fail(ADJ_E_ARGUMENT, "flags: ADJ_ONE_WAY reports i < j, so ADJ_WITH_SELF cannot be added");
  return ADJ_OK;
}

static adj_status check_sets(const adj_dataset *left, const adj_dataset *right) {
  if (left->dim != right->dim)
    return adji_fail(ADJ_E_ARGUMENT, "left and right: %u and %u dimensions", left->dim, right->dim);
  if (left->type != right->type)
    return adji_fail(ADJ_E_ARGUMENT, "left and right: one is f32, the other f64; open both with the same type");
  return ADJ_OK;
}

/* The algorithms of each kind of join; NULL ends a list. */
static const char *const range_algorithms[] = {"grid", "ego", "brute", NULL};
static const char *const knn_algorithms[] = {"kdtree", "brute", NULL};

static adj_status check_algorithm(const adj_join_spec *spec, const char **algorithm) {
  const char *wanted = spec->algorithm;
  bool knn = spec->kind == ADJ_KNN;
  *algorithm = NULL;
  if (!wanted || !strcmp(wanted, "auto")) return ADJ_OK;
  for (const char *const *name = knn ? knn_algorithms : range_algorithms; *name; name++)
    if (!strcmp(wanted, *name)) *algorithm = *name;
  if (*algorithm) return ADJ_OK;
  return adji_fail(ADJ_E_ARGUMENT, "algorithm: \"%s\" is not auto, %s", wanted,
                   knn ? "kdtree or brute" : "grid, ego or brute");
}

static adj_status check_backend(adj_backend backend) {
  if (backend == ADJ_BACKEND_GPU || backend == ADJ_BACKEND_HYBRID)
    return adji_fail(ADJ_E_UNSUPPORTED, "backend: this build has no GPU code");
  if (backend > ADJ_BACKEND_REFERENCE) return adji_fail(ADJ_E_ARGUMENT, "backend: %d is no backend", (int)backend);
  return ADJ_OK;
}

/* ---- Choices and index ------------------------------------------------------------------------------------ */

static void describe_join(adj_plan *plan) {
  const adj_join_spec *spec = &plan->spec;
  plan->join = (adji_join){.ctx = plan->ctx, .left = plan->left, .right = plan->right, .self_join = plan->self_join};
  plan->join.k = spec->kind == ADJ_KNN ? spec->k : 0;
  plan->join.limit = adji_limit(plan->left->type, spec->metric, spec->radius);
  plan->join.style = (adji_row_style){.type = plan->left->type,
                                      .metric = spec->metric,
                                      .order = spec->order,
                                      .distances = spec->flags & ADJ_WITH_DISTANCE,
                                      .drop_self = plan->self_join && !(spec->flags & ADJ_WITH_SELF),
                                      .one_way = spec->flags & ADJ_ONE_WAY,
                                      .kernels = adji_kernels_for(plan->ctx->isa)};
}

/* Whether the filter of codes can be used, and is likely to drop most candidates. */
static adj_status choose_codes(adj_plan *plan) {
  const adji_filter *filter = adji_filter_for(plan->ctx->isa);
  uint32_t dim = plan->left->dim, least = plan->tuning.codes == ADJI_ON ? 1 : ADJI_CODE_MIN_DIM;
  if (!filter || plan->tuning.codes == ADJI_OFF || plan->spec.metric != ADJ_L2 || dim < least ||
      dim > ADJI_CODE_MAX_DIM || !strcmp(plan->choice.algorithm, "brute"))
    return ADJ_OK;
  bool useful;
  adj_status status = adji_code_scale_init(plan->ctx, plan->right, plan->join.limit, &plan->code_scale, &useful);
  if (!status && useful) plan->sieve = (adji_sieve_plan){filter, NULL, &plan->right_codes, plan->code_scale.reach_sq};
  return status;
}

static adj_status build_codes(adj_plan *plan) {
  if (!plan->sieve.filter) return ADJ_OK;
  plan->sieve.left = plan->self_join ? &plan->right_codes : &plan->left_codes;
  adj_status status = adji_codes_build(plan->ctx, &plan->right_index, &plan->code_scale, &plan->right_codes);
  if (!status && !plan->self_join)
    status = adji_codes_build(plan->ctx, &plan->left_index, &plan->code_scale, &plan->left_codes);
  return status;
}

/* Boxes are for recursion and for long cells; brute force compares every pair. */
static bool choose_boxes(const adj_plan *plan, bool long_cells) {
  if (!strcmp(plan->choice.algorithm, "ego")) return true;
  if (plan->tuning.boxes != ADJI_AUTO) return plan->tuning.boxes == ADJI_ON;
  return long_cells && strcmp(plan->choice.algorithm, "brute");
}

static adj_status build_index(adj_plan *plan) {
  adji_order_options order = {.boxes = choose_boxes(plan, true)};
  adj_status status = adji_index_build(plan->ctx, &plan->grid, plan->right, &order, &plan->right_index);
  if (!status && !plan->self_join)
    status = adji_index_build(plan->ctx, &plan->grid, plan->left, &order, &plan->left_index);
  bool boxes = choose_boxes(plan, plan->right_index.largest_cell >= ADJI_LONG_CELL);
  if (!status && boxes) status = adji_boxes_build(plan->ctx, &plan->right_index, plan->spec.metric, &plan->boxes);
  if (!status) status = build_codes(plan);
  if (status) return status;
  adji_range_options options = {.grid = &plan->grid,
                                .left = plan->self_join ? &plan->right_index : &plan->left_index,
                                .right = &plan->right_index,
                                .boxes = boxes ? &plan->boxes : NULL,
                                .sieve = plan->sieve.filter ? &plan->sieve : NULL,
                                .ego = !strcmp(plan->choice.algorithm, "ego"),
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

static adj_status prepare_cpu(adj_plan *plan, const char *algorithm) {
  uint64_t begin = adji_now_ns();
  plan->choice.backend = "cpu";
  plan->choice.algorithm = algorithm ? algorithm : "grid";
  adj_status status = choose_codes(plan);
  if (!status && strcmp(plan->choice.algorithm, "brute")) status = adji_choose_grid(plan);
  if (!algorithm && !plan->grid.axis_count) plan->choice.algorithm = "ego";
  uint64_t planned = adji_now_ns();
  if (!status) status = build_index(plan);
  uint64_t indexed = adji_now_ns();
  if (!status) status = estimate(plan);
  if (!status) {
    adji_choose_once(plan);
    adji_range_set_once(&plan->engine, plan->choice.once);
  }
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
  if (!status) status = check_kind(&mine);
  if (!status) status = check_style(&mine, self_join);
  if (!status) status = check_sets(left, right);
  if (!status) status = check_backend(mine.backend);
  if (!status) status = check_algorithm(&mine, &algorithm);
  if (!status) status = adji_tuning_parse(mine.tuning, &tuning);
  if (!status) status = adji_check_cancel(ctx);
  if (status) return status;

  adj_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return adji_fail(ADJ_E_MEMORY, "no memory for a plan");
  mine.algorithm = mine.tuning = NULL;
  *plan = (adj_plan){.ctx = ctx, .left = left, .right = right, .self_join = self_join, .spec = mine, .tuning = tuning};
  describe_join(plan);
  adji_memory_reset_peak(&ctx->memory);
  status = mine.backend == ADJ_BACKEND_REFERENCE ? prepare_reference(plan)
           : mine.kind == ADJ_KNN                ? adji_plan_nearest(plan, algorithm)
                                                 : prepare_cpu(plan, algorithm);
  plan->plan_peak = atomic_load(&ctx->memory.peak);
  if (status)
    adj_plan_destroy(plan);
  else
    *out = plan;
  return status;
}

void adj_plan_destroy(adj_plan *plan) {
  if (!plan) return;
  if (plan->engine.destroy) plan->engine.destroy(plan->engine.state);
  adji_boxes_clear(&plan->boxes);
  adji_codes_clear(&plan->left_codes);
  adji_codes_clear(&plan->right_codes);
  adji_code_scale_clear(&plan->code_scale);
  adji_index_clear(&plan->left_index);
  adji_index_clear(&plan->right_index);
  adji_grid_clear(plan->ctx, &plan->grid);
  free(plan);
}

adj_status adj_plan_estimate(const adj_plan *plan, adj_estimate *out) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  adj_estimate mine = {.pairs = plan->estimated_pairs, .candidates = plan->estimated_candidates};
  mine.result_bytes = plan->estimated_pairs * (double)adji_plan_entry_bytes(plan) + 8 * ((double)plan->left->count + 1);
  mine.seconds = plan->estimated_seconds;
  return adji_give_struct(out, &mine, sizeof mine, "adj_estimate");
}
