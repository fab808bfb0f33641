/* SPDX-License-Identifier: MIT
 *
 * The bounds of brute force on a GPU (gpu/brute/prefilter_tensor.h), tested without a GPU. Copies are rounded here as
 * on the device, and their products are added up as a tensor core might. In a set of points, none of the k nearest may
 * have a value below the bound that follows from the k-th largest value.
 */
#include "gpu/brute/prefilter_tensor.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tensor_model.h"

enum { MOST_DIM = 256, POINTS = 96 };

typedef struct copied {
  double values[MOST_DIM], norm_sq;
  float start, error;
} copied;

/* Makes a copy in f32, eight dimensions at a time, as the device does. */
static void copy(const adji_tensor_rules *rules, float scale, const float *centre, const float *x, copied *to) {
  float rest_sq = 0;
  memset(to, 0, sizeof *to);
  for (uint32_t first = 0; first < rules->dim; first += 8) {
    float sum = 0;
    for (uint32_t j = first; j < first + 8 && j < rules->dim; j++) {
      float z = (x[j] - centre[j]) * scale, rounded = (float)adji_halves_round((double)z);
      to->values[j] = (double)rounded;
      rest_sq += (z - rounded) * (z - rounded);
      sum += rounded * rounded;
    }
    to->norm_sq += (double)sum;
  }
  to->start = (float)(-to->norm_sq / 2);
  to->error = adji_tensor_error((double)rest_sq, to->norm_sq);
}

/* How points lie. */
typedef struct placement {
  double spread, offset;
  double near; /* most points are this near the query, as a fraction of the spread */
  bool lattice;
} placement;

static int descending(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x < y) - (x > y);
}

static int ascending(const void *a, const void *b) {
  return descending(b, a);
}

static float coordinate(const placement *l) {
  double u = random_unit() - 0.5;
  if (l->lattice) u = floor(u * 8) / 8;
  return (float)(l->offset + l->spread * u);
}

/* A query and points: their values and sums. */
typedef struct scene {
  adji_tensor_rules rules;
  double scale, norm_sq, error;
  float values[POINTS], sums[POINTS];
  float near[POINTS], nearer[POINTS]; /* squared gaps to the box of a point, and of its group up to it */
} scene;

/* Adds a point to the box of its group of eight. Sets the sums of squared gaps to the box of the point alone, and to
 * the box of the group so far. */
static void add_box(const copied *query, const copied *point, uint32_t dim, float (*box)[2], uint32_t i, scene *to) {
  float alone = 0, together = 0;
  for (uint32_t j = 0; j < dim; j++) {
    float x = (float)query->values[j], y = (float)point->values[j];
    box[j][0] = i % 8 ? fminf(box[j][0], y) : y;
    box[j][1] = i % 8 ? fmaxf(box[j][1], y) : y;
    float c = (box[j][0] + box[j][1]) / 2;
    alone = adji_tensor_add_gap(alone, x, y, adji_tensor_box_half(y, y, y));
    together = adji_tensor_add_gap(together, x, c, adji_tensor_box_half(box[j][0], box[j][1], c));
  }
  to->near[i] = alone;
  to->nearer[i] = together;
}

static void make_scene(uint32_t dim, const placement *l, uint32_t group, scene *to) {
  float x[MOST_DIM], y[MOST_DIM], centre[MOST_DIM], scale = (float)ldexp(0x1p10, -ilogb(l->spread)), most = 0;
  float box[MOST_DIM][2];
  copied query, point;
  to->rules = adji_tensor_rules_of(dim, false);
  to->scale = (double)scale;
  for (uint32_t j = 0; j < dim; j++) {
    centre[j] = (float)l->offset;
    x[j] = coordinate(l);
  }
  copy(&to->rules, scale, centre, x, &query);
  for (uint32_t i = 0; i < POINTS; i++) {
    double step = i % 3 ? l->near * (1 + 1e-6 * random_unit()) : 1;
    for (uint32_t j = 0; j < dim; j++)
      y[j] = l->lattice ? coordinate(l) : (float)((double)x[j] + step * ((double)coordinate(l) - (double)x[j]));
    copy(&to->rules, scale, centre, y, &point);
    most = fmaxf(most, point.error);
    to->values[i] = (float)tensor_product((tensor_unit){group, 23, false}, (double)point.start, query.values,
                                          point.values, to->rules.width);
    to->sums[i] = canonical(x, y, dim);
    if (dim <= ADJI_TENSOR_MOST_SKIP_DIM) add_box(&query, &point, dim, box, i, to);
  }
  to->norm_sq = query.norm_sq;
  to->error = (double)query.error + (double)most;
}

/* No box of a point whose sum is at most the limit may be farther away than the reach. */
static void check_boxes(const scene *s, float limit, double reach, const char *what) {
  double by_radius = adji_tensor_reach_of(&s->rules, s->scale, (double)limit);
  float p_sq = adji_tensor_reach_sq(reach < by_radius ? reach : by_radius, s->error);
  for (uint32_t i = 0; i < POINTS; i++)
    if (s->sums[i] <= limit && (s->near[i] > p_sq || s->nearer[i] > p_sq))
      fail_msg("%s, %u-D: the box of one of the nearest is skipped", what, s->rules.dim);
}

/* For one k: returns how many values are below the bound. None of the k nearest may be among these. */
static uint64_t check_bound(const scene *s, uint32_t k, const char *what) {
  float values[POINTS], sums[POINTS];
  memcpy(values, s->values, sizeof values);
  memcpy(sums, s->sums, sizeof sums);
  qsort(values, POINTS, sizeof *values, descending);
  qsort(sums, POINTS, sizeof *sums, ascending);
  double r = adji_tensor_farthest(&s->rules, s->norm_sq, (double)values[k - 1]);
  double reach = adji_tensor_reach(&s->rules, s->scale, r, s->error);
  float bound = adji_tensor_bound(&s->rules, s->norm_sq, reach, s->error);
  float by_radius = adji_tensor_bound(&s->rules, s->norm_sq,
                                      adji_tensor_reach_of(&s->rules, s->scale, (double)sums[k - 1]), s->error);
  uint64_t dropped = 0;
  for (uint32_t i = 0; i < POINTS; i++) {
    bool belongs = s->sums[i] <= sums[k - 1];
    if (belongs && (s->values[i] < bound || s->values[i] < by_radius))
      fail_msg("%s, %u-D, k %u: one of the nearest is dropped", what, s->rules.dim, k);
    dropped += s->values[i] < bound;
  }
  if (s->rules.dim <= ADJI_TENSOR_MOST_SKIP_DIM) check_boxes(s, sums[k - 1], reach, what);
  return dropped;
}

static void none_of_the_nearest_is_dropped(void **unused) {
  (void)unused;
  static const uint32_t dims[] = {1, 2, 7, 8, 16, 17, 33, 64, 100, 200}, ks[] = {1, 2, 10, 50, POINTS},
                        groups[] = {4, 8, 16};
  static const placement ways[] = {{1, 0, 1, false},       {1, 0, 1e-3, false},    {1e-3, 0.7, 0.1, false},
                                   {1e6, 1e9, 0.5, false}, {1e-18, 0, 0.1, false}, {1e17, -1e17, 0.3, false},
                                   {1e-30, 0, 0.1, false}, {8, 0, 1, true},        {8, 4096, 1, true}};
  uint64_t dropped = 0;
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
      for (int times = 0; times < 12; times++) {
        scene s;
        make_scene(dims[d], &ways[w], groups[times % 3], &s);
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
          char what[64];
          snprintf(what, sizeof what, "spread %g, offset %g", ways[w].spread, ways[w].offset);
          dropped += check_bound(&s, ks[i], what);
        }
      }
  assert_true(dropped > 50000); /* the prefilter drops many points */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(none_of_the_nearest_is_dropped)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
