/* SPDX-License-Identifier: MIT
 *
 * The bounds of brute force by matrix products (gpu/brute/prefilter_gemm.h), tested without a GPU. Copies and norms are
 * made as on the device. Products are added up in many orders, and each pair takes the worst one. Errors are measured
 * against sums in pairs of doubles, whose own error is negligible. For a set of points, none of the k nearest may be
 * lost if the bound says that the list of the largest values has them all.
 */
#include "gpu/brute/prefilter_gemm.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tensor_model.h"

enum { MOST_DIM = 256, POINTS = 96, ORDERS = 8 };

/* ---- Arithmetic of either type, in doubles ---------------------------------------------------------------- */

/* Rounding to f64 first is harmless: a sum or a product of two f32 is then still rounded correctly to f32. */
static double rounded(double x, bool f64) {
  return f64 ? x : (double)(float)x;
}

static double fused(double a, double b, double c, bool f64) {
  return f64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}

static double canonical_sum(const double *x, const double *y, uint32_t dim, bool f64) {
  double s = 0;
  for (uint32_t j = 0; j < dim; j++) {
    double t = rounded(x[j] - y[j], f64);
    s = fused(t, t, s, f64);
  }
  return s;
}

/* A number as the sum of two. */
typedef struct pair {
  double high, low;
} pair;

static pair add_to(pair a, double b) {
  double sum = a.high + b, part = sum - a.high;
  double rest = (a.high - (sum - part)) + (b - part) + a.low;
  return (pair){sum + rest, rest - ((sum + rest) - sum)};
}

static pair exact_product(pair start, const double *x, const double *y, uint32_t dim) {
  for (uint32_t j = 0; j < dim; j++) {
    double p = x[j] * y[j];
    start = add_to(add_to(start, p), fma(x[j], y[j], -p));
  }
  return start;
}

/* ---- Orders ----------------------------------------------------------------------------------------------- */

static uint32_t random_below(uint32_t n) {
  return (uint32_t)(random_unit() * n);
}

/* Adds products to `parts` sums in turn, fused or not, and then adds these sums one after the other. */
static double add_in_parts(const double *x, const double *y, const uint32_t *order, uint32_t dim, uint32_t parts,
                           bool fuse, bool f64) {
  double sums[MOST_DIM] = {0}, all = 0;
  for (uint32_t i = 0; i < dim; i++) {
    uint32_t j = order[i];
    double *s = &sums[i % parts];
    *s = fuse ? fused(x[j], y[j], *s, f64) : rounded(*s + rounded(x[j] * y[j], f64), f64);
  }
  for (uint32_t i = 0; i < parts && i < dim; i++)
    all = rounded(all + sums[i], f64);
  return all;
}

/* Adds any two of the sums, until one is left. */
static double add_at_random(const double *x, const double *y, uint32_t dim, bool f64) {
  double sums[MOST_DIM] = {0};
  for (uint32_t j = 0; j < dim; j++)
    sums[j] = rounded(x[j] * y[j], f64);
  for (uint32_t remaining = dim; remaining > 1; remaining--) {
    uint32_t a = random_below(remaining), b = random_below(remaining - 1);
    double last = sums[remaining - 1], taken = sums[a];
    sums[a] = last;
    sums[b] = rounded(sums[b] + taken, f64);
  }
  return sums[0];
}

static double product_in_order(const double *x, const double *y, uint32_t dim, uint32_t which, bool f64) {
  static const uint32_t parts[] = {1, 1, 1, 2, 4, 16, 8};
  uint32_t order[MOST_DIM];
  if (which == ORDERS - 1) return add_at_random(x, y, dim, f64);
  for (uint32_t j = 0; j < dim; j++)
    order[j] = which == 1 ? dim - 1 - j : j;
  for (uint32_t j = dim; which >= 2 && j > 1; j--) {
    uint32_t other = random_below(j), kept = order[j - 1];
    order[j - 1] = order[other];
    order[other] = kept;
  }
  return add_in_parts(x, y, order, dim, parts[which], which % 2 == 0, f64);
}

/* ---- Points ----------------------------------------------------------------------------------------------- */

typedef struct copied {
  double values[MOST_DIM], norm_sq, half;
} copied;

static void copy(double scale, const double *centre, const double *x, uint32_t dim, bool f64, copied *to) {
  to->norm_sq = 0;
  for (uint32_t j = 0; j < dim; j++) {
    to->values[j] = rounded(rounded(x[j] - centre[j], f64) * scale, f64);
    to->norm_sq += to->values[j] * to->values[j];
  }
  to->half = rounded(to->norm_sq / 2, f64);
}

/* How points lie. DUST: the first coordinate is large. The squares of the others vanish when they are added to its
 * square one by one. */
typedef enum kind { CLOUD, LATTICE, DUST } kind;
typedef struct placement {
  double spread, offset;
  double near; /* most points are this near the query, as a fraction of the spread */
  kind kind;
} placement;

static double coordinate(const placement *l, uint32_t j, bool f64) {
  double u = random_unit() - 0.5;
  if (l->kind == LATTICE) u = floor(u * 8) / 8;
  if (l->kind == DUST) u = j ? (f64 ? 0x1.63p-27 : 0x1.f8p-13) * (1 + 0.01 * u) : 1 + 0x1p-10 * u;
  return rounded(l->offset + l->spread * u, f64);
}

/* A query and points: their sums, and the smallest and largest value over all orders of adding. */
typedef struct scene {
  adji_tensor_rules rules;
  double scale, norm_sq, error;
  double least[POINTS], most[POINTS], sums[POINTS];
} scene;

/* The error of w as a fraction of its bound (dim + 3) u S in prefilter_gemm.h. */
static double share_of_error(double w, const copied *x, const copied *y, uint32_t dim, bool f64) {
  pair square = exact_product((pair){0, 0}, y->values, y->values, dim);
  pair exact = exact_product((pair){-square.high / 2, -square.low / 2}, x->values, y->values, dim);
  double magnitude = square.high / 2, off = fabs(add_to(exact, -w).high);
  for (uint32_t j = 0; j < dim; j++)
    magnitude += fabs(x->values[j] * y->values[j]);
  double lost = f64 ? 0x1p-900 : 0x1p-71;
  return off > lost ? (off - lost) / ((dim + 3) * (f64 ? 0x1p-53 : 0x1p-24) * magnitude) : 0;
}

/* Returns the largest such fraction of all values. */
static double make_scene(uint32_t dim, const placement *l, bool f64, scene *to) {
  double x[MOST_DIM], y[MOST_DIM], centre[MOST_DIM], worst = 0;
  copied query, point;
  to->rules = adji_gemm_rules_of(dim, f64);
  to->scale = ldexp(0x1p10, -ilogb(l->spread));
  for (uint32_t j = 0; j < dim; j++) {
    centre[j] = rounded(l->offset, f64);
    x[j] = coordinate(l, j, f64);
  }
  copy(to->scale, centre, x, dim, f64, &query);
  for (uint32_t i = 0; i < POINTS; i++) {
    double step = i % 3 ? l->near * (1 + 1e-6 * random_unit()) : 1;
    for (uint32_t j = 0; j < dim; j++) {
      double other = coordinate(l, j, f64);
      y[j] = l->kind == LATTICE ? other : rounded(x[j] + step * (other - x[j]), f64);
    }
    copy(to->scale, centre, y, dim, f64, &point);
    to->least[i] = INFINITY;
    to->most[i] = -INFINITY;
    for (uint32_t o = 0; o < ORDERS; o++) {
      double w = rounded(product_in_order(query.values, point.values, dim, o, f64) - point.half, f64);
      to->least[i] = fmin(to->least[i], w);
      to->most[i] = fmax(to->most[i], w);
      worst = fmax(worst, share_of_error(w, &query, &point, dim, f64));
    }
    to->sums[i] = canonical_sum(x, y, dim, f64);
  }
  to->norm_sq = query.norm_sq;
  to->error = (double)adji_gemm_error(query.norm_sq, f64);
  return worst;
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

static int ascending(const void *a, const void *b) {
  return descending(b, a);
}

/* ---- Tests ------------------------------------------------------------------------------------------------ */

/* For one k: gives the k nearest their smallest possible values, and the others their largest. Returns how many points
 * are below the bound. None of the k nearest may be among these. */
static uint64_t check_bound(const scene *s, uint32_t k, const char *what) {
  double values[POINTS], sorted[POINTS], sums[POINTS];
  memcpy(sums, s->sums, sizeof sums);
  qsort(sums, POINTS, sizeof *sums, ascending);
  for (uint32_t i = 0; i < POINTS; i++)
    values[i] = sorted[i] = s->sums[i] <= sums[k - 1] ? s->least[i] : s->most[i];
  qsort(sorted, POINTS, sizeof *sorted, descending);
  double r = adji_tensor_farthest(&s->rules, s->norm_sq, sorted[k - 1]);
  double reach = adji_tensor_reach(&s->rules, s->scale, r, s->error);
  double bound = adji_tensor_smallest(&s->rules, s->norm_sq, reach, s->error);
  double radius = adji_tensor_reach_of(&s->rules, s->scale, sums[k - 1]);
  double by_radius = adji_tensor_smallest(&s->rules, s->norm_sq, radius, s->error);
  uint64_t dropped = 0;
  for (uint32_t i = 0; i < POINTS; i++) {
    if (s->sums[i] <= sums[k - 1] && (values[i] < bound || values[i] < by_radius))
      fail_msg("%s, %u-D, k %u: one of the nearest is dropped", what, s->rules.dim, k);
    dropped += values[i] < bound;
  }
  return dropped;
}

static void check_type(bool f64, uint64_t *dropped, double *worst) {
  static const uint32_t dims[] = {1, 2, 3, 7, 8, 17, 33, 64, 100, 200, MOST_DIM}, ks[] = {1, 2, 10, 50, POINTS};
  static const placement ways[] = {{1, 0, 1, CLOUD},       {1, 0, 1e-3, CLOUD},    {1e-3, 0.7, 0.1, CLOUD},
                                   {1e6, 1e9, 0.5, CLOUD}, {1e-18, 0, 0.1, CLOUD}, {1e17, -1e17, 0.3, CLOUD},
                                   {1e-30, 0, 0.1, CLOUD}, {8, 0, 1, LATTICE},     {8, 4096, 1, LATTICE},
                                   {1, 0, 1, DUST},        {1, 0, 1e-2, DUST}};
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
      for (int times = 0; times < 3; times++) {
        scene s;
        double share = make_scene(dims[d], &ways[w], f64, &s);
        char what[96];
        snprintf(what, sizeof what, "%s, spread %g, offset %g", f64 ? "f64" : "f32", ways[w].spread, ways[w].offset);
        if (!(share <= 1)) fail_msg("%s, %u-D: a value is off by %g of what it may be", what, dims[d], share);
        *worst = fmax(*worst, share);
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
          *dropped += check_bound(&s, ks[i], what);
      }
}

static void none_of_the_nearest_is_dropped(void **unused) {
  (void)unused;
  for (int f64 = 0; f64 < 2; f64++) {
    uint64_t dropped = 0;
    double worst = 0;
    check_type(f64, &dropped, &worst);
    assert_true(dropped > 40000); /* the prefilter drops many points */
    assert_true(worst > 0.5);     /* the test comes near the bound */
  }
}

static void lists_are_longer_than_k(void **unused) {
  (void)unused;
  for (uint32_t k = 1; k <= ADJI_GEMM_MOST_K; k++) {
    uint32_t listed = adji_gemm_listed(k, UINT64_C(1) << 33);
    assert_true(listed >= k + ADJI_GEMM_MORE && listed <= ADJI_GEMM_LONGEST);
    assert_int_equal(adji_gemm_listed(k, listed - 1), listed - 1);
  }
  assert_int_equal(adji_gemm_listed(32, 1), 1);
}

static void strays_are_what_no_value_tells(void **unused) {
  (void)unused;
  assert_false(adji_gemm_is_stray(0));
  assert_false(adji_gemm_is_stray(ADJI_GEMM_STRAY));
  assert_true(adji_gemm_is_stray(ADJI_GEMM_STRAY * (1 + DBL_EPSILON)));
  assert_true(adji_gemm_is_stray(INFINITY));
  assert_true(adji_gemm_is_stray(NAN));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(none_of_the_nearest_is_dropped),
                                     cmocka_unit_test(lists_are_longer_than_k),
                                     cmocka_unit_test(strays_are_what_no_value_tells)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
