/* SPDX-License-Identifier: MIT
 *
 * The filter of products: where it can be had, with which centre and scale, and whether it would drop anything.
 *
 * Half precision has 11 bits down to 2^-14, so that any scale will do at which the farthest point is below 65504. Where
 * a stray point is so far away that the radius would be among the smallest numbers, the scale makes the radius 1/16,
 * and points beyond the range are strays: they pass the filter.
 */
#include "plan/choose_tensor.h"

#include <math.h>

#include "gpu/papers/access.h"

enum { LEAST_DIM = 7, LEAST_POINTS = 4096, SAMPLED_ROWS = 256 };

bool adji_may_choose_tensor(const adji_range_question *q) {
  const adj_dataset *right = q->join->right;
  if (adji_access_by_point((adji_access)q->tuning->access)) return false; /* which compares in its own way */
  return q->tuning->prefilter != ADJI_PREFILTER_OFF && right->type == ADJ_F32 && q->measure->step == ADJI_STEP_L2 &&
         right->dim <= ADJI_HALVES_MOST_DIM && q->join->limit > 0 && isfinite(q->join->limit);
}

adj_status adji_check_tensor(const adji_range_question *q) {
  if (q->tuning->prefilter != ADJI_PREFILTER_TENSOR || adji_may_choose_tensor(q)) return ADJ_OK;
  return adji_fail(
      ADJ_E_UNSUPPORTED,
      "tuning: prefilter=tensor is for L2 in f32, in up to %d dimensions without a periodic box, and for a "
      "radius above 0",
      (int)ADJI_HALVES_MOST_DIM);
}

/* How far points are from the centre in any dimension. */
static double farthest(const adj_dataset *set, const float *centre) {
  double most = 0;
  for (uint32_t j = 0; j < set->dim && set->count; j++)
    most = fmax(most, fmax(set->high[j] - (double)centre[j], (double)centre[j] - set->low[j]));
  return most;
}

static void find_scale(const adji_join *join, const float *centre, adji_halves_scale *out) {
  uint32_t dim = join->right->dim;
  double far = fmax(farthest(join->right, centre), farthest(join->left, centre));
  double radius = adji_halves_reach(join->limit, dim, 1);
  int by_radius = -4 - ilogb(radius), by_range = far > 0 ? 13 - ilogb(far) : by_radius;
  double scale = ldexp(1, by_range > by_radius ? by_range : by_radius);
  uint32_t width = adji_halves_width(dim);
  *out = (adji_halves_scale){.dim = dim, .width = width, .scale = scale, .gamma = adji_halves_gamma(width)};
  out->reach = adji_halves_reach(join->limit, dim, scale);
  out->stray = 0.125 * out->reach;
}

/* Whether the radius of the filter is hardly wider than that of the join, for nearly all of the sample. */
static bool is_useful(const adji_halves_plan *tensor, const double *values, uint64_t sample) {
  const adji_halves_scale *scale = &tensor->scale;
  uint64_t step = sample / SAMPLED_ROWS + 1, rows = 0, strays = 0;
  double most = 0, norms = 0;
  for (uint64_t i = 0; i < sample; i += step, rows++) {
    double rest_sq = 0, norm_sq = 0;
    for (uint32_t j = 0; j < scale->dim; j++) {
      double z = (values[j * sample + i] - (double)tensor->centre[j]) * scale->scale, half = adji_halves_round(z);
      rest_sq += (z - half) * (z - half);
      norm_sq += half * half;
    }
    float error = adji_halves_error(rest_sq, norm_sq);
    norms += norm_sq;
    if (adji_halves_is_stray(scale, error))
      strays++;
    else
      most = fmax(most, (double)error);
  }
  double p = scale->reach + 2 * most, slack = 10 * scale->gamma * norms / (double)rows;
  return strays <= rows / 64 && p * p + slack <= 1.3 * scale->reach * scale->reach;
}

adj_status adji_choose_tensor(const adji_range_question *q, const double *values, uint64_t sample,
                              adji_halves_plan *out) {
  uint32_t dim = q->join->right->dim;
  bool wanted = q->tuning->prefilter == ADJI_PREFILTER_TENSOR;
  if (q->tuning->mirrored == ADJI_ON) return ADJ_OK; /* which compares without a prefilter */
  if (!adji_may_choose_tensor(q) || (!wanted && (dim < LEAST_DIM || adji_question_points(q) < LEAST_POINTS)))
    return ADJ_OK;
  out->centre = adji_alloc(&q->join->ctx->memory, dim, sizeof *out->centre, "centre of the points");
  if (!out->centre) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < dim; j++) {
    double sum = 0;
    for (uint64_t i = 0; i < sample; i++)
      sum += values[j * sample + i] / (double)sample;
    out->centre[j] = (float)sum;
  }
  find_scale(q->join, out->centre, &out->scale);
  out->use = wanted || is_useful(out, values, sample);
  return ADJ_OK;
}

double adji_tensor_cost(const adji_costs *costs, const adji_halves_plan *tensor) {
  return costs->warp_tensor + costs->warp_tensor_step * tensor->scale.width / ADJI_HALVES_STEP;
}
