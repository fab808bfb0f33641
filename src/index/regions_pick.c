/* SPDX-License-Identifier: MIT
 *
 * Regions: gathering the members of a region, and values back to the rows. See regions.h.
 */
#include <stdatomic.h>
#include <string.h>

#include "index/regions_private.h"

/* ---- Gathering --------------------------------------------------------------------------------------- */

/* Points are prefetched this many members ahead. */
enum { AHEAD = 24 };

/* The part of a region's members in one slice. */
typedef struct slice_part {
  const uint16_t *members;
  uint64_t row, count, at; /* the slice's first row; number of members; their place */
} slice_part;

/* Copies packed points of `bytes` bytes, which is a constant where this is inlined. */
static inline __attribute__((always_inline)) void copy_points(const adj_dataset *set, const slice_part *p, char *to,
                                                              uint64_t bytes) {
  const char *from = adji_region_point(set, p->row);
  uint64_t stride = set->row_stride;
  to += p->at * bytes;
  for (uint64_t i = 0; i < p->count; i++) {
    uint64_t ahead = i + AHEAD < p->count ? i + AHEAD : i;
    __builtin_prefetch(from + (p->members[ahead] & (ADJI_OWN - 1)) * stride);
    memcpy(to + i * bytes, from + (p->members[i] & (ADJI_OWN - 1)) * stride, bytes);
  }
}

static void copy_any(const adj_dataset *set, const slice_part *p, char *to) {
  size_t size = adji_type_size(set->type), bytes = set->dim * size;
  to += p->at * bytes;
  for (uint64_t i = 0; i < p->count; i++)
    for (uint32_t j = 0; j < set->dim; j++)
      memcpy(to + i * bytes + j * size,
             adji_region_point(set, p->row + (p->members[i] & (ADJI_OWN - 1))) + j * set->column_stride, size);
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

/* The members of the pick in a slice, from number `first` of the pick on, at most `most`. */
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

/* The slice that holds number `first` of the pick: the last one that begins at or before it and is not empty. */
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
  uint64_t point = p->regions->set->dim * adji_type_size(p->regions->set->type);
  if (p->points) {
    memcpy(to, p->points + first * point, count * point);
    return;
  }
  for (uint64_t slice = slice_of(p, first), done = 0; done < count; slice++) {
    slice_part some = part_of(p, slice, first + done, count - done);
    some.at = done;
    if (some.count) copy_slice(p->regions->set, &some, to);
    done += some.count;
  }
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
    l->ids[at + i] = (uint32_t)(some.row + (some.members[i] & (ADJI_OWN - 1)));
  for (uint64_t i = 0; i < some.count && l->own; i++)
    l->own[at + i] = (uint8_t)(some.members[i] >> 15);
  return ADJ_OK;
}

adj_status adji_pick_list(const adji_pick *pick, uint32_t *ids, uint8_t *own) {
  listing l = {pick, ids, own};
  return adji_loop(pick->regions->ctx, pick->regions->slices, list_slice, &l);
}

/* ---- Several regions at once ---------------------------------------------------------------------------- */

/* SOME_BYTES: bytes that are copied to a core's cache, and from there past the caches to the region. MOST_FETCHED: the
 * longest row of sets whose slices fit a core's cache. */
enum { SOME_BYTES = 4096, MOST_FETCHED = 32 };

void adji_gather_open(const adji_regions *r, uint64_t most_bytes, adji_stream_fn stream, adji_gather *out) {
  *out = (adji_gather){.regions = r, .stream = stream};
  uint64_t point = r->set->dim * adji_type_size(r->set->type), all = 0, largest = 0;
  for (uint32_t i = 0; i < r->cuts->count; i++) {
    all += r->all[i] * point;
    if (r->all[i] * point > largest) largest = r->all[i] * point;
  }
  out->room = all < most_bytes ? all : most_bytes;
  if (out->room < largest || point > SOME_BYTES || !all) out->room = 0;
}

void adji_gather_clear(adji_gather *g) {
  if (!g->regions) return;
  adji_memory *memory = &g->regions->ctx->memory;
  adji_free(memory, g->points);
  adji_free(memory, g->places);
  *g = (adji_gather){0};
}

/* Copies packed points of 12 bytes, such as three dimensions of f32, as 16 bytes each: the next point overwrites the
 * excess. Nothing follows the last point of the set, so it is copied exactly. `to` has room for one more point. */
static void copy_twelves(const adj_dataset *set, const slice_part *p, char *to) {
  const char *from = adji_region_point(set, p->row);
  uint64_t stride = set->row_stride, count = p->count;
  bool last = count && p->row + (p->members[count - 1] & (ADJI_OWN - 1)) + 1 == set->count;
  for (uint64_t i = 0; i < count - last; i++)
    memcpy(to + i * 12, from + (p->members[i] & (ADJI_OWN - 1)) * stride, 16);
  if (last) memcpy(to + (count - 1) * 12, from + (p->members[count - 1] & (ADJI_OWN - 1)) * stride, 12);
}

/* Prefetches all points of a slice, in order. */
static void fetch_slice(const adj_dataset *set, uint64_t row, uint64_t count) {
  const char *from = adji_region_point(set, row);
  if (set->row_stride > MOST_FETCHED) return;
  for (uint64_t at = 0; at < count * set->row_stride; at += 64)
    __builtin_prefetch(from + at, 0, 2);
}

static void gather_part(const adji_gather *g, slice_part part, char *to) {
  const adj_dataset *set = g->regions->set;
  bool twelves = set->dim == 3 && set->type == ADJ_F32 && set->column_stride == 4;
  uint64_t point = set->dim * adji_type_size(set->type), all = part.count, each = SOME_BYTES / point;
  _Alignas(64) char some[SOME_BYTES + 64];
  for (uint64_t done = 0; done < all; done += part.count, part.members += part.count, to += part.count * point) {
    part.count = all - done < each ? all - done : each;
    (twelves ? copy_twelves : copy_slice)(set, &part, some);
    g->stream(to, some, part.count * point);
  }
}

/* Gathers a slice for all regions. It is read once, and stays in the core's cache. */
static adj_status gather_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const adji_gather *g = user;
  const adji_regions *r = g->regions;
  uint64_t many = g->end - g->first, point = r->set->dim * adji_type_size(r->set->type);
  const uint32_t *starts = r->starts + slice * (r->cuts->count + 1) + g->first;
  uint64_t row = slice * r->slice, rows = r->set->count - row;
  if (many > 1) fetch_slice(r->set, row, rows < r->slice ? rows : r->slice);
  for (uint64_t i = 0; i < many; i++) {
    slice_part part = {r->members[slice] + starts[i], slice * r->slice, starts[i + 1] - starts[i], 0};
    gather_part(g, part, g->points + g->places[slice * many + i] * point);
  }
  return ADJ_OK;
}

/* Chooses as many regions as there is room for, from the first one on, and the places of the points of each slice. */
static adj_status plan_gather(adji_gather *g, uint32_t first) {
  const adji_regions *r = g->regions;
  adji_memory *memory = &r->ctx->memory;
  uint64_t point = r->set->dim * adji_type_size(r->set->type), used = 0;
  g->first = g->end = first;
  while (g->end < r->cuts->count && (used + r->all[g->end]) * point <= g->room)
    used += r->all[g->end++];
  uint64_t many = g->end - g->first, place = 0;
  adji_free(memory, g->places);
  g->places = adji_alloc(memory, adji_mul(r->slices + 1, many), sizeof *g->places, "regions");
  if (!g->places) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < many; i++)
    for (uint64_t slice = 0; slice <= r->slices; slice++) {
      const uint32_t *starts = r->starts + slice * (r->cuts->count + 1) + first + i;
      g->places[slice * many + i] = place;
      if (slice < r->slices) place += starts[1] - starts[0];
    }
  return ADJ_OK;
}

adj_status adji_gather_region(adji_gather *g, uint32_t region, const char **points) {
  const adji_regions *r = g->regions;
  adj_status status = ADJ_OK;
  uint64_t begin = adji_now_ns();
  *points = NULL;
  if (!g->room) return ADJ_OK;
  if (!g->points) g->points = adji_alloc(&r->ctx->memory, g->room, 1, "points of regions");
  if (!g->points) return ADJ_E_MEMORY;
  if (region < g->first || region >= g->end) {
    status = plan_gather(g, region);
    if (!status) status = adji_loop(r->ctx, r->slices, gather_slice, g);
    if (status) g->first = g->end = 0;
    adji_trace(r->ctx, "gather", 0, begin, g->end - g->first);
  }
  if (status) return status;
  *points = g->points + g->places[region - g->first] * r->set->dim * adji_type_size(r->set->type);
  return ADJ_OK;
}

/* ---- Values back to their rows ------------------------------------------------------------------------- */

typedef struct spreading {
  const adji_regions *r;
  const uint32_t *values;
  uint32_t *to;
  uint64_t groups;
  _Atomic uint64_t total;
  uint64_t *places; /* per group of slices: the place of the next value of each region */
  uint64_t stride;  /* entries per group, so that groups share no cache line */
} spreading;

static adj_status spread_group(void *user, uint64_t group, uint32_t lane) {
  (void)lane;
  spreading *s = user;
  const adji_regions *r = s->r;
  uint32_t count = r->cuts->count;
  uint64_t begin, end, total = 0, *places = s->places + group * s->stride;
  adji_slice(r->slices, s->groups, group, &begin, &end);
  for (uint64_t slice = begin; slice < end; slice++) {
    const uint32_t *starts = r->starts + slice * (count + 1);
    for (uint32_t region = 0; region < count; region++)
      for (uint32_t i = starts[region]; i < starts[region + 1]; i++) {
        uint32_t member = r->members[slice][i], value = s->values[places[region]++];
        if (!(member & ADJI_OWN)) continue;
        s->to[slice * r->slice + (member & (ADJI_OWN - 1))] = value;
        total += value;
      }
  }
  atomic_fetch_add(&s->total, total);
  return ADJ_OK;
}

adj_status adji_regions_spread(const adji_regions *r, const uint32_t *values, uint32_t *to, uint64_t *total) {
  uint32_t count = r->cuts->count;
  spreading s = {r, values, to, 8 * (uint64_t)r->ctx->threads, 0, NULL, (count + UINT64_C(15)) / 8 * 8};
  uint64_t start = adji_now_ns();
  s.places = adji_alloc_zero(&r->ctx->memory, (s.groups + 1) * s.stride, sizeof *s.places, "members of regions");
  if (!s.places) return ADJ_E_MEMORY;
  for (uint64_t group = 0, begin, end; group < s.groups; group++) {
    adji_slice(r->slices, s.groups, group, &begin, &end);
    for (uint64_t slice = begin; slice < end; slice++)
      for (uint32_t i = 0; i < count; i++)
        s.places[(group + 1) * s.stride + i] +=
            r->starts[slice * (count + 1) + i + 1] - r->starts[slice * (count + 1) + i];
  }
  uint64_t first = 0;
  for (uint32_t i = 0; i < count; i++) {
    s.places[i] = first;
    first += r->all[i];
    for (uint64_t group = 0; group < s.groups; group++)
      s.places[(group + 1) * s.stride + i] += s.places[group * s.stride + i];
  }
  adj_status status = adji_loop(r->ctx, s.groups, spread_group, &s);
  adji_free(&r->ctx->memory, s.places);
  *total = atomic_load(&s.total);
  adji_trace(r->ctx, "spread", 0, start, r->set->count);
  return status;
}
