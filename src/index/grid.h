/* SPDX-License-Identifier: MIT
 *
 * The grid = epsilon grid order. Space is cut into slabs along some of the dimensions (the axes); a
 * cell is one slab of each. Points are sorted by the number of their cell, first axis most
 * significant, which is the epsilon grid order; only non-empty cells are stored.
 *
 * What a grid promises: the slabs of two points that belong to each other under the join's radius
 * differ by at most `reach` along every axis. See index/slab.h for the proof.
 */
#ifndef ADJI_GRID_H
#define ADJI_GRID_H

#include "data/dataset.h"
#include "distance/kernels.h"

enum {
  ADJI_MAX_AXES = 10,
  ADJI_CELL_PAD = 16 /* entries of UINT64_MAX behind the numbers of the cells */
};

typedef struct adji_axis {
  uint32_t dim;
  uint32_t reach;  /* slabs to either side that may hold neighbours: 1, or more on the last axis */
  uint64_t slabs;  /* numbered 0 .. slabs - 1                                                    */
  uint64_t stride; /* of a slab in the cell's number                                             */
  double low, inverse;
  double *breaks; /* NULL: slabs of equal width; otherwise where each slab begins, ascending      */
  double period;  /* length of the box, 0: not periodic                                          */
  double margin;  /* how near to a face of the box points have an image beyond the other         */
} adji_axis;

typedef struct adji_grid {
  adji_axis axes[ADJI_MAX_AXES]; /* the last one is contiguous in memory   */
  uint32_t axis_count;           /* 0: one cell holds everything           */
  uint32_t key_bits;             /* of a cell's number                     */
} adji_grid;

/* The largest difference that two coordinates of dimension j can have, the shorter way round where it is
 * periodic, when their points belong under limit: what slabs must be as wide as. */
double adji_grid_width(adj_type type, const adji_measure *measure, double limit, uint32_t j);

/* Sets up an axis over [low, high] with at most max_slabs slabs of at least width / reach each. When
 * the box holds more slabs than that, they begin at values of the (sorted) sample instead of at
 * regular distances, so that an outlier does not put all other points into one slab. */
adj_status adji_axis_init(adj_ctx *ctx, adji_axis *axis, const adji_axis *wanted, double high, double width,
                          uint64_t max_slabs, const double *sample, uint64_t sample_count);

/* Gives the axes their strides. The product of slabs must fit 62 bits. */
void adji_grid_finish(adji_grid *grid);
void adji_grid_clear(adj_ctx *ctx, adji_grid *grid);

/* The slab of a coordinate, and the number of a cell. Coordinates outside the axis belong to its
 * first or last slab. */
uint64_t adji_axis_slab(const adji_axis *axis, double x);

/* Points in grid order: see index/build.h. */
typedef struct adji_index {
  adj_ctx *ctx;
  const adj_dataset *set;
  adji_view view; /* coordinates by dimension, ids; images included */
  uint64_t cell_count;
  uint64_t *cell_keys;   /* cell_count + ADJI_CELL_PAD entries, ascending */
  uint32_t *cell_starts; /* cell_count + 1 entries: first position          */
  uint32_t largest_cell;
} adji_index;

#endif
