/* SPDX-License-Identifier: MIT
 *
 * kNN joins of f64 through a search in f32, compared with plain loops. Every row that the search answers has the bits
 * of the canonical definition, even if distances differ by less than f32 can tell. If points are far apart, the search
 * answers nearly all rows.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "cpu/knn_narrow.h"
#include "entries.h"

enum { MOST_DIM = 6, MOST_POINTS = 400, MOST_K = 12 };

typedef double (*coordinate_fn)(uint64_t *state);

static double unit(uint64_t *state) {
  return (double)(random_of(state) >> 11) * 0x1p-53;
}

/* Mostly within a few f32 steps of 0.7, so that distances are a few steps too; a few points all over the box. */
static double coarse(uint64_t *state) {
  uint64_t x = random_of(state);
  return x % 16 ? 0.7 + unit(state) * 0x1p-18 : unit(state);
}

/* One of a few numbers, give or take an f32 step or an f64 ulp, so that many distances are nearly equal. */
static double rings(uint64_t *state) {
  uint64_t x = random_of(state);
  double step = x & 1 ? 0x1p-25 : 0x1p-52;
  return (double)(x >> 1 & 7) / 8 + ((double)(x >> 4 & 7) - 4) * step;
}

static double lattice(uint64_t *state) {
  return (double)(random_of(state) % 5);
}

/* An offset of 1e9, where f32 has steps of 64 and f64 has steps of 1e-7. */
static double offset(uint64_t *state) {
  return 1e9 + unit(state);
}

static double outlier(uint64_t *state) {
  return random_of(state) % 512 ? unit(state) : 1e30;
}

static double tiny(uint64_t *state) {
  return unit(state) * 0x1p-395;
}

static double huge_numbers(uint64_t *state) {
  return (unit(state) - 0.5) * 0x1p400;
}

/* Sums of these are denormal numbers or zero, and sums of the next kind are infinite. There is no frame for either. */
static double vanishing(uint64_t *state) {
  return unit(state) * 0x1p-520;
}

static double overflowing(uint64_t *state) {
  return (unit(state) - 0.5) * 0x1p1000;
}

typedef struct pattern {
  const char *name;
  coordinate_fn of;
  bool framed;   /* there are copies in f32 */
  double answer; /* least share of rows that the search answers */
} pattern;

static const pattern PATTERNS[] = {{"uniform", unit, true, 0.99},      {"coarse", coarse, true, 0},
                                   {"rings", rings, true, 0},          {"lattice", lattice, true, 0},
                                   {"offset", offset, true, 0.99},     {"outlier", outlier, true, 0},
                                   {"tiny", tiny, true, 0.99},         {"huge", huge_numbers, true, 0.99},
                                   {"vanishing", vanishing, false, 0}, {"overflowing", overflowing, false, 0}};

typedef struct points {
  uint32_t dim, count;
  double x[MOST_POINTS * MOST_DIM];
} points;

static void make_points(points *p, const pattern *of, uint32_t dim, uint32_t count, uint64_t seed) {
  uint64_t state = (seed * 977 + dim) * 31 + count;
  p->dim = dim;
  p->count = count;
  for (uint32_t i = 0; i < count * dim; i++)
    p->x[i] = of->of(&state);
}

static adj_dataset *dataset_of(adj_ctx *ctx, const points *p) {
  adj_points given;
  adj_points_init(&given, sizeof given);
  given.dim = p->dim;
  given.count = p->count;
  given.data = p->x;
  given.type = ADJ_F64;
  given.ownership = ADJ_BORROW;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &given, &set));
  return set;
}

/* The row of a query, by the definition. */
static uint32_t nearest(const points *left, const points *right, uint32_t row, const adji_join *join, entry *entries) {
  uint32_t found = 0;
  for (uint32_t id = 0; id < right->count; id++) {
    double s = 0;
    for (uint32_t j = 0; j < left->dim; j++) {
      double t = left->x[row * left->dim + j] - right->x[id * left->dim + j];
      s = fma(t, t, s);
    }
    if (s <= join->limit && (id != row || !join->style.drop_self)) entries[found++] = (entry){s, id};
  }
  qsort(entries, found, sizeof *entries, by_sum_then_id);
  return found < join->k ? found : join->k;
}

static adji_join join_of(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right, uint32_t k, double limit) {
  static const adji_measure measure = {.step = ADJI_STEP_L2, .report = ADJI_REPORT_ROOT};
  adji_join join = {.ctx = ctx, .left = left, .right = right, .self_join = left == right, .k = k, .limit = limit};
  join.style = (adji_row_style){.type = ADJ_F64, .measure = &measure, .distances = true};
  join.style.drop_self = join.self_join;
  join.style.kernels = adji_kernels_for(ctx->isa);
  return join;
}

/* Compares the rows that the search answers. Returns how many there are. */
static uint32_t check_rows(const adji_narrow *n, const points *left, const points *right) {
  static uint32_t ids[MOST_POINTS * MOST_K];
  static double distances[MOST_POINTS * MOST_K];
  static entry entries[MOST_POINTS];
  adji_window window = {.end_row = left->count, .ids = ids, .distances = distances, .k = n->join->k};
  adji_narrow_group group = {0};
  must(adji_narrow_group_init(&group, n));
  uint32_t answered = 0, k = n->join->k;
  for (uint64_t leaf = 0; leaf < n->wide_left->level[0].count; leaf++) {
    uint32_t count = adji_tree_leaf_count(n->wide_left, leaf);
    uint64_t wanted = ((UINT64_C(1) << count) - 1) & ~(UINT64_C(1) << leaf % 16); /* leaves one query out */
    if (!wanted) continue;
    adji_tally tally = {0};
    group.credit = 0; /* no pause */
    uint64_t done = wanted & ~adji_narrow_group_fill(&group, leaf, wanted, &window, &tally);
    for (; done; done &= done - 1, answered++) {
      uint32_t row = n->wide_left->ids[leaf * n->wide_left->leaf + (uint32_t)__builtin_ctzll(done)];
      uint32_t found = nearest(left, right, row, n->join, entries);
      for (uint32_t i = 0; i < k; i++) {
        assert_int_equal(ids[row * k + i], i < found ? entries[i].id : ADJ_NO_ID);
        assert_true(distances[row * k + i] == (i < found ? sqrt(entries[i].sum) : (double)INFINITY));
      }
    }
  }
  adji_narrow_group_clear(&group);
  return answered;
}

/* two: the left set is another one, twice as wide. */
static void check_join(adj_ctx *ctx, const pattern *of, uint32_t dim, uint32_t count, uint32_t k, bool two) {
  static points left, right;
  make_points(&right, of, dim, count, 1);
  make_points(&left, of, dim, two ? count / 2 + 1 : count, two ? 2 : 1);
  for (uint32_t i = 0; i < left.count * dim && two; i++)
    left.x[i] *= 2;
  adj_dataset *right_set = dataset_of(ctx, &right), *left_set = two ? dataset_of(ctx, &left) : right_set;
  adji_tree_room room = {0};
  adji_tree right_tree, left_tree = {0};
  must(adji_tree_build(ctx, right_set, ADJI_LEAF, &room, &right_tree));
  if (two) must(adji_tree_build(ctx, left_set, ADJI_LEAF, &room, &left_tree));
  entry entries[MOST_POINTS];
  double limits[] = {INFINITY, 0, 0};
  adji_join any = join_of(ctx, left_set, right_set, k, INFINITY);
  uint32_t found = nearest(&left, &right, 0, &any, entries);
  if (found) limits[1] = entries[found / 2].sum; /* exactly the sum of a neighbour */
  for (uint32_t l = 0; l < sizeof limits / sizeof *limits; l++) {
    adji_join join = join_of(ctx, left_set, right_set, k, limits[l]);
    adji_narrow narrow = {0};
    must(adji_narrow_init(&narrow, &join, two ? &left_tree : &right_tree, &right_tree));
    bool expected = of->framed && (k > 1 || dim > 4);
    if (narrow.enabled != expected && count > 9) /* a few points may be equal */
      fail_msg("%s, %u points of %u: copies %d", of->name, count, dim, narrow.enabled);
    uint32_t answered = narrow.enabled ? check_rows(&narrow, &left, &right) : 0;
    if (narrow.enabled && !two && answered < of->answer * (left.count - left.count / 16.0 - 1) - 2)
      fail_msg("%s, %u points of %u, k = %u: %u answered", of->name, count, dim, k, answered);
    adji_narrow_clear(&narrow);
  }
  adji_tree_room_clear(ctx, &room);
  adji_tree_clear(&right_tree);
  adji_tree_clear(&left_tree);
  adj_dataset_destroy(right_set);
  if (two) adj_dataset_destroy(left_set);
}

static void answers_match_loops(void **unused) {
  (void)unused;
  static const uint32_t COUNTS[] = {1, 2, 9, 40, MOST_POINTS}, KS[] = {1, 3, 8, MOST_K}, DIMS[] = {1, 2, 3, 6};
  for (uint32_t isa = 0; adj_isa_name(isa); isa++) {
    adj_ctx *ctx = context_of(1, adj_isa_name(isa));
    for (uint32_t p = 0; p < sizeof PATTERNS / sizeof *PATTERNS; p++)
      for (uint32_t d = 0; d < sizeof DIMS / sizeof *DIMS; d++)
        for (uint32_t c = 0; c < sizeof COUNTS / sizeof *COUNTS; c++)
          for (uint32_t k = 0; k < sizeof KS / sizeof *KS; k++)
            check_join(ctx, &PATTERNS[p], DIMS[d], COUNTS[c], KS[k], (p + c + k) % 2);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

/* Copies and boxes are as near to the numbers they stand for as the proof says. */
static void copies_are_near(void **unused) {
  (void)unused;
  static points p;
  adj_ctx *ctx = context_of(1, NULL);
  for (uint32_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++) {
    if (!PATTERNS[i].framed) continue;
    make_points(&p, &PATTERNS[i], 3, MOST_POINTS, 3);
    adj_dataset *set = dataset_of(ctx, &p);
    adji_tree_room room = {0};
    adji_tree wide, narrow;
    adji_frame frame;
    must(adji_tree_build(ctx, set, ADJI_LEAF, &room, &wide));
    assert_true(adji_frame_of(&wide, &wide, &frame));
    must(adji_tree_narrow(&wide, &frame, &narrow));
    for (uint32_t place = 0; place < p.count; place++)
      for (uint32_t j = 0; j < 3; j++) {
        uint64_t at = (place / ADJI_LEAF * 3 + j) * ADJI_LEAF + place % ADJI_LEAF, chunk = place / 256;
        uint64_t box = (chunk * 3 + j) * 2 * ADJI_FAN + place / ADJI_LEAF % ADJI_FAN;
        double x = (((const double *)wide.coords)[at] - frame.origin[j]) * frame.scale;
        float copy = ((const float *)narrow.coords)[at], low = ((const float *)narrow.level[0].bounds)[box];
        assert_true(fabs((double)copy) <= 1 && fabs((double)copy - x) <= ADJI_FRAME_ERROR);
        assert_true(low <= copy && copy <= ((const float *)narrow.level[0].bounds)[box + ADJI_FAN]);
        assert_int_equal(narrow.ids[place], place);
      }
    adji_tree_room_clear(ctx, &room);
    adji_tree_clear(&narrow);
    adji_tree_clear(&wide);
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_match_loops), cmocka_unit_test(copies_are_near)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
