/* SPDX-License-Identifier: MIT
 *
 * The host code of devices, on software devices: joins on a device alone, and on one or several together with the
 * cores; every operation of a device and every allocation of the host failing in turn; limits of device memory; joins
 * that are cancelled in the middle. Whole results are compared with those of the cores.
 */
#include "software/scene.h"

/* Joins that a device does alone: in one batch or many, with and without entries kept by the count, in chunks. */
static const problem ALONE[] = {
    {"unif", 300, 2, 0, 0.1, NULL, NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 300, 3, 0, 0.2, "device_batch=4000,test.streams=2,single=off", NULL, 0, ADJ_ORDER_ID, false},
    {"expo", 250, 4, 0, 0.02, "single=on,test.mirrored=on", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, false},
    {"unif", 250, 4, 0, 0.3, "single=on,test.device_pairs=40,device_batch=3000", NULL, 0, ADJ_ORDER_ID, true},
    {"unif", 300, 3, 0, 0.2, "test.tile_hits=on,device_batch=9000", NULL, ADJ_ONE_WAY, ADJ_ORDER_ID, false},
    {"unif", 300, 3, 0, 0.2, "test.slices=4", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"expo", 250, 4, 0, 0.02, "test.slices=7,single=on,test.mirrored=on", NULL, 0, ADJ_ORDER_DISTANCE, false},
    {"unif", 300, 2, 0, 0.08, "test.slices=3,device_chunk=160", NULL, 0, ADJ_ORDER_ID, true},
    {"unif", 300, 2, 0, 0.08, "device_chunk=160", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, false},
    {"expo", 200, 2, 0, 0.01, "paper.access=lid-unicomp,paper.order=workqueue,paper.batch_size=900", NULL, 0,
     ADJ_ORDER_DISTANCE, false},
    {"unif", 300, 3, 5, 0, NULL, NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"expo", 200, 2, 40, 0, "device_rows=60", "kdtree", 0, ADJ_ORDER_ID, true},
    {"unif", 150, 3, 4, 0, "device_chunk=60", "kdtree", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 150, 3, 4, 0, "device_chunk=60,test.pick=off", "kdtree", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"expo", 150, 2, 9, 0.02, "device_chunk=40,device_rows=30", "kdtree", 0, ADJ_ORDER_ID, true},
    {"unif", 150, 9, 7, 0, "device_chunk=40", "brute", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"unif", 200, 3, 8, 0.1, NULL, "grid", ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
};
enum { ALONE_COUNT = sizeof ALONE / sizeof *ALONE };

/* Joins that cores and devices share. */
static const problem SHARED[] = {
    {"unif", 400, 3, 0, 0.15, "share=rates,batch=16,single=off", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"expo", 400, 2, 0, 0.02, "share=fixed,paper.n_large=1,paper.n_cwin=0.001,batch=16,device_batch=4000,single=off",
     NULL, 0, ADJ_ORDER_ID, false},
    {"unif", 300, 5, 0, 0.4, "share=fixed,paper.n_large=0.5,paper.n_cwin=0.2,batch=16,single=off", NULL,
     ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, true},
    {"unif", 400, 4, 0, 0.25, "share=rates,batch=16,single=on,test.mirrored=on,prefilter=off", NULL, ADJ_WITH_DISTANCE,
     ADJ_ORDER_ID, false},
    {"unif", 400, 4, 0, 0.25,
     "share=fixed,paper.n_large=0.5,paper.n_cwin=0.1,batch=16,single=on,test.mirrored=on,prefilter=off", NULL,
     ADJ_ONE_WAY | ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, false},
    {"unif", 400, 4, 0, 0.25, "share=rates,batch=16,single=on,test.mirrored=on,prefilter=off,test.device_pairs=20",
     NULL, 0, ADJ_ORDER_ID, false},
    {"unif", 400, 3, 8, 0, "share=rates,batch=16", NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, false},
    {"expo", 400, 2, 5, 0, "share=fixed,paper.n_large=1,paper.n_cwin=0.001,batch=16,device_rows=77", NULL, 0,
     ADJ_ORDER_ID, true},
    {"unif", 400, 3, 6, 0, "share=fixed,paper.n_large=0.9,paper.n_cwin=0.1,batch=16", "grid", ADJ_WITH_DISTANCE,
     ADJ_ORDER_ID, false},
    {"expo", 400, 2, 0, 0.02, "share=results,paper.access=full,paper.order=workqueue,batch=16,paper.batch_size=300",
     NULL, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, true},
    {"expo", 400, 2, 6, 0, "share=fixed,paper.n_large=0.9,paper.n_cwin=0,paper.queue=cells,paper.failures=0.01", "grid",
     ADJ_WITH_DISTANCE, ADJ_ORDER_ID, true},
};
enum { SHARED_COUNT = sizeof SHARED / sizeof *SHARED };

/* ---- Results ------------------------------------------------------------------------------------------ */

static void a_device_alone(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 3; threads += 2)
    for (int i = 0; i < ALONE_COUNT; i++) {
      adj_ctx *ctx = software_context(threads, 1, 0);
      scene s = open_scene(ctx, &ALONE[i]);
      adj_result *result = NULL;
      must(join(&s, ADJ_BACKEND_GPU, &result, NULL));
      must_be_same(&s, result);
      assert_int_equal(device_bytes(&s), 0);
      adj_result_destroy(result);
      close_scene(&s);
      adj_ctx_destroy(ctx);
    }
}

/* Checks that every query is done once per pass. */
static void check_work(const scene *s, const shared_work *work) {
  uint64_t all = adj_dataset_count(s->left);
  assert_true(work->workers >= 2);
  assert_true(work->queries == all || (!s->problem->k && work->queries == 2 * all));
}

static void devices_and_cores(void **state) {
  (void)state;
  uint64_t by_devices = 0;
  atomic_store(&warnings, 0);
  for (uint32_t devices = 1; devices <= 3; devices++)
    for (int i = 0; i < SHARED_COUNT; i++) {
      if (SHARED[i].tuning && strstr(SHARED[i].tuning, "device_pairs")) continue; /* see without_room_for_pairs */
      adj_ctx *ctx = software_context(2, devices, 0);
      scene s = open_scene(ctx, &SHARED[i]);
      adj_result *result = NULL;
      shared_work work = {0};
      must(join(&s, ADJ_BACKEND_HYBRID, &result, &work));
      must_be_same(&s, result);
      check_work(&s, &work);
      by_devices += work.by_devices;
      assert_int_equal(device_bytes(&s), 0);
      adj_result_destroy(result);
      close_scene(&s);
      adj_ctx_destroy(ctx);
    }
  assert_true(by_devices > 0);
  assert_int_equal(atomic_load(&warnings), 0);
}

/* Single evaluation with a device that has no room for the pairs it finds. The cores find these again. */
static void without_room_for_pairs(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(2, 1, 0);
  scene s = open_scene(ctx, &SHARED[5]);
  adj_result *result = NULL;
  atomic_store(&warnings, 0);
  must(join(&s, ADJ_BACKEND_HYBRID, &result, NULL));
  must_be_same(&s, result);
  assert_true(atomic_load(&warnings) > 0);
  adj_result_destroy(result);
  close_scene(&s);
  adj_ctx_destroy(ctx);
}

/* A device that shares a single evaluation with the cores makes two indexes, one after the other, of points that are
 * copied once. The second index also needs the order of the cores. Two devices leave the rows to the cores. */
static void points_are_copied_once(void **state) {
  (void)state;
  enum { DEVICES = 2 };
  adj_ctx *ctx = software_context(2, DEVICES, 0);
  scene s = open_scene(ctx, &SHARED[3]);
  adj_result *result = NULL;
  shared_work work = {0};
  must(join(&s, ADJ_BACKEND_HYBRID, &result, &work));
  must_be_same(&s, result);
  assert_int_equal(work.bytes_up, DEVICES * s.problem->count * (s.problem->dim * sizeof(float) + sizeof(uint32_t)));
  adj_result_destroy(result);
  close_scene(&s);
  adj_ctx_destroy(ctx);
}

/* A plan that is free to choose may use an open device. The cores do what the device cannot do at all. */
static void chosen_by_the_plan(void **state) {
  (void)state;
  static const problem free_ones[] = {{.name = "unif", .count = 400, .dim = 3, .radius = 0.2, .order = ADJ_ORDER_ID},
                                      {.name = "unif", .count = 400, .dim = 9, .radius = 0.9, .order = ADJ_ORDER_ID},
                                      {.name = "unif", .count = 400, .dim = 2, .k = 5},
                                      {.name = "unif", .count = 200, .dim = 12, .k = 5}};
  for (uint64_t limit = 0; limit <= 2000; limit += 2000) {
    double kernel_s = 0;
    for (int i = 0; i < 4; i++) {
      adj_ctx *ctx = software_context(2, 1, limit);
      scene s = open_scene(ctx, &free_ones[i]);
      adji_gpu *gpu;
      adj_result *result = NULL;
      shared_work work = {0};
      must(adji_gpu_of(ctx, &gpu));
      must(join(&s, ADJ_BACKEND_AUTO, &result, &work));
      must_be_same(&s, result);
      kernel_s += work.kernel_s;
      assert_int_equal(device_bytes(&s), 0);
      adj_result_destroy(result);
      close_scene(&s);
      adj_ctx_destroy(ctx);
    }
    assert_true(kernel_s > 0 || limit);
  }
}

/* The calling thread answers a few queries to a kept index by itself, unless a device does them: the copies of a device
 * need the other threads. */
static void few_queries_to_a_kept_index(void **state) {
  (void)state;
  static const problem few = {.name = "unif", .count = 100, .dim = 3, .k = 4};
  for (adj_backend backend = ADJ_BACKEND_GPU; backend <= ADJ_BACKEND_HYBRID; backend++) {
    adj_ctx *ctx = software_context(2, 1, 0);
    scene s = open_scene(ctx, &few);
    adj_index_options options;
    adj_index_options_init(&options, sizeof options);
    options.backend = backend;
    adj_index *index = NULL;
    must(adj_index_create(ctx, &options, s.left, &index));
    adj_question question;
    adj_question_init(&question, sizeof question);
    question.k = few.k;
    question.flags = ADJ_WITH_DISTANCE;
    adj_plan *plan = NULL;
    adj_result *result = NULL;
    must(adj_index_plan(index, &question, NULL, &plan));
    must(adj_collect(plan, &result, NULL, NULL));
    must_be_same(&s, result);
    adj_result_destroy(result);
    adj_plan_destroy(plan);
    adj_index_destroy(index);
    close_scene(&s);
    adj_ctx_destroy(ctx);
  }
}

/* Wrong numbers of software devices, and devices that do not exist, are refused. */
static void only_so_many_devices(void **state) {
  (void)state;
  adji_gpu *gpu;
  uint32_t count;
  adj_ctx *ctx = software_context(1, 1, 0);
  static const char *const wrong[] = {"", "0", "9", "2x"};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(setenv("ADJOIN_SOFTWARE_DEVICES", wrong[i], 1), 0);
    must_fail(ADJ_E_ARGUMENT, "ADJOIN_SOFTWARE_DEVICES", adji_gpu_count(ctx, &count));
    must_fail(ADJ_E_ARGUMENT, "ADJOIN_SOFTWARE_DEVICES", adji_gpu_of(ctx, &gpu));
  }
  adj_ctx_destroy(ctx);
  ctx = software_context(1, 2, 0);
  int32_t other = 2;
  must(adji_gpu_at(ctx, 1, &gpu));
  adj_ctx_destroy(ctx);
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.devices = &other;
  options.device_count = 1;
  must(adj_ctx_create(&options, &ctx));
  must_fail(ADJ_E_ARGUMENT, "no device 2", adji_gpu_of(ctx, &gpu));
  adj_device device;
  adj_device_init(&device, sizeof device);
  must(adj_device_describe(1, &device));
  assert_non_null(strstr(device.name, "software"));
  must_fail(ADJ_E_UNSUPPORTED, "there are 2", adj_device_describe(2, &device));
  adj_ctx_destroy(ctx);
}

/* ---- Failures ----------------------------------------------------------------------------------------- */

/* Fails the n-th operation of a device that works alone, for all n. The join fails, or does without the operation. */
static void fail_alone(const problem *p) {
  adj_ctx *ctx = software_context(2, 1, 0);
  scene s = open_scene(ctx, p);
  adji_gpu *gpu = NULL;
  must(adji_gpu_of(ctx, &gpu));
  uint64_t host = adj_ctx_memory_used(ctx);
  int64_t n = 0, calls = 1;
  for (; n <= calls; n++) { /* in the last run nothing fails */
    adj_result *result = NULL;
    adji_gpu_fail_at(gpu, n);
    adj_status status = join(&s, ADJ_BACKEND_GPU, &result, NULL);
    int64_t made = adji_gpu_fail_at(gpu, -1);
    if (status) {
      assert_int_equal(status, ADJ_E_DEVICE);
      assert_non_null(strstr(adj_last_error(), "device 0: "));
      assert_null(result);
    } else {
      must_be_same(&s, result);
      calls = made;
    }
    adj_result_destroy(result);
    assert_int_equal(device_bytes(&s), 0);
    assert_int_equal(adj_ctx_memory_used(ctx), host);
    if (status) calls = n + 1;
    assert_true(n < 100000);
  }
  print_message("%s, %u-D: each of %lld operations failed once\n", p->k ? "kNN" : "range", p->dim, (long long)n - 1);
  close_scene(&s);
  adj_ctx_destroy(ctx);
}

static void every_operation_fails(void **state) {
  (void)state;
  for (int i = 0; i < ALONE_COUNT; i++)
    fail_alone(&ALONE[i]);
}

/* Together with the cores there is a result whatever a device does, and a warning if the device failed. */
static void fail_shared(const problem *p, uint32_t devices) {
  adj_ctx *ctx = software_context(2, devices, 0);
  scene s = open_scene(ctx, p);
  adji_gpu *gpu = NULL;
  must(adji_gpu_at(ctx, devices - 1, &gpu));
  uint64_t host = adj_ctx_memory_used(ctx);
  bool always = p->tuning && strstr(p->tuning, "device_pairs"); /* the device lacks room in any case */
  int64_t n = 0, calls = 1;
  for (; n <= calls; n++) {
    adj_result *result = NULL;
    atomic_store(&warnings, 0);
    adji_gpu_fail_at(gpu, n);
    must(join(&s, ADJ_BACKEND_HYBRID, &result, NULL));
    calls = adji_gpu_fail_at(gpu, -1);
    must_be_same(&s, result);
    assert_true(n >= calls || always || atomic_load(&warnings) > 0);
    adj_result_destroy(result);
    assert_int_equal(device_bytes(&s), 0);
    assert_int_equal(adj_ctx_memory_used(ctx), host);
    assert_true(n < 100000);
  }
  print_message("%s, %u-D, %u devices: each of %lld operations failed once\n", p->k ? "kNN" : "range", p->dim, devices,
                (long long)n - 1);
  close_scene(&s);
  adj_ctx_destroy(ctx);
}

static void every_operation_fails_beside_cores(void **state) {
  (void)state;
  for (int i = 0; i < SHARED_COUNT; i++)
    fail_shared(&SHARED[i], 1 + (uint32_t)i % 3);
}

/* Fails the n-th allocation of the host, for all n. */
static void fail_allocations(const problem *p, adj_backend backend) {
  adj_ctx *ctx = software_context(1, 1, 0);
  scene s = open_scene(ctx, p);
  uint64_t host = adj_ctx_memory_used(ctx);
  bool hit = true;
  int64_t n = 0;
  for (; hit; n++) {
    adj_result *result = NULL;
    atomic_store(&ctx->memory.fail_at, n);
    adj_status status = join(&s, backend, &result, NULL);
    hit = atomic_load(&ctx->memory.fail_at) < 0;
    atomic_store(&ctx->memory.fail_at, -1);
    if (status) assert_int_equal(status, ADJ_E_MEMORY);
    if (!status) must_be_same(&s, result);
    adj_result_destroy(result);
    assert_int_equal(device_bytes(&s), 0);
    assert_int_equal(adj_ctx_memory_used(ctx), host);
    assert_true(n < 100000);
  }
  print_message("%s, %u-D: each of %lld allocations failed once\n", p->k ? "kNN" : "range", p->dim, (long long)n - 1);
  close_scene(&s);
  adj_ctx_destroy(ctx);
}

static void every_allocation_fails(void **state) {
  (void)state;
  for (int i = 0; i < ALONE_COUNT; i++)
    fail_allocations(&ALONE[i], ADJ_BACKEND_GPU);
  for (int i = 0; i < SHARED_COUNT; i++)
    fail_allocations(&SHARED[i], ADJ_BACKEND_HYBRID);
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

/* A device with too little memory reports that. With more there is a result, and with cores there is one in any case.
 * */
static void within_limits(void **state) {
  (void)state;
  int results = 0, refused = 0;
  for (uint64_t limit = 256; limit <= 1 << 18; limit = limit * 2)
    for (int i = 0; i < ALONE_COUNT + SHARED_COUNT; i++) {
      bool alone = i < ALONE_COUNT;
      adj_ctx *ctx = software_context(2, 1, limit);
      scene s = open_scene(ctx, alone ? &ALONE[i] : &SHARED[i - ALONE_COUNT]);
      adj_result *result = NULL;
      adj_status status = join(&s, alone ? ADJ_BACKEND_GPU : ADJ_BACKEND_HYBRID, &result, NULL);
      if (status) assert_true(alone && status == ADJ_E_DEVICE_MEMORY);
      if (!status) must_be_same(&s, result);
      results += !status;
      refused += status != ADJ_OK;
      assert_int_equal(device_bytes(&s), 0);
      if (ctx->gpus[0]) assert_true(adji_gpu_peak(ctx->gpus[0]) <= limit);
      adj_result_destroy(result);
      close_scene(&s);
      adj_ctx_destroy(ctx);
    }
  assert_true(results > refused && refused > 0);
}

/* ---- Cancel ------------------------------------------------------------------------------------------- */

static int stop_later(void *user, const adj_progress *where) {
  (void)where;
  int *left = user;
  return (*left)-- <= 0;
}

/* Stops the join at the n-th report of progress, for all n. */
static void cancelled(void **state) {
  (void)state;
  int stops = 0;
  for (int i = 0; i < ALONE_COUNT + SHARED_COUNT; i++) {
    bool alone = i < ALONE_COUNT;
    adj_ctx *ctx = software_context(2, alone ? 1 : 2, 0);
    scene s = open_scene(ctx, alone ? &ALONE[i] : &SHARED[i - ALONE_COUNT]);
    uint64_t host = adj_ctx_memory_used(ctx);
    s.control.progress = stop_later;
    s.control.interval_ms = 0;
    adj_status status = ADJ_CANCELLED;
    for (int n = 0; status; n += 1 + n / 4) {
      int left = n;
      adj_result *result = NULL;
      s.control.user = &left;
      status = join(&s, alone ? ADJ_BACKEND_GPU : ADJ_BACKEND_HYBRID, &result, NULL);
      if (status) assert_int_equal(status, ADJ_CANCELLED);
      if (!status) must_be_same(&s, result);
      stops += status != ADJ_OK;
      adj_result_destroy(result);
      assert_int_equal(device_bytes(&s), 0);
      assert_int_equal(adj_ctx_memory_used(ctx), host);
    }
    close_scene(&s);
    adj_ctx_destroy(ctx);
  }
  assert_true(stops > ALONE_COUNT + SHARED_COUNT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_so_many_devices),   cmocka_unit_test(a_device_alone),
      cmocka_unit_test(devices_and_cores),      cmocka_unit_test(without_room_for_pairs),
      cmocka_unit_test(points_are_copied_once), cmocka_unit_test(chosen_by_the_plan),
      cmocka_unit_test(within_limits),          cmocka_unit_test(cancelled),
      cmocka_unit_test(every_operation_fails),  cmocka_unit_test(every_operation_fails_beside_cores),
      cmocka_unit_test(every_allocation_fails), cmocka_unit_test(few_queries_to_a_kept_index),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
