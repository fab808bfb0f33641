/* SPDX-License-Identifier: MIT
 *
 * A kNN join of two sets: the three wells nearest to each of four houses, with their distances. If wells are at the
 * same distance, the one with the lower number comes first, so the result is the same everywhere.
 *
 *   cc nearest.c $(pkg-config --cflags --libs adjoin) -o nearest
 */
#include <adjoin.h>
#include <inttypes.h>
#include <stdio.h>

enum { HOUSES = 4, WELLS = 6, K = 3 };

static adj_status borrow_places(adj_ctx *ctx, const double (*places)[2], uint64_t count, adj_dataset **out) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = ADJ_F64;
  points.data = places;
  points.count = count;
  points.dim = 2;
  points.ownership = ADJ_BORROW;
  return adj_dataset_create(ctx, &points, out);
}

static void print_nearest(const adj_result *result) {
  const uint32_t *ids = adj_result_ids(result);
  const double *distances = adj_result_distances(result);
  for (uint64_t house = 0; house < adj_result_rows(result); house++) {
    printf("house %" PRIu64 ":", house);
    for (uint64_t at = house * K; at < (house + 1) * K; at++)
      printf(" well %" PRIu32 " at %g%s", ids[at], distances[at], at + 1 < (house + 1) * K ? "," : "\n");
  }
}

int main(void) {
  const double houses[HOUSES][2] = {{0, 0}, {4, 0}, {4, 3}, {8, 8}};
  const double wells[WELLS][2] = {{1, 0}, {0, 1}, {4, 4}, {7, 7}, {0, -1}, {10, 0}};
  adj_ctx *ctx = NULL;
  adj_dataset *left = NULL, *right = NULL;
  adj_plan *plan = NULL;
  adj_result *result = NULL;

  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = K;
  spec.flags = ADJ_WITH_DISTANCE;

  adj_status status = adj_ctx_create(NULL, &ctx);
  if (!status) status = borrow_places(ctx, houses, HOUSES, &left);
  if (!status) status = borrow_places(ctx, wells, WELLS, &right);
  if (!status) status = adj_plan_create(ctx, &spec, left, right, &plan);
  if (!status) status = adj_collect(plan, &result, NULL, NULL);
  if (status)
    fprintf(stderr, "nearest: %s\n", adj_last_error());
  else
    print_nearest(result);

  adj_result_destroy(result);
  adj_plan_destroy(plan);
  adj_dataset_destroy(right);
  adj_dataset_destroy(left);
  adj_ctx_destroy(ctx);
  return status != ADJ_OK;
}
