/* SPDX-License-Identifier: MIT
 *
 * Brute force for kNN joins: every prefilter, instruction set and type is compared with the reference, on data that is
 * difficult for prefilters. The bounds that prefilters rely on are checked pair by pair.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "index/sketch.h"
#include "reference.h"

/* ---- Points --------------------------------------------------------------------------------------------- */

static uint64_t random_bits(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 11;
}

static double random_unit(uint64_t *state) {
  return (double)random_bits(state) * 0x1p-53;
}

typedef enum kind { UNIFORM, FAR_OFF, LATTICE, EQUAL, DENORMAL, HUGE_VALUES, STRAYS, CLUSTERS, SKEWED, SHAPES } kind;

static const char *const shape_names[] = {
    "uniform", "1e6 and a tiny spread", "lattice", "equal", "denormal", "huge", "strays", "clusters", "skewed"};

/* Coordinate j of point i. */
static double coordinate(kind shape, bool f64, uint64_t i, uint32_t j, uint64_t *state) {
  double u = random_unit(state);
  switch (shape) {
    case UNIFORM:
      return u;
    case FAR_OFF:
      return 1e6 + (f64 ? 1e-3 : 4) * u;
    case LATTICE:
      return floor(3 * u);
    case EQUAL:
      return 0.7;
    case DENORMAL:
      return floor(100 * u) * (f64 ? 0x1p-1074 : 0x1p-149);
    case HUGE_VALUES: /* most sums overflow, but not all */
      return (i % 3 ? 1 : 1e-4) * (u - 0.5) * (f64 ? 1e155 : 1e20);
    case STRAYS:
      return i % 23 == 0 ? 1e4 * (u - 0.5) : u;
    case CLUSTERS:
      return (double)(i % 5) * 10 + (double)(j % 3) + 1e-3 * u;
    default:
      return -log(1 - u) * (j % 2 ? 1 : 0.01);
  }
}

static point_set make_points(kind shape, adj_type type, uint32_t dim, uint64_t count, uint64_t seed) {
  point_set set = {type, dim, count, calloc(count * dim + 1, type_size(type))};
  assert_non_null(set.data);
  for (uint64_t i = 0; i < count; i++)
    for (uint32_t j = 0; j < dim; j++) {
      double x = coordinate(shape, type == ADJ_F64, i, j, &seed);
      if (type == ADJ_F64)
        ((double *)set.data)[i * dim + j] = x;
      else
        ((float *)set.data)[i * dim + j] = (float)x;
    }
  return set;
}

/* ---- Joins against the reference --------------------------------------------------------------------------- */

typedef struct sets {
  point_set left, right;
  bool self_join;
  double radius;
  adj_metric metric;
} sets;

/* The answer for k = all right points. Rows for a smaller k are the beginnings of its rows. */
static reference_rows answer_of(const sets *s) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.metric = s->metric;
  spec.radius = s->radius;
  spec.k = (uint32_t)s->right.count + 5;
  reference_rows rows;
  assert_true(reference_join(&s->left, s->self_join ? NULL : &s->right, &spec, &rows, NULL));
  return rows;
}

/* Whether the result has the first k entries of each row of the answer, bit by bit. */
static bool same_rows(const adj_result *result, const reference_rows *answer, uint32_t k, size_t size) {
  uint64_t all = answer->rows ? answer->offsets[1] : 0, pairs = 0;
  for (uint64_t row = 0; row < answer->rows; row++) {
    if (memcmp(adj_result_ids(result) + row * k, answer->ids + row * all, k * sizeof(uint32_t))) return false;
    if (memcmp((const char *)adj_result_distances(result) + row * k * size,
               (const char *)answer->distances + row * all * size, k * size))
      return false;
    for (uint32_t i = 0; i < k; i++)
      pairs += answer->ids[row * all + i] != ADJ_NO_ID;
  }
  return adj_result_rows(result) == answer->rows && adj_result_pairs(result) == pairs;
}

/* Whether a prefilter that was asked for is refused for a valid reason: this CPU lacks it, or it can prove nothing
 * about the points. */
static bool is_refused(adj_status status, const char *tuning) {
  if (status != ADJ_E_UNSUPPORTED || strncmp(tuning, "prefilter=", 10) != 0) return false;
  assert_non_null(strstr(adj_last_error(), tuning));
  return true;
}

static void check_join(adj_ctx *ctx, const sets *s, const reference_rows *answer, uint32_t k, const char *tuning,
                       const char *name) {
  adj_dataset *left = dataset_with(ctx, &s->left), *right = s->self_join ? NULL : dataset_with(ctx, &s->right);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.metric = s->metric;
  spec.radius = s->radius;
  spec.k = k;
  spec.flags = ADJ_WITH_DISTANCE;
  spec.algorithm = "brute";
  spec.tuning = tuning;
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  adj_status status = adj_plan_create(ctx, &spec, left, right, &plan);
  bool refused = is_refused(status, tuning);
  if (!refused) must(status);
  if (!refused) must(adj_collect(plan, &result, NULL, NULL));
  if (!refused && !same_rows(result, answer, k, type_size(s->left.type)))
    fail_msg("%s, %s, %u-D, %llu x %llu, k %u, %s, %u threads, %s", name, s->left.type == ADJ_F64 ? "f64" : "f32",
             s->left.dim, (unsigned long long)s->left.count, (unsigned long long)s->right.count, k, adj_ctx_isa(ctx),
             adj_ctx_threads(ctx), tuning);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  adj_dataset_destroy(right);
  adj_dataset_destroy(left);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
}

static const char *const tunings[] = {"prefilter=amx", "prefilter=vnni", "prefilter=gemm", "prefilter=off", "",
                                      "batch=5"};
enum { TUNINGS = sizeof tunings / sizeof *tunings, MOST_CONTEXTS = 8 };

typedef struct machine {
  adj_ctx *contexts[MOST_CONTEXTS];
  int count;
} machine;

static int start(void **state) {
  static machine m;
  m.count = 0;
  for (uint32_t i = 0; adj_isa_name(i); i++)
    for (uint32_t threads = 1; threads <= 3; threads += 2)
      m.contexts[m.count++] = context_of(threads, adj_isa_name(i));
  *state = &m;
  return 0;
}

static int stop(void **state) {
  machine *m = *state;
  for (int i = 0; i < m->count; i++)
    adj_ctx_destroy(m->contexts[i]);
  return 0;
}

/* Tries every k. Prefilters and contexts take turns, so that each k meets several of them. */
static void check_sets(const machine *m, const sets *s, const uint32_t *ks, int k_count, const char *name) {
  reference_rows answer = answer_of(s);
  for (int i = 0; i < k_count; i++)
    for (int t = 0; t < TUNINGS; t++)
      check_join(m->contexts[(i + t) % m->count], s, &answer, ks[i], tunings[t], name);
  reference_free(&answer);
}

static void check_shape(const machine *m, kind shape, adj_type type, uint32_t dim, uint64_t count) {
  sets s = {.self_join = true, .radius = INFINITY, .metric = ADJ_L2};
  s.left = s.right = make_points(shape, type, dim, count, (uint64_t)1000 * dim + (uint64_t)shape);
  const uint32_t n = (uint32_t)count, ks[] = {1, dim % 2 ? 7 : 8, dim % 2 ? 32 : 33, n - 1, n, n + 5};
  check_sets(m, &s, ks, 6, shape_names[shape]);
  free(s.left.data);
}

static void shapes_match_the_reference(void **state) {
  for (int shape = 0; shape < SHAPES; shape++)
    for (adj_type type = ADJ_F32; type <= ADJ_F64; type++) {
      check_shape(*state, (kind)shape, type, 3, 90);
      check_shape(*state, (kind)shape, type, 16, 130);
      check_shape(*state, (kind)shape, type, 64, 150);
      check_shape(*state, (kind)shape, type, 131, 70);
    }
}

static void dimensions_match_the_reference(void **state) {
  static const uint32_t dims[] = {1, 2, 4, 5, 15, 17, 31, 63, 65, 100, 257, 1000};
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
    check_shape(*state, i % 2 ? UNIFORM : LATTICE, i % 3 ? ADJ_F32 : ADJ_F64, dims[i], 90);
}

/* Enough points for several tiles, for an overflow of the keys of a query (many ties), and for trials of prefilters. */
static void many_points_match_the_reference(void **state) {
  static const uint32_t ks[] = {2, 100, 1000};
  static const kind shapes[] = {UNIFORM, LATTICE, CLUSTERS, STRAYS};
  for (int i = 0; i < 4; i++) {
    sets s = {.self_join = true, .radius = INFINITY, .metric = ADJ_L2};
    s.left = s.right = make_points(shapes[i], i % 2 ? ADJ_F64 : ADJ_F32, 4, 2100, (uint64_t)i);
    check_sets(*state, &s, ks, 3, shape_names[shapes[i]]);
    free(s.left.data);
  }
}

/* One product serves both points of a pair. There are enough blocks for one and two threads, points that are given up
 * because too many candidates pass (ties), and strays. */
static void pairs_match_the_reference(void **state) {
  (void)state;
  static const kind shapes[] = {UNIFORM, LATTICE, STRAYS, SKEWED};
  adj_ctx *contexts[] = {context_of(1, NULL), context_of(2, NULL)};
  for (int i = 0; i < 8; i++) {
    sets s = {.self_join = true, .radius = i % 3 ? INFINITY : 0.5, .metric = ADJ_L2};
    s.left = s.right = make_points(shapes[i / 2], i % 2 ? ADJ_F64 : ADJ_F32, i % 2 ? 20 : 4, 2111, (uint64_t)i);
    reference_rows answer = answer_of(&s);
    for (uint32_t k = 1; k <= 49; k += 24)
      for (int t = 0; t < 4; t++)
        check_join(contexts[t / 2], &s, &answer, k, t % 2 ? "prefilter=amx" : "prefilter=vnni", "pairs");
    reference_free(&answer);
    free(s.left.data);
  }
  adj_ctx_destroy(contexts[0]);
  adj_ctx_destroy(contexts[1]);
}

static void two_sets_and_a_radius_match_the_reference(void **state) {
  static const uint32_t ks[] = {1, 10, 338};
  static const double radii[] = {INFINITY, 1.5, 0.3, 0};
  for (int i = 0; i < 4; i++) {
    sets s = {.radius = radii[i], .metric = ADJ_L2};
    s.left = make_points(i % 2 ? STRAYS : UNIFORM, ADJ_F32, 20, 77, 5);
    s.right = make_points(i % 2 ? UNIFORM : STRAYS, ADJ_F32, 20, 333, 6);
    memcpy(s.right.data, s.left.data, (size_t)20 * 20 * sizeof(float)); /* some pairs have distance 0 */
    check_sets(*state, &s, ks, 3, "two sets");
    free(s.left.data);
    free(s.right.data);
  }
}

/* One query or a few, and enough points to be cut into segments. */
static void few_queries_use_segments(void **state) {
  static const uint32_t ks[] = {1, 64};
  for (uint64_t queries = 1; queries <= 33; queries += 16) {
    sets s = {.radius = INFINITY, .metric = ADJ_L2};
    s.left = make_points(LATTICE, ADJ_F32, 5, queries, 8);
    s.right = make_points(LATTICE, ADJ_F32, 5, 30000, 9);
    check_sets(*state, &s, ks, 2, "few queries");
    free(s.left.data);
    free(s.right.data);
  }
}

static void other_metrics_have_no_filter(void **state) {
  static const adj_metric metrics[] = {ADJ_L1, ADJ_LINF};
  static const uint32_t ks[] = {1, 9, 145};
  for (int i = 0; i < 4; i++) {
    sets s = {.self_join = true, .radius = INFINITY, .metric = metrics[i % 2]};
    s.left = s.right = make_points(i < 2 ? SKEWED : LATTICE, i < 2 ? ADJ_F32 : ADJ_F64, 12, 140, 3);
    check_sets(*state, &s, ks, 3, "other metrics");
    free(s.left.data);
  }
}

/* Empty sets, one point, and coordinates that are not adjacent in memory. */
static void odd_sets_match_the_reference(void **state) {
  static const uint32_t ks[] = {1, 3};
  for (uint64_t left = 0; left <= 2; left++)
    for (uint64_t right = 0; right <= 2; right++) {
      sets s = {.radius = INFINITY, .metric = ADJ_L2};
      s.left = make_points(UNIFORM, ADJ_F32, 4, left, 1);
      s.right = make_points(UNIFORM, ADJ_F32, 4, right, 2);
      check_sets(*state, &s, ks, 2, "small sets");
      free(s.left.data);
      free(s.right.data);
    }
}

/* ---- The bounds ---------------------------------------------------------------------------------------------- */

/* Takes all pairs of a set through the products of a sketch. The value of each pair must bound its canonical sum on
 * both sides, and a pair must pass if the limit is its own sum. */
static void check_bounds(adj_ctx *ctx, const point_set *set, const adji_prefilter_sketch *prefilter) {
  adj_dataset *dataset = dataset_with(ctx, set);
  adj_join_spec l2;
  adj_join_spec_init(&l2, sizeof l2);
  adji_packed packed;
  adji_sketch sketch;
  bool useful;
  must(adji_packed_init(ctx, dataset, &packed));
  must(adji_sketch_init(ctx, &packed, prefilter, &sketch, &useful));
  uint32_t words[ADJI_QUERY_MULTIPLE * 300], found = 0;
  _Alignas(64) adji_value least[ADJI_QUERY_MULTIPLE], base[ADJI_QUERY_MULTIPLE];
  uint64_t *keys = malloc((set->count + 64) * sizeof *keys);
  double scratch[300];
  for (uint64_t i = 0; useful && i < set->count; i++) {
    adji_sketch_query query;
    memset(words, 0, sizeof words);
    adji_sketch_query_init(&sketch, adji_packed_row(&packed, i), scratch, words, &query);
    for (int q = 0; q < ADJI_QUERY_MULTIPLE; q++)
      least[q] = prefilter->codes ? (adji_value){.code = ADJI_LEAST_NONE} : (adji_value){.f32 = INFINITY};
    base[0] = query.base;
    least[0] = adji_sketch_least(&sketch, &query, INFINITY);
    adji_prefilter_sketch_task task = {(const char *)words,
                                       (uint64_t)sketch.groups * 4,
                                       1,
                                       sketch.groups,
                                       sketch.blocks,
                                       sketch.minus,
                                       0,
                                       (uint32_t)set->count,
                                       least,
                                       base,
                                       &keys,
                                       &found};
    found = 0;
    prefilter->run(&task);
    assert_int_equal(found, set->count - sketch.stray_count);
    for (uint32_t n = 0; n < found; n += 7) {
      uint32_t value = (uint32_t)(keys[n] >> 32), row = (uint32_t)keys[n];
      double sum = reference_value(&l2, set->type, row_of(set, i), row_of(set, row), set->dim);
      assert_true(sum <= adji_sketch_sum(&sketch, &query, value));
      assert_true(value <= adji_sketch_most(&sketch, &query, sum));
      uint64_t again[64 + ADJI_SKETCH_PAD], *to = again;
      uint32_t passed = 0, block = row / 64 * 64;
      least[0] = adji_sketch_least(&sketch, &query, sum);
      adji_prefilter_sketch_task one = task;
      one.blocks = sketch.blocks + (uint64_t)block * sketch.groups * 4;
      one.minus = sketch.minus + block;
      one.first = block;
      one.count = (uint32_t)(set->count - block < 64 ? set->count - block : 64);
      one.keys = &to;
      one.found = &passed;
      prefilter->run(&one);
      bool there = false;
      for (uint32_t p = 0; p < passed; p++)
        there |= (uint32_t)again[p] == row;
      assert_true(there);
    }
  }
  free(keys);
  adji_sketch_clear(&sketch);
  adji_packed_clear(&packed);
  adj_dataset_destroy(dataset);
}

static void bounds_hold_for_every_pair(void **state) {
  (void)state;
  static const char *const names[] = {"amx", "vnni", "gemm"};
  for (uint32_t isa = 0; adj_isa_name(isa); isa++) {
    adj_ctx *ctx = context_of(1, adj_isa_name(isa));
    for (int f = 0; f < 3; f++) {
      const adji_prefilter_sketch *prefilter = adji_prefilter_sketch_for(adj_isa_name(isa), names[f]);
      for (int shape = 0; prefilter && shape < SHAPES; shape++)
        for (adj_type type = ADJ_F32; type <= ADJ_F64; type++) {
          static const uint32_t dims[] = {1, 7, 70, 260};
          point_set set = make_points((kind)shape, type, dims[(shape + f) % 4], 130, 17);
          check_bounds(ctx, &set, prefilter);
          free(set.data);
        }
    }
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bounds_hold_for_every_pair),     cmocka_unit_test(shapes_match_the_reference),
      cmocka_unit_test(dimensions_match_the_reference), cmocka_unit_test(many_points_match_the_reference),
      cmocka_unit_test(pairs_match_the_reference),      cmocka_unit_test(two_sets_and_a_radius_match_the_reference),
      cmocka_unit_test(few_queries_use_segments),       cmocka_unit_test(other_metrics_have_no_filter),
      cmocka_unit_test(odd_sets_match_the_reference),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
