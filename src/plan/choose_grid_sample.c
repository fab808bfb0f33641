/* SPDX-License-Identifier: MIT
 *
 * Choosing the grid: a sample of the right set, and what it says about cells and candidates.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "index/extent.h"
#include "plan/choose_grid_private.h"

enum {
  SAMPLE = 4096,
  GPU_SAMPLE = 2048,
  GPU_SAMPLE_VALUES = 1 << 17,
  LEAST_SAMPLE = 256,
  PAIR_QUERIES = 64,
  GPU_PAIR_QUERIES = 32,
  UNEVEN_ROWS = 512
};

/* ---- The sample ------------------------------------------------------------------------------------ */

/* One row from each of `sample` equal slices, picked by a hash, so that a regular pattern of rows does not mislead the
 * sample, and the sample is the same on every machine. */
static uint64_t sample_row(const adji_chooser *c, uint64_t i) {
  uint64_t begin, end;
  adji_slice(c->set->count, c->sample, i, &begin, &end);
  uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  hash ^= hash >> 29;
  return begin + hash % (end - begin);
}

/* How many rows of the sample may be outliers at either end of a dimension. The points that they stand for may all be
 * in one cell, where they are compared with each other. */
static uint32_t most_outliers(const adji_chooser *c) {
  enum { MOST = 4, MOST_POINTS = 8192 };
  uint64_t most = c->sample / 64, by_points = MOST_POINTS * c->sample / c->population;
  if (most > by_points) most = by_points;
  return most < MOST ? (uint32_t)most : MOST;
}

adj_status adji_sample_draw(adji_chooser *c) {
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

void adji_sample_free(adji_chooser *c) {
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

/* Numbers the slabs of the sample along a dimension, for the narrowest cells. */
static void number_slabs(const adji_chooser *c, uint32_t dim) {
  const double *values = c->values + dim * c->sample;
  double *slabs = c->slabs + dim * c->sample;
  for (uint64_t i = 0; i < c->sample; i++)
    slabs[i] = floor((values[i] - c->low[dim]) / c->widths[dim]);
}

/* One row of the sample in so many is compared with the others. */
static uint64_t pair_step(const adji_chooser *c) {
  return c->sample / (c->gpu ? GPU_PAIR_QUERIES : PAIR_QUERIES) + 1;
}

/* The share of sampled pairs that are within one slab of each other along a dimension. */
static double near_share(const adji_chooser *c, uint32_t dim) {
  uint64_t step = pair_step(c), near = 0, pairs = 0;
  const double *slabs = c->slabs + dim * c->sample;
  for (uint64_t q = 0; q < c->sample; q += step)
    for (uint64_t i = q % 7; i < c->sample; i += 7, pairs++)
      near += fabs(slabs[i] - slabs[q]) <= 1;
  return (double)near / (double)pairs;
}

static int by_rank(const void *left, const void *right) {
  const adji_axis_view *a = left, *b = right;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return a->dim < b->dim ? -1 : a->dim > b->dim;
}

/* Whether slabs of equal width cover a periodic dimension and its images: images share no cell with the point only if
 * there are ADJI_LEAST_CELLS of them, and only if no step of their arithmetic overflows or loses bits to denormal
 * numbers. There are at most 2^20 slabs, so a period within these bounds keeps the width of a slab, its inverse and the
 * places of images far inside the range of f64. Every length of f32 is within them. Other dimensions are not indexed.
 */
static bool can_wrap(double period, double width) {
  return period >= 0x1p-960 && period <= 0x1p960 && period >= ADJI_LEAST_CELLS * width;
}

/* Dimensions in which the points' box is at least three slabs wide, the most selective first. In up to three dimensions
 * all of them are taken anyway, so the widest counts as the most selective. If settings ask for a number of dimensions
 * or another order, all dimensions are listed: by variance, which is GPU-Join's REORDER (Gowanlock and Karsin, section
 * 4.2), or in their own order. */
void adji_sample_view_axes(adji_chooser *c) {
  uint64_t reorder = c->ask->tuning->reorder;
  bool all = reorder || c->ask->tuning->indexed;
  for (uint32_t j = 0; j < c->set->dim; j++) {
    adji_axis_view view = {j, (c->high[j] - c->low[j]) / c->widths[j], 0};
    if (adji_chooser_period(c, j) > 0 && !can_wrap(adji_chooser_period(c, j), c->widths[j])) continue;
    if (!(view.slabs > 2) && !all) continue;
    number_slabs(c, j);
    if (reorder == ADJI_ON) view.rank = -adji_sample_variance(c, j);
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

/* The cells of the sample as hashes: first without any axis, then with one more axis each time. */
void adji_cells_begin(const adji_chooser *c) {
  memset(c->cells, 0, c->sample * sizeof *c->cells);
}

void adji_cells_split(const adji_chooser *c, uint32_t axis, double factor) {
  const double *slabs = c->slabs + c->views[axis].dim * c->sample;
  for (uint64_t i = 0; i < c->sample; i++)
    c->cells[i] = mix(c->cells[i] ^ slab_bits(factor > 1 ? floor(slabs[i] / factor) : slabs[i]));
}

static void clear_table(const adji_chooser *c) {
  memset(c->table, 0, c->room * sizeof *c->table);
}

/* The entry of a hash; a new one has count 0. */
static adji_sampled_cell *find_entry(const adji_chooser *c, uint64_t hash) {
  uint64_t last = c->room - 1, at = hash & last;
  while (c->table[at].count && c->table[at].hash != hash)
    at = (at + 1) & last;
  c->table[at].hash = hash;
  return &c->table[at];
}

/* Pairs of the sample that are in one cell. */
double adji_cells_collide(const adji_chooser *c) {
  double collisions = 0;
  clear_table(c);
  for (uint64_t i = 0; i < c->sample; i++)
    collisions += find_entry(c, c->cells[i])->count++;
  return collisions;
}

/* Other points in the cell of a point, from the collisions. */
double adji_cells_population(const adji_chooser *c, double collisions) {
  double m = (double)c->sample;
  return m > 1 ? (double)c->population * collisions / (m * (m - 1) / 2) : 0;
}

/* How unevenly points lie along an axis: the logarithm of the mean number of points in the slab of a point, less the
 * mean of the logarithms: 0 where all slabs hold the same, 0.31 where the density falls off exponentially. */
double adji_sample_unevenness(const adji_chooser *c, uint32_t axis) {
  const double *slabs = c->slabs + c->views[axis].dim * c->sample;
  uint64_t step = c->sample / UNEVEN_ROWS + 1, rows = 0;
  double sum = 0, logarithms = 0;
  clear_table(c);
  for (uint64_t i = 0; i < c->sample; i += step)
    find_entry(c, mix(slab_bits(slabs[i])))->count++;
  for (uint64_t i = 0; i < c->sample; i += step, rows++) {
    double points = find_entry(c, mix(slab_bits(slabs[i])))->count;
    sum += points;
    logarithms += log(points);
  }
  return log(sum / (double)rows) - logarithms / (double)rows;
}

/* Pairs of the sample that are in one cell, with cells `factor` widths wide on the first `axes` views. */
static double collisions_with(const adji_chooser *c, uint32_t axes, double factor) {
  adji_cells_begin(c);
  for (uint32_t a = 0; a < axes; a++)
    adji_cells_split(c, a, factor);
  return adji_cells_collide(c);
}

/* Other points in the cell of a point, with such cells. The sample of a large set has hardly two points in one cell:
 * with a hundred million points and five in a cell there is less than one such pair. Then wider cells are counted,
 * until there are enough pairs. The power law between that width and twice that width is extrapolated down to the width
 * asked for. */
double adji_sample_population(const adji_chooser *c, uint32_t axes, double factor) {
  enum { ENOUGH = 16, MOST_DOUBLED = 24 };
  double found = collisions_with(c, axes, factor), wide = factor, narrow = found;
  if (c->gpu || found >= ENOUGH || c->sample == c->population) return adji_cells_population(c, found);
  for (int i = 0; i < MOST_DOUBLED && narrow < ENOUGH; i++)
    narrow = collisions_with(c, axes, wide *= 2);
  double wider = collisions_with(c, axes, 2 * wide), power = narrow > 0 ? log2(wider / narrow) : 0;
  return adji_cells_population(c, narrow / pow(wide / factor, fmin(power, axes)));
}

/* Candidates of a query for every number of axes: candidates[k] with k axes. */
void adji_sample_candidates(const adji_chooser *c, uint32_t most, double *candidates) {
  uint64_t step = pair_step(c), pairs = 0, reached[ADJI_MAX_AXES + 1] = {0};
  for (uint64_t q = 0; q < c->sample; q += step, pairs += c->sample) {
    uint64_t remaining = c->sample; /* rows that are near on all axes so far */
    reached[0] += remaining;
    for (uint32_t a = 0; a < most; a++) {
      const double *slabs = c->slabs + c->views[a].dim * c->sample;
      uint64_t near = 0;
      for (uint64_t i = 0; i < remaining; i++) { /* without a branch, which would often be mispredicted */
        uint32_t row = a ? c->near[i] : (uint32_t)i;
        c->near[near] = row;
        near += fabs(slabs[row] - slabs[q]) <= 1;
      }
      remaining = near;
      reached[a + 1] += remaining;
    }
  }
  for (uint32_t k = 0; k <= most; k++)
    candidates[k] = (double)c->population * (double)reached[k] / (double)pairs;
}
