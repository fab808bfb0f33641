/* SPDX-License-Identifier: MIT
 *
 * A result that may be larger than memory: a callback gets the rows in ascending order, a block at a time. Here it
 * keeps the closest pair. A callback that does not return ADJ_OK ends the run.
 *
 *   cc stream.c $(pkg-config --cflags --libs adjoin) -o stream
 */
#include <adjoin.h>
#include <inttypes.h>
#include <stdio.h>

typedef struct closest {
  uint64_t pairs, left;
  uint32_t right;
  float distance;
} closest;

static adj_status keep_closest(void *user, const adj_rows *rows) {
  closest *best = user;
  const float *distances = rows->distances;
  for (uint64_t i = 0; i < rows->row_count; i++) {
    for (uint64_t at = rows->offsets[i]; at < rows->offsets[i + 1]; at++) {
      if (best->pairs == 0 || distances[at] < best->distance) {
        best->left = rows->first_row + i;
        best->right = rows->ids[at];
        best->distance = distances[at];
      }
      best->pairs++;
    }
  }
  return ADJ_OK;
}

static adj_status make_points(adj_ctx *ctx, adj_dataset **out) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "clusters";
  options.count = 10000;
  options.dim = 3;
  return adj_dataset_generate(ctx, &options, out);
}

int main(void) {
  adj_ctx *ctx = NULL;
  adj_dataset *points = NULL;
  adj_plan *plan = NULL;

  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_RANGE;
  spec.radius = 0.01;
  spec.flags = ADJ_WITH_DISTANCE | ADJ_ONE_WAY; /* each pair once, with its distance */

  closest best = {0};
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &best;
  sink.write = keep_closest;

  adj_status status = adj_ctx_create(NULL, &ctx);
  if (!status) status = make_points(ctx, &points);
  if (!status) status = adj_plan_create(ctx, &spec, points, NULL, &plan);
  if (!status) status = adj_stream(plan, &sink, NULL, NULL);
  if (status)
    fprintf(stderr, "stream: %s\n", adj_last_error());
  else
    printf("%" PRIu64 " pairs; closest: %" PRIu64 " and %" PRIu32 ", %g apart\n", best.pairs, best.left, best.right,
           (double)best.distance);

  adj_plan_destroy(plan);
  adj_dataset_destroy(points);
  adj_ctx_destroy(ctx);
  return status != ADJ_OK;
}
