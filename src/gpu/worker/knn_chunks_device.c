/* SPDX-License-Identifier: MIT
 *
 * kNN joins in chunks, for sets whose points fit the device, although trees and results do not. The points go there
 * once, and the device picks those of a region (gpu/index/pick.h). The cores then only have to handle rows.
 */
#include <math.h>
#include <string.h>

#include "gpu/device/staging.h"
#include "gpu/worker/knn_chunks_private.h"

enum { MOST_HALVED = 3 };

/* ---- Both sets on the device -------------------------------------------------------------------------- */

static adj_status hold_set(adji_knn_chunks *c, const adj_dataset *set, adji_gpu_right **out) {
  adji_gpu_right_options options = {.form = ADJI_RIGHT_POINTS, .set = set};
  return *out ? ADJ_OK : adji_gpu_right_open(c->gpu, &options, out);
}

void adji_knn_release(adji_knn_chunks *c) {
  adji_gpu_right_close(c->right_set);
  adji_gpu_right_close(c->left_set);
  c->right_set = c->left_set = NULL;
}

/* ---- Regions ------------------------------------------------------------------------------------------ */

/* A bound of points around a region, moved outwards to a value of their type. */
static double outwards(const adji_knn_chunks *c, double x, double towards) {
  if (c->type == 8) return nextafter(x, towards);
  return (double)nextafterf((float)x, (float)towards);
}

/* The bounds of a region and of the points around it. These are all points whose gap to the region is at most the
 * margin, less 2^-52 of it, for which adji_reach leaves room. Cuts are values of points, and so of their type. */
static adji_gpu_region region_of(const adji_knn_chunks *c, uint32_t region, double margin) {
  uint32_t dim = c->cuts.dim;
  const double *low = c->cells + (uint64_t)region * dim, *high = low + (uint64_t)c->cuts.count * dim;
  adji_gpu_region out = {.low = {0}};
  for (uint32_t j = 0; j < dim; j++) {
    out.low[j] = low[j];
    out.high[j] = high[j];
    out.near_low[j] = margin < 0 ? INFINITY : outwards(c, low[j] - margin, -INFINITY);
    out.near_high[j] = margin < 0 ? -INFINITY : outwards(c, high[j] + margin, INFINITY);
  }
  return out;
}

/* Counts the points of a region. If its margin makes the region too large, the margin is halved a few times, and then
 * given up. */
static adj_status count_region(adji_knn_chunks *c, const adji_gpu_rows *rows, uint32_t i, double *margin,
                               adji_regions *out) {
  for (int tries = 0;; tries++) {
    adji_gpu_region region = region_of(c, i, *margin);
    adj_status status = adji_gpu_pick_count(c->gpu, rows, &region, &out->own[i], &out->all[i]);
    if (status || out->all[i] <= c->size || *margin < 0) return status;
    *margin = tries < MOST_HALVED ? *margin / 2 : -1;
  }
}

/* Counts the points of all regions, in the right set with their margins. *fit: no region is too large. */
static adj_status count_regions(adji_knn_chunks *c, const adj_dataset *set, adji_knn_pieces *out, bool *fit) {
  bool right = out == &c->right;
  const adji_gpu_rows *rows = adji_gpu_right_rows(right ? c->right_set : c->left_set);
  adj_status status = adji_regions_open(c->join.ctx, set, &c->cuts, &out->regions);
  for (uint32_t i = 0; i < c->cuts.count && *fit && !status; i++) {
    double none = -1;
    status = count_region(c, rows, i, right ? &c->margins[i] : &none, &out->regions);
    *fit = out->regions.all[i] <= c->size;
    if (!status) status = adji_check_cancel(c->join.ctx);
  }
  return status || !*fit ? status : adji_knn_pieces_list(c, out);
}

static adj_status list_regions(adji_knn_chunks *c, bool *fit) {
  adj_status status = count_regions(c, c->join.right, &c->right, fit);
  c->left = &c->right;
  if (status || !*fit) return status;
  adji_knn_choose_near(c);
  if (c->join.self_join) return ADJ_OK;
  c->left = &c->left_pieces;
  return count_regions(c, c->join.left, &c->left_pieces, fit);
}

adj_status adji_knn_hold_sets(adji_knn_chunks *c) {
  adj_status status = hold_set(c, c->join.right, &c->right_set);
  if (!status && !c->join.self_join) status = hold_set(c, c->join.left, &c->left_set);
  return status;
}

adj_status adji_knn_hold(adji_knn_chunks *c) {
  bool fit = true;
  uint64_t start = adji_now_ns();
  adj_status status = adji_knn_hold_sets(c);
  if (!status && !c->left) status = list_regions(c, &fit);
  adji_trace(c->join.ctx, "hold", 0, start, c->join.right->count);
  if (!status && fit) return ADJ_OK;
  adji_knn_release(c);
  adji_knn_regions_clear(c);
  if (status && status != ADJ_E_DEVICE_MEMORY) return status;
  c->on_device = false;
  return adji_knn_regions_make(c);
}

/* ---- Parts -------------------------------------------------------------------------------------------- */

void adji_knn_part_drop(adji_knn_part *part) {
  if (part->picked.gpu) part->from = NULL; /* it must be picked again */
  adji_gpu_pick_drop_points(&part->picked);
  adji_gpu_pick_drop_ids(&part->picked);
}

adj_status adji_knn_part_pick(adji_knn_chunks *c, adji_knn_pieces *from, uint64_t number, adji_knn_part *part) {
  uint32_t region = from->each[number].region;
  adji_gpu_region bounds = region_of(c, region, from == &c->right ? c->margins[region] : -1);
  adji_gpu_picking request = {.region = &bounds, .most = UINT64_MAX};
  request.own_count = from->regions.own[region];
  request.all_count = from->regions.all[region];
  uint64_t start = adji_now_ns();
  const adji_gpu_right *set = from == &c->left_pieces ? c->left_set : c->right_set;
  adji_gpu_pick_close(&part->picked);
  adj_status status = adji_gpu_pick_open(c->gpu, adji_gpu_right_rows(set), &request, &part->picked);
  adji_trace(c->join.ctx, "pick", 0, start, request.all_count);
  if (status) return status;
  part->points = NULL;
  part->has_ids = false;
  part->rows = part->picked.own;
  part->set = (adj_dataset){.ctx = c->join.ctx,
                            .type = c->join.left->type,
                            .dim = c->join.left->dim,
                            .count = part->picked.rows.count,
                            .row_stride = c->point,
                            .column_stride = c->type};
  part->from = from;
  part->piece = number;
  adji_knn_part_set_box(c, part, region);
  return ADJ_OK;
}

/* Waits first, since copies do not wait for kernels by themselves. */
adj_status adji_knn_part_ids(adji_knn_chunks *c, adji_knn_part *part) {
  if (part->has_ids || !part->rows) return ADJ_OK;
  adj_status status = adji_gpu_wait(c->gpu);
  if (!status)
    status = adji_download(c->gpu, part->picked.own_ids, part->rows * sizeof *part->ids, part->ids, &c->run->device);
  part->has_ids = !status;
  return status;
}

void adji_knn_use_pick(const adji_gpu_pick *pick, adji_gpu_knn_options *options) {
  options->pick = pick;
  options->right_rows = &pick->rows;
  options->right_names = NULL;
}
