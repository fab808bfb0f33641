/* SPDX-License-Identifier: MIT
 *
 * Tests of the tests: compare_case must notice every kind of wrong result. The library's results are correct, so the
 * expected ones are changed: an id, one bit of a distance, the length of a row, the order of a row.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "compare.h"

static float coordinates[] = {0, 1, 2, 2.5F, 7, 7.25F, 20};

static join_case case_of(uint32_t k) {
  join_case c = {.self_join = true, .k = k, .radius = k ? INFINITY : 2, .metric = ADJ_L2};
  c.left = (point_set){ADJ_F32, 1, sizeof coordinates / sizeof *coordinates, coordinates};
  c.right = (point_set){.type = ADJ_F32, .dim = 1};
  return c;
}

static join_verdict compare(const join_case *c, const join_answer *answer, adj_order order, bool distances) {
  char message[256] = "";
  adj_ctx *ctx = context_of(2, NULL);
  join_setup setup = {.backend = ADJ_BACKEND_CPU, .order = order, .distances = distances};
  join_verdict verdict = compare_case(ctx, c, answer, &setup, message, sizeof message);
  if (verdict == JOIN_DIFFERS) assert_true(message[0] != 0);
  adj_ctx_destroy(ctx);
  return verdict;
}

/* Tries every order of every kind of join, with the answer changed by change(). */
static void every_order(void (*change)(reference_rows *rows), bool noticed_without_distances) {
  for (uint32_t k = 0; k <= 8; k += 2)
    for (int order = 0; order < 3; order++)
      for (int distances = 0; distances < 2; distances++) {
        join_case c = case_of(k);
        join_answer answer;
        assert_true(answer_case(&c, &answer));
        if (change) change(&answer.by_id);
        if (change && !k) change(&answer.by_distance);
        bool differs = change && (distances || noticed_without_distances);
        assert_int_equal(compare(&c, &answer, (adj_order)order, distances), differs ? JOIN_DIFFERS : JOIN_SAME);
        answer_free(&answer);
      }
}

static void a_true_result_is_the_same(void **state) {
  (void)state;
  every_order(NULL, true);
}

static void another_id(reference_rows *rows) {
  rows->ids[rows->offsets[1]] = 6;
}

static void the_same_id_twice(reference_rows *rows) {
  rows->ids[rows->offsets[1]] = rows->ids[rows->offsets[1] + 1];
}

static void one_bit_of_a_distance(reference_rows *rows) {
  float *distance = (float *)rows->distances + rows->offsets[2];
  *distance = nextafterf(*distance, 0);
}

static void a_longer_row(reference_rows *rows) {
  for (uint64_t row = 2; row < rows->rows; row++)
    rows->offsets[row]++;
}

static void wrong_results_are_noticed(void **state) {
  (void)state;
  every_order(another_id, true);
  every_order(the_same_id_twice, true);
  every_order(one_bit_of_a_distance, false);
  every_order(a_longer_row, true);
}

static void swap_entries(reference_rows *rows) {
  uint64_t at = rows->offsets[1];
  uint32_t id = rows->ids[at];
  float *distances = rows->distances, distance = distances[at];
  rows->ids[at] = rows->ids[at + 1];
  rows->ids[at + 1] = id;
  distances[at] = distances[at + 1];
  distances[at + 1] = distance;
}

/* Two entries swapped are wrong, unless any order is allowed. */
static void order_matters_where_it_is_asked_for(void **state) {
  (void)state;
  for (uint32_t k = 0; k <= 4; k += 2)
    for (int order = 0; order < 3; order++) {
      join_case c = case_of(k);
      join_answer answer;
      assert_true(answer_case(&c, &answer));
      swap_entries(&answer.by_id);
      if (!k) swap_entries(&answer.by_distance);
      bool any = order == ADJ_ORDER_ANY;
      assert_int_equal(compare(&c, &answer, (adj_order)order, true), any ? JOIN_SAME : JOIN_DIFFERS);
      answer_free(&answer);
    }
}

/* The padding of short kNN rows is compared as well. */
static void padding_is_compared(void **state) {
  (void)state;
  for (int order = 0; order < 3; order++) {
    join_case c = case_of(8);
    join_answer answer;
    assert_true(answer_case(&c, &answer));
    assert_int_equal(answer.by_id.ids[7], ADJ_NO_ID);
    ((float *)answer.by_id.distances)[7] = 0;
    assert_int_equal(compare(&c, &answer, (adj_order)order, true), JOIN_DIFFERS);
    answer_free(&answer);
  }
}

/* An unknown setting counts as refused, and the caller judges that. An unknown backend counts as different. */
static void refusals_are_told_apart(void **state) {
  (void)state;
  join_case c = case_of(0);
  join_answer answer;
  char message[256];
  assert_true(answer_case(&c, &answer));
  adj_ctx *ctx = context_of(1, NULL);
  join_setup setup = {.backend = ADJ_BACKEND_CPU, .tuning = "no_such_setting=1"};
  assert_int_equal(compare_case(ctx, &c, &answer, &setup, message, sizeof message), JOIN_REFUSED);
  setup = (join_setup){.backend = (adj_backend)99};
  assert_int_equal(compare_case(ctx, &c, &answer, &setup, message, sizeof message), JOIN_DIFFERS);
  setup = (join_setup){.backend = ADJ_BACKEND_GPU}; /* the context has no device */
  assert_int_equal(compare_case(ctx, &c, &answer, &setup, message, sizeof message), JOIN_REFUSED);
  adj_ctx_destroy(ctx);
  answer_free(&answer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_true_result_is_the_same),
      cmocka_unit_test(wrong_results_are_noticed),
      cmocka_unit_test(order_matters_where_it_is_asked_for),
      cmocka_unit_test(padding_is_compared),
      cmocka_unit_test(refusals_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
