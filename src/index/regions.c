/* SPDX-License-Identifier: MIT
 *
 * Regions: see regions.h. Each slice of the set is numbered, counted and listed while it is in a core's cache.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "index/regions_number.h"
#include "index/regions_private.h"

enum { LEAST_SLICE = 64, MOST_BLOCK = 1 << 20 };

/* A point that is near another region than its own. */
typedef struct visitor {
  uint16_t place, region;
} visitor;

/* The buffers that a lane reuses from slice to slice, and the block for its lists. */
typedef struct lane_room {
  uint16_t *numbers, *near;
  visitor *visitors;
  uint64_t visitor_room;
  uint16_t *lists;
  uint64_t list_room;
  uint64_t *visits; /* visitors per region */
  uint32_t *starts; /* of the current slice; kept per lane, since neighbouring slices share cache lines in the result */
} lane_room;

typedef struct making {
  adji_regions *r;
  adji_numbering numbering;
  adji_number_fn number;
  adji_reach_boxes boxes; /* for few regions; with more, the tree of cuts is walked */
  adji_reached_fn reached;
  lane_room *lanes;
  _Atomic uint64_t blocks; /* number of blocks of lists */
  uint64_t block;          /* members of a block, unless a slice has more */
} making;

typedef struct slice_work {
  making *m;
  const adji_regions *r;
  lane_room *room;
  uint64_t first, count;
  uint16_t *numbers; /* the region of each point */
  uint32_t *starts;  /* the lane's; at first counts, shifted by one place */
  uint64_t visitor_count;
} slice_work;

/* ---- Numbers ----------------------------------------------------------------------------------------- */

static adj_status add_visitor(slice_work *w, uint64_t place, uint32_t region) {
  adji_memory *memory = &w->r->ctx->memory;
  lane_room *l = w->room;
  if (w->visitor_count == l->visitor_room) {
    uint64_t room = 2 * l->visitor_room + 256, keep = w->visitor_count * sizeof *l->visitors;
    if (!adji_grow(memory, (void **)&l->visitors, room, sizeof *l->visitors, keep, "members of regions"))
      return ADJ_E_MEMORY;
    l->visitor_room = room;
  }
  l->visitors[w->visitor_count++] = (visitor){(uint16_t)place, (uint16_t)region};
  w->starts[region + 1]++;
  return ADJ_OK;
}

/* A point that visits the regions around it. */
typedef struct visiting {
  slice_work *w;
  uint64_t place;
  uint32_t own;
} visiting;

/* Visits all regions below a node that the point is within reach of, except its own. gap: the widest distance to a cut
 * between the point and these regions. */
static adj_status visit(const visiting *v, uint32_t node, double gap) {
  const adji_regions *r = v->w->r;
  const adji_cut *cut = &r->cuts->nodes[node];
  if (gap > v->w->m->numbering.reaches[node]) return ADJ_OK;
  if (cut->below == node) return cut->region == v->own ? ADJ_OK : add_visitor(v->w, v->place, cut->region);
  double past_cut = adji_dataset_at(r->set, v->w->first + v->place, cut->dim) - cut->at;
  adj_status status = visit(v, cut->below, past_cut > gap ? past_cut : gap);
  return status ? status : visit(v, cut->below + 1, -past_cut > gap ? -past_cut : gap);
}

/* The same for few regions. */
static adj_status visit_few(const visiting *v) {
  const making *m = v->w->m;
  double point[ADJI_REACHED_DIMS];
  for (uint32_t j = 0; j < v->w->r->set->dim; j++)
    point[j] = adji_dataset_at(v->w->r->set, v->w->first + v->place, j);
  adj_status status = ADJ_OK;
  uint64_t found = m->reached(&m->boxes, point) & ~(UINT64_C(1) << v->own);
  for (; found && !status; found &= found - 1)
    status = add_visitor(v->w, v->place, (uint32_t)__builtin_ctzll(found));
  return status;
}

/* Finds the region of each point. The few points near a cut visit other regions. */
static adj_status number_slice(slice_work *w) {
  const adj_dataset *set = w->r->set;
  adji_number_job job = {.numbering = &w->m->numbering, .points = adji_region_point(set, w->first), .count = w->count};
  job.row_stride = set->row_stride;
  job.column_stride = set->column_stride;
  job.numbers = w->numbers;
  job.near = w->room->near;
  uint64_t near = w->m->number(&job);
  adj_status status = ADJ_OK;
  for (uint64_t i = 0; i < w->count; i++)
    w->starts[w->numbers[i] + 1]++;
  for (uint64_t i = 0; i < near && !status; i++) {
    visiting v = {w, job.near[i], w->numbers[job.near[i]]};
    status = w->m->boxes.low ? visit_few(&v) : visit(&v, 0, 0);
  }
  return status;
}

/* ---- Lists ------------------------------------------------------------------------------------------- */

/* Gets memory for `members` members from the lane's block. */
static uint16_t *get_list(slice_work *w, uint64_t members) {
  lane_room *l = w->room;
  if (members > l->list_room) {
    uint64_t room = members > w->m->block ? members : w->m->block;
    l->lists = adji_alloc(&w->r->ctx->memory, room, sizeof *l->lists, "members of regions");
    l->list_room = l->lists ? room : 0;
    if (!l->lists) return NULL;
    w->r->blocks[atomic_fetch_add(&w->m->blocks, 1)] = l->lists;
  }
  uint16_t *list = l->lists;
  l->lists += members;
  l->list_room -= members;
  return list;
}

/* Lists the members of a slice, whose counts are known. Starts become ends. */
static adj_status list_members(slice_work *w, uint64_t slice) {
  const adji_regions *r = w->r;
  uint32_t count = r->cuts->count, *starts = w->starts;
  for (uint32_t i = 0; i < count; i++)
    starts[i + 1] += starts[i];
  uint16_t *to = get_list(w, starts[count]);
  if (!to) return ADJ_E_MEMORY;
  r->members[slice] = to;
  const uint16_t *numbers = w->numbers;
  for (uint64_t i = 0, next = 0; i < w->count || next < w->visitor_count;
       next++) { /* the points up to the next visitor, then that visitor */
    const visitor *visits = next < w->visitor_count ? &w->room->visitors[next] : NULL;
    for (uint64_t end = visits ? visits->place + UINT64_C(1) : w->count; i < end; i++)
      to[starts[numbers[i]]++] = (uint16_t)(i | ADJI_OWN);
    if (visits) to[starts[visits->region]++] = visits->place;
  }
  uint32_t *slice_starts = r->starts + slice * (count + UINT64_C(1));
  slice_starts[0] = 0;
  memcpy(slice_starts + 1, starts, count * sizeof *starts);
  return ADJ_OK;
}

static adj_status make_slice(void *user, uint64_t slice, uint32_t lane) {
  making *m = user;
  const adji_regions *r = m->r;
  uint64_t first = slice * r->slice, remaining = r->set->count - first, count = r->cuts->count;
  slice_work w = {.m = m, .r = r, .room = &m->lanes[lane], .first = first};
  w.count = remaining < r->slice ? remaining : r->slice;
  w.starts = w.room->starts;
  w.numbers = w.room->numbers;
  memset(w.starts, 0, (count + 1) * sizeof *w.starts);
  adj_status status = number_slice(&w);
  if (!status) status = list_members(&w, slice);
  for (uint64_t i = 0; i < w.visitor_count && !status; i++)
    w.room->visits[w.room->visitors[i].region]++;
  return status;
}

/* ---- Making the regions ------------------------------------------------------------------------------ */

static void total_up(adji_regions *r, const lane_room *lanes) {
  uint32_t count = r->cuts->count;
  for (uint64_t slice = 0; slice < r->slices; slice++) {
    const uint32_t *starts = r->starts + slice * (count + 1);
    for (uint32_t region = 0; region < count; region++)
      r->all[region] += starts[region + 1] - starts[region];
  }
  for (uint32_t region = 0; region < count; region++) {
    r->own[region] = r->all[region];
    for (uint32_t lane = 0; lane < r->ctx->threads; lane++)
      r->own[region] -= lanes[lane].visits[region];
  }
}

/* The box of each region: its cell, within the bounds of the set. */
static void find_boxes(adji_regions *r) {
  adji_cuts_cells(r->cuts, r->low, r->high);
  for (uint64_t i = 0; i < (uint64_t)r->cuts->count * r->set->dim; i++) {
    r->low[i] = fmax(r->low[i], r->set->low[i % r->set->dim]);
    r->high[i] = fmin(r->high[i], r->set->high[i % r->set->dim]);
  }
}

static adj_status get_memory(adji_regions *r) {
  adji_memory *memory = &r->ctx->memory;
  uint32_t count = r->cuts->count;
  r->members = adji_alloc_zero(memory, r->slices + 1, sizeof *r->members, "members of regions");
  r->starts = adji_alloc(memory, adji_mul(r->slices + 1, count + 1), sizeof *r->starts, "members of regions");
  r->blocks = adji_alloc_zero(memory, r->slices + 1, sizeof *r->blocks, "members of regions");
  return r->members && r->blocks && r->starts ? ADJ_OK : ADJ_E_MEMORY;
}

static adj_status get_lanes(making *m) {
  adji_memory *memory = &m->r->ctx->memory;
  uint32_t threads = m->r->ctx->threads;
  m->lanes = adji_alloc_zero(memory, threads, sizeof *m->lanes, "members of regions");
  if (!m->lanes) return ADJ_E_MEMORY;
  for (uint32_t i = 0; i < threads; i++) {
    m->lanes[i].numbers = adji_alloc(memory, m->r->slice, sizeof *m->lanes[i].numbers, "members of regions");
    m->lanes[i].near = adji_alloc(memory, m->r->slice, sizeof *m->lanes[i].near, "members of regions");
    m->lanes[i].visits = adji_alloc_zero(memory, m->r->cuts->count, sizeof *m->lanes[i].visits, "regions");
    m->lanes[i].starts = adji_alloc(memory, (uint64_t)m->r->cuts->count + 1, sizeof *m->lanes[i].starts, "regions");
    if (!m->lanes[i].starts) return ADJ_E_MEMORY;
    if (!m->lanes[i].numbers || !m->lanes[i].near || !m->lanes[i].visits) return ADJ_E_MEMORY;
  }
  m->block = m->r->set->count / (2 * ((uint64_t)threads + 1)) + 1; /* large sets get blocks in huge pages */
  if (m->block > MOST_BLOCK) m->block = MOST_BLOCK;
  return ADJ_OK;
}

static void free_lanes(making *m) {
  adji_memory *memory = &m->r->ctx->memory;
  for (uint32_t i = 0; m->lanes && i < m->r->ctx->threads; i++) {
    adji_free(memory, m->lanes[i].numbers);
    adji_free(memory, m->lanes[i].near);
    adji_free(memory, m->lanes[i].visitors);
    adji_free(memory, m->lanes[i].visits);
    adji_free(memory, m->lanes[i].starts);
  }
  adji_free(memory, m->lanes);
  adji_numbering_clear(m->r->ctx, &m->numbering);
  adji_reach_boxes_clear(m->r->ctx, &m->boxes);
}

static adj_status make_all(adji_regions *r, const double *reaches) {
  making m = {.r = r, .number = adji_number_for(r->ctx->isa, r->set), .reached = adji_reached_for(r->ctx->isa)};
  adj_status status = adji_numbering_make(r->ctx, r->cuts, r->set->type, reaches, &m.numbering);
  bool few = reaches && r->cuts->count <= ADJI_REACHED_REGIONS && r->set->dim <= ADJI_REACHED_DIMS;
  if (!status && few) status = adji_reach_boxes_make(r->ctx, r->cuts, reaches, &m.boxes);
  if (!status) status = get_lanes(&m);
  if (!status) status = adji_loop(r->ctx, r->slices, make_slice, &m);
  if (!status) total_up(r, m.lanes);
  free_lanes(&m);
  return status;
}

adj_status adji_regions_open(adj_ctx *ctx, const adj_dataset *set, const adji_cuts *cuts, adji_regions *out) {
  uint64_t values = (uint64_t)cuts->count * set->dim;
  *out = (adji_regions){.ctx = ctx, .set = set, .cuts = cuts};
  out->own = adji_alloc_zero(&ctx->memory, cuts->count, sizeof *out->own, "regions");
  out->all = adji_alloc_zero(&ctx->memory, cuts->count, sizeof *out->all, "regions");
  out->low = adji_alloc(&ctx->memory, values, sizeof *out->low, "regions");
  out->high = adji_alloc(&ctx->memory, values, sizeof *out->high, "regions");
  if (out->own && out->all && out->low && out->high) {
    find_boxes(out);
    return ADJ_OK;
  }
  adji_regions_clear(out);
  return ADJ_E_MEMORY;
}

adj_status adji_regions_make(adj_ctx *ctx, const adj_dataset *set, const adji_cuts *cuts, const double *reaches,
                             adji_regions *out) {
  adj_status status = adji_regions_open(ctx, set, cuts, out);
  if (status) return status;
  out->slice = set->count / (16 * (uint64_t)ctx->threads) + 1; /* small sets too are divided among the threads */
  if (out->slice < LEAST_SLICE) out->slice = LEAST_SLICE;
  if (out->slice > ADJI_MOST_SLICE) out->slice = ADJI_MOST_SLICE;
  out->slices = (set->count + out->slice - 1) / out->slice;
  status = get_memory(out);
  if (!status) status = make_all(out, reaches);
  if (status) adji_regions_clear(out);
  return status;
}

void adji_regions_clear(adji_regions *r) {
  if (!r->ctx) return;
  adji_memory *memory = &r->ctx->memory;
  for (uint64_t i = 0; r->blocks && r->blocks[i]; i++)
    adji_free(memory, r->blocks[i]);
  void *blocks[] = {r->members, r->blocks, r->starts, r->own, r->all, r->low, r->high};
  for (int i = 0; i < 7; i++)
    adji_free(memory, blocks[i]);
  *r = (adji_regions){0};
}
