/* SPDX-License-Identifier: MIT
 *
 * Opens the points of a join, gives them one type, checks and describes them. The checks find mistakes that are not
 * visible in a result: columns in another order, degrees taken as radians, a file without points.
 */
#include "join_points.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "message.h"
#include "options.h"
#include "signals.h"

static const double PI = 3.14159265358979323846;

static const char *shown_name(const char *path) {
  return strcmp(path, "-") ? path : "standard input";
}

static const char *type_name(adj_type type) {
  return type == ADJ_F64 ? "f64" : "f32";
}

/* ---- Opening ----------------------------------------------------------------------------------- */

adj_open_options points_options(const join_request *request) {
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.type = (adj_type)request->type;
  options.format = request->input_format;
  options.columns = request->columns;
  options.id_column = request->id;
  options.shape = request->shape;
  options.dataset = request->dataset;
  options.map = request->map;
  options.normalise = request->normalise;
  options.allow_external = request->allow_external;
  options.helper = "/proc/self/exe"; /* this program reads HDF5 files in a process of its own */
  options.metric = (adj_metric)request->metric;
  return options;
}

adj_status points_open(adj_ctx *ctx, const join_request *request, const char *path, const adj_dataset *like,
                       adj_dataset **out) {
  adj_open_options options = points_options(request);
  if (request->normalise) options.normalise_like = like;
  return signals_status(adj_dataset_open(ctx, path, &options, out));
}

adj_status points_widen(const join_request *request, adj_dataset **left, adj_dataset **right) {
  adj_type a = adj_dataset_type(*left), b = adj_dataset_type(*right);
  if (a == b) return ADJ_OK;
  adj_dataset **narrow = a == ADJ_F32 ? left : right, *wide = NULL;
  if (!request->quiet)
    message_print("note: %s holds %s and %s %s: f32 is widened to f64, which is exact\n", shown_name(request->left),
                  type_name(a), shown_name(request->right), type_name(b));
  adj_status status = signals_status(adj_dataset_convert(*narrow, ADJ_F64, &wide));
  if (status) return status;
  adj_dataset_destroy(*narrow);
  *narrow = wide;
  return ADJ_OK;
}

/* ---- Places on a sphere ------------------------------------------------------------------------ */

/* The row, from 1, of the first longitude beyond the limit; 0 if there is none. */
static uint64_t find_beyond(const adj_dataset *points, double limit, double *longitude) {
  union {
    double wide[2];
    float narrow[2];
  } row;
  for (uint64_t i = 0; i < adj_dataset_count(points); i++) {
    if (adj_dataset_row(points, i, &row)) return 0;
    *longitude = adj_dataset_type(points) == ADJ_F64 ? row.wide[0] : (double)row.narrow[0];
    if (fabs(*longitude) > limit) return i + 1;
  }
  return 0;
}

/* Whether a longitude is impossible. Up to one full turn may be intended; more means another unit, or another
 * column. */
static bool find_longitude(const join_request *request, const char *path, const adj_dataset *points, char *text) {
  bool radians = request->angle == 1 + ADJ_RADIANS;
  double low, high, longitude = 0, limit = radians ? 2 * PI * (1 + 1e-6) : 360;
  adj_dataset_bounds(points, 0, &low, &high);
  if (low >= -limit && high <= limit) return false;
  uint64_t row = find_beyond(points, limit, &longitude), before;
  adj_dataset_part(points, &before, NULL);
  snprintf(text, MESSAGE_ROOM,
           "%s: row %llu, column 1: longitude %.10g is beyond %s; columns are longitude, latitude%s", shown_name(path),
           (unsigned long long)(before + row), longitude, radians ? "a turn, 2 pi" : "360 degrees",
           radians ? " in radians" : "");
  return true;
}

/* Warns of coordinates that cover the globe if they are in radians, but only a few degrees of ocean if they are in
 * degrees. */
static void warn_of_radians(const join_request *request, const char *path, const adj_dataset *points) {
  double west, east, south, north;
  adj_dataset_bounds(points, 0, &west, &east);
  adj_dataset_bounds(points, 1, &south, &north);
  bool fits = fmax(fabs(south), fabs(north)) <= PI / 2 && west >= -PI && east <= 2 * PI && east - west <= 2 * PI;
  if (request->angle || request->quiet || !fits || north - south < 1.2 || east - west < 2.5) return;
  message_print("warning: %s: coordinates look like radians, and are taken as degrees: give --angle\n",
                shown_name(path));
}

bool points_misplaced(const join_request *request, const char *path, const adj_dataset *points, char *text) {
  if (request->metric != ADJ_HAVERSINE || adj_dataset_dim(points) != 2) return false;
  warn_of_radians(request, path, points);
  return find_longitude(request, path, points, text);
}

static int check_places(const join_request *request, const char *path, const adj_dataset *points) {
  char text[MESSAGE_ROOM];
  if (!points_misplaced(request, path, points, text)) return EXIT_DONE;
  message_print("%s\n", text);
  return EXIT_FAILED;
}

/* Warns of a radius that reaches around the sphere and so selects every pair: it is probably in another unit. */
static void warn_of_reach(const join_request *request) {
  double earth = 6371008.8, turn = PI;
  if (request->metric != ADJ_HAVERSINE || isnan(request->radius) || request->quiet) return;
  if (request->unit == 1 + ADJ_UNIT_DEGREES) turn = 180;
  if (request->unit <= 1 + ADJ_UNIT_METRES) turn = PI * (isnan(request->sphere) ? earth : request->sphere);
  if (request->radius >= turn)
    message_print("warning: --radius: %g reaches around the sphere (%.6g), so every pair is within it\n",
                  request->radius, turn);
}

/* ---- Checks ------------------------------------------------------------------------------------ */

static int check_count(const char *path, const adj_dataset *points) {
  if (adj_dataset_count(points)) return EXIT_DONE;
  message_print("%s: has no points\n", shown_name(path));
  return EXIT_FAILED;
}

static bool has_column(const adj_dataset *points, const char *name) {
  for (uint32_t j = 0; j < adj_dataset_dim(points); j++)
    if (!strcmp(adj_dataset_column(points, j), name)) return true;
  return false;
}

/* Whether both sets have the same column names, in another order. */
static bool names_in_another_order(const adj_dataset *a, const adj_dataset *b) {
  enum { MOST = 64 };
  bool same = true;
  uint32_t dim = adj_dataset_dim(a);
  if (!adj_dataset_column(a, 0) || !adj_dataset_column(b, 0) || dim > MOST) return false;
  for (uint32_t j = 0; j < dim; j++) {
    if (!has_column(b, adj_dataset_column(a, j)) || !has_column(a, adj_dataset_column(b, j))) return false;
    same = same && !strcmp(adj_dataset_column(a, j), adj_dataset_column(b, j));
  }
  return !same;
}

/* Notes that the same file given twice is two sets: every point has itself as a neighbour. */
static void note_same_file(const join_request *request) {
  struct stat a, b;
  if (request->quiet || stat(request->left, &a) || stat(request->right, &b)) return;
  if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
    message_print(
        "note: %s and %s are one file: each point is a neighbour of itself; give it once to leave that "
        "out\n",
        request->left, request->right);
}

int points_match(const join_request *request, const adj_dataset *left, const adj_dataset *right) {
  const char *a = shown_name(request->left), *b = shown_name(request->right);
  uint32_t m = adj_dataset_dim(left), n = adj_dataset_dim(right);
  if (m != n) {
    message_print("%s has %u dimensions and %s has %u\n", a, m, b, n);
    return EXIT_FAILED;
  }
  if (names_in_another_order(left, right)) {
    message_print("%s and %s have the same columns in another order: give --columns\n", a, b);
    return EXIT_USAGE;
  }
  return EXIT_DONE;
}

int points_check(const join_request *request, const adj_dataset *left, const adj_dataset *right) {
  int code = check_count(request->left, left);
  if (!code && right) code = check_count(request->right, right);
  if (!code && right) code = points_match(request, left, right);
  if (!code && right) note_same_file(request);
  if (!code) code = check_places(request, request->left, left);
  if (!code && right) code = check_places(request, request->right, right);
  if (!code) warn_of_reach(request);
  return code;
}

/* ---- Descriptions ------------------------------------------------------------------------------- */

/* Describes the columns of text files, and of other files with longitude and latitude, whose order matters. */
static void describe(const join_request *request, const char *path, const adj_dataset *points) {
  enum { MOST = 12 };
  uint32_t dim = adj_dataset_dim(points);
  bool places = request->metric == ADJ_HAVERSINE && dim == 2;
  if (!adj_dataset_column(points, 0) && !places) return;
  message_print("%s: column%s ", shown_name(path), dim > 1 ? "s" : "");
  for (uint32_t j = 0; j < dim && j < MOST; j++) {
    const char *name = adj_dataset_column(points, j);
    if (name)
      fprintf(stderr, "%s%s", j ? ", " : "", name);
    else
      fprintf(stderr, "%s%u", j ? ", " : "", j + 1);
    if (places) fprintf(stderr, j ? " (latitude)" : " (longitude)");
  }
  if (dim > MOST) fprintf(stderr, ", ... (%u in all)", dim);
  fprintf(stderr, ", as %s\n", type_name(adj_dataset_type(points)));
}

static void describe_radius(const join_request *request) {
  static const char *const units[] = {"metres", "metres", "degrees", "radians"};
  if (request->metric != ADJ_HAVERSINE || isnan(request->radius)) return;
  message_print("radius %g %s", request->radius,
                isnan(request->sphere) ? units[request->unit] : "in the unit of --sphere");
  fprintf(stderr, ", coordinates in %s\n", request->angle == 1 + ADJ_RADIANS ? "radians" : "degrees");
}

void points_describe(const join_request *request, const adj_dataset *left, const adj_dataset *right) {
  describe(request, request->left, left);
  if (right) describe(request, request->right, right);
  describe_radius(request);
}
