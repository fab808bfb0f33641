/* SPDX-License-Identifier: MIT
 *
 * Builds the points of the cases. Each builder aims at a weak spot: where a grid's arithmetic rounds, where squares
 * underflow or overflow, where ties and duplicates abound.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "case_points.h"

/* ---- Coordinates ------------------------------------------------------------------------------------ */

static void copy_row(point_set *to, uint64_t to_row, const point_set *from, uint64_t from_row) {
  memcpy((char *)to->data + to_row * to->dim * type_size(to->type), row_of(from, from_row),
         to->dim * type_size(to->type));
}

/* The value of the type that is |steps| values above x, or below x if steps is negative. */
static double step(adj_type type, double x, int steps) {
  for (; steps; steps += steps > 0 ? -1 : 1) {
    double towards = steps > 0 ? INFINITY : -INFINITY;
    x = type == ADJ_F64 ? nextafter(x, towards) : (double)nextafterf((float)x, (float)towards);
  }
  return x;
}

static double scale_of(const case_entry *entry) {
  return entry->scale != 0 ? entry->scale : 1;
}

/* ---- Plain distributions ---------------------------------------------------------------------------- */

static void uniform_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  for (uint32_t j = 0; j < set->dim; j++)
    put(set, row, j, entry->offset + scale_of(entry) * case_random_unit(c));
}

void build_uniform(join_case *c, const case_entry *entry) {
  each_row(c, entry, uniform_row);
}

static void equal_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  (void)c;
  for (uint32_t j = 0; j < set->dim; j++)
    put(set, row, j, entry->offset + 0.1 * j);
}

void build_equal(join_case *c, const case_entry *entry) {
  each_row(c, entry, equal_row);
}

/* Each point is at one of about sqrt(n) places. */
static void duplicate_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  uint64_t places = (uint64_t)sqrt((double)set->count) + 1;
  if (row >= places)
    copy_row(set, row, set, case_random(c) % places);
  else
    uniform_row(c, entry, set, row);
}

void build_duplicates(join_case *c, const case_entry *entry) {
  each_row(c, entry, duplicate_row);
}

/* Seven clusters, each ten times as narrow as the one before. */
static void cluster_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  unsigned cluster = (unsigned)(case_random(c) % 7);
  double width = 0.3 * pow(10, -(double)cluster);
  for (uint32_t j = 0; j < set->dim; j++) {
    double bell = case_random_unit(c) + case_random_unit(c) + case_random_unit(c) - 1.5;
    put(set, row, j, entry->offset + scale_of(entry) * (0.1 * ((cluster * 5 + j * 3) % 10) + width * bell));
  }
}

void build_clusters(join_case *c, const case_entry *entry) {
  each_row(c, entry, cluster_row);
}

/* Every second dimension is constant. */
static void high_dim_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  for (uint32_t j = 0; j < set->dim; j++)
    put(set, row, j, j % 2 ? scale_of(entry) * case_random_unit(c) : entry->offset);
}

void build_flat(join_case *c, const case_entry *entry) {
  each_row(c, entry, high_dim_row);
}

/* Dimensions have extents from 1e-6 to 1e6. */
static void uneven_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  for (uint32_t j = 0; j < set->dim; j++)
    put(set, row, j, entry->offset + pow(10, 3.0 * (j % 5) - 6) * case_random_unit(c));
}

void build_uneven(join_case *c, const case_entry *entry) {
  each_row(c, entry, uneven_row);
}

/* Scale 0: along the diagonal; 1: along the first axis; 2: along the last. */
static void line_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  double along = case_random_unit(c);
  for (uint32_t j = 0; j < set->dim; j++) {
    bool moves = entry->scale == 0 || (entry->scale == 1 && j == 0) || (entry->scale == 2 && j == set->dim - 1);
    put(set, row, j, entry->offset + (moves ? along : 0.5));
  }
}

void build_line(join_case *c, const case_entry *entry) {
  each_row(c, entry, line_row);
}

/* ---- Ties ------------------------------------------------------------------------------------------- */

/* The integer lattice, times scale, plus offset: distances tie by the hundred. */
static void lattice_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  (void)c;
  uint64_t side = (uint64_t)ceil(pow((double)set->count, 1.0 / set->dim) - 1e-9);
  if (side < 2) side = 2;
  uint64_t rest = row;
  for (uint32_t j = 0; j < set->dim; j++, rest /= side)
    put(set, row, j, entry->offset + scale_of(entry) * (double)(rest % side));
}

void build_lattice(join_case *c, const case_entry *entry) {
  each_row(c, entry, lattice_row);
}

/* Right triangles 3-4-5: every odd point lies exactly 5 (times scale, a power of two) from the even
 * one before it. The radius is 5 times scale. */
static void triangle_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  double unit = scale_of(entry);
  bool second = row % 2;
  for (uint32_t j = 0; j < set->dim; j++) {
    double leg = j == 0 ? 3 : j + 1 == set->dim ? 4 : 0;
    if (set->dim == 1) leg = 5;
    double grid = entry->offset + unit * (double)(case_random(c) % 64);
    put(set, row, j, second ? get(set, row - 1, j) + unit * leg : grid);
  }
}

void build_triangles(join_case *c, const case_entry *entry) {
  c->radius = 5 * scale_of(entry);
  each_row(c, entry, triangle_row);
}

static void zero_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  (void)entry;
  double smallest = set->type == ADJ_F64 ? 0x1p-1074 : 0x1p-149;
  for (uint32_t j = 0; j < set->dim; j++) {
    const double values[] = {0.0, -0.0, smallest, -smallest};
    put(set, row, j, values[case_random(c) % 4]);
  }
}

void build_zeros(join_case *c, const case_entry *entry) {
  each_row(c, entry, zero_row);
}

/* ---- The edge of the ball --------------------------------------------------------------------------- */

/* A random step of length 1 in the metric of the case, or in L2; one in four runs along an axis. Returns the
 * axis of its largest component. */
static uint32_t random_direction(join_case *c, double *step_of, uint32_t dim) {
  uint32_t only = case_random(c) % 4 ? dim : (uint32_t)(case_random(c) % dim), largest = 0;
  for (uint32_t j = 0; j < dim; j++) {
    step_of[j] = only < dim && j != only ? 0 : 2 * case_random_unit(c) - 1 + 1e-9;
    if (fabs(step_of[j]) > fabs(step_of[largest])) largest = j;
  }
  double most = fabs(step_of[largest]),
         sum = 0; /* scaled so that the largest component is 1: powers of smaller ones might all vanish */
  double p = c->metric == ADJ_L1 ? 1 : c->metric == ADJ_LINF ? INFINITY : c->metric == ADJ_LP ? c->p : 2;
  for (uint32_t j = 0; j < dim; j++)
    sum += pow(fabs(step_of[j]) / most, p);
  double length = isfinite(p) ? most * pow(sum, 1 / p) : most;
  for (uint32_t j = 0; j < dim; j++)
    step_of[j] /= length;
  return largest;
}

/* Writes to row of set a point at the edge of the ball around base: inside, the last value of its
 * largest component for which the canonical test holds; outside, the first for which it fails. The
 * canonical value grows with that component, so bisection finds the two neighbours. */
static void put_at_edge(join_case *c, const point_set *from, uint64_t base, point_set *set, uint64_t row, bool inside) {
  enum { MOST = 1024 };
  double direction[MOST] = {0};
  uint32_t dim = set->dim < MOST ? set->dim : MOST;
  copy_row(set, row, from, base);
  uint32_t axis = random_direction(c, direction, dim);
  for (uint32_t j = 0; j < dim; j++)
    put(set, row, j, get(from, base, j) + c->radius * direction[j]);
  adj_join_spec spec = case_spec(c);
  double threshold = reference_threshold(&spec, set->type);
  double within = get(from, base, axis);
  double without = rounded(set->type, within + (direction[axis] > 0 ? 2 : -2) * c->radius);
  for (;;) {
    double middle = rounded(set->type, within + (without - within) / 2);
    if (middle == within || middle == without) break;
    put(set, row, axis, middle);
    if (reference_value(&spec, set->type, row_of(from, base), row_of(set, row), set->dim) <= threshold)
      within = middle;
    else
      without = middle;
  }
  put(set, row, axis, inside ? within : without);
}

/* Half of the points are random. The others are one ulp inside or outside of the radius around one of these. In a join
 * of two sets all right points are at the radius around left points. */
void build_ulps(join_case *c, const case_entry *entry) {
  for (uint64_t i = 0; i < c->left.count; i++)
    if (i % 2 && c->self_join)
      put_at_edge(c, &c->left, i - 1, &c->left, i, i / 2 % 2);
    else
      uniform_row(c, entry, &c->left, i);
  for (uint64_t i = 0; c->left.count && i < c->right.count; i++)
    put_at_edge(c, &c->left, case_random(c) % c->left.count, &c->right, i, i % 2);
}

/* Coordinates on multiples of the radius, give or take two ulps. A grid whose cells are as wide as the radius has its
 * edges there, and rounding may put neighbours two cells apart. */
static void cell_edge_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  uint64_t side = (uint64_t)pow((double)set->count, 1.0 / set->dim) + 2;
  for (uint32_t j = 0; j < set->dim; j++) {
    double edge = entry->offset + c->radius * scale_of(entry) * (double)(case_random(c) % side);
    put(set, row, j, step(set->type, rounded(set->type, edge), (int)(case_random(c) % 5) - 2));
  }
}

void build_cell_edges(join_case *c, const case_entry *entry) {
  each_row(c, entry, cell_edge_row);
}

/* Two clumps in one cell, or in two: half of the points around one place, half around another a
 * little more or a little less than the radius away. Scale: width of a clump in radii. */
static void clump_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  bool second = case_random(c) % 2;
  for (uint32_t j = 0; j < set->dim; j++) {
    double away = second && j == set->dim - 1 ? c->radius : 0;
    put(set, row, j, entry->offset + away + c->radius * entry->scale * (case_random_unit(c) - 0.5));
  }
}

void build_clumps(join_case *c, const case_entry *entry) {
  each_row(c, entry, clump_row);
}

/* ---- The edge of the number line -------------------------------------------------------------------- */

/* Small multiples of a tiny unit. Scale 0: the smallest denormal; else scale times its square root,
 * so that squares are denormal or 0. The entry's radius counts units. */
void build_tiny(join_case *c, const case_entry *entry) {
  double smallest = c->left.type == ADJ_F64 ? 0x1p-1074 : 0x1p-149;
  double unit = entry->scale == 0 ? smallest : entry->scale * sqrt(smallest);
  c->radius = entry->radius * unit;
  for (int side = 0; side < 2; side++) {
    point_set *set = side ? &c->right : &c->left;
    for (uint64_t i = 0; i < set->count; i++)
      for (uint32_t j = 0; j < set->dim; j++)
        put(set, i, j, unit * ((double)(case_random(c) % 81) - 40));
  }
}

/* Large values. The unit is the largest finite value to the power of scale. The entry's radius counts units, and a
 * finite radius stays finite. Some coordinates are the unit itself, so that differences overflow. */
void build_huge(join_case *c, const case_entry *entry) {
  double largest = c->left.type == ADJ_F64 ? DBL_MAX : FLT_MAX;
  double unit = scale_of(entry) == 1 ? largest : pow(largest, entry->scale);
  if (isfinite(entry->radius)) c->radius = fmin(entry->radius * unit, DBL_MAX);
  for (int side = 0; side < 2; side++) {
    point_set *set = side ? &c->right : &c->left;
    for (uint64_t i = 0; i < set->count; i++)
      for (uint32_t j = 0; j < set->dim; j++) {
        double x = case_random(c) % 8 ? 2 * case_random_unit(c) - 1 : case_random(c) % 2 ? 1 : -1;
        put(set, i, j, unit * x);
      }
  }
}

/* The range of exponents of the type, denormal numbers included, from the least one to one more than the largest one:
 * ldexp(x, e) with x in [0, 1) is finite, and for the least e it is 0 or the smallest number. */
static int least_exponent(adj_type type) {
  return type == ADJ_F64 ? -1073 : -148;
}
static int end_exponent(adj_type type) {
  return type == ADJ_F64 ? 1024 : 128;
}

/* What draws an exponent of its own: every coordinate, every point, or every dimension. */
typedef enum mixture { MIXED_COORDINATES, MIXED_POINTS, MIXED_DIMENSIONS, MIXTURES } mixture;

/* Half of the points lie near the point before them, at a relative distance of any number of bits. */
static void put_magnitudes(join_case *c, point_set *set, uint64_t row, mixture mixed, int top, int span) {
  int of_point = (int)(case_random(c) % ((uint64_t)span + 1));
  double away = ldexp(case_random_unit(c), -(int)(case_random(c) % 30));
  for (uint32_t j = 0; j < set->dim; j++) {
    uint64_t of_dimension = (j + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15) >> 33;
    uint64_t drawn = mixed == MIXED_DIMENSIONS ? of_dimension : case_random(c);
    int below = mixed == MIXED_POINTS ? of_point : (int)(drawn % ((uint64_t)span + 1));
    double x = ldexp(2 * case_random_unit(c) - 1, top - below);
    if (row % 2) x = get(set, row - 1, j) * (1 - away) + x * away;
    put(set, row, j, x);
  }
}

/* Magnitudes from the whole range of the type. Scale: where the largest magnitudes lie, from 0 (the smallest denormal)
 * to 1 (the largest number). Offset: over how much of the range below them the others are spread, 0 to 1. The unit of
 * the box, and of a positive radius, is the largest magnitude. */
void build_magnitudes(join_case *c, const case_entry *entry) {
  adj_type type = c->left.type;
  int least = least_exponent(type), top = least + (int)(entry->scale * (end_exponent(type) - least));
  int span = (int)(entry->offset * (top - least));
  double unit = ldexp(0x1.fp-1, top), smallest = ldexp(0.5, least);
  mixture mixed = (mixture)(case_random(c) % MIXTURES);
  for (uint32_t j = 0; j < c->box_count; j++)
    if (c->box[j] > 0) c->box[j] = fmax(fmin(c->box[j], 1) * unit, smallest);
  if (c->metric <= ADJ_LP && c->radius > 0 && isfinite(c->radius)) c->radius = fmin(c->radius, 1) * unit;
  for (int side = 0; side < 2; side++) {
    point_set *set = side ? &c->right : &c->left;
    for (uint64_t i = 0; i < set->count; i++)
      put_magnitudes(c, set, i, mixed, top, span);
  }
}

/* ---- Badly placed sets ------------------------------------------------------------------------------ */

/* A box of 1 and one point far from it. */
void build_outlier(join_case *c, const case_entry *entry) {
  case_entry box = *entry;
  box.offset = 0;
  each_row(c, &box, uniform_row);
  point_set *set = c->right.count ? &c->right : &c->left;
  for (uint32_t j = 0; set->count && j < set->dim; j++)
    put(set, set->count / 2, j, entry->offset);
}

/* Eight clusters of side 1 to 10^-7, in different places. With a scale they are all at the origin, and each is 2^scale
 * times as narrow as the one before. The middle point is at offset. */
static void scale_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  unsigned cluster = (unsigned)(case_random(c) % 8);
  double width = entry->scale != 0 ? ldexp(1, -(int)(cluster * entry->scale)) : pow(10, -(double)cluster);
  for (uint32_t j = 0; j < set->dim; j++) {
    double centre = entry->scale != 0 ? 0 : (double)((cluster * 7 + j * 3) % 11);
    put(set, row, j, row == set->count / 2 ? entry->offset : centre + width * case_random_unit(c));
  }
}

void build_scales(join_case *c, const case_entry *entry) {
  each_row(c, entry, scale_row);
}

/* A unit box with sentinels of value offset: in the first coordinate of 1 row in 50, in all coordinates of 1 in 300. */
static void sentinel_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  bool first = case_random(c) % 50 == 0, all = case_random(c) % 300 == 0;
  for (uint32_t j = 0; j < set->dim; j++)
    put(set, row, j, all || (first && !j) ? entry->offset : scale_of(entry) * case_random_unit(c));
}

void build_sentinels(join_case *c, const case_entry *entry) {
  each_row(c, entry, sentinel_row);
}

/* One axis is longer than the others: the first by a factor of scale, or the last by -scale if scale is negative. */
static void long_axis_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  uint32_t axis = entry->scale < 0 ? set->dim - 1 : 0;
  for (uint32_t j = 0; j < set->dim; j++)
    put(set, row, j, entry->offset + (j == axis ? fabs(entry->scale) : 1) * case_random_unit(c));
}

void build_long_axis(join_case *c, const case_entry *entry) {
  each_row(c, entry, long_axis_row);
}

/* A huge box, where all neighbours coincide or are an ulp apart. */
static void large_box_row(join_case *c, const case_entry *entry, point_set *set, uint64_t row) {
  if (row % 3 == 0)
    uniform_row(c, entry, set, row);
  else
    for (uint32_t j = 0; j < set->dim; j++)
      put(set, row, j, step(set->type, get(set, row - 1, j), row % 3 == 1 ? 0 : 1));
}

void build_large_box(join_case *c, const case_entry *entry) {
  each_row(c, entry, large_box_row);
  for (uint64_t i = 0; i < c->right.count && i < c->left.count; i += 2)
    copy_row(&c->right, i, &c->left, i);
}

/* The left points lie in the unit box, the right points in a box that begins at offset. */
void build_far_left(join_case *c, const case_entry *entry) {
  case_entry near = *entry;
  near.offset = 0;
  for (uint64_t i = 0; i < c->left.count; i++)
    uniform_row(c, &near, &c->left, i);
  for (uint64_t i = 0; i < c->right.count; i++)
    uniform_row(c, entry, &c->right, i);
}

/* The box of the left points is scale times as wide as that of the right points. */
void build_wide_left(join_case *c, const case_entry *entry) {
  case_entry unit = *entry;
  unit.scale = 1;
  unit.offset = scale_of(entry) / 2;
  for (uint64_t i = 0; i < c->right.count; i++)
    uniform_row(c, &unit, &c->right, i);
  for (uint64_t i = 0; i < c->left.count; i++)
    uniform_row(c, i % 4 ? entry : &unit, &c->left, i);
}

/* The right points are the left points in reverse order. */
void build_same_sets(join_case *c, const case_entry *entry) {
  for (uint64_t i = 0; i < c->left.count; i++)
    uniform_row(c, entry, &c->left, i);
  for (uint64_t i = 0; c->left.count && i < c->right.count; i++)
    copy_row(&c->right, i, &c->left, c->left.count - 1 - i % c->left.count);
}
