/* SPDX-License-Identifier: MIT
 *
 * What the parts of choosing a grid share: choose_grid_sample.c has the sample and what it says about cells,
 * choose_grid_costs.c has the cost of a join with them, choose_grid.c decides and makes the axes.
 */
#ifndef ADJI_CHOOSE_GRID_PRIVATE_H
#define ADJI_CHOOSE_GRID_PRIVATE_H

#include "plan/choose.h"

typedef struct adji_axis_view {
  uint32_t dim;
  double slabs; /* that the box holds                   */
  double rank;  /* axes of the lowest rank come first   */
} adji_axis_view;

/* A cell, by its hash, and how many rows of the sample are in it; count 0: no cell. */
typedef struct adji_sampled_cell {
  uint64_t hash;
  uint32_t count;
} adji_sampled_cell;

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
  uint64_t *cells;          /* of the sample's rows, by hash                              */
  adji_sampled_cell *table; /* for collisions: `room` cells by their hash, a power of two  */
  uint64_t room;
  uint32_t *near; /* rows of the sample                                          */
  bool gpu;       /* for a GPU: a smaller sample, and costs of its own           */
} adji_chooser;

/* The length of a periodic dimension, 0 for others. */
static inline double adji_chooser_period(const adji_chooser *c, uint32_t dim) {
  return adji_box_length(c->ask->measure, c->set->type, dim);
}

/* A periodic axis has at least this many cells: see index/build.c. */
static const double ADJI_LEAST_CELLS = 4.01;

/* ---- The sample ---------------------------------------------------------------------------------------- */

/* adji_sample_free also frees what a failed draw leaves. */
adj_status adji_sample_draw(adji_chooser *c);
void adji_sample_free(adji_chooser *c);

/* Finds the dimensions that are worth an axis, the best first. */
void adji_sample_view_axes(adji_chooser *c);

/* The cells of the sample. begin: one cell for all rows. split: splits the cells along one more axis, with slabs
 * `factor` widths wide. collide: the number of pairs of rows in one cell. population: from that, the number of other
 * points in the cell of a point. */
void adji_cells_begin(const adji_chooser *c);
void adji_cells_split(const adji_chooser *c, uint32_t axis, double factor);
double adji_cells_collide(const adji_chooser *c);
double adji_cells_population(const adji_chooser *c, double collisions);

/* Other points in the cell of a point, with cells `factor` widths wide on the first `axes` views. */
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

/* The time of cores to compare a vector of candidates, in nanoseconds. */
double adji_grid_vector_ns(const adji_chooser *c);
/* Costs on a GPU, in instructions of a warp: with a grid (device_cost); for all pairs in tiles, INFINITY if there are
 * no kernels for it; through the prefilter of tensor cores, with this number of candidates a query. */
double adji_grid_device_cost(const adji_chooser *c, double cell_population, double ranges, double candidates);
/* The factor by which the metric changes the first of these. */
double adji_grid_step_factor(const adji_chooser *c);
double adji_grid_all_pairs_cost(const adji_chooser *c);
double adji_grid_tensor_cost(const adji_chooser *c, double candidates);

#endif
