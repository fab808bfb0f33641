/* SPDX-License-Identifier: MIT
 *
 * Shared by split_home.c, split_halo.c and split_border.c: loops over the points of a part.
 */
#ifndef ADJI_SPLIT_PRIVATE_H
#define ADJI_SPLIT_PRIVATE_H

#include "cluster/split.h"

/* What a loop over the points of a part works on. A slice has at most so many points. */
enum { ADJI_SLICE_POINTS = 16384 };
typedef struct adji_part {
  const adj_split *split;
  const adj_dataset *points; /* derived, where the metric says so */
  adj_dataset *derived;
  uint64_t slices;
} adji_part;
/* Checks the points and derives them, if the metric does so. `derived` must be destroyed, also after a failure. */
adj_status adji_split_open_part(const adj_split *split, const adj_dataset *points, adji_part *out);
/* Checks that homes are regions. home NULL: there are none. */
adj_status adji_split_check_home(const adj_split *split, const adj_dataset *points, const uint32_t *home);

/* ---- Halos ------------------------------------------------------------------------------------------------------ */

static const double SPLIT_SLACK = 0x1p-50;

/* The visits of a slice. */
typedef struct adji_visit_list {
  adji_visit *items;
  uint64_t count, room;
} adji_visit_list;

typedef struct adji_haloing {
  adji_part p;
  const uint32_t *home;
  const double *radii;
  const double *reaches;    /* of the regions; NULL: what reaches are those of the points */
  const double *low, *high; /* boxes of nodes: those of the split, or around cells that reach so far */
  double *boxes;            /* the latter */
  double *widths;           /* by dimension, of the spec's radius; zeros if there are reaches */
  double *cells;            /* of the regions: low, then high values */
  double *margins;          /* by region and dimension: points farther inside a cell stay at home */
  void *inner;              /* of the regions, in the type of the points: see INNER. NULL: not tested */
  adji_visit_list *lists;   /* by slice */
} adji_haloing;

/* Makes the arrays of a loop, whose split, home, radii and reaches are set. Also after a failure it must be closed. */
adj_status adji_halo_open(adji_haloing *h, const adj_dataset *points);
void adji_halo_close(adji_haloing *h);
/* The width of a radius in a dimension, with the slack of a box. */
double adji_split_width(const adj_split *split, double radius, uint32_t j);

/* Which of up to 64 points may reach beyond the cell of their home, as bits: all, if no test tells. region: the home of
 * all points, if h->home is NULL; ADJI_NO_REGION: they have none. */
enum { ADJI_HALO_BLOCK = 64 };
#define ADJI_NO_REGION UINT32_MAX
uint64_t adji_halo_leavers(const adji_haloing *h, uint64_t first, uint64_t many, uint32_t region);

#endif
