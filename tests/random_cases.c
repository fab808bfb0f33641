/* SPDX-License-Identifier: MIT
 *
 * Random cases: see random_cases.h.
 */
#include "random_cases.h"

#include <math.h>
#include <stdio.h>

static const case_builder BUILDERS[] = {
    build_uniform,   build_uniform,   build_uniform,    build_equal,  build_duplicates, build_lattice,
    build_triangles, build_ulps,      build_ulps,       build_ulps,   build_tiny,       build_cell_edges,
    build_outlier,   build_large_box, build_cell_edges, build_line,   build_clumps,     build_zeros,
    build_clusters,  build_clusters,  build_flat,       build_uneven, build_huge,       build_same_sets,
};

dice dice_of(uint64_t seed) {
  return (dice){.state = {.random = seed}};
}

uint64_t dice_below(dice *d, uint64_t limit) {
  return case_random(&d->state) % limit;
}

double dice_spread(dice *d, double low, double high) {
  return low * pow(high / low, case_random_unit(&d->state));
}

static uint32_t random_dim(dice *d) {
  switch (dice_below(d, 4)) {
    case 0:
      return 1 + (uint32_t)dice_below(d, 4);
    case 1:
      return 1 + (uint32_t)dice_below(d, 8);
    case 2:
      return 1 + (uint32_t)dice_below(d, 32);
    default:
      return 1 + (uint32_t)dice_below(d, 128);
  }
}

/* Mostly small. The reference never needs more than a fraction of a second. */
static uint32_t random_count(dice *d, uint32_t dim) {
  double most = fmin(3000, sqrt((dice_below(d, 10) ? 3e6 : 2e7) / dim));
  if (dice_below(d, 20) == 0) return (uint32_t)dice_below(d, 3);
  return (uint32_t)dice_spread(d, 1, most);
}

/* Builders that place points by the radius. */
static bool needs_radius(const case_entry *e) {
  return e->build == build_ulps || e->build == build_cell_edges || e->build == build_clumps;
}

/* Chooses another metric, or a box, if the builder's points fit it. */
static void vary_metric(dice *d, case_entry *e) {
  static const double exponents[] = {1, 1.0000001, 1.5, 2, 2.5, 3, 5, 16, 17, 100, INFINITY};
  switch (dice_below(d, 6)) {
    case 0:
      e->metric = ADJ_LP;
      e->p = dice_below(d, 2) ? exponents[dice_below(d, sizeof exponents / sizeof *exponents)] : dice_spread(d, 1, 50);
      break;
    case 1:
      e->metric = ADJ_COSINE;
      if (e->radius > 0) e->radius = dice_spread(d, 1e-9, 2.5);
      if (dice_below(d, 2)) e->build = build_directions;
      break;
    case 2:
      e->metric = ADJ_DOT;
      if (dice_below(d, 3) == 0) e->build = build_directions;
      if (e->radius > 0) e->radius = dice_below(d, 2) ? -dice_spread(d, 1e-3, 0.9) : 2 * case_random_unit(&d->state);
      break;
    case 3:
      e->metric = ADJ_HAVERSINE;
      e->dim = 2;
      e->build = dice_below(d, 2) ? build_globe : build_poles;
      e->scale = dice_spread(d, 1e-6, 10);
      e->angle = (adj_angle)dice_below(d, 2);
      e->unit = (adj_unit)dice_below(d, 3);
      if (e->radius > 0) e->radius = -dice_spread(d, 1e-4, 0.5);
      break;
    default:
      e->box = dice_below(d, 2) ? 1 : dice_spread(d, 1e-3, 1e3);
      e->uneven_box = dice_below(d, 3) == 0;
      if (dice_below(d, 2)) e->build = build_faces;
      if (e->radius > 0) e->radius = e->box * dice_spread(d, 1e-3, 0.7);
      if (dice_below(d, 3) == 0) e->metric = ADJ_LP;
      e->p = dice_below(d, 2) ? 3 : dice_spread(d, 1, 5);
  }
}

/* Magnitudes from one place, a part or all of the range of the type, with any metric. */
static void vary_magnitudes(dice *d, case_entry *e) {
  bool places = e->metric >= ADJ_COSINE;
  if (!places && dice_below(d, 2))
    e->metric = dice_below(d, 2) ? ADJ_L1 : ADJ_LINF; /* squares leave the range sooner */
  if (!places && dice_below(d, 2)) e->box = 1;
  bool box = e->box > 0;
  e->build = build_magnitudes;
  e->scale = dice_below(d, 4) ? case_random_unit(&d->state) : dice_below(d, 2) ? 1 : 0.1 * case_random_unit(&d->state);
  e->offset = dice_below(d, 2) ? 0 : dice_below(d, 3) ? 0.1 * case_random_unit(&d->state) : 1;
  if (box) e->box = dice_below(d, 2) ? 1 : dice_spread(d, 1e-3, 1);
  if (e->radius > 0 && !places) e->radius = (box ? e->box : 1) * dice_spread(d, 1e-4, 0.7);
  if (!places && dice_below(d, 2)) e->radius = -dice_spread(d, 1e-4, 0.5);
}

/* Many dimensions and many pairs, so that prefilters have work to do. */
static case_entry plain_entry(dice *d) {
  case_entry e = {.name = "random", .build = dice_below(d, 2) ? build_uniform : build_clusters};
  e.dim = 4 + (uint32_t)dice_below(d, 60);
  e.left = 100 + (uint32_t)dice_below(d, 300);
  e.right = dice_below(d, 2) ? SELF : 100 + (uint32_t)dice_below(d, 300);
  e.radius = -dice_spread(d, 0.02, 0.6);
  return e;
}

static case_entry random_entry(dice *d) {
  if (dice_below(d, 6) == 0) return plain_entry(d);
  case_entry e = {.name = "random"};
  e.build = BUILDERS[dice_below(d, sizeof BUILDERS / sizeof *BUILDERS)];
  e.dim = random_dim(d);
  e.left = random_count(d, e.dim);
  e.right = dice_below(d, 3) ? SELF : random_count(d, e.dim);
  e.metric = dice_below(d, 2) ? ADJ_L2 : (adj_metric)(1 + dice_below(d, 3));
  if (e.right == SELF) e.flags = dice_below(d, 3) ? 0 : dice_below(d, 2) ? ADJ_WITH_SELF : ADJ_ONE_WAY;
  e.radius = dice_below(d, 10) == 0 ? 0 : -dice_spread(d, 1e-4, 0.5);
  if (needs_radius(&e) || dice_below(d, 4) == 0) e.radius = dice_spread(d, 1e-3, 2) * sqrt(e.dim);
  if (e.build == build_tiny) e.radius = (double)dice_below(d, 60);
  if (e.build == build_huge) e.radius = dice_spread(d, 1e-3, 1.5);
  if (e.build == build_line || e.build == build_huge || e.build == build_tiny)
    e.scale = e.build == build_line ? (double)dice_below(d, 3) : dice_below(d, 2) ? 0.5 : 0;
  else
    e.scale = dice_below(d, 3) ? 0 : dice_spread(d, 1e-3, 1e3);
  e.offset = dice_below(d, 3) ? 0 : (dice_below(d, 2) ? 1 : -1) * dice_spread(d, 1e-3, 1e6);
  if (dice_below(d, 2)) vary_metric(d, &e);
  if (dice_below(d, 3) == 0) vary_magnitudes(d, &e);
  return e;
}

/* Turns the entry into a kNN join, with any k up to more than there are points. It mostly has no radius, unless the
 * builder needs one. */
static void make_nearest(dice *d, case_entry *e) {
  uint32_t others = e->right == SELF ? e->left : e->right;
  e->k = (uint32_t)dice_spread(d, 1, others + 10.0);
  if (dice_below(d, 4) == 0 && others) e->k = others + (uint32_t)dice_below(d, 3);
  if (e->flags & ADJ_ONE_WAY) e->flags = 0;
  if (!needs_radius(e) && dice_below(d, 3)) e->radius = INFINITY;
}

bool random_case(uint64_t seed, dice *d, join_case *out) {
  *d = dice_of(seed);
  case_entry entry = random_entry(d);
  if (dice_below(d, 2)) make_nearest(d, &entry);
  if (!case_build_entry(&entry, dice_below(d, 2) ? ADJ_F64 : ADJ_F32, seed ^ 0x5555, out)) return false;
  snprintf(out->name, sizeof out->name, "random case %llu, %s", (unsigned long long)seed,
           out->left.type == ADJ_F64 ? "f64" : "f32");
  return true;
}
