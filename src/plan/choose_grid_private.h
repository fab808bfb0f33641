/* SPDX-License-Identifier: MIT
 *
 * What the parts of choosing a grid share: choose_grid_sample.c has the sample and what it says about cells,
 * choose_grid_costs.c what a join with them costs, choose_grid.c decides and makes the axes.
 */
#ifndef ADJI_CHOOSE_GRID_PRIVATE_H
#define ADJI_CHOOSE_GRID_PRIVATE_H

#include "plan/choose.h"

typedef struct adji_axis_view {
  uint32_t dim;
  double slabs; /* that the box holds                   */
  double rank;  /* axes of the lowest rank come first   */
} adji_axis_view;

/* A cell, by its hash, and how many of the sample are in it; none: no cell. */
typedef struct adji_met_cell {
  uint64_t hash;
  uint32_t count;
} adji_met_cell;

typedef struct adji_chooser {
  const adji_range_question *ask;
  adji_grid_choice *out;
  adj_ctx *ctx;
  const adj_dataset *set; /* the right set, or a sample of it                  */
  uint64_t population;    /* points of the right set                           */
  double *widths;         /* per dimension: a cell must be at least this wide   */
  double *low, *high;     /* per dimension: the extent, without outliers        */
  uint64_t sample;        /* rows in the sample                                 */
  double *values;         /* per dimension, the sample's coordinates            */
  double *slabs;          /* the same, as numbers of slabs of this width        */
  adji_axis_view *views;  /* candidates for axes, the most selective first      */
  uint32_t view_count;
  uint64_t *cells;      /* of the sample's rows, by hash                              */
  adji_met_cell *table; /* for collisions: `room` cells by their hash, a power of two  */
  uint64_t room;
  uint32_t *near; /* rows of the sample                                          */
  bool gpu;       /* for a GPU: a smaller sample, and costs of its own           */
} adji_chooser;

/* The length of a periodic dimension, 0 for others. */
static inline double adji_chooser_period(const adji_chooser *c, uint32_t dim) {
  return adji_box_length(c->ask->measure, c->set->type, dim);
}

/* A periodic axis has at least so many cells: see index/build.c. */
static const double ADJI_LEAST_CELLS = 4.01;

/* ---- The sample ---------------------------------------------------------------------------------------- */

/* free takes what a failed draw leaves. */
adj_status adji_sample_draw(adji_chooser *c);
void adji_sample_free(adji_chooser *c);

/* Dimensions that are worth an axis, the best first. */
void adji_sample_view_axes(adji_chooser *c);

/* The cells of the sample: first on no axis at all, then split by one more each time, with slabs `factor` widths wide.
 * Pairs of rows in one cell; and how many others are in the cell of a point, from that. */
void adji_cells_begin(const adji_chooser *c);
void adji_cells_split(const adji_chooser *c, uint32_t axis, double factor);
double adji_cells_collide(const adji_chooser *c);
double adji_cells_population(const adji_chooser *c, double collisions);

/* Others in the cell of a point, with cells `factor` widths wide on the first `axes` views. */
double adji_sample_population(const adji_chooser *c, uint32_t axes, double factor);
/* How unevenly points lie along an axis. */
double adji_sample_unevenness(const adji_chooser *c, uint32_t axis);
/* Candidates of a query for every number of axes: candidates[k] with k axes. */
void adji_sample_candidates(const adji_chooser *c, uint32_t most, double *candidates);

/* ---- After the papers ---------------------------------------------------------------------------------- */

/* The variance of a dimension. */
double adji_sample_variance(const adji_chooser *c, uint32_t dim);
/* Sets c->out->dims and c->out->memory, if the settings ask for these. */
adj_status adji_list_reordered(adji_chooser *c);
void adji_list_memory_operations(adji_chooser *c, uint32_t most);

/* ---- Costs --------------------------------------------------------------------------------------------- */

/* Of cores to compare a vector of candidates, in nanoseconds. */
double adji_grid_vector_ns(const adji_chooser *c);
/* Of a GPU, in instructions of a warp: with a grid; for all pairs in tiles, INFINITY if there are no kernels for it;
 * through the prefilter of tensor cores, with so many candidates a query. */
double adji_grid_device_cost(const adji_chooser *c, double cell_population, double ranges, double candidates);
/* What other metrics take of that. */
double adji_grid_step_factor(const adji_chooser *c);
double adji_grid_all_pairs_cost(const adji_chooser *c);
double adji_grid_tensor_cost(const adji_chooser *c, double candidates);

#endif
