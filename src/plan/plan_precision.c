/* SPDX-License-Identifier: MIT
 *
 * Warns where distances come near the spacing of the type. A join is exact for the points that it gets, but coordinates
 * such as 4,650,000.3 are rounded to a multiple of 0.5 in f32. If the radius, or the distance of the k-th neighbour, is
 * within NEAR spacings, this rounding decides which pairs belong. The bounds of the sets rule that out for most joins;
 * a sample of rows decides for the others, so that a few far points, or whole numbers, which are exact, raise no alarm.
 */
#include <float.h>
#include <math.h>

#include "core/angles.h"
#include "plan/plan.h"
#include "result/rows.h"

static const double NEAR = 100;
/* The number of sampled rows, and the share of them that must be near. */
enum { SAMPLE = 256, SHARE = 100 };

/* ---- The spacing at a point ------------------------------------------------------------------------------ */

static uint32_t bits_of(const adj_dataset *set) {
  return set->precision ? set->precision : set->type == ADJ_F64 ? DBL_MANT_DIG : FLT_MANT_DIG;
}

static const char *name_of(const adj_dataset *set) {
  uint32_t bits = bits_of(set);
  return bits == DBL_MANT_DIG ? "f64" : bits == FLT_MANT_DIG ? "f32" : "f16";
}

/* The spacing between a number of this magnitude and the next one in the set's type. */
static double spacing_of(const adj_dataset *set, double magnitude) {
  int exponent;
  frexp(magnitude, &exponent);
  double least = set->type == ADJ_F64 ? 0x1p-1074 : 0x1p-149;
  return fmax(ldexp(1, exponent - (int)bits_of(set)), least);
}

/* A dimension in which all points are equal adds nothing to a distance. */
static bool is_constant(const adj_plan *plan, uint32_t j) {
  const adj_dataset *a = plan->left, *b = plan->right;
  return a->low[j] == a->high[j] && b->low[j] == b->high[j] && a->low[j] == b->low[j];
}

/* The largest coordinate within the bounds, by magnitude. */
static double magnitude_of_set(const adj_plan *plan, const adj_dataset *set) {
  double largest = 0;
  for (uint32_t j = 0; j < set->dim; j++)
    if (!is_constant(plan, j)) largest = fmax(largest, fmax(fabs(set->low[j]), fabs(set->high[j])));
  return largest;
}

/* The same of a row. Clears *whole unless all its coordinates are whole numbers. */
static double magnitude_of_row(const adj_plan *plan, const adj_dataset *set, uint64_t row, bool *whole) {
  double largest = 0;
  for (uint32_t j = 0; j < set->dim; j++) {
    if (is_constant(plan, j)) continue;
    double x = adji_dataset_at(set, row, j);
    largest = fmax(largest, fabs(x));
    *whole = *whole && x == floor(x);
  }
  return largest;
}

/* A spacing of coordinates as a distance of the join. Places on a sphere are rounded a second time, as points of the
 * unit sphere. */
static double as_distance(const adj_plan *plan, double spacing) {
  if (plan->spec.metric != ADJ_HAVERSINE) return spacing;
  double arc = plan->spec.angle == ADJ_DEGREES ? spacing * (ADJI_PI / 180) : spacing;
  double derived = plan->left->type == ADJ_F64 ? DBL_EPSILON / 2 : (double)FLT_EPSILON / 2;
  return fmax(arc, derived) * plan->measure.unit;
}

static bool is_measured(const adj_plan *plan) {
  return plan->spec.metric != ADJ_COSINE && plan->spec.metric != ADJ_DOT;
}

/* ---- Rows that are near -------------------------------------------------------------------------------------- */

static void add_row(adj_plan *plan, const adj_dataset *set, uint64_t row, double distance) {
  adji_near *near = &plan->near;
  double magnitude = magnitude_of_row(plan, set, row, &near->whole);
  double spacing = spacing_of(set, magnitude);
  near->sampled++;
  if (distance > NEAR * as_distance(plan, spacing)) return;
  /* The one of smallest magnitude is reported for all. */
  if (near->near++ && magnitude >= near->magnitude) return;
  near->set = set;
  near->magnitude = magnitude;
  near->spacing = as_distance(plan, spacing);
  near->distance = distance;
}

/* Above 2^bits / 2 all numbers are whole, even those that were rounded. */
static bool is_alarm(const adji_near *near) {
  bool exact = near->whole && near->spacing <= 0.5;
  return near->near && !exact && (uint64_t)near->near * SHARE >= near->sampled;
}

static const char *advice(const adj_dataset *set) {
  if (set->type == ADJ_F32) return "use type=f64, from a file with more digits than f32";
  if (set->precision) return "save the points as f64";
  return "subtract an offset from the coordinates";
}

static void warn(const adj_plan *plan, const char *what, const char *decided) {
  const adji_near *near = &plan->near;
  const char *unit = plan->spec.metric != ADJ_HAVERSINE                                ? ""
                     : plan->spec.unit == ADJ_UNIT_METRES && !plan->spec.sphere_radius ? " m"
                                                                                       : " in the unit of distances";
  adji_log(plan->ctx, ADJ_LOG_WARN,
           "type: %s %g, is within %g times the spacing of %s at this magnitude (%.2g%s for coordinates near %.4g), so "
           "rounding decides %s; %s",
           what, near->distance, NEAR, name_of(near->set), near->spacing, unit, near->magnitude, decided,
           advice(near->set));
}

/* ---- The radius ------------------------------------------------------------------------------------------------ */

static void sample_set(adj_plan *plan, const adj_dataset *set) {
  uint64_t many = set->count < SAMPLE ? set->count : SAMPLE;
  for (uint64_t i = 0; i < many; i++)
    add_row(plan, set, i * set->count / many, plan->spec.radius);
}

/* Whether the bounds allow that the radius is near. */
static bool may_be_near(const adj_plan *plan, const adj_dataset *set) {
  double spacing = spacing_of(set, magnitude_of_set(plan, set));
  return set->count && plan->spec.radius <= NEAR * as_distance(plan, spacing);
}

void adji_warn_radius(adj_plan *plan) {
  double radius = plan->spec.radius;
  if (!plan->ctx->log || !is_measured(plan) || isinf(radius)) return;
  /* Radius 0 asks for equal points, which are equal in any type; but f32 and f64 round the same digits differently. */
  if (radius == 0 && bits_of(plan->left) == bits_of(plan->right)) return;
  if (!may_be_near(plan, plan->left) && !may_be_near(plan, plan->right)) return;
  plan->near = (adji_near){.whole = true};
  sample_set(plan, plan->left);
  if (!plan->self_join) sample_set(plan, plan->right);
  if (is_alarm(&plan->near)) warn(plan, "the radius,", "which pairs belong");
  plan->near = (adji_near){0};
}

/* ---- The k-th distances ---------------------------------------------------------------------------------------- */

static double across(double a, double b, double angle) {
  double s = sin((a - b) * angle / 2);
  return s * s;
}

/* The distance of two points, approximately. */
static double distance_of(const adj_plan *plan, uint64_t i, uint64_t j) {
  const adj_dataset *a = plan->left, *b = plan->right;
  if (plan->spec.metric == ADJ_HAVERSINE) {
    double angle = plan->spec.angle == ADJ_DEGREES ? ADJI_PI / 180 : 1;
    double north = adji_dataset_at(a, i, 1), other = adji_dataset_at(b, j, 1);
    double along = cos(north * angle) * cos(other * angle);
    double s = across(north, other, angle) + along * across(adji_dataset_at(a, i, 0), adji_dataset_at(b, j, 0), angle);
    return 2 * asin(fmin(1, sqrt(s))) * plan->measure.unit;
  }
  double sum = 0;
  for (uint32_t d = 0; d < a->dim; d++) {
    double t = fabs(adji_dataset_at(a, i, d) - adji_dataset_at(b, j, d));
    double length = adji_box_length(&plan->measure, a->type, d);
    if (length > 0) t = fmin(t, length - t);
    sum += t * t;
  }
  return sqrt(sum);
}

/* The right point with this id, or with this label. */
static uint32_t point_of(const adj_plan *plan, const adji_window *window, uint32_t id) {
  if (!window->labels) return id;
  uint32_t low = 0, high = (uint32_t)plan->right->count - 1;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (window->labels[middle] < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void adji_near_rows(adj_plan *plan, const adji_window *window) {
  if (!plan->ctx->log || !is_measured(plan)) return;
  if (!window->first_row) plan->near = (adji_near){.whole = true};
  uint64_t step = plan->left->count / SAMPLE + 1;
  for (uint64_t i = (window->first_row + step - 1) / step * step; i < window->end_row; i += step) {
    const uint32_t *ids = window->ids + (i - window->first_row) * window->k;
    uint32_t length = adji_padded_row_length(ids, window->k);
    if (!length) continue;
    uint32_t last = point_of(plan, window, ids[length - 1]);
    uint64_t row = window->wanted ? window->wanted[i] : i;
    double distance = distance_of(plan, row, last);
    /* Equal points are equal whatever the type. */
    if (distance > 0 && bits_of(plan->right) < bits_of(plan->left))
      add_row(plan, plan->right, last, distance);
    else if (distance > 0)
      add_row(plan, plan->left, row, distance);
  }
}

void adji_warn_near(adj_plan *plan) {
  if (plan->join.k && is_alarm(&plan->near)) warn(plan, "the distance of a k-th neighbour,", "which are nearest");
  plan->near = (adji_near){0};
}
