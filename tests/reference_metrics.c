/* SPDX-License-Identifier: MIT
 *
 * The canonical distance of every metric, written from docs/exactness.md alone.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

static double rounded_to(adj_type type, double x) {
  return type == ADJ_F64 ? x : (double)(float)x;
}

static double coordinate(adj_type type, const void *point, uint32_t j) {
  return type == ADJ_F64 ? ((const double *)point)[j] : (double)((const float *)point)[j];
}

static void set_coordinate(adj_type type, void *point, uint32_t j, double x) {
  if (type == ADJ_F64)
    ((double *)point)[j] = x;
  else
    ((float *)point)[j] = (float)x;
}

/* c[0] z^(n-1) + ... + c[n-1], by Horner's rule with fma. */
static double horner(const double *c, int n, double z) {
  double sum = c[0];
  for (int i = 1; i < n; i++)
    sum = fma(sum, z, c[i]);
  return sum;
}

/* ---- Powers ------------------------------------------------------------------------------------------ */

static void binary_logarithm(double x, double *high, double *low) {
  int e;
  double m = frexp(x, &e);
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2;
    e--;
  }
  double g = m + 1, f = (m - 1) / g;
  double f2 = fma(-f, m - (g - 1), fma(-f, g, m - 1)) / g;
  double c[11], z = f * f;
  for (int k = 0; k < 11; k++)
    c[k] = 2.0 / (23 - 2 * k);
  double rest = fma(f * z, horner(c, 11, z), 2 * f2);
  double l = fma(2, f, rest), l2 = rest - fma(-2, f, l);
  double a = l * 0x1.71547652b82fep+0;
  double b = fma(l, 0x1.71547652b82fep+0, -a) + fma(l, 0x1.777d0ffda0d24p-56, l2 * 0x1.71547652b82fep+0);
  *high = e + a;
  *low = ((e - *high) + a) + b;
}

/* x^y in f64, by logarithm and exponential. */
static double general_power(double x, double y) {
  static const double c[14] = {0x1.816193166d0f9p-40, 0x1.c3bd650fc2986p-36,
                               0x1.e8cac7351bb25p-32, 0x1.e4cf5158b8ecap-28,
                               0x1.b5253d395e7c4p-24, 0x1.62c0223a5c824p-20,
                               0x1.ffcbfc588b0c7p-17, 0x1.430912f86c787p-13,
                               0x1.5d87fe78a6731p-10, 0x1.3b2ab6fba4e77p-7,
                               0x1.c6b08d704a0c0p-5,  0x1.ebfbdff82c58fp-3,
                               0x1.62e42fefa39efp-1,  1};
  if (x == 0 || isinf(x)) return x;
  double high, low;
  binary_logarithm(x, &high, &low);
  double w = y * high, w2 = fma(y, low, fma(y, high, -w));
  if (w >= 1200) return INFINITY;
  if (w <= -1200) return 0;
  double n = rint(w);
  return ldexp(horner(c, 14, (w - n) + w2), (int)n);
}

/* x^p in the type of the data. */
static double lp_power(adj_type type, double x, double p) {
  if (p > 16 || p != floor(p)) return rounded_to(type, general_power(x, p));
  double power = x;
  int bit = 16;
  while (bit > p)
    bit /= 2;
  for (bit /= 2; bit; bit /= 2) {
    power = rounded_to(type, power * power);
    if ((int)p & bit) power = rounded_to(type, power * x);
  }
  return power;
}

/* ---- Angles ------------------------------------------------------------------------------------------ */

/* The sine or cosine of the angle a + b, |a| <= pi/4. */
static double sine(double a, double b) {
  double c[8], factorial = 1, z = a * a;
  for (int k = 1; k <= 8; k++) {
    factorial *= (2 * k) * (2 * k + 1);
    c[8 - k] = (k % 2 ? -1.0 : 1.0) / factorial;
  }
  return a + fma(a * z, horner(c, 8, z), b);
}

static double cosine(double a, double b) {
  double c[8], factorial = 2, z = a * a;
  for (int k = 2; k <= 9; k++) {
    factorial *= (2 * k - 1) * (2 * k);
    c[9 - k] = (k % 2 ? -1.0 : 1.0) / factorial;
  }
  double h = 0.5 * z, w = 1 - h;
  return w + (((1 - w) - h) + fma(z * z, horner(c, 8, z), -(a * b)));
}

/* The sine of an angle plus `quarters` quarter turns. quarters = 1 gives the cosine. */
static double sine_of(double x, adj_angle angle, int quarters) {
  double k, a, b;
  if (angle == ADJ_DEGREES) {
    double rest = remainder(x, 360);
    k = rint(rest * (1.0 / 90));
    rest -= 90 * k;
    a = rest * 0x1.1df46a2529d39p-6;
    b = fma(rest, 0x1.5c1d8becdd291p-62, fma(rest, 0x1.1df46a2529d39p-6, -a));
  } else {
    k = rint(x * 0x1.45f306dc9c883p-1);
    double first = fma(-k, 0x1.921fb54400000p+0, x), second = k * 0x1.0b4611a600000p-34;
    a = first - second;
    b = fma(-k, 0x1.3198a2e037073p-69, (first - a) - second);
  }
  switch (((int)k + quarters) & 3) {
    case 0:
      return sine(a, b);
    case 1:
      return cosine(a, b);
    case 2:
      return -sine(a, b);
    default:
      return -cosine(a, b);
  }
}

static double arc_sine(double h) {
  static const double c[13] = {0x1.d72b2bc8155f8p-6, -0x1.e6aaa8a0a04ccp-7, 0x1.1d189408314eep-6, 0x1.65a9c4dfcf8b2p-8,
                               0x1.52420b04b37bep-7, 0x1.782651caa6547p-7,  0x1.c9cf07674736ap-7, 0x1.1c4d35cf95421p-6,
                               0x1.6e8bb1c8209a2p-6, 0x1.f1c71c1db0623p-6,  0x1.6db6db6e31f13p-5, 0x1.3333333332ecap-4,
                               0x1.5555555555556p-3};
  if (h > 0.5) return fma(-2, arc_sine(sqrt((1 - h) / 2)), 0x1.921fb54442d18p+0);
  double z = h * h;
  return fma(h * z, horner(c, 13, z), h);
}

static double unit_of(const adj_join_spec *spec) {
  if (spec->unit == ADJ_UNIT_DEGREES) return 180 / 0x1.921fb54442d18p+1;
  if (spec->unit == ADJ_UNIT_RADIANS) return 1;
  return spec->sphere_radius > 0 ? spec->sphere_radius : 6371008.8;
}

/* ---- Derived points ---------------------------------------------------------------------------------- */

static void normalise(adj_type type, const void *point, uint32_t dim, void *out) {
  double largest = 0, sum = 0;
  for (uint32_t j = 0; j < dim; j++)
    largest = fmax(largest, fabs(coordinate(type, point, j)));
  int exponent = ilogb(largest) + 1;
  for (uint32_t j = 0; j < dim; j++) {
    double x = scalbn(coordinate(type, point, j), -exponent);
    sum = fma(x, x, sum);
  }
  for (uint32_t j = 0; j < dim; j++)
    set_coordinate(type, out, j, scalbn(coordinate(type, point, j), -exponent) / sqrt(sum));
}

static void to_sphere(adj_type type, adj_angle angle, const void *point, void *out) {
  double longitude = coordinate(type, point, 0), latitude = coordinate(type, point, 1);
  double flat = sine_of(latitude, angle, 1);
  set_coordinate(type, out, 0, flat * sine_of(longitude, angle, 1));
  set_coordinate(type, out, 1, flat * sine_of(longitude, angle, 0));
  set_coordinate(type, out, 2, sine_of(latitude, angle, 0));
}

bool reference_is_derived(const adj_join_spec *spec) {
  return spec->metric == ADJ_COSINE || spec->metric == ADJ_HAVERSINE;
}

/* Derives the point that is measured. Returns its dimension. */
static uint32_t derive_point(const adj_join_spec *spec, adj_type type, const void *point, uint32_t dim, void *out) {
  if (spec->metric == ADJ_HAVERSINE) {
    to_sphere(type, spec->angle, point, out);
    return 3;
  }
  normalise(type, point, dim, out);
  return dim;
}

bool reference_derive(const adj_join_spec *spec, const point_set *set, point_set *out) {
  *out = *set;
  if (spec->metric == ADJ_HAVERSINE) out->dim = 3;
  out->data = calloc(set->count * out->dim + 1, type_size(set->type));
  for (uint64_t i = 0; out->data && i < set->count; i++)
    derive_point(spec, set->type, row_of(set, i), set->dim, (char *)out->data + i * out->dim * type_size(set->type));
  return out->data != NULL;
}

/* ---- The canonical value ------------------------------------------------------------------------------ */

/* The metric that is measured, after the special cases of Lp. */
static adj_metric plain_metric(const adj_join_spec *spec) {
  if (reference_is_derived(spec)) return ADJ_L2;
  if (spec->metric != ADJ_LP) return spec->metric;
  return spec->p == 1 ? ADJ_L1 : spec->p == 2 ? ADJ_L2 : isinf(spec->p) ? ADJ_LINF : ADJ_LP;
}

/* The distance in one dimension: |t|; in a periodic dimension the shorter way round. */
static double way(const adj_join_spec *spec, adj_type type, double a, double b, uint32_t j) {
  double t = fabs(rounded_to(type, a - b));
  double length = spec->box_count ? rounded_to(type, spec->box[spec->box_count == 1 ? 0 : j]) : 0;
  if (length > 0) t = fmin(t, rounded_to(type, length - t));
  return t;
}

static double fused(adj_type type, double x, double y, double z) {
  return type == ADJ_F64 ? fma(x, y, z) : (double)fmaf((float)x, (float)y, (float)z);
}

static double value_of(const adj_join_spec *spec, adj_type type, const void *a, const void *b, uint32_t dim) {
  adj_metric metric = plain_metric(spec);
  double s = 0;
  for (uint32_t j = 0; j < dim; j++) {
    double x = coordinate(type, a, j), y = coordinate(type, b, j);
    double t = metric == ADJ_DOT ? 0 : way(spec, type, x, y, j);
    if (metric == ADJ_L2) s = fused(type, t, t, s);
    if (metric == ADJ_L1) s = rounded_to(type, s + t);
    if (metric == ADJ_LINF) s = fmax(s, t);
    if (metric == ADJ_LP) s = rounded_to(type, s + lp_power(type, t, spec->p));
    if (metric == ADJ_DOT) s = fused(type, x, y, s);
  }
  return metric == ADJ_DOT ? 0 - s : s;
}

/* Simple loops for the simple metrics, as most of the tests' time goes into them. */
static float plain_f32(adj_metric metric, const float *a, const float *b, uint32_t dim) {
  float s = 0;
  for (uint32_t j = 0; j < dim; j++) {
    float t = a[j] - b[j];
    if (metric == ADJ_L2) s = fmaf(t, t, s);
    if (metric == ADJ_L1) s = s + fabsf(t);
    if (metric == ADJ_LINF) s = fabsf(t) > s ? fabsf(t) : s;
  }
  return s;
}

static double plain_f64(adj_metric metric, const double *a, const double *b, uint32_t dim) {
  double s = 0;
  for (uint32_t j = 0; j < dim; j++) {
    double t = a[j] - b[j];
    if (metric == ADJ_L2) s = fma(t, t, s);
    if (metric == ADJ_L1) s = s + fabs(t);
    if (metric == ADJ_LINF) s = fabs(t) > s ? fabs(t) : s;
  }
  return s;
}

double reference_measured_value(const adj_join_spec *spec, adj_type type, const void *a, const void *b, uint32_t dim) {
  adj_metric metric = plain_metric(spec);
  if (metric > ADJ_LINF || spec->box_count) return value_of(spec, type, a, b, dim);
  return type == ADJ_F64 ? plain_f64(metric, a, b, dim) : (double)plain_f32(metric, a, b, dim);
}

double reference_value(const adj_join_spec *spec, adj_type type, const void *a, const void *b, uint32_t dim) {
  if (!reference_is_derived(spec)) return reference_measured_value(spec, type, a, b, dim);
  double x[REFERENCE_MOST_DIM], y[REFERENCE_MOST_DIM]; /* room for either type */
  derive_point(spec, type, a, dim, x);
  dim = derive_point(spec, type, b, dim, y);
  return reference_measured_value(spec, type, x, y, dim);
}

double reference_threshold(const adj_join_spec *spec, adj_type type) {
  double r = rounded_to(type, spec->radius);
  if (spec->metric == ADJ_DOT) return isinf(spec->radius) ? INFINITY : 0 - r;
  if (spec->metric == ADJ_COSINE) return rounded_to(type, 2 * r);
  if (spec->metric == ADJ_HAVERSINE) {
    double angle = spec->radius / unit_of(spec);
    if (!(angle < 0x1.921fb54442d18p+1)) return INFINITY;
    double chord = 2 * sine_of(angle * 0.5, ADJ_RADIANS, 0);
    return rounded_to(type, chord * chord);
  }
  adj_metric metric = plain_metric(spec);
  if (metric == ADJ_LP) return lp_power(type, r, spec->p);
  return metric == ADJ_L2 ? rounded_to(type, r * r) : r;
}

double reference_distance(const adj_join_spec *spec, adj_type type, double value) {
  if (spec->metric == ADJ_DOT) return 0 - value;
  if (isinf(value)) return value;
  if (spec->metric == ADJ_COSINE) return rounded_to(type, value / 2);
  if (spec->metric == ADJ_HAVERSINE) return rounded_to(type, 2 * arc_sine(fmin(sqrt(value) * 0.5, 1)) * unit_of(spec));
  adj_metric metric = plain_metric(spec);
  if (metric == ADJ_LP) return rounded_to(type, general_power(value, 1 / spec->p));
  return metric == ADJ_L2 ? rounded_to(type, sqrt(value)) : value;
}
