/* SPDX-License-Identifier: MIT
 *
 * The join that the engines see: the points of the index and those of the question, which are derived for some metrics.
 */
#include <math.h>

#include "data/derive.h"
#include "plan/plan.h"

/* Adds the name of the set to a failure, if there are two sets. */
static adj_status in_set(const adj_plan *plan, const char *name, adj_status status) {
  return status && !plan->self_join ? adji_fail_in(status, name) : status;
}

static void describe(adj_plan *plan) {
  const adj_join_spec *spec = &plan->spec;
  plan->join = (adji_join){.ctx = plan->ctx, .left = plan->left, .right = plan->right, .self_join = plan->self_join};
  plan->join.k = spec->kind == ADJ_KNN ? spec->k : 0;
  plan->join.limit = adji_limit(&plan->measure, plan->left->type, spec->radius);
  plan->join.style = (adji_row_style){.type = plan->left->type,
                                      .measure = &plan->measure,
                                      .order = spec->order,
                                      .distances = spec->flags & (ADJ_WITH_DISTANCE | ADJ_WITH_SUM),
                                      .drop_self = plan->self_join && !(spec->flags & ADJ_WITH_SELF),
                                      .one_way = spec->flags & ADJ_ONE_WAY,
                                      .kernels = adji_kernels_for(plan->ctx->isa)};
  plan->question = (adji_range_question){
      .join = &plan->join, .measure = &plan->measure, .tuning = &plan->tuning, .lender = adji_plan_lender_of(plan)};
}

/* Called after the limits are computed, as these depend on how distances are reported. */
static void report_sums(adj_plan *plan) {
  if (plan->spec.flags & ADJ_WITH_SUM) plan->measure.report = ADJI_REPORT_SUM;
}

adj_status adji_describe_derived(adj_plan *plan) {
  adj_status status =
      adji_describe_measure(plan->ctx, &plan->spec, plan->left->type, plan->left->dim, &plan->measure, &plan->box);
  describe(plan);
  report_sums(plan);
  if (!status && plan->box) status = in_set(plan, "left", adji_check_inside(plan->left, &plan->measure));
  if (status || plan->self_join || !plan->box) return status;
  return in_set(plan, "right", adji_check_inside(plan->right, &plan->measure));
}

/* The radii have been checked. */
static adj_status make_limits(adj_plan *plan, uint64_t count) {
  const double *radii = plan->spec.radii;
  if (!radii) return ADJ_OK;
  double *limits = adji_alloc(&plan->ctx->memory, count, sizeof *limits, "radii"), largest = 0;
  if (!limits) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count; i++) {
    limits[i] = adji_limit(&plan->measure, plan->left->type, radii[i]);
    largest = !i || limits[i] > largest ? limits[i] : largest;
  }
  plan->limits = limits;
  plan->join.limits = limits;
  plan->join.limit = largest;
  return ADJ_OK;
}

adj_status adji_describe_join(adj_plan *plan) {
  const adj_index *index = plan->index;
  plan->measure = index->measure;
  describe(plan);
  plan->join.right = index->points;
  if (plan->self_join) plan->join.left = index->points;
  adj_status status = make_limits(plan, plan->left->count);
  report_sums(plan);
  if (status || plan->self_join) return status;
  if (plan->measure.box) status = adji_check_inside(plan->left, &plan->measure);
  if (!status && index->derived)
    status = adji_derive(plan->ctx, plan->left, plan->spec.metric, plan->spec.angle, &plan->derived_left);
  if (plan->derived_left) plan->join.left = plan->derived_left;
  return in_set(plan, "left", status);
}

adj_status adji_describe_asked(adj_plan *plan, uint64_t count) {
  plan->measure = plan->index->measure;
  describe(plan);
  adj_status status = make_limits(plan, count);
  report_sums(plan);
  if (status || plan->self_join || !plan->measure.box) return status;
  return adji_check_inside(plan->left, &plan->measure);
}

void adji_forget_join(adj_plan *plan) {
  adj_dataset_destroy(plan->derived_left);
  adji_free(&plan->ctx->memory, plan->box);
  adji_free(&plan->ctx->memory, plan->limits);
  adji_index_release(plan->index);
}
