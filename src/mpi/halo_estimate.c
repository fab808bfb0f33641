/* SPDX-License-Identifier: MIT
 *
 * How well regions suit a join: how many other regions a kNN query visits, or how many halos a right point is in, on
 * average. Rank 0 estimates this from a small sample, so that the planner can compare distributions. In many dimensions
 * it depends on the points: uniform ones reach every region, points in clusters hardly any other.
 *
 * The k-th neighbour of a query in the sample is farther away than in the whole set, and regions are taken to extend to
 * the cuts around them, so there are rather fewer visits than estimated.
 */
#include <math.h>

#include "mpi/halo_private.h"
#include "mpi/points.h"

enum { SAMPLE = 1 << 13, KNN_QUERIES = 256, RANGE_QUERIES = 2048 };

adj_status adji_halo_thin(adj_mpi_plan *plan, const adj_dataset *set, uint64_t most, adj_dataset **out) {
  uint64_t step = set->count / most + 1;
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = set->dim;
  points.count = (set->count + step - 1) / step;
  points.data = set->data;
  points.type = set->type;
  points.ownership = ADJ_BORROW;
  points.row_stride = step * set->row_stride;
  points.column_stride = set->column_stride;
  return adj_dataset_create(plan->ctx, &points, out);
}

/* The spec for joins of samples by the cores. */
static adj_join_spec sample_spec(const adj_mpi_plan *plan) {
  adj_join_spec spec = plan->spec;
  spec.backend = ADJ_BACKEND_CPU;
  spec.algorithm = spec.tuning = spec.system = NULL;
  spec.radii = NULL;
  spec.radius_count = 0;
  spec.radius = plan->largest_radius;
  spec.order = ADJ_ORDER_DISTANCE;
  spec.flags = ADJ_WITH_DISTANCE;
  return spec;
}

adj_status adji_halo_radii(adj_mpi_plan *plan, const adj_dataset *queries, const adj_dataset *sample, uint32_t least,
                           double *radii) {
  double all = (double)plan->right_starts[plan->group.ranks];
  adj_join_spec spec = sample_spec(plan);
  double wanted = (double)plan->spec.k * (double)sample->count / all, place = fmax(ceil(wanted), least);
  double scale = pow(wanted / place, 1.0 / plan->dim);
  spec.k = (uint32_t)place + plan->self_join; /* itself, too */
  adj_plan *local = NULL;
  adj_result *found = NULL;
  adj_status status = adj_plan_create(plan->ctx, &spec, queries, sample, &local);
  if (!status) status = adj_collect(local, &found, NULL, NULL);
  for (uint64_t i = 0; i < queries->count && !status; i++) {
    uint64_t last = (i + 1) * spec.k - 1;
    const void *distances = adj_result_distances(found);
    radii[i] = plan->type == ADJ_F64 ? ((const double *)distances)[last] : (double)((const float *)distances)[last];
    radii[i] = fmin(radii[i] * scale, spec.radius);
  }
  adj_result_destroy(found);
  adj_plan_destroy(local);
  return status;
}

/* Adds up the visits of the queries: of other regions, or in range joins of two sets of all regions but one. */
static adj_status count_visits(adj_mpi_plan *plan, const adj_split *split, const adj_dataset *queries,
                               const adj_dataset *sample, double *visits) {
  adji_memory *memory = &plan->ctx->memory;
  bool knn = plan->spec.kind == ADJ_KNN, homes = plan->self_join || knn;
  uint32_t regions = adj_split_regions(split);
  uint32_t *home = adji_alloc(memory, queries->count + 1, sizeof *home, "regions of sampled points");
  double *radii = adji_alloc(memory, queries->count + 1, sizeof *radii, "radii of sampled points");
  uint64_t *counts = adji_alloc_zero(memory, regions, sizeof *counts, "regions");
  adj_status status = home && radii && counts ? ADJ_OK : ADJ_E_MEMORY;
  if (!status && homes) status = adj_split_home(split, queries, home);
  if (!status && knn) status = adji_halo_radii(plan, queries, sample, 1, radii);
  if (!status) status = adj_split_halo(split, queries, homes ? home : NULL, knn ? radii : NULL, counts, NULL);
  double sum = 0;
  for (uint32_t i = 0; i < regions && !status; i++)
    sum += (double)counts[i];
  *visits = sum / (double)queries->count - !homes;
  adji_free(memory, home);
  adji_free(memory, radii);
  adji_free(memory, counts);
  return status;
}

/* On rank 0. */
static adj_status estimate(adj_mpi_plan *plan, const adj_dataset *left, const adj_dataset *right, double *visits) {
  bool knn = plan->spec.kind == ADJ_KNN;
  adj_join_spec spec = sample_spec(plan);
  adj_split *split = NULL;
  adj_dataset *queries = NULL;
  adj_status status = adj_split_create(plan->ctx, &spec, right, NULL, (uint32_t)plan->group.ranks, &split);
  if (!status) status = adji_halo_thin(plan, knn ? left : right, knn ? KNN_QUERIES : RANGE_QUERIES, &queries);
  if (!status) status = count_visits(plan, split, queries, right, visits);
  adj_dataset_destroy(queries);
  adj_split_destroy(split);
  return status;
}

adj_status adji_halo_estimate(adj_mpi_plan *plan, double *visits) {
  adj_dataset *left = NULL, *right = NULL;
  adj_status status = adji_halo_sample(plan, plan->right, plan->right_starts, SAMPLE, &right);
  if (!status && !plan->self_join) status = adji_halo_sample(plan, plan->left, plan->left_starts, SAMPLE, &left);
  *visits = 0;
  if (!status && right) status = estimate(plan, left ? left : right, right, visits);
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  status = adji_agree(&plan->group, status);
  return status ? status : adji_all_reduce(&plan->group, visits, 1, MPI_DOUBLE, MPI_MAX);
}
