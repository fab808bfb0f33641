/* SPDX-License-Identifier: MIT
 *
 * The builders of points for metrics other than L2, L1 and Linf, and for periodic boxes.
 */
#include <math.h>

#include "case_points.h"

static double length_of(const join_case *c, uint32_t j) {
  return c->box_count ? c->box[c->box_count == 1 ? 0 : j] : 0;
}

/* ---- What every metric needs ------------------------------------------------------------------------- */

double wrapped(adj_type type, double x, double length) {
  length = rounded(type, length);
  x = fmod(x, length);
  x = rounded(type, x < 0 ? x + length : x);
  return x > length ? length : x;
}

/* Keeps latitudes between the poles, and longitudes in radians below a million turns. */
static void fit_place(const join_case *c, point_set *set, uint64_t row) {
  bool degrees = c->angle == ADJ_DEGREES;
  double pole = rounded(set->type, degrees ? 90 : 0x1.921fb54442d18p+0), most = degrees ? INFINITY : 0x1p20;
  put(set, row, 0, fmax(fmin(get(set, row, 0), most), -most));
  put(set, row, 1, fmax(fmin(get(set, row, 1), pole), -pole));
}

static void fit_row(const join_case *c, point_set *set, uint64_t row) {
  if (c->metric == ADJ_HAVERSINE) fit_place(c, set, row);
  bool zero = true;
  for (uint32_t j = 0; j < set->dim; j++) {
    double x = get(set, row, j), length = length_of(c, j);
    zero = zero && x == 0;
    if (length > 0 && (x < 0 || x > rounded(set->type, length))) put(set, row, j, wrapped(set->type, x, length));
  }
  if (zero && set->dim && c->metric == ADJ_COSINE) put(set, row, (uint32_t)(row % set->dim), 1);
}

void fit_points(join_case *c) {
  for (uint64_t i = 0; i < c->left.count; i++)
    fit_row(c, &c->left, i);
  for (uint64_t i = 0; i < c->right.count; i++)
    fit_row(c, &c->right, i);
}

/* ---- The globe --------------------------------------------------------------------------------------- */

/* Writes a place given in degrees. */
static void put_place(const join_case *c, point_set *set, uint64_t row, double longitude, double latitude) {
  double unit = c->angle == ADJ_DEGREES ? 1 : 0x1.921fb54442d18p+1 / 180;
  double pole = rounded(set->type, 90 * unit);
  put(set, row, 0, longitude * unit);
  put(set, row, 1, fmin(fmax(rounded(set->type, latitude * unit), -pole), pole));
}

/* Places all over the globe. If scale is given, a third of them lie that far from the place before. */
static void globe_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  double unit = c->angle == ADJ_DEGREES ? 1 : 0x1.921fb54442d18p+1 / 180;
  double longitude = 360 * case_random_unit(c) - 180, latitude = 180 * case_random_unit(c) - 90;
  if (row % 3 == 2 && entry->scale > 0) {
    longitude = get(set, row - 1, 0) / unit + entry->scale * (case_random_unit(c) - 0.5);
    latitude = get(set, row - 1, 1) / unit + entry->scale * (case_random_unit(c) - 0.5);
  }
  if (row % 7 == 3) longitude += 360 * ((double)(case_random(c) % 9) - 4);
  put_place(c, set, row, longitude, latitude);
}

void build_globe(join_case *c, const case_entry *entry) {
  each_row(c, entry, globe_row);
}

/* Poles, the date line from both sides, whole degrees, and the opposite of the place before. */
static void pole_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  (void)entry;
  double unit = c->angle == ADJ_DEGREES ? 1 : 0x1.921fb54442d18p+1 / 180;
  double longitude = 30.0 * (double)(case_random(c) % 25) - 360, latitude = 30.0 * (double)(case_random(c) % 7) - 90;
  switch (row % 6) {
    case 0:
      latitude = case_random(c) % 2 ? 90 : -90;
      break;
    case 1:
      longitude = case_random(c) % 2 ? 180 : -180;
      break;
    case 2:
      longitude = get(set, row - 1, 0) / unit + 180;
      latitude = -get(set, row - 1, 1) / unit;
      break;
    case 3:
      longitude = (case_random(c) % 2 ? 180 : -180) + 1e-5 * (case_random_unit(c) - 0.5);
      break;
    case 4:
      latitude = 90 - 1e-6 * case_random_unit(c);
      break;
    default:
      break;
  }
  put_place(c, set, row, longitude, latitude);
}

void build_poles(join_case *c, const case_entry *entry) {
  each_row(c, entry, pole_row);
}

/* ---- Directions -------------------------------------------------------------------------------------- */

/* Few directions and many lengths, over the whole range of the type. The longest vectors have a length of 10^scale.
 * Some directions are opposite or nearly equal. */
static void direction_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  uint64_t few = 12, direction = case_random(c) % few;
  double reach = entry->scale > 0 ? fmin(entry->scale, 30) : 3;
  double length = pow(10, reach * (2 * case_random_unit(c) - 1)), sign = case_random(c) % 4 ? 1 : -1;
  for (uint32_t j = 0; j < set->dim; j++) {
    double x = cos(1.7 * (double)(direction + 1) * (j + 1));
    if (direction == 0) x = j == 0;
    if (case_random(c) % 16 == 0) x *= 1 + 1e-6;
    put(set, row, j, sign * length * x);
  }
}

void build_directions(join_case *c, const case_entry *entry) {
  each_row(c, entry, direction_row);
}

/* Products of coordinates underflow to 0 or -0. Both are the same value in every order, so ids break the ties. */
static void vanishing_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  (void)entry;
  double tiny = set->type == ADJ_F64 ? 0x1p-600 : 0x1p-100;
  for (uint32_t j = 0; j < set->dim; j++) {
    double x = case_random(c) % 4 ? tiny : 0;
    if (row % 5 == 3 && !j) x = 1;
    put(set, row, j, case_random(c) % 2 ? x : -x);
  }
}

void build_vanishing(join_case *c, const case_entry *entry) {
  each_row(c, entry, vanishing_row);
}

/* ---- Periodic boxes ---------------------------------------------------------------------------------- */

/* Coordinates on the faces of the box, within a few ulps of them, about a radius away from them, and
 * some anywhere. */
static void face_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  double smallest = set->type == ADJ_F64 ? 0x1p-52 : 0x1p-23;
  for (uint32_t j = 0; j < set->dim; j++) {
    double length = rounded(set->type, length_of(c, j) > 0 ? length_of(c, j) : entry->box);
    double away = 0, ulps = smallest * (double)(case_random(c) % 4);
    switch (case_random(c) % 5) {
      case 0:
        break;
      case 1:
        away = length * ulps;
        break;
      case 2:
        away = fabs(c->radius) * (1 + ulps - 2 * smallest);
        break;
      case 3:
        away = length * 0.5 * (1 + ulps - 2 * smallest);
        break;
      default:
        away = length * case_random_unit(c);
    }
    away = fmin(away, length);
    put(set, row, j, case_random(c) % 2 ? away : length - away);
  }
}

void build_faces(join_case *c, const case_entry *entry) {
  each_row(c, entry, face_row);
}
