/* SPDX-License-Identifier: MIT
 *
 * The bound of half-precision copies (gpu/shared/halves.h), tested pair by pair without a GPU. Points lie at all
 * distances from the radius. Copies are rounded here, and their products are added up as a tensor core might. A pair
 * whose canonical sum is within the limit must never be dropped.
 */
#include "gpu/shared/halves.h"

#include <float.h>
#include <stdbool.h>
#include <stdlib.h>

#include "check.h"
#include "tensor_model.h"

enum { MOST_DIM = 128, PAIRS = 400 };

typedef struct copied {
  double values[MOST_DIM + 64];
  float v, error;
} copied;

static void copy(const adji_halves_scale *scale, const float *centre, const float *x, copied *to) {
  double rest_sq = 0, norm_sq = 0;
  for (uint32_t j = 0; j < scale->width; j++)
    to->values[j] = 0;
  for (uint32_t j = 0; j < scale->dim; j++) {
    double z = ((double)x[j] - (double)centre[j]) * scale->scale;
    to->values[j] = adji_halves_round(z);
    rest_sq += (z - to->values[j]) * (z - to->values[j]);
    norm_sq += to->values[j] * to->values[j];
  }
  to->error = adji_halves_error(rest_sq, norm_sq);
  to->v = adji_halves_candidate(scale, norm_sq, to->error);
}

/* The value d of halves.h. */
static double product(const copied *x, const copied *y, float u, float v, uint32_t width, uint32_t group) {
  return tensor_product((tensor_unit){group, 23, false}, (double)(-u - v), x->values, y->values, width);
}

static adji_halves_scale scale_of(uint32_t dim, float limit, int exponent) {
  adji_halves_scale scale = {.dim = dim, .width = adji_halves_width(dim), .scale = ldexp(1, exponent)};
  scale.gamma = adji_halves_gamma(scale.width);
  scale.reach = adji_halves_reach((double)limit, dim, scale.scale);
  scale.stray = 0.125 * scale.reach;
  return scale;
}

/* Points of a spread around an offset. The radius is about the distance of two of them. Every second point is moved to
 * that distance from the point before it, give or take some ulps. */
static void try_points(uint32_t dim, double spread, double offset, double share, uint64_t *near, uint64_t *dropped) {
  static const uint32_t groups[] = {4, 8, 16};
  float x[MOST_DIM], y[MOST_DIM], centre[MOST_DIM];
  double radius = share * spread * sqrt(dim);
  float limit = (float)radius * (float)radius;
  adji_halves_scale scale = scale_of(dim, limit, 13 - ilogb(spread * 4));
  for (uint32_t j = 0; j < dim; j++)
    centre[j] = (float)(offset + spread * random_unit() * 0.1);
  for (int i = 0; i < PAIRS; i++) {
    double length = 0, direction[MOST_DIM],
           factor = i % 4 == 3 ? random_unit() * 4 : 1 + (random_unit() - 0.5) * 0x1p-20;
    for (uint32_t j = 0; j < dim; j++) {
      direction[j] = random_unit() - 0.5;
      length += direction[j] * direction[j];
      x[j] = (float)(offset + spread * (random_unit() - 0.5));
    }
    for (uint32_t j = 0; j < dim; j++)
      y[j] = (float)((double)x[j] + direction[j] / sqrt(length) * radius * factor);
    copied a, b;
    copy(&scale, centre, x, &a);
    copy(&scale, centre, y, &b);
    bool stray = adji_halves_is_stray(&scale, b.error);
    float u = adji_halves_query(&scale, a.v, a.error, stray ? 0 : b.error);
    bool belongs = canonical(x, y, dim) <= limit;
    *near += belongs;
    for (int g = 0; g < 3; g++) {
      bool dropped_here = signbit(product(&a, &b, u, b.v, scale.width, groups[g]));
      if (belongs && dropped_here) fail_msg("%u-D, spread %g, offset %g: a pair that belongs", dim, spread, offset);
      *dropped += dropped_here;
    }
  }
}

static void no_pair_that_belongs_is_dropped(void **unused) {
  (void)unused;
  static const uint32_t dims[] = {1, 2, 7, 8, 16, 17, 33, 64, 90, 100, 128};
  static const double shares[] = {0.01, 0.1, 0.3, 1};
  uint64_t near = 0, dropped = 0;
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
      try_points(dims[d], 1, 0, shares[s], &near, &dropped);
      try_points(dims[d], 1e-3, 0.7, shares[s], &near, &dropped);
      try_points(dims[d], 1e6, 1e9, shares[s], &near, &dropped);
      try_points(dims[d], 1e-18, 0, shares[s], &near, &dropped);
      try_points(dims[d], 1e17, -1e17, shares[s], &near, &dropped);
    }
  assert_true(near > 10000);    /* pairs close enough to break a wrong bound */
  assert_true(dropped > 10000); /* the prefilter drops many pairs          */
}

/* Exact copies far from the centre, with pairs exactly on the radius. The only error is what a tensor core cuts off.
 * Returns how many of the pairs are dropped. */
static uint64_t drop_on_the_radius(uint32_t dim, int bits) {
  float x[MOST_DIM], y[MOST_DIM], centre[MOST_DIM] = {0};
  uint64_t dropped = 0;
  for (int i = 0; i < PAIRS / 8; i++) {
    for (uint32_t j = 0; j < dim; j++) {
      x[j] = (float)floor((random_unit() - 0.3) * 2000);
      y[j] = x[j] + (float)floor(random_unit() * 3 - 1);
    }
    y[0] = x[0] + 1;
    adji_halves_scale scale = scale_of(dim, canonical(x, y, dim), 0);
    copied a, b;
    copy(&scale, centre, x, &a);
    copy(&scale, centre, y, &b);
    float u = adji_halves_query(&scale, a.v, a.error, b.error);
    for (uint32_t group = 4; group <= 16; group *= 2)
      dropped += signbit(tensor_product((tensor_unit){group, bits, false}, (double)(-u - b.v), a.values, b.values,
                                        scale.width)) != 0;
  }
  return dropped;
}

static void exact_copies_on_the_radius_pass(void **unused) {
  (void)unused;
  for (uint32_t dim = 1; dim <= MOST_DIM; dim++)
    assert_int_equal(drop_on_the_radius(dim, 23), 0);
}

/* A start value and tails just under the cut, so that all tails are lost. Returns this largest error as a fraction of
 * what gamma allows. */
static double error_of_tails(uint32_t width, int bits, uint32_t group) {
  double x[ADJI_HALVES_MOST_DIM], y[ADJI_HALVES_MOST_DIM], tail = ldexp(1 - 0x1p-11, -bits);
  for (uint32_t j = 0; j < width; j++) {
    x[j] = 0x1p-10;
    y[j] = tail * 0x1p10;
  }
  double sum = tensor_product((tensor_unit){group, bits, false}, 1, x, y, width), all = 1 + width * tail;
  return (all - sum) / (adji_halves_gamma(width) * all);
}

/* Gamma is not too large either: a unit that is worse by two bits exceeds it. */
static void tails_are_within_gamma(void **unused) {
  (void)unused;
  for (uint32_t width = ADJI_HALVES_STEP; width <= ADJI_HALVES_MOST_DIM; width += ADJI_HALVES_STEP)
    for (uint32_t group = 4; group <= 16; group *= 2) {
      assert_true(error_of_tails(width, 23, group) < 1);
      if (width >= 64) assert_true(error_of_tails(width, 21, group) > 1);
    }
}

/* Points that are cut off, far away or useless to the prefilter always pass. */
static void strays_pass(void **unused) {
  (void)unused;
  adji_halves_scale scale = scale_of(16, 1, 0);
  float x[16] = {0}, y[16], centre[16] = {0};
  for (int i = 0; i < 16; i++)
    y[i] = i % 2 ? 1e6f : FLT_MAX;
  copied a, b;
  copy(&scale, centre, x, &a);
  copy(&scale, centre, y, &b);
  assert_true(adji_halves_is_stray(&scale, b.error));
  assert_false(signbit(product(&a, &b, adji_halves_query(&scale, a.v, a.error, 0), b.v, scale.width, 16)));
  assert_false(signbit(product(&b, &a, adji_halves_query(&scale, b.v, b.error, 0), a.v, scale.width, 16)));
  float absent = ADJI_HALVES_ABSENT;
  assert_true(signbit(product(&b, &a, absent, a.v, scale.width, 16)));
  assert_true(signbit(product(&b, &a, adji_halves_query(&scale, b.v, b.error, 0), absent, scale.width, 16)));
}

/* Every finite half converts to itself, and a value between two halves to one of them. */
static void halves_are_rounded(void **unused) {
  (void)unused;
  for (int bits = 1; bits < 0x7c00; bits++) {
    int exponent = bits >> 10, fraction = bits & 0x3ff;
    double half = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    double ulp = ldexp(1, (exponent ? exponent : 1) - 25);
    assert_true(adji_halves_round(half) == half && adji_halves_round(-half) == -half);
    assert_true(adji_halves_round(half + 0.49 * ulp) == half);
    double above = adji_halves_round(half + 0.51 * ulp);
    assert_true(above == (bits == 0x7bff ? half : half + ulp));
  }
  assert_true(adji_halves_round(0) == 0 && adji_halves_round(1e300) == ADJI_HALVES_LARGEST);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_pair_that_belongs_is_dropped),
      cmocka_unit_test(exact_copies_on_the_radius_pass),
      cmocka_unit_test(tails_are_within_gamma),
      cmocka_unit_test(strays_pass),
      cmocka_unit_test(halves_are_rounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
