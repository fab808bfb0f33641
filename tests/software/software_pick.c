/* SPDX-License-Identifier: MIT
 *
 * Points picked out of a set on the software device.
 */
#include <string.h>

#include "software/software.h"

static bool in_region(const adji_gpu_rows *set, const adji_gpu_region *region, uint64_t i, bool *own) {
  bool near = true;
  *own = true;
  for (uint32_t j = 0; j < set->dim; j++) {
    double x = adji_software_value(set, i, j);
    *own = *own && x >= region->low[j] && x < region->high[j];
    near = near && x >= region->near_low[j] && x <= region->near_high[j];
  }
  return *own || near;
}

static bool is_picked(const adji_gpu_rows *set, const adji_gpu_picking *what, uint64_t i, bool *own) {
  if (what->region) return in_region(set, what->region, i, own);
  uint64_t cell = 0;
  for (uint32_t j = 0; j < set->dim; j++)
    cell += what->marked
                ->cells[(uint64_t)j * ADJI_MARKED_BINS +
                        adji_marked_bin(what->marked->low[j], what->marked->scale[j], adji_software_value(set, i, j))];
  *own = what->own && (what->own[i / 64] >> i % 64 & 1);
  return what->marked->words[cell / 64] >> cell % 64 & 1;
}

static void count(const adji_gpu_rows *set, const adji_gpu_picking *what, uint64_t *own, uint64_t *all) {
  *own = *all = 0;
  for (uint64_t i = 0; i < set->count; i++) {
    bool mine, picked = is_picked(set, what, i, &mine);
    *all += picked;
    *own += picked && mine;
  }
}

adj_status adji_gpu_pick_count(adji_gpu *gpu, const adji_gpu_rows *set, const adji_gpu_region *region, uint64_t *own,
                               uint64_t *all) {
  adj_status status = adji_software_launch(gpu, "pick_count");
  if (!status) count(set, &(adji_gpu_picking){.region = region}, own, all);
  return status;
}

static void copy(const adji_gpu_rows *set, const adji_gpu_picking *what, void *points, uint32_t *ids, uint32_t *own_ids,
                 uint64_t all) {
  uint32_t own = 0;
  uint64_t at = 0;
  for (uint64_t i = 0; i < set->count; i++) {
    bool mine;
    if (!is_picked(set, what, i, &mine)) continue;
    for (uint32_t j = 0; j < set->dim; j++)
      adji_software_put_value(set->type, points, at * set->dim + j, adji_software_value(set, i, j));
    ids[at] = (uint32_t)i;
    ids[all + at++] = mine ? own : ADJ_NO_ID;
    if (mine) own_ids[own++] = (uint32_t)i;
  }
}

adj_status adji_gpu_pick_open(adji_gpu *gpu, const adji_gpu_rows *set, const adji_gpu_picking *request,
                              adji_gpu_pick *out) {
  uint64_t own, all;
  *out = (adji_gpu_pick){.gpu = NULL};
  adj_status status = adji_software_launch(gpu, "pick_open");
  if (status) return status;
  count(set, request, &own, &all);
  if (request->all_count && (own != request->own_count || all != request->all_count))
    return adji_fail(ADJ_E_INTERNAL, "software device: points to pick are not as many as they were");
  out->rows = (adji_gpu_rows){NULL, set->type, set->dim, all, set->dim, 1};
  if (!all || all > request->most) return ADJ_OK;
  uint64_t sizes[] = {all * set->dim * adji_type_size(set->type), 2 * all * sizeof(uint32_t),
                      (own + 1) * sizeof(uint32_t)};
  adji_software_block blocks[3] = {{0}};
  for (int i = 0; i < 3 && !status; i++)
    status = adji_software_get(gpu, sizes[i], "points of a region", &blocks[i]);
  if (status) {
    for (int i = 0; i < 3; i++)
      adji_software_free(gpu, &blocks[i]);
    return status;
  }
  copy(set, request, blocks[0].at, blocks[1].at, blocks[2].at, all);
  out->gpu = gpu;
  out->rows.data = blocks[0].at;
  out->own = own;
  out->ids = blocks[1].at;
  out->places = out->ids + all;
  out->own_ids = blocks[2].at;
  for (int i = 0; i < 3; i++)
    out->bytes[i] = blocks[i].bytes;
  return ADJ_OK;
}

static void drop(adji_gpu_pick *pick, int number, const void *at) {
  adji_software_block block = {(void *)(uintptr_t)at, pick->bytes[number]};
  if (at) adji_software_free(pick->gpu, &block);
}

void adji_gpu_pick_drop_points(adji_gpu_pick *pick) {
  drop(pick, 0, pick->rows.data);
  pick->rows.data = NULL;
}

void adji_gpu_pick_drop_ids(adji_gpu_pick *pick) {
  drop(pick, 1, pick->ids);
  pick->ids = pick->places = NULL;
}

void adji_gpu_pick_close(adji_gpu_pick *pick) {
  adji_gpu_pick_drop_points(pick);
  adji_gpu_pick_drop_ids(pick);
  drop(pick, 2, pick->own_ids);
  *pick = (adji_gpu_pick){.gpu = NULL};
}
