/* SPDX-License-Identifier: MIT
 *
 * A kept index: made once from a million points, then asked for the neighbours of single points, and of many points at
 * once, with a k, a radius, and a radius for each query. Then the same on a GPU, if there is one.
 *
 *   cc kept_index.c $(pkg-config --cflags --libs adjoin) -o kept_index
 */
#include <adjoin.h>
#include <inttypes.h>
#include <stdio.h>

enum { POINTS = 1000000, QUERIES = 1000, K = 3 };

static adj_status make_points(adj_ctx *ctx, uint64_t count, uint64_t seed, adj_dataset **out) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = count;
  options.dim = 3;
  options.seed = seed;
  return adj_dataset_generate(ctx, &options, out);
}

static adj_status ask_for_one(adj_index *index) {
  const float place[3] = {0.5F, 0.5F, 0.5F};
  uint32_t ids[K], found;
  float distances[K];
  adj_status status = adj_index_nearest(index, place, K, ids, distances, &found);
  for (uint32_t i = 0; !status && i < found; i++)
    printf("point %" PRIu32 " at %g\n", ids[i], (double)distances[i]);
  if (!status) status = adj_index_within(index, place, 0.01, 0, NULL, NULL, &found);
  if (!status) printf("%" PRIu32 " points within 0.01\n", found);
  return status;
}

/* A question gives a plan. Like any plan it can be counted, collected, streamed or written. */
static adj_status count_neighbours(adj_index *index, const adj_question *question, const adj_dataset *queries) {
  adj_plan *plan = NULL;
  uint64_t total = 0;
  adj_status status = adj_index_plan(index, question, queries, &plan);
  if (!status) status = adj_count(plan, NULL, &total, NULL, NULL);
  if (!status) printf("%" PRIu64 " neighbours of %" PRIu64 " queries\n", total, adj_dataset_count(queries));
  adj_plan_destroy(plan);
  return status;
}

static adj_status ask_for_many(adj_index *index, const adj_dataset *queries) {
  adj_question question;
  adj_question_init(&question, sizeof question);
  question.k = 8; /* the 8 nearest */
  adj_status status = count_neighbours(index, &question, queries);
  question.kind = ADJ_RANGE; /* all within a radius */
  question.radius = 0.02;
  if (!status) status = count_neighbours(index, &question, queries);
  double radii[QUERIES]; /* all within a radius for each query */
  for (int i = 0; i < QUERIES; i++)
    radii[i] = i % 2 ? 0.02 : 0.01;
  question.radii = radii;
  question.radius_count = QUERIES;
  return status ? status : count_neighbours(index, &question, queries);
}

/* An index that stays on the device: the points are uploaded once, and each question uploads only its queries. */
static adj_status ask_on_gpu(adj_ctx *ctx, const adj_dataset *points, const adj_dataset *queries) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) return ADJ_OK; /* there is none */
  adj_index_options options;
  adj_index_options_init(&options, sizeof options);
  options.backend = ADJ_BACKEND_GPU;
  adj_index *index = NULL;
  adj_status status = adj_index_create(ctx, &options, points, &index);
  if (!status) printf("on %s:\n", device.name);
  if (!status) status = ask_for_many(index, queries);
  adj_index_destroy(index);
  return status;
}

int main(void) {
  adj_ctx *ctx = NULL;
  adj_dataset *points = NULL, *queries = NULL;
  adj_index *index = NULL;
  adj_status status = adj_ctx_create(NULL, &ctx);
  if (!status) status = make_points(ctx, POINTS, 1, &points);
  if (!status) status = make_points(ctx, QUERIES, 2, &queries);
  if (!status) status = adj_index_create(ctx, NULL, points, &index);
  if (!status) status = ask_for_one(index);
  if (!status) status = ask_for_many(index, queries);
  if (!status) status = ask_on_gpu(ctx, points, queries);
  if (status) fprintf(stderr, "kept_index: %s\n", adj_last_error());
  adj_index_destroy(index);
  adj_dataset_destroy(queries);
  adj_dataset_destroy(points);
  adj_ctx_destroy(ctx);
  return status != ADJ_OK;
}
