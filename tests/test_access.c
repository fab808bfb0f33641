/* SPDX-License-Identifier: MIT
 *
 * The access patterns of the GPU kernels that work by point (gpu/papers/access.h): every pair of neighbouring cells is
 * visited once, or twice with full access. And the settings that ask for these patterns.
 */
#include <stdlib.h>

#include "check.h"
#include "gpu/papers/access.h"
#include "plan/tuning.h"

enum { MOST_CELLS = 3300 };

/* ---- Patterns ------------------------------------------------------------------------------------------- */

/* A grid without points: slabs and strides. */
static adji_grid grid_of(uint32_t axes, uint32_t reach) {
  static const uint64_t slabs[] = {3, 3, 2, 2, 2, 2};
  adji_grid grid = {.axis_count = axes};
  for (uint32_t a = 0; a < axes; a++) {
    grid.axes[a].slabs = slabs[a];
    grid.axes[a].reach = 1;
  }
  if (axes) {
    grid.axes[axes - 1].slabs = 7; /* more slabs than are within reach */
    grid.axes[axes - 1].reach = reach;
  }
  adji_grid_finish(&grid);
  return grid;
}

static adji_strides strides_of(const adji_grid *grid) {
  adji_strides strides = {.axes = grid->axis_count};
  for (uint32_t a = 0; a < grid->axis_count; a++)
    strides.each[a] = grid->axes[a].stride;
  return strides;
}

/* The slabs of cell `number`. Returns false if this number belongs to no cell. */
static bool slabs_of(const adji_grid *grid, uint64_t number, int64_t *slabs) {
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    slabs[a] = (int64_t)(number / grid->axes[a].stride);
    number %= grid->axes[a].stride;
    if (slabs[a] >= (int64_t)grid->axes[a].slabs) return false;
  }
  return true;
}

/* Counts in met[other] how often cell `number` is compared with each other cell. Visits rows of cells, and their cells
 * one by one, as a kernel does. */
static void visit(const adji_grid *grid, adji_access access, uint64_t number, uint8_t *met, uint64_t keys) {
  adji_strides strides = strides_of(grid);
  uint32_t odd = adji_odd_slabs(&strides, number), rows = 1, axes = grid->axis_count;
  int64_t reach = axes ? grid->axes[axes - 1].reach : 0;
  for (uint32_t a = 1; a < axes; a++)
    rows *= 3;
  for (uint32_t row = 0; row < rows; row++) {
    if (!adji_access_visits_row(access, row, rows, odd)) continue;
    int64_t step = 0;
    for (uint32_t a = axes - 1, rest = row; axes && a-- > 0; rest /= 3)
      step += ((int64_t)(rest % 3) - 1) * (int64_t)grid->axes[a].stride;
    for (int64_t along = -reach; along <= reach; along++) {
      int64_t other = (int64_t)number + step + along;
      if (other >= 0 && other < (int64_t)keys) met[other]++;
    }
  }
  for (int64_t along = -reach; along <= reach && adji_access_mirrors(access); along++) {
    int64_t other = (int64_t)number + along;
    if (!adji_access_visits_cell(access, along, axes && odd >> (axes - 1) & 1)) continue;
    if (other >= 0 && other < (int64_t)keys) met[other]++;
  }
}

static bool neighbours(const adji_grid *grid, const int64_t *a, const int64_t *b) {
  for (uint32_t i = 0; i < grid->axis_count; i++)
    if (llabs(a[i] - b[i]) > (int64_t)grid->axes[i].reach) return false;
  return true;
}

static void check_pattern(uint32_t axes, uint32_t reach, adji_access access) {
  static uint8_t met[MOST_CELLS][MOST_CELLS];
  adji_grid grid = grid_of(axes, reach);
  uint64_t keys = axes ? grid.axes[0].slabs * grid.axes[0].stride : 1;
  assert_true(keys <= MOST_CELLS);
  int64_t one[ADJI_MAX_AXES], other[ADJI_MAX_AXES];
  for (uint64_t i = 0; i < keys; i++) {
    memset(met[i], 0, keys * sizeof **met);
    if (slabs_of(&grid, i, one)) visit(&grid, access, i, met[i], keys);
  }
  for (uint64_t i = 0; i < keys; i++) {
    if (!slabs_of(&grid, i, one)) continue;
    for (uint64_t j = i; j < keys; j++) {
      if (!slabs_of(&grid, j, other)) continue;
      bool near = neighbours(&grid, one, other);
      uint32_t often = i == j ? met[i][i] : met[i][j] + met[j][i];
      uint32_t wanted = !near ? 0 : i == j || adji_access_mirrors(access) ? 1 : 2;
      if (often != wanted)
        fail_msg("%u axes, access %d: cells %d and %d meet %u times", axes, (int)access, (int)i, (int)j, often);
    }
  }
}

static void pairs_of_cells_meet_once(void **state) {
  (void)state;
  for (uint32_t axes = 0; axes <= 6; axes++) {
    uint32_t reach = axes > 0;
    check_pattern(axes, reach, ADJI_ACCESS_FULL);
    check_pattern(axes, reach, ADJI_ACCESS_UNICOMP);
    check_pattern(axes, reach, ADJI_ACCESS_LID_UNICOMP);
    if (axes) check_pattern(axes, 3, ADJI_ACCESS_LID_UNICOMP);
  }
}

/* ---- Settings ------------------------------------------------------------------------------------------- */

static void settings_are_taken(void **state) {
  (void)state;
  adji_tuning t;
  must(
      adji_tuning_parse("paper.access=lid-unicomp,paper.order=workqueue,paper.point_threads=32,paper.shortc=on,"
                        "paper.sortidu=off,paper.reorder=on,paper.streams=4,paper.batch_size=5000,"
                        "paper.sample_part=0.02",
                        &t));
  assert_int_equal(t.paper_streams, 4);
  assert_int_equal(t.batch_size, 5000);
  assert_true(t.sample_part > 0.019 && t.sample_part < 0.021);
  assert_int_equal(t.access, ADJI_ACCESS_LID_UNICOMP);
  assert_int_equal(t.order, ADJI_WORK_QUEUE);
  assert_int_equal(t.point_threads, 6);
  assert_int_equal(t.shortc, ADJI_ON);
  assert_int_equal(t.sortidu, ADJI_OFF);
  assert_int_equal(t.reorder, ADJI_ON);
  must(adji_tuning_parse("paper.order=sortbywl,paper.access=full", &t));
  assert_int_equal(t.access, ADJI_ACCESS_FULL);
  assert_int_equal(t.order, ADJI_WORK_SORTED);
  must(adji_tuning_parse("paper.access=tiles,single=on,fine=4", &t));
  must(adji_tuning_parse("paper.access=lid-unicomp,fine=4", &t));
  must(adji_tuning_parse("", &t));
  assert_int_equal(t.access, 0);
}

static void settings_are_refused(void **state) {
  (void)state;
  adji_tuning t;
  must_fail(ADJ_E_ARGUMENT, "\"paper.access=half\": is none of tiles, full, unicomp and lid-unicomp",
            adji_tuning_parse("paper.access=half", &t));
  must_fail(ADJ_E_ARGUMENT, "is none of none, sortbywl and workqueue",
            adji_tuning_parse("paper.access=full,paper.order=up", &t));
  must_fail(ADJ_E_ARGUMENT, "\"paper.point_threads=3\": is none of 1, 2, 4, 8, 16 and 32",
            adji_tuning_parse("paper.access=full,paper.point_threads=3", &t));
  must_fail(ADJ_E_ARGUMENT, "\"single=maybe\": is neither on nor off", adji_tuning_parse("single=maybe", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.order= is for paper.access=full", adji_tuning_parse("paper.order=none", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.point_threads= is for",
            adji_tuning_parse("paper.access=tiles,paper.point_threads=2", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.shortc= is for", adji_tuning_parse("paper.shortc=on", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.sortidu= is for", adji_tuning_parse("paper.sortidu=on", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.streams= is for", adji_tuning_parse("paper.streams=2", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.batch_size= is for", adji_tuning_parse("paper.batch_size=2", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.sample_part= is for", adji_tuning_parse("paper.sample_part=0.5", &t));
  must_fail(ADJ_E_ARGUMENT, "test.streams= is for", adji_tuning_parse("paper.access=full,test.streams=2", &t));
  must_fail(ADJ_E_ARGUMENT, "is no whole number from 1 to 8",
            adji_tuning_parse("paper.access=full,paper.streams=9", &t));
  must_fail(ADJ_E_ARGUMENT, "single=on", adji_tuning_parse("single=on,paper.access=full", &t));
  must_fail(ADJ_E_ARGUMENT, "fine=2", adji_tuning_parse("fine=2,paper.access=unicomp", &t));
}

/* Joins that an access pattern does not fit are refused before a device is looked for. */
static void joins_are_refused(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = uniform(ctx, 500, 2), *other = uniform(ctx, 400, 2);
  adj_plan *plan = NULL;
  static const double box[] = {1, 1};
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 0.02;
  spec.backend = ADJ_BACKEND_GPU;
  spec.tuning = "paper.access=unicomp";
  must_fail(ADJ_E_UNSUPPORTED, "paper.access=unicomp is for points with themselves",
            adj_plan_create(ctx, &spec, set, other, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "GPU", adj_plan_create(ctx, &spec, set, NULL, &plan)); /* the context has no GPU */
  spec.tuning = "paper.access=full";
  must_fail(ADJ_E_UNSUPPORTED, "GPU", adj_plan_create(ctx, &spec, set, other, &plan));
  spec.box = box;
  spec.box_count = 2;
  must_fail(ADJ_E_UNSUPPORTED, "GPU", adj_plan_create(ctx, &spec, set, NULL, &plan));
  spec.tuning = "paper.access=lid-unicomp";
  must_fail(ADJ_E_UNSUPPORTED, "paper.access=lid-unicomp: in a periodic box",
            adj_plan_create(ctx, &spec, set, NULL, &plan));
  spec.tuning = "paper.access=full,paper.sortidu=on";
  must_fail(ADJ_E_UNSUPPORTED, "paper.sortidu=on is for", adj_plan_create(ctx, &spec, set, NULL, &plan));
  assert_null(plan);
  adj_dataset_destroy(other);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pairs_of_cells_meet_once),
      cmocka_unit_test(settings_are_taken),
      cmocka_unit_test(settings_are_refused),
      cmocka_unit_test(joins_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
