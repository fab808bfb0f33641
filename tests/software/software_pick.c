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

static void copy(const adji_gpu_rows *set, const adji_gpu_picking *what, char *points, uint32_t *ids,
                 const adji_gpu_pick *out) {
  uint32_t *places = ids + out->rows.count, *own_ids = places + out->rows.count, own = 0;
  uint64_t at = 0;
  for (uint64_t i = 0; i < set->count; i++) {
    bool mine;
    if (!is_picked(set, what, i, &mine)) continue;
    for (uint32_t j = 0; j < set->dim; j++)
      adji_software_put_value(set->type, points, at * set->dim + j, adji_software_value(set, i, j));
    ids[at] = (uint32_t)i;
    places[at++] = mine ? own : ADJ_NO_ID;
    if (mine) own_ids[own++] = (uint32_t)i;
  }
}

adj_status adji_gpu_pick_open(adji_gpu *gpu, const adji_gpu_rows *set, const adji_gpu_picking *what,
                              adji_gpu_pick *out) {
  uint64_t own, all;
  *out = (adji_gpu_pick){.gpu = NULL};
  adj_status status = adji_software_launch(gpu, "pick_open");
  if (status) return status;
  count(set, what, &own, &all);
  adji_gpu_pick pick = {.rows = {NULL, set->type, set->dim, all, set->dim, 1}};
  if (all && all <= what->most) {
    uint64_t points = (all * set->dim * adji_type_size(set->type) + 15) / 16 * 16;
    adji_software_block block;
    status = adji_software_get(gpu, points + (2 * all + own + 1) * sizeof(uint32_t), "points of a region", &block);
    if (status) return status;
    uint32_t *ids = (uint32_t *)(void *)((char *)block.at + points);
    pick.gpu = gpu;
    pick.rows.data = block.at;
    pick.own = own;
    pick.ids = ids;
    pick.places = ids + all;
    pick.own_ids = ids + 2 * all;
    pick.bytes = block.bytes;
    copy(set, what, block.at, ids, &pick);
  }
  *out = pick;
  return ADJ_OK;
}

void adji_gpu_pick_close(adji_gpu_pick *pick) {
  if (!pick->gpu) return;
  adji_software_block block = {(void *)(uintptr_t)pick->rows.data, pick->bytes};
  adji_software_free(pick->gpu, &block);
  *pick = (adji_gpu_pick){.gpu = NULL};
}
