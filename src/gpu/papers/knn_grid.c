/* SPDX-License-Identifier: MIT
 *
 * The decisions of kNN joins through a grid: plain functions that need no device, so that tests can call them on any
 * machine.
 */
#include "gpu/papers/knn_grid.h"

#include <math.h>

/* ---- Epsilon --------------------------------------------------------------------------------- */

/* A mean from fewer than LEAST_MEAN points says little; with more than MOST_MEAN points it takes long to compute. */
enum { LEAST_MEAN = 128, MOST_MEAN = 1 << 14, COARSE_BINS = 8, MOST_ROUNDS = 6 };

static double real_or(double value, double otherwise) {
  return value > 0 ? value : otherwise;
}

adji_knn_grid_options adji_knn_grid_defaults(const adji_knn_grid_options *asked) {
  adji_knn_grid_options o = *asked;
  if (!o.threads) o.threads = 8;
  if (!o.sample) o.sample = 500;
  if (!o.bins) o.bins = 10000;
  o.mean_part = real_or(o.mean_part, 0.001);
  o.epsilon = real_or(o.epsilon, 1);
  o.widen = real_or(o.widen, 0.5);
  o.failures = real_or(o.failures, 0.25);
  o.tail = real_or(o.tail, 0.01);
  o.stall = real_or(o.stall, 0.9);
  return o;
}

uint64_t adji_knn_grid_mean_sample(const adji_knn_grid_options *options, uint64_t count) {
  double wanted = ceil(options->mean_part * (double)count);
  uint64_t sample = wanted < MOST_MEAN ? (uint64_t)wanted : MOST_MEAN;
  if (sample < LEAST_MEAN) sample = LEAST_MEAN;
  return sample < count ? sample : count;
}

double adji_knn_grid_epsilon(const uint64_t *bins, uint64_t count, double width, double wanted, uint64_t *bin) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; i++) {
    sum += bins[i];
    if ((double)sum < wanted) continue;
    *bin = i;
    return ((double)i + 0.5) * width;
  }
  *bin = count;
  return -1;
}

adj_status adji_knn_grid_find_epsilon(const adji_knn_grid_options *options, const adji_knn_binning *b, double end,
                                      double *epsilon) {
  uint64_t bin;
  *epsilon = -1;
  for (int round = 0; round < MOST_ROUNDS && isfinite(end); round++) {
    adj_status status = b->count(b->user, end, b->bins);
    if (status) return status;
    double width = end / (double)options->bins;
    double found = adji_knn_grid_epsilon(b->bins, options->bins, width, b->wanted, &bin);
    if (found < 0 && *epsilon >= 0) break;
    if (found < 0) {
      end *= 2;
      continue;
    }
    *epsilon = found;
    end = (double)(bin + 1) * width;
    if (bin >= COARSE_BINS || !(end > 0)) break;
  }
  return ADJ_OK;
}

double adji_knn_grid_limit(adji_step step, adj_type type, double epsilon) {
  double limit = step == ADJI_STEP_L2 ? epsilon * epsilon : epsilon;
  return type == ADJ_F32 ? (double)(float)limit : limit;
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* A limit on how often epsilon grows, whatever the options: a point far away from all others would take forever. */
enum { MOST_WIDENED = 256 };

adji_knn_grid_step adji_knn_grid_next(const adji_knn_grid_options *options, uint64_t attempted, uint64_t failed,
                                      uint64_t all, uint32_t widened) {
  double many = (double)failed;
  if (!failed) return ADJI_GRID_DONE;
  if (many < options->failures * (double)attempted) return options->no_tail ? ADJI_GRID_AGAIN : ADJI_GRID_TAIL;
  if (!options->no_tail && many < options->tail * (double)all) return ADJI_GRID_TAIL;
  if (!options->no_tail && widened && many > options->stall * (double)attempted) return ADJI_GRID_TAIL;
  return widened < MOST_WIDENED ? ADJI_GRID_WIDEN : ADJI_GRID_TAIL;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Shared memory that a block gets without opting in to more, less what the kernel uses besides the lists. */
enum { SHARED_BYTES = 46 << 10, WARP = 32 };

adji_knn_grid_shape adji_knn_grid_shape_of(uint32_t k, uint64_t entry_bytes, uint32_t threads) {
  adji_knn_grid_shape shape = {0};
  if (!k || k > ADJI_MOST_GRID) return shape;
  uint64_t list = ADJI_GRID_STRIDE(k) * entry_bytes;
  while (threads < WARP && WARP / threads * list > SHARED_BYTES)
    threads *= 2;
  uint32_t block = ADJI_GRID_BLOCK;
  while (block > WARP && block / threads * list > SHARED_BYTES)
    block /= 2;
  return (adji_knn_grid_shape){threads, block, block / threads * list};
}

/* ---- Cells ----------------------------------------------------------------------------------- */

/* A dimension in which all points lie within three slabs gets no axis. The bits of a cell number are divided evenly
 * among the axes. One bit is for the numbers that stay empty after each axis. */
adj_status adji_knn_grid_cells(adj_ctx *ctx, const adj_dataset *right, const adji_measure *measure, double limit,
                               const adji_knn_values *sample, adji_grid *out) {
  uint32_t dims[ADJI_MAX_AXES], axes = 0;
  double widths[ADJI_MAX_AXES];
  *out = (adji_grid){0};
  for (uint32_t j = 0; j < right->dim && axes < ADJI_MAX_AXES; j++) {
    double width = adji_grid_width(right->type, measure, limit, j);
    if (!((right->high[j] - right->low[j]) / width > 2)) continue;
    dims[axes] = j;
    widths[axes++] = width;
  }
  uint64_t most = UINT64_C(1) << (axes && 60 / axes < 20 ? 60 / axes : 20);
  for (uint32_t a = 0; a < axes; a++) {
    adji_axis wanted = {.dim = dims[a], .reach = 1, .low = right->low[dims[a]]};
    adji_axis_extent extent = {right->high[dims[a]], widths[a], most, sample->values + dims[a] * sample->count,
                               sample->count};
    adj_status status = adji_axis_init(ctx, &out->axes[a], &wanted, &extent);
    if (status) {
      adji_grid_clear(ctx, out);
      return status;
    }
    out->axis_count = a + 1;
  }
  adji_grid_finish(out);
  return ADJ_OK;
}

bool adji_knn_grid_is_worth(const adji_knn_grid_options *options, const adji_grid *grid, uint64_t right) {
  return options->no_tail || grid->axis_count || right <= 1 << 14;
}
