/* SPDX-License-Identifier: MIT
 *
 * Scales points so that every column reaches from 0 to 1: see normalise.h.
 *
 * Every step rounds monotonically, so the bounds of a column become those of the scaled one.
 */
#include "data/normalise.h"

#include <string.h>

typedef struct scaling {
  const adj_dataset *from;
  const double *low, *high; /* of the scale */
  void *to;
} scaling;

/* If high - low is not finite, all three values are halved first. */
static double scaled(double x, double low, double high) {
  double width = high - low;
  if (!adji_is_finite(width)) return (x / 2 - low / 2) / (high / 2 - low / 2);
  return width > 0 ? (x - low) / width : x - low;
}

static double as_type(adj_type type, double x) {
  return type == ADJ_F64 ? x : (double)(float)x;
}

static void scale_slice(void *user, uint64_t begin, uint64_t end) {
  const scaling *s = user;
  const adj_dataset *from = s->from;
  uint64_t at = begin * from->dim;
  for (uint64_t i = begin; i < end; i++)
    for (uint32_t j = 0; j < from->dim; j++, at++) {
      double x = scaled(adji_dataset_at(from, i, j), s->low[j], s->high[j]);
      if (from->type == ADJ_F64)
        ((double *)s->to)[at] = x;
      else
        ((float *)s->to)[at] = (float)x;
    }
}

/* Refuses values that become infinite: they are far outside of a narrow scale. */
static adj_status check_bounds(const adj_dataset *set, const scaling *s) {
  for (uint32_t j = 0; j < set->dim && set->count; j++) {
    double low = as_type(set->type, scaled(set->low[j], s->low[j], s->high[j]));
    double high = as_type(set->type, scaled(set->high[j], s->low[j], s->high[j]));
    if (!adji_is_finite(low) || !adji_is_finite(high))
      return adji_fail(ADJ_E_DATA, "normalise: column %u: %.9g is too far outside of the scale from %.9g to %.9g",
                       j + 1, adji_is_finite(low) ? set->high[j] : set->low[j], s->low[j], s->high[j]);
  }
  return ADJ_OK;
}

/* Replaces the points by the scaled ones. */
static void replace(adj_dataset *set, const scaling *s, double *scale) {
  memcpy(scale, s->low, set->dim * sizeof *scale);
  memcpy(scale + set->dim, s->high, set->dim * sizeof *scale);
  for (uint32_t j = 0; j < set->dim && set->count; j++) {
    set->low[j] = as_type(set->type, scaled(set->low[j], scale[j], scale[set->dim + j]));
    set->high[j] = as_type(set->type, scaled(set->high[j], scale[j], scale[set->dim + j]));
  }
  if (set->release) set->release(set);
  set->release = adji_release_block;
  set->data = set->owner = s->to;
  set->owner_bytes = 0;
  set->column_stride = adji_type_size(set->type);
  set->row_stride = set->dim * set->column_stride;
  set->precision = 0;
  adji_free(&set->ctx->memory, set->scale);
  set->scale = scale;
}

adj_status adji_dataset_normalise(adj_dataset *set, const adj_dataset *like) {
  adj_ctx *ctx = set->ctx;
  scaling s = {set, set->low, set->high, NULL};
  if (like && !like->scale) return adji_fail(ADJ_E_ARGUMENT, "normalise_like: is not a normalised set");
  if (like && like->dim != set->dim)
    return adji_fail(ADJ_E_ARGUMENT, "normalise_like: has %u columns, and these points have %u", like->dim, set->dim);
  if (like) {
    s.low = like->scale;
    s.high = like->scale + like->dim;
  }
  adj_status status = check_bounds(set, &s);
  if (status) return status;
  s.to = adji_alloc(&ctx->memory, set->count * set->dim, adji_type_size(set->type), "points");
  double *scale = adji_alloc(&ctx->memory, 2 * (uint64_t)set->dim, sizeof *scale, "scale of the points");
  status = s.to && scale ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_loop_slices(ctx, set->count, set->count * set->dim / 65536 + 1, scale_slice, &s);
  if (status) {
    adji_free(&ctx->memory, s.to);
    adji_free(&ctx->memory, scale);
    return status;
  }
  replace(set, &s, scale);
  return ADJ_OK;
}
