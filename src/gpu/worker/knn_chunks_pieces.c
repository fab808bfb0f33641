/* SPDX-License-Identifier: MIT
 *
 * kNN joins in chunks: the points of both sets by region, and a region's points as they are sent to the device.
 */
#include <math.h>
#include <string.h>

#include "gpu/worker/knn_chunks_private.h"

/* ---- Pieces ------------------------------------------------------------------------------------------ */

static void clear_pieces(adji_memory *memory, adji_knn_pieces *p) {
  adji_gather_clear(&p->gather);
  adji_regions_clear(&p->regions);
  adji_free(memory, p->each);
  adji_free(memory, p->of_region);
  *p = (adji_knn_pieces){0};
}

static uint64_t pieces_of(const adji_knn_chunks *c, uint64_t members) {
  return members / c->size + (members % c->size > 0);
}

adj_status adji_knn_pieces_list(adji_knn_chunks *c, adji_knn_pieces *out) {
  adji_memory *memory = &c->join.ctx->memory;
  const adji_regions *r = &out->regions;
  uint32_t regions = c->cuts.count;
  for (uint32_t i = 0; i < regions; i++)
    out->count += pieces_of(c, r->own[i]);
  out->each = adji_alloc(memory, out->count + 1, sizeof *out->each, "regions");
  out->of_region = adji_alloc(memory, (uint64_t)regions + 1, sizeof *out->of_region, "regions");
  if (!out->each || !out->of_region) return ADJ_E_MEMORY;
  uint64_t number = 0;
  for (uint32_t i = 0; i < regions; i++) {
    uint64_t many = pieces_of(c, r->own[i]);
    out->of_region[i] = number;
    for (uint64_t j = 0; j < many; j++) {
      adji_knn_piece *piece = &out->each[number++];
      piece->region = i;
      adji_slice(r->all[i], many, j, &piece->first, &piece->end);
      if (piece->end - piece->first > out->largest) out->largest = piece->end - piece->first;
    }
  }
  out->of_region[regions] = number;
  return ADJ_OK;
}

/* Gives up the margins of regions that are larger than a piece because of them. Returns whether there were any. */
static bool shrink_margins(const adji_knn_chunks *c, const adji_regions *r, double *margins) {
  bool some = false;
  for (uint32_t i = 0; i < c->cuts.count; i++) {
    if (margins[i] < 0 || r->all[i] <= c->size) continue;
    margins[i] = -1;
    some = true;
  }
  return some;
}

/* Points of several regions are gathered at once, in three eighths of the set's size, or in this many bytes if that is
 * more. */
static const uint64_t LEAST_GATHER = (uint64_t)256 << 20;

static void open_gather(const adji_knn_chunks *c, adji_knn_pieces *p) {
  uint64_t bytes = p->regions.set->count * c->point / 8 * 3,
           available = adji_memory_available(&c->join.ctx->memory) / 4;
  if (bytes < LEAST_GATHER) bytes = LEAST_GATHER;
  adji_gather_open(&p->regions, bytes < available ? bytes : available, c->join.style.kernels->stream_row, &p->gather);
}

/* Lists the points of a set by region. margins: one per region; NULL: none. */
static adj_status make_pieces(adji_knn_chunks *c, const adj_dataset *set, double *margins, adji_knn_pieces *out) {
  adj_status status = adji_regions_make(c->join.ctx, set, &c->cuts, margins, &out->regions);
  while (!status && margins && shrink_margins(c, &out->regions, margins)) {
    adji_regions_clear(&out->regions);
    status = adji_regions_make(c->join.ctx, set, &c->cuts, margins, &out->regions);
  }
  return status ? status : adji_knn_pieces_list(c, out);
}

adj_status adji_knn_inner_make(adji_knn_chunks *c) {
  if (c->inner) return ADJ_OK;
  adj_status status = ADJ_OK;
  if (c->on_device) { /* the same regions, without margins */
    status = adji_regions_open(c->join.ctx, c->join.right, &c->cuts, &c->inner_pieces.regions);
    for (uint32_t i = 0; i < c->cuts.count && !status; i++)
      c->inner_pieces.regions.own[i] = c->inner_pieces.regions.all[i] = c->right.regions.own[i];
    if (!status) status = adji_knn_pieces_list(c, &c->inner_pieces);
  } else {
    status = make_pieces(c, c->join.right, NULL, &c->inner_pieces);
  }
  if (status)
    clear_pieces(&c->join.ctx->memory, &c->inner_pieces);
  else
    c->inner = &c->inner_pieces;
  return status;
}

void adji_knn_inner_clear(adji_knn_chunks *c) {
  clear_pieces(&c->join.ctx->memory, &c->inner_pieces);
  c->inner = NULL;
}

void adji_knn_regions_clear(adji_knn_chunks *c) {
  adji_memory *memory = &c->join.ctx->memory;
  clear_pieces(memory, &c->right);
  clear_pieces(memory, &c->left_pieces);
  clear_pieces(memory, &c->inner_pieces);
  c->inner = c->left = NULL;
  adji_cuts_clear(c->join.ctx, &c->cuts);
  adji_free(memory, c->margins);
  adji_free(memory, c->cells);
  adji_free(memory, c->near);
  c->margins = c->cells = c->near = NULL;
}

/* Chooses margins within which most rows find their neighbours. No margin needs to exceed the limit of the join. */
static adj_status choose_margins(adji_knn_chunks *c) {
  const adji_join *join = &c->join;
  uint64_t regions = c->cuts.count;
  c->margins = adji_alloc(&join->ctx->memory, regions, sizeof *c->margins, "regions");
  c->cells = adji_alloc(&join->ctx->memory, 2 * regions * join->right->dim, sizeof *c->cells, "regions");
  c->near = adji_alloc(&join->ctx->memory, regions, sizeof *c->near, "regions");
  if (!c->margins || !c->cells || !c->near) return ADJ_E_MEMORY;
  adji_cuts_cells(&c->cuts, c->cells, c->cells + regions * join->right->dim);
  adj_status status = adji_cuts_spacing(join->ctx, join->right, &c->cuts, &c->measure, join->k, c->margins);
  double reach = adji_reach(&c->measure, join->left->type, join->limit);
  for (uint64_t i = 0; i < regions && !status; i++)
    if (c->margins[i] > reach) c->margins[i] = reach;
  return status;
}

/* For each region, the largest k-th distance or sum for which adji_reach proves that nothing beyond the margin is
 * nearer. A distance d is a rounded root, of at most d (1 + eps), and its reach is at most d (1 + eps) (1 + 8 eps). */
void adji_knn_choose_near(adji_knn_chunks *c) {
  bool f32 = c->join.left->type == ADJ_F32, squares = c->measure.step == ADJI_STEP_L2;
  double eps = f32 ? 0x1p-23 : 0x1p-52, least = f32 ? 0x1p-62 : 0x1p-510;
  for (uint32_t i = 0; i < c->cuts.count; i++) {
    double near = c->margins[i] * (1 - 16 * eps);
    if (squares && !c->rooted) near *= near * (1 - 16 * eps);
    c->near[i] = c->margins[i] > least ? near : -1;
  }
}

/* The number of regions for the larger set, which the cuts follow. It is a quarter more than needed, since sizes are
 * estimated from a sample. If regions are picked on the device, their sizes include margins of up to a fifth. */
static uint64_t wanted_regions(const adji_knn_chunks *c, uint64_t points) {
  double needed = (double)points / (double)c->size;
  uint64_t regions = (uint64_t)(needed * (c->on_device ? 1.3 : 1.25)) + 1;
  return (regions + c->devices - 1) / c->devices * c->devices; /* as many for each device */
}

adj_status adji_knn_regions_make(adji_knn_chunks *c) {
  const adji_join *join = &c->join;
  uint64_t begin = adji_now_ns();
  const adj_dataset *larger = join->left->count > join->right->count ? join->left : join->right;
  adj_status status = adji_cuts_make(join->ctx, larger, wanted_regions(c, larger->count), &c->cuts);
  if (!status) status = choose_margins(c);
  if (!status && !c->on_device) status = adji_knn_regions_list(c);
  adji_trace(join->ctx, "regions", 0, begin, c->cuts.count);
  if (status) adji_knn_regions_clear(c);
  return status;
}

adj_status adji_knn_regions_list(adji_knn_chunks *c) {
  const adji_join *join = &c->join;
  adj_status status = make_pieces(c, join->right, c->margins, &c->right);
  if (!status) adji_knn_choose_near(c);
  if (!status && !join->self_join) status = make_pieces(c, join->left, NULL, &c->left_pieces);
  c->left = join->self_join ? &c->right : &c->left_pieces;
  return status;
}

/* ---- Parts ------------------------------------------------------------------------------------------- */

void adji_knn_part_free(adji_knn_chunks *c, adji_knn_part *part) {
  adji_memory *memory = &c->join.ctx->memory;
  adji_pick_clear(&part->pick);
  adji_gpu_pick_close(&part->picked);
  adji_free(memory, part->kept);
  adji_free(memory, part->ids);
  adji_free(memory, part->own);
  adji_free(memory, part->box);
  *part = (adji_knn_part){0};
}

adj_status adji_knn_part_open(adji_knn_chunks *c, adji_knn_pieces *of, adji_knn_part *part) {
  adji_memory *memory = &c->join.ctx->memory;
  part->ids = adji_alloc(memory, of->largest + 1, sizeof *part->ids, "ids of a region");
  part->box = adji_alloc(memory, 2 * (uint64_t)of->regions.set->dim, sizeof *part->box, "regions");
  if (!part->ids || !part->box) return ADJ_E_MEMORY;
  if (c->on_device) return ADJ_OK;
  if (!of->gather.regions) open_gather(c, of);
  if (!of->gather.room) {
    part->kept = adji_alloc(memory, of->largest + 1, c->point, "points of a region");
    if (!part->kept) return ADJ_E_MEMORY;
  }
  part->own = adji_alloc(memory, of->largest + 1, sizeof *part->own, "ids of a region");
  return part->own ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_knn_part_set_box(const adji_knn_chunks *c, adji_knn_part *part, uint32_t region) {
  const adji_regions *r = &part->from->regions;
  uint32_t dim = r->set->dim;
  double margin = part->from == &c->right && c->margins[region] > 0 ? c->margins[region] : 0;
  for (uint32_t j = 0; j < dim; j++) {
    part->box[j] = fmax(r->low[(uint64_t)region * dim + j] - margin, r->set->low[j]);
    part->box[dim + j] = fmin(r->high[(uint64_t)region * dim + j] + margin, r->set->high[j]);
  }
  part->set.low = part->box;
  part->set.high = part->box + dim;
}

adj_status adji_knn_part_fill(adji_knn_chunks *c, adji_knn_pieces *from, uint64_t number, adji_knn_part *part) {
  const adji_knn_piece *piece = &from->each[number];
  if (part->from == from && part->piece == number) return ADJ_OK;
  part->from = NULL;
  if (c->on_device) return adji_knn_part_pick(c, from, number, part);
  adji_pick_clear(&part->pick);
  if (!from->gather.regions) open_gather(c, from);
  adj_status status = adji_gather_has(&from->gather, piece->region) ? ADJ_OK : adji_knn_fetch_waiting(c);
  if (!status) status = adji_pick_open(&from->regions, piece->region, piece->first, piece->end, &part->pick);
  const char *gathered = NULL;
  if (!status) status = adji_gather_region(&from->gather, piece->region, &gathered);
  uint64_t start = adji_now_ns();
  if (!status) status = adji_pick_list(&part->pick, part->ids, part->own);
  adji_trace(c->join.ctx, "list", 0, start, piece->end - piece->first);
  if (status) return status;
  if (gathered)
    part->points = part->pick.points = gathered + piece->first * c->point;
  else
    part->points = part->pick.keep = part->kept;
  part->set = adji_pick_set(&part->pick);
  part->rows = part->set.count;
  part->has_ids = true;
  part->from = from;
  part->piece = number;
  adji_knn_part_set_box(c, part, piece->region);
  return ADJ_OK;
}
