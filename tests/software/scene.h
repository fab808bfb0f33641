/* SPDX-License-Identifier: MIT
 *
 * For tests of joins on software devices (software.h): contexts with such devices, joins, and comparisons of results.
 */
#ifndef ADJOIN_TEST_SOFTWARE_SCENE_H
#define ADJOIN_TEST_SOFTWARE_SCENE_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "software/software.h"

static atomic_int warnings;

static inline void count_warnings(void *user, adj_log_level level, const char *line) {
  (void)user;
  (void)line;
  if (level == ADJ_LOG_WARN) atomic_fetch_add(&warnings, 1);
}

/* A context with software devices. limit: memory of each device; 0: enough. */
static inline adj_ctx *software_context(uint32_t threads, uint32_t devices, uint64_t limit) {
  char asked[16];
  snprintf(asked, sizeof asked, "%u", devices);
  assert_int_equal(setenv("ADJOIN_SOFTWARE_DEVICES", asked, 1), 0);
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = threads;
  options.device_memory_limit = limit;
  options.log = count_warnings;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  return ctx;
}

static inline adj_dataset *some_points(adj_ctx *ctx, const char *name, uint64_t count, uint32_t dim, uint64_t seed) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = name;
  options.count = count;
  options.dim = dim;
  options.seed = seed;
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &options, &set));
  return set;
}

/* A join of a set with itself, or with another. */
typedef struct problem {
  const char *name; /* of the generator */
  uint64_t count;
  uint32_t dim, k; /* k 0: a range join */
  double radius;   /* 0: none           */
  const char *tuning, *algorithm;
  uint32_t flags;
  adj_order order;
  bool two_sets;
} problem;

typedef struct scene {
  adj_ctx *ctx;
  const problem *problem;
  adj_dataset *left, *right;
  adj_result *expected; /* of the cores */
  adj_run_control control;
} scene;

/* What the workers of a join did. */
typedef struct shared_work {
  uint32_t workers;
  uint64_t queries, by_devices, bytes_up;
  double kernel_s;
} shared_work;

static inline shared_work work_of(const adj_plan *plan, const adj_stats *stats) {
  shared_work work = {.workers = stats->worker_count, .bytes_up = stats->bytes_up, .kernel_s = stats->kernel_s};
  for (uint32_t i = 0; i < stats->worker_count; i++) {
    adj_worker worker;
    adj_worker_init(&worker, sizeof worker);
    must(adj_plan_worker(plan, i, &worker));
    work.queries += worker.queries;
    work.by_devices += i ? worker.queries : 0;
  }
  return work;
}

static inline adj_join_spec spec_of(const problem *p, adj_backend backend) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = p->k ? ADJ_KNN : ADJ_RANGE;
  spec.k = p->k;
  if (!p->k) spec.order = p->order;
  if (p->radius > 0) spec.radius = p->radius;
  spec.backend = backend;
  spec.flags = p->flags;
  if (backend != ADJ_BACKEND_CPU) spec.tuning = p->tuning;
  if (backend != ADJ_BACKEND_CPU) spec.algorithm = p->algorithm;
  return spec;
}

static inline adj_status join(const scene *s, adj_backend backend, adj_result **out, shared_work *work) {
  adj_join_spec spec = spec_of(s->problem, backend);
  adj_plan *plan = NULL;
  adj_status status = adj_plan_create(s->ctx, &spec, s->left, s->right, &plan);
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  if (!status) status = adj_collect(plan, out, &s->control, &stats);
  if (!status && work) *work = work_of(plan, &stats);
  adj_plan_destroy(plan);
  return status;
}

static inline scene open_scene(adj_ctx *ctx, const problem *p) {
  scene s = {.ctx = ctx, .problem = p};
  s.left = some_points(ctx, p->name, p->count, p->dim, 1);
  if (p->two_sets) s.right = some_points(ctx, "unif", p->count / 2 + 1, p->dim, 2);
  adj_run_control_init(&s.control, sizeof s.control);
  must(join(&s, ADJ_BACKEND_CPU, &s.expected, NULL));
  return s;
}

/* Frees the scene, and checks that all memory was given back. */
static inline void close_scene(scene *s) {
  adj_result_destroy(s->expected);
  adj_dataset_destroy(s->left);
  adj_dataset_destroy(s->right);
  assert_int_equal(adj_ctx_memory_used(s->ctx), 0);
}

static inline uint64_t device_bytes(const scene *s) {
  uint64_t bytes = 0;
  for (int i = 0; i < ADJI_MOST_GPUS; i++)
    if (s->ctx->gpus[i]) bytes += adji_gpu_used(s->ctx->gpus[i]);
  return bytes;
}

/* Compares whole results: offsets, ids, and every bit of the distances. */
static inline void must_be_same(const scene *s, const adj_result *result) {
  const adj_result *expected = s->expected;
  uint64_t pairs = adj_result_pairs(expected), rows = adj_result_rows(expected), k = s->problem->k;
  assert_int_equal(adj_result_rows(result), rows);
  assert_int_equal(adj_result_pairs(result), pairs);
  if (!s->problem->k)
    assert_memory_equal(adj_result_offsets(result), adj_result_offsets(expected), (rows + 1) * sizeof(uint64_t));
  uint64_t entries = k ? rows * k : pairs; /* with padding */
  if (entries) assert_memory_equal(adj_result_ids(result), adj_result_ids(expected), entries * sizeof(uint32_t));
  if (entries && s->problem->flags & ADJ_WITH_DISTANCE)
    assert_memory_equal(adj_result_distances(result), adj_result_distances(expected), entries * sizeof(float));
}

#endif
