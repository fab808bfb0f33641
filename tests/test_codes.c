/* SPDX-License-Identifier: MIT
 *
 * The prefilter of codes: its bound is tested pair by pair, and its kernels are compared with plain loops over codes
 * and canonical sums. Ranges that begin and end anywhere in a block, fewer than four queries, dimensions around the
 * width of a vector, points that codes clamp, radii exactly on a distance.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "data/dataset.h"
#include "distance/prefilter_codes.h"
#include "index/build.h"
#include "index/codes.h"

enum { POINTS = 200, QUERIES = 12 };

static const uint32_t DIMS[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 65, 130};

/* Points, and what a test needs to know about them. */
typedef struct scene {
  adj_ctx *ctx;
  adj_type type;
  uint32_t dim;
  double values[POINTS * 130];
  adj_dataset *set;
  adji_index index;
  adji_code_scale scale;
  adji_codes codes;
  double limit;
} scene;

static uint64_t state;

static double next(void) {
  state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (double)(state >> 40) * 0x1p-24;
}

static double value_of(const scene *s, uint64_t row, uint32_t j) {
  return adji_dataset_at(s->set, row, j);
}

/* The definition, in plain C. */
static double canonical(const scene *s, uint64_t a, uint64_t b) {
  double wide = 0;
  float sum = 0;
  for (uint32_t j = 0; j < s->dim; j++) {
    double x = value_of(s, a, j), y = value_of(s, b, j), t = x - y;
    wide = fma(t, t, wide);
    float narrow = (float)x - (float)y;
    sum = fmaf(narrow, narrow, sum);
  }
  return s->type == ADJ_F64 ? wide : (double)sum;
}

/* kind 0: uniform. 1: a few far outliers, which are clamped. 2: on a lattice of half steps, as far as the scale can be
 * predicted; rounding errors are largest there. */
static void fill(scene *s, int kind) {
  for (uint64_t i = 0; i < (uint64_t)POINTS * s->dim; i++) {
    double x = next();
    if (kind == 1 && next() < 0.02) x = 50 * (x - 0.5);
    if (kind == 2) x = (floor(x * 255) + 0.5) / 255;
    s->values[i] = s->type == ADJ_F64 ? x : (double)(float)x;
  }
  for (uint32_t j = 0; kind == 2 && j < s->dim; j++) { /* the ends of the scale */
    for (int i = 0; i < 4; i++)
      s->values[i * s->dim + j] = i % 2;
  }
}

static void open_scene(scene *s, int kind) {
  static float narrow[POINTS * 130];
  fill(s, kind);
  for (uint64_t i = 0; i < (uint64_t)POINTS * s->dim; i++)
    narrow[i] = (float)s->values[i];
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = s->type;
  points.dim = s->dim;
  points.count = POINTS;
  points.data = s->type == ADJ_F64 ? (const void *)s->values : narrow;
  must(adj_dataset_create(s->ctx, &points, &s->set));
  /* The radius is the distance of two points, so that one pair is exactly at the limit. */
  s->limit = canonical(s, 5, 6 + (uint64_t)(next() * 100));
  bool useful;
  adji_grid none = {0};
  adji_order_options order = {0};
  must(adji_index_build(s->ctx, &none, s->set, &order, &s->index));
  must(adji_code_scale_init(s->ctx, s->set, s->limit, &s->scale, &useful));
  must(adji_codes_build(s->ctx, &s->index, &s->scale, true, &s->codes));
}

static void close_scene(scene *s) {
  adji_codes_clear(&s->codes);
  adji_code_scale_clear(&s->scale);
  adji_index_clear(&s->index);
  adj_dataset_destroy(s->set);
}

static int code_at(const scene *s, uint32_t position, uint32_t j) {
  return s->codes
      .bytes[((uint64_t)(position / 16) * s->codes.groups + j / 4) * 64 + (uint64_t)(position % 16) * 4 + j % 4];
}

static int64_t apart(const scene *s, uint32_t a, uint32_t b) {
  int64_t sum = 0;
  for (uint32_t j = 0; j < s->dim; j++) {
    int64_t t = code_at(s, a, j) - code_at(s, b, j);
    sum += t * t;
  }
  return sum;
}

/* No pair that belongs may be out of reach, for this radius or for the distance of any pair. */
static void check_bound(const scene *s) {
  const uint32_t *ids = s->index.view.ids;
  assert_true(s->codes.error <= sqrt((double)s->dim) / 2 * (1 + 1e-9) + 1e-9);
  for (uint32_t a = 0; a < POINTS; a++)
    for (uint32_t b = 0; b < POINTS; b++) {
      double sum = canonical(s, ids[a], ids[b]);
      int64_t reach = adji_codes_reach_sq(&s->scale, sum, &s->codes, &s->codes);
      if (apart(s, a, b) > reach) fail_msg("dim %u: codes of %u and %u are out of reach", s->dim, ids[a], ids[b]);
    }
}

static void check_kernels(const scene *s, const adji_prefilter_codes *filter, uint32_t query_count, adji_range range) {
  static uint32_t words[ADJI_LIST_MAX][64];
  static double coords[ADJI_LIST_MAX][130];
  adji_code_pair pairs[POINTS * ADJI_LIST_MAX + ADJI_PAD], kept[POINTS * ADJI_LIST_MAX + ADJI_PAD];
  double sums[POINTS * ADJI_LIST_MAX + ADJI_PAD];
  bool f64 = s->type == ADJ_F64;
  int64_t reach = adji_codes_reach_sq(&s->scale, s->limit, &s->codes, &s->codes);
  uint32_t queries[ADJI_LIST_MAX];
  uint64_t row_bytes = s->dim * (uint64_t)adji_type_size(s->type);
  adji_prefilter_codes_task tile = {.bytes = s->codes.bytes,
                                    .start = s->codes.start,
                                    .groups = s->codes.groups,
                                    .range = range,
                                    .first_block = range.begin / 16 / 2,
                                    .row_bytes = row_bytes};
  tile.rows = (const char *)s->codes.rows + (uint64_t)tile.first_block * 16 * row_bytes;
  adji_refine_task refine = {.rows = tile.rows, .dim = s->dim, .limit = s->limit};
  for (uint32_t k = 0; k < ADJI_LIST_MAX; k++) {
    queries[k] = (uint32_t)(next() * POINTS);
    int64_t norm = adji_codes_query(&s->codes, queries[k], words[k]);
    for (uint32_t j = 0; j < s->dim; j++) {
      double x = value_of(s, s->index.view.ids[queries[k]], j);
      if (f64)
        coords[k][j] = x;
      else
        ((float *)coords[k])[j] = (float)x;
    }
    tile.words[k] = words[k];
    tile.least[k] = k < query_count ? (int32_t)((norm - reach + 1) >> 1) : ADJI_CODE_NO_QUERY;
    refine.queries[k] = coords[k];
  }
  uint32_t count = filter->keep(&tile, pairs), at[ADJI_LIST_MAX], passed = 0;
  for (uint32_t k = 0; k < ADJI_LIST_MAX; k++)
    at[k] = range.begin;
  /* Pairs are in order and in the range, and none within reach is missing. If the sum is odd, a pair one beyond reach
   * may pass too. */
  for (uint32_t i = 0; i < count; i++) {
    uint32_t k = adji_pair_query(pairs[i]), position = tile.first_block * 16 + adji_pair_place(pairs[i]);
    assert_true(k < query_count && position >= at[k] && position < range.end);
    for (; at[k] < position; at[k]++)
      assert_true(apart(s, queries[k], at[k]) > reach);
    assert_true(apart(s, queries[k], position) <= reach + 1);
    at[k] = position + 1;
  }
  for (uint32_t k = 0; k < query_count; k++)
    for (; at[k] < range.end; at[k]++)
      assert_true(apart(s, queries[k], at[k]) > reach);
  memcpy(kept, pairs, sizeof kept);
  uint32_t belong = filter->refine[f64](&refine, pairs, count, sums);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t k = adji_pair_query(kept[i]), position = tile.first_block * 16 + adji_pair_place(kept[i]);
    double sum = canonical(s, s->index.view.ids[queries[k]], s->index.view.ids[position]);
    if (sum > s->limit) continue;
    assert_true(passed < belong);
    assert_int_equal(pairs[passed], kept[i]);
    double found = f64 ? sums[passed] : (double)((float *)sums)[passed];
    assert_true(memcmp(&found, &sum, sizeof sum) == 0);
    passed++;
  }
  assert_int_equal(passed, belong);
  memcpy(pairs, kept, sizeof kept);
  assert_int_equal(filter->refine[f64](&refine, pairs, count, NULL), belong);
}

static void run(adj_type type) {
  static scene s;
  s = (scene){.ctx = context_of(2, NULL), .type = type};
  const adji_prefilter_codes *filter = adji_prefilter_codes_for(adj_ctx_isa(s.ctx));
  for (size_t d = 0; d < sizeof DIMS / sizeof *DIMS; d++)
    for (int kind = 0; kind < 3; kind++) {
      state = d * 3 + (uint64_t)kind + 1;
      s.dim = DIMS[d];
      open_scene(&s, kind);
      check_bound(&s);
      for (uint32_t i = 0; filter && i < QUERIES; i++) {
        uint32_t begin = (uint32_t)(next() * POINTS), end = begin + (uint32_t)(next() * (POINTS - begin + 1));
        check_kernels(&s, filter, i % ADJI_LIST_MAX + 1, i ? (adji_range){begin, end} : (adji_range){0, POINTS});
      }
      close_scene(&s);
    }
  adj_ctx_destroy(s.ctx);
}

static void test_f32(void **unused) {
  (void)unused;
  run(ADJ_F32);
}

static void test_f64(void **unused) {
  (void)unused;
  run(ADJ_F64);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_f64)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
