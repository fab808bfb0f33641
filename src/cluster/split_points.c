/* SPDX-License-Identifier: MIT
 *
 * The points of a part in a split: where they have their home, and which other regions are within reach. split.h has
 * the argument why no neighbour is missed.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "cluster/split.h"
#include "data/derive.h"
#include "index/grid.h"

static const double SPLIT_SLACK = 0x1p-50;

/* What a loop over the points of a part works on. */
typedef struct part {
  const adj_split *split;
  const adj_dataset *points; /* derived, where the metric says so */
  adj_dataset *derived;
  uint64_t slices;
} part;

static adj_status open_part(const adj_split *split, const adj_dataset *points, part *out) {
  *out = (part){.split = split, .points = points, .slices = points->count / 16384 + 1};
  if (points->type != split->type || points->dim != split->point_dim)
    return adji_fail(ADJ_E_ARGUMENT, "points: %s in %u dimensions; the split is of %s in %u",
                     points->type == ADJ_F64 ? "f64" : "f32", points->dim, split->type == ADJ_F64 ? "f64" : "f32",
                     split->point_dim);
  adj_status status = split->box ? adji_check_inside(points, &split->measure) : ADJ_OK;
  if (status || !adji_metric_derives(split->spec.metric)) return status;
  status = adji_derive(split->ctx, points, split->spec.metric, split->spec.angle, &out->derived);
  out->points = out->derived;
  return status;
}

/* ---- Homes -------------------------------------------------------------------------------------------------- */

typedef struct homing {
  part p;
  uint32_t *home;
} homing;

static uint32_t home_of(const adji_cuts *cuts, const adj_dataset *points, uint64_t row) {
  uint32_t node = 0;
  while (cuts->nodes[node].below != node)
    node = cuts->nodes[node].below + (adji_dataset_at(points, row, cuts->nodes[node].dim) >= cuts->nodes[node].at);
  return cuts->nodes[node].region;
}

static adj_status home_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const homing *h = user;
  uint64_t begin, end;
  adji_slice(h->p.points->count, h->p.slices, slice, &begin, &end);
  for (uint64_t i = begin; i < end; i++)
    h->home[i] = home_of(&h->p.split->cuts, h->p.points, i);
  return ADJ_OK;
}

adj_status adj_split_home(const adj_split *split, const adj_dataset *points, uint32_t *home) {
  if (!split || !points || !home) return adji_fail(ADJ_E_ARGUMENT, "split, points and home: none may be NULL");
  homing h = {.home = home};
  adji_call outer = adji_call_begin(&split->ctx->cancels);
  adj_status status = open_part(split, points, &h.p);
  if (!status) status = adji_loop(split->ctx, h.p.slices, home_slice, &h);
  adj_dataset_destroy(h.p.derived);
  adji_call_set(outer);
  return status;
}

static adj_status check_home(const adj_split *split, const adj_dataset *points, const uint32_t *home) {
  for (uint64_t i = 0; home && i < points->count; i++)
    if (home[i] >= split->cuts.count)
      return adji_fail(ADJ_E_ARGUMENT, "home[%llu]: %u, but there are %u regions", (unsigned long long)i, home[i],
                       split->cuts.count);
  return ADJ_OK;
}

adj_status adj_split_bounds(const adj_split *split, const adj_dataset *points, const uint32_t *home, double *low,
                            double *high) {
  if (!split || !points || !home || !low || !high)
    return adji_fail(ADJ_E_ARGUMENT, "split, points, home, low and high: none may be NULL");
  part p;
  uint64_t dim = split->cuts.dim;
  adji_call outer = adji_call_begin(&split->ctx->cancels);
  adj_status status = open_part(split, points, &p);
  if (!status) status = check_home(split, points, home);
  for (uint64_t i = 0; i < split->cuts.count * dim && !status; i++) {
    low[i] = INFINITY;
    high[i] = -INFINITY;
  }
  for (uint64_t i = 0; i < points->count && !status; i++)
    for (uint32_t j = 0; j < dim; j++) {
      double x = adji_dataset_at(p.points, i, j);
      uint64_t at = home[i] * dim + j;
      low[at] = x < low[at] ? x : low[at];
      high[at] = x > high[at] ? x : high[at];
    }
  adj_dataset_destroy(p.derived);
  adji_call_set(outer);
  return status;
}

/* ---- Halos ---------------------------------------------------------------------------------------------------- */

typedef struct haloing {
  part p;
  const uint32_t *home;
  const double *radii;
  double *widths;   /* by dimension, of the spec's radius */
  uint64_t *counts; /* by slice and region: members, then where they go */
  uint32_t *rows;   /* NULL: count */
} haloing;

/* One point, and where its visits go. */
typedef struct visiting {
  const adj_split *split;
  const double *x, *widths; /* widths NULL: it reaches everything */
  uint32_t home, row;
  uint64_t *counts;
  uint32_t *rows;
} visiting;

static void width_of(const adj_split *split, double radius, double *widths) {
  double limit = adji_limit(&split->measure, split->type, radius);
  for (uint32_t j = 0; j < split->cuts.dim; j++) { /* without a box: the same in every dimension */
    if (j && !split->box) {
      widths[j] = widths[0];
      continue;
    }
    double length = adji_box_length(&split->measure, split->type, j);
    widths[j] = adji_grid_width(split->type, &split->measure, limit, j) + SPLIT_SLACK * length;
  }
}

static bool is_beyond(const visiting *v, uint64_t node) {
  uint64_t dim = v->split->cuts.dim;
  const double *low = v->split->low + node * dim, *high = v->split->high + node * dim;
  if (low[0] > high[0]) return true; /* no point has its home there */
  for (uint32_t j = 0; j < dim && v->widths; j++) {
    double x = v->x[j], width = v->widths[j];
    if (!(low[j] - x > width || x - high[j] > width)) continue;
    double length = adji_box_length(&v->split->measure, v->split->type, j);
    /* The images, in an order that does not overflow: x is above or below the box by less than the length. */
    if (!(length > 0) || ((x - high[j]) + length > width && (low[j] - x) + length > width)) return true;
  }
  return false;
}

static void visit(const visiting *v, uint32_t node) {
  const adji_cut *cut = &v->split->cuts.nodes[node];
  if (is_beyond(v, node)) return;
  if (cut->below != node) {
    visit(v, cut->below);
    visit(v, cut->below + 1);
  } else if (cut->region != v->home) {
    uint64_t at = v->counts[cut->region]++;
    if (v->rows) v->rows[at] = v->row;
  }
}

/* Most points are well inside of the cell of their home: all that is within their reach is there too. */
static bool stays_home(const haloing *h, const visiting *v, const double *low, const double *high) {
  if (!h->home || !v->widths) return false;
  uint64_t dim = v->split->cuts.dim;
  for (uint32_t j = 0; j < dim; j++)
    if (!(v->x[j] - low[v->home * dim + j] > v->widths[j] && high[v->home * dim + j] - v->x[j] > v->widths[j]))
      return false;
  return true;
}

/* Room of a lane: coordinates, widths of one point, and cells of the regions. */
static adj_status halo_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const haloing *h = user;
  const adj_split *split = h->p.split;
  uint64_t begin, end, dim = split->cuts.dim, cells = dim * split->cuts.count;
  double *room = adji_alloc(&split->ctx->memory, 2 * dim + 2 * cells, sizeof *room, "regions");
  if (!room) return ADJ_E_MEMORY;
  double *x = room, *mine = room + dim, *low = mine + dim, *high = low + cells;
  adji_split_cells(split, low, high);
  adji_slice(h->p.points->count, h->p.slices, slice, &begin, &end);
  for (uint64_t i = begin; i < end; i++) {
    visiting v = {split, x, h->widths, h->home ? h->home[i] : UINT32_MAX, (uint32_t)i, NULL, h->rows};
    v.counts = h->counts + slice * split->cuts.count;
    for (uint32_t j = 0; j < dim; j++)
      x[j] = adji_dataset_at(h->p.points, i, j);
    if (h->radii) {
      v.widths = isinf(h->radii[i]) ? NULL : mine;
      if (v.widths) width_of(split, h->radii[i], mine);
    }
    if (!stays_home(h, &v, low, high)) visit(&v, 0);
  }
  adji_free(&split->ctx->memory, room);
  return ADJ_OK;
}

/* Counts by slice become places: the lists of a region follow each other, slice by slice. */
static void place_slices(const haloing *h, const uint64_t *starts) {
  uint64_t regions = h->p.split->cuts.count;
  for (uint64_t region = 0; region < regions; region++) {
    uint64_t at = starts[region];
    for (uint64_t slice = 0; slice < h->p.slices; slice++) {
      uint64_t *count = &h->counts[slice * regions + region], many = *count;
      *count = at;
      at += many;
    }
  }
}

static adj_status find_halo(haloing *h, uint64_t *counts, uint32_t *rows) {
  const adj_split *split = h->p.split;
  uint64_t regions = split->cuts.count;
  if (!h->radii && !isinf(split->spec.radius)) width_of(split, split->spec.radius, h->widths);
  if (!h->radii && isinf(split->spec.radius)) h->widths = NULL;
  adj_status status = adji_loop(split->ctx, h->p.slices, halo_slice, h);
  if (status) return status;
  if (rows) {
    place_slices(h, counts);
    h->rows = rows;
    return adji_loop(split->ctx, h->p.slices, halo_slice, h);
  }
  memset(counts, 0, regions * sizeof *counts);
  for (uint64_t i = 0; i < h->p.slices * regions; i++)
    counts[i % regions] += h->counts[i];
  return ADJ_OK;
}

adj_status adj_split_halo(const adj_split *split, const adj_dataset *points, const uint32_t *home, const double *radii,
                          uint64_t *counts, uint32_t *rows) {
  if (!split || !points || !counts) return adji_fail(ADJ_E_ARGUMENT, "split, points and counts: none may be NULL");
  haloing h = {.home = home, .radii = radii};
  adji_memory *memory = &split->ctx->memory;
  adji_call outer = adji_call_begin(&split->ctx->cancels);
  adj_status status = open_part(split, points, &h.p);
  if (!status) status = check_home(split, points, home);
  double *widths = NULL;
  if (!status) {
    widths = h.widths = adji_alloc(memory, split->cuts.dim, sizeof *h.widths, "regions");
    h.counts = adji_alloc_zero(memory, adji_mul(h.p.slices, split->cuts.count), sizeof *h.counts, "regions");
    status = widths && h.counts ? find_halo(&h, counts, rows) : ADJ_E_MEMORY;
  }
  adji_free(memory, widths);
  adji_free(memory, h.counts);
  adj_dataset_destroy(h.p.derived);
  adji_call_set(outer);
  return status;
}
