/* SPDX-License-Identifier: MIT
 *
 * Mutual joins: kNN joins of two sets by brute force in which one product serves both points of a pair. The rows of
 * both sets are compared with the reference, on points with ties and duplicates, points about which sketches prove
 * nothing, and points with more candidates than there is room for.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "distance/prefilter_sketch.h"
#include "plan/run.h"
#include "reference.h"

typedef enum kind { UNIFORM, LATTICE, INNER_LATTICE, EQUAL, FEW_STRAYS, MANY_STRAYS, ELSEWHERE } kind;

static const char *const kind_names[] = {"uniform",    "lattice",     "inner lattice", "equal",
                                         "few strays", "many strays", "elsewhere"};

static double random_unit(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(*state >> 11) * 0x1p-53;
}

static double coordinate(kind shape, uint64_t i, uint64_t *state) {
  double u = random_unit(state);
  switch (shape) {
    case LATTICE:
      return floor(3 * u) / 2;
    case INNER_LATTICE:
      return 0.1 + 0.4 * floor(3 * u);
    case EQUAL:
      return 0.7;
    case FEW_STRAYS:
      return i % 150 == 7 ? 1e4 * (u - 0.5) : u;
    case MANY_STRAYS:
      return i % 23 == 0 ? 1e4 * (u - 0.5) : u;
    case ELSEWHERE:
      return 1e3 + u;
    default:
      return u;
  }
}

static point_set make_points(kind shape, adj_type type, uint32_t dim, uint64_t count, uint64_t seed) {
  point_set set = {type, dim, count, calloc(count * dim + 1, type_size(type))};
  assert_non_null(set.data);
  for (uint64_t i = 0; i < count; i++)
    for (uint32_t j = 0; j < dim; j++) {
      double x = coordinate(shape, i, &seed);
      if (type == ADJ_F64)
        ((double *)set.data)[i * dim + j] = x;
      else
        ((float *)set.data)[i * dim + j] = (float)x;
    }
  return set;
}

/* A join: the right points before `first` take no part. */
typedef struct scene {
  const char *name;
  point_set left, right;
  uint32_t k;
  uint64_t first;
  bool bounded; /* every point has a radius of its own */
  const char *tuning;
} scene;

static adj_join_spec spec_of(const scene *s) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.radius = INFINITY;
  spec.k = s->k;
  spec.flags = ADJ_WITH_DISTANCE;
  spec.algorithm = "brute";
  spec.tuning = s->tuning;
  return spec;
}

static double distance_at(const reference_rows *rows, adj_type type, uint64_t entry) {
  return type == ADJ_F64 ? ((const double *)rows->distances)[entry] : (double)((const float *)rows->distances)[entry];
}

/* The answer for the points of `of` among those of `among`. radii: receives a radius for each point, which is exactly
 * the distance of one of its neighbours, zero or infinite. */
static reference_rows answer_of(const scene *s, const point_set *of, const point_set *among, double *radii) {
  adj_join_spec spec = spec_of(s);
  reference_rows rows;
  assert_true(reference_join(of, among, &spec, &rows, NULL));
  for (uint64_t i = 0; i < of->count; i++) {
    uint64_t wanted = i % (s->k + 2);
    radii[i] = !s->bounded || wanted > s->k ? INFINITY : 0;
    if (s->bounded && wanted < s->k) radii[i] = distance_at(&rows, of->type, i * s->k + wanted);
  }
  if (!s->bounded) return rows;
  reference_free(&rows);
  spec.radii = radii;
  spec.radius_count = of->count;
  assert_true(reference_join(of, among, &spec, &rows, NULL));
  return rows;
}

/* Compares rows first .. of a result, whose ids count from shift on, with an answer. */
static void compare(const scene *s, const adj_result *result, const reference_rows *answer, uint64_t first,
                    uint32_t shift) {
  const uint32_t *ids = adj_result_ids(result);
  const char *distances = adj_result_distances(result);
  uint64_t k = s->k, size = type_size(s->left.type), pairs = 0;
  assert_int_equal(adj_result_rows(result), first + answer->rows);
  for (uint64_t e = 0; e < first * k; e++)
    assert_true(ids[e] == ADJ_NO_ID);
  for (uint64_t e = 0; e < answer->rows * k; e++) {
    uint32_t expected = answer->ids[e] == ADJ_NO_ID ? ADJ_NO_ID : answer->ids[e] + shift;
    pairs += expected != ADJ_NO_ID;
    if (ids[first * k + e] != expected ||
        memcmp(distances + (first * k + e) * size, (const char *)answer->distances + e * size, size) != 0)
      fail_msg("%s, %s, k %u, first %llu, %s: row %llu of %llu differs", s->name, s->tuning, s->k,
               (unsigned long long)s->first, s->bounded ? "radii" : "no radii", (unsigned long long)(first + e / k),
               (unsigned long long)(first + answer->rows));
  }
  assert_int_equal(adj_result_pairs(result), pairs);
}

/* Makes the join. made: whether it is expected to be a mutual one. */
static void check_scene(adj_ctx *ctx, const scene *s, bool made) {
  point_set rest = s->right;
  rest.count -= s->first;
  rest.data = (char *)s->right.data + s->first * s->right.dim * type_size(s->right.type);
  double *near = calloc(s->left.count + 1, sizeof *near), *far = calloc(s->right.count + 1, sizeof *far);
  assert_true(near && far);
  reference_rows there = answer_of(s, &s->left, &rest, near), back = answer_of(s, &rest, &s->left, far + s->first);
  adj_dataset *left = dataset_with(ctx, &s->left), *right = dataset_with(ctx, &s->right);
  adj_join_spec spec = spec_of(s);
  spec.radii = s->bounded ? near : NULL;
  spec.radius_count = s->bounded ? s->left.count : 0;
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  adji_way_back way = {.radii = far, .first = s->first};
  adji_extras extras = {.back = &way};
  must(adj_plan_create(ctx, &spec, left, right, &plan));
  if (made) assert_true(adji_can_be_mutual(plan));
  must(adji_collect_with(plan, &extras, &result, NULL, NULL));
  assert_int_equal(result != NULL, made);
  assert_int_equal(way.result != NULL, made);
  if (made) compare(s, result, &there, 0, (uint32_t)s->first);
  if (made) compare(s, way.result, &back, s->first, 0);
  adj_result_destroy(result);
  adj_result_destroy(way.result);
  adj_plan_destroy(plan);
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  reference_free(&there);
  reference_free(&back);
  free(near);
  free(far);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
}

static bool available(const adj_ctx *ctx, const char *tuning) {
  return adji_prefilter_sketch_for(adj_ctx_isa(ctx), strchr(tuning, '=') + 1) != NULL;
}

/* Every kind of left points with every kind of right points. Many strays on the left, or right points elsewhere, rule a
 * mutual join out; on the right strays are candidates of all left points. */
static void both_sides_match_the_reference(void **state) {
  (void)state;
  static const char *const tunings[] = {"prefilter=vnni", "prefilter=amx"};
  static const kind lefts[] = {UNIFORM, INNER_LATTICE, EQUAL, FEW_STRAYS},
                    rights[] = {UNIFORM, LATTICE, FEW_STRAYS, MANY_STRAYS};
  adj_ctx *contexts[] = {context_of(1, NULL), context_of(3, NULL)};
  for (int turn = 0; turn < 64; turn++) {
    int l = turn % 4, r = turn / 4 % 4;
    adj_type type = turn % 3 ? ADJ_F32 : ADJ_F64;
    uint32_t dim = turn % 5 ? 20 : 4;
    scene s = {.name = kind_names[lefts[l]], .k = (uint32_t)(1 + turn * 7 % 30), .first = (uint64_t)(turn % 3) * 192};
    s.left = make_points(lefts[l], type, dim, 450 + (uint64_t)turn, (uint64_t)turn + 1);
    s.right = make_points(rights[r], type, dim, 777, (uint64_t)turn + 100);
    size_t same = (size_t)40 * dim * type_size(type); /* some pairs have distance 0 */
    memcpy((char *)s.right.data + 8 * same, s.left.data, same);
    s.bounded = turn / 16 % 2;
    s.tuning = tunings[turn / 32];
    adj_ctx *ctx = contexts[turn / 2 % 2];
    if (available(ctx, s.tuning)) check_scene(ctx, &s, true);
    free(s.left.data);
    free(s.right.data);
  }
  adj_ctx_destroy(contexts[0]);
  adj_ctx_destroy(contexts[1]);
}

/* All points are equal, or on a lattice of few points: more candidates than a point has room for. */
static void points_with_too_many_candidates_are_scanned_again(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (int turn = 0; turn < 4; turn++) {
    scene s = {.name = "too many candidates", .k = turn % 2 ? 3 : 50, .tuning = "prefilter=vnni", .first = 64};
    s.left = make_points(turn / 2 ? LATTICE : UNIFORM, ADJ_F32, 2, 600, 5);
    s.right = make_points(turn / 2 ? LATTICE : UNIFORM, ADJ_F32, 2, 640, 6);
    for (int i = 0; i < 400 * 2; i++) /* all at one place, in the middle of the others */
      ((float *)s.left.data)[i] = ((float *)s.right.data)[200 + i] = 0.5f;
    if (available(ctx, s.tuning)) check_scene(ctx, &s, true);
    free(s.left.data);
    free(s.right.data);
  }
  adj_ctx_destroy(ctx);
}

/* One left point, sets around the size of blocks, all right points but one left out. */
static void sizes_match_the_reference(void **state) {
  (void)state;
  static const uint64_t sizes[] = {1, 2, 63, 64, 128, 129, 257, 512};
  adj_ctx *ctx = context_of(1, NULL);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    scene s = {.name = "sizes", .k = 2, .tuning = "prefilter=vnni", .first = i % 2 ? 64 : 0};
    s.left = make_points(UNIFORM, ADJ_F32, 9, sizes[i], 3);
    s.right = make_points(UNIFORM, ADJ_F32, 9, i % 3 ? 65 : 200 + sizes[i], 4);
    if (available(ctx, s.tuning)) check_scene(ctx, &s, true);
    free(s.left.data);
    free(s.right.data);
  }
  adj_ctx_destroy(ctx);
}

static void other_joins_are_refused(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  scene s = {.name = "refused", .k = 5};
  s.left = make_points(UNIFORM, ADJ_F32, 6, 300, 3);
  s.right = make_points(UNIFORM, ADJ_F32, 6, 400, 4);
  static const char *const tunings[] = {"prefilter=off", "prefilter=gemm", "prefilter=vnni", "batch=7"};
  for (int i = 0; i < 4; i++) {
    s.tuning = tunings[i];
    s.k = i == 2 ? 300 : 5; /* too many keys */
    if (i == 3 || i == 0 || available(ctx, s.tuning)) check_scene(ctx, &s, false);
  }
  s.k = 5;
  s.tuning = "prefilter=vnni";
  for (kind left = MANY_STRAYS; left <= ELSEWHERE && available(ctx, s.tuning); left++) {
    free(s.left.data);
    s.left = make_points(left, ADJ_F32, 6, 300, 3);
    check_scene(ctx, &s, false);
  }
  free(s.left.data);
  free(s.right.data);
  adj_ctx_destroy(ctx);
}

/* Each allocation fails in turn; nothing is leaked, and the next join succeeds. */
static void lack_of_memory_is_reported(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  scene s = {.k = 5, .tuning = "prefilter=vnni"};
  s.left = make_points(UNIFORM, ADJ_F32, 6, 300, 3);
  s.right = make_points(UNIFORM, ADJ_F32, 6, 400, 4);
  adj_dataset *left = dataset_with(ctx, &s.left), *right = dataset_with(ctx, &s.right);
  uint64_t used = adj_ctx_memory_used(ctx);
  adj_join_spec spec = spec_of(&s);
  double radii[400];
  for (int i = 0; i < 400; i++)
    radii[i] = INFINITY;
  bool done = !available(ctx, s.tuning);
  for (int64_t at = 0; !done; at++) {
    adj_plan *plan = NULL;
    adj_result *result = NULL;
    adji_way_back way = {.radii = radii};
    adji_extras extras = {.back = &way};
    must(adj_plan_create(ctx, &spec, left, right, &plan));
    atomic_store(&ctx->memory.fail_at, at);
    adj_status status = adji_collect_with(plan, &extras, &result, NULL, NULL);
    done = atomic_load(&ctx->memory.fail_at) >= 0;
    atomic_store(&ctx->memory.fail_at, -1);
    assert_int_equal(status, done ? ADJ_OK : ADJ_E_MEMORY);
    assert_true(!status == (way.result != NULL));
    adj_result_destroy(result);
    adj_result_destroy(way.result);
    adj_plan_destroy(plan);
    assert_int_equal(adj_ctx_memory_used(ctx), used);
  }
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  free(s.left.data);
  free(s.right.data);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_sides_match_the_reference),
      cmocka_unit_test(points_with_too_many_candidates_are_scanned_again),
      cmocka_unit_test(sizes_match_the_reference),
      cmocka_unit_test(other_joins_are_refused),
      cmocka_unit_test(lack_of_memory_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
