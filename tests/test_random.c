/* SPDX-License-Identifier: MIT
 *
 * Random joins against the reference: kind, builder, type, metric, dimension, sizes, radius, k, flags,
 * order, algorithm, instruction set, threads and settings are all drawn. Each join has a seed of its own,
 * which a failure prints; ADJOIN_SEED repeats it first, or draws others. ADJOIN_SECONDS: how long to go on (20).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "machine.h"

static const case_builder BUILDERS[] = {
    build_uniform,   build_uniform,   build_uniform,    build_equal,  build_duplicates, build_lattice,
    build_triangles, build_ulps,      build_ulps,       build_ulps,   build_tiny,       build_cell_edges,
    build_outlier,   build_large_box, build_cell_edges, build_line,   build_clumps,     build_zeros,
    build_clusters,  build_clusters,  build_flat,       build_uneven, build_huge,       build_same_sets,
};

/* Random numbers apart from those of the points. */
typedef struct dice {
  join_case state;
} dice;

static uint64_t below(dice *d, uint64_t limit) {
  return case_random(&d->state) % limit;
}

/* Log-uniform between low and high. */
static double spread(dice *d, double low, double high) {
  return low * pow(high / low, case_random_unit(&d->state));
}

static uint32_t random_dim(dice *d) {
  switch (below(d, 4)) {
    case 0:
      return 1 + (uint32_t)below(d, 4);
    case 1:
      return 1 + (uint32_t)below(d, 8);
    case 2:
      return 1 + (uint32_t)below(d, 32);
    default:
      return 1 + (uint32_t)below(d, 128);
  }
}

/* Mostly small, never more work than the reference does in a fraction of a second. */
static uint32_t random_count(dice *d, uint32_t dim) {
  double most = fmin(3000, sqrt((below(d, 10) ? 3e6 : 2e7) / dim));
  if (below(d, 20) == 0) return (uint32_t)below(d, 3);
  return (uint32_t)spread(d, 1, most);
}

/* Builders that place points by the radius. */
static bool needs_radius(const case_entry *e) {
  return e->build == build_ulps || e->build == build_cell_edges || e->build == build_clumps;
}

/* Another metric, or a box, where the builder's points are fit for it. */
static void vary_metric(dice *d, case_entry *e) {
  static const double exponents[] = {1, 1.0000001, 1.5, 2, 2.5, 3, 5, 16, 17, 100, INFINITY};
  switch (below(d, 6)) {
    case 0:
      e->metric = ADJ_LP;
      e->p = below(d, 2) ? exponents[below(d, sizeof exponents / sizeof *exponents)] : spread(d, 1, 50);
      break;
    case 1:
      e->metric = ADJ_COSINE;
      if (e->radius > 0) e->radius = spread(d, 1e-9, 2.5);
      if (below(d, 2)) e->build = build_directions;
      break;
    case 2:
      e->metric = ADJ_DOT;
      if (below(d, 3) == 0) e->build = build_directions;
      if (e->radius > 0) e->radius = below(d, 2) ? -spread(d, 1e-3, 0.9) : 2 * case_random_unit(&d->state);
      break;
    case 3:
      e->metric = ADJ_HAVERSINE;
      e->dim = 2;
      e->build = below(d, 2) ? build_globe : build_poles;
      e->scale = spread(d, 1e-6, 10);
      e->angle = (adj_angle)below(d, 2);
      e->unit = (adj_unit)below(d, 3);
      if (e->radius > 0) e->radius = -spread(d, 1e-4, 0.5);
      break;
    default:
      e->box = below(d, 2) ? 1 : spread(d, 1e-3, 1e3);
      e->uneven_box = below(d, 3) == 0;
      if (below(d, 2)) e->build = build_faces;
      if (e->radius > 0) e->radius = e->box * spread(d, 1e-3, 0.7);
      if (below(d, 3) == 0) e->metric = ADJ_LP;
      e->p = below(d, 2) ? 3 : spread(d, 1, 5);
  }
}

static case_entry random_entry(dice *d) {
  case_entry e = {.name = "random"};
  e.build = BUILDERS[below(d, sizeof BUILDERS / sizeof *BUILDERS)];
  e.dim = random_dim(d);
  e.left = random_count(d, e.dim);
  e.right = below(d, 3) ? SELF : random_count(d, e.dim);
  e.metric = below(d, 2) ? ADJ_L2 : (adj_metric)(1 + below(d, 3));
  if (e.right == SELF) e.flags = below(d, 3) ? 0 : below(d, 2) ? ADJ_WITH_SELF : ADJ_ONE_WAY;
  e.radius = below(d, 10) == 0 ? 0 : -spread(d, 1e-4, 0.5);
  if (needs_radius(&e) || below(d, 4) == 0) e.radius = spread(d, 1e-3, 2) * sqrt(e.dim);
  if (e.build == build_tiny) e.radius = (double)below(d, 60);
  if (e.build == build_huge) e.radius = spread(d, 1e-3, 1.5);
  if (e.build == build_line || e.build == build_huge || e.build == build_tiny)
    e.scale = e.build == build_line ? (double)below(d, 3) : below(d, 2) ? 0.5 : 0;
  else
    e.scale = below(d, 3) ? 0 : spread(d, 1e-3, 1e3);
  e.offset = below(d, 3) ? 0 : (below(d, 2) ? 1 : -1) * spread(d, 1e-3, 1e6);
  if (below(d, 2)) vary_metric(d, &e);
  return e;
}

/* Turns the entry into a kNN join: with any k up to more than there are points, and mostly without a
 * bound, unless the builder lives on one. */
static void make_nearest(dice *d, case_entry *e) {
  uint32_t others = e->right == SELF ? e->left : e->right;
  e->k = (uint32_t)spread(d, 1, others + 10.0);
  if (below(d, 4) == 0 && others) e->k = others + (uint32_t)below(d, 3);
  if (e->flags & ADJ_ONE_WAY) e->flags = 0;
  if (!needs_radius(e) && below(d, 3)) e->radius = INFINITY;
}

static join_setup random_setup(dice *d, const join_case *c) {
  join_setup setup = {.backend = ADJ_BACKEND_CPU};
  const char *const *algorithms;
  int algorithm_count = algorithms_for(c, &algorithms);
  setup.algorithm = algorithms[below(d, (uint64_t)algorithm_count)];
  const char *const *tunings;
  int tuning_count = tunings_for(c, &tunings);
  setup.tuning = below(d, 2) ? NULL : tunings[below(d, (uint64_t)tuning_count)];
  setup.order = (adj_order)below(d, 3);
  setup.distances = below(d, 2);
  return setup;
}

static bool one_join(const machine *m, uint64_t seed, uint64_t *pairs) {
  dice d = {.state = {.random = seed}};
  case_entry entry = random_entry(&d);
  if (below(&d, 2)) make_nearest(&d, &entry);
  join_case c;
  assert_true(case_build_entry(&entry, below(&d, 2) ? ADJ_F64 : ADJ_F32, seed ^ 0x5555, &c));
  join_answer answer;
  assert_true(answer_case(&c, &answer));
  *pairs += answer.by_id.offsets[answer.by_id.rows];
  bool fine = true;
  for (int again = 0; fine && again < 4; again++) {
    join_setup setup = random_setup(&d, &c);
    adj_ctx *ctx = m->contexts[below(&d, (uint64_t)m->context_count)];
    char message[512];
    join_verdict verdict = compare_case(ctx, &c, &answer, &setup, message, sizeof message);
    if (verdict == JOIN_REFUSED && setup.tuning) { /* which this case cannot have */
      setup.tuning = NULL;
      verdict = compare_case(ctx, &c, &answer, &setup, message, sizeof message);
    }
    fine = verdict != JOIN_DIFFERS;
    if (!fine) print_failure(&c, ctx, &setup, message);
  }
  if (!fine) print_message("ADJOIN_SEED=%llu repeats it\n", (unsigned long long)seed);
  answer_free(&answer);
  case_free(&c);
  return fine;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void random_joins_are_right(void **state) {
  (void)state;
  const char *given = getenv("ADJOIN_SEED"), *how_long = getenv("ADJOIN_SECONDS");
  uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
  double seconds = how_long ? strtod(how_long, NULL) : 20;
  print_message("ADJOIN_SEED=%llu\n", (unsigned long long)seed);
  machine m;
  machine_start(&m);
  uint64_t joins = 0, wrong = 0, pairs = 0;
  for (double begin = now(); wrong < 5 && now() - begin < seconds; joins++)
    wrong += !one_join(&m, seed + joins, &pairs);
  print_message("%llu random joins, %llu pairs, %llu wrong\n", (unsigned long long)joins, (unsigned long long)pairs,
                (unsigned long long)wrong);
  assert_int_equal(wrong, 0);
  assert_true(joins > 0);
  machine_stop(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_joins_are_right)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
