/* SPDX-License-Identifier: MIT
 *
 * Joins that several devices share without cores, on software devices. Every query is done by one of them. A device
 * that fails, is lost or has no memory leaves its queries to the others. If all of them fail, the join fails. Whole
 * results are compared with those of the cores.
 */
#include "software/scene.h"

static const problem DIVIDED[] = {
    {"unif", 400, 3, 0, 0.15, "share=rates", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"expo", 400, 2, 0, 0.02, "share=entities,device_batch=4000", NULL, 0, ADJ_ORDER_ID, false},
    {"unif", 300, 5, 0, 0.4, "share=rates", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, true},
    {"unif", 300, 12, 0, 1.1, "share=rates", NULL, ADJ_ONE_WAY, ADJ_ORDER_ID, false},
    {"expo", 400, 2, 0, 0.02, "share=entities,paper.query_sets=12,paper.access=full", NULL, ADJ_WITH_DISTANCE,
     ADJ_ORDER_ID, true},
    {"unif", 400, 3, 8, 0, "share=rates", "kdtree", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"expo", 300, 2, 5, 0.01, "share=entities,paper.query_sets=7,device_rows=77", NULL, 0, ADJ_ORDER_ID, true},
    {"unif", 300, 9, 7, 0, "share=rates", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 200, 40, 3, 0, "share=entities", "brute", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, true},
    {"unif", 3, 2, 0, 0.5, "share=rates", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 1, 2, 2, 0, "share=rates", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
};
enum { DIVIDED_COUNT = sizeof DIVIDED / sizeof *DIVIDED };

/* Sets that do not fit a device. They are cut into regions of space, which the devices share. */
static const problem REGIONS[] = {
    {"unif", 900, 2, 0, 0.01, "device_chunk=300", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 900, 2, 0, 0.01, "device_chunk=300", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, true},
    {"unif", 900, 3, 0, 0.02, "device_chunk=300", NULL, ADJ_ONE_WAY, ADJ_ORDER_ID, false},
    {"unif", 400, 9, 0, 0.7, "device_chunk=90", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, false},
    {"unif", 400, 2, 0, 0.3, "device_chunk=90", NULL, ADJ_ONE_WAY, ADJ_ORDER_DISTANCE, false},
    {"unif", 400, 9, 0, 0.8, "device_chunk=70", NULL, 0, ADJ_ORDER_ID, true},
    {"unif", 600, 3, 4, 0, "device_chunk=130", "kdtree", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 600, 2, 8, 0, "device_chunk=130,test.pick=off", "kdtree", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"expo", 600, 2, 9, 0.02, "device_chunk=90,device_rows=30", "kdtree", 0, ADJ_ORDER_ID, true},
};
enum { REGIONS_COUNT = sizeof REGIONS / sizeof *REGIONS };

/* A context in which one device is named `times` times. */
static adj_ctx *one_device_often(uint32_t times) {
  assert_int_equal(setenv("ADJOIN_SOFTWARE_DEVICES", "1", 1), 0);
  int32_t devices[ADJI_MOST_GPUS] = {0};
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  options.devices = devices;
  options.device_count = (int32_t)times;
  options.log = count_warnings;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  return ctx;
}

/* ---- Results ------------------------------------------------------------------------------------------ */

/* Checks that devices do every query once per pass. */
static void check_divided(adj_ctx *ctx, const problem *p) {
  scene s = open_scene(ctx, p);
  adj_result *result = NULL;
  shared_work work = {0};
  must(join(&s, ADJ_BACKEND_GPU, &result, &work));
  must_be_same(&s, result);
  assert_int_equal(work.by_devices, (p->k ? 1 : 2) * p->count);
  assert_int_equal(work.queries, work.by_devices);
  assert_int_equal(device_bytes(&s), 0);
  adj_result_destroy(result);
  close_scene(&s);
  adj_ctx_destroy(ctx);
}

static void several_devices(void **state) {
  (void)state;
  atomic_store(&warnings, 0);
  for (int i = 0; i < DIVIDED_COUNT; i++)
    for (uint32_t devices = 2; devices <= 3; devices++)
      for (uint32_t threads = 1; threads <= 3; threads += 2)
        check_divided(software_context(threads, devices, 0), &DIVIDED[i]);
  for (int i = 0; i < REGIONS_COUNT; i++)
    for (uint32_t devices = 2; devices <= 3; devices++)
      check_divided(software_context(devices, devices, 0), &REGIONS[i]);
  assert_int_equal(atomic_load(&warnings), 0);
}

static void a_device_named_twice(void **state) {
  (void)state;
  for (int i = 0; i < DIVIDED_COUNT; i++)
    check_divided(one_device_often(2 + (uint32_t)i % 2), &DIVIDED[i]);
}

/* Puts streamed rows where a collected result has them. */
typedef struct rows_so_far {
  const scene *scene;
  uint64_t rows, windows;
} rows_so_far;

static adj_status compare_rows(void *user, const adj_rows *rows) {
  rows_so_far *so_far = user;
  const adj_result *expected = so_far->scene->expected;
  uint32_t k = so_far->scene->problem->k;
  uint64_t from = k ? rows->first_row * k : adj_result_offsets(expected)[rows->first_row];
  uint64_t to = rows->first_row + rows->row_count, end = k ? to * k : adj_result_offsets(expected)[to];
  uint64_t first = k ? 0 : rows->offsets[0];
  assert_int_equal(rows->first_row, so_far->rows);
  if (end > from)
    assert_memory_equal(rows->ids + first, adj_result_ids(expected) + from, (end - from) * sizeof(uint32_t));
  so_far->rows = to;
  so_far->windows++;
  return ADJ_OK;
}

/* Degrees, and rows in small windows. */
static void counted_and_streamed(void **state) {
  (void)state;
  for (int i = 0; i < DIVIDED_COUNT; i++) {
    char tuning[128];
    problem p = DIVIDED[i];
    snprintf(tuning, sizeof tuning, "%s,buffer=3000", p.tuning);
    p.tuning = tuning;
    adj_ctx *ctx = software_context(2, 3, 0);
    scene s = open_scene(ctx, &p);
    adj_join_spec spec = spec_of(&p, ADJ_BACKEND_GPU);
    adj_plan *plan = NULL;
    must(adj_plan_create(ctx, &spec, s.left, s.right, &plan));
    uint32_t degrees[400];
    uint64_t total = 0;
    must(adj_count(plan, degrees, &total, NULL, NULL));
    assert_int_equal(total, adj_result_pairs(s.expected));
    for (uint64_t row = 0; row < p.count && !p.k; row++)
      assert_int_equal(degrees[row], adj_result_offsets(s.expected)[row + 1] - adj_result_offsets(s.expected)[row]);
    rows_so_far so_far = {.scene = &s};
    adj_sink sink;
    adj_sink_init(&sink, sizeof sink);
    sink.user = &so_far;
    sink.write = compare_rows;
    must(adj_stream(plan, &sink, NULL, NULL));
    assert_int_equal(so_far.rows, p.count);
    adj_plan_destroy(plan);
    assert_int_equal(device_bytes(&s), 0);
    close_scene(&s);
    adj_ctx_destroy(ctx);
  }
}

/* ---- Failures ----------------------------------------------------------------------------------------- */

/* Every so many operations fail, not each one: for builds in which everything takes ten times as long. */
static int64_t coarser = 1;

/* One device fails, is lost or has no memory at its n-th operation, for each step-th n. The others do the join, with a
 * warning. Without a failure there is no warning. */
static void fail_one(const problem *p, uint32_t devices, uint32_t which, adji_gpu_fault fault, int64_t step) {
  step *= coarser;
  adj_ctx *ctx = software_context(2, devices, 0);
  scene s = open_scene(ctx, p);
  adji_gpu *gpu = NULL;
  must(adji_gpu_at(ctx, which, &gpu));
  uint64_t host = adj_ctx_memory_used(ctx);
  int64_t n = 0, calls = 1;
  for (; n <= calls; n += step) {
    adj_result *result = NULL;
    atomic_store(&warnings, 0);
    adji_gpu_fail_as(gpu, n, fault);
    must(join(&s, ADJ_BACKEND_GPU, &result, NULL));
    calls = adji_gpu_calls(gpu);
    adji_gpu_fail_as(gpu, -1, ADJI_FAULT_ONCE);
    must_be_same(&s, result);
    if (fault != ADJI_FAULT_MEMORY) assert_int_equal(atomic_load(&warnings) > 0, n < calls);
    adj_result_destroy(result);
    assert_int_equal(device_bytes(&s), 0);
    assert_int_equal(adj_ctx_memory_used(ctx), host);
    assert_true(n < 100000);
  }
  print_message("%s, %u-D, device %u of %u: %lld operations failed in turn\n", p->k ? "kNN" : "range", p->dim, which,
                devices, (long long)(n / step));
  close_scene(&s);
  adj_ctx_destroy(ctx);
}

static void a_device_fails(void **state) {
  (void)state;
  for (int i = 0; i < DIVIDED_COUNT; i++) {
    uint32_t devices = 2 + (uint32_t)i % 2;
    fail_one(&DIVIDED[i], devices, (uint32_t)i / 2 % devices, ADJI_FAULT_ONCE, 1);
    fail_one(&DIVIDED[i], devices, (uint32_t)(i / 2 + 1) % devices, ADJI_FAULT_LOST, 1);
    fail_one(&DIVIDED[i], 2, (uint32_t)i % 2, ADJI_FAULT_MEMORY, 1);
  }
  for (int i = 0; i < REGIONS_COUNT; i++) {
    int64_t step = REGIONS[i].k ? 29 : 3; /* they have many operations */
    fail_one(&REGIONS[i], 2, (uint32_t)i % 2, ADJI_FAULT_ONCE, step);
    fail_one(&REGIONS[i], 3, (uint32_t)i % 3, ADJI_FAULT_LOST, step);
    fail_one(&REGIONS[i], 2, 1, ADJI_FAULT_MEMORY, step);
  }
}

/* Joins that are left to one of the devices. */
static const problem SMALL[] = {
    {"unif", 300, 3, 0, 0.15, NULL, NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 200, 4, 0, 0.3, "single=on,test.mirrored=on,buffer=3000", NULL, 0, ADJ_ORDER_DISTANCE, false},
    {"unif", 300, 3, 5, 0, "device_rows=90", "kdtree", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 200, 12, 7, 0, NULL, NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, true},
};

static void the_device_of_a_small_join_fails(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof SMALL / sizeof *SMALL; i++) {
    fail_one(&SMALL[i], 2, 0, ADJI_FAULT_ONCE, 1);
    fail_one(&SMALL[i], 3, 0, ADJI_FAULT_LOST, 1);
  }
}

/* Both devices are lost, the second one later. Then the join fails, unless it was done before. */
static void all_devices_are_lost(void **state) {
  (void)state;
  uint32_t failed = 0;
  for (int i = 0; i < DIVIDED_COUNT; i++)
    for (int64_t n = 0; n < 60; n += 7) {
      adj_ctx *ctx = software_context(2, 2, 0);
      scene s = open_scene(ctx, &DIVIDED[i]);
      adj_result *result = NULL;
      for (uint32_t d = 0; d < 2; d++) {
        adji_gpu *gpu = NULL;
        must(adji_gpu_at(ctx, d, &gpu));
        adji_gpu_fail_as(gpu, n + (int64_t)d * 5, ADJI_FAULT_LOST);
      }
      adj_status status = join(&s, ADJ_BACKEND_GPU, &result, NULL);
      if (!status) must_be_same(&s, result);
      if (status) assert_int_equal(status, ADJ_E_DEVICE);
      if (status) assert_non_null(strstr(adj_last_error(), "device "));
      failed += status != ADJ_OK;
      adj_result_destroy(result);
      assert_int_equal(device_bytes(&s), 0);
      close_scene(&s);
      adj_ctx_destroy(ctx);
    }
  assert_true(failed > DIVIDED_COUNT);
}

/* Fails the n-th allocation of the host, for all n. */
static void every_allocation_fails(void **state) {
  (void)state;
  for (int i = 0; i < DIVIDED_COUNT; i++) {
    adj_ctx *ctx = software_context(1, 2, 0);
    scene s = open_scene(ctx, &DIVIDED[i]);
    uint64_t host = adj_ctx_memory_used(ctx);
    bool hit = true;
    for (int64_t n = 0; hit; n++) {
      adj_result *result = NULL;
      atomic_store(&ctx->memory.fail_at, n);
      adj_status status = join(&s, ADJ_BACKEND_GPU, &result, NULL);
      hit = atomic_load(&ctx->memory.fail_at) < 0;
      atomic_store(&ctx->memory.fail_at, -1);
      if (status) assert_int_equal(status, ADJ_E_MEMORY);
      if (!status) must_be_same(&s, result);
      adj_result_destroy(result);
      assert_int_equal(device_bytes(&s), 0);
      assert_int_equal(adj_ctx_memory_used(ctx), host);
      assert_true(n < 100000);
    }
    close_scene(&s);
    adj_ctx_destroy(ctx);
  }
}

/* Devices with less and less memory give the whole result, or an error about memory. */
static void within_limits(void **state) {
  (void)state;
  uint32_t done = 0, failed = 0;
  for (int i = 0; i < DIVIDED_COUNT; i++)
    for (uint64_t limit = 1 << 20; limit > 1000; limit = limit * 2 / 3) {
      adj_ctx *ctx = software_context(2, 2, limit);
      scene s = open_scene(ctx, &DIVIDED[i]);
      adj_result *result = NULL;
      adj_status status = join(&s, ADJ_BACKEND_GPU, &result, NULL);
      if (status && status != ADJ_E_DEVICE_MEMORY) fail_msg("%s", adj_last_error());
      if (!status) must_be_same(&s, result);
      done += !status;
      failed += status != ADJ_OK;
      adj_result_destroy(result);
      assert_int_equal(device_bytes(&s), 0);
      close_scene(&s);
      adj_ctx_destroy(ctx);
    }
  assert_true(done && failed);
}

/* ---- Plans -------------------------------------------------------------------------------------------- */

/* A small join stays on one device. What several devices cannot share is refused if it is asked for. */
static void what_is_planned(void **state) {
  (void)state;
  static const problem small = {"unif", 300, 3, 5, 0, NULL, "kdtree", 0, ADJ_ORDER_ID, false};
  static const struct {
    problem problem;
    uint32_t devices;
    const char *why;
  } refused[] = {
      {{"unif", 50, 2, 0, 0.1, "share=rates", NULL, 0, ADJ_ORDER_ID, false}, 1, "share=rates with the backend gpu"},
      {{"unif", 50, 2, 0, 0.1, "share=entities", NULL, 0, ADJ_ORDER_ID, false}, 1, "several are needed"},
      {{"unif", 50, 2, 0, 0.1, "share=fixed", NULL, 0, ADJ_ORDER_ID, false},
       2,
       "share=fixed is for the backend hybrid"},
      {{"unif", 50, 2, 3, 0, "share=rates", "grid", 0, ADJ_ORDER_ID, false}, 2, "algorithm grid"},
      {{"unif", 50, 2, 0, 0.1, "share=rates,paper.access=unicomp", NULL, 0, ADJ_ORDER_ID, false}, 2, "unicomp"},
  };
  adj_ctx *ctx = software_context(2, 3, 0);
  scene s = open_scene(ctx, &small);
  adj_result *result = NULL;
  shared_work work = {0};
  must(join(&s, ADJ_BACKEND_GPU, &result, &work));
  must_be_same(&s, result);
  assert_int_equal(work.workers, 0);
  adj_result_destroy(result);
  close_scene(&s);
  adj_ctx_destroy(ctx);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    ctx = software_context(1, refused[i].devices, 0);
    s = open_scene(ctx, &refused[i].problem);
    result = NULL;
    must_fail(ADJ_E_UNSUPPORTED, refused[i].why, join(&s, ADJ_BACKEND_GPU, &result, NULL));
    close_scene(&s);
    adj_ctx_destroy(ctx);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) coarser = strtol(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_devices),
      cmocka_unit_test(a_device_named_twice),
      cmocka_unit_test(counted_and_streamed),
      cmocka_unit_test(a_device_fails),
      cmocka_unit_test(all_devices_are_lost),
      cmocka_unit_test(within_limits),
      cmocka_unit_test(every_allocation_fails),
      cmocka_unit_test(what_is_planned),
      cmocka_unit_test(the_device_of_a_small_join_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
