/* SPDX-License-Identifier: MIT
 *
 * From a radius to the limit of sums, and from sums to distances.
 */
#include "distance/measure.h"

#include "core/angles.h"

/* The squared chord of an angle of `radius` units. Beyond half a turn everything belongs. */
static double arc_limit(const adji_measure *measure, double radius) {
  double angle = radius / measure->unit;
  if (!(angle < ADJI_PI)) return INFINITY;
  double chord = 2 * adji_circle_radians(angle * 0.5).sin;
  return chord * chord;
}

#define LIMIT(T, suffix)                                                                      \
  static T limit_##suffix(const adji_measure *measure, double radius) {                       \
    T r = (T)radius;                                                                          \
    switch (measure->report) {                                                                \
      case ADJI_REPORT_SUM:                                                                   \
        break;                                                                                \
      case ADJI_REPORT_ROOT:                                                                  \
        return r * r;                                                                         \
      case ADJI_REPORT_POWER:                                                                 \
        return adji_power_##suffix(&measure->power, r);                                       \
      case ADJI_REPORT_HALF:                                                                  \
        return 2 * r;                                                                         \
      case ADJI_REPORT_NEGATED:                                                               \
        return isinf(radius) ? (T)INFINITY : 0 - r; /* no bound, also where more is nearer */ \
      case ADJI_REPORT_ARC:                                                                   \
        return (T)arc_limit(measure, radius);                                                 \
    }                                                                                         \
    return r;                                                                                 \
  }
LIMIT(float, f32)
LIMIT(double, f64)

double adji_limit(const adji_measure *measure, adj_type type, double radius) {
  return type == ADJ_F64 ? limit_f64(measure, radius) : (double)limit_f32(measure, radius);
}

/* Arcs and roots of powers are computed in f64 and rounded to T once. */
static double arc_of(const adji_measure *measure, double s) {
  double half = sqrt(s) * 0.5;
  return 2 * adji_arc(half < 1 ? half : 1) * measure->unit;
}

#define REPORT(T, suffix, ROOT)                                                                    \
  static T distance_##suffix(const adji_measure *measure, T s) {                                   \
    switch (measure->report) {                                                                     \
      case ADJI_REPORT_SUM:                                                                        \
        break;                                                                                     \
      case ADJI_REPORT_ROOT:                                                                       \
        return ROOT(s);                                                                            \
      case ADJI_REPORT_POWER:                                                                      \
        return (T)adji_exp_log((double)s, measure->power.inverse);                                 \
      case ADJI_REPORT_HALF:                                                                       \
        return s / 2;                                                                              \
      case ADJI_REPORT_NEGATED:                                                                    \
        return 0 - s;                                                                              \
      case ADJI_REPORT_ARC:                                                                        \
        return (T)arc_of(measure, (double)s);                                                      \
    }                                                                                              \
    return s;                                                                                      \
  }                                                                                                \
                                                                                                   \
  static void report_##suffix(const adji_measure *measure, const T *sums, uint64_t count, T *to) { \
    if (measure->report == ADJI_REPORT_ROOT) { /* the common case, vectorised */                   \
      for (uint64_t i = 0; i < count; i++)                                                         \
        to[i] = ROOT(sums[i]);                                                                     \
      return;                                                                                      \
    }                                                                                              \
    for (uint64_t i = 0; i < count; i++)                                                           \
      to[i] = distance_##suffix(measure, sums[i]);                                                 \
  }
REPORT(float, f32, __builtin_sqrtf)
REPORT(double, f64, __builtin_sqrt)

void adji_report_distances(const adji_measure *measure, adj_type type, const void *sums, uint64_t count, void *to) {
  if (type == ADJ_F64)
    report_f64(measure, sums, count, to);
  else
    report_f32(measure, sums, count, to);
}
