/* SPDX-License-Identifier: MIT
 *
 * Range joins in many dimensions on cores: candidates in copied panels, tiles of which many pairs pass the prefilter of
 * codes, queries with more dimensions than a kernel copies. Every algorithm, with and without single evaluation, is
 * compared with the reference: counted, collected and streamed.
 */
#include <stdio.h>

#include "check.h"
#include "compare.h"

typedef struct shape {
  case_builder build;
  uint32_t dim, left, right;
  adj_metric metric;
} shape;

static const shape SHAPES[] = {{build_uniform, 16, 500, SELF, ADJ_L2},  {build_uniform, 40, 400, SELF, ADJ_L2},
                               {build_uniform, 40, 300, 400, ADJ_L2},   {build_duplicates, 24, 400, SELF, ADJ_L2},
                               {build_uniform, 200, 300, SELF, ADJ_L2}, {build_uniform, 1100, 150, SELF, ADJ_L2},
                               {build_uniform, 33, 300, SELF, ADJ_L1},  {build_uniform, 64, 300, SELF, ADJ_COSINE},
                               {build_clumps, 18, 400, SELF, ADJ_L2}};

/* From few pairs to nearly all, so that the prefilter pauses nowhere, in some places, or everywhere. */
static const double SHARES[] = {-0.002, -0.06, -0.97};

static const char *const ALGORITHMS[] = {NULL, "grid", "ego", "brute"};
static const char *const TUNINGS[] = {
    NULL, "single=on", "single=off", "staged=on", "prefilter=codes,single=on", "prefilter=codes,single=off,batch=100"};

static void compare_all(adj_ctx *ctx, const join_case *c) {
  join_answer answer;
  assert_true(answer_case(c, &answer));
  for (size_t a = 0; a < sizeof ALGORITHMS / sizeof *ALGORITHMS; a++)
    for (size_t t = 0; t < sizeof TUNINGS / sizeof *TUNINGS; t++) {
      join_setup setup = {.backend = ADJ_BACKEND_CPU,
                          .algorithm = ALGORITHMS[a],
                          .tuning = TUNINGS[t],
                          .order = t % 2 ? ADJ_ORDER_ID : ADJ_ORDER_DISTANCE,
                          .distances = t % 2};
      char message[256] = "";
      if (compare_case(ctx, c, &answer, &setup, message, sizeof message) == JOIN_DIFFERS)
        fail_msg("%s, %s, %s: %s", c->name, ALGORITHMS[a] ? ALGORITHMS[a] : "auto", TUNINGS[t] ? TUNINGS[t] : "",
                 message);
    }
  answer_free(&answer);
}

static void run_type(adj_type type) {
  adj_ctx *ctx = context_of(3, NULL);
  for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
    for (size_t r = 0; r < sizeof SHARES / sizeof *SHARES; r++) {
      case_entry entry = {.name = "panel",
                          .build = SHAPES[s].build,
                          .dim = SHAPES[s].dim,
                          .left = SHAPES[s].left,
                          .right = SHAPES[s].right,
                          .radius = SHARES[r],
                          .metric = SHAPES[s].metric};
      join_case c;
      assert_true(case_build_entry(&entry, type, s * 10 + r + 1, &c));
      snprintf(c.name, sizeof c.name, "%u x %u, metric %d, share %g", entry.left, entry.dim, (int)entry.metric,
               -SHARES[r]);
      compare_all(ctx, &c);
      case_free(&c);
    }
  adj_ctx_destroy(ctx);
}

static void test_f32(void **state) {
  (void)state;
  run_type(ADJ_F32);
}

static void test_f64(void **state) {
  (void)state;
  run_type(ADJ_F64);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_f64)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
