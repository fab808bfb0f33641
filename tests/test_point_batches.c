/* SPDX-License-Identifier: MIT
 *
 * LBJoin's batches of queries (gpu/worker/range_batches.c) on a software device: how many batches there are, batches
 * that do not fit their room, streams, windows of a stream, little memory, failures.
 */
#include "software/scene.h"

#define LBJOIN "paper.access=lid-unicomp,paper.order=workqueue"

/* Compares the result with that of the cores. Returns the statistics. */
static adj_stats check(const scene *s) {
  adj_join_spec spec = spec_of(s->problem, ADJ_BACKEND_GPU);
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  must(adj_plan_create(s->ctx, &spec, s->left, s->right, &plan));
  must(adj_collect(plan, &result, &s->control, &stats));
  must_be_same(s, result);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  return stats;
}

static adj_stats check_problem(const problem *p, uint64_t limit) {
  adj_ctx *ctx = software_context(2, 1, limit);
  scene s = open_scene(ctx, p);
  adj_stats stats = check(&s);
  close_scene(&s);
  adj_ctx_destroy(ctx);
  return stats;
}

static void batches_are_cut(void **state) {
  (void)state;
  problem p = {"unif", 600, 2, 0, .radius = 0.2, .order = ADJ_ORDER_ID, .tuning = LBJOIN};
  enum { PASSES = 2 };                                        /* each pass counts as a batch, too */
  assert_int_equal(check_problem(&p, 0).batches, 3 + PASSES); /* at least one for each stream */
  p.tuning = LBJOIN ",paper.streams=5";
  assert_int_equal(check_problem(&p, 0).batches, 5 + PASSES);
  p.tuning = "paper.access=full,paper.batch_size=1000,paper.streams=1,paper.sample_part=1";
  adj_stats whole = check_problem(&p, 0);
  assert_true(whole.batches >= (whole.pairs + 999) / 1000);
  p.tuning = "paper.access=full,device_batch=8000,paper.streams=1,paper.sample_part=1";
  assert_true(check_problem(&p, 0).batches >= (whole.pairs + 999) / 1000);
}

/* The first queries in the device's order have fewer neighbours than the others, so the sample misleads. */
static void batches_are_redone(void **state) {
  (void)state;
  static const char *const tunings[] = {LBJOIN ",paper.batch_size=400,paper.sample_part=0.001",
                                        "paper.access=unicomp,paper.batch_size=400,paper.sample_part=0.001",
                                        ("paper.access=full,paper.order=workqueue,paper.batch_size=400,"
                                         "paper.sample_part=0.001,paper.streams=2")};
  uint64_t redone = 0;
  for (int i = 0; i < 3; i++) {
    problem p = {"expo", 700, 2, 0, .radius = 0.004, .flags = ADJ_WITH_DISTANCE, .tuning = tunings[i]};
    for (p.order = ADJ_ORDER_ID; p.order <= ADJ_ORDER_DISTANCE; p.order++)
      redone += check_problem(&p, 0).batches_redone;
  }
  assert_true(redone > 0);
}

static void every_style(void **state) {
  (void)state;
  static const uint32_t flags[] = {0, ADJ_WITH_DISTANCE, ADJ_ONE_WAY, ADJ_ONE_WAY | ADJ_WITH_DISTANCE};
  for (int i = 0; i < 4; i++) {
    problem p = {"unif", 500, 3, 0, .radius = 0.2, .flags = flags[i], .tuning = LBJOIN ",paper.batch_size=3000"};
    for (p.order = ADJ_ORDER_ID; p.order <= ADJ_ORDER_DISTANCE; p.order++)
      check_problem(&p, 0);
  }
  problem two = {"unif", 500, 3, 0, .radius = 0.2, .two_sets = true, .tuning = "paper.access=full"};
  two.order = ADJ_ORDER_DISTANCE;
  check_problem(&two, 0);
}

/* Counts the slots of all launches. The software device reports half of the lanes as busy when it counts, and three of
 * four in batches. */
static void efficiency_is_of_all_passes(void **state) {
  (void)state;
  problem p = {"unif", 400, 2, 0, .radius = 0.1, .order = ADJ_ORDER_ID, .tuning = LBJOIN};
  double efficiency = check_problem(&p, 0).warp_efficiency;
  assert_true(efficiency > 0.51 && efficiency < 0.74);
}

static void with_little_memory(void **state) {
  (void)state;
  problem p = {"unif", 600, 2, 0, .radius = 0.3, .order = ADJ_ORDER_ID, .tuning = LBJOIN};
  adj_stats all = check_problem(&p, 0);
  assert_true(check_problem(&p, 200000).batches > all.batches);
}

/* ---- Windows -------------------------------------------------------------------------------------------- */

typedef struct gathered {
  const scene *scene;
  uint64_t rows, pairs;
} gathered;

static adj_status compare_rows(void *user, const adj_rows *rows) {
  gathered *g = user;
  const adj_result *expected = g->scene->expected;
  const uint64_t *offsets = adj_result_offsets(expected);
  for (uint64_t i = 0; i < rows->row_count; i++) {
    uint64_t row = rows->first_row + i, length = rows->offsets[i + 1] - rows->offsets[i];
    assert_int_equal(length, offsets[row + 1] - offsets[row]);
    assert_memory_equal(rows->ids + (rows->offsets[i] - rows->offsets[0]), adj_result_ids(expected) + offsets[row],
                        length * sizeof(uint32_t));
    g->pairs += length;
  }
  g->rows += rows->row_count;
  return ADJ_OK;
}

static void windows_of_a_stream(void **state) {
  (void)state;
  static const char *const tunings[] = {LBJOIN ",buffer=20000",
                                        "paper.access=full,paper.order=sortbywl,buffer=20000,paper.streams=2"};
  for (int i = 0; i < 2; i++) {
    problem p = {"unif", 600, 2, 0, .radius = 0.2, .order = ADJ_ORDER_ID, .tuning = tunings[i]};
    adj_ctx *ctx = software_context(2, 1, 0);
    scene s = open_scene(ctx, &p);
    adj_join_spec spec = spec_of(&p, ADJ_BACKEND_GPU);
    adj_plan *plan = NULL;
    gathered g = {.scene = &s};
    must(adj_plan_create(ctx, &spec, s.left, s.right, &plan));
    adj_sink sink;
    adj_sink_init(&sink, sizeof sink);
    sink.user = &g;
    sink.write = compare_rows;
    must(adj_stream(plan, &sink, &s.control, NULL));
    assert_int_equal(g.rows, 600);
    assert_int_equal(g.pairs, adj_result_pairs(s.expected));
    adj_plan_destroy(plan);
    close_scene(&s);
    adj_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_are_cut),    cmocka_unit_test(batches_are_redone),
      cmocka_unit_test(every_style),        cmocka_unit_test(efficiency_is_of_all_passes),
      cmocka_unit_test(with_little_memory), cmocka_unit_test(windows_of_a_stream),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
