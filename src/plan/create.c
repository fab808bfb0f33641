/* SPDX-License-Identifier: MIT
 *
 * A plan is created and destroyed here: the request is checked, and the planner for its kind and backend called.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/reference.h"
#include "plan/plan.h"

ADJI_DEFINE_INIT(adj_join_spec, .kind = ADJ_RANGE, .metric = ADJ_L2, .radius = INFINITY, .p = 2)

ADJI_DEFINE_INIT(adj_estimate, 0)

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
                   [ADJ_BACKEND_GPU] = adji_plan_range_on_gpu,
                   [ADJ_BACKEND_HYBRID] = adji_plan_range_hybrid,
                   [ADJ_BACKEND_REFERENCE] = prepare_reference},
    [ADJ_KNN] = {[ADJ_BACKEND_AUTO] = adji_plan_knn_anywhere,
                 [ADJ_BACKEND_CPU] = adji_plan_knn,
                 [ADJ_BACKEND_GPU] = adji_plan_knn_on_gpu,
                 [ADJ_BACKEND_HYBRID] = adji_plan_knn_hybrid,
                 [ADJ_BACKEND_REFERENCE] = prepare_reference},
};

static adj_status create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                         adj_plan **out) {
  adj_join_spec mine;
  adj_join_spec_init(&mine, sizeof mine);
  adji_tuning tuning;
  adji_tuning_scope scope = {0};
  bool self_join = !right || right == left;
  if (self_join) right = left;
  adj_status status = adji_take_struct(&mine, sizeof mine, spec, "adj_join_spec");
  if (!status) status = adji_check_request(&mine, left, right, &tuning, &scope);
  if (status) return status;

  adj_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return adji_fail(ADJ_E_MEMORY, "no memory for a plan");
  mine.algorithm = mine.tuning = NULL;
  *plan = (adj_plan){.ctx = ctx, .left = left, .right = right, .self_join = self_join, .spec = mine, .tuning = tuning};
  plan->backends = scope.backends;
  plan->asked = scope.algorithm;
  adji_memory_reset_peak(&ctx->memory);
  status = adji_describe_join(plan);
  if (!status) adji_warn_radius(plan);
  plan->spec.box = NULL; /* the caller's, who need not keep it */
  if (!status) status = planners[mine.kind][mine.backend](plan, scope.algorithm);
  if (!status) status = adji_engine_prepare(&plan->engine);
  plan->plan_peak = atomic_load(&ctx->memory.peak);
  if (status)
    adj_plan_destroy(plan);
  else
    *out = plan;
  return status;
}

adj_status adj_plan_create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                           adj_plan **out) {
  if (!ctx || !spec || !left || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, left and out: none may be NULL");
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = create(ctx, spec, left, right, out);
  adji_call_set(outer);
  return status;
}

void adj_plan_destroy(adj_plan *plan) {
  if (!plan) return;
  adji_engine_clear(&plan->engine);
  adji_forget_device(plan);
  adji_forget_join(plan);
  free(plan);
}

ADJI_DEFINE_INIT(adj_worker, 0)

adj_status adj_plan_worker(const adj_plan *plan, uint32_t i, adj_worker *out) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  if (i >= plan->last.worker_count)
    return adji_fail(ADJ_E_ARGUMENT, "i: worker %u, but the last run had %u", i, plan->last.worker_count);
  return adji_give_struct(out, &plan->last_workers[i], sizeof *out, "adj_worker");
}

adj_status adj_plan_estimate(const adj_plan *plan, adj_estimate *out) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  adji_call outer = adji_call_begin(&plan->ctx->cancels);
  adj_estimate mine = {.pairs = plan->estimated_pairs, .candidates = plan->estimated_candidates};
  mine.result_bytes = plan->estimated_pairs * (double)adji_plan_entry_bytes(plan) + 8 * ((double)plan->left->count + 1);
  mine.seconds = plan->estimated_seconds;
  adji_call_set(outer);
  return adji_give_struct(out, &mine, sizeof mine, "adj_estimate");
}
