/* SPDX-License-Identifier: MIT
 *
 * The calls of adjoin_cuda.h on a software device, whose memory is host memory: cases of the list in every layout,
 * compared with the reference; selection, compared with a sort; every operation failing in turn. After each call the
 * current device of the thread is the same as before. And the mistakes that the device catches (software/software.h).
 */
#include <adjoin_cuda.h>
#include <math.h>

#include "compare.h"
#include "software/scene.h"

/* A number that no device has. It must be current after every call. */
enum { MINE = 77 };

static void must_be_mine(void) {
  assert_int_equal(adji_kind_current(), MINE);
}

/* ---- Joins -------------------------------------------------------------------------------------------- */

typedef enum layout { PACKED, GAPS, COLUMNS, LAYOUTS } layout;

/* Copies a set in a layout. The caller frees *memory. */
static adj_cuda_points laid_out(const point_set *set, layout how, char **memory) {
  size_t size = set->type == ADJ_F64 ? 8 : 4;
  uint64_t row = how == COLUMNS ? 1 : set->dim + (how == GAPS ? 3u : 0u), column = how == COLUMNS ? set->count : 1;
  uint64_t values = how == COLUMNS ? set->count * set->dim : set->count * row;
  if (!set->count) column = 1; /* a stride of 0 would stand for the default */
  *memory = calloc(values + 1, size);
  assert_non_null(*memory);
  for (uint64_t i = 0; i < set->count; i++)
    for (uint32_t j = 0; j < set->dim; j++)
      memcpy(*memory + (i * row + j * column) * size, (const char *)set->data + (i * set->dim + j) * size, size);
  adj_cuda_points out;
  adj_cuda_points_init(&out, sizeof out);
  out.type = set->type;
  out.dim = set->dim;
  out.count = set->count;
  out.data = *memory;
  out.row_stride = row * size;
  out.column_stride = column * size;
  return out;
}

typedef struct run {
  adj_ctx *ctx;
  const join_case *c;
  adj_join_spec spec;
  const reference_rows *expected;
  const adj_cuda_points *left, *right; /* right NULL: a self-join */
} run;

static adj_status call(const run *r, adj_cuda_result **out) {
  adj_status status = r->c->k ? adj_cuda_knn_join(r->ctx, &r->spec, r->left, r->right, NULL, out)
                              : adj_cuda_range_join(r->ctx, &r->spec, r->left, r->right, NULL, out);
  must_be_mine();
  return status;
}

static void check_result(const run *r, adj_cuda_result *result) {
  const reference_rows *e = r->expected;
  uint64_t entries = e->offsets[e->rows], size = r->c->left.type == ADJ_F64 ? 8 : 4;
  assert_int_equal(adj_cuda_result_rows(result), e->rows);
  uint64_t pairs = 0;
  for (uint64_t i = 0; i < entries; i++)
    pairs += e->ids[i] != ADJ_NO_ID;
  assert_int_equal(adj_cuda_result_pairs(result), pairs);
  if (!r->c->k) assert_memory_equal(adj_cuda_result_offsets(result), e->offsets, (e->rows + 1) * sizeof *e->offsets);
  if (entries) assert_memory_equal(adj_cuda_result_ids(result), e->ids, entries * sizeof *e->ids);
  if (entries) assert_memory_equal(adj_cuda_result_distances(result), e->distances, entries * size);
  adj_cuda_result_destroy(result, NULL);
  must_be_mine();
}

static void check_count(const run *r) {
  const reference_rows *e = r->expected;
  uint32_t *degrees = calloc(e->rows + 1, sizeof *degrees);
  uint64_t total = 0;
  must(adj_cuda_range_count(r->ctx, &r->spec, r->left, r->right, NULL, degrees, &total));
  must_be_mine();
  assert_int_equal(total, e->offsets[e->rows]);
  for (uint64_t i = 0; i < e->rows; i++)
    assert_int_equal(degrees[i], e->offsets[i + 1] - e->offsets[i]);
  free(degrees);
}

static void check_case(adj_ctx *ctx, const join_case *c, uint32_t number) {
  join_answer answer;
  char *memory[2] = {NULL, NULL};
  adj_cuda_result *result = NULL;
  assert_true(answer_case(c, &answer));
  adj_cuda_points left = laid_out(&c->left, (layout)(number % LAYOUTS), &memory[0]), right = left;
  if (!c->self_join) right = laid_out(&c->right, (layout)((number + 1) % LAYOUTS), &memory[1]);
  run r = {ctx, c, case_spec(c), &answer.by_id, &left, c->self_join ? NULL : &right};
  r.spec.flags |= ADJ_WITH_DISTANCE;
  r.spec.order = number % 2 ? ADJ_ORDER_ID : ADJ_ORDER_DISTANCE;
  if (!c->k && r.spec.order == ADJ_ORDER_DISTANCE) r.expected = &answer.by_distance;
  must(call(&r, &result));
  check_result(&r, result);
  if (!c->k) check_count(&r);
  r.spec.algorithm = "kdtree"; /* not available for some metrics and dimensions */
  adj_status status = number % 2 ? call(&r, &result) : ADJ_E_UNSUPPORTED;
  if (!status) check_result(&r, result);
  assert_true(!status || status == ADJ_E_UNSUPPORTED);
  answer_free(&answer);
  free(memory[0]);
  free(memory[1]);
}

static void cases_on_a_device(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(2, 1, 0);
  for (uint32_t i = 0; i < case_count(); i += 3) {
    join_case c;
    assert_true(case_build(i, &c));
    if (c.quick) check_case(ctx, &c, i / 3);
    case_free(&c);
  }
  adj_cuda_times times;
  adj_cuda_times_init(&times, sizeof times);
  must(adj_cuda_last_times(ctx, &times));
  must_be_mine();
  assert_true(times.candidates > 0 && times.peak_bytes > 0 && times.count_s >= 0);
  assert_int_equal(adji_gpu_used(ctx->gpus[0]), 0);
  adj_ctx_destroy(ctx);
  must_be_mine();
}

static adj_cuda_points plane(const float *values, uint64_t count) {
  adj_cuda_points points;
  adj_cuda_points_init(&points, sizeof points);
  points.type = ADJ_F32;
  points.dim = 2;
  points.count = count;
  points.data = values;
  return points;
}

/* Errors name row and column, whichever step looks at them first. */
static void data_that_is_refused(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(1, 1, 0);
  adj_cuda_result *result = NULL;
  float values[] = {1, 2, 0, 0, 5, NAN};
  adj_cuda_points points = plane(values, 3);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 1;
  must_fail(ADJ_E_DATA, "row 3, column 2", adj_cuda_range_join(ctx, &spec, &points, NULL, NULL, &result));
  spec.metric = ADJ_COSINE;
  must_fail(ADJ_E_DATA, "row 3, column 2", adj_cuda_range_join(ctx, &spec, &points, NULL, NULL, &result));
  values[5] = 91;
  must_fail(ADJ_E_DATA, "row 2", adj_cuda_range_join(ctx, &spec, &points, NULL, NULL, &result));
  spec.metric = ADJ_HAVERSINE;
  must_fail(ADJ_E_DATA, "row 3, column 2: latitude 91",
            adj_cuda_range_join(ctx, &spec, &points, &points, NULL, &result));
  points.type = (adj_type)9;
  must_fail(ADJ_E_ARGUMENT, "type 9", adj_cuda_range_join(ctx, &spec, &points, NULL, NULL, &result));
  must_be_mine();
  assert_null(result);
  assert_int_equal(adji_gpu_used(ctx->gpus[0]), 0);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Every operation fails once. A memory limit that is too small is reported. */
static void failures_of_a_device(void **state) {
  (void)state;
  float values[200];
  for (int i = 0; i < 200; i++)
    values[i] = (float)(i * 37 % 101);
  for (int kind = 0; kind < 3; kind++) {
    join_case c = {.k = kind == 1 ? 4 : 0};
    adj_cuda_points points = plane(values, 100);
    adj_ctx *ctx = software_context(2, 1, 0);
    run r = {.ctx = ctx, .c = &c, .left = &points};
    adj_join_spec_init(&r.spec, sizeof r.spec);
    r.spec.radius = 20;
    r.spec.k = c.k;
    r.spec.metric = kind == 2 ? ADJ_COSINE : ADJ_L2;
    adji_gpu *gpu;
    adj_cuda_result *result = NULL;
    must(adji_gpu_of(ctx, &gpu));
    for (int64_t n = 0; !result; n++) {
      adji_gpu_fail_at(gpu, n);
      adj_status status = call(&r, &result);
      adji_gpu_fail_at(gpu, -1);
      assert_true(status == ADJ_E_DEVICE || (!status && result));
      if (status) assert_int_equal(adji_gpu_used(gpu), 0);
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
      assert_true(n < 1000);
    }
    adj_cuda_result_destroy(result, NULL);
    adj_ctx_destroy(ctx);
    r.ctx = software_context(2, 1, 900);
    result = NULL;
    must_fail(ADJ_E_DEVICE_MEMORY, "device", call(&r, &result));
    adj_ctx_destroy(r.ctx);
  }
}

/* ---- Selection ---------------------------------------------------------------------------------------- */

static void select_on_a_device(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(1, 1, 0);
  float values[] = {3, 1, NAN, 1, -0.0f, 0, 7, 2};
  uint32_t names[] = {10, 11, 12, 13}, columns[12], more[2];
  float found[12];
  adj_matrix matrix;
  adj_matrix_init(&matrix, sizeof matrix);
  matrix.type = ADJ_F32;
  matrix.rows = 2;
  matrix.columns = 4;
  matrix.values = values;
  must(adj_cuda_select_k(ctx, &matrix, 6, NULL, NULL, columns, found));
  must_be_mine();
  assert_memory_equal(columns, ((uint32_t[]){1, 3, 0, 2, ADJ_NO_ID, ADJ_NO_ID, 0, 1, 3, 2, ADJ_NO_ID, ADJ_NO_ID}),
                      sizeof columns);
  assert_true(found[2] == 3 && isnan(found[3]) && isinf(found[4]) && found[8] == 2);
  adj_cuda_select_options options;
  adj_cuda_select_options_init(&options, sizeof options);
  options.largest = 1;
  options.ids = names;
  must(adj_cuda_select_k(ctx, &matrix, 1, &options, NULL, more, NULL));
  assert_memory_equal(more, ((uint32_t[]){10, 12}), sizeof more);
  options.algorithm = "none";
  must_fail(ADJ_E_ARGUMENT, "no 'none'", adj_cuda_select_k(ctx, &matrix, 1, &options, NULL, more, NULL));
  adj_ctx_destroy(ctx);
}

/* ---- What the device is strict about ------------------------------------------------------------------- */

static void copies_come_late(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(1, 1, 0);
  adji_gpu *gpu;
  must(adji_gpu_of(ctx, &gpu));
  adji_gpu_lock(gpu);
  must(adji_staging_open(gpu, 2));
  uint64_t device[2] = {1, 2}, *host = adji_staging_at(gpu, 1);
  bool here = true;
  host[0] = 7;
  must(adji_staging_receive(gpu, 1, 0, device, 8));
  assert_true(host[0] != 7 && host[0] != 1); /* garbage */
  must(adji_staging_here(gpu, 1, &here));
  assert_true(!here && host[0] != 1);
  must(adji_staging_here(gpu, 1, &here));
  assert_true(here && host[0] == 1);
  must(adji_staging_send(gpu, 1, &device[1], 8));
  assert_int_equal(device[1], 2);
  host[0] = 5; /* too early: the copy gets the wrong value */
  must(adji_staging_wait(gpu, 1));
  assert_int_equal(device[1], 5);
  must(adji_staging_receive(gpu, 0, 0, device, 8));
  adji_gpu_quiesce(gpu);
  assert_int_equal(*(uint64_t *)adji_staging_at(gpu, 0), 1);
  adji_gpu_unlock(gpu);
  adj_ctx_destroy(ctx);
}

/* A thread takes two devices and releases them in any order. In the end its own device is current again. */
static void devices_that_are_current(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(1, 2, 0);
  adji_gpu *first, *second;
  must(adji_gpu_at(ctx, 0, &first));
  must(adji_gpu_at(ctx, 1, &second));
  must_be_mine();
  adji_gpu_lock(first);
  assert_int_equal(adji_kind_current(), 0);
  adji_gpu_lock(second);
  assert_int_equal(adji_kind_current(), 1);
  adji_gpu_unlock(first);
  adji_gpu_use(second);
  adji_gpu_unlock(second);
  must_be_mine();
  float value = 1;
  uint32_t column;
  adji_gpu_select job = {ADJ_F32, &value, 1, 1, 1, 1, false, true, NULL, &column, NULL, ADJI_SELECT_AUTO, {0}};
  must_fail(ADJ_E_INTERNAL, "device 77 is current", adji_gpu_select_rows(first, &job));
  adji_gpu_lock(second);
  must_fail(ADJ_E_INTERNAL, "device 1 is current", adji_gpu_select_rows(first, &job));
  must(adji_gpu_select_rows(second, &job));
  adji_gpu_unlock(second);
  adj_ctx_destroy(ctx);
  must_be_mine();
}

static int begin(void **state) {
  (void)state;
  adji_kind_make_current(MINE);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cases_on_a_device),    cmocka_unit_test(data_that_is_refused),
      cmocka_unit_test(failures_of_a_device), cmocka_unit_test(select_on_a_device),
      cmocka_unit_test(copies_come_late),     cmocka_unit_test(devices_that_are_current),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
