/* SPDX-License-Identifier: MIT
 *
 * The epsilon grid order: see ego_order.h. Dimensions are reordered, cells laid out, and points copied and sorted.
 */
#include "index/ego_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "index/ego_order_private.h"

/* ---- Reordering --------------------------------------------------------------------------------------------
 *
 * Super-EGO compares pairs of points drawn at random. A dimension in which more pairs are farther apart than the radius
 * comes first, since it drops more pairs early. */

enum { PAIR_SHARE = 5, MOST_PAIRS = 1 << 16 };

typedef struct selectivity {
  uint32_t dim, apart; /* apart: sampled pairs that are too far apart in this dimension */
} selectivity;

static int compare_selectivity(const void *a, const void *b) {
  const selectivity *x = a, *y = b;
  if (x->apart != y->apart) return x->apart > y->apart ? -1 : 1;
  return x->dim < y->dim ? -1 : 1;
}

/* Number i of a pseudorandom sequence (splitmix64), below count. */
static uint64_t draw(uint64_t i, uint64_t count) {
  uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
  return (hash ^ hash >> 31) % count;
}

static void sample_pairs(const adj_dataset *left, const adj_dataset *right, const double *widths, selectivity *all) {
  uint64_t pairs = left->count / PAIR_SHARE + 1;
  if (pairs > MOST_PAIRS) pairs = MOST_PAIRS;
  if (!left->count || !right->count) pairs = 0;
  for (uint64_t i = 0; i < pairs; i++) {
    uint64_t a = draw(2 * i, left->count), b = draw(2 * i + 1, right->count);
    for (uint32_t j = 0; j < left->dim; j++)
      all[j].apart += fabs(adji_dataset_at(left, a, j) - adji_dataset_at(right, b, j)) > widths[j];
  }
}

static adj_status choose_dims(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right, const double *widths,
                              uint32_t *dims) {
  uint32_t dim = left->dim;
  selectivity *all = adji_alloc(&ctx->memory, dim, sizeof *all, "selectivity of dimensions");
  if (!all) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < dim; j++)
    all[j] = (selectivity){j, 0};
  sample_pairs(left, right, widths, all);
  qsort(all, dim, sizeof *all, compare_selectivity);
  for (uint32_t j = 0; j < dim; j++)
    dims[j] = all[j].dim;
  adji_free(&ctx->memory, all);
  return ADJ_OK;
}

/* ---- Cells ------------------------------------------------------------------------------------------------ */

/* The size of a sample of coordinates. Slabs begin at these if slabs of equal width would be too many
 * (index/grid.h). */
enum { SAMPLED = 4096 };

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static uint64_t sample_values(const adj_dataset *set, uint32_t j, double *values) {
  uint64_t many = set->count < SAMPLED ? set->count : SAMPLED;
  for (uint64_t i = 0; i < many; i++)
    values[i] = adji_dataset_at(set, i * set->count / many, j);
  return many;
}

static adj_status make_axis(const adji_ego_order *order, const adj_dataset *const *sets, uint32_t j, double width,
                            adji_axis *out) {
  adji_axis axis = {.dim = j, .reach = 1};
  adji_axis_extent extent = {.width = width, .max_slabs = UINT64_C(1) << 31};
  bool any = false;
  for (int s = 0; s < 2; s++) {
    if (!sets[s]->count) continue;
    axis.low = any ? fmin(axis.low, sets[s]->low[j]) : sets[s]->low[j];
    extent.high = any ? fmax(extent.high, sets[s]->high[j]) : sets[s]->high[j];
    any = true;
  }
  double needed = (extent.high - axis.low) * ((1 - 0x1p-18) / width);
  if (needed < 0x1p31 - 1) return adji_axis_init(order->ctx, out, &axis, &extent);
  double *values = adji_alloc(&order->ctx->memory, 2 * (uint64_t)SAMPLED, sizeof *values, "sample");
  if (!values) return ADJ_E_MEMORY;
  extent.sample_count = sample_values(sets[0], j, values);
  extent.sample_count += sample_values(sets[1], j, values + extent.sample_count);
  qsort(values, extent.sample_count, sizeof *values, compare_doubles);
  extent.sample = values;
  extent.max_slabs = extent.sample_count ? extent.sample_count : 1;
  adj_status status = adji_axis_init(order->ctx, out, &axis, &extent);
  adji_free(&order->ctx->memory, values);
  return status;
}

static adj_status lay_out(adji_ego_order *order, const adj_dataset *left, const adj_dataset *right,
                          const adji_ego_order_options *options, double *widths, const adji_measure *measure,
                          double limit) {
  const adj_dataset *const sets[] = {left, right};
  for (uint32_t j = 0; j < order->dim; j++)
    widths[j] = adji_grid_width(order->type, measure, limit, j);
  for (uint32_t j = 0; j < order->dim; j++)
    order->dims[j] = j;
  adj_status status = options->reorder ? choose_dims(order->ctx, left, right, widths, order->dims) : ADJ_OK;
  double wider = options->cell > 1 ? options->cell : 1;
  uint32_t axes = options->indexed && options->indexed < order->dim ? options->indexed : order->dim;
  while (order->axis_count < axes && !status) {
    uint32_t a = order->axis_count, j = order->dims[a];
    status = make_axis(order, sets, j, wider * widths[j], &order->axes[a]);
    if (!status) order->axis_count++;
  }
  return status;
}

void adji_ego_order_clear(adji_ego_order *order) {
  if (!order->ctx) return;
  adji_memory *memory = &order->ctx->memory;
  for (uint32_t a = 0; order->axes && a < order->axis_count; a++)
    adji_free(memory, order->axes[a].breaks);
  adji_free(memory, order->axes);
  adji_free(memory, order->dims);
  *order = (adji_ego_order){0};
}

adj_status adji_ego_order_init(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right,
                               const adji_measure *measure, double limit, const adji_ego_order_options *options,
                               adji_ego_order *out) {
  adji_memory *memory = &ctx->memory;
  *out = (adji_ego_order){.ctx = ctx, .type = left->type, .dim = left->dim};
  out->dims = adji_alloc(memory, left->dim, sizeof *out->dims, "order of dimensions");
  out->axes = adji_alloc(memory, left->dim, sizeof *out->axes, "axes of cells");
  double *widths = adji_alloc(memory, left->dim, sizeof *widths, "widths of cells");
  adj_status status = out->dims && out->axes && widths ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = lay_out(out, left, right, options, widths, measure, limit);
  adji_free(memory, widths);
  if (status) adji_ego_order_clear(out);
  return status;
}

/* ---- Points ----------------------------------------------------------------------------------------------- */

typedef struct copying {
  const adji_ego_points *to;
  const adj_dataset *set;       /* copies the caller's points, or */
  const adji_ego_points *from;  /* these, in the order of ids */
  ADJI_ATOMIC(bool) not_finite; /* a coordinate is not finite       */
} copying;

/* Sorting reads the copies, so it cannot be confused by points that the caller changes meanwhile. */
#define COPY_ROWS(T)                                                                    \
  static void copy_rows_##T(void *user, uint64_t begin, uint64_t end) {                 \
    copying *c = user;                                                                  \
    const adji_ego_order *order = c->to->order;                                         \
    const adj_dataset *set = c->set;                                                    \
    bool not_finite = false;                                                            \
    for (uint64_t i = begin; i < end; i++) {                                            \
      T *to = (T *)c->to->coords + i * order->dim;                                      \
      const char *from = set->data + i * set->row_stride;                               \
      for (uint32_t j = 0; j < order->dim; j++) {                                       \
        to[j] = *(const T *)(const void *)(from + order->dims[j] * set->column_stride); \
        not_finite |= !adji_is_finite(to[j]);                                           \
      }                                                                                 \
    }                                                                                   \
    if (not_finite) atomic_store(&c->not_finite, true);                                 \
  }
COPY_ROWS(float)
COPY_ROWS(double)

static void gather_rows(void *user, uint64_t begin, uint64_t end) {
  const copying *c = user;
  uint64_t row = c->to->order->dim * (uint64_t)adji_type_size(c->to->order->type);
  for (uint64_t i = begin; i < end; i++)
    memcpy((char *)c->to->coords + i * row, (const char *)c->from->coords + c->to->ids[i] * row, row);
}

enum { SLICE = 16384 };

static adj_status allocate(const adji_ego_order *order, uint64_t count, adji_ego_points *out) {
  adji_memory *memory = &order->ctx->memory;
  *out = (adji_ego_points){.order = order, .count = (uint32_t)count};
  out->coords = adji_alloc(memory, adji_mul(count, order->dim), adji_type_size(order->type), "points in order");
  return out->coords ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_ego_points_clear(adji_ego_points *points) {
  if (!points->order) return;
  adji_free(&points->order->ctx->memory, points->coords);
  adji_free(&points->order->ctx->memory, points->ids);
  *points = (adji_ego_points){0};
}

static adj_status sort_points(const adji_ego_points *unsorted, bool by_qsort, adji_ego_points *out) {
  adj_ctx *ctx = out->order->ctx;
  copying c = {.to = out, .from = unsorted};
  out->ids = adji_alloc_zero(&ctx->memory, (uint64_t)out->count + ADJI_PAD, sizeof *out->ids, "ids in order");
  if (!out->ids) return ADJ_E_MEMORY;
  adj_status status = (by_qsort ? adji_ego_sort_by_qsort : adji_ego_sort_parallel)(unsorted, out->ids);
  return status ? status : adji_loop_slices(ctx, out->count, out->count / SLICE + 1, gather_rows, &c);
}

adj_status adji_ego_points_build(const adji_ego_order *order, const adj_dataset *set, bool by_qsort,
                                 adji_ego_points *out) {
  adji_ego_points unsorted;
  adj_status status = allocate(order, set->count, &unsorted);
  *out = (adji_ego_points){0};
  copying c = {.to = &unsorted, .set = set};
  if (!status)
    status = adji_loop_slices(order->ctx, set->count, set->count / SLICE + 1,
                              order->type == ADJ_F64 ? copy_rows_double : copy_rows_float, &c);
  if (!status && atomic_load(&c.not_finite)) status = adji_points_changed();
  if (!status) status = allocate(order, set->count, out);
  if (!status) status = sort_points(&unsorted, by_qsort, out);
  adji_ego_points_clear(&unsorted);
  if (status) adji_ego_points_clear(out);
  return status;
}
