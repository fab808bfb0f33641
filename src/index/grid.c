/* SPDX-License-Identifier: MIT
 *
 * The geometry of the grid: how wide slabs must be, where they begin, and how cells are numbered.
 */
#include "index/grid.h"

#include <math.h>
#include <string.h>

#include "index/slab.h"

/* How wide slabs must be. Let u be half an ulp of 1 in T, a and b two coordinates of points that belong,
 * t = fl(a - b).
 *
 * - L1 and Linf: s >= |t| at every step, because sums and maxima of non-negative numbers round to no less than either
 *   operand; so |t| <= limit.
 * - L2: fl(t * t + s) >= fl(t * t) since rounding is monotone; so fl(t * t) <= limit, and
 *   t * t <= limit * (1 + 2u) + (the smallest positive T). The last term is for squares that underflow.
 * - Lp: power(|t|) <= limit, as for L1. With e the slack of the power, |t|^p <= (limit + 4 tiny) / (1 - e). The root
 *   taken of it has an error of its own, below 2^-44.
 *
 * In all cases |a - b| <= |t| * (1 + 2u): the difference of two T never underflows. The factors below are wider by a
 * few units, which covers the roundings of this function.
 *
 * In a periodic dimension of length L, t is fl(L - d) when that is less than d = fl|a - b|. Then d is within u L of
 * |a - b|, so the true distance round the box is at most |t| * (1 + 2u) + u L. */
double adji_grid_width(adj_type type, const adji_measure *measure, double limit, uint32_t j) {
  double u = type == ADJ_F32 ? 0x1p-24 : 0x1p-53;
  double tiny = type == ADJ_F32 ? 0x1p-149 : 0x1p-1074;
  adji_step step = adji_plain_step(measure->step);
  if (step == ADJI_STEP_L2) limit = sqrt(limit * (1 + 4 * u) + 2 * tiny);
  if (step == ADJI_STEP_LP)
    limit = adji_exp_log(limit * (1 + 2 * ADJI_POWER_SLACK(u)) + 8 * tiny, measure->power.inverse) * (1 + 0x1p-40);
  double length = adji_box_length(measure, type, j);
  return limit * (1 + 8 * u) * (1 + 0x1p-50) + tiny + (length > 0 ? 4 * u * length : 0);
}

uint64_t adji_axis_slab(const adji_axis *axis, double x) {
  return adji_slab(x, axis->low, axis->inverse, axis->slabs, axis->breaks);
}

static uint64_t place_breaks(double *breaks, const adji_axis_extent *extent) {
  const double *sample = extent->sample;
  uint64_t most = extent->max_slabs, count = extent->sample_count;
  uint64_t made = 0, least = (count + most - 1) / most, first = 0;
  for (uint64_t i = 0; i < count && made < most; i++) {
    /* The difference rounds by 2^-53 of itself. The factor keeps breaks truly more than width apart. */
    if (made && (i - first < least || !(sample[i] - breaks[made - 1] > extent->width * (1 + 0x1p-50)))) continue;
    breaks[made++] = sample[i];
    first = i;
  }
  return made;
}

adj_status adji_axis_init(adj_ctx *ctx, adji_axis *axis, const adji_axis *wanted, const adji_axis_extent *extent) {
  *axis = *wanted;
  axis->breaks = NULL;
  axis->inverse = axis->reach * (1 - 0x1p-18) / extent->width;
  double needed = (extent->high - axis->low) * axis->inverse;
  if (needed < (double)extent->max_slabs && needed < 0x1p31) {
    axis->slabs = (uint64_t)needed + 1;
    return ADJ_OK;
  }
  if (axis->period > 0) /* images would share cells, and pairs would be found twice */
    return adji_fail(ADJ_E_INTERNAL, "dimension %u: a box of length %g cannot have slabs of equal width %g",
                     axis->dim + 1, axis->period, extent->width);
  axis->reach = 1;
  axis->breaks = adji_alloc(&ctx->memory, extent->max_slabs, sizeof *axis->breaks, "slabs of the grid");
  if (!axis->breaks) return ADJ_E_MEMORY;
  axis->slabs = place_breaks(axis->breaks, extent);
  if (!axis->slabs) axis->breaks[axis->slabs++] = axis->low;
  return ADJ_OK;
}

/* Gives the axes their strides. Each axis except the first gets `reach` more numbers than it has slabs. These stay
 * empty, so that the neighbours of a cell at the end of a row of cells are not the cells at the start of the next
 * row. */
void adji_grid_finish(adji_grid *grid) {
  uint64_t stride = 1;
  for (uint32_t a = grid->axis_count; a--;) {
    grid->axes[a].stride = stride;
    stride *= grid->axes[a].slabs + (a ? grid->axes[a].reach : 0);
  }
  grid->key_bits = stride > 1 ? 64 - (uint32_t)__builtin_clzll(stride - 1) : 0;
}

void adji_grid_clear(adj_ctx *ctx, adji_grid *grid) {
  for (uint32_t a = 0; a < grid->axis_count; a++)
    adji_free(&ctx->memory, grid->axes[a].breaks);
  memset(grid, 0, sizeof *grid);
}

bool adji_grid_is_periodic(const adji_grid *grid) {
  for (uint32_t a = 0; a < grid->axis_count; a++)
    if (grid->axes[a].period > 0) return true;
  return false;
}
