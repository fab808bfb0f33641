/* SPDX-License-Identifier: MIT
 *
 * The join that the engines see. Cosine and great-circle distances are L2 distances of derived points:
 * with unit vectors |a - b|^2 = 2 (1 - cos), and a chord determines its arc. So every index and filter
 * of L2 serves them, and what is exact for L2 is exact for them.
 */
#include <math.h>

#include "core/angles.h"
#include "data/derive.h"
#include "plan/plan.h"

static const double EARTH_RADIUS = 6371008.8; /* metres, the mean of the ellipsoid's axes */

/* ---- The measure ------------------------------------------------------------------------------------ */

static adji_measure measure_of_lp(double p) {
  if (p == 1) return (adji_measure){.step = ADJI_STEP_L1, .report = ADJI_REPORT_SUM};
  if (p == 2) return (adji_measure){.step = ADJI_STEP_L2, .report = ADJI_REPORT_ROOT};
  if (isinf(p)) return (adji_measure){.step = ADJI_STEP_LINF, .report = ADJI_REPORT_SUM};
  adji_measure measure = {.step = ADJI_STEP_LP, .report = ADJI_REPORT_POWER};
  measure.power = (adji_power){.exponent = p, .inverse = 1 / p};
  if (p <= ADJI_MOST_WHOLE && p == (double)(uint32_t)p) measure.power.whole = (uint32_t)p;
  return measure;
}

static double unit_of(const adj_join_spec *spec) {
  if (spec->unit == ADJ_UNIT_DEGREES) return 180 / ADJI_PI;
  if (spec->unit == ADJ_UNIT_RADIANS) return 1;
  return spec->sphere_radius > 0 ? spec->sphere_radius : EARTH_RADIUS;
}

static adji_measure measure_of(const adj_join_spec *spec) {
  switch (spec->metric) {
    case ADJ_L1:
      return measure_of_lp(1);
    case ADJ_LINF:
      return measure_of_lp(INFINITY);
    case ADJ_LP:
      return measure_of_lp(spec->p);
    case ADJ_COSINE:
      return (adji_measure){.step = ADJI_STEP_L2, .report = ADJI_REPORT_HALF};
    case ADJ_DOT:
      return (adji_measure){.step = ADJI_STEP_DOT, .report = ADJI_REPORT_NEGATED};
    case ADJ_HAVERSINE:
      return (adji_measure){.step = ADJI_STEP_L2, .report = ADJI_REPORT_ARC, .unit = unit_of(spec)};
    default:
      return measure_of_lp(2);
  }
}

/* A failure in one of two sets, named. */
static adj_status in_set(const adj_plan *plan, const char *name, adj_status status) {
  return status && !plan->self_join ? adji_fail_in(status, name) : status;
}

/* ---- The box ----------------------------------------------------------------------------------------- */

static double length_of(const adj_join_spec *spec, uint32_t j) {
  return spec->box[spec->box_count == 1 ? 0 : j];
}

/* Names the first coordinate outside of the box, if there is one. */
static adj_status check_inside(const adj_dataset *set, const adji_measure *measure) {
  for (uint32_t j = 0; j < set->dim && set->count; j++) {
    double length = adji_box_length(measure, set->type, j);
    if (!(length > 0) || (set->low[j] >= 0 && set->high[j] <= length)) continue;
    for (uint64_t i = 0; i < set->count; i++) {
      double x = adji_dataset_at(set, i, j);
      if (x < 0 || x > length)
        return adji_fail(ADJ_E_DATA, "row %llu, column %u: %g is outside of the box, 0 to %g",
                         (unsigned long long)i + 1, j + 1, x, length);
    }
    /* Of points on a device only a sample is here, which need not hold it. */
    return adji_fail(ADJ_E_DATA, "column %u: %g is outside of the box, 0 to %g", j + 1,
                     set->low[j] < 0 ? set->low[j] : set->high[j], length);
  }
  return ADJ_OK;
}

/* Lengths in the type of the data, infinite where a dimension is not periodic. */
static adj_status make_box(adj_plan *plan) {
  const adj_join_spec *spec = &plan->spec;
  adj_type type = plan->left->type;
  bool periodic = false;
  for (uint32_t i = 0; i < spec->box_count; i++)
    periodic = periodic || spec->box[i] > 0;
  if (!periodic) return ADJ_OK;
  plan->box = adji_alloc(&plan->ctx->memory, plan->left->dim, adji_type_size(type), "box");
  if (!plan->box) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < plan->left->dim; j++) {
    double length = length_of(spec, j) > 0 ? length_of(spec, j) : INFINITY;
    if (type == ADJ_F64)
      ((double *)plan->box)[j] = length;
    else
      ((float *)plan->box)[j] = (float)length;
  }
  adji_measure *measure = &plan->measure;
  measure->step = (adji_step)(measure->step + ADJI_STEP_L2_BOX);
  measure->box = plan->box;
  adj_status status = in_set(plan, "left", check_inside(plan->left, measure));
  if (status || plan->self_join) return status;
  return in_set(plan, "right", check_inside(plan->right, measure));
}

/* ---- The sets ---------------------------------------------------------------------------------------- */

static adj_status derive(const adj_plan *plan, const adj_dataset *set, const char *name, adj_dataset **out) {
  return in_set(plan, name, adji_derive(plan->ctx, set, plan->spec.metric, plan->spec.angle, out));
}

static adj_status derive_sets(adj_plan *plan) {
  if (plan->spec.metric != ADJ_COSINE && plan->spec.metric != ADJ_HAVERSINE) return ADJ_OK;
  adj_status status = derive(plan, plan->left, "left", &plan->derived_left);
  if (!status && !plan->self_join) status = derive(plan, plan->right, "right", &plan->derived_right);
  plan->join.left = plan->derived_left;
  plan->join.right = plan->self_join ? plan->derived_left : plan->derived_right;
  return status;
}

adj_status adji_describe_derived(adj_plan *plan) {
  const adj_join_spec *spec = &plan->spec;
  plan->measure = measure_of(spec);
  plan->join = (adji_join){.ctx = plan->ctx, .left = plan->left, .right = plan->right, .self_join = plan->self_join};
  plan->join.k = spec->kind == ADJ_KNN ? spec->k : 0;
  plan->join.limit = adji_limit(&plan->measure, plan->left->type, spec->radius);
  plan->join.style = (adji_row_style){.type = plan->left->type,
                                      .measure = &plan->measure,
                                      .order = spec->order,
                                      .distances = spec->flags & ADJ_WITH_DISTANCE,
                                      .drop_self = plan->self_join && !(spec->flags & ADJ_WITH_SELF),
                                      .one_way = spec->flags & ADJ_ONE_WAY,
                                      .kernels = adji_kernels_for(plan->ctx->isa)};
  plan->question = (adji_range_question){.join = &plan->join, .measure = &plan->measure, .tuning = &plan->tuning};
  return make_box(plan);
}

adj_status adji_describe_join(adj_plan *plan) {
  adj_status status = adji_describe_derived(plan);
  return status ? status : derive_sets(plan);
}

void adji_forget_join(adj_plan *plan) {
  adj_dataset_destroy(plan->derived_left);
  adj_dataset_destroy(plan->derived_right);
  adji_free(&plan->ctx->memory, plan->box);
}
