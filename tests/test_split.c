/* SPDX-License-Identifier: MIT
 *
 * Splits and lists (adj_split, adj_lists): each region with its halo is joined alone, and its rows are compared with
 * the reference, for every case of the list that has a distance. Weights, bytes, wrong arguments, merging.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cluster/split.h"
#include "compare.h"

static adj_ctx *ctx;

static adj_dataset *make_set(adj_type type, uint32_t dim, uint64_t count, const void *data) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = type;
  points.dim = dim;
  points.count = count;
  points.data = data;
  adj_dataset *out = NULL;
  assert_int_equal(adj_dataset_create(ctx, &points, &out), ADJ_OK);
  return out;
}

/* ---- The list of cases ------------------------------------------------------------------------------------------ */

typedef struct region {
  uint32_t *rows; /* rows of the whole set, ascending: own points and halo */
  uint64_t count;
} region;

/* Merges the own points and the halo of a region. */
static region members_of(uint32_t number, uint64_t count, const uint32_t *home, const uint32_t *halo, uint64_t halos) {
  region r = {calloc(count + 1, sizeof *r.rows), 0};
  assert_non_null(r.rows);
  uint64_t at = 0;
  for (uint64_t i = 0; i < count; i++) {
    bool visits = at < halos && halo[at] == i;
    at += visits;
    assert_false(visits && home[i] == number); /* no point is in both */
    if (visits || home[i] == number) r.rows[r.count++] = (uint32_t)i;
  }
  assert_int_equal(at, halos); /* all of the halo is used, so the list ascends */
  return r;
}

/* Joins the members of a region. The rows of its own points must be those of the whole set. */
static void check_region(const join_case *c, const join_answer *answer, uint32_t number, const uint32_t *home,
                         const region *r) {
  uint64_t width = c->left.dim * type_size(c->left.type), size = type_size(c->left.type);
  char *points = calloc(r->count + 1, width);
  for (uint64_t i = 0; i < r->count; i++)
    memcpy(points + i * width, row_of(&c->left, r->rows[i]), width);
  adj_dataset *set = make_set(c->left.type, c->left.dim, r->count, points);
  adj_join_spec spec = case_spec(c);
  spec.flags |= ADJ_WITH_DISTANCE;
  spec.backend = ADJ_BACKEND_CPU;
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  assert_int_equal(adj_plan_create(ctx, &spec, set, NULL, &plan), ADJ_OK);
  assert_int_equal(adj_collect(plan, &result, NULL, NULL), ADJ_OK);
  const uint64_t *offsets = adj_result_offsets(result), *expected = answer->by_id.offsets;
  for (uint64_t i = 0; i < r->count; i++) {
    uint64_t row = r->rows[i], many = offsets[i + 1] - offsets[i];
    if (home[row] != number) continue;
    assert_int_equal(many, expected[row + 1] - expected[row]);
    for (uint64_t e = 0; e < many; e++) {
      uint32_t id = adj_result_ids(result)[offsets[i] + e];
      assert_int_equal(id == ADJ_NO_ID ? id : r->rows[id], answer->by_id.ids[expected[row] + e]);
    }
    assert_memory_equal((const char *)adj_result_distances(result) + offsets[i] * size,
                        (const char *)answer->by_id.distances + expected[row] * size, many * size);
  }
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  free(points);
}

/* Makes a split and passes it through bytes, as a scheduler would, with or without boxes. */
static adj_split *split_of(const join_case *c, const adj_dataset *set, uint32_t regions, bool weighted) {
  adj_join_spec spec = case_spec(c);
  double *weights = calloc(c->left.count + 1, sizeof *weights);
  adj_split *made = NULL, *loaded = NULL;
  assert_non_null(weights);
  assert_int_equal(adj_split_weights(ctx, &spec, set, c->left.count, weights), ADJ_OK);
  assert_int_equal(adj_split_create(ctx, &spec, set, weighted ? weights : NULL, regions, &made), ADJ_OK);
  uint64_t bytes = 0;
  assert_int_equal(adj_split_save(made, NULL, 0, &bytes), ADJ_OK);
  char *buffer = malloc(bytes);
  assert_non_null(buffer);
  assert_int_equal(adj_split_save(made, buffer, bytes, NULL), ADJ_OK);
  assert_int_equal(adj_split_load(ctx, &spec, c->left.type, c->left.dim, buffer, bytes, &loaded), ADJ_OK);
  assert_int_equal(adj_split_regions(loaded), adj_split_regions(made));
  free(buffer);
  free(weights);
  adj_split_destroy(made);
  return loaded;
}

static void check_case(const join_case *c, uint32_t number) {
  static const uint32_t numbers[] = {1, 2, 3, 5, 8, 16};
  join_answer answer;
  assert_true(answer_case(c, &answer));
  adj_dataset *set = make_set(c->left.type, c->left.dim, c->left.count, c->left.data);
  adj_split *split = split_of(c, set, numbers[number % 6], number % 2);
  uint32_t regions = adj_split_regions(split), dim = adj_split_dim(split);
  uint32_t *home = calloc(c->left.count + 1, sizeof *home), *rows;
  uint64_t *starts = calloc(regions + 1, sizeof *starts), at = 0;
  assert_int_equal(adj_split_home(split, set, home), ADJ_OK);
  if (number % 3) {
    double *low = calloc((uint64_t)regions * dim, sizeof *low), *high = calloc((uint64_t)regions * dim, sizeof *high);
    assert_int_equal(adj_split_bounds(split, set, home, low, high), ADJ_OK);
    assert_int_equal(adj_split_set_bounds(split, low, high), ADJ_OK);
    free(low);
    free(high);
  }
  assert_int_equal(adj_split_halo(split, set, home, NULL, starts, NULL), ADJ_OK);
  for (uint32_t i = 0; i <= regions; i++) {
    uint64_t many = starts[i];
    starts[i] = at;
    at += i < regions ? many : 0;
  }
  rows = calloc(at + 1, sizeof *rows);
  assert_int_equal(adj_split_halo(split, set, home, NULL, starts, rows), ADJ_OK);
  for (uint32_t i = 0; i < regions; i++) {
    region r = members_of(i, c->left.count, home, rows + starts[i], starts[i + 1] - starts[i]);
    check_region(c, &answer, i, home, &r);
    free(r.rows);
  }
  free(rows);
  free(starts);
  free(home);
  adj_split_destroy(split);
  adj_dataset_destroy(set);
  answer_free(&answer);
}

/* Last sums of lists: none, some that are near the square of the radius, and any others. */
static void make_sums(const join_case *c, uint64_t count, void *sums) {
  double near = isinf(c->radius) ? 1 : c->radius * c->radius;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    double sum = near * (double)(hash % 64) / 16;
    if (hash % 7 == 0) sum = ldexp(1, (int)(hash % 290) - 149);
    if (hash % 11 == 0) sum = INFINITY;
    if (c->left.type == ADJ_F64)
      ((double *)sums)[i] = sum;
    else
      ((float *)sums)[i] = (float)sum;
  }
}

/* Every point that visits another region within the radii of its sum and of the spec is near the border. */
static void check_border(const join_case *c, const adj_split *split, uint32_t number, const region *r) {
  uint64_t width = c->left.dim * type_size(c->left.type), size = type_size(c->left.type), count = 0, at = 0;
  char *points = calloc(r->count + 1, width), *sums = calloc(r->count + 1, size), *near = calloc(r->count + 1, 1);
  double *radii = calloc(r->count + 1, sizeof *radii);
  uint32_t *home = calloc(r->count + 1, sizeof *home), *border = malloc((r->count + !r->count) * sizeof *border);
  uint64_t *starts = calloc(adj_split_regions(split) + 1, sizeof *starts);
  assert_true(points && sums && near && radii && home && border && starts);
  for (uint64_t i = 0; i < r->count; i++) {
    memcpy(points + i * width, row_of(&c->left, r->rows[i]), width);
    home[i] = number;
  }
  adj_join_spec spec = case_spec(c);
  make_sums(c, r->count, sums);
  assert_int_equal(adj_sums_radii(&spec, c->left.type, r->count, sums, radii), ADJ_OK);
  for (uint64_t i = 0; i < r->count; i++)
    radii[i] = fmin(radii[i], spec.radius);
  adj_dataset *set = make_set(c->left.type, c->left.dim, r->count, points);
  adji_border queries = {.region = number, .count = r->count, .sums = {sums, size}};
  assert_int_equal(adji_split_border(split, set, &queries, border, &count), ADJ_OK);
  for (uint64_t i = 0; i < count; i++) {
    assert_true(border[i] < r->count && (!i || border[i] > border[i - 1]));
    near[border[i]] = 1;
  }
  assert_int_equal(adj_split_halo(split, set, home, radii, starts, NULL), ADJ_OK);
  for (uint32_t i = 0; i <= adj_split_regions(split); i++) {
    uint64_t many = starts[i];
    starts[i] = at;
    at += many;
  }
  uint32_t *visitors = calloc(at + 1, sizeof *visitors);
  assert_int_equal(adj_split_halo(split, set, home, radii, starts, visitors), ADJ_OK);
  for (uint64_t i = 0; i < at; i++)
    assert_true(near[visitors[i]]);
  adj_dataset_destroy(set);
  void *blocks[] = {points, sums, near, radii, home, border, starts, visitors};
  for (int i = 0; i < 8; i++)
    free(blocks[i]);
}

static void visitors_come_from_the_border(void **state) {
  (void)state;
  for (uint32_t i = 0; i < case_count(); i++) {
    join_case c;
    assert_true(case_build(i, &c));
    if (c.quick && c.self_join && c.metric != ADJ_DOT && c.left.count) {
      adj_dataset *set = make_set(c.left.type, c.left.dim, c.left.count, c.left.data);
      adj_split *split = split_of(&c, set, 2 + i % 7, false);
      uint32_t *home = calloc(c.left.count + 1, sizeof *home);
      assert_int_equal(adj_split_home(split, set, home), ADJ_OK);
      for (uint32_t number = 0; number < adj_split_regions(split); number++) {
        region r = members_of(number, c.left.count, home, NULL, 0);
        check_border(&c, split, number, &r);
        free(r.rows);
      }
      free(home);
      adj_split_destroy(split);
      adj_dataset_destroy(set);
    }
    case_free(&c);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
}

/* Reaches of regions: none, shorter than most radii, and longer than the radius of the join. */
static void make_reaches(const join_case *c, uint32_t regions, uint32_t number, double *reaches) {
  double near = isinf(c->radius) ? 1 : c->radius;
  for (uint32_t r = 0; r < regions; r++)
    reaches[r] = near * (double[]){0, 0.25, 0.6, 1.5}[(r + number) % 4];
}

/* The neighbours of points within radii of their own, by the reference. */
static adj_result *neighbours_of(const join_case *c, const adj_dataset *set, const double *radii) {
  adj_join_spec spec = case_spec(c);
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  spec.kind = ADJ_RANGE;
  spec.k = 0;
  spec.order = ADJ_ORDER_ID;
  spec.flags = 0;
  spec.backend = ADJ_BACKEND_REFERENCE;
  spec.algorithm = NULL;
  spec.radii = radii;
  spec.radius_count = c->left.count;
  assert_int_equal(adj_plan_create(ctx, &spec, set, NULL, &plan), ADJ_OK);
  assert_int_equal(adj_collect(plan, &result, NULL, NULL), ADJ_OK);
  adj_plan_destroy(plan);
  return result;
}

/* Finds the queries of a region that stay within it and its halo, and marks them with their radii. Others get 0. */
static void keep_stayers(const join_case *c, const adj_split *split, const adj_dataset *set, const region *r,
                         const adji_border *from, double *radii) {
  uint64_t size = type_size(c->left.type), count = 0;
  char *sums = calloc(r->count + 1, size);
  double *all = calloc(r->count + 1, sizeof *all);
  uint32_t *leaving = malloc((r->count + 1) * sizeof *leaving);
  assert_true(sums && all && leaving);
  adj_join_spec spec = case_spec(c);
  make_sums(c, r->count, sums);
  assert_int_equal(adj_sums_radii(&spec, c->left.type, r->count, sums, all), ADJ_OK);
  adji_border border = *from;
  border.rows = r->rows;
  border.count = r->count;
  border.sums = (adji_last_sums){sums, size};
  assert_int_equal(adji_split_border(split, set, &border, leaving, &count), ADJ_OK);
  for (uint64_t i = 0, next = 0; i < r->count; i++) {
    bool leaves = next < count && leaving[next] == i;
    next += leaves;
    radii[r->rows[i]] = leaves ? 0 : fmin(all[i], spec.radius);
    assert_true(leaves || isfinite(radii[r->rows[i]]) || adj_split_regions(split) == 1);
  }
  free(sums);
  free(all);
  free(leaving);
}

/* Queries that are not found near the border have all points within their last sums in their region or its halo. */
static void check_halos(const join_case *c, uint32_t number) {
  uint64_t n = c->left.count, many = 0;
  adj_dataset *set = make_set(c->left.type, c->left.dim, n, c->left.data);
  adj_split *split = split_of(c, set, 2 + number % 7, false);
  uint32_t regions = adj_split_regions(split), *home = calloc(n + 1, sizeof *home);
  double *reaches = calloc(regions, sizeof *reaches), *radii = calloc(n + 1, sizeof *radii);
  char *here = calloc((uint64_t)regions, n); /* by region and point */
  adji_visit *visits = NULL;
  assert_true(home && reaches && radii && here);
  assert_int_equal(adj_split_home(split, set, home), ADJ_OK);
  make_reaches(c, regions, number, reaches);
  assert_int_equal(adji_split_halos(split, set, home, reaches, &visits, &many), ADJ_OK);
  for (uint64_t i = 0; i < many; i++) {
    char *mark = &here[visits[i].region * n + visits[i].row];
    assert_true(reaches[visits[i].region] > 0);
    assert_true(home[visits[i].row] != visits[i].region && !*mark && (!i || visits[i].row >= visits[i - 1].row));
    *mark = 1;
  }
  for (uint32_t r = 0; r < regions; r++) {
    region own = members_of(r, n, home, NULL, 0);
    adji_border border = {.region = r, .reach = reaches[r]};
    keep_stayers(c, split, set, &own, &border, radii);
    free(own.rows);
  }
  for (uint64_t i = 0; i < n; i++)
    if (isinf(radii[i])) radii[i] = 0; /* one region has all points */
  adj_result *found = neighbours_of(c, set, radii);
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t e = adj_result_offsets(found)[i]; e < adj_result_offsets(found)[i + 1]; e++) {
      uint32_t id = adj_result_ids(found)[e];
      assert_true(home[id] == home[i] || here[home[i] * n + id] || !radii[i]);
    }
  adj_result_destroy(found);
  adji_free(&ctx->memory, visits);
  adj_split_destroy(split);
  adj_dataset_destroy(set);
  void *blocks[] = {home, reaches, radii, here};
  for (int i = 0; i < 4; i++)
    free(blocks[i]);
}

static void halos_hold_what_their_queries_reach(void **state) {
  (void)state;
  for (uint32_t i = 0; i < case_count(); i++) {
    join_case c;
    assert_true(case_build(i, &c));
    if (c.quick && c.self_join && c.metric != ADJ_DOT && c.left.count) check_halos(&c, i);
    case_free(&c);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
}

static void regions_have_the_rows_of_the_whole_join(void **state) {
  (void)state;
  for (uint32_t i = 0; i < case_count(); i++) {
    join_case c;
    assert_true(case_build(i, &c));
    if (c.quick && c.self_join && c.metric != ADJ_DOT && (!c.k || isfinite(c.radius)) && c.left.count)
      check_case(&c, i);
    case_free(&c);
  }
}

/* ---- Weights ---------------------------------------------------------------------------------------------------- */

/* All regions have the same weight, as far as the weight of one point and ties allow. */
static void regions_weigh_the_same(void **state) {
  (void)state;
  static const char *const names[] = {"unif", "expo", "clusters"};
  for (int i = 0; i < 3; i++) {
    adj_generate_options options;
    adj_generate_options_init(&options, sizeof options);
    options.name = names[i];
    options.count = 20000;
    options.dim = 3;
    adj_dataset *set = NULL;
    assert_int_equal(adj_dataset_generate(ctx, &options, &set), ADJ_OK);
    adj_join_spec spec;
    adj_join_spec_init(&spec, sizeof spec);
    spec.radius = i == 0 ? 0.05 : 0.005;
    double weights[20000], sums[8] = {0}, all = 0;
    uint32_t home[20000];
    adj_split *split = NULL;
    assert_int_equal(adj_split_weights(ctx, &spec, set, 20000, weights), ADJ_OK);
    assert_int_equal(adj_split_create(ctx, &spec, set, weights, 8, &split), ADJ_OK);
    assert_int_equal(adj_split_home(split, set, home), ADJ_OK);
    for (int p = 0; p < 20000; p++) {
      sums[home[p]] += weights[p];
      all += weights[p];
    }
    for (int r = 0; r < 8; r++)
      assert_true(fabs(sums[r] / (all / 8) - 1) < 0.02);
    adj_split_destroy(split);
    adj_dataset_destroy(set);
  }
}

/* ---- Lists ------------------------------------------------------------------------------------------------------ */

/* Merges two parts of a list in which every sum occurs twice. */
static void lists_merge_by_sum_and_id(void **state) {
  (void)state;
  for (uint32_t k = 1; k < 9; k++)
    for (uint32_t mask = 0; mask < 256; mask++) {
      int64_t ids[2][8], merged[8];
      double sums[2][8], values[8];
      uint32_t many[2] = {0};
      for (uint32_t i = 0; i < 8; i++) { /* entries ascend by (sum, id): sums 0, 0, 1, 1, ... */
        uint32_t side = mask >> i & 1;
        if (many[side] < k) {
          uint32_t sum = i / 2;
          ids[side][many[side]] = 100 - 10 * (int64_t)sum + i % 2;
          sums[side][many[side]++] = sum;
        }
      }
      for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = many[side]; i < k; i++) {
          ids[side][i] = -1;
          sums[side][i] = (double)INFINITY;
        }
      memcpy(merged, ids[0], sizeof merged);
      memcpy(values, sums[0], sizeof values);
      adj_lists to, from;
      adj_lists_init(&to, sizeof to);
      adj_lists_init(&from, sizeof from);
      to.type = from.type = ADJ_F64;
      to.k = from.k = k;
      to.rows = from.rows = 1;
      to.ids = merged;
      to.sums = values;
      from.ids = ids[1];
      from.sums = sums[1];
      assert_int_equal(adj_lists_merge(&to, &from, NULL), ADJ_OK);
      for (uint32_t i = 0; i < k && i < 8; i++) {
        uint32_t sum = i / 2;
        assert_int_equal(merged[i], 100 - 10 * (int64_t)sum + i % 2);
        assert_true(values[i] == sum);
      }
    }
}

/* Merges two lists that share entries: any of eight with two sums each are in the first, in the second or in both. */
static void lists_take_an_id_once(void **state) {
  (void)state;
  for (uint32_t k = 1; k < 9; k++)
    for (uint32_t which = 0; which < 6561; which++) {
      int64_t ids[2][8];
      float sums[2][8];
      uint32_t many[2] = {0}, rest = which;
      for (uint32_t i = 0; i < 8; i++, rest /= 3)
        for (uint32_t side = 0; side < 2; side++)
          if ((rest % 3 == 2 || rest % 3 == side) && many[side] < k) {
            uint32_t sum = i / 2;
            ids[side][many[side]] = i ^ 6;
            sums[side][many[side]++] = (float)sum;
          }
      for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = many[side]; i < 8; i++) {
          ids[side][i] = -1;
          sums[side][i] = INFINITY;
        }
      adj_lists to, from;
      adj_lists_init(&to, sizeof to);
      to.k = k;
      to.rows = 1;
      from = to;
      to.ids = ids[0];
      to.sums = sums[0];
      from.ids = ids[1];
      from.sums = sums[1];
      assert_int_equal(adj_lists_merge(&to, &from, NULL), ADJ_OK);
      for (uint32_t i = 0; i < k; i++) {
        uint32_t sum = i / 2;
        assert_int_equal(ids[0][i], i ^ 6);
        assert_true(sums[0][i] == (float)sum);
      }
    }
}

/* The radius made for a sum reaches that sum. */
static void radii_reach_their_sums(void **state) {
  (void)state;
  static const adj_metric metrics[] = {ADJ_L2, ADJ_L1, ADJ_LINF, ADJ_LP, ADJ_COSINE, ADJ_HAVERSINE};
  uint64_t random = 1;
  for (int m = 0; m < 6; m++)
    for (int i = 0; i < 20000; i++) {
      adj_join_spec spec;
      adj_join_spec_init(&spec, sizeof spec);
      spec.metric = metrics[m];
      spec.p = i % 3 ? 3 : 2.7;
      adj_type type = i % 2 ? ADJ_F32 : ADJ_F64;
      random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      double s = ldexp((double)(random >> 40) + 1, m < 4 ? (int)(random % 180) - 150 : -24 - (int)(random % 40) + 2);
      float narrow = (float)s;
      if (type == ADJ_F32) s = narrow;
      double radius;
      assert_int_equal(adj_sums_radii(&spec, type, 1, type == ADJ_F64 ? (void *)&s : (void *)&narrow, &radius), ADJ_OK);
      spec.radius = radius;
      assert_true(reference_threshold(&spec, type) >= s);
    }
}

/* ---- Refusals --------------------------------------------------------------------------------------------------- */

static void what_is_wrong_is_named(void **state) {
  (void)state;
  float points[] = {0, 0, 1, 1};
  double weights[] = {1, -1};
  uint32_t home[2] = {0, 7};
  uint64_t counts[1];
  char bytes[64] = "nonsense";
  adj_dataset *set = make_set(ADJ_F32, 2, 2, points), *other = make_set(ADJ_F32, 1, 2, points);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 1;
  adj_split *split = NULL;
  assert_int_equal(adj_split_create(ctx, &spec, set, weights, 2, &split), ADJ_E_ARGUMENT);
  assert_non_null(strstr(adj_last_error(), "weights[1]"));
  assert_int_equal(adj_split_create(ctx, &spec, set, NULL, 0, &split), ADJ_E_ARGUMENT);
  assert_int_equal(adj_split_load(ctx, &spec, ADJ_F32, 2, bytes, sizeof bytes, &split), ADJ_E_FORMAT);
  spec.metric = ADJ_DOT;
  assert_int_equal(adj_split_create(ctx, &spec, set, NULL, 2, &split), ADJ_E_UNSUPPORTED);
  spec.metric = ADJ_L2;
  assert_int_equal(adj_split_create(ctx, &spec, set, NULL, 1, &split), ADJ_OK);
  assert_int_equal(adj_split_halo(split, set, home, NULL, counts, NULL), ADJ_E_ARGUMENT);
  assert_non_null(strstr(adj_last_error(), "home[1]"));
  assert_int_equal(adj_split_home(split, other, home), ADJ_E_ARGUMENT);
  adj_split_destroy(split);
  adj_split_destroy(NULL);
  adj_dataset_destroy(set);
  adj_dataset_destroy(other);
}

/* Cuts of unit vectors do not fit the points themselves, nor do cuts of one type fit points of the other. */
static void cuts_of_other_points_are_refused(void **state) {
  (void)state;
  static const float points[] = {1, 0, 0, 1, 0.5F, 0.5F, 1, 1};
  char buffer[4096];
  uint64_t bytes = 0;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.metric = ADJ_COSINE;
  spec.radius = 0.1;
  adj_dataset *set = make_set(ADJ_F32, 2, 4, points);
  adj_split *split = NULL, *loaded = NULL;
  assert_int_equal(adj_split_create(ctx, &spec, set, NULL, 2, &split), ADJ_OK);
  assert_int_equal(adj_split_save(split, buffer, sizeof buffer, &bytes), ADJ_OK);
  assert_true(bytes <= sizeof buffer);
  assert_int_equal(adj_split_load(ctx, &spec, ADJ_F64, 2, buffer, bytes, &loaded), ADJ_E_FORMAT);
  spec.metric = ADJ_L2;
  assert_int_equal(adj_split_load(ctx, &spec, ADJ_F32, 2, buffer, bytes, &loaded), ADJ_E_FORMAT);
  spec.metric = ADJ_COSINE;
  assert_int_equal(adj_split_load(ctx, &spec, ADJ_F32, 2, buffer, bytes, &loaded), ADJ_OK);
  adj_split_destroy(loaded);
  adj_split_destroy(split);
  adj_dataset_destroy(set);
}

/* With one byte changed, bytes are a split or refused. Nothing is read out of bounds (see the address sanitizer). */
static void changed_bytes_do_no_harm(void **state) {
  (void)state;
  float points[64];
  for (int i = 0; i < 64; i++)
    points[i] = (float)(i * 37 % 64);
  adj_dataset *set = make_set(ADJ_F32, 2, 32, points);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 1;
  adj_split *split = NULL;
  char buffer[2048];
  uint32_t home[32];
  uint64_t bytes, counts[64];
  assert_int_equal(adj_split_create(ctx, &spec, set, NULL, 5, &split), ADJ_OK);
  assert_int_equal(adj_split_save(split, buffer, sizeof buffer, &bytes), ADJ_OK);
  assert_true(bytes < sizeof buffer);
  for (uint64_t i = 0; i < bytes * 8; i++) {
    adj_split *changed = NULL;
    buffer[i / 8] ^= (char)(1 << i % 8);
    if (adj_split_load(ctx, &spec, ADJ_F32, 2, buffer, bytes, &changed) == ADJ_OK) {
      assert_int_equal(adj_split_home(changed, set, home), ADJ_OK);
      assert_int_equal(adj_split_halo(changed, set, home, NULL, counts, NULL), ADJ_OK);
      adj_split_destroy(changed);
    }
    buffer[i / 8] ^= (char)(1 << i % 8);
  }
  adj_split_destroy(split);
  adj_dataset_destroy(set);
}

static int start(void **state) {
  (void)state;
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  return adj_ctx_create(&options, &ctx);
}

static int stop(void **state) {
  (void)state;
  adj_ctx_destroy(ctx);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(regions_have_the_rows_of_the_whole_join),
      cmocka_unit_test(visitors_come_from_the_border),
      cmocka_unit_test(halos_hold_what_their_queries_reach),
      cmocka_unit_test(regions_weigh_the_same),
      cmocka_unit_test(lists_merge_by_sum_and_id),
      cmocka_unit_test(lists_take_an_id_once),
      cmocka_unit_test(radii_reach_their_sums),
      cmocka_unit_test(what_is_wrong_is_named),
      cmocka_unit_test(cuts_of_other_points_are_refused),
      cmocka_unit_test(changed_bytes_do_no_harm),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
