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
#include <stdlib.h>
#include <string.h>

#include "gpu/papers/access.h"
#include "index/extent.h"
#include "index/radix_sort.h"
#include "plan/choose.h"

enum {
  SAMPLE = 4096,
  GPU_SAMPLE = 2048,
  GPU_SAMPLE_VALUES = 1 << 17,
  LEAST_SAMPLE = 256,
  PAIR_QUERIES = 64,
  GPU_PAIR_QUERIES = 32,
  UNEVEN_ROWS = 512,
  MAX_TRIES = 16
};

typedef struct axis_view {
  uint32_t dim;
  double slabs; /* that the box holds                   */
  double rank;  /* axes of the lowest rank come first   */
} axis_view;

/* A cell, by its hash, and how many of the sample are in it; none: no cell. */
typedef struct met {
  uint64_t hash;
  uint32_t count;
} met;

typedef struct chooser {
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
  axis_view *views;       /* candidates for axes, the most selective first      */
  uint32_t view_count;
  uint64_t *cells; /* of the sample's rows, by hash                              */
  met *table;      /* for collisions: `room` cells by their hash, a power of two  */
  uint64_t room;
  uint32_t *near; /* rows of the sample                                          */
  bool gpu;       /* for a GPU: a smaller sample, and costs of its own           */
} chooser;

/* ---- The sample ------------------------------------------------------------------------------------ */

/* One row from each of `sample` equal slices, picked by a hash: a regular pattern of rows does not mislead it, and it
 * is the same on every machine. */
static uint64_t sample_row(const chooser *c, uint64_t i) {
  uint64_t begin, end;
  adji_slice(c->set->count, c->sample, i, &begin, &end);
  uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  hash ^= hash >> 29;
  return begin + hash % (end - begin);
}

/* Rows of the sample that may be outliers, at either end of a dimension. The points they stand for may all be in one
 * cell, and are compared with each other. */
static uint32_t most_outliers(const chooser *c) {
  enum { MOST = 4, MOST_POINTS = 8192 };
  uint64_t most = c->sample / 64, by_points = MOST_POINTS * c->sample / c->population;
  if (most > by_points) most = by_points;
  return most < MOST ? (uint32_t)most : MOST;
}

static adj_status draw_sample(chooser *c) {
  adji_memory *memory = &c->ctx->memory;
  uint32_t dim = c->set->dim;
  c->sample = c->gpu ? GPU_SAMPLE : SAMPLE;
  if (c->gpu && c->sample > GPU_SAMPLE_VALUES / dim) /* a device would wait for it */
    c->sample = GPU_SAMPLE_VALUES / dim > LEAST_SAMPLE ? GPU_SAMPLE_VALUES / dim : LEAST_SAMPLE;
  if (c->sample > c->set->count) c->sample = c->set->count;
  c->values = adji_alloc(memory, c->sample * dim, sizeof *c->values, "sample");
  c->slabs = adji_alloc(memory, c->sample * dim, sizeof *c->slabs, "sample");
  c->widths = adji_alloc(memory, 3 * (uint64_t)dim, sizeof *c->widths, "sample");
  c->views = adji_alloc_zero(memory, dim, sizeof *c->views, "sample");
  c->room = 1;
  while (c->room < 2 * c->sample)
    c->room *= 2;
  c->table = adji_alloc(memory, c->room, sizeof *c->table, "sample");
  c->cells = adji_alloc(memory, c->sample, sizeof *c->cells, "sample");
  c->near = adji_alloc(memory, c->sample, sizeof *c->near, "sample");
  if (!c->values || !c->slabs || !c->widths || !c->views || !c->table || !c->cells || !c->near) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < dim; j++)
    c->widths[j] = adji_grid_width(c->set->type, c->ask->measure, c->ask->join->limit, j);
  for (uint64_t i = 0; i < c->sample; i++) {
    uint64_t row = sample_row(c, i);
    for (uint32_t j = 0; j < dim; j++)
      c->values[j * c->sample + i] = adji_dataset_at(c->set, row, j);
  }
  c->low = c->widths + dim;
  c->high = c->low + dim;
  for (uint32_t j = 0; j < dim; j++) {
    c->low[j] = c->set->low[j];
    c->high[j] = c->set->high[j];
    adji_trim_extent(c->values + j * c->sample, c->sample, most_outliers(c), &c->low[j], &c->high[j]);
  }
  return ADJ_OK;
}

static void free_sample(chooser *c) {
  adji_memory *memory = &c->ctx->memory;
  adji_free(memory, c->values);
  adji_free(memory, c->slabs);
  adji_free(memory, c->widths);
  adji_free(memory, c->views);
  adji_free(memory, c->table);
  adji_free(memory, c->cells);
  adji_free(memory, c->near);
}

/* ---- Axes worth having ------------------------------------------------------------------------------ */

/* The slabs of the sample along a dimension, for the narrowest cells. */
static void number_slabs(const chooser *c, uint32_t dim) {
  const double *values = c->values + dim * c->sample;
  double *slabs = c->slabs + dim * c->sample;
  for (uint64_t i = 0; i < c->sample; i++)
    slabs[i] = floor((values[i] - c->low[dim]) / c->widths[dim]);
}

/* Of the sample, every so many-th row is compared with the others. */
static uint64_t pair_step(const chooser *c) {
  return c->sample / (c->gpu ? GPU_PAIR_QUERIES : PAIR_QUERIES) + 1;
}

/* The share of sampled pairs that are within one slab of each other along a dimension. */
static double near_share(const chooser *c, uint32_t dim) {
  uint64_t step = pair_step(c), near = 0, pairs = 0;
  const double *slabs = c->slabs + dim * c->sample;
  for (uint64_t q = 0; q < c->sample; q += step)
    for (uint64_t i = q % 7; i < c->sample; i += 7, pairs++)
      near += fabs(slabs[i] - slabs[q]) <= 1;
  return (double)near / (double)pairs;
}

static int by_rank(const void *left, const void *right) {
  const axis_view *a = left, *b = right;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return a->dim < b->dim ? -1 : a->dim > b->dim;
}

static double variance_of(const chooser *c, uint32_t dim) {
  const double *values = c->values + dim * c->sample;
  double sum = 0, squares = 0, m = (double)c->sample;
  for (uint64_t i = 0; i < c->sample; i++)
    sum += values[i] / m;
  for (uint64_t i = 0; i < c->sample; i++)
    squares += (values[i] - sum) * ((values[i] - sum) / m);
  return squares;
}

/* The length of a periodic dimension, 0 for others. */
static double period_of(const chooser *c, uint32_t dim) {
  return adji_box_length(c->ask->measure, c->set->type, dim);
}

/* A periodic axis has at least so many cells: see index/build.c. */
static const double LEAST_CELLS = 4.01;

/* Whether slabs of equal width cover a periodic dimension and its images: images share no cell with the point only if
 * there are LEAST_CELLS of them, and only if no step of their arithmetic overflows or loses bits to denormal numbers.
 * There are at most 2^20 slabs, so a period within these bounds keeps the width of a slab, its inverse and the places
 * of images far inside the range of f64. Every length of f32 is within them. Other dimensions are not indexed. */
static bool can_wrap(double period, double width) {
  return period >= 0x1p-960 && period <= 0x1p960 && period >= LEAST_CELLS * width;
}

/* Dimensions in which the points' box is at least three slabs wide, the most selective first. In up to three dimensions
 * all of them are taken anyway, so the widest stands for the most selective. Where their number or another order is
 * asked for, all dimensions, whatever they are worth: by variance, which is GPU-Join's REORDER (Gowanlock and Karsin,
 * section 4.2), or as they come. */
static void view_axes(chooser *c) {
  uint64_t reorder = c->ask->tuning->reorder;
  bool all = reorder || c->ask->tuning->indexed;
  for (uint32_t j = 0; j < c->set->dim; j++) {
    axis_view view = {j, (c->high[j] - c->low[j]) / c->widths[j], 0};
    if (period_of(c, j) > 0 && !can_wrap(period_of(c, j), c->widths[j])) continue;
    if (!(view.slabs > 2) && !all) continue;
    number_slabs(c, j);
    if (reorder == ADJI_ON) view.rank = -variance_of(c, j);
    if (reorder == ADJI_AUTO) view.rank = c->set->dim <= 3 ? 1 / view.slabs : near_share(c, j);
    if (view.rank > 0.97 && !all) continue;
    c->views[c->view_count++] = view;
  }
  qsort(c->views, c->view_count, sizeof *c->views, by_rank);
}

/* ---- Collisions and candidates ----------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash) {
  hash *= UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

static uint64_t slab_bits(double slab) {
  return (uint64_t)(int64_t)fmin(fmax(slab, -0x1p62), 0x1p62);
}

/* The cells of the sample by a hash: first on no axis at all, then on one more each time. */
static void begin_cells(const chooser *c) {
  memset(c->cells, 0, c->sample * sizeof *c->cells);
}

static void split_cells(const chooser *c, uint32_t axis, double factor) {
  const double *slabs = c->slabs + c->views[axis].dim * c->sample;
  for (uint64_t i = 0; i < c->sample; i++)
    c->cells[i] = mix(c->cells[i] ^ slab_bits(factor > 1 ? floor(slabs[i] / factor) : slabs[i]));
}

static void clear_table(const chooser *c) {
  memset(c->table, 0, c->room * sizeof *c->table);
}

/* The entry of a hash, which may be new. */
static met *meet(const chooser *c, uint64_t hash) {
  uint64_t last = c->room - 1, at = hash & last;
  while (c->table[at].count && c->table[at].hash != hash)
    at = (at + 1) & last;
  c->table[at].hash = hash;
  return &c->table[at];
}

/* Pairs of the sample that are in one cell. */
static double count_collisions(const chooser *c) {
  double collisions = 0;
  clear_table(c);
  for (uint64_t i = 0; i < c->sample; i++)
    collisions += meet(c, c->cells[i])->count++;
  return collisions;
}

/* Others in the cell of a point, from that. */
static double population_of(const chooser *c, double collisions) {
  double m = (double)c->sample;
  return m > 1 ? (double)c->population * collisions / (m * (m - 1) / 2) : 0;
}

/* How unevenly points lie along an axis: the logarithm of the mean number of points in the slab of a point, less the
 * mean of the logarithms: 0 where all slabs hold the same, 0.31 where the density falls off exponentially. */
static double unevenness(const chooser *c, uint32_t axis) {
  const double *slabs = c->slabs + c->views[axis].dim * c->sample;
  uint64_t step = c->sample / UNEVEN_ROWS + 1, rows = 0;
  double sum = 0, logarithms = 0;
  clear_table(c);
  for (uint64_t i = 0; i < c->sample; i += step)
    meet(c, mix(slab_bits(slabs[i])))->count++;
  for (uint64_t i = 0; i < c->sample; i += step, rows++) {
    double points = meet(c, mix(slab_bits(slabs[i])))->count;
    sum += points;
    logarithms += log(points);
  }
  return log(sum / (double)rows) - logarithms / (double)rows;
}

/* Pairs of the sample that are in one cell, with cells `factor` widths wide on the first `axes` views. */
static double collisions_with(const chooser *c, uint32_t axes, double factor) {
  begin_cells(c);
  for (uint32_t a = 0; a < axes; a++)
    split_cells(c, a, factor);
  return count_collisions(c);
}

/* Others in the cell of a point, with such cells. Of a large set the sample has hardly two points in one cell: with a
 * hundred million points and five in a cell there is less than one such pair. Then wider cells are counted, until there
 * are enough pairs. How these become fewer from twice that width on is taken to go on down to the cells asked for. */
static double cell_population(const chooser *c, uint32_t axes, double factor) {
  enum { ENOUGH = 16, MOST_DOUBLED = 24 };
  double found = collisions_with(c, axes, factor), wide = factor, narrow = found;
  if (c->gpu || found >= ENOUGH || c->sample == c->population) return population_of(c, found);
  for (int i = 0; i < MOST_DOUBLED && narrow < ENOUGH; i++)
    narrow = collisions_with(c, axes, wide *= 2);
  double wider = collisions_with(c, axes, 2 * wide), power = narrow > 0 ? log2(wider / narrow) : 0;
  return population_of(c, narrow / pow(wide / factor, fmin(power, axes)));
}

/* Candidates of a query for every number of axes: candidates[k] with k axes. */
static void count_candidates(const chooser *c, uint32_t most, double *candidates) {
  uint64_t step = pair_step(c), pairs = 0, reached[ADJI_MAX_AXES + 1] = {0};
  for (uint64_t q = 0; q < c->sample; q += step, pairs += c->sample) {
    uint64_t left = c->sample; /* rows that are near on all axes so far */
    reached[0] += left;
    for (uint32_t a = 0; a < most; a++) {
      const double *slabs = c->slabs + c->views[a].dim * c->sample;
      uint64_t near = 0;
      for (uint64_t i = 0; i < left; i++) { /* without a branch, which would often be mispredicted */
        uint32_t row = a ? c->near[i] : (uint32_t)i;
        c->near[near] = row;
        near += fabs(slabs[row] - slabs[q]) <= 1;
      }
      left = near;
      reached[a + 1] += left;
    }
  }
  for (uint32_t k = 0; k <= most; k++)
    candidates[k] = (double)c->population * (double)reached[k] / (double)pairs;
}

/* ---- Decisions ---------------------------------------------------------------------------------------- */

static double vector_ns(const chooser *c) {
  const adji_costs *costs = &c->ctx->costs;
  if (c->ask->codes) return costs->vector_ns + costs->vector_code_dim_ns * c->set->dim;
  double dims = c->set->dim < 12 ? c->set->dim : 12; /* sums are abandoned early in many dimensions */
  return costs->vector_ns + costs->vector_dim_ns * dims;
}

/* In many dimensions a warp waits for every coordinate, so that candidates take ten times as long as their
 * instructions: 100,000 points in 8 and 10 dimensions took an H200 0.009 to 0.023 ns a candidate. It also waits for the
 * look-ups of its cells, one after the other: a lower bound of the time, however few queries there are. */
static double least_cost(const chooser *c, double cell_population, double rounds, double candidates) {
  const adji_costs *w = &c->ctx->costs;
  double ns = c->set->dim > 64 ? w->device_long_step_ns : w->device_step_ns;
  double cells = 32 / (1 + cell_population);
  return adji_warp_instructions(w, (rounds * cells * w->device_lookup_ns + candidates * c->set->dim * ns) * 1e-9);
}

/* On a GPU, in instructions of a warp (gpu/range/tiles_kernel.cuh). Queries of dense cells are compared 32 at a time
 * with one candidate; other queries cell by cell, with 32 candidates at a time, and about half of the candidates are in
 * rows of cells that are skipped. cell_population is that of a typical point, not the mean: where points lie unevenly,
 * most cells hold fewer than the mean. */
static double gpu_cost(const chooser *c, double cell_population, double ranges, double candidates) {
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

/* Comparing all pairs in tiles; INFINITY: there are no kernels for it, or they are not wanted. */
static double all_pairs_cost(const chooser *c) {
  adji_grid_choice none = {0};
  if (!adji_choose_device_all_pairs(c->ask, &none)) return INFINITY;
  return adji_warp_instructions(&c->ctx->costs, adji_all_pairs_seconds(c->ask, (double)c->population));
}

/* What the prefilter of tensor cores takes, with so many candidates a query. In the order of a grid the pairs that pass
 * are those of few warps, which the others wait for: three times as long. */
static double tensor_cost(const chooser *c, double candidates) {
  const adji_costs *costs = &c->ctx->costs;
  static const double UNEVEN = 3;
  double n = (double)c->population, passing = adji_tensor_passing(c->ask, &c->out->tensor, c->values, c->sample);
  return n * candidates * adji_tensor_cost(costs, &c->out->tensor) +
         n * n * passing * adji_tensor_passed_cost(costs, c->set->dim) * (candidates < 0.9 * n ? UNEVEN : 1);
}

/* Axes for the prefilter of tensor cores, and its cost with them. It looks up no cells, but has tiles of the order with
 * bounding boxes: more axes make these smaller, until a cell has fewer points than a tile. An order that excludes
 * hardly anything is worth less than the order of the points. */
static uint32_t choose_tensor_axes(const chooser *c, uint32_t most, const double *candidates, double *cost) {
  double least = candidates[0];
  uint32_t axes = 0;
  while (axes < most && cell_population(c, axes, 1) >= ADJI_HALVES_TILE) {
    least = candidates[axes];
    axes++;
  }
  if (axes == most && cell_population(c, axes, 1) >= ADJI_HALVES_TILE) least = candidates[axes];
  if (least > 0.9 * candidates[0]) axes = 0;
  *cost = tensor_cost(c, least);
  return axes;
}

static uint32_t most_axes(const chooser *c) {
  uint32_t most = c->ask->measure->box ? 5 : 8; /* a periodic axis doubles the points near its faces */
  return c->view_count < most ? c->view_count : most;
}

static adj_status check_indexed(const chooser *c) {
  uint64_t wanted = c->ask->tuning->indexed;
  if (wanted <= most_axes(c)) return ADJ_OK;
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: indexed=%llu: of these %u dimensions%s only %u can be indexed",
                   (unsigned long long)wanted, c->set->dim, c->ask->measure->box ? " in a periodic box" : "",
                   most_axes(c));
}

/* The axes have equal parts of the bits of a cell number. With images a row number must fit in as well. One bit is for
 * the unused numbers at the end of each axis. */
static uint64_t slabs_allowed(const chooser *c, uint32_t axes) {
  uint32_t row_bits = 64 - (uint32_t)__builtin_clzll(c->population);
  uint32_t bits = (c->ask->measure->box ? 63 - row_bits : 60) / axes;
  return UINT64_C(1) << (bits < 20 ? bits : 20);
}

/* Axes that need more slabs of equal width than that, among the first ones. Their slabs are cut by a sorted sample,
 * which takes the host half a millisecond each, and a device waits for it. */
static double cut_seconds(const chooser *c, uint32_t axes) {
  static const double SORT_S = 0.0005;
  double seconds = 0;
  for (uint32_t a = 0; a < axes; a++)
    if (c->views[a].slabs * 1.01 + 2 >= (double)slabs_allowed(c, axes)) seconds += SORT_S;
  return seconds;
}

/* What a candidate of a group takes in each dimension, of what it takes with 16 lanes. */
static double lanes_factor(const chooser *c) {
  const char *isa = c->ctx->isa;
  double lanes = !strcmp(isa, "avx512") ? 16 : !strcmp(isa, "avx2") ? 8 : !strcmp(isa, "neon") ? 4 : 1;
  return 16 / lanes * (c->set->type == ADJ_F64 ? 2 : 1);
}

/* Two axes or three in three dimensions. Groups of queries look up nine ranges of cells or three; the more points are
 * in a cell, the fewer groups there are. In sparse sets, in clusters and on surfaces a third axis excludes few
 * candidates. Powers cost more than any look-up. */
static uint32_t choose_two_or_three(const chooser *c) {
  static const double FULL = 8;
  const adji_costs *costs = &c->ctx->costs;
  double candidates[ADJI_MAX_AXES + 1];
  if (adji_plain_step(c->ask->measure->step) == ADJI_STEP_LP) return 3;
  count_candidates(c, 3, candidates);
  double lookups = 6 * costs->group_lookup_ns / (1 + cell_population(c, 3, 1) / FULL);
  double more_ns = (candidates[2] - candidates[3]) * costs->group_candidate_ns * lanes_factor(c);
  return more_ns < lookups ? 2 : 3;
}

static uint32_t choose_axis_count(const chooser *c) {
  uint32_t most = most_axes(c);
  if (c->ask->tuning->indexed) return (uint32_t)c->ask->tuning->indexed;
  if (most == 3 && c->set->dim == 3 && !c->gpu) return choose_two_or_three(c);
  if (most <= 3 && c->set->dim <= 3) return most;
  double candidates[ADJI_MAX_AXES + 1], best = INFINITY, ranges = 1;
  double lanes = c->set->type == ADJ_F64 ? 8 : 16, n = (double)c->population;
  const adji_costs *costs = &c->ctx->costs;
  count_candidates(c, most, candidates);
  uint32_t axes = 0;
  double uneven = 0;
  begin_cells(c);
  for (uint32_t k = 0; k <= most; k++) {
    if (k) split_cells(c, k - 1, 1);
    if (k && c->gpu) uneven += unevenness(c, k - 1);
    double cell_population = population_of(c, count_collisions(c));
    double full = fmin(ranges, candidates[k]) + candidates[k] / lanes;
    double cost = n / (1 + cell_population) * ranges * costs->lookup_ns + n * full * vector_ns(c);
    if (c->gpu) cost = gpu_cost(c, cell_population * exp(-uneven), ranges, candidates[k]);
    if (c->gpu && !k) cost = fmin(cost, all_pairs_cost(c));
    if (c->gpu && k) cost += adji_warp_instructions(costs, cut_seconds(c, k));
    if (cost < best) {
      best = cost;
      axes = k;
      c->out->candidates = candidates[k];
    }
    if (k) ranges *= 3;
  }
  if (!c->gpu || !c->out->tensor.use) return axes; /* beside cores that are planned for, a device may have it */
  double cost;
  uint32_t product_axes = choose_tensor_axes(c, most, candidates, &cost);
  if (cost < best || c->ask->tuning->prefilter == ADJI_PREFILTER_TENSOR) return product_axes;
  c->out->tensor.use = false;
  return axes;
}

/* Where cells of one radius would hold hardly a point, wider ones save look-ups. On a GPU look-ups cost less than the
 * additional candidates. */
static double choose_width(const chooser *c, uint32_t axes, double *population) {
  double factor = c->ask->tuning->cell > 1 ? c->ask->tuning->cell : 1, widest = 0;
  *population = cell_population(c, axes, factor);
  for (uint32_t a = 0; a < axes; a++)
    widest = fmax(widest, c->views[a].slabs);
  for (int i = 0; i < MAX_TRIES && !c->gpu && !c->ask->tuning->cell && *population < 0.7 && factor * 8 < widest; i++) {
    factor *= 1.5;
    *population = cell_population(c, axes, factor);
  }
  return factor;
}

/* A finer last axis costs no look-ups: candidates cover 2 + 1/fine radii of it instead of 3. Cells then hold fewer
 * queries; about four should remain to share what is loaded. */
static uint32_t choose_fine(const chooser *c, double cell_population) {
  if (c->ask->tuning->fine) return (uint32_t)c->ask->tuning->fine;
  uint32_t fine = 1;
  if (adji_access_by_point((adji_access)c->ask->tuning->access)) return fine; /* as in the papers */
  while (fine < 8 && cell_population / (2 * fine) >= (c->gpu ? 7 : 3))
    fine *= 2;
  return fine;
}

/* The sample's values of a dimension in order, for slabs that cannot be of equal width. The sample is larger than the
 * planner's: it bounds how many points fall into one slab. */
static adj_status sorted_values(chooser *c, uint32_t dim, double **out, uint64_t *count) {
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
static adj_status make_periodic_axis(chooser *c, adji_axis *axis, uint32_t dim, uint32_t axes, double factor,
                                     uint32_t reach) {
  double period = period_of(c, dim), cell = c->widths[dim] * factor;
  uint64_t allowed = slabs_allowed(c, axes);
  while (reach > 1 && allowed / 16 < reach)
    reach /= 2;
  cell = fmax(cell, period * reach * 1.01 / ((double)allowed - 4.0 * reach));
  cell = fmin(cell, period / LEAST_CELLS);
  adji_axis wanted = {.dim = dim, .reach = reach, .low = -cell, .period = period, .margin = c->widths[dim]};
  return adji_axis_init(c->ctx, axis, &wanted, &(adji_axis_extent){period + cell, cell, allowed, NULL, 0});
}

/* The most selective last: it is the fine one. */
static uint32_t axis_dim(const chooser *c, uint32_t a, uint32_t axes) {
  return c->views[axes - 1 - a].dim;
}

static adj_status make_axis(chooser *c, uint32_t a, uint32_t axes, double factor, uint32_t reach,
                            const adji_ends *ends) {
  adji_axis *axis = &c->out->grid.axes[a];
  uint32_t dim = axis_dim(c, a, axes);
  if (period_of(c, dim) > 0) return make_periodic_axis(c, axis, dim, axes, factor, reach);
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

/* Narrower cells fit the ball better if they still hold many points. Only the default kernels of a GPU for few
 * dimensions look further than the next cell. */
static uint32_t choose_narrow(const chooser *c, uint32_t axes, double cell_population) {
  const adji_tuning *tuning = c->ask->tuning;
  if (!c->gpu || c->set->dim > 3 || axes < 2 || c->ask->measure->step != ADJI_STEP_L2 || c->out->tensor.use ||
      adji_access_by_point((adji_access)tuning->access))
    return 1;
  if (tuning->narrow) return (uint32_t)tuning->narrow;
  return cell_population >= 100 ? 2 : 1;
}

/* The extent of the points, or less if only the default kernels of a GPU for few dimensions read the cells. In a join
 * of two sets all left points may be beyond. */
static void find_ends(const chooser *c, uint32_t axes, double factor, const uint32_t *reach, adji_ends *ends) {
  for (uint32_t a = 0; a < axes; a++) {
    uint32_t dim = axis_dim(c, a, axes);
    ends[a] = (adji_ends){c->values + dim * c->sample, c->widths[dim] * factor / reach[a], c->low[dim], c->high[dim]};
  }
  if (c->gpu && c->set->dim <= 3 && c->ask->join->self_join && !c->ask->measure->box && !c->out->tensor.use &&
      !adji_access_by_point((adji_access)c->ask->tuning->access))
    adji_choose_ends(ends, axes, c->sample, c->population, ADJI_GPU_BUCKETS(c->population));
}

static adj_status make_grid(chooser *c) {
  uint32_t axes = choose_axis_count(c);
  c->out->next_dim = c->views[axes < c->view_count ? axes : 0].dim;
  if (!axes) return ADJ_OK;
  double cell_population, factor = choose_width(c, axes, &cell_population);
  c->out->cell_population = cell_population;
  if (c->set->dim <= 3) c->out->candidates = cell_population * pow(3, axes); /* others were counted */
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

/* Axes and prefilter from a sample; brute force has no axes, but perhaps a prefilter. */
static adj_status choose(chooser *c, bool brute) {
  adj_status status = draw_sample(c);
  if (!status && c->gpu) status = adji_choose_tensor(c->ask, c->values, c->sample, &c->out->tensor);
  if (!status && !brute) view_axes(c);
  if (!status && !brute) status = check_indexed(c);
  if (!status && c->view_count) status = make_grid(c);
  bool compares_all = !status && !c->view_count && c->out->tensor.use && !c->out->tensor.asked;
  if (compares_all && all_pairs_cost(c) < tensor_cost(c, (double)c->population)) c->out->tensor.use = false;
  free_sample(c);
  return status;
}

adj_status adji_choose_grid(const adji_range_question *question, bool brute, adji_grid_choice *out) {
  chooser c = {.ask = question, .out = out, .ctx = question->join->ctx, .set = question->join->right};
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
  *choice = (adji_grid_choice){0};
}
