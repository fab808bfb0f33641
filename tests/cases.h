/* SPDX-License-Identifier: MIT
 *
 * One list of cases for every backend: the ordinary edge cases (empty, one point, all equal, sizes around block edges,
 * ...) and the difficult ones (one ulp either side of the radius, radii that underflow when squared, coordinates that
 * overflow, lattices of ties, ...). Used by the tests and by `adjoin selftest`.
 */
#ifndef ADJOIN_CASES_H
#define ADJOIN_CASES_H

#include "reference.h"

typedef struct join_case {
  char name[80];
  bool quick; /* belongs to the short list */
  bool self_join;
  point_set left, right; /* right is empty in a self-join */
  uint32_t k;            /* 0: a range join                       */
  double radius;         /* of a kNN join: the bound, or INFINITY */
  adj_metric metric;
  double p;
  adj_angle angle;
  adj_unit unit;
  double *box; /* box_count lengths, or NULL */
  uint32_t box_count;
  uint32_t flags;
  double *radii;   /* for each left point, not owned; NULL: radius for all */
  uint64_t random; /* state of the builder's random numbers */
} join_case;

uint32_t case_count(void);

/* Makes the points of case number index. Returns false if memory runs out. */
bool case_build(uint32_t index, join_case *out);
void case_free(join_case *c);

/* The spec of the join, for the library and for the reference. */
adj_join_spec case_spec(const join_case *c);

/* ---- For the builders of points (case_points.c) ----------------------------------------------------- */

typedef struct case_entry case_entry;

/* Makes the points of an entry that is not in the list, for the random test. */
bool case_build_entry(const case_entry *entry, adj_type type, uint64_t seed, join_case *out);

/* The next random number of a case: 64 bits, or uniform in [0, 1). */
uint64_t case_random(join_case *c);
double case_random_unit(join_case *c);

/* Fills the allocated sets of a case, left and (unless it is a self-join) right, and sets or corrects
 * the radius. */
typedef void (*case_builder)(join_case *c, const case_entry *entry);

struct case_entry {
  const char *name;
  case_builder build;
  uint32_t dim;
  uint32_t left, right; /* counts; right SELF: a self-join                               */
  double radius;        /* negative: the share of all pairs to find, -0.01: 1 %;    */
                        /* inner products: a share if <= 0, otherwise the radius + 1 */
  uint32_t k;           /* 0: a range join                                               */
  double scale, offset; /* their meaning depends on the builder; a scale of 0 is 1   */
  adj_metric metric;    /* 0: L2                                                         */
  uint32_t flags;
  double p; /* Lp */
  adj_angle angle;
  adj_unit unit;
  double box;      /* length of a periodic box that the points are wrapped into; 0: none */
  bool uneven_box; /* half as long in the second dimension, not periodic in the third    */
};

#define SELF UINT32_MAX

/* The members that every entry has. Scale, offset, metric and flags follow if they are not the default. */
#define CASE(name_, build_, dim_, left_, right_, radius_) \
  .name = name_, .build = build_, .dim = dim_, .left = left_, .right = right_, .radius = radius_
#define L1 .metric = ADJ_L1
#define LINF .metric = ADJ_LINF
#define ONE_WAY .flags = ADJ_ONE_WAY
#define WITH_SELF .flags = ADJ_WITH_SELF

/* The kNN joins of the list, and the joins with other metrics and in periodic boxes. */
extern const case_entry knn_entries[], metric_entries[];
extern const uint32_t knn_entry_count, metric_entry_count;

void build_uniform(join_case *c, const case_entry *entry);
void build_equal(join_case *c, const case_entry *entry);
void build_duplicates(join_case *c, const case_entry *entry);
void build_lattice(join_case *c, const case_entry *entry);
void build_triangles(join_case *c, const case_entry *entry);
void build_ulps(join_case *c, const case_entry *entry);
void build_cell_edges(join_case *c, const case_entry *entry);
void build_tiny(join_case *c, const case_entry *entry);
void build_huge(join_case *c, const case_entry *entry);
void build_magnitudes(join_case *c, const case_entry *entry);
void build_outlier(join_case *c, const case_entry *entry);
void build_scales(join_case *c, const case_entry *entry);
void build_sentinels(join_case *c, const case_entry *entry);
void build_long_axis(join_case *c, const case_entry *entry);
void build_large_box(join_case *c, const case_entry *entry);
void build_line(join_case *c, const case_entry *entry);
void build_clumps(join_case *c, const case_entry *entry);
void build_far_left(join_case *c, const case_entry *entry);
void build_wide_left(join_case *c, const case_entry *entry);
void build_same_sets(join_case *c, const case_entry *entry);
void build_zeros(join_case *c, const case_entry *entry);
void build_clusters(join_case *c, const case_entry *entry);
void build_flat(join_case *c, const case_entry *entry);
void build_uneven(join_case *c, const case_entry *entry);

/* case_points_metrics.c */
void build_globe(join_case *c, const case_entry *entry);
void build_poles(join_case *c, const case_entry *entry);
void build_directions(join_case *c, const case_entry *entry);
void build_vanishing(join_case *c, const case_entry *entry);
void build_faces(join_case *c, const case_entry *entry);

/* Makes the points of a case fit its metric: inside of the box, and with a direction. */
void fit_points(join_case *c);

/* x, wrapped into [0, length] in the type. */
double wrapped(adj_type type, double x, double length);

#endif
