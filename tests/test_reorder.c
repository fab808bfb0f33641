/* SPDX-License-Identifier: MIT
 *
 * GPU-Join's REORDER (gpu/papers/reorder.h): sums in another order of dimensions never drop a pair that belongs. And
 * the choice of the number of indexed dimensions by memory operations.
 */
#include <stdlib.h>

#include "check.h"
#include "gpu/papers/reorder.h"
#include "plan/choose.h"

enum { MOST_DIM = 200, ROUNDS = 4000 };

static uint64_t state_of_random = 1;

static double uniform_number(void) {
  state_of_random = state_of_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(state_of_random >> 11) * 0x1p-53;
}

static float sum_f32(const float *t, const uint32_t *order, uint32_t count, bool squares) {
  float s = 0;
  for (uint32_t i = 0; i < count; i++)
    s = squares ? fmaf(t[order[i]], t[order[i]], s) : s + fabsf(t[order[i]]);
  return s;
}

static double sum_f64(const double *t, const uint32_t *order, uint32_t count, bool squares) {
  double s = 0;
  for (uint32_t i = 0; i < count; i++)
    s = squares ? fma(t[order[i]], t[order[i]], s) : s + fabs(t[order[i]]);
  return s;
}

/* Sums of differences of very different sizes, down to denormal squares, in two orders. The limit is the canonical sum
 * itself, so the pair belongs, and no sum of some of its terms may exceed the limit of the prefilter. */
static void check_round(uint32_t dim, bool squares) {
  float narrow[MOST_DIM];
  double wide[MOST_DIM];
  uint32_t plain[MOST_DIM], order[MOST_DIM];
  double spread = floor(uniform_number() * 4), shift = uniform_number() < 0.3 ? -70 : 0;
  for (uint32_t j = 0; j < dim; j++) {
    wide[j] = (uniform_number() - 0.5) * exp2(shift - spread * 8 * uniform_number());
    narrow[j] = (float)wide[j];
    if (shift < 0) wide[j] = ldexp(wide[j], -460);
    plain[j] = order[j] = j;
  }
  for (uint32_t j = dim; j > 1; j--) {
    uint32_t k = (uint32_t)(uniform_number() * j), other = order[k];
    order[k] = order[j - 1];
    order[j - 1] = other;
  }
  float limit = sum_f32(narrow, plain, dim, squares);
  double limit_wide = sum_f64(wide, plain, dim, squares);
  uint32_t some = 1 + (uint32_t)(uniform_number() * dim);
  if (some > dim) some = dim;
  double most = adji_reordered_limit(ADJ_F32, (double)limit, dim);
  assert_true(most > (double)limit && (double)(float)most == most);
  assert_true((double)sum_f32(narrow, order, dim, squares) <= most);
  assert_true((double)sum_f32(narrow, order, some, squares) <= most);
  double most_wide = adji_reordered_limit(ADJ_F64, limit_wide, dim);
  assert_true(most_wide > limit_wide);
  assert_true(sum_f64(wide, order, dim, squares) <= most_wide);
  assert_true(sum_f64(wide, order, some, squares) <= most_wide);
}

static void nothing_that_belongs_is_dropped(void **state) {
  (void)state;
  for (int i = 0; i < ROUNDS; i++)
    check_round(1 + (uint32_t)(uniform_number() * (i % 4 ? 20 : MOST_DIM - 1)), i % 2);
}

/* The prefilter is useful: it drops pairs that are a little too far apart. It gives up if nothing is proven. */
static void the_limit_is_close(void **state) {
  (void)state;
  assert_true(adji_reordered_limit(ADJ_F32, 1, 90) < 1 + 1e-4);
  assert_true(adji_reordered_limit(ADJ_F64, 1, 90) < 1 + 1e-12);
  assert_true(adji_reordered_limit(ADJ_F32, 0, 3) > 0);
  assert_true(isinf(adji_reordered_limit(ADJ_F32, (double)FLT_MAX, 3)));
  assert_true(isinf(adji_reordered_limit(ADJ_F64, DBL_MAX, 3)));
  assert_true(isinf(adji_reordered_limit(ADJ_F32, 1, 1u << 20)));
}

static void fewest_operations_are_chosen(void **state) {
  (void)state;
  adji_grid_choice choice = {.memory_count = 4};
  static const double search[] = {0, 1, 3, 9, 27}, compare[] = {0, 100, 30, 10, 9};
  for (int k = 1; k <= 4; k++)
    choice.memory[k] = (adji_memory_operations){search[k], compare[k], 0};
  assert_int_equal(adji_fewest_memory_operations(&choice), 3);
  choice.memory_count = 2;
  assert_int_equal(adji_fewest_memory_operations(&choice), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_that_belongs_is_dropped),
      cmocka_unit_test(the_limit_is_close),
      cmocka_unit_test(fewest_operations_are_chosen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
