/* SPDX-License-Identifier: MIT
 *
 * Two sets: how many shops (right) does each home (left) have within half a kilometre? Shows all steps of
 * the interface: context, datasets, plan, run, and the statistics of the run.
 *
 *   cc two_sets.c $(pkg-config --cflags --libs adjoin) -o two_sets
 */
#include <adjoin.h>
#include <inttypes.h>
#include <stdio.h>

enum { HOMES = 20000, SHOPS = 500 };

/* Uniform points in the unit square, which stands for a town of 10 km by 10 km. */
static adj_status make_places(adj_ctx *ctx, uint64_t count, uint64_t seed, adj_dataset **out) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = count;
  options.dim = 2;
  options.seed = seed;
  return adj_dataset_generate(ctx, &options, out);
}

static void print_answer(const uint32_t *shops_near, uint64_t pairs, const adj_stats *stats) {
  uint32_t most = 0;
  for (uint32_t home = 1; home < HOMES; home++)
    if (shops_near[home] > shops_near[most]) most = home;
  printf("home 0 has %" PRIu32 " shops within 500 m; home %" PRIu32 " has the most, %" PRIu32 "\n", shops_near[0], most,
         shops_near[most]);
  printf("%" PRIu64 " pairs among %d homes and %d shops\n", pairs, HOMES, SHOPS);
  printf("%s, %s, %s, %" PRIu32 " threads: index %.6f s, join %.6f s, %" PRIu64 " candidates\n", stats->backend,
         stats->algorithm, stats->isa, stats->threads, stats->index_s, stats->join_s, stats->candidates);
}

int main(void) {
  static uint32_t shops_near[HOMES];
  adj_ctx *ctx = NULL;
  adj_dataset *homes = NULL, *shops = NULL;
  adj_plan *plan = NULL;
  uint64_t pairs = 0;

  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_RANGE;
  spec.radius = 0.05; /* 500 m */

  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);

  adj_status status = adj_ctx_create(NULL, &ctx);
  if (!status) status = make_places(ctx, HOMES, 1, &homes);
  if (!status) status = make_places(ctx, SHOPS, 2, &shops);
  if (!status) status = adj_plan_create(ctx, &spec, homes, shops, &plan);
  if (!status) status = adj_count(plan, shops_near, &pairs, NULL, &stats);
  if (status)
    fprintf(stderr, "two_sets: %s\n", adj_last_error());
  else
    print_answer(shops_near, pairs, &stats);

  adj_plan_destroy(plan);
  adj_dataset_destroy(shops);
  adj_dataset_destroy(homes);
  adj_ctx_destroy(ctx);
  return status != ADJ_OK;
}
