/* SPDX-License-Identifier: MIT
 *
 * Regions: see regions.h. A slice of the set is numbered, counted and listed while it is in a core's cache.
 */
#include "index/regions.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "index/regions_number.h"

/* A member is its place in the slice, and this bit if it is the region's own. */
enum { MOST_SLICE = 1 << 15, LEAST_SLICE = 64, MOST_BLOCK = 1 << 20, OWN = 1 << 15 };

/* A point that is near a region other than its own. */
typedef struct visitor {
  uint16_t place, region;
} visitor;

/* What a lane reuses from slice to slice, and the block that its lists go to. */
typedef struct lane_room {
  uint16_t *numbers, *near;
  visitor *visitors;
  uint64_t visitor_room;
  uint16_t *lists;
  uint64_t list_room;
  uint64_t *visits; /* of each region */
} lane_room;

typedef struct making {
  adji_regions *r;
  double reach;
  adji_numbering numbering;
  adji_number_fn number;
  lane_room *lanes;
  _Atomic uint64_t blocks; /* of lists */
  uint64_t block;          /* members of one, unless a slice has more */
} making;

typedef struct slice_work {
  making *m;
  const adji_regions *r;
  lane_room *room;
  uint64_t first, count;
  uint16_t *numbers; /* the region of each point */
  uint32_t *starts;  /* of the slice; counts at first, one place later */
  uint64_t visitor_count;
} slice_work;

/* ---- Numbers ----------------------------------------------------------------------------------------- */

static inline const char *point_at(const adj_dataset *set, uint64_t row) {
  return set->data + row * set->row_stride;
}

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

/* All regions below a node that are within reach of a point, except its own. */
static adj_status visit(slice_work *w, uint64_t place, uint32_t node, uint32_t own) {
  const adji_regions *r = w->r;
  const adji_cut *cut = &r->cuts->nodes[node];
  if (cut->below == node) return cut->region == own ? ADJ_OK : add_visitor(w, place, cut->region);
  double gap = adji_dataset_at(r->set, w->first + place, cut->dim) - cut->at;
  adj_status status = ADJ_OK;
  if (gap < 0 || gap <= w->m->reach) status = visit(w, place, cut->below, own);
  if (!status && (gap >= 0 || -gap <= w->m->reach)) status = visit(w, place, cut->below + 1, own);
  return status;
}

/* The region of each point. The few points near a cut visit other regions. The gap is rounded to the type, and so is
 * the reach, upwards: rounding is monotone. */
static adj_status number_slice(slice_work *w) {
  const adj_dataset *set = w->r->set;
  double reach = w->m->reach;
  adji_number_job job = {.numbering = &w->m->numbering, .points = point_at(set, w->first), .count = w->count};
  job.row_stride = set->row_stride;
  job.column_stride = set->column_stride;
  job.reach = reach < 0              ? -1
              : set->type == ADJ_F64 ? nextafter(reach, INFINITY)
                                     : (double)nextafterf((float)reach, INFINITY);
  job.numbers = w->numbers;
  job.near = w->room->near;
  uint64_t near = w->m->number(&job);
  adj_status status = ADJ_OK;
  for (uint64_t i = 0; i < w->count; i++)
    w->starts[w->numbers[i] + 1]++;
  for (uint64_t i = 0; i < near && !status; i++)
    status = visit(w, job.near[i], 0, w->numbers[job.near[i]]);
  return status;
}

/* ---- Lists ------------------------------------------------------------------------------------------- */

/* Memory for so many members, from the lane's block. */
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

/* Lists the members of a slice from their counts: starts become ends, and are moved back. */
static adj_status list_members(slice_work *w, uint64_t slice) {
  const adji_regions *r = w->r;
  uint32_t count = r->cuts->count, *starts = w->starts;
  for (uint32_t i = 0; i < count; i++)
    starts[i + 1] += starts[i];
  uint16_t *to = get_list(w, starts[count]);
  if (!to) return ADJ_E_MEMORY;
  r->members[slice] = to;
  const visitor *next = w->room->visitors, *end = next + w->visitor_count;
  for (uint64_t i = 0; i < w->count; i++) {
    to[starts[w->numbers[i]]++] = (uint16_t)(i | OWN);
    for (; next < end && next->place == i; next++)
      to[starts[next->region]++] = (uint16_t)i;
  }
  memmove(starts + 1, starts, count * sizeof *starts);
  starts[0] = 0;
  return ADJ_OK;
}

static adj_status make_slice(void *user, uint64_t slice, uint32_t lane) {
  making *m = user;
  const adji_regions *r = m->r;
  uint64_t first = slice * r->slice, remaining = r->set->count - first, count = r->cuts->count;
  slice_work w = {.m = m, .r = r, .room = &m->lanes[lane], .first = first};
  w.count = remaining < r->slice ? remaining : r->slice;
  w.starts = r->starts + slice * (count + 1);
  w.numbers = w.room->numbers;
  memset(w.starts, 0, (count + 1) * sizeof *w.starts);
  adj_status status = number_slice(&w);
  if (!status) status = list_members(&w, slice);
  for (uint64_t i = 0; i < w.visitor_count && !status; i++)
    w.room->visits[w.room->visitors[i].region]++;
  return status;
}

/* ---- Making them ------------------------------------------------------------------------------------- */

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

/* The box of each region: within the cuts around it, and the bounds of the set. low and high are those of the node. */
static void find_boxes(adji_regions *r, uint32_t node, double *low, double *high) {
  const adji_cut *cut = &r->cuts->nodes[node];
  uint32_t dim = r->set->dim;
  if (cut->below == node) {
    memcpy(r->low + (uint64_t)cut->region * dim, low, dim * sizeof *low);
    memcpy(r->high + (uint64_t)cut->region * dim, high, dim * sizeof *high);
    return;
  }
  double *low_at = &low[cut->dim], *high_at = &high[cut->dim], was_low = *low_at, was_high = *high_at;
  if (cut->at < was_high) *high_at = cut->at;
  find_boxes(r, cut->below, low, high);
  *high_at = was_high;
  if (cut->at > was_low) *low_at = cut->at;
  find_boxes(r, cut->below + 1, low, high);
  *low_at = was_low;
}

static adj_status get_memory(adji_regions *r) {
  adji_memory *memory = &r->ctx->memory;
  uint32_t count = r->cuts->count;
  uint64_t values = (uint64_t)count * r->set->dim;
  r->members = adji_alloc_zero(memory, r->slices + 1, sizeof *r->members, "members of regions");
  r->starts = adji_alloc(memory, adji_mul(r->slices + 1, count + 1), sizeof *r->starts, "members of regions");
  r->blocks = adji_alloc_zero(memory, r->slices + 1, sizeof *r->blocks, "members of regions");
  r->own = adji_alloc_zero(memory, count, sizeof *r->own, "regions");
  r->all = adji_alloc_zero(memory, count, sizeof *r->all, "regions");
  r->low = adji_alloc(memory, values, sizeof *r->low, "regions");
  r->high = adji_alloc(memory, values, sizeof *r->high, "regions");
  return r->members && r->blocks && r->starts && r->own && r->all && r->low && r->high ? ADJ_OK : ADJ_E_MEMORY;
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
    if (!m->lanes[i].numbers || !m->lanes[i].near || !m->lanes[i].visits) return ADJ_E_MEMORY;
  }
  m->block = m->r->set->count / (8 * ((uint64_t)threads + 1)) + 1;
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
  }
  adji_free(memory, m->lanes);
  adji_numbering_clear(m->r->ctx, &m->numbering);
}

static adj_status make_all(adji_regions *r, double reach) {
  making m = {.r = r, .reach = reach};
  uint32_t dim = r->set->dim;
  double *box = adji_alloc(&r->ctx->memory, 2 * (uint64_t)dim, sizeof *box, "regions");
  adj_status status = box ? adji_numbering_make(r->ctx, r->cuts, r->set->type, &m.numbering) : ADJ_E_MEMORY;
  m.number = adji_number_for(r->ctx->isa, r->set);
  if (!status) status = get_lanes(&m);
  if (!status) status = adji_loop(r->ctx, r->slices, make_slice, &m);
  if (!status) {
    total_up(r, m.lanes);
    memcpy(box, r->set->low, dim * sizeof *box);
    memcpy(box + dim, r->set->high, dim * sizeof *box);
    find_boxes(r, 0, box, box + dim);
  }
  free_lanes(&m);
  adji_free(&r->ctx->memory, box);
  return status;
}

adj_status adji_regions_make(adj_ctx *ctx, const adj_dataset *set, const adji_cuts *cuts, double reach,
                             adji_regions *out) {
  *out = (adji_regions){.ctx = ctx, .set = set, .cuts = cuts};
  out->slice = set->count / (16 * (uint64_t)ctx->threads) + 1; /* small sets are shared too */
  if (out->slice < LEAST_SLICE) out->slice = LEAST_SLICE;
  if (out->slice > MOST_SLICE) out->slice = MOST_SLICE;
  out->slices = (set->count + out->slice - 1) / out->slice;
  adj_status status = get_memory(out);
  if (!status) status = make_all(out, reach);
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

/* ---- Gathering --------------------------------------------------------------------------------------- */

/* Memory is prefetched so many members ahead. */
enum { AHEAD = 24 };

/* A part of a region's members: those of one slice. */
typedef struct slice_part {
  const uint16_t *members;
  uint64_t row, count, at; /* the slice's first row; members; where they go */
} slice_part;

/* Copies packed points of so many bytes, which is known when it is compiled. */
static inline __attribute__((always_inline)) void copy_points(const adj_dataset *set, const slice_part *p, char *to,
                                                              uint64_t bytes) {
  const char *from = point_at(set, p->row);
  uint64_t stride = set->row_stride;
  to += p->at * bytes;
  for (uint64_t i = 0; i < p->count; i++) {
    uint64_t ahead = i + AHEAD < p->count ? i + AHEAD : i;
    __builtin_prefetch(from + (p->members[ahead] & (OWN - 1)) * stride);
    memcpy(to + i * bytes, from + (p->members[i] & (OWN - 1)) * stride, bytes);
  }
}

static void copy_any(const adj_dataset *set, const slice_part *p, char *to) {
  size_t size = adji_type_size(set->type), bytes = set->dim * size;
  to += p->at * bytes;
  for (uint64_t i = 0; i < p->count; i++)
    for (uint32_t j = 0; j < set->dim; j++)
      memcpy(to + i * bytes + j * size, point_at(set, p->row + (p->members[i] & (OWN - 1))) + j * set->column_stride,
             size);
}

static void copy_slice(const adj_dataset *set, const slice_part *p, char *to) {
  size_t size = adji_type_size(set->type);
  uint64_t bytes = set->column_stride == size ? set->dim * size : 0;
  switch (bytes) {
    case 8:
      copy_points(set, p, to, 8);
      return;
    case 12:
      copy_points(set, p, to, 12);
      return;
    case 16:
      copy_points(set, p, to, 16);
      return;
    case 24:
      copy_points(set, p, to, 24);
      return;
    default:
      copy_any(set, p, to);
  }
}

/* The members of the pick in a slice, from number `first` of it on, and no more than `most`. */
static slice_part part_of(const adji_pick *p, uint64_t slice, uint64_t first, uint64_t most) {
  const adji_regions *r = p->regions;
  const uint32_t *starts = r->starts + slice * (r->cuts->count + 1) + p->region;
  uint64_t before = p->before[slice], begin = p->first + first > before ? p->first + first - before : 0;
  uint64_t count = starts[1] - starts[0] - begin, end = p->end - before;
  if (begin + count > end) count = end - begin;
  return (slice_part){r->members[slice] + starts[0] + begin, slice * r->slice, count < most ? count : most, 0};
}

adj_status adji_pick_open(const adji_regions *r, uint32_t region, uint64_t first, uint64_t end, adji_pick *out) {
  uint64_t before = 0;
  *out = (adji_pick){.regions = r, .region = region, .first = first, .end = end};
  out->before = adji_alloc(&r->ctx->memory, r->slices + 1, sizeof *out->before, "members of regions");
  if (!out->before) return ADJ_E_MEMORY;
  for (uint64_t slice = 0; slice < r->slices; slice++) {
    const uint32_t *starts = r->starts + slice * (r->cuts->count + 1) + region;
    out->before[slice] = before;
    before += starts[1] - starts[0];
  }
  out->before[r->slices] = before;
  return ADJ_OK;
}

void adji_pick_clear(adji_pick *pick) {
  if (pick->regions) adji_free(&pick->regions->ctx->memory, pick->before);
  *pick = (adji_pick){0};
}

/* The slice that has number `first` of the pick: the last one that begins at or before it and is not empty. */
static uint64_t slice_of(const adji_pick *p, uint64_t first) {
  uint64_t low = 0, high = p->regions->slices, number = p->first + first;
  while (low + 1 < high) {
    uint64_t middle = low + (high - low) / 2;
    if (p->before[middle] <= number)
      low = middle;
    else
      high = middle;
  }
  return low;
}

void adji_pick_copy(const void *pick, uint64_t first, uint64_t count, void *to) {
  const adji_pick *p = pick;
  for (uint64_t slice = slice_of(p, first), done = 0; done < count; slice++) {
    slice_part some = part_of(p, slice, first + done, count - done);
    some.at = done;
    if (some.count) copy_slice(p->regions->set, &some, to);
    done += some.count;
  }
  uint64_t point = p->regions->set->dim * adji_type_size(p->regions->set->type);
  if (p->keep) memcpy(p->keep + first * point, to, count * point);
}

adj_dataset adji_pick_set(const adji_pick *p) {
  const adj_dataset *set = p->regions->set;
  adj_dataset view = {.ctx = set->ctx, .type = set->type, .dim = set->dim, .count = p->end - p->first};
  view.column_stride = adji_type_size(set->type);
  view.row_stride = set->dim * view.column_stride;
  view.low = set->low;
  view.high = set->high;
  view.copy_rows = adji_pick_copy;
  view.copy_from = p;
  return view;
}

typedef struct listing {
  const adji_pick *pick;
  uint32_t *ids;
  uint8_t *own;
} listing;

static adj_status list_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const listing *l = user;
  const adji_pick *p = l->pick;
  uint64_t before = p->before[slice], at = before > p->first ? before - p->first : 0;
  if (p->before[slice + 1] <= p->first || before >= p->end) return ADJ_OK;
  slice_part some = part_of(p, slice, at, UINT64_MAX);
  for (uint64_t i = 0; i < some.count && l->ids; i++)
    l->ids[at + i] = (uint32_t)(some.row + (some.members[i] & (OWN - 1)));
  for (uint64_t i = 0; i < some.count && l->own; i++)
    l->own[at + i] = (uint8_t)(some.members[i] >> 15);
  return ADJ_OK;
}

adj_status adji_pick_list(const adji_pick *pick, uint32_t *ids, uint8_t *own) {
  listing l = {pick, ids, own};
  return adji_loop(pick->regions->ctx, pick->regions->slices, list_slice, &l);
}

/* ---- Values back to their rows ------------------------------------------------------------------------- */

typedef struct spreading {
  const adji_regions *r;
  const uint32_t *values;
  uint32_t *to;
  uint64_t groups;
  uint64_t *places; /* of each group of slices: where the values of each region begin */
} spreading;

static adj_status spread_group(void *user, uint64_t group, uint32_t lane) {
  (void)lane;
  const spreading *s = user;
  const adji_regions *r = s->r;
  uint32_t count = r->cuts->count;
  uint64_t begin, end, *places = s->places + group * count;
  adji_slice(r->slices, s->groups, group, &begin, &end);
  for (uint64_t slice = begin; slice < end; slice++) {
    const uint32_t *starts = r->starts + slice * (count + 1);
    for (uint32_t region = 0; region < count; region++)
      for (uint32_t i = starts[region]; i < starts[region + 1]; i++) {
        uint32_t member = r->members[slice][i], value = s->values[places[region]++];
        if (member & OWN) s->to[slice * r->slice + (member & (OWN - 1))] = value;
      }
  }
  return ADJ_OK;
}

adj_status adji_regions_spread(const adji_regions *r, const uint32_t *values, uint32_t *to) {
  uint32_t count = r->cuts->count;
  spreading s = {r, values, to, 8 * (uint64_t)r->ctx->threads, NULL};
  s.places = adji_alloc_zero(&r->ctx->memory, (s.groups + 1) * count, sizeof *s.places, "members of regions");
  if (!s.places) return ADJ_E_MEMORY;
  for (uint64_t group = 0, begin, end; group < s.groups; group++) {
    adji_slice(r->slices, s.groups, group, &begin, &end);
    for (uint64_t slice = begin; slice < end; slice++)
      for (uint32_t i = 0; i < count; i++)
        s.places[(group + 1) * count + i] +=
            r->starts[slice * (count + 1) + i + 1] - r->starts[slice * (count + 1) + i];
  }
  uint64_t first = 0;
  for (uint32_t i = 0; i < count; i++) {
    s.places[i] = first;
    first += r->all[i];
    for (uint64_t group = 0; group < s.groups; group++)
      s.places[(group + 1) * count + i] += s.places[group * count + i];
  }
  adj_status status = adji_loop(r->ctx, s.groups, spread_group, &s);
  adji_free(&r->ctx->memory, s.places);
  return status;
}
