/* SPDX-License-Identifier: MIT
 *
 * Choosing the grid from a sample of the right set.
 *
 * The cost model weighs index searches against distance comparisons, both measured on a sample, as papers on joins in
 * many dimensions do. With k axes, a cell looks up 3^(k - 1) ranges, once for all its queries. Each query then compares
 * its candidates, a vector at a time but at least one vector for each non-empty range. Candidates come from sampled
 * pairs: the share of them within one slab of each other on all k axes. Points per cell come from sampled collisions:
 * with m points in the sample and c pairs of them in one cell, a point shares its cell with n * c / (m (m - 1) / 2)
 * others.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "distance/count_narrow.h"
#include "gpu/papers/access.h"
#include "index/radix_sort.h"
#include "plan/choose_grid_private.h"

enum { MAX_TRIES = 16 };

/* ---- Decisions ---------------------------------------------------------------------------------------- */

/* Axes for the prefilter of tensor cores, and its cost with them. It looks up no cells, but scans tiles of consecutive
 * points with bounding boxes. More axes make the boxes smaller, until a cell has fewer points than a tile. An order
 * that excludes hardly anything is worth less than the input order. */
static uint32_t choose_tensor_axes(const adji_chooser *c, uint32_t most, const double *candidates, double *cost) {
  double least = candidates[0];
  uint32_t axes = 0;
  while (axes < most && adji_sample_population(c, axes, 1) >= ADJI_HALVES_TILE) {
    least = candidates[axes];
    axes++;
  }
  if (axes == most && adji_sample_population(c, axes, 1) >= ADJI_HALVES_TILE) least = candidates[axes];
  if (least > 0.9 * candidates[0]) axes = 0;
  *cost = adji_grid_tensor_cost(c, least);
  return axes;
}

static uint32_t most_axes(const adji_chooser *c) {
  const adji_tuning *t = c->ask->tuning;
  uint32_t most = c->ask->measure->box          ? 5 /* a periodic axis doubles the points near its faces */
                  : t->indexed || t->indexed_by ? ADJI_MAX_AXES
                                                : 8;
  return c->view_count < most ? c->view_count : most;
}

static adj_status check_indexed(const adji_chooser *c) {
  uint64_t wanted = c->ask->tuning->indexed;
  if (wanted <= most_axes(c)) return ADJ_OK;
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: indexed=%llu: of these %u dimensions%s only %u can be indexed",
                   (unsigned long long)wanted, c->set->dim, c->ask->measure->box ? " in a periodic box" : "",
                   most_axes(c));
}

/* The axes have equal parts of the bits of a cell number. With images a row number must also fit into the 64 bits. One
 * bit is for the unused numbers at the end of each axis. */
static uint64_t slabs_allowed(const adji_chooser *c, uint32_t axes) {
  uint32_t row_bits = 64 - (uint32_t)__builtin_clzll(c->population);
  uint32_t bits = (c->ask->measure->box ? 63 - row_bits : 60) / axes;
  return UINT64_C(1) << (bits < 20 ? bits : 20);
}

/* Time for those of the first `axes` axes that need more slabs of equal width than that. Their slabs are cut by a
 * sorted sample. Sorting takes the host half a millisecond for each axis while a device waits. */
static double cut_seconds(const adji_chooser *c, uint32_t axes) {
  static const double SORT_S = 0.0005;
  double seconds = 0;
  for (uint32_t a = 0; a < axes; a++)
    if (c->views[a].slabs * 1.01 + 2 >= (double)slabs_allowed(c, axes)) seconds += SORT_S;
  return seconds;
}

/* The time per dimension of a candidate of a group, relative to that with 16 lanes. */
static double lanes_factor(const adji_chooser *c) {
  const char *isa = c->ctx->isa;
  double lanes = !strcmp(isa, "avx512") ? 16 : !strcmp(isa, "avx2") ? 8 : !strcmp(isa, "neon") ? 4 : 1;
  return 16 / lanes * (c->set->type == ADJ_F64 ? 2 : 1);
}

/* Two or three axes in three dimensions. Groups of queries look up three or nine ranges of cells; the more points a
 * cell holds, the fewer groups there are. In sparse sets, in clusters and on surfaces a third axis excludes few
 * candidates. With Lp, powers cost more than any look-up. */
static uint32_t choose_two_or_three(const adji_chooser *c) {
  static const double FULL = 16;
  const adji_costs *costs = &c->ctx->costs;
  double candidates[ADJI_MAX_AXES + 1];
  if (adji_plain_step(c->ask->measure->step) == ADJI_STEP_LP) return 3;
  adji_sample_candidates(c, 3, candidates);
  double lookups = 6 * costs->group_lookup_ns / (1 + adji_sample_population(c, 3, 1) / FULL);
  double more_ns = (candidates[2] - candidates[3]) * costs->group_candidate_ns * lanes_factor(c);
  return more_ns < lookups ? 2 : 3;
}

/* Candidates compared at once. In few dimensions f64 is counted as f32; lists are not, but are not slower for it. */
static double cell_lanes(const adji_chooser *c) {
  bool narrow = !c->gpu && adji_count_narrow_for(c->ctx->isa, c->ask->measure, c->set->dim);
  return c->set->type == ADJ_F64 && !narrow ? 8 : 16;
}

static uint32_t choose_axis_count(const adji_chooser *c) {
  uint32_t most = most_axes(c);
  if (c->ask->tuning->indexed) return (uint32_t)c->ask->tuning->indexed;
  if (c->ask->tuning->indexed_by) return adji_fewest_memory_operations(c->out);
  if (most == 3 && c->set->dim == 3 && !c->gpu) return choose_two_or_three(c);
  if (most <= 3 && c->set->dim <= 3) return most;
  double candidates[ADJI_MAX_AXES + 1], best = INFINITY, ranges = 1;
  double lanes = cell_lanes(c), n = (double)c->population;
  const adji_costs *costs = &c->ctx->costs;
  adji_sample_candidates(c, most, candidates);
  uint32_t axes = 0;
  double uneven = 0;
  adji_cells_begin(c);
  for (uint32_t k = 0; k <= most; k++) {
    if (k) adji_cells_split(c, k - 1, 1);
    if (k && c->gpu) uneven += adji_sample_unevenness(c, k - 1);
    double cell_population = adji_cells_population(c, adji_cells_collide(c));
    double full = fmin(ranges, candidates[k]) + candidates[k] / lanes;
    double cost = n / (1 + cell_population) * ranges * costs->lookup_ns + n * full * adji_grid_vector_ns(c);
    if (c->gpu) cost = adji_grid_device_cost(c, cell_population * exp(-uneven), ranges, candidates[k]);
    if (c->gpu && !k) cost = fmin(cost, adji_grid_all_pairs_cost(c));
    if (c->gpu && k) cost = cost * adji_grid_step_factor(c) + adji_warp_instructions(costs, cut_seconds(c, k));
    if (cost < best) {
      best = cost;
      axes = k;
      c->out->candidates = candidates[k];
    }
    if (k) ranges *= 3;
  }
  if (!c->gpu || !c->out->tensor.use) return axes; /* a device beside cores may have the prefilter */
  double cost;
  uint32_t product_axes = choose_tensor_axes(c, most, candidates, &cost);
  if (cost < best || c->ask->tuning->prefilter == ADJI_PREFILTER_TENSOR) return product_axes;
  c->out->tensor.use = false;
  return axes;
}

/* If cells as wide as the radius hold hardly a point, wider cells save look-ups. On a GPU look-ups cost less than the
 * additional candidates. */
static double choose_width(const adji_chooser *c, uint32_t axes, double *population) {
  double factor = c->ask->tuning->cell > 1 ? c->ask->tuning->cell : 1, widest = 0;
  *population = adji_sample_population(c, axes, factor);
  for (uint32_t a = 0; a < axes; a++)
    widest = fmax(widest, c->views[a].slabs);
  for (int i = 0; i < MAX_TRIES && !c->gpu && !c->ask->tuning->cell && *population < 0.7 && factor * 8 < widest; i++) {
    factor *= 1.5;
    *population = adji_sample_population(c, axes, factor);
  }
  return factor;
}

/* A finer last axis costs no look-ups: candidates cover 2 + 1/fine radii of it instead of 3. Cells then hold fewer
 * queries; about four should remain to share what is loaded. */
static uint32_t choose_fine(const adji_chooser *c, double cell_population) {
  if (c->ask->tuning->fine) return (uint32_t)c->ask->tuning->fine;
  uint32_t fine = 1;
  if (adji_access_by_point((adji_access)c->ask->tuning->access)) return fine; /* as in the papers */
  while (fine < 8 && cell_population / (2 * fine) >= (c->gpu ? 7 : 3))
    fine *= 2;
  return fine;
}

/* Sorted sample values of a dimension, for slabs that cannot have equal width. This sample is larger than the
 * planner's: it bounds how many points fall into one slab. */
static adj_status sorted_values(adji_chooser *c, uint32_t dim, double **out, uint64_t *count) {
  *count = c->set->count < 1u << 17 ? c->set->count : 1u << 17;
  double *values = adji_alloc(&c->ctx->memory, *count, sizeof *values, "sample");
  for (uint64_t i = 0; values && i < *count; i++) {
    uint64_t begin, end;
    adji_slice(c->set->count, *count, i, &begin, &end);
    values[i] = adji_dataset_at(c->set, begin, dim);
  }
  *out = values;
  return values ? adji_radix_sort_values(c->ctx, values, *count, c->set->type == ADJ_F32) : ADJ_E_MEMORY;
}

/* A periodic axis: slabs of equal width over the whole box and the images beyond its faces, wide enough that cell and
 * row numbers fit 64 bits together. */
static adj_status make_periodic_axis(adji_chooser *c, adji_axis *axis, uint32_t dim, uint32_t axes, double factor,
                                     uint32_t reach) {
  double period = adji_chooser_period(c, dim), cell = c->widths[dim] * factor;
  uint64_t allowed = slabs_allowed(c, axes);
  while (reach > 1 && allowed / 16 < reach)
    reach /= 2;
  cell = fmax(cell, period * reach * 1.01 / ((double)allowed - 4.0 * reach));
  cell = fmin(cell, period / ADJI_LEAST_CELLS);
  adji_axis wanted = {.dim = dim, .reach = reach, .low = -cell, .period = period, .margin = c->widths[dim]};
  return adji_axis_init(c->ctx, axis, &wanted, &(adji_axis_extent){period + cell, cell, allowed, NULL, 0});
}

/* The most selective dimension is last: the last axis is the fine one. */
static uint32_t axis_dim(const adji_chooser *c, uint32_t a, uint32_t axes) {
  return c->views[axes - 1 - a].dim;
}

static adj_status make_axis(adji_chooser *c, uint32_t a, uint32_t axes, double factor, uint32_t reach,
                            const adji_ends *ends) {
  adji_axis *axis = &c->out->grid.axes[a];
  uint32_t dim = axis_dim(c, a, axes);
  if (adji_chooser_period(c, dim) > 0) return make_periodic_axis(c, axis, dim, axes, factor, reach);
  adji_axis wanted = {.dim = dim, .reach = reach, .low = ends->low};
  uint64_t allowed = slabs_allowed(c, axes), count = 0;
  double width = c->widths[dim] * factor;
  double needed = (ends->high - wanted.low) / width * reach, *values = NULL;
  adj_status status = ADJ_OK;
  if (!(needed * 1.01 + 2 < (double)allowed)) status = sorted_values(c, dim, &values, &count);
  adji_axis_extent extent = {ends->high, width, allowed, values, count};
  if (!status) status = adji_axis_init(c->ctx, axis, &wanted, &extent);
  adji_free(&c->ctx->memory, values);
  return status;
}

/* Narrower cells fit the ball better, if they still hold many points. Only a GPU's default kernels for few dimensions
 * look farther than the next cell. */
static uint32_t choose_narrow(const adji_chooser *c, uint32_t axes, double cell_population) {
  const adji_tuning *tuning = c->ask->tuning;
  if (!c->gpu || c->set->dim > 3 || axes < 2 || c->ask->measure->step != ADJI_STEP_L2 || c->out->tensor.use ||
      adji_access_by_point((adji_access)tuning->access))
    return 1;
  if (tuning->narrow) return (uint32_t)tuning->narrow;
  return cell_population >= 100 ? 2 : 1;
}

/* The extent of the points, or less if only a GPU's default kernels for few dimensions read the cells. Not in a join of
 * two sets, where all left points may lie beyond. */
static void find_ends(const adji_chooser *c, uint32_t axes, double factor, const uint32_t *reach, adji_ends *ends) {
  for (uint32_t a = 0; a < axes; a++) {
    uint32_t dim = axis_dim(c, a, axes);
    ends[a] = (adji_ends){c->values + dim * c->sample, c->widths[dim] * factor / reach[a], c->low[dim], c->high[dim]};
  }
  if (c->gpu && c->set->dim <= 3 && c->ask->join->self_join && !c->ask->measure->box && !c->out->tensor.use &&
      !adji_access_by_point((adji_access)c->ask->tuning->access))
    adji_choose_ends(ends, axes, c->sample, c->population, ADJI_GPU_BUCKETS(c->population));
}

static adj_status make_grid(adji_chooser *c) {
  adji_list_memory_operations(c, most_axes(c));
  uint32_t axes = choose_axis_count(c);
  c->out->next_dim = c->views[axes < c->view_count ? axes : 0].dim;
  if (!axes) return ADJ_OK;
  double cell_population, factor = choose_width(c, axes, &cell_population);
  c->out->cell_population = cell_population;
  if (c->set->dim <= 3) c->out->candidates = cell_population * pow(3, axes); /* in more dimensions they are counted */
  adj_status status = ADJ_OK;
  uint32_t narrow = factor > 1 ? 1 : choose_narrow(c, axes, cell_population);
  uint32_t fine = factor > 1 ? 1 : choose_fine(c, cell_population / pow(narrow, axes - 1));
  if (c->gpu && c->ask->tuning->narrow && narrow != c->ask->tuning->narrow)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: test.narrow=%llu is for L2 in two and three dimensions",
                     (unsigned long long)c->ask->tuning->narrow);
  uint32_t reach[ADJI_MAX_AXES] = {0};
  adji_ends ends[ADJI_MAX_AXES];
  for (uint32_t a = 0; a < axes; a++)
    reach[a] = a == axes - 1 ? fine : narrow;
  find_ends(c, axes, factor, reach, ends);
  for (uint32_t a = 0; a < axes && !status; a++) {
    status = make_axis(c, a, axes, factor, reach[a], &ends[a]);
    c->out->grid.axis_count = a + 1;
  }
  size_t used = strlen(c->out->reason);
  snprintf(c->out->reason + used, sizeof c->out->reason - used,
           "%u of %u dimensions indexed, cells %.3g times as wide as the radius with about %.1f points each", axes,
           c->set->dim, factor, cell_population + 1);
  return status;
}

/* Chooses axes and prefilter from a sample. Brute force has no axes, but perhaps a prefilter. */
static adj_status choose(adji_chooser *c, bool brute) {
  adj_status status = adji_sample_draw(c);
  if (!status && c->gpu) status = adji_choose_tensor(c->ask, c->values, c->sample, &c->out->tensor);
  if (!status && !brute) adji_sample_view_axes(c);
  if (!status && !brute) status = check_indexed(c);
  if (!status && c->view_count) status = make_grid(c);
  if (!status && !brute) status = adji_list_reordered(c);
  bool compares_all = !status && !c->view_count && c->out->tensor.use && !c->out->tensor.asked;
  if (compares_all && adji_grid_all_pairs_cost(c) < adji_grid_tensor_cost(c, (double)c->population))
    c->out->tensor.use = false;
  adji_sample_free(c);
  return status;
}

adj_status adji_choose_grid(const adji_range_question *question, bool brute, adji_grid_choice *out) {
  adji_chooser c = {.ask = question, .out = out, .ctx = question->join->ctx, .set = question->join->right};
  c.gpu = question->device;
  c.population = adji_question_points(question);
  *out = (adji_grid_choice){0};
  adj_status status = c.gpu ? adji_check_tensor(question) : ADJ_OK;
  if (!status && isfinite(question->join->limit) && c.set->count > 1 && (!brute || adji_may_choose_tensor(question)))
    status = choose(&c, brute);
  if (status) {
    adji_grid_choice_clear(c.ctx, out);
    return status;
  }
  size_t used = strlen(out->reason);
  if (out->tensor.use)
    snprintf(out->reason + used, sizeof out->reason - used, "%sproducts of half-precision copies as a filter",
             used ? "; " : "");
  adji_grid_finish(&out->grid);
  return ADJ_OK;
}

void adji_grid_choice_clear(adj_ctx *ctx, adji_grid_choice *choice) {
  adji_grid_clear(ctx, &choice->grid);
  adji_free(&ctx->memory, choice->tensor.centre);
  adji_free(&ctx->memory, choice->dims);
  *choice = (adji_grid_choice){0};
}
