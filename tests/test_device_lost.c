/* SPDX-License-Identifier: MIT
 *
 * A device that is lost in the middle of a join and stays lost, and a device without free memory although its limit is
 * not reached. The device is lost at the n-th operation, for all n. If it works alone, the join fails with
 * ADJ_E_DEVICE; if cores take part, there is the whole result and a warning. For later joins in the same context, and
 * when the context is destroyed, the device is still lost. A plan that may use the cores but does not, because the
 * device is quicker, falls back on them.
 *
 *   test_device_lost [STEP]      every STEP-th n only
 */
#include "software/scene.h"

static const problem ALONE[] = {
    {"unif", 300, 2, 0, 0.1, NULL, NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 250, 4, 0, 0.3, "single=on,device_batch=3000", NULL, 0, ADJ_ORDER_ID, true},
    {"unif", 300, 3, 0, 0.2, "test.slices=4", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, false},
    {"unif", 300, 2, 0, 0.08, "device_chunk=160", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 300, 3, 5, 0, "device_rows=60", "kdtree", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 200, 3, 8, 0, NULL, "grid", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 150, 9, 7, 0, "device_chunk=40", "brute", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, true},
};

static const problem SHARED[] = {
    {"unif", 400, 3, 0, 0.15, "share=rates,batch=16,single=off", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"expo", 400, 2, 0, 0.02, "share=fixed,paper.n_large=1,paper.n_cwin=0.001,batch=16,device_batch=4000,single=off",
     NULL, 0, ADJ_ORDER_ID, false},
    {"unif", 400, 4, 0, 0.25, "share=rates,batch=16,single=on,test.mirrored=on,prefilter=off", NULL, ADJ_WITH_DISTANCE,
     ADJ_ORDER_ID, false},
    {"unif", 400, 3, 8, 0, "share=rates,batch=16", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 400, 3, 6, 0, "share=fixed,paper.n_large=0.9,paper.n_cwin=0.1,batch=16", "grid", ADJ_WITH_DISTANCE,
     ADJ_ORDER_ID, false},
};

/* Joins that a plan gives to the device alone although it may use the cores. The cores finish them. */
static const problem GIVEN[] = {
    {"unif", 200, 2, 0, 0.1, NULL, NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 200, 3, 0, 0.2, "buffer=4000", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, true},
    {"unif", 150, 12, 0, 1.2, NULL, NULL, 0, ADJ_ORDER_ID, false},
    {"unif", 200, 3, 5, 0, "buffer=4000", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 150, 40, 7, 0, NULL, NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, true},
};

static int64_t step = 1;

#define LENGTH(list) (sizeof(list) / sizeof *(list))

static void must_fail_as(const adj_result *result, adj_status status, adj_status expected) {
  if (status != expected) fail_msg("%s: %s", adj_status_name(status), adj_last_error());
  assert_non_null(strstr(adj_last_error(), "device "));
  assert_null(result);
}

/* A join in a context whose device is lost already. */
static void join_after(const scene *s, adj_backend backend) {
  adj_result *result = NULL;
  atomic_store(&warnings, 0);
  adj_status status = join(s, backend, &result, NULL);
  if (backend == ADJ_BACKEND_GPU) {
    must_fail_as(result, status, ADJ_E_DEVICE);
  } else {
    must(status);
    must_be_same(s, result);
    assert_true(atomic_load(&warnings) > 0);
  }
  adj_result_destroy(result);
}

/* The device is lost at operation n. Returns the number of operations; fewer than n: it was not lost. */
static int64_t lose_at(const problem *p, uint32_t devices, int64_t n) {
  adj_backend backend = devices ? ADJ_BACKEND_HYBRID : ADJ_BACKEND_GPU;
  adj_ctx *ctx = software_context(2, devices ? devices : 1, 0);
  scene s = open_scene(ctx, p);
  adji_gpu *gpu = NULL;
  must(adji_gpu_at(ctx, devices ? devices - 1 : 0, &gpu));
  uint64_t host = adj_ctx_memory_used(ctx);
  adj_result *result = NULL;
  atomic_store(&warnings, 0);
  adji_gpu_fail_as(gpu, n, ADJI_FAULT_LOST);
  adj_status status = join(&s, backend, &result, NULL);
  int64_t calls = adji_gpu_calls(gpu);
  bool lost = calls > n;
  if (lost && !devices) must_fail_as(result, status, ADJ_E_DEVICE);
  if (!lost || devices) must(status);
  if (!status) must_be_same(&s, result);
  if (lost && devices) assert_true(atomic_load(&warnings) > 0);
  adj_result_destroy(result);
  assert_int_equal(adj_ctx_memory_used(ctx), host);
  assert_int_equal(device_bytes(&s), 0);
  if (lost) join_after(&s, backend);
  close_scene(&s);
  adj_ctx_destroy(ctx);
  return calls;
}

static void lost_alone(void **state) {
  (void)state;
  for (size_t i = 0; i < LENGTH(ALONE); i++) {
    int64_t n = 0;
    while (lose_at(&ALONE[i], 0, n) > n)
      n += step;
    print_message("%s, %u-D: lost at %lld operations\n", ALONE[i].k ? "kNN" : "range", ALONE[i].dim,
                  (long long)(n / step));
    assert_true(n > 0);
  }
}

static void lost_beside_cores(void **state) {
  (void)state;
  for (size_t i = 0; i < LENGTH(SHARED); i++) {
    int64_t n = 0;
    while (lose_at(&SHARED[i], 1 + (uint32_t)i % 3, n) > n)
      n += step;
    print_message("%s, %u-D, %u devices: lost at %lld operations\n", SHARED[i].k ? "kNN" : "range", SHARED[i].dim,
                  1 + (uint32_t)i % 3, (long long)(n / step));
    assert_true(n > 0);
  }
}

/* ---- Plans that are free to choose ------------------------------------------------------------------------- */

typedef enum way { COLLECT, STREAM, COUNT, WAYS } way;

/* Puts streamed rows where a collected result has them. */
typedef struct rows_so_far {
  const scene *scene;
  uint64_t rows;
} rows_so_far;

static adj_status compare_rows(void *user, const adj_rows *rows) {
  rows_so_far *so_far = user;
  const adj_result *expected = so_far->scene->expected;
  const uint64_t *offsets = adj_result_offsets(expected) + rows->first_row;
  uint64_t entries = offsets[rows->row_count] - offsets[0];
  assert_int_equal(rows->first_row, so_far->rows);
  assert_int_equal(rows->offsets[rows->row_count] - rows->offsets[0], entries);
  if (entries)
    assert_memory_equal(rows->ids + rows->offsets[0], adj_result_ids(expected) + offsets[0],
                        entries * sizeof(uint32_t));
  if (entries && rows->distances)
    assert_memory_equal((const float *)rows->distances + rows->offsets[0],
                        (const float *)adj_result_distances(expected) + offsets[0], entries * sizeof(float));
  so_far->rows += rows->row_count;
  return ADJ_OK;
}

static adj_status stream_rows(adj_plan *plan, const scene *s) {
  rows_so_far so_far = {.scene = s};
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &so_far;
  sink.write = compare_rows;
  adj_status status = adj_stream(plan, &sink, NULL, NULL);
  if (!status) assert_int_equal(so_far.rows, adj_result_rows(s->expected));
  return status;
}

static adj_status count_rows(adj_plan *plan, const scene *s) {
  uint64_t rows = adj_result_rows(s->expected), total = 0;
  uint32_t *degrees = calloc(rows, sizeof *degrees);
  assert_non_null(degrees);
  adj_status status = adj_count(plan, degrees, &total, NULL, NULL);
  if (!status) assert_int_equal(total, adj_result_pairs(s->expected));
  const uint64_t *offsets = adj_result_offsets(s->expected);
  for (uint64_t i = 0; !status && i < rows; i++)
    assert_int_equal(degrees[i], offsets[i + 1] - offsets[i]);
  free(degrees);
  return status;
}

static adj_status run_way(const scene *s, adj_backend backend, way how) {
  adj_join_spec spec = spec_of(s->problem, backend);
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  adj_status status = adj_plan_create(s->ctx, &spec, s->left, s->right, &plan);
  if (!status && how == STREAM) status = stream_rows(plan, s);
  if (!status && how == COUNT) status = count_rows(plan, s);
  if (!status && how == COLLECT) status = adj_collect(plan, &result, NULL, NULL);
  if (result) must_be_same(s, result);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  return status;
}

/* At operation n the device is lost, or has no memory. Returns whether the join got that far. */
static bool finish_without(const problem *p, adj_backend backend, way how, adji_gpu_fault fault, int64_t n) {
  adj_ctx *ctx = software_context(2, 1, 0);
  scene s = open_scene(ctx, p);
  adji_gpu *gpu = NULL;
  must(adji_gpu_of(ctx, &gpu));
  uint64_t host = adj_ctx_memory_used(ctx);
  atomic_store(&warnings, 0);
  adji_gpu_fail_as(gpu, n, fault);
  must(run_way(&s, backend, how));
  bool hit = adji_gpu_fail_at(gpu, -1) > n;
  if (hit && fault == ADJI_FAULT_LOST) assert_true(atomic_load(&warnings) > 0);
  assert_int_equal(device_bytes(&s), 0);
  assert_int_equal(adj_ctx_memory_used(ctx), host);
  close_scene(&s);
  adj_ctx_destroy(ctx);
  return hit;
}

static void cores_go_on(void **state) {
  (void)state;
  static const adj_backend backends[] = {ADJ_BACKEND_HYBRID, ADJ_BACKEND_AUTO};
  static const adji_gpu_fault faults[] = {ADJI_FAULT_LOST, ADJI_FAULT_MEMORY};
  for (size_t i = 0; i < LENGTH(GIVEN); i++) {
    long long times = 0;
    for (int b = 0; b < 2; b++)
      for (int f = 0; f < 2; f++)
        for (int how = 0; how < (faults[f] == ADJI_FAULT_LOST ? (int)WAYS : 1); how++)
          for (int64_t n = 0; finish_without(&GIVEN[i], backends[b], (way)how, faults[f], n); n += step)
            times++;
    print_message("%s, %u-D: the cores went on %lld times\n", GIVEN[i].k ? "kNN" : "range", GIVEN[i].dim, times);
    assert_true(times > 0);
  }
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

/* Request n for device memory fails. If the device works alone, the join manages with less memory or reports an error.
 * After that, the same context gives the whole result. */
static void fail_memory_request(const problem *p, adj_backend backend) {
  adj_ctx *ctx = software_context(2, 1, 0);
  scene s = open_scene(ctx, p);
  adji_gpu *gpu = NULL;
  must(adji_gpu_of(ctx, &gpu));
  uint64_t host = adj_ctx_memory_used(ctx);
  int64_t n = 0;
  for (bool hit = true; hit; n += hit) {
    adj_result *result = NULL;
    adji_gpu_fail_as(gpu, n, ADJI_FAULT_MEMORY);
    adj_status status = join(&s, backend, &result, NULL);
    hit = adji_gpu_fail_at(gpu, -1) > n;
    if (status) {
      assert_int_equal(backend, ADJ_BACKEND_GPU);
      must_fail_as(result, status, ADJ_E_DEVICE_MEMORY);
    } else {
      must_be_same(&s, result);
    }
    adj_result_destroy(result);
    assert_int_equal(device_bytes(&s), 0);
    assert_int_equal(adj_ctx_memory_used(ctx), host);
    assert_true(n < 10000);
  }
  print_message("%s, %u-D: each of %lld requests for memory failed once\n", p->k ? "kNN" : "range", p->dim,
                (long long)n);
  adj_result *result = NULL;
  must(join(&s, backend, &result, NULL));
  must_be_same(&s, result);
  adj_result_destroy(result);
  close_scene(&s);
  adj_ctx_destroy(ctx);
}

static void no_memory_on_the_device(void **state) {
  (void)state;
  for (size_t i = 0; i < LENGTH(ALONE); i++)
    fail_memory_request(&ALONE[i], ADJ_BACKEND_GPU);
  for (size_t i = 0; i < LENGTH(SHARED); i++)
    fail_memory_request(&SHARED[i], ADJ_BACKEND_HYBRID);
}

int main(int argc, char **argv) {
  if (argc > 1) step = strtoll(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lost_alone),
      cmocka_unit_test(lost_beside_cores),
      cmocka_unit_test(cores_go_on),
      cmocka_unit_test(no_memory_on_the_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
