/* SPDX-License-Identifier: MIT
 *
 * The queue of HEGJoin (cpu/range_queue.c): estimated results and positions; and joins that are shared through it, with
 * a software device.
 */
#include "cpu/range_queue.h"
#include "software/scene.h"

enum { QUERIES = 12, EACH = 5 };

/* The example of the paper's figure 4: counts of three queries, and estimates for the others. */
static void results_are_inferred(void **state) {
  (void)state;
  static const double expected[] = {30 + 30 + 30 + 30 + 20 + 5, 22 * 5 + 5, 22 * 2 + 2};
  adj_ctx *ctx = context_of(1, NULL);
  uint32_t counts[] = {30, 20, 22}, rows[QUERIES], ids[QUERIES];
  for (uint32_t i = 0; i < QUERIES; i++) {
    rows[i] = i * 5 % QUERIES;
    ids[i] = i * 7 % QUERIES;
  }
  adji_range_queue q = {.count = QUERIES, .rows = rows, .counts = counts, .samples = 3, .step = 4};
  adji_queue queue;
  must(adji_range_queue_fill(ctx, &q, EACH, &queue));
  assert_int_equal(queue.count, 3);
  double sum = 0;
  for (int i = 0; i < 3; i++) {
    assert_true(queue.batches[i].work == expected[i]);
    sum += expected[i];
  }
  assert_true(adji_range_queue_results(&q) == sum);
  adji_queue_clear(&queue);

  must(adji_range_queue_map(ctx, ids, EACH, &q));
  bool met[QUERIES] = {false};
  for (uint32_t i = 0; i < QUERIES; i++) {
    uint32_t batch = i / EACH, position = q.positions[i];
    assert_true(i % EACH == 0 || q.positions[i - 1] < position);
    bool mine = false; /* one of the batch's rows */
    for (uint32_t k = batch * EACH; k < QUERIES && k < (batch + 1) * EACH; k++)
      mine = mine || rows[k] == ids[position];
    assert_true(mine && !met[position]);
    met[position] = true;
  }
  uint32_t runs[] = {4, 5, 7, 8, 9};
  adji_range_queue r = {.positions = runs};
  assert_int_equal(adji_range_queue_run(&r, 0, 5), 2);
  assert_int_equal(adji_range_queue_run(&r, 2, 5), 5);
  assert_int_equal(adji_range_queue_run(&r, 2, 4), 4);
  adji_free(&ctx->memory, q.positions);
  adj_ctx_destroy(ctx);
}

/* The whole system: cores and a device take part. If there is little for the cores, the device takes at least
 * 2 x streams batches. */
static void the_system_shares(void **state) {
  (void)state;
  for (int two_sets = 0; two_sets < 2; two_sets++) {
    problem p = {"unif", 3000, 2, 0, .radius = 0.03, .order = ADJ_ORDER_ID, .two_sets = two_sets};
    adj_ctx *ctx = software_context(2, 1, 0);
    scene s = open_scene(ctx, &p);
    adj_join_spec spec = spec_of(&p, ADJ_BACKEND_HYBRID);
    spec.system = "hegjoin";
    spec.tuning = "batch=32";
    adj_plan *plan = NULL;
    adj_result *result = NULL;
    adj_stats stats;
    adj_stats_init(&stats, sizeof stats);
    must(adj_plan_create(ctx, &spec, s.left, s.right, &plan));
    must(adj_collect(plan, &result, &s.control, &stats));
    must_be_same(&s, result);
    assert_int_equal(stats.worker_count, 2);
    assert_true(work_of(plan, &stats).by_devices > 0);
    char text[8192];
    size_t needed;
    must(adj_plan_explain(plan, text, sizeof text, &needed));
    assert_non_null(strstr(text, "most candidates"));
    adj_result_destroy(result);
    adj_plan_destroy(plan);
    close_scene(&s);
    adj_ctx_destroy(ctx);
  }
}

static void settings_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *tuning, *message;
    adj_status status;
  } bad[] = {
      {"share=results", "share=results is for paper.access=full only", ADJ_E_ARGUMENT},
      {"paper.access=full,paper.order=workqueue", "paper.order= of a hybrid join is for share=results", ADJ_E_ARGUMENT},
      {"paper.access=full,paper.batch_size=9", "paper.batch_size= of a hybrid join", ADJ_E_ARGUMENT},
      {"paper.access=lid-unicomp", "paper.access=lid-unicomp is for a GPU that does a join alone", ADJ_E_UNSUPPORTED},
      {"share=results,paper.access=full,paper.streams=5", "paper.streams=5: beside cores", ADJ_E_UNSUPPORTED}};
  adj_ctx *ctx = software_context(1, 1, 0);
  adj_dataset *set = some_points(ctx, "unif", 300, 2, 1);
  for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
    problem p = {.radius = 0.1, .tuning = bad[i].tuning};
    adj_join_spec spec = spec_of(&p, ADJ_BACKEND_HYBRID);
    adj_plan *plan = NULL;
    must_fail(bad[i].status, bad[i].message, adj_plan_create(ctx, &spec, set, NULL, &plan));
  }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_are_inferred),
      cmocka_unit_test(the_system_shares),
      cmocka_unit_test(settings_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
