/* SPDX-License-Identifier: MIT
 *
 * Counts of f64 through sums in f32, compared with the plain kernels: sums at the limit and within a few roundings of
 * f32 or f64 of it, lattices, points far from 0, queries far apart, limits too small and too large for f32.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "distance/count_narrow.h"
#include "distance/measure.h"
#include "entries.h"

enum { POINTS = 400, ROOM = POINTS + ADJI_PAD, MOST_QUERIES = 64, KINDS = 8, DIMS = ADJI_FEW_DIMS };

typedef struct work {
  double coords[DIMS * ROOM];
  uint32_t ids[ROOM];
  adji_view view;
  uint32_t queries[MOST_QUERIES];
  adji_range ranges[3];
  adji_measure measure;
  adji_task task;
} work;

static double unit_of(uint64_t *state) {
  return (double)(random_of(state) >> 11) * 0x1p-53;
}

/* Puts a point about one radius from point `near`. The sum is within some roundings of f32 or f64 of the limit. */
static void put_at_limit(work *w, uint32_t i, uint32_t near, double radius, uint64_t *state) {
  uint32_t dim = w->view.dim;
  double direction[DIMS], length = 0;
  for (uint32_t j = 0; j < dim; j++) {
    direction[j] = unit_of(state) - 0.5;
    length += direction[j] * direction[j];
  }
  double off = (double)(int)(random_of(state) % 9 - 4) * (random_of(state) % 2 ? 0x1p-24 : 0x1p-53);
  for (uint32_t j = 0; j < dim; j++)
    w->coords[j * ROOM + i] = w->coords[j * ROOM + near] + direction[j] / sqrt(length) * radius * (1 + off);
}

/* Returns the limit. */
static double make_points(work *w, int kind, uint64_t *state) {
  static const double scales[KINDS] = {1, 1, 1, 1, 1, 1e-30, 1e30, 1e-160};
  double scale = scales[kind], radius = 0.3 * scale, offset = kind == 3 ? 1e9 : 0, spread = kind == 4 ? 1e5 : 1;
  if (kind == 2) radius = 3;
  for (uint32_t i = 0; i < ROOM; i++)
    for (uint32_t j = 0; j < w->view.dim; j++) {
      double x = kind == 2 ? (double)(random_of(state) % 7) : scale * unit_of(state);
      w->coords[j * ROOM + i] = offset + x * (j ? 1 : spread);
    }
  for (uint32_t i = 1; i < POINTS && kind != 2 && kind != 0; i++)
    if (random_of(state) % 2) put_at_limit(w, i, (uint32_t)(random_of(state) % i), radius, state);
  return radius * radius;
}

/* Three ranges, and queries one after the other or with gaps. */
static void make_task(work *w, double limit, bool forward, uint64_t *state) {
  uint32_t many = 0, most = 1 + (uint32_t)(random_of(state) % MOST_QUERIES), at = 0;
  uint64_t gap = 1 + random_of(state) % 3;
  for (int r = 0; r < 3; r++) {
    uint32_t begin = at + (uint32_t)(random_of(state) % 40);
    at = begin + (uint32_t)(random_of(state) % 100);
    w->ranges[r] = (adji_range){begin, at};
  }
  for (uint64_t p = random_of(state) % POINTS; p < POINTS && many < most; p += 1 + random_of(state) % gap)
    w->queries[many++] = (uint32_t)p;
  w->task = (adji_task){&w->view, &w->view, w->queries, w->ranges, many, 3, limit, forward, &w->measure, NULL};
}

static uint32_t wide_queries; /* queries that were left to the f64 kernels */

static void count_wide(const adji_task *task, uint32_t *counts) {
  wide_queries += task->query_count;
  adji_kernels_scalar.typed[1]->count[ADJI_STEP_L2](task, counts);
}

static void check(work *w, adji_count_narrow_fn count, bool mirrored) {
  uint32_t wanted[MOST_QUERIES], found[MOST_QUERIES];
  uint8_t both[2][POINTS + 64];
  memset(both, 3, sizeof both);
  for (uint32_t k = 0; k < MOST_QUERIES; k++)
    wanted[k] = found[k] = 5;
  if (mirrored) w->task.mirrored = both[0];
  adji_kernels_scalar.typed[1]->count[ADJI_STEP_L2](&w->task, wanted);
  if (mirrored) w->task.mirrored = both[1];
  count(&w->task, count_wide, found);
  assert_memory_equal(found, wanted, sizeof found);
  assert_memory_equal(both[0], both[1], sizeof *both);
}

static void counts_are_canonical(void **state) {
  (void)state;
  static work w;
  uint64_t random = 5;
  w.measure = (adji_measure){.step = ADJI_STEP_L2, .report = ADJI_REPORT_ROOT};
  for (uint32_t i = 0; adj_isa_name(i); i++)
    for (int round = 0; round < 4000; round++) {
      int kind = round % KINDS;
      uint32_t dim = 3 + (uint32_t)(round / KINDS) % 4;
      adji_count_narrow_fn count = adji_count_narrow_for(adj_isa_name(i), &w.measure, dim);
      if (!count) break;
      w.view = (adji_view){w.coords, ROOM, w.ids, dim, POINTS};
      double limit = make_points(&w, kind, &random);
      wide_queries = 0;
      make_task(&w, limit, round % 2, &random);
      check(&w, count, round % 4 == 1);
      if (kind <= 2) assert_true(wide_queries <= 8); /* a last few, if any */
      if (kind >= 5) assert_int_equal(wide_queries, w.task.query_count);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_canonical)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
