/* SPDX-License-Identifier: MIT
 *
 * Choosing the grid: what a join costs with it, on cores and on a GPU.
 */
#include <math.h>

#include "plan/choose_grid_private.h"

double adji_grid_vector_ns(const adji_chooser *c) {
  const adji_costs *costs = &c->ctx->costs;
  if (c->ask->codes) return costs->vector_ns + costs->vector_code_dim_ns * c->set->dim;
  double dims = c->set->dim < 12 ? c->set->dim : 12; /* sums are abandoned early in many dimensions */
  return costs->vector_ns + costs->vector_dim_ns * dims;
}

/* A lower bound of the time, however few queries there are. In many dimensions a warp waits for every coordinate, so
 * candidates take ten times as long as their instructions: 100,000 points in 8 and 10 dimensions took an H200 0.009 to
 * 0.023 ns a candidate. A warp also waits for the look-ups of its cells, one after the other. */
static double least_cost(const adji_chooser *c, double cell_population, double rounds, double candidates) {
  const adji_costs *w = &c->ctx->costs;
  double ns = c->set->dim > 64 ? w->device_long_step_ns : w->device_step_ns;
  double cells = 32 / (1 + cell_population);
  return adji_warp_instructions(w, (rounds * cells * w->device_lookup_ns + candidates * c->set->dim * ns) * 1e-9);
}

/* The cost on a GPU, in instructions of a warp (gpu/range/tiles_kernel.cuh). Queries of dense cells are compared 32 at
 * a time with one candidate; other queries cell by cell, with 32 candidates at a time, and about half of the candidates
 * are in rows of cells that are skipped. cell_population is that of a typical point, not the mean: where points lie
 * unevenly, most cells hold fewer than the mean. */
double adji_grid_device_cost(const adji_chooser *c, double cell_population, double ranges, double candidates) {
  const adji_costs *w = &c->ctx->costs;
  double n = (double)c->population, rounds = ceil(ranges / 32), dims = c->set->dim < 24 ? c->set->dim : 24;
  bool few = ADJI_GPU_WIDTH(c->set->dim);
  double least = few ? 0 : least_cost(c, cell_population, rounds, candidates);
  if (!few) candidates *= w->warp_wait;
  if (cell_population >= 7)
    return fmax(least,
                n / 32 * (rounds * w->warp_lookup + 1.3 * candidates * (w->warp_dense_dim * dims + w->warp_dense)));
  double steps = rounds + 0.5 * candidates / 32;
  return fmax(least, n / (1 + cell_population) * (rounds * w->warp_lookup + steps * w->warp_step) +
                         n * steps * (w->warp_sparse_dim * dims + w->warp_sparse));
}

double adji_grid_step_factor(const adji_chooser *c) {
  return adji_plain_step(c->ask->measure->step) == ADJI_STEP_L2 ? 1 : c->ctx->costs.device_other_step;
}

/* The cost of comparing all pairs in tiles; INFINITY: there are no kernels for it, or they are not wanted. */
double adji_grid_all_pairs_cost(const adji_chooser *c) {
  adji_grid_choice none = {0};
  if (!adji_choose_device_all_pairs(c->ask, &none)) return INFINITY;
  return adji_warp_instructions(&c->ctx->costs, adji_all_pairs_seconds(c->ask, (double)c->population));
}

/* The cost of the prefilter of tensor cores with this number of candidates a query. In grid order, the pairs that pass
 * belong to few warps, for which the others wait, unless all queries have equally many. In clusters the queries of a
 * warp pass with the same points, which takes half as long: 100,000 points in 32 dimensions with 1,000 neighbours each
 * took an H200 13 ms. */
double adji_grid_tensor_cost(const adji_chooser *c, double candidates) {
  static const double MOST_UNEVEN = 3, SHARED = 0.5;
  const adji_costs *costs = &c->ctx->costs;
  adji_tensor_passing passing = adji_tensor_passing_of(c->ask, &c->out->tensor, c->values, c->sample);
  double n = (double)c->population, waiting = candidates < 0.9 * n ? fmin(passing.uneven, MOST_UNEVEN) : 1;
  double each = adji_tensor_passed_cost(costs, c->set->dim) * (1 - SHARED * passing.together);
  return n * candidates * adji_tensor_cost(costs, &c->out->tensor) + n * n * passing.part * each * waiting;
}
