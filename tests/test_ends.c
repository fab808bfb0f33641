/* SPDX-License-Identifier: MIT
 *
 * Where the axes of a device's grid end: before the few points of a thin tail, never before a heap of them.
 */
#include <math.h>

#include "check.h"
#include "plan/choose.h"

enum { SAMPLE = 1024 };
static const double SLAB =
    0.0025; /* of exponential points with 10 neighbours, in means of their distance to the edge */
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
    assert_true(ends[j].low == 0); /* where the points are */
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
  adji_choose_ends(ends, 2, SAMPLE, SAMPLE * UINT64_C(40000), ROOM); /* a row stands for too many points */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tail),
      cmocka_unit_test(test_room),
      cmocka_unit_test(test_even),
      cmocka_unit_test(test_heap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
