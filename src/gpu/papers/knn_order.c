/* SPDX-License-Identifier: MIT
 *
 * The order of HybridKNN-Join's work queue: see knn_order.h. Only cells are sorted, as in the paper, since all points
 * of a cell have the same population.
 */
#include "gpu/papers/knn_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "index/build.h"
#include "index/radix_sort.h"

/* VALUES: sampled coordinates of each dimension, for axes. SLICE: cells that a lane copies at once. */
enum { VALUES = 2048, SLICE = 4096 };

/* ---- Cells ------------------------------------------------------------------------------------------- */

static int ascending(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

static adj_status sample_values(const adj_dataset *right, adj_ctx *ctx, adji_knn_values *out) {
  uint64_t count = right->count < VALUES ? right->count : VALUES;
  out->count = count;
  out->values = adji_alloc(&ctx->memory, count * right->dim, sizeof *out->values, "sample");
  if (!out->values) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < right->dim; j++) {
    double *values = out->values + j * count;
    for (uint64_t i = 0; i < count; i++)
      values[i] = adji_dataset_at(right, i * right->count / count, j);
    qsort(values, count, sizeof *values, ascending);
  }
  return ADJ_OK;
}

static adj_status make_grid(const adji_join *join, const adji_measure *measure, double epsilon, adji_grid *out) {
  adj_ctx *ctx = join->ctx;
  adji_knn_values sample;
  *out = (adji_grid){0};
  double limit = adji_knn_grid_limit(measure->step, join->right->type, epsilon);
  if (!(epsilon > 0) || !isfinite(limit) || !join->right->count) {
    adji_grid_finish(out);
    return ADJ_OK;
  }
  adj_status status = sample_values(join->right, ctx, &sample);
  if (!status) status = adji_knn_grid_cells(ctx, join->right, measure, limit, &sample, out);
  adji_free(&ctx->memory, sample.values);
  return status;
}

/* ---- Order ------------------------------------------------------------------------------------------- */

typedef struct ordering {
  const adji_index *left, *right;
  uint64_t *cells;  /* of the left index: high half UINT32_MAX - population, low half the number of the cell */
  uint64_t *places; /* where the rows of each begin in the order */
  uint32_t *rows;
} ordering;

static uint32_t points_in(const adji_index *index, uint64_t cell) {
  return index->cell_starts[cell + 1] - index->cell_starts[cell];
}

/* Both indexes have their cells in ascending order. */
static void find_populations(const ordering *o) {
  uint64_t at = 0;
  for (uint64_t cell = 0; cell < o->left->cell_count; cell++) {
    uint64_t key = o->left->cell_keys[cell];
    while (at < o->right->cell_count && o->right->cell_keys[at] < key)
      at++;
    bool there = at < o->right->cell_count && o->right->cell_keys[at] == key;
    uint64_t population = there ? points_in(o->right, at) : 0;
    o->cells[cell] = (UINT32_MAX - population) << 32 | cell;
  }
}

static void find_places(const ordering *o) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < o->left->cell_count; i++) {
    o->places[i] = at;
    at += points_in(o->left, (uint32_t)o->cells[i]);
  }
}

static void copy_rows(void *user, uint64_t begin, uint64_t end) {
  const ordering *o = user;
  for (uint64_t i = begin; i < end; i++) {
    uint32_t cell = (uint32_t)o->cells[i];
    memcpy(o->rows + o->places[i], o->left->view.ids + o->left->cell_starts[cell],
           points_in(o->left, cell) * sizeof *o->rows);
  }
}

static adj_status order_cells(adj_ctx *ctx, ordering *o) {
  uint64_t count = o->left->cell_count;
  adji_sorted sorted = {.items = adji_alloc(&ctx->memory, count, 8, "work queue"),
                        .spare = adji_alloc(&ctx->memory, count, 8, "work queue")};
  o->places = adji_alloc(&ctx->memory, count, sizeof *o->places, "work queue");
  o->cells = sorted.items;
  adj_status status = sorted.items && sorted.spare && o->places ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) find_populations(o);
  if (!status) status = adji_radix_sort(ctx, &sorted, count, 32, 32);
  o->cells = sorted.items;
  if (!status) find_places(o);
  if (!status) status = adji_loop_slices(ctx, count, count / SLICE + 1, copy_rows, o);
  adji_free(&ctx->memory, sorted.items);
  adji_free(&ctx->memory, sorted.spare);
  adji_free(&ctx->memory, o->places);
  return status;
}

adj_status adji_knn_order_rows(const adji_join *join, const adji_measure *measure, double epsilon, uint32_t **rows) {
  adj_ctx *ctx = join->ctx;
  adji_order_options plain = {0};
  adji_index left = {0}, right = {0};
  adji_grid grid;
  *rows = NULL;
  adj_status status = make_grid(join, measure, epsilon, &grid);
  if (status) return status;
  uint32_t *out = adji_alloc(&ctx->memory, join->left->count, sizeof *out, "work queue");
  status = out ? adji_index_build(ctx, &grid, join->right, &plain, &right) : ADJ_E_MEMORY;
  if (!status && !join->self_join) status = adji_index_build(ctx, &grid, join->left, &plain, &left);
  ordering o = {.left = join->self_join ? &right : &left, .right = &right, .rows = out};
  if (!status) status = order_cells(ctx, &o);
  adji_index_clear(&left);
  adji_index_clear(&right);
  adji_grid_clear(ctx, &grid);
  if (status)
    adji_free(&ctx->memory, out);
  else
    *rows = out;
  return status;
}

/* ---- Epsilon ----------------------------------------------------------------------------------------- */

/* A device compares 500 queries with all points. The cores compare them with MOST_POINTS of these, since an estimate of
 * the density needs no more. MOST_MEAN: points of each set for the mean distance. */
enum { MOST_POINTS = 1 << 18, MOST_MEAN = 1024 };

typedef struct sampled {
  const adji_join *join;
  adji_step step;
  uint64_t left, right, bins;
  const double *points; /* the points of the right sample, one after the other */
  uint64_t *lanes;      /* bins of each lane */
  double end;
} sampled;

static uint64_t row_of(const adj_dataset *set, uint64_t i, uint64_t sample) {
  return i * set->count / sample;
}

/* The distance, or with L2 its square. */
static inline double sum_of(const adji_step step, uint32_t dim, const double *a, const double *b) {
  double sum = 0;
  for (uint32_t j = 0; j < dim; j++) {
    double t = fabs(a[j] - b[j]);
    sum = step == ADJI_STEP_L2 ? sum + t * t : step == ADJI_STEP_L1 ? sum + t : fmax(sum, t);
  }
  return sum;
}

static double distance(adji_step step, uint32_t dim, const double *a, const double *b) {
  double sum = sum_of(step, dim, a, b);
  return step == ADJI_STEP_L2 ? sqrt(sum) : sum;
}

static void copy_row(const adj_dataset *set, uint64_t row, double *to) {
  for (uint32_t j = 0; j < set->dim; j++)
    to[j] = adji_dataset_at(set, row, j);
}

/* Few pairs are as near as the bins reach. All others are dropped by their sums, before a root is taken. */
static inline __attribute__((always_inline)) void bin_sums(const sampled *s, const adji_step step, uint64_t row,
                                                           const double *x, uint64_t *bins) {
  const adj_dataset *right = s->join->right;
  uint32_t dim = right->dim;
  double most = step == ADJI_STEP_L2 ? s->end * s->end : s->end, scale = (double)s->bins / s->end;
  for (uint64_t i = 0; i < s->right; i++) {
    double sum = sum_of(step, dim, x, s->points + i * dim);
    if (sum >= most || (s->join->style.drop_self && row_of(right, i, s->right) == row)) continue;
    double bin = (step == ADJI_STEP_L2 ? sqrt(sum) : sum) * scale;
    if (bin < (double)s->bins) bins[(uint64_t)bin]++;
  }
}

/* Bins the distances of one sampled query to the sample of the right set. */
static adj_status bin_query(void *user, uint64_t task, uint32_t lane) {
  const sampled *s = user;
  double x[ADJI_MAX_AXES];
  uint64_t row = row_of(s->join->left, task, s->left), *bins = s->lanes + lane * s->bins;
  copy_row(s->join->left, row, x);
  if (s->step == ADJI_STEP_L2)
    bin_sums(s, ADJI_STEP_L2, row, x, bins);
  else
    bin_sums(s, s->step, row, x, bins);
  return ADJ_OK;
}

static adj_status bin_all(void *user, double end, uint64_t *bins) {
  sampled *s = user;
  adj_ctx *ctx = s->join->ctx;
  s->end = end;
  memset(s->lanes, 0, ctx->threads * s->bins * sizeof *s->lanes);
  memset(bins, 0, s->bins * sizeof *bins);
  adj_status status = adji_loop(ctx, s->left, bin_query, s);
  for (uint64_t i = 0; i < ctx->threads * s->bins; i++)
    bins[i % s->bins] += s->lanes[i];
  return status;
}

static double mean_distance(const sampled *s, const adji_knn_grid_options *o) {
  const adj_dataset *left = s->join->left;
  uint64_t lefts = adji_knn_grid_mean_sample(o, left->count), rights = s->right < MOST_MEAN ? s->right : MOST_MEAN;
  double x[ADJI_MAX_AXES], sum = 0;
  if (lefts > MOST_MEAN) lefts = MOST_MEAN;
  for (uint64_t i = 0; i < lefts; i++) {
    copy_row(left, row_of(left, i, lefts), x);
    for (uint64_t j = 0; j < rights; j++)
      sum += distance(s->step, left->dim, x, s->points + j * s->right / rights * left->dim);
  }
  return sum / ((double)lefts * (double)rights);
}

static adj_status find_epsilon(sampled *s, const adji_knn_grid_options *o, uint64_t *bins, double *epsilon) {
  const adji_join *join = s->join;
  double mean = mean_distance(s, o), part = (double)s->right / (double)join->right->count;
  adji_knn_binning binning = {bin_all, s, bins, (double)s->left * adji_join_reach(join) * part};
  *epsilon = -1;
  if (!isfinite(mean)) return ADJ_OK;
  if (mean > 0) {
    /* Uniform points would have k neighbours within half of this. The bins reach farther if there are fewer. */
    double share = (double)adji_join_reach(join) / (double)join->right->count;
    double end = fmin(mean, 2 * mean * pow(share, 1.0 / join->right->dim));
    adj_status status = adji_knn_grid_find_epsilon(o, &binning, end, epsilon);
    *epsilon *= o->epsilon;
    return status;
  }
  *epsilon = 0;
  return ADJ_OK;
}

adj_status adji_knn_order_epsilon(const adji_join *join, const adji_measure *measure,
                                  const adji_knn_grid_options *options, double *epsilon) {
  adji_memory *memory = &join->ctx->memory;
  const adj_dataset *right = join->right;
  adji_knn_grid_options o = adji_knn_grid_defaults(options);
  sampled s = {.join = join, .step = measure->step, .left = join->left->count, .right = right->count, .bins = o.bins};
  *epsilon = -1;
  if (!s.left || !adji_join_reach(join)) return ADJ_OK;
  if (s.left > o.sample) s.left = o.sample;
  if (s.right > MOST_POINTS) s.right = MOST_POINTS;
  double *points = adji_alloc(memory, s.right * right->dim, sizeof *points, "sample");
  uint64_t *bins = adji_alloc(memory, o.bins, sizeof *bins, "sample");
  s.points = points;
  s.lanes = adji_alloc(memory, join->ctx->threads * o.bins, sizeof *s.lanes, "sample");
  adj_status status = points && bins && s.lanes ? ADJ_OK : ADJ_E_MEMORY;
  for (uint64_t i = 0; i < s.right && !status; i++)
    copy_row(right, row_of(right, i, s.right), points + i * right->dim);
  if (!status) status = find_epsilon(&s, &o, bins, epsilon);
  adji_free(memory, points);
  adji_free(memory, bins);
  adji_free(memory, s.lanes);
  return status;
}
