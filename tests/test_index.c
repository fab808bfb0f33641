/* SPDX-License-Identifier: MIT
 *
 * Kept indexes: every case of the list on an index, with one radius for all queries and with a radius for each; single
 * queries; many queries that share nodes of the tree; what is built and what is reused; many threads; wrong use.
 *
 *   test_index [--quick] [PART PARTS]
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine.h"
#include "running.h"

static struct {
  bool quick;
  uint32_t part, parts;
} asked = {false, 0, 1};

/* ---- Whole answers ---------------------------------------------------------------------------------------------- */

static void run_case(machine *m, const join_case *c, uint32_t number) {
  join_answer answer, apart;
  assert_true(answer_case(c, &answer));
  const char *const *algorithms;
  int count = algorithms_for(c, &algorithms);
  const char *algorithm = algorithms[number % (uint32_t)count];
  join_setup setup = {.backend = number % 4 ? ADJ_BACKEND_CPU : ADJ_BACKEND_AUTO, .kept = true};
  setup.order = (adj_order)(number % 3);
  setup.distances = number / 3 % 2;
  machine_compare(m, context_at(m, number), c, &answer, &setup);
  setup.algorithm = algorithm;
  if (algorithm) machine_compare(m, context_at(m, number * 5 + 1), c, &answer, &setup);
  join_case own = *c;
  own.radii = case_radii(c, &answer);
  assert_non_null(own.radii);
  assert_true(answer_case(&own, &apart));
  for (int kept = 0; kept < 2; kept++) {
    setup.kept = kept;
    setup.algorithm = NULL;
    machine_compare(m, context_at(m, number * 3 + 2), &own, &apart, &setup);
    setup.algorithm = algorithms[(number / 3 + (uint32_t)kept) % (uint32_t)count];
    machine_compare(m, context_at(m, number * 7 + 3), &own, &apart, &setup);
  }
  setup.kept = false;
  setup.algorithm = NULL;
  setup.backend = ADJ_BACKEND_REFERENCE;
  if (c->quick && number % 4 == 0) machine_compare(m, context_at(m, number), &own, &apart, &setup);
  free(own.radii);
  answer_free(&apart);
  answer_free(&answer);
}

static void every_case_is_answered(void **state) {
  (void)state;
  machine m;
  machine_start(&m);
  for (uint32_t i = asked.part; i < case_count(); i += asked.parts) {
    join_case c;
    if (asked.quick && i % 3) continue;
    assert_true(case_build(i, &c));
    if (c.quick || !asked.quick) run_case(&m, &c, i);
    case_free(&c);
  }
  machine_stop(&m);
}

/* ---- Single queries ---------------------------------------------------------------------------------------------- */

static adj_dataset *set_from(adj_ctx *ctx, const point_set *from) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = from->type;
  points.dim = from->dim;
  points.count = from->count;
  points.data = from->data;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &points, &set));
  return set;
}

static adj_index *index_of(adj_ctx *ctx, const join_case *c, const adj_dataset *set) {
  adj_index_options options;
  adj_index_options_init(&options, sizeof options);
  options.metric = c->metric;
  options.p = c->p;
  options.angle = c->angle;
  options.unit = c->unit;
  options.box = c->box;
  options.box_count = c->box_count;
  adj_index *index = NULL;
  must(adj_index_create(ctx, &options, set, &index));
  return index;
}

/* Asks for the row of a single left point. */
static void ask_row(adj_index *index, const join_case *c, const reference_rows *rows, uint64_t i) {
  uint64_t at = rows->offsets[i], length = rows->offsets[i + 1] - at;
  size_t size = type_size(c->left.type);
  uint32_t room = c->k ? c->k : (uint32_t)length + 1, found = 77;
  uint32_t *ids = calloc(room, sizeof *ids);
  char *distances = calloc(room, size);
  const void *point = row_of(&c->left, i);
  if (c->k) {
    must(adj_index_nearest(index, point, c->k, ids, distances, &found));
    uint32_t there = 0;
    while (there < c->k && rows->ids[at + there] != ADJ_NO_ID)
      there++;
    assert_int_equal(found, there);
  } else {
    must(adj_index_within(index, point, c->radius, room, ids, distances, &found));
    assert_int_equal(found, length);
  }
  assert_memory_equal(ids, rows->ids + at, length * sizeof *ids);
  assert_memory_equal(distances, (const char *)rows->distances + at * size, length * size);
  if (!c->k) { /* also in parts, and only counted */
    memset(ids, 0xee, room * sizeof *ids);
    must(adj_index_within(index, point, c->radius, (uint32_t)length / 2, ids, NULL, &found));
    assert_int_equal(found, length);
    assert_memory_equal(ids, rows->ids + at, length / 2 * sizeof *ids);
    assert_int_equal(ids[length / 2], 0xeeeeeeee);
    must(adj_index_within(index, point, c->radius, 0, NULL, NULL, &found));
    assert_int_equal(found, length);
  }
  free(ids);
  free(distances);
}

/* A point that is asked for as a single query finds itself. */
static void single_queries_have_the_rows_of_joins(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (uint32_t n = asked.part; n < case_count(); n += asked.parts) {
    join_case c;
    if (asked.quick && n % 5) continue;
    assert_true(case_build(n, &c));
    join_case alone = c;
    alone.flags = c.self_join ? ADJ_WITH_SELF : 0;
    join_answer answer;
    if (c.quick && (!c.k || isinf(c.radius)) && c.k < 2000 && c.left.count < 5000) {
      assert_true(answer_case(&alone, &answer));
      adj_dataset *set = set_from(ctx, c.self_join ? &c.left : &c.right);
      adj_index *index = index_of(ctx, &c, set);
      for (uint64_t i = 0; i < c.left.count; i += 1 + c.left.count / 40)
        ask_row(index, &alone, &answer.by_id, i);
      adj_index_destroy(index);
      adj_dataset_destroy(set);
      answer_free(&answer);
    }
    case_free(&c);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- What is built ---------------------------------------------------------------------------------------------- */

static adj_question range_question(double radius) {
  adj_question question;
  adj_question_init(&question, sizeof question);
  question.kind = ADJ_RANGE;
  question.radius = radius;
  return question;
}

static adj_question nearest_question(uint32_t k) {
  adj_question question;
  adj_question_init(&question, sizeof question);
  question.k = k;
  return question;
}

static void explain_says(adj_plan *plan, const char *word) {
  char text[4096];
  must(adj_plan_explain(plan, text, sizeof text, NULL));
  if (!strstr(text, word)) fail_msg("\"%s\" does not say \"%s\"", text, word);
}

static uint64_t ask_says(adj_index *index, adj_question question, const adj_dataset *left, const char *word) {
  adj_plan *plan = NULL;
  uint64_t total = 0;
  must(adj_index_plan(index, &question, left, &plan));
  explain_says(plan, word);
  must(adj_count(plan, NULL, &total, NULL, NULL));
  adj_plan_destroy(plan);
  return total;
}

static void structures_are_built_once(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 20000, 3), *few = uniform(ctx, 50, 3);
  adj_index *index = NULL;
  must(adj_index_create(ctx, NULL, set, &index));
  ask_says(index, nearest_question(3), few, "kd-tree reused");
  ask_says(index, nearest_question(100), NULL, "kd-tree reused");
  ask_says(index, range_question(0.05), few, "kd-tree reused");
  uint64_t wide = ask_says(index, range_question(0.05), NULL, "grid built");
  assert_int_equal(ask_says(index, range_question(0.05), NULL, "grid reused"), wide);
  uint64_t less = ask_says(index, range_question(0.045), NULL, "grid reused"); /* a grid serves a smaller radius */
  assert_true(less < wide);
  ask_says(index, range_question(0.01), NULL, "grid built"); /* but not a much smaller one */
  ask_says(index, range_question(0.051), NULL, "grid built");
  adj_question question = range_question(0.045);
  question.algorithm = "kdtree";
  assert_int_equal(ask_says(index, question, NULL, "kd-tree reused"), less);
  adj_index_destroy(index);
  adj_dataset_destroy(few);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Grids for many radii do not fit at once, so unused ones are dropped. */
static void grids_are_dropped_for_want_of_memory(void **state) {
  (void)state;
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  options.device_count = 0;
  options.memory_limit = 16 << 20;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  adj_dataset *set = uniform(ctx, 100000, 3);
  adj_index *index = NULL;
  must(adj_index_create(ctx, NULL, set, &index));
  adj_question first = range_question(0.02);
  adj_plan *used = NULL;
  uint64_t total = 0, again = 0;
  must(adj_index_plan(index, &first, NULL, &used));
  must(adj_count(used, NULL, &total, NULL, NULL));
  for (int i = 1; i < 12; i++)
    ask_says(index, range_question(0.02 / pow(1.5, i)), NULL, "grid built");
  must(adj_count(used, NULL, &again, NULL, NULL)); /* this grid is in use and stays */
  assert_int_equal(total, again);
  ask_says(index, first, NULL, "grid reused");
  ask_says(index, range_question(0.02 / 1.5), NULL, "grid built"); /* the grid was dropped */
  adj_plan_destroy(used);
  adj_index_destroy(index);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Many queries ------------------------------------------------------------------------------------------------ */

/* Enough queries that consecutive ones share nodes and guesses, but few enough to be searched one by one. */
enum { MANY_POINTS = 6000, MANY_QUERIES = 700 };

static adj_dataset *generated(adj_ctx *ctx, const char *name, adj_type type, uint32_t dim, uint64_t count,
                              uint64_t seed) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = name;
  options.type = type;
  options.dim = dim;
  options.count = count;
  options.seed = seed;
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &options, &set));
  return set;
}

static adj_result *ask(adj_index *index, adj_question question, const char *algorithm, const adj_dataset *left) {
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  question.algorithm = algorithm;
  question.flags = ADJ_WITH_DISTANCE;
  must(adj_index_plan(index, &question, left, &plan));
  must(adj_collect(plan, &result, NULL, NULL));
  adj_plan_destroy(plan);
  return result;
}

static void compare_with_brute(adj_index *index, adj_question question, const adj_dataset *left, size_t size) {
  adj_result *tree = ask(index, question, NULL, left), *brute = ask(index, question, "brute", left);
  uint64_t rows = adj_result_rows(tree), entries = adj_result_offsets(tree)[rows];
  assert_memory_equal(adj_result_offsets(tree), adj_result_offsets(brute), (rows + 1) * sizeof(uint64_t));
  if (entries) {
    assert_memory_equal(adj_result_ids(tree), adj_result_ids(brute), entries * sizeof(uint32_t));
    assert_memory_equal(adj_result_distances(tree), adj_result_distances(brute), entries * size);
  }
  adj_result_destroy(tree);
  adj_result_destroy(brute);
}

/* A radius with a few neighbours: the distance of the fifth neighbour of a query. */
static double some_radius(adj_index *index, const adj_dataset *left) {
  double row[8], distances[8];
  uint32_t ids[5];
  must(adj_dataset_row(left, 0, row));
  must(adj_index_nearest(index, row, 5, ids, distances, NULL));
  return adj_dataset_type(left) == ADJ_F64 ? distances[4] : (double)((float *)distances)[4];
}

static void compare_queries(adj_ctx *ctx, const char *name, adj_type type, uint32_t dim) {
  static const uint32_t ks[] = {1, 3, 8, 16, 40};
  adj_dataset *set = generated(ctx, name, type, dim, MANY_POINTS, 1);
  adj_dataset *left = generated(ctx, name, type, dim, MANY_QUERIES, 2);
  size_t size = type == ADJ_F64 ? 8 : 4;
  adj_index *index = NULL;
  must(adj_index_create(ctx, NULL, set, &index));
  double radius = some_radius(index, left);
  for (uint32_t i = 0; i < sizeof ks / sizeof *ks; i++) {
    adj_question question = nearest_question(ks[i]);
    compare_with_brute(index, question, left, size);
    question.radius = radius;
    compare_with_brute(index, question, left, size);
  }
  for (int quarters = 0; quarters <= 12; quarters += 3)
    compare_with_brute(index, range_question(quarters * 0.25 * radius), left, size);
  adj_index_destroy(index);
  adj_dataset_destroy(left);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
}

/* Lattices have many ties. The spreads of clusters make guesses fail. */
static void many_queries_have_the_rows_of_brute_force(void **state) {
  (void)state;
  static const char *const names[] = {"unif", "clusters", "lattice", "scales", "repeats"};
  for (uint32_t i = 0; adj_isa_name(i); i++) {
    adj_ctx *ctx = context_of(2, adj_isa_name(i));
    for (uint32_t n = 0; n < sizeof names / sizeof *names; n++) {
      if (asked.quick && (n + i) % 5) continue;
      compare_queries(ctx, names[n], ADJ_F32, 2 + n % 3);
      compare_queries(ctx, names[n], ADJ_F64, 3 + n % 5);
    }
    adj_ctx_destroy(ctx);
  }
}

/* ---- Threads ---------------------------------------------------------------------------------------------------- */

enum { ASKERS = 4, ASKED = 12 };

typedef struct asker {
  adj_ctx *ctx;
  adj_index *index;
  const adj_dataset *left;
  uint64_t nearest, within[2][3]; /* expected digests, for the points themselves and for the left set */
  uint32_t number;
  int wrong;
} asker;

static uint64_t digest_of(const adj_result *result) {
  uint64_t sum = 14695981039346656037u;
  const uint64_t *offsets = adj_result_offsets(result);
  for (uint64_t i = 0; i < offsets[adj_result_rows(result)]; i++)
    sum = (sum ^ adj_result_ids(result)[i]) * UINT64_C(0x100000001b3);
  return sum;
}

static uint64_t ask_digest(adj_index *index, adj_question question, const adj_dataset *left) {
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  uint64_t digest = 0;
  if (!adj_index_plan(index, &question, left, &plan) && !adj_collect(plan, &result, NULL, &stats) &&
      stats.pairs == adj_result_pairs(result))
    digest = digest_of(result);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  return digest;
}

static const double RADII[] = {0.02, 0.035, 0.06};

/* Every thread stops one of its own questions, and no other. */
static int stop(void *user, const adj_progress *where) {
  (void)user;
  (void)where;
  return 1;
}

static void stop_one(asker *a) {
  adj_plan *plan = NULL;
  adj_question question = range_question(RADII[a->number % 3]);
  adj_run_control control = control_of();
  control.progress = stop;
  a->wrong += adj_index_plan(a->index, &question, NULL, &plan) != ADJ_OK;
  a->wrong += plan && adj_count(plan, NULL, NULL, &control, NULL) != ADJ_CANCELLED;
  adj_plan_destroy(plan);
}

static void *ask_often(void *user) {
  asker *a = user;
  float point[3];
  uint32_t ids[5], other[64], found, many;
  for (uint32_t i = 0; i < ASKED; i++) {
    uint32_t turn = i + a->number;
    a->wrong += ask_digest(a->index, nearest_question(7), a->left) != a->nearest;
    bool apart = turn / 3 % 2;
    a->wrong +=
        ask_digest(a->index, range_question(RADII[turn % 3]), apart ? a->left : NULL) != a->within[apart][turn % 3];
    a->wrong += adj_dataset_row(a->left, turn, point) != ADJ_OK;
    a->wrong += adj_index_nearest(a->index, point, 5, ids, NULL, &found) != ADJ_OK || found != 5;
    a->wrong += adj_index_within(a->index, point, 0.06, 64, other, NULL, &many) != ADJ_OK;
    if (i == a->number) stop_one(a);
  }
  return NULL;
}

static void threads_ask_one_index(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 3000, 3), *left = uniform(ctx, 300, 3);
  adj_index *index = NULL;
  must(adj_index_create(ctx, NULL, set, &index));
  asker expected = {.ctx = ctx, .left = left, .nearest = ask_digest(index, nearest_question(7), left)};
  for (int r = 0; r < 3; r++) {
    expected.within[0][r] = ask_digest(index, range_question(RADII[r]), NULL);
    expected.within[1][r] = ask_digest(index, range_question(RADII[r]), left);
    assert_true(expected.within[0][r] && expected.within[1][r]);
  }
  adj_index_destroy(index);
  must(adj_index_create(ctx, NULL, set, &expected.index)); /* nothing but a tree is built yet */
  asker askers[ASKERS];
  pthread_t threads[ASKERS];
  for (uint32_t t = 0; t < ASKERS; t++) {
    askers[t] = expected;
    askers[t].number = t;
    assert_int_equal(pthread_create(&threads[t], NULL, ask_often, &askers[t]), 0);
  }
  int wrong = 0;
  for (uint32_t t = 0; t < ASKERS; t++) {
    pthread_join(threads[t], NULL);
    wrong += askers[t].wrong;
  }
  assert_int_equal(wrong, 0);
  adj_index_destroy(expected.index);
  adj_dataset_destroy(left);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Wrong use --------------------------------------------------------------------------------------------------- */

static void refuse_plan(adj_index *index, adj_question question, const adj_dataset *left, adj_status status,
                        const char *word) {
  adj_plan *untouched = (adj_plan *)index, *plan = untouched;
  must_fail(status, word, adj_index_plan(index, &question, left, &plan));
  assert_ptr_equal(plan, untouched);
}

static void wrong_radii_are_named(adj_index *index, const adj_dataset *left) {
  double radii[5] = {1, 2, 0, 1, 1};
  adj_question question = range_question(INFINITY);
  refuse_plan(index, question, left, ADJ_E_ARGUMENT, "radius");
  question.radii = radii;
  refuse_plan(index, question, left, ADJ_E_ARGUMENT, "radii: 0 radii for 5 left points");
  question.radius_count = 4;
  refuse_plan(index, question, left, ADJ_E_ARGUMENT, "radii: 4 radii for 5 left points");
  question.radius_count = 5;
  radii[3] = NAN;
  refuse_plan(index, question, left, ADJ_E_ARGUMENT, "radii[3]: nan");
  radii[3] = -1;
  refuse_plan(index, question, left, ADJ_E_ARGUMENT, "radii[3]: -1");
  radii[3] = INFINITY;
  refuse_plan(index, question, left, ADJ_E_ARGUMENT, "radii[3]: inf");
  question.radii = NULL;
  question.radius = 1;
  refuse_plan(index, question, left, ADJ_E_ARGUMENT, "radii: is NULL");
}

static void wrong_use_is_named(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = uniform(ctx, 100, 3), *flat = uniform(ctx, 5, 2), *left = uniform(ctx, 5, 3), *wide = NULL;
  must(adj_dataset_convert(left, ADJ_F64, &wide));
  adj_index *index = NULL;
  adj_index_options options;
  adj_index_options_init(&options, sizeof options);
  options.metric = (adj_metric)99;
  must_fail(ADJ_E_ARGUMENT, "metric: 99", adj_index_create(ctx, &options, set, &index));
  options.metric = ADJ_HAVERSINE;
  must_fail(ADJ_E_ARGUMENT, "metric", adj_index_create(ctx, &options, set, &index));
  must_fail(ADJ_E_ARGUMENT, "dataset", adj_index_create(ctx, NULL, NULL, &index));
  must(adj_index_create(ctx, NULL, set, &index));
  refuse_plan(index, nearest_question(3), flat, ADJ_E_ARGUMENT, "2 and 3 dimensions");
  refuse_plan(index, nearest_question(3), wide, ADJ_E_ARGUMENT, "f32, the other f64");
  refuse_plan(index, nearest_question(0), left, ADJ_E_ARGUMENT, "k: ");
  adj_question question = nearest_question(3);
  question.algorithm = "ego";
  refuse_plan(index, question, left, ADJ_E_ARGUMENT, "algorithm: \"ego\"");
  wrong_radii_are_named(index, left);
  float point[] = {0.5F, NAN, 0.5F};
  uint32_t ids[3], found;
  must_fail(ADJ_E_DATA, "point: coordinate 2", adj_index_nearest(index, point, 3, ids, NULL, &found));
  must_fail(ADJ_E_DATA, "point: coordinate 2", adj_index_within(index, point, 1, 3, ids, NULL, &found));
  point[1] = 0;
  must_fail(ADJ_E_ARGUMENT, "k: ", adj_index_nearest(index, point, 0, ids, NULL, &found));
  must_fail(ADJ_E_ARGUMENT, "ids: ", adj_index_within(index, point, 1, 3, NULL, NULL, &found));
  must_fail(ADJ_E_ARGUMENT, "radius: -1", adj_index_within(index, point, -1, 3, ids, NULL, &found));
  must_fail(ADJ_E_ARGUMENT, "radius: nan", adj_index_within(index, point, NAN, 3, ids, NULL, &found));
  adj_index_destroy(index);
  adj_index_destroy(NULL);
  adj_dataset_destroy(wide);
  adj_dataset_destroy(left);
  adj_dataset_destroy(flat);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

int main(int argc, char **argv) {
  int at = 1;
  if (at < argc && !strcmp(argv[at], "--quick")) asked.quick = at++;
  if (at + 1 < argc) {
    asked.part = (uint32_t)strtoul(argv[at], NULL, 10);
    asked.parts = (uint32_t)strtoul(argv[at + 1], NULL, 10);
  }
  if (!asked.parts || asked.part >= asked.parts) {
    fprintf(stderr, "usage: test_index [--quick] [PART PARTS]\n");
    return 2;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_case_is_answered),
      cmocka_unit_test(single_queries_have_the_rows_of_joins),
      cmocka_unit_test(structures_are_built_once),
      cmocka_unit_test(grids_are_dropped_for_want_of_memory),
      cmocka_unit_test(threads_ask_one_index),
      cmocka_unit_test(wrong_use_is_named),
      cmocka_unit_test(many_queries_have_the_rows_of_brute_force),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
