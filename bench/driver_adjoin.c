/* SPDX-License-Identifier: MIT
 *
 * Our own driver, on adjoin.h alone. The timed part is what a caller with points in memory waits for:
 * adj_dataset_create (checks every coordinate), adj_plan_create (plan and index) and the join. The context with its
 * threads is created before the timed part, and everything is destroyed after it. Modes:
 *
 *     csr       all rows in memory, each in ascending order of id (the default order; checked)
 *     csr-any   all rows in memory, each in any order, as the peers give them
 *     count     the number of neighbours of each point
 *     knn       the k nearest of each point, ids and distances in memory
 *     read      no join: opens the file through the library, to time a reader
 *
 * The variant is the name of an algorithm; if empty, the planner chooses. BENCH_ISA in the environment forces an
 * instruction set.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adjoin.h"
#include "driver.h"

typedef struct run {
  const bench_args *args;
  const bench_points *points, *right_points; /* right_points has no data in a self-join */
  adj_ctx *ctx;
  adj_dataset *dataset, *right;
  adj_plan *plan;
  adj_result *result;
  uint32_t *degrees;
  adj_stats stats;
} run;

static void run_clear(run *r) {
  adj_result_destroy(r->result);
  adj_plan_destroy(r->plan);
  adj_dataset_destroy(r->dataset);
  adj_dataset_destroy(r->right);
  r->result = NULL;
  r->plan = NULL;
  r->dataset = r->right = NULL;
}

static adj_status borrow(run *r, const bench_points *from, adj_dataset **out) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = from->dim;
  points.count = from->count;
  points.data = from->data;
  points.type = from->value_bytes == 8 ? ADJ_F64 : ADJ_F32;
  points.ownership = ADJ_BORROW;
  return adj_dataset_create(r->ctx, &points, out);
}

static adj_status prepare(run *r) {
  adj_status status = borrow(r, r->points, &r->dataset);
  if (status == ADJ_OK && r->right_points->data) status = borrow(r, r->right_points, &r->right);
  if (status != ADJ_OK) return status;

  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  if (r->args->k) {
    spec.kind = ADJ_KNN;
    spec.k = r->args->k;
    spec.flags = ADJ_WITH_DISTANCE;
  } else {
    spec.radius = r->args->radius;
  }
  if (strcmp(r->args->mode, "csr-any") == 0) spec.order = ADJ_ORDER_ANY;
  if (*r->args->variant) spec.algorithm = r->args->variant;
  return adj_plan_create(r->ctx, &spec, r->dataset, r->right, &r->plan);
}

static adj_status join(run *r) {
  adj_stats_init(&r->stats, sizeof r->stats);
  if (strcmp(r->args->mode, "count") == 0) return adj_count(r->plan, r->degrees, NULL, NULL, &r->stats);
  return adj_collect(r->plan, &r->result, NULL, &r->stats);
}

/* Checks what the header guarantees for rows in the default order, and for self-joins in any order. */
static bool rows_in_order(const run *r) {
  const uint64_t *offsets = adj_result_offsets(r->result);
  const uint32_t *ids = adj_result_ids(r->result);
  const bool ascending = strcmp(r->args->mode, "csr") == 0;
  for (uint64_t i = 0; i < r->points->count; i++) {
    for (uint64_t at = offsets[i]; at < offsets[i + 1]; at++) {
      if (ids[at] == i || (ascending && at > offsets[i] && ids[at] <= ids[at - 1])) {
        fprintf(stderr, "adjoin: row %llu holds itself or is not in ascending order\n", (unsigned long long)i);
        return false;
      }
    }
  }
  return true;
}

/* Checks that rows have the nearest first, and no point among its own neighbours. Ids of equal distances may be in any
 * order, because the squared distances, which decide, may differ. */
static bool table_in_order(const run *r, const bench_table *table) {
  for (uint64_t i = 0; i < table->rows; i++) {
    for (uint64_t at = i * table->k; at < (i + 1) * table->k; at++) {
      bool ordered = at == i * table->k || table->distances[at - 1] <= table->distances[at];
      if (!ordered || (!r->right && table->ids[at] == i)) {
        fprintf(stderr, "adjoin: row %llu holds itself or is not in order\n", (unsigned long long)i);
        return false;
      }
    }
  }
  return true;
}

/* Copies f64 distances to f32, in which tables are compared. Returns NULL if there is no memory. */
static float *narrowed(const double *distances, uint64_t count) {
  float *to = malloc((count + 1) * sizeof *to);
  for (uint64_t i = 0; to && i < count; i++)
    to[i] = (float)distances[i];
  return to;
}

static bool judge_table(const run *r, bench_digest *digest) {
  bench_table table = {r->points->count, r->args->k, adj_result_ids(r->result), adj_result_distances(r->result)};
  float *copy = NULL;
  if (r->points->value_bytes == 8)
    table.distances = copy = narrowed(adj_result_distances(r->result), table.rows * table.k);
  if (!table.distances) fprintf(stderr, "adjoin: no memory for the benchmark's own buffers\n");
  bool ok = table.distances && table_in_order(r, &table);
  if (ok) bench_digest_table(&table, digest);
  if (ok && r->args->answer) ok = bench_answer(r->args->answer, &table, digest);
  free(copy);
  return ok;
}

static bool report(const run *r, const bench_timing *timing, bench_digest *digest) {
  if (r->args->k) {
    if (!judge_table(r, digest)) return false;
  } else if (r->result) {
    if (!rows_in_order(r)) return false;
    bench_digest_rows(adj_result_offsets(r->result), adj_result_ids(r->result), r->points->count, digest);
  } else {
    bench_digest_counts(r->degrees, r->points->count, digest);
  }
  char extra[1024];
  const adj_stats *s = &r->stats;
  snprintf(extra, sizeof extra,
           "\"backend\": \"%s\", \"algorithm\": \"%s\", \"isa\": \"%s\", \"plan_s\": %.6f, \"join_s\": %.6f, "
           "\"candidates\": %llu, \"cells\": %llu, \"peak_bytes\": %llu, \"imbalance\": %.4f, "
           "\"estimated_pairs\": %.0f, \"estimated_candidates\": %.0f",
           s->backend ? s->backend : "", s->algorithm ? s->algorithm : "", s->isa ? s->isa : "", s->plan_s, s->join_s,
           (unsigned long long)s->candidates, (unsigned long long)s->cells, (unsigned long long)s->peak_bytes,
           s->imbalance, s->estimated_pairs, s->estimated_candidates);
  bench_report("adjoin", r->args, timing, digest, extra);
  return true;
}

static bool repeat_join(run *r, bench_digest *digest) {
  bench_timing timing = {0};
  bench_usage_begin(&timing);
  const double begin = bench_now();
  adj_status status = prepare(r);
  timing.index_s = bench_now() - begin;
  if (status == ADJ_OK) status = join(r);
  timing.seconds = bench_now() - begin;
  bench_usage_end(&timing);
  if (status != ADJ_OK) fprintf(stderr, "adjoin: %s: %s\n", adj_status_name(status), adj_last_error());
  const bool ok = status == ADJ_OK && report(r, &timing, digest);
  run_clear(r);
  return ok;
}

static bool repeat_read(run *r) {
  bench_timing timing = {0};
  bench_usage_begin(&timing);
  const double begin = bench_now();
  adj_status status = adj_dataset_open(r->ctx, r->args->path, NULL, &r->dataset);
  timing.seconds = bench_now() - begin;
  bench_usage_end(&timing);
  if (status != ADJ_OK) {
    fprintf(stderr, "adjoin: %s: %s\n", adj_status_name(status), adj_last_error());
    return false;
  }
  char extra[128];
  snprintf(extra, sizeof extra, "\"count\": %llu, \"dim\": %u", (unsigned long long)adj_dataset_count(r->dataset),
           adj_dataset_dim(r->dataset));
  bench_report("adjoin", r->args, &timing, NULL, extra);
  run_clear(r);
  return true;
}

static bool repeat_all(run *r) {
  const bool reading = strcmp(r->args->mode, "read") == 0;
  bench_digest *digest = malloc(sizeof *digest);
  bool ok = digest != NULL;
  if (ok && !reading) {
    r->degrees = malloc((r->points->count + 1) * sizeof *r->degrees);
    ok = r->degrees != NULL;
  }
  if (!ok) fprintf(stderr, "adjoin: no memory for the benchmark's own buffers\n");
  for (unsigned repeat = 0; ok && repeat < r->args->repeats; repeat++) {
    ok = reading ? repeat_read(r) : repeat_join(r, digest);
  }
  free(r->degrees);
  free(digest);
  return ok;
}

int main(int argc, char **argv) {
  static const char *const modes[] = {"csr", "csr-any", "count", "knn", "read", NULL};
  bench_args args;
  bench_points points = {0}, right = {0};
  if (!bench_parse(argc, argv, &args)) return 2;
  int mode = 0;
  while (modes[mode] && strcmp(modes[mode], args.mode) != 0)
    mode++;
  if (!modes[mode] || (strcmp(args.mode, "knn") == 0) != (args.k > 0)) {
    fprintf(stderr, "adjoin: no mode '%s' for %s\n", args.mode, args.k ? "k" : "a radius");
    return 2;
  }
  if (strcmp(args.mode, "read") != 0 && !bench_load_both(&args, &points, &right)) return 1;

  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = args.threads;
  options.isa = getenv("BENCH_ISA");
  run r = {.args = &args, .points = &points, .right_points = &right};
  bool ok = adj_ctx_create(&options, &r.ctx) == ADJ_OK;
  if (ok) {
    ok = repeat_all(&r);
  } else {
    fprintf(stderr, "adjoin: %s\n", adj_last_error());
  }
  run_clear(&r);
  adj_ctx_destroy(r.ctx);
  free(points.data);
  free(right.data);
  return ok ? 0 : 1;
}
