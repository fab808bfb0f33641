/* SPDX-License-Identifier: MIT
 *
 * The home regions of points in a split, and the boxes around the points of each region.
 */
#include <math.h>

#include "cluster/split_private.h"
#include "data/derive.h"

adj_status adji_split_open_part(const adj_split *split, const adj_dataset *points, adji_part *out) {
  *out = (adji_part){.split = split, .points = points, .slices = points->count / ADJI_SLICE_POINTS + 1};
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
  adji_part p;
  uint32_t *home;
} homing;

/* Eight points go down the tree together, so that their steps overlap. Leaves lead to themselves. */
enum { TOGETHER = 8 };

#define HOMES(T)                                                                                      \
  static inline void homes_in_##T(const homing *h, uint64_t first, uint64_t many) {                   \
    const adji_cuts *cuts = &h->p.split->cuts;                                                        \
    const adj_dataset *set = h->p.points;                                                             \
    const char *rows = set->data + first * set->row_stride;                                           \
    uint32_t nodes[TOGETHER] = {0};                                                                   \
    for (uint32_t level = 0; level < cuts->depth; level++)                                            \
      for (uint64_t i = 0; i < many; i++) {                                                           \
        const adji_cut *cut = &cuts->nodes[nodes[i]];                                                 \
        T x = *(const T *)(const void *)(rows + i * set->row_stride + cut->dim * set->column_stride); \
        nodes[i] = cut->below + ((cut->below != nodes[i]) & ((double)x >= cut->at));                  \
      }                                                                                               \
    for (uint64_t i = 0; i < many; i++)                                                               \
      h->home[first + i] = cuts->nodes[nodes[i]].region;                                              \
  }                                                                                                   \
  static void homes_##T(const homing *h, uint64_t begin, uint64_t end) {                              \
    uint64_t i = begin;                                                                               \
    for (; i + TOGETHER <= end; i += TOGETHER)                                                        \
      homes_in_##T(h, i, TOGETHER);                                                                   \
    homes_in_##T(h, i, end - i);                                                                      \
  }
HOMES(float)
HOMES(double)

static adj_status home_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const homing *h = user;
  uint64_t begin, end;
  adji_slice(h->p.points->count, h->p.slices, slice, &begin, &end);
  if (h->p.points->type == ADJ_F64)
    homes_double(h, begin, end);
  else
    homes_float(h, begin, end);
  return ADJ_OK;
}

adj_status adj_split_home(const adj_split *split, const adj_dataset *points, uint32_t *home) {
  if (!split || !points || !home) return adji_fail(ADJ_E_ARGUMENT, "split, points and home: none may be NULL");
  homing h = {.home = home};
  adji_call outer = adji_call_begin(&split->ctx->cancels);
  adj_status status = adji_split_open_part(split, points, &h.p);
  if (!status) status = adji_loop(split->ctx, h.p.slices, home_slice, &h);
  adj_dataset_destroy(h.p.derived);
  adji_call_set(outer);
  return status;
}

adj_status adji_split_check_home(const adj_split *split, const adj_dataset *points, const uint32_t *home) {
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
  adji_part p;
  uint64_t dim = split->cuts.dim;
  adji_call outer = adji_call_begin(&split->ctx->cancels);
  adj_status status = adji_split_open_part(split, points, &p);
  if (!status) status = adji_split_check_home(split, points, home);
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
