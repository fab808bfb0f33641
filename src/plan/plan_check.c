/* SPDX-License-Identifier: MIT
 *
 * The checks of a request: every message names the field and its value.
 */
#include <math.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/systems.h"

static adj_status check_kind(const adj_join_spec *spec) {
  if (spec->kind != ADJ_RANGE && spec->kind != ADJ_KNN)
    return adji_fail(ADJ_E_ARGUMENT, "kind: %d is no kind of join", (int)spec->kind);
  if (isnan(spec->radius) || (spec->radius < 0 && spec->metric != ADJ_DOT))
    return adji_fail(ADJ_E_ARGUMENT, "radius: %g is not a distance", spec->radius);
  if (isinf(spec->radius) && spec->kind == ADJ_RANGE && !spec->radii)
    return adji_fail(ADJ_E_ARGUMENT, "radius: a range join needs a finite radius");
  if (spec->kind == ADJ_KNN && !spec->k) return adji_fail(ADJ_E_ARGUMENT, "k: a kNN join needs at least 1 neighbour");
  return ADJ_OK;
}

/* A radius for each left point. */
static adj_status check_radii(const adj_join_spec *spec, const adj_dataset *left) {
  if (!spec->radii && !spec->radius_count) return ADJ_OK;
  if (!spec->radii)
    return adji_fail(ADJ_E_ARGUMENT, "radii: is NULL, but radius_count is %llu",
                     (unsigned long long)spec->radius_count);
  if (spec->radius_count != left->count)
    return adji_fail(ADJ_E_ARGUMENT, "radii: %llu radii for %llu left points", (unsigned long long)spec->radius_count,
                     (unsigned long long)left->count);
  for (uint64_t i = 0; i < spec->radius_count; i++) {
    double radius = spec->radii[i];
    if (isnan(radius) || (radius < 0 && spec->metric != ADJ_DOT) || (isinf(radius) && spec->kind == ADJ_RANGE))
      return adji_fail(ADJ_E_ARGUMENT, "radii[%llu]: %g is not a %sdistance", (unsigned long long)i, radius,
                       isinf(radius) ? "finite " : "");
  }
  return ADJ_OK;
}

static adj_status check_sphere(const adj_join_spec *spec, uint32_t dim) {
  if (dim != 2)
    return adji_fail(ADJ_E_ARGUMENT, "metric: great-circle distances need 2 columns, longitude and latitude, not %u",
                     dim);
  if (spec->angle != ADJ_DEGREES && spec->angle != ADJ_RADIANS)
    return adji_fail(ADJ_E_ARGUMENT, "angle: %d is neither ADJ_DEGREES nor ADJ_RADIANS", (int)spec->angle);
  if (spec->unit < ADJ_UNIT_METRES || spec->unit > ADJ_UNIT_RADIANS)
    return adji_fail(ADJ_E_ARGUMENT, "unit: %d is no unit", (int)spec->unit);
  if (!(spec->sphere_radius >= 0) || isinf(spec->sphere_radius))
    return adji_fail(ADJ_E_ARGUMENT, "sphere_radius: %g is no radius of a sphere", spec->sphere_radius);
  return ADJ_OK;
}

/* Refuses columns whose names say that they are in the wrong order. */
static adj_status check_axes(const adj_dataset *set, const char *name) {
  if (set->geo[0] != ADJI_GEO_LATITUDE && set->geo[1] != ADJI_GEO_LONGITUDE) return ADJ_OK;
  return adji_fail(ADJ_E_ARGUMENT,
                   "%s: its columns are %s, %s; great-circle distances need longitude first: open the file with the "
                   "metric, or choose the columns in this order",
                   name, adj_dataset_column(set, 0), adj_dataset_column(set, 1));
}

static adj_status check_metric(const adj_join_spec *spec, uint32_t dim) {
  if (spec->metric < ADJ_L2 || spec->metric > ADJ_HAVERSINE)
    return adji_fail(ADJ_E_ARGUMENT, "metric: %d is no metric", (int)spec->metric);
  if (spec->metric == ADJ_LP && !(spec->p >= 1))
    return adji_fail(ADJ_E_ARGUMENT, "p: %g is less than 1, which makes no metric", spec->p);
  return spec->metric == ADJ_HAVERSINE ? check_sphere(spec, dim) : ADJ_OK;
}

static adj_status check_box(const adj_join_spec *spec, adj_type type, uint32_t dim) {
  if (!spec->box_count) return ADJ_OK;
  if (!spec->box) return adji_fail(ADJ_E_ARGUMENT, "box: is NULL, but box_count is %u", spec->box_count);
  if (spec->metric > ADJ_LP)
    return adji_fail(ADJ_E_ARGUMENT, "box: only L2, L1, Linf and Lp can be measured in a periodic box");
  if (spec->box_count != 1 && spec->box_count != dim)
    return adji_fail(ADJ_E_ARGUMENT, "box: %u lengths for points of %u dimensions", spec->box_count, dim);
  for (uint32_t i = 0; i < spec->box_count; i++) {
    double length = type == ADJ_F64 ? spec->box[i] : (double)(float)spec->box[i];
    if (!(length >= 0) || isinf(length) || (spec->box[i] > 0 && length == 0))
      return adji_fail(ADJ_E_ARGUMENT, "box: length %u is %g; it must be positive, or 0 where it is not periodic",
                       i + 1, spec->box[i]);
  }
  return ADJ_OK;
}

static adj_status check_style(const adj_join_spec *spec, bool self_join) {
  if (spec->order < ADJ_ORDER_ID || spec->order > ADJ_ORDER_ANY)
    return adji_fail(ADJ_E_ARGUMENT, "order: %d is no order", (int)spec->order);
  if (spec->flags & ~(uint32_t)(ADJ_WITH_DISTANCE | ADJ_WITH_SELF | ADJ_ONE_WAY | ADJ_WITH_SUM))
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

static adj_status check_algorithm(const adj_join_spec *spec, adji_algorithm *algorithm) {
  uint32_t known = adji_algorithms_of(spec->kind);
  char names[64];
  if (!adji_algorithm_find(spec->algorithm, algorithm) || (*algorithm && !(known & ADJI_BIT(*algorithm))))
    return adji_fail(ADJ_E_ARGUMENT, "algorithm: \"%s\" is not auto, %s", spec->algorithm,
                     adji_algorithms_text(known, " or ", names, sizeof names));
  if (*algorithm && *algorithm != ADJI_ALGORITHM_BRUTE && spec->metric == ADJ_DOT)
    return adji_fail(ADJ_E_UNSUPPORTED, "algorithm: \"%s\" needs a distance; inner products are found by brute force",
                     spec->algorithm);
  return ADJ_OK;
}

/* The algorithms of each backend; AUTO has those of the cores. */
static uint32_t algorithms_on(adj_backend backend, adj_join_kind kind) {
  uint32_t all = adji_algorithms_of(kind), grid = ADJI_BIT(ADJI_ALGORITHM_GRID);
  if (kind == ADJ_RANGE && backend == ADJ_BACKEND_HYBRID) all &= ~ADJI_BIT(ADJI_ALGORITHM_KDTREE);
  if (backend == ADJ_BACKEND_GPU) return all & ~ADJI_BIT(ADJI_ALGORITHM_EGO);
  if (kind == ADJ_RANGE || backend == ADJ_BACKEND_REFERENCE) return all;
  return backend == ADJ_BACKEND_HYBRID ? all & ~ADJI_BIT(ADJI_ALGORITHM_BRUTE) : all & ~grid;
}

static adj_status check_algorithm_on(adj_join_kind kind, adj_backend backend, adji_algorithm algorithm) {
  uint32_t has = algorithms_on(backend, kind);
  char names[64];
  if (!algorithm || (has & ADJI_BIT(algorithm))) return ADJ_OK;
  if (algorithm == ADJI_ALGORITHM_GRID)
    return adji_fail(ADJ_E_UNSUPPORTED, "algorithm: \"grid\" finds the nearest with a GPU only");
  return adji_fail(ADJ_E_UNSUPPORTED, "algorithm: \"%s\" does not run on the backend %s, which has %s",
                   adji_algorithm_name(algorithm), adji_backend_name(backend),
                   adji_algorithms_text(has, " and ", names, sizeof names));
}

static adj_status check_spec(const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                             adji_algorithm *algorithm) {
  adj_status status = check_kind(spec);
  if (!status) status = check_metric(spec, left->dim);
  if (!status) status = check_style(spec, left == right);
  if (!status) status = check_sets(left, right);
  if (!status) status = check_radii(spec, left);
  if (!status && spec->metric == ADJ_HAVERSINE) status = check_axes(left, "left");
  if (!status && spec->metric == ADJ_HAVERSINE) status = check_axes(right, "right");
  if (!status) status = check_box(spec, left->type, left->dim);
  if (!status && spec->backend > ADJ_BACKEND_REFERENCE)
    status = adji_fail(ADJ_E_ARGUMENT, "backend: %d is no backend", (int)spec->backend);
  return status ? status : check_algorithm(spec, algorithm);
}

adj_status adji_check_request(adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                              adji_tuning *tuning, adji_tuning_scope *scope) {
  const adji_system *system = NULL;
  adj_status status = check_spec(spec, left, right, &scope->algorithm);
  if (!status) status = adji_system_find(spec->system, &system);
  if (!status) status = adji_system_fit(system, left->dim, spec, &scope->algorithm);
  if (!status) status = check_algorithm_on(spec->kind, spec->backend, scope->algorithm);
  if (!status) status = adji_system_tuning(system, left->dim, spec, tuning);
  scope->kind = spec->kind;
  scope->metric = spec->metric;
  scope->backend = spec->backend;
  if (!status) status = adji_tuning_fit(tuning, scope);
  if (!status) status = check_algorithm_on(spec->kind, scope->backend, scope->algorithm);
  spec->backend = scope->backend;
  return status;
}

/* ---- Kept indexes --------------------------------------------------------------------------------------- */

static adj_join_spec spec_of_options(const adj_index_options *options) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN; /* any question will do: the options are checked */
  spec.k = 1;
  spec.metric = options->metric;
  spec.p = options->p;
  spec.backend = options->backend;
  spec.angle = options->angle;
  spec.unit = options->unit;
  spec.sphere_radius = options->sphere_radius;
  spec.box = options->box;
  spec.box_count = options->box_count;
  return spec;
}

adj_status adji_take_index_options(const adj_index_options *options, adj_join_spec *out) {
  adj_index_options copy;
  adj_index_options_init(&copy, sizeof copy);
  adj_status status = options ? adji_take_struct(&copy, sizeof copy, options, "adj_index_options") : ADJ_OK;
  *out = spec_of_options(&copy);
  return status;
}

adj_status adji_take_question(const adj_index *index, const adj_question *question, adj_join_spec *out) {
  adj_question q;
  adj_question_init(&q, sizeof q);
  adj_status status = adji_take_struct(&q, sizeof q, question, "adj_question");
  *out = index->spec;
  out->kind = q.kind;
  out->k = q.k;
  out->radius = q.radius;
  out->order = q.order;
  out->flags = q.flags;
  out->algorithm = q.algorithm;
  out->radii = q.radii;
  out->radius_count = q.radius_count;
  out->box_count = 0; /* checked when the index was made */
  return status;
}
