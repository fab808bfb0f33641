/* SPDX-License-Identifier: MIT
 *
 * Plans and indexes are created and destroyed here. adj_plan_create checks the request, and calls the planner for its
 * kind of join and backend.
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

/* The planners, by kind of join and backend. */
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

/* A question that was checked. */
typedef struct request {
  adj_join_spec spec;
  adji_tuning tuning;
  adji_tuning_scope scope;
} request;

/* The backend of a question. A kept index has its structures in host memory, and a GPU has none for queries with a
 * radius each. */
static adj_backend backend_of(const adj_index *index, const adj_join_spec *spec) {
  if (spec->radii && spec->backend == ADJ_BACKEND_HYBRID)
    adji_log(index->ctx, ADJ_LOG_WARN, "the cores do this join alone: a radius for each query is not for GPUs");
  bool cores = spec->backend == ADJ_BACKEND_AUTO || spec->backend == ADJ_BACKEND_HYBRID;
  if (cores && spec->radii) return ADJ_BACKEND_CPU;
  return index->kept && spec->backend == ADJ_BACKEND_AUTO ? ADJ_BACKEND_CPU : spec->backend;
}

/* Makes a plan from an index and a question. */
static adj_status ask(adj_index *index, const request *r, const adj_dataset *left, adj_plan **out) {
  adj_ctx *ctx = index->ctx;
  adj_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return adji_fail(ADJ_E_MEMORY, "no memory for a plan");
  *plan = (adj_plan){.ctx = ctx,
                     .index = adji_index_share(index),
                     .left = left,
                     .right = index->set,
                     .self_join = left == index->set,
                     .spec = r->spec,
                     .tuning = r->tuning,
                     .backends = r->scope.backends,
                     .asked = r->scope.algorithm};
  adji_make_lender(plan);
  adj_backend backend = backend_of(index, &r->spec);
  plan->spec.backend = backend;
  plan->choice.alone = adji_is_small(plan);
  bool before = adji_work_alone(plan->choice.alone);
  adj_status status = adji_describe_join(plan);
  if (!status) adji_warn_radius(plan);
  plan->spec.algorithm = plan->spec.tuning = plan->spec.system = NULL; /* the caller need not keep these */
  plan->spec.box = plan->spec.radii = NULL;
  if (!status) status = planners[r->spec.kind][backend](plan, r->scope.algorithm);
  if (!status) status = adji_engine_prepare(&plan->engine);
  adji_work_alone(before);
  plan->plan_peak = atomic_load(&ctx->memory.peak);
  if (status)
    adj_plan_destroy(plan);
  else
    *out = plan;
  return status;
}

static adj_status create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                         adj_plan **out) {
  request r = {0};
  adj_join_spec_init(&r.spec, sizeof r.spec);
  if (!right) right = left;
  adj_status status = adji_take_struct(&r.spec, sizeof r.spec, spec, "adj_join_spec");
  if (!status) status = adji_check_request(&r.spec, left, right, &r.tuning, &r.scope);
  if (status) return status;
  adj_index *index = NULL;
  adji_memory_reset_peak(&ctx->memory);
  status = adji_index_make(ctx, &r.spec, right, false, left == right ? NULL : "right", &index);
  if (!status) status = ask(index, &r, left, out);
  adji_index_release(index);
  return status;
}

/* ---- Kept indexes --------------------------------------------------------------------------------------- */

ADJI_DEFINE_INIT(adj_index_options, .metric = ADJ_L2, .p = 2)
ADJI_DEFINE_INIT(adj_question, .kind = ADJ_KNN, .radius = INFINITY)

/* The tree serves kNN and range questions alike. In many dimensions it excludes too little: the first question decides
 * what is built. */
static adj_status build_first(adj_index *index) {
  adji_lent tree = {0};
  bool built;
  adj_backend backend = index->spec.backend;
  bool cores = backend == ADJ_BACKEND_AUTO || backend == ADJ_BACKEND_CPU;
  adj_status status = ADJ_OK;
  if (cores && adji_tree_is_useful(&index->measure, index->points->dim))
    status = adji_index_tree(index, 0, &tree, &built);
  else if (backend == ADJ_BACKEND_GPU && adji_gpu_has_tree(&index->measure, index->points->dim))
    status = adji_index_lend(index, 0, &(adji_gpu_right_options){.form = ADJI_RIGHT_TREE}, &tree, &built);
  if (!status) adji_give_back(&tree);
  return status == ADJ_E_DEVICE_MEMORY ? ADJ_OK : status; /* questions go through the device in chunks then */
}

adj_status adj_index_create(adj_ctx *ctx, const adj_index_options *options, const adj_dataset *dataset,
                            adj_index **out) {
  if (!ctx || !dataset || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, dataset and out: none may be NULL");
  request r = {0};
  adj_status status = adji_take_index_options(options, &r.spec);
  if (status) return status;
  adj_index *index = NULL;
  adji_call outer = adji_call_begin(&ctx->cancels);
  status = adji_check_request(&r.spec, dataset, dataset, &r.tuning, &r.scope);
  adji_memory_reset_peak(&ctx->memory);
  if (!status) status = adji_index_make(ctx, &r.spec, dataset, true, NULL, &index);
  if (!status) status = build_first(index);
  adji_call_set(outer);
  if (status)
    adji_index_release(index);
  else
    *out = index;
  return status;
}

void adj_index_destroy(adj_index *index) {
  adji_index_release(index);
}

adj_status adj_index_plan(adj_index *index, const adj_question *question, const adj_dataset *left, adj_plan **out) {
  if (!index || !question || !out) return adji_fail(ADJ_E_ARGUMENT, "index, question and out: none may be NULL");
  request r = {0};
  if (index->origin) return adji_refuse_origin();
  if (!left) left = index->set;
  adji_call outer = adji_call_begin(&index->ctx->cancels);
  adj_status status = adji_take_question(index, question, &r.spec);
  if (!status) status = adji_check_request(&r.spec, left, index->set, &r.tuning, &r.scope);
  r.spec.box_count = index->spec.box_count;
  if (!status) status = ask(index, &r, left, out);
  adji_call_set(outer);
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
  adj_estimate expected = {.pairs = plan->estimated_pairs, .candidates = plan->estimated_candidates};
  expected.result_bytes =
      plan->estimated_pairs * (double)adji_plan_entry_bytes(plan) + 8 * ((double)plan->left->count + 1);
  expected.seconds = plan->estimated_seconds;
  expected.count_seconds = plan->estimated_count_seconds;
  adji_call_set(outer);
  return adji_give_struct(out, &expected, sizeof expected, "adj_estimate");
}
