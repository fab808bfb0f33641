/* SPDX-License-Identifier: MIT
 *
 * The grid, which is the epsilon grid order. Space is cut into slabs along some dimensions (the axes); a cell is one
 * slab of each axis. Points are sorted by cell number, with the first axis most significant: this is the epsilon grid
 * order. Only non-empty cells are stored. The planner chooses the axes, build.c sorts the points, and neighbours.h
 * finds candidates.
 *
 * The promise of a grid: if two points belong under the join's radius, their slabs differ by at most `reach` along
 * every axis. The proof is in index/slab.h.
 */
#ifndef ADJI_GRID_H
#define ADJI_GRID_H

#include "data/dataset.h"
#include "distance/kernels.h"
#include "distance/measure.h"

enum {
  ADJI_MAX_AXES = 10,
  ADJI_CELL_PAD = 24 /* entries after the last cell, with number UINT64_MAX */
};

typedef struct adji_axis {
  uint32_t dim;
  uint32_t reach;  /* slabs to either side that may hold neighbours: 1, or more on the last axis */
  uint64_t slabs;  /* numbered 0 .. slabs - 1 */
  uint64_t stride; /* what a slab adds to the cell number */
  double low, inverse;
  double *breaks; /* NULL: slabs of equal width; otherwise where each slab begins, ascending */
  double period;  /* length of the periodic box; 0: not periodic */
  double margin;  /* points this close to a face of the box have an image beyond the opposite face */
} adji_axis;

typedef struct adji_grid {
  adji_axis axes[ADJI_MAX_AXES]; /* the last one is contiguous in memory */
  uint32_t axis_count;           /* 0: one cell holds everything */
  uint32_t key_bits;             /* bits of a cell number */
} adji_grid;

/* The largest difference of two coordinates of dimension j whose points belong under limit; in a periodic dimension,
 * the shorter way round. Slabs must be at least this wide. */
double adji_grid_width(adj_type type, const adji_measure *measure, double limit, uint32_t j);

/* The extent of an axis from its `low` on, and the limits of its slabs. */
typedef struct adji_axis_extent {
  double high, width;
  uint64_t max_slabs;
  const double *sample; /* sorted coordinates, used if max_slabs is too few for slabs of equal width */
  uint64_t sample_count;
} adji_axis_extent;

/* Sets up an axis over [low, high] with at most max_slabs slabs of at least width / reach each. If that is too few for
 * slabs of equal width, slabs begin at values of the sample instead, so that an outlier does not put all other points
 * into one slab. A periodic axis must have slabs of equal width; if that is impossible, ADJ_E_INTERNAL. */
adj_status adji_axis_init(adj_ctx *ctx, adji_axis *axis, const adji_axis *wanted, const adji_axis_extent *extent);

/* Gives the axes their strides. The product of the slab counts must fit into 62 bits. */
void adji_grid_finish(adji_grid *grid);
void adji_grid_clear(adj_ctx *ctx, adji_grid *grid);

bool adji_grid_is_periodic(const adji_grid *grid);

/* The slab of a coordinate. Coordinates outside the axis are in its first or last slab. */
uint64_t adji_axis_slab(const adji_axis *axis, double x);

/* Points in grid order: see index/build.h. */
typedef struct adji_index {
  adj_ctx *ctx;
  const adj_dataset *set;
  adji_view view; /* coordinates by dimension, and ids; images included */
  uint64_t cell_count;
  uint64_t *cell_keys; /* cell_count + ADJI_CELL_PAD entries, ascending */
  uint32_t
      *cell_starts; /* cell_count + ADJI_CELL_PAD entries: first positions; after the last cell the number of points */
  uint32_t largest_cell;
  bool wide; /* the CPU compares eight cell numbers at once */
} adji_index;

#endif
