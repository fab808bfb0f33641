/* SPDX-License-Identifier: MIT
 *
 * The simple calls: each makes a context, datasets and a plan for one join.
 */
#include "result/result.h"

adj_status adj_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_points *left, const adj_points *right,
                    adj_result **out) {
  adj_dataset *left_set = NULL, *right_set = NULL;
  adj_plan *plan = NULL;
  adj_status status = adj_dataset_create(ctx, left, &left_set);
  if (!status && right) status = adj_dataset_create(ctx, right, &right_set);
  if (!status) status = adj_plan_create(ctx, spec, left_set, right_set, &plan);
  if (!status) status = adj_collect(plan, out, NULL, NULL);
  adj_plan_destroy(plan);
  adj_dataset_destroy(right_set);
  adj_dataset_destroy(left_set);
  return status;
}

static adj_status join_points(adj_type type, const void *data, uint64_t count, uint32_t dim, const adj_join_spec *spec,
                              adj_result **out) {
  if (!out) return adji_fail(ADJ_E_ARGUMENT, "out: must not be NULL");
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = type;
  points.data = data;
  points.count = count;
  points.dim = dim;
  points.ownership = ADJ_BORROW;
  adj_ctx *ctx = NULL;
  adj_result *result = NULL;
  adj_status status = adj_ctx_create(NULL, &ctx);
  if (!status) status = adj_join(ctx, spec, &points, NULL, &result);
  if (status) {
    adj_ctx_destroy(ctx);
    return status;
  }
  result->own_ctx = ctx;
  *out = result;
  return ADJ_OK;
}

static adj_status range(adj_type type, const void *points, uint64_t count, uint32_t dim, double radius, uint32_t flags,
                        adj_result **out) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = radius;
  spec.flags = flags;
  return join_points(type, points, count, dim, &spec, out);
}

static adj_status nearest(adj_type type, const void *points, uint64_t count, uint32_t dim, uint32_t k, uint32_t flags,
                          adj_result **out) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = k;
  spec.flags = flags;
  return join_points(type, points, count, dim, &spec, out);
}

adj_status adj_range_join(adj_type type, const void *points, uint64_t count, uint32_t dim, double radius,
                          adj_result **out) {
  return range(type, points, count, dim, radius, 0, out);
}

adj_status adj_range_join_distances(adj_type type, const void *points, uint64_t count, uint32_t dim, double radius,
                                    adj_result **out) {
  return range(type, points, count, dim, radius, ADJ_WITH_DISTANCE, out);
}

adj_status adj_knn_join(adj_type type, const void *points, uint64_t count, uint32_t dim, uint32_t k, adj_result **out) {
  return nearest(type, points, count, dim, k, 0, out);
}

adj_status adj_knn_join_distances(adj_type type, const void *points, uint64_t count, uint32_t dim, uint32_t k,
                                  adj_result **out) {
  return nearest(type, points, count, dim, k, ADJ_WITH_DISTANCE, out);
}
