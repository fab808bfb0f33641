/* SPDX-License-Identifier: MIT
 *
 * Where the axes of a grid end. Every grid leaves out outliers. The grid of a device also leaves out the few points of
 * a thin tail, but never a dense group.
 */
#include <math.h>

#include "check.h"
#include "index/extent.h"
#include "plan/choose.h"

enum { SAMPLE = 1024 };
static const double SLAB =
    0.0025; /* for exponential points with 10 neighbours, in units of their mean distance from the edge */
static const uint64_t POINTS = 2000000, ROOM = 4000000;

static double values[2][SAMPLE];

static double next(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(*state >> 11) * 0x1p-53;
}

static void make_ends(adji_ends *ends) {
  for (int j = 0; j < 2; j++)
    ends[j] = (adji_ends){values[j], SLAB, 0, 14.5};
}

static void draw_exponential(void) {
  uint64_t state = 1;
  for (int j = 0; j < 2; j++)
    for (int i = 0; i < SAMPLE; i++)
      values[j][i] = -log(1 - next(&state));
}

static void test_tail(void **state) {
  (void)state;
  adji_ends ends[2];
  draw_exponential();
  make_ends(ends);
  adji_choose_ends(ends, 2, SAMPLE, POINTS, ROOM);
  double cells = 1;
  for (int j = 0; j < 2; j++) {
    int beyond = 0;
    for (int i = 0; i < SAMPLE; i++)
      beyond += values[j][i] > ends[j].high;
    assert_true(ends[j].low == 0); /* the dense end stays */
    assert_true(ends[j].high < 7 && beyond <= SAMPLE / 64);
    cells *= ends[j].high / SLAB + 1;
  }
  assert_true(cells <= (double)ROOM);
}

static void test_room(void **state) {
  (void)state;
  adji_ends ends[2];
  draw_exponential();
  make_ends(ends);
  adji_choose_ends(ends, 2, SAMPLE, POINTS, 40 * POINTS); /* enough */
  assert_true(ends[0].high == 14.5 && ends[1].high == 14.5);
  adji_choose_ends(ends, 2, SAMPLE, SAMPLE * UINT64_C(40000), ROOM); /* a sampled row stands for too many points */
  assert_true(ends[0].high == 14.5 && ends[1].high == 14.5);
}

static void test_even(void **state) {
  (void)state;
  adji_ends ends[2];
  uint64_t random = 1;
  for (int j = 0; j < 2; j++)
    for (int i = 0; i < SAMPLE; i++)
      values[j][i] = 14.5 * next(&random);
  make_ends(ends);
  adji_choose_ends(ends, 2, SAMPLE, POINTS, ROOM);
  assert_true(ends[0].low == 0 && ends[0].high == 14.5 && ends[1].low == 0 && ends[1].high == 14.5);
}

static void test_heap(void **state) {
  (void)state;
  adji_ends ends[2];
  draw_exponential();
  for (int j = 0; j < 2; j++)
    for (size_t i = 0; i < 6; i++)
      values[j][100 * i] = 13 + (double)i * 1e-3;
  make_ends(ends);
  adji_choose_ends(ends, 2, SAMPLE, POINTS, ROOM);
  for (int j = 0; j < 2; j++) {
    int beyond = 0;
    for (size_t i = 0; i < 6; i++)
      beyond += values[j][100 * i] > ends[j].high;
    assert_true(beyond <= 3);
  }
}

/* Outliers at both ends are trimmed. Thin tails and large groups are not. */
static void test_outliers(void **state) {
  (void)state;
  uint64_t random = 1;
  double *x = values[0], low = -1e30, high = 1e6;
  for (int i = 0; i < SAMPLE; i++)
    x[i] = next(&random);
  adji_trim_extent(x, SAMPLE, 4, &low, &high);
  assert_true(low > -0.1 && low < 0.01 && high > 0.99 && high < 1.1);
  low = 0;
  high = 1;
  adji_trim_extent(x, SAMPLE, 4, &low, &high);
  assert_true(low == 0 && high == 1); /* no point is far from the others */
  x[100] = x[200] = low = -9999;
  x[300] = high = 1e30;
  adji_trim_extent(x, SAMPLE, 4, &low, &high);
  assert_true(low > -0.1 && high < 1.1);
  low = -9999;
  high = 1e30;
  adji_trim_extent(x, SAMPLE, 1, &low, &high); /* one may go at each end, but two are low */
  assert_true(low == -9999 && high < 1e4);
  draw_exponential();
  low = 0;
  high = 14.5;
  adji_trim_extent(x, SAMPLE, ADJI_MOST_OUTLIERS, &low, &high);
  assert_true(low == 0 && high == 14.5);
}

static void test_few_values(void **state) {
  (void)state;
  double x[3] = {1, 2, 3}, low = -1e9, high = 1e9;
  adji_trim_extent(x, 3, 1, &low, &high); /* too few points to tell what is far */
  assert_true(low == -1e9 && high == 1e9);
  adji_trim_extent(x, 3, 0, &low, &high);
  assert_true(low > 0 && high < 4);
  double same[5] = {7, 7, 7, 7, 7};
  low = -1e9;
  high = 1e9;
  adji_trim_extent(same, 5, 1, &low, &high);
  assert_true(low == 7 && high == 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tail), cmocka_unit_test(test_room),     cmocka_unit_test(test_even),
      cmocka_unit_test(test_heap), cmocka_unit_test(test_outliers), cmocka_unit_test(test_few_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
