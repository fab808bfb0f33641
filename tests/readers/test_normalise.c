/* SPDX-License-Identifier: MIT
 *
 * Points scaled to [0, 1] when they are read.
 */
#include "files.h"

static adj_dataset *open_scaled(adj_ctx *ctx, const char *text, adj_type type, const adj_dataset *like) {
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL;
  options.normalise = 1;
  options.normalise_like = like;
  options.type = type;
  must(open_text(ctx, "a.csv", text, &options, &set));
  return set;
}

/* Columns with several ranges, with a single value, with negative values, and with a range that overflows f64. */
static void columns_reach_from_0_to_1(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = open_scaled(ctx, "10,7,-4,-1e308\n20,7,-8,1e308\n12.5,7,-6,0\n", ADJ_F64, NULL);
  for (uint32_t j = 0; j < 4; j++) {
    double low = -1, high = -1;
    adj_dataset_bounds(set, j, &low, &high);
    assert_true(low == 0 && high == (j == 1 ? 0 : 1));
  }
  check_and_destroy(set, ADJ_F64, 3, 4, (double[]){0, 0, 1, 0, 1, 0, 0, 1, 0.25, 0, 0.5, 0.5});
  set = open_scaled(ctx, "0\n3\n1\n", ADJ_F32, NULL);
  check_and_destroy(set, ADJ_F32, 3, 1, (double[]){0, 1, (double)(float)(1.0 / 3)});
  set = open_scaled(ctx, "5,6\n", 0, NULL);
  check_and_destroy(set, ADJ_F64, 1, 2, (double[]){0, 0});
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Another set gets the same scale: its values may lie beyond 0 and 1, and beside the single value of a column. A copy
 * in another type has the scale too. */
static void two_sets_have_one_scale(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *right = open_scaled(ctx, "0,3\n10,3\n", ADJ_F32, NULL), *wide = NULL;
  adj_dataset *left = open_scaled(ctx, "5,3\n-10,4\n20,1\n", ADJ_F64, right);
  check_and_destroy(left, ADJ_F64, 3, 2, (double[]){0.5, 0, -1, 1, 2, -2});
  must(adj_dataset_convert(right, ADJ_F64, &wide));
  left = open_scaled(ctx, "15,3\n", ADJ_F64, wide);
  check_and_destroy(left, ADJ_F64, 1, 2, (double[]){1.5, 0});
  adj_dataset_destroy(wide);
  adj_dataset_destroy(right);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void what_is_refused(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_open_options options = open_defaults();
  adj_dataset *right = open_scaled(ctx, "0,3\n1e-30,3\n", ADJ_F32, NULL), *set = NULL, *plain = NULL;
  must(open_text(ctx, "a.csv", "1,2\n", &options, &plain));
  options.normalise_like = right;
  must_fail(ADJ_E_ARGUMENT, "normalise_like: is for normalise = 1", open_text(ctx, "a.csv", "1,2\n", &options, &set));
  options.normalise = 2;
  must_fail(ADJ_E_ARGUMENT, "normalise: 2 is neither", open_text(ctx, "a.csv", "1,2\n", &options, &set));
  options.normalise = 1;
  must_fail(ADJ_E_ARGUMENT, "normalise_like: has 2 columns", open_text(ctx, "a.csv", "1,2,3\n", &options, &set));
  options.type = ADJ_F32;
  must_fail(ADJ_E_DATA, "column 1: 1.00000002e+30 is too far outside",
            open_text(ctx, "a.csv", "1e30,2\n", &options, &set));
  options.normalise_like = plain;
  must_fail(ADJ_E_ARGUMENT, "is not a normalised set", open_text(ctx, "a.csv", "1,2\n", &options, &set));
  assert_null(set);
  adj_dataset_destroy(plain);
  adj_dataset_destroy(right);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(columns_reach_from_0_to_1),
      cmocka_unit_test(two_sets_have_one_scale),
      cmocka_unit_test(what_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
