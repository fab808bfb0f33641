/* SPDX-License-Identifier: MIT
 *
 * The tiles of brute force on a GPU (gpu/brute/brute.h), tested without a GPU: every query meets every right point
 * exactly once, and no matrix is larger than its room. And the settings that name its parts.
 */
#include "gpu/brute/brute.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "plan/tuning.h"

static uint64_t state = 1;

/* A number up to `most`. Small and large magnitudes are equally frequent. */
static uint64_t random_up_to(uint64_t most) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t bits = state >> 33;
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t wide = (state >> 33) << 31 | bits;
  return wide >> bits % 62 > most ? most : wide >> bits % 62;
}

static void check_tile(uint64_t queries, uint64_t right, uint64_t k, uint64_t values) {
  adji_brute_tile tile = adji_brute_tile_of(queries, right, k, values);
  assert_true(tile.rows >= 1 && tile.rows <= queries);
  assert_true(tile.columns >= 1 && tile.columns <= right);
  assert_true(tile.stride >= tile.columns && tile.stride % ADJI_TILE_COLUMNS == 0);
  assert_true(tile.rows * tile.stride <= values);
  bool stretches = tile.columns < right;
  if (stretches) assert_true(tile.rows == 1 || tile.rows * k <= values);
  /* There are enough rows to keep blocks of threads busy, if the room allows it. */
  bool room = values / ADJI_TILE_COLUMNS >= ADJI_TILE_ROWS && values / k >= ADJI_TILE_ROWS;
  if (tile.rows < queries && room && k <= right / ADJI_LARGE_PART) assert_true(tile.rows >= ADJI_TILE_ROWS);
  if (tile.columns < right && tile.columns % ADJI_TILE_COLUMNS) fail_msg("%llu columns", (unsigned long long)right);
}

static void matrices_fit_their_room(void **user) {
  (void)user;
  check_tile(1, 1, 1, ADJI_TILE_COLUMNS);
  check_tile(1, UINT32_MAX, 5, ADJI_TILE_COLUMNS);
  check_tile(UINT32_MAX, 1, UINT32_MAX, ADJI_TILE_COLUMNS);
  check_tile(8192, 1000000, 32, UINT64_C(1) << 30);
  for (int i = 0; i < 200000; i++)
    check_tile(1 + random_up_to(UINT32_MAX), 1 + random_up_to(UINT32_MAX), 1 + random_up_to(UINT32_MAX),
               ADJI_TILE_COLUMNS + random_up_to(UINT64_C(1) << 34));
}

static void matrices_are_whole_where_they_can(void **user) {
  (void)user;
  adji_brute_tile tile = adji_brute_tile_of(8192, 1000000, 32, UINT64_C(1) << 34);
  assert_int_equal(tile.rows, 8192);
  assert_int_equal(tile.columns, 1000000);
  tile = adji_brute_tile_of(8192, 1000000, 32, UINT64_C(1) << 30); /* room for 1,073 rows */
  assert_int_equal(tile.rows, 1024);
  assert_int_equal(tile.columns, 1000000);
  tile = adji_brute_tile_of(8192, 100000000, 32, UINT64_C(1) << 30); /* room for 10 rows, which is too few */
  assert_int_equal(tile.rows, ADJI_TILE_ROWS);
  assert_true(tile.columns < 100000000);
  tile = adji_brute_tile_of(8192, 100000000, 30000000, UINT64_C(1) << 30); /* but not with so many neighbours */
  assert_int_equal(tile.rows, 10);
  assert_int_equal(tile.columns, 100000000);
  tile = adji_brute_tile_of(1, 100000000, 1, UINT64_C(1) << 30);
  assert_int_equal(tile.columns, 100000000);
  tile = adji_brute_tile_of(5, 0, 9, 4096);
  assert_int_equal(tile.rows, 5);
  assert_int_equal(tile.columns, 0);
}

static void matrices_shrink_to_the_least(void **user) {
  (void)user;
  assert_int_equal(adji_brute_values(UINT64_MAX, 4), UINT64_C(1) << 30);
  assert_int_equal(adji_brute_values(UINT64_C(1) << 30, 8), UINT64_C(1) << 25);
  assert_int_equal(adji_brute_values(0, 4), ADJI_LEAST_VALUES);
  uint64_t values = UINT64_C(3) * ADJI_LEAST_VALUES;
  assert_true(adji_brute_fewer_values(&values) && adji_brute_fewer_values(&values));
  assert_int_equal(values, ADJI_LEAST_VALUES);
  assert_false(adji_brute_fewer_values(&values));
}

static void pieces_are_about_equal(void **user) {
  (void)user;
  for (int i = 0; i < 100000; i++) {
    uint64_t count = random_up_to(UINT32_MAX), unit = (uint64_t)1 << random_up_to(8);
    uint64_t most = unit + random_up_to(UINT32_MAX), each = adji_equal_chunks(count, most, unit);
    assert_true(each <= most && each <= count);
    uint64_t pieces = each ? (count + each - 1) / each : 0;
    assert_int_equal(pieces, (count + most - 1) / most); /* no more pieces than necessary */
  }
}

static void settings_have_names(void **user) {
  (void)user;
  adji_tuning t;
  static const struct {
    const char *name;
    adji_select_algorithm algorithm;
  } selections[] = {{"short", ADJI_SELECT_SHORT},     {"bound", ADJI_SELECT_BOUND}, {"bits", ADJI_SELECT_BITS},
                    {"bitonic", ADJI_SELECT_BITONIC}, {"radix", ADJI_SELECT_RADIX}, {"sample", ADJI_SELECT_SAMPLE},
                    {"sort", ADJI_SELECT_SORT}};
  for (size_t i = 0; i < sizeof selections / sizeof *selections; i++) {
    char text[64];
    snprintf(text, sizeof text, "prefilter=%s,paper.select=%s", i % 2 ? "off" : "gemm", selections[i].name);
    must(adji_tuning_parse(text, &t));
    assert_int_equal(t.select, selections[i].algorithm);
  }
  must(adji_tuning_parse("prefilter=off,paper.distance=naive", &t));
  assert_int_equal(t.distance, ADJI_DISTANCE_NAIVE);
  must(adji_tuning_parse("prefilter=off,paper.distance=tiled", &t));
  assert_int_equal(t.distance, ADJI_DISTANCE_TILED);
  must(adji_tuning_parse("prefilter=off,paper.distance=register", &t));
  assert_int_equal(t.distance, ADJI_DISTANCE_REGISTER);
  must_fail(ADJ_E_ARGUMENT, "paper.distance= is for prefilter=off", adji_tuning_parse("paper.distance=naive", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.select= is for prefilter=off and prefilter=gemm",
            adji_tuning_parse("prefilter=tensor,paper.select=sort", &t));
  must(adji_tuning_parse("prefilter=tensor,test.skip=on", &t));
  must(adji_tuning_parse("prefilter=gemm,test.skip=off", &t));
  must_fail(ADJ_E_ARGUMENT, "test.skip=on is for prefilter=tensor",
            adji_tuning_parse("prefilter=gemm,test.skip=on", &t));
  must_fail(ADJ_E_ARGUMENT, "naive, tiled, register and fused", adji_tuning_parse("paper.distance=gemm", &t));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matrices_fit_their_room),      cmocka_unit_test(matrices_are_whole_where_they_can),
      cmocka_unit_test(matrices_shrink_to_the_least), cmocka_unit_test(pieces_are_about_equal),
      cmocka_unit_test(settings_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
