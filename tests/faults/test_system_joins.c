/* SPDX-License-Identifier: MIT
 *
 * Joins while the system fails: the n-th allocation, mapping or thread, for all n. A call ends with ADJ_E_MEMORY and a
 * message, or does without and gives the whole result. Either way it frees its blocks, threads and descriptors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "faults/faults.h"

typedef struct setup {
  const char *what;
  uint64_t count;
  uint32_t dim, k; /* k 0: a range join */
  double radius;
  adj_metric metric;
  adj_backend backend;
  const char *algorithm, *tuning;
  uint32_t threads;
  bool stream;
} setup;

static const setup SMALL[] = {
    {"range", 300, 3, 0, 0.1, ADJ_L2, ADJ_BACKEND_CPU, NULL, NULL, 2, false},
    {"range, streamed", 300, 3, 0, 0.1, ADJ_L2, ADJ_BACKEND_CPU, "grid", "buffer=20000", 1, true},
    {"ego", 300, 3, 0, 0.1, ADJ_L1, ADJ_BACKEND_CPU, "ego", NULL, 2, false},
    {"brute", 200, 9, 0, 0.9, ADJ_LINF, ADJ_BACKEND_CPU, "brute", NULL, 2, false},
    {"staged rows", 300, 2, 0, 0.1, ADJ_L2, ADJ_BACKEND_CPU, NULL, "staged=on", 2, false},
    {"each pair once", 300, 2, 0, 0.1, ADJ_L2, ADJ_BACKEND_CPU, NULL, "single=on", 2, false},
    {"kNN", 300, 3, 5, INFINITY, ADJ_L2, ADJ_BACKEND_CPU, "kdtree", NULL, 2, false},
    {"kNN, brute", 200, 12, 5, INFINITY, ADJ_L2, ADJ_BACKEND_CPU, "brute", NULL, 2, false},
    {"cosine", 300, 4, 0, 0.01, ADJ_COSINE, ADJ_BACKEND_CPU, NULL, NULL, 2, false},
    {"haversine", 300, 2, 0, 5000, ADJ_HAVERSINE, ADJ_BACKEND_CPU, NULL, NULL, 1, false},
    {"dot", 200, 4, 3, -INFINITY, ADJ_DOT, ADJ_BACKEND_CPU, NULL, NULL, 1, true},
    {"reference", 100, 2, 0, 0.2, ADJ_L2, ADJ_BACKEND_REFERENCE, NULL, NULL, 1, false},
    {"device", 200, 3, 0, 0.2, ADJ_L2, ADJ_BACKEND_GPU, NULL, "device_batch=4000", 2, false},
    {"device, kNN", 200, 3, 5, INFINITY, ADJ_L2, ADJ_BACKEND_GPU, NULL, NULL, 2, false},
    {"device, chunks", 150, 9, 7, INFINITY, ADJ_L2, ADJ_BACKEND_GPU, "brute", "device_chunk=40", 2, false},
    {"hybrid", 300, 3, 0, 0.15, ADJ_L2, ADJ_BACKEND_HYBRID, NULL, "share=rates,batch=16", 2, false},
    {"hybrid, kNN", 300, 3, 5, INFINITY, ADJ_L2, ADJ_BACKEND_HYBRID, NULL, "share=rates,batch=16", 2, false},
};

/* Large enough that blocks are mappings of their own. */
static const setup LARGE[] = {
    {"range", 120000, 3, 0, 0.02, ADJ_L2, ADJ_BACKEND_CPU, NULL, NULL, 2, false},
    {"staged rows", 120000, 2, 0, 0.003, ADJ_L2, ADJ_BACKEND_CPU, NULL, "staged=on", 2, false},
    {"each pair once", 120000, 2, 0, 0.003, ADJ_L2, ADJ_BACKEND_CPU, NULL, "single=on", 2, false},
    {"kNN", 120000, 3, 5, INFINITY, ADJ_L2, ADJ_BACKEND_CPU, NULL, NULL, 2, true},
};

#define LENGTH(list) (sizeof(list) / sizeof *(list))

/* ---- One whole run: context, points, plan, join ------------------------------------------------------------ */

static uint64_t mix(uint64_t sum, const void *bytes, uint64_t count) {
  const unsigned char *b = bytes;
  for (uint64_t i = 0; i < count; i++)
    sum = (sum ^ b[i]) * UINT64_C(0x100000001b3);
  return sum;
}

static adj_status add_rows(void *user, const adj_rows *rows) {
  uint64_t *sum = user, begin = rows->offsets[0], end = rows->offsets[rows->row_count];
  *sum = mix(*sum, rows->ids + begin, (end - begin) * sizeof *rows->ids);
  *sum = mix(*sum, (const float *)rows->distances + begin, (end - begin) * sizeof(float));
  return ADJ_OK;
}

static adj_status collect(adj_plan *plan, uint64_t *sum) {
  adj_result *result = NULL;
  adj_status status = adj_collect(plan, &result, NULL, NULL);
  if (status) return status;
  uint64_t entries = adj_result_offsets(result)[adj_result_rows(result)];
  *sum = mix(*sum, adj_result_ids(result), entries * sizeof(uint32_t));
  *sum = mix(*sum, adj_result_distances(result), entries * sizeof(float));
  adj_result_destroy(result);
  return ADJ_OK;
}

static adj_status stream(adj_plan *plan, uint64_t *sum) {
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = sum;
  sink.write = add_rows;
  return adj_stream(plan, &sink, NULL, NULL);
}

static adj_status join(adj_ctx *ctx, const setup *s, const adj_dataset *set, uint64_t *sum) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = s->k ? ADJ_KNN : ADJ_RANGE;
  spec.k = s->k;
  spec.radius = s->radius;
  spec.metric = s->metric;
  spec.backend = s->backend;
  spec.algorithm = s->algorithm;
  spec.tuning = s->tuning;
  spec.flags = ADJ_WITH_DISTANCE;
  adj_plan *plan = NULL;
  adj_status status = adj_plan_create(ctx, &spec, set, NULL, &plan);
  if (!status) status = s->stream ? stream(plan, sum) : collect(plan, sum);
  adj_plan_destroy(plan);
  return status;
}

static adj_status run(const setup *s, uint64_t *sum) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = s->threads;
  adj_generate_options generate;
  adj_generate_options_init(&generate, sizeof generate);
  generate.name = "unif";
  generate.count = s->count;
  generate.dim = s->dim;
  adj_ctx *ctx = NULL;
  adj_dataset *set = NULL;
  *sum = 1;
  adj_status status = adj_ctx_create(&options, &ctx);
  if (!status) status = adj_dataset_generate(ctx, &generate, &set);
  if (!status) status = join(ctx, s, set, sum);
  adj_dataset_destroy(set);
  if (ctx) assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
  return status;
}

/* ---- Faults ----------------------------------------------------------------------------------------------- */

/* A software device reports missing memory with the status of devices. */
static bool is_expected(const setup *s, adj_status status) {
  bool device = s->backend == ADJ_BACKEND_GPU || s->backend == ADJ_BACKEND_HYBRID;
  return status == ADJ_E_MEMORY || (device && (status == ADJ_E_DEVICE || status == ADJ_E_DEVICE_MEMORY));
}

static void try_all(const setup *s, fault_kind kind) {
  uint64_t expected = 0, sum = 0;
  must(run(s, &expected));
  int64_t blocks = fault_blocks();
  int threads = fault_threads(), descriptors = fault_descriptors(), failed = 0;
  int64_t n = 0;
  for (bool hit = true; hit; n += hit) {
    fault_begin(kind, n);
    adj_status status = run(s, &sum);
    hit = fault_end() > n;
    if (status && !is_expected(s, status))
      fail_msg("%s, %s %lld: %s: %s", s->what, fault_name(kind), (long long)n, adj_status_name(status),
               adj_last_error());
    if (status) assert_true(strlen(adj_last_error()) > 0);
    if (!status && sum != expected) fail_msg("%s, %s %lld: another result", s->what, fault_name(kind), (long long)n);
    failed += status != ADJ_OK;
    if (fault_blocks() != blocks)
      fail_msg("%s, %s %lld: %lld blocks lost", s->what, fault_name(kind), (long long)n,
               (long long)(fault_blocks() - blocks));
    assert_int_equal(fault_threads(), threads);
    assert_int_equal(fault_descriptors(), descriptors);
    assert_true(n < 100000);
  }
  print_message("%s: %s failed at %lld places, %d of them end the join\n", s->what, fault_name(kind), (long long)n,
                failed);
}

static void memory_fails(void **state) {
  (void)state;
  for (size_t i = 0; i < LENGTH(SMALL); i++)
    try_all(&SMALL[i], FAULT_MEMORY);
}

static void threads_fail(void **state) {
  (void)state;
  for (size_t i = 0; i < LENGTH(SMALL); i++)
    try_all(&SMALL[i], FAULT_THREAD);
}

/* The files that a context reads about the machine may be missing. */
static void files_fail(void **state) {
  (void)state;
  try_all(&SMALL[0], FAULT_OPEN);
}

static void mappings_fail(void **state) {
  (void)state;
  for (size_t i = 0; i < LENGTH(LARGE); i++)
    try_all(&LARGE[i], FAULT_MAP);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_fails),
      cmocka_unit_test(threads_fail),
      cmocka_unit_test(files_fail),
      cmocka_unit_test(mappings_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
