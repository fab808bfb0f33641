/* SPDX-License-Identifier: MIT
 *
 * Finds the radius for a mean number of neighbours, from the k nearest neighbours of some points, with k = mean.
 */
#include "radius.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 128 };

adj_join_spec sweep_spec(adj_metric metric, adj_backend backend, uint32_t k, double radius) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.metric = metric;
  if (metric == ADJ_LP) spec.p = 3;
  spec.backend = backend;
  spec.kind = k ? ADJ_KNN : ADJ_RANGE;
  spec.k = k;
  if (k) spec.flags = ADJ_WITH_DISTANCE;
  if (!k) spec.radius = radius;
  return spec;
}

adj_metric sweep_metric(const char *name) {
  static const char *const names[] = {"", "l2", "l1", "linf", "lp", "cosine", "ip", "haversine"};
  for (int m = 1; m < 8; m++)
    if (strcmp(name, names[m]) == 0) return (adj_metric)m;
  fprintf(stderr, "no metric '%s'\n", name);
  exit(2);
}

static int ascending(const void *left, const void *right) {
  float a = *(const float *)left, b = *(const float *)right;
  return a < b ? -1 : a > b;
}

static adj_status sample_of(adj_ctx *ctx, const adj_dataset *set, uint64_t many, adj_dataset **out) {
  uint64_t count = adj_dataset_count(set);
  uint32_t dim = adj_dataset_dim(set);
  float *rows = malloc(many * dim * sizeof *rows);
  if (!rows) exit(1);
  adj_status status = ADJ_OK;
  for (uint64_t i = 0; i < many && !status; i++)
    status = adj_dataset_row(set, i * count / many, rows + i * dim);
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = dim;
  points.count = many;
  points.data = rows;
  points.type = ADJ_F32;
  if (!status) status = adj_dataset_create(ctx, &points, out);
  free(rows);
  return status;
}

adj_status radius_of_mean(adj_ctx *ctx, adj_dataset *set, const adj_join_spec *spec, double mean, double *radius) {
  uint64_t count = adj_dataset_count(set), many = count < SAMPLE ? count : SAMPLE;
  uint32_t k = mean + 1 < (double)count ? (uint32_t)mean + 1 : (uint32_t)count;
  adj_dataset *sample = NULL;
  adj_join_spec nearest = *spec;
  nearest.k = k;
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  adj_status status = sample_of(ctx, set, many, &sample);
  if (!status) status = adj_plan_create(ctx, &nearest, sample, set, &plan);
  if (!status) status = adj_collect(plan, &result, NULL, NULL);
  if (!status) {
    const float *distances = adj_result_distances(result);
    float last[SAMPLE];
    for (uint64_t i = 0; i < many; i++)
      last[i] = distances[i * k + k - 1];
    qsort(last, many, sizeof *last, ascending);
    *radius = k < count ? (double)last[many / 2] : (double)last[many - 1] + 0.5 * fabs((double)last[many - 1]);
  }
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  adj_dataset_destroy(sample);
  return status;
}
