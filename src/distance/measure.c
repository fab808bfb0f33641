/* SPDX-License-Identifier: MIT
 *
 * From a radius to the limit of sums, and from sums to distances.
 */
#include "distance/measure.h"

#include "core/angles.h"

/* The squared chord of an angle of `radius` units. From half a turn on everything belongs. */
static double arc_limit(const adji_measure *measure, double radius) {
  double angle = radius / measure->unit;
  if (!(angle < ADJI_PI)) return INFINITY;
  double chord = 2 * adji_circle_radians(angle * 0.5).sin;
  return chord * chord;
}

/* Computed in f64 and rounded to the type once. For f32 that gives the same bits as f32 operations: products of two f32
 * are exact in f64, and the root of an f32 rounds the same way through f64. Whole powers are rounded in the type. */
double adji_limit(const adji_measure *measure, adj_type type, double radius) {
  bool wide = type == ADJ_F64;
  double r = wide ? radius : (double)(float)radius, limit = r;
  if (measure->report == ADJI_REPORT_ROOT) limit = r * r;
  if (measure->report == ADJI_REPORT_POWER)
    limit = wide ? adji_power_f64(&measure->power, r) : (double)adji_power_f32(&measure->power, (float)r);
  if (measure->report == ADJI_REPORT_HALF) limit = 2 * r;
  if (measure->report == ADJI_REPORT_NEGATED)
    limit = isinf(radius) ? INFINITY : 0 - r; /* infinity means no bound here too */
  if (measure->report == ADJI_REPORT_ARC) limit = arc_limit(measure, radius);
  return wide ? limit : (double)(float)limit;
}

static double distance_of(const adji_measure *measure, double s) {
  switch (measure->report) {
    case ADJI_REPORT_SUM:
      break;
    case ADJI_REPORT_ROOT:
      return sqrt(s);
    case ADJI_REPORT_POWER:
      return adji_exp_log(s, measure->power.inverse);
    case ADJI_REPORT_HALF:
      return s / 2;
    case ADJI_REPORT_NEGATED:
      return 0 - s;
    case ADJI_REPORT_ARC: {
      double half = sqrt(s) * 0.5;
      return 2 * adji_arc(half < 1 ? half : 1) * measure->unit;
    }
  }
  return s;
}

#define REPORT(T, ROOT)                                                                       \
  static void report_##T(const adji_measure *measure, const T *sums, uint64_t count, T *to) { \
    if (measure->report == ADJI_REPORT_ROOT) { /* the common case, vectorised */              \
      for (uint64_t i = 0; i < count; i++)                                                    \
        to[i] = ROOT(sums[i]);                                                                \
      return;                                                                                 \
    }                                                                                         \
    if (measure->report == ADJI_REPORT_SUM) { /* `to` may be the same array */                \
      if (count) memmove(to, sums, count * sizeof *to);                                       \
      return;                                                                                 \
    }                                                                                         \
    for (uint64_t i = 0; i < count; i++)                                                      \
      to[i] = (T)distance_of(measure, (double)sums[i]);                                       \
  }
REPORT(float, __builtin_sqrtf)
REPORT(double, __builtin_sqrt)

void adji_report_distances(const adji_measure *measure, adj_type type, const void *sums, uint64_t count, void *to) {
  if (type == ADJ_F64)
    report_double(measure, sums, count, to);
  else
    report_float(measure, sums, count, to);
}
