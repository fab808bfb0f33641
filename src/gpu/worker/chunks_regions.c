/* SPDX-License-Identifier: MIT
 *
 * Joins in chunks: regions of space. The left points of a region are joined with the right points that may be within
 * the radius of it. A self-join of a region is one of all these points, of which only the rows of the region's own
 * points are taken. Members ascend by id, so what depends on ids (ties, order, one way, self) is as in the whole join.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/worker/chunks_private.h"
#include "result/offsets.h"

enum { MOST_DIM = 6 };

/* The most bytes of entries in flight, unless a row is longer. */
static const uint64_t BUFFER = (uint64_t)256 << 20;

/* Bytes that points may be gathered in, of small sets too. */
static const uint64_t LEAST_GATHER = (uint64_t)256 << 20;

/* ---- Making them ------------------------------------------------------------------------------------- */

static bool all_fit(const adji_chunks *c, const adji_regions *r) {
  for (uint32_t i = 0; i < r->cuts->count; i++)
    if (r->all[i] > c->size + c->size / 4) return false;
  return true;
}

static void clear(adj_ctx *ctx, adji_chunk_regions *b) {
  adji_regions_clear(&b->right);
  adji_regions_clear(&b->left_alone);
  adji_cuts_clear(ctx, &b->cuts);
}

void adji_chunk_regions_free(adji_chunks *c) {
  if (c->by_region) clear(c->join.ctx, c->by_region);
  free(c->by_region);
  c->by_region = NULL;
}

/* So many regions. *fit: they have few enough points. */
static adj_status make_regions(adji_chunks *c, uint64_t count, adji_chunk_regions *b, bool *fit) {
  const adji_join *join = &c->join;
  const adj_dataset *larger = join->left->count > join->right->count ? join->left : join->right;
  double reach = adji_reach(join->style.measure, join->left->type, join->limit);
  *b = (adji_chunk_regions){0};
  adj_status status = adji_cuts_make(join->ctx, larger, count, &b->cuts);
  double *reaches = adji_alloc(&join->ctx->memory, (uint64_t)b->cuts.count + 1, sizeof *reaches, "regions");
  if (!status && !reaches) status = ADJ_E_MEMORY;
  for (uint32_t i = 0; i < b->cuts.count && !status; i++)
    reaches[i] = reach;
  if (!status) status = adji_regions_make(join->ctx, join->right, &b->cuts, reaches, &b->right);
  adji_free(&join->ctx->memory, reaches);
  *fit = !status && all_fit(c, &b->right);
  if (!*fit || join->self_join) return status;
  status = adji_regions_make(join->ctx, join->left, &b->cuts, NULL, &b->left_alone);
  *fit = !status && all_fit(c, &b->left_alone);
  return status;
}

bool adji_chunks_may_use_regions(const adji_join *join) {
  return adji_cuts_serve(join->style.measure) && join->left->dim <= MOST_DIM && isfinite(join->limit);
}

/* Regions whose margins do not fit are tried once more, smaller; otherwise margins are too much of a region. */
adj_status adji_chunk_regions_make(adji_chunks *c) {
  const adji_join *join = &c->join;
  uint64_t most = join->left->count > join->right->count ? join->left->count : join->right->count;
  uint64_t begin = adji_now_ns();
  if (!c->try_regions || c->by_region) return ADJ_OK;
  c->try_regions = adji_chunks_may_use_regions(join);
  if (!c->try_regions) return ADJ_OK;
  adji_chunk_regions *b = malloc(sizeof *b);
  if (!b) return adji_fail(ADJ_E_MEMORY, "no memory for regions");
  bool fit = false;
  adj_status status = ADJ_OK;
  for (int tries = 0; tries < 2 && !fit && !status; tries++) {
    status = make_regions(c, most / c->size * (tries ? 2 : 1) + 1 + tries, b, &fit);
    if (status || !fit) clear(join->ctx, b);
  }
  adji_trace(join->ctx, "regions", 0, begin, status || !fit ? 0 : b->cuts.count);
  if (status || !fit) {
    free(b);
    if (!status) c->try_regions = false;
    return status;
  }
  c->by_region = b;
  b->left = join->self_join ? &b->right : &b->left_alone;
  return ADJ_OK;
}

/* ---- A join of a region ------------------------------------------------------------------------------ */

/* A region on its way to the device. */
typedef struct part {
  adji_pick pick;
  adji_gather gather; /* of several regions */
  uint32_t *ids;      /* when rows are filled, and whether they are its own */
  uint8_t *own;
  adj_dataset set;
} part;

typedef struct region_join {
  adji_chunks *c;
  adji_chunk_run run;
  part left, right; /* right: of two sets */
  uint32_t *degrees;
  adji_engine engine; /* while it is open */
} region_join;

static uint64_t largest(const adji_regions *r) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < r->cuts->count; i++)
    if (r->all[i] > most) most = r->all[i];
  return most;
}

static adj_status get_lists(adji_chunks *c, const adji_regions *r, part *p) {
  adji_memory *memory = &c->join.ctx->memory;
  uint64_t count = largest(r);
  p->ids = adji_alloc(memory, count, sizeof *p->ids, "ids of a region");
  p->own = adji_alloc(memory, count, sizeof *p->own, "ids of a region");
  return p->ids && p->own ? ADJ_OK : ADJ_E_MEMORY;
}

/* Points of several regions are gathered at once, in three eighths of what they take, or a quarter of what the
 * limit leaves. */
static void open_gather(adji_chunks *c, const adji_regions *r, part *p) {
  uint64_t bytes = r->set->count * r->set->dim * adji_type_size(r->set->type) / 8 * 3;
  uint64_t available = adji_memory_available(&c->join.ctx->memory) / 4;
  if (bytes < LEAST_GATHER) bytes = LEAST_GATHER;
  adji_gather_open(r, bytes < available ? bytes : available, c->join.style.kernels->stream_row, &p->gather);
}

static void open_gathers(region_join *j) {
  open_gather(j->c, j->c->by_region->left, &j->left);
  if (!j->c->join.self_join) open_gather(j->c, &j->c->by_region->right, &j->right);
}

static void clear_part(adji_chunks *c, part *p) {
  adji_gather_clear(&p->gather);
  adji_pick_clear(&p->pick);
  adji_free(&c->join.ctx->memory, p->ids);
  adji_free(&c->join.ctx->memory, p->own);
}

/* Ends the joins, and adds what they did to the run. */
static void end_joins(region_join *j, adji_tally *tally) {
  clear_part(j->c, &j->left);
  clear_part(j->c, &j->right);
  adji_free(&j->c->join.ctx->memory, j->degrees);
  adji_chunk_run_end(&j->run, tally);
}

static adj_status fill_part(const adji_regions *r, uint32_t region, part *p) {
  adji_pick_clear(&p->pick);
  adj_status status = adji_pick_open(r, region, 0, r->all[region], &p->pick);
  if (!status && p->gather.regions) status = adji_gather_region(&p->gather, region, &p->pick.points);
  if (status) return status;
  p->set = adji_pick_set(&p->pick); /* with the bounds of the whole set, which the grid was chosen for */
  return p->ids ? adji_pick_list(&p->pick, p->ids, p->own) : ADJ_OK;
}

static adj_status open_join(region_join *j, uint32_t region) {
  adji_chunks *c = j->c;
  adj_status status = adji_check_cancel(c->join.ctx);
  if (!status) status = fill_part(c->by_region->left, region, &j->left);
  if (!status && !c->join.self_join) status = fill_part(&c->by_region->right, region, &j->right);
  if (status) return status;
  adji_join join = c->join;
  join.left = &j->left.set;
  join.right = join.self_join ? join.left : &j->right.set;
  adji_worker worker;
  status = c->source.open(c->source.state, &join, &worker);
  if (!status) adji_engine_init(&j->engine, &join, &worker);
  return status;
}

static void close_join(region_join *j) {
  adji_engine_clear(&j->engine);
}

/* ---- Count ------------------------------------------------------------------------------------------- */

typedef struct counting {
  region_join j;
  const uint32_t *some; /* of a region's members */
  const uint8_t *own;
  _Atomic uint64_t pairs;
} counting;

static void add_counts(void *user, uint64_t begin, uint64_t end) {
  counting *k = user;
  uint64_t pairs = 0;
  for (uint64_t i = begin; i < end; i++)
    pairs += k->own[i] ? k->some[i] : 0;
  atomic_fetch_add(&k->pairs, pairs);
}

/* to: counts of the region's members. */
static adj_status count_region(counting *k, uint32_t region, uint32_t *to) {
  region_join *j = &k->j;
  uint64_t all;
  adj_status status = open_join(j, region);
  if (status) return status;
  status = adji_engine_count(&j->engine, &j->run.run, to, &all);
  close_join(j);
  return status;
}

/* Those of the region's own members, where rows are not wanted. */
static adj_status add_region(counting *k, const uint32_t *counts) {
  region_join *j = &k->j;
  adj_status status = adji_pick_list(&j->left.pick, NULL, j->left.own);
  k->some = counts;
  k->own = j->left.own;
  return status ? status : adji_each_row(j->c->join.ctx, j->left.set.count, add_counts, k);
}

static uint64_t all_members(const adji_regions *r) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < r->cuts->count; i++)
    all += r->all[i];
  return all;
}

/* A part of the rows' memory that is prefaulted while the device counts a region. */
static adji_ahead part_ahead(const adji_regions *left, uint32_t region, uint32_t *degrees) {
  uint64_t begin, end;
  if (!degrees) return (adji_ahead){0};
  adji_slice(left->set->count, left->cuts->count, region, &begin, &end);
  return (adji_ahead){degrees + begin, NULL, end - begin};
}

static adj_status count_regions(counting *k, uint32_t *degrees, uint32_t *counts) {
  region_join *j = &k->j;
  const adji_regions *left = j->c->by_region->left;
  adj_status status = ADJ_OK;
  uint64_t before = 0, pairs = 0;
  for (uint32_t i = 0; i < left->cuts->count && !status; i++) {
    adji_chunk_run_next(&j->run, (double)i, 1, atomic_load(&k->pairs));
    j->run.run.ahead = part_ahead(left, i, degrees);
    if (left->own[i])
      status = count_region(k, i, counts + before);
    else if (degrees)
      memset(counts + before, 0, left->all[i] * sizeof *counts);
    if (degrees)
      before += left->all[i];
    else if (left->own[i] && !status)
      status = add_region(k, counts);
  }
  adji_gather_clear(&j->left.gather); /* its memory may be what rows are written to now */
  if (!status && degrees) status = adji_regions_spread(left, counts, degrees, &pairs);
  atomic_fetch_add(&k->pairs, pairs);
  return status ? status : adji_run_check_pairs(j->run.whole, atomic_load(&k->pairs));
}

/* Counts are collected by region, and put to their rows at the end: each region has rows in every cache line. */
adj_status adji_regions_count(adji_chunks *c, adji_run *run, uint32_t *degrees, adji_tally *tally) {
  counting k = {.j = {.c = c}};
  adji_memory *memory = &c->join.ctx->memory;
  const adji_regions *left = c->by_region->left;
  adji_chunk_run_begin(&k.j.run, run, "count");
  k.j.run.all = (double)left->cuts->count;
  k.j.degrees = adji_alloc(memory, degrees ? all_members(left) : largest(left), sizeof *degrees, "counts of regions");
  k.j.left.own = adji_alloc(memory, largest(left), sizeof *k.j.left.own, "counts of regions");
  adj_status status = k.j.degrees && k.j.left.own ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) open_gathers(&k.j);
  if (!status) status = count_regions(&k, degrees, k.j.degrees);
  tally->pairs = atomic_load(&k.pairs);
  end_joins(&k.j, tally);
  return status;
}

/* From the region in the middle, scaled up to all rows. */
adj_status adji_regions_estimate(adji_chunks *c, uint64_t sample, double *pairs, double *candidates) {
  region_join j = {.c = c};
  adji_run none;
  adji_tally tally = {0};
  const adji_regions *left = c->by_region->left;
  uint32_t region = left->cuts->count / 2;
  *pairs = *candidates = 0;
  while (region && !left->own[region])
    region--;
  if (!left->own[region]) return ADJ_OK;
  adj_status status = adji_run_init(&none, c->join.ctx, NULL);
  if (status) return status;
  adji_chunk_run_begin(&j.run, &none, "count");
  status = open_join(&j, region);
  if (!status) {
    status = c->source.estimate(&j.engine.workers[0], sample, pairs, candidates);
    c->cells = status ? 0 : c->source.cells(&j.engine.workers[0]);
    close_join(&j);
  }
  double scale = (double)c->join.left->count / (double)left->all[region];
  *pairs *= scale;
  *candidates *= scale;
  end_joins(&j, &tally);
  adji_run_clear(&none);
  return status;
}

/* ---- Fill -------------------------------------------------------------------------------------------- */

typedef struct filling {
  region_join j;
  const adji_window *window;
  size_t size;   /* of a distance, 0 without */
  uint64_t room; /* entries that fit the buffers */
  uint32_t *ids;
  char *distances;
  uint64_t *offsets; /* of the region's rows */
  uint64_t placed;
} filling;

static uint64_t longest_row(const uint64_t *offsets, uint64_t first, uint64_t end) {
  uint64_t longest = 1;
  for (uint64_t i = first; i < end; i++)
    if (offsets[i + 1] - offsets[i] > longest) longest = offsets[i + 1] - offsets[i];
  return longest;
}

static void free_entries(filling *f) {
  adji_memory *memory = &f->j.c->join.ctx->memory;
  adji_free(memory, f->ids);
  adji_free(memory, f->distances);
  f->ids = NULL;
  f->distances = NULL;
  f->room = 0;
}

/* Buffers for rows first .. end - 1 of the region, or for the longest of them; those that are there may do. */
static adj_status get_entries(filling *f, uint64_t first, uint64_t end) {
  adji_memory *memory = &f->j.c->join.ctx->memory;
  uint64_t longest = longest_row(f->offsets, first, end), pairs = f->offsets[end] - f->offsets[first];
  uint64_t available = adji_memory_available(memory),
           most = (BUFFER < available / 4 ? BUFFER : available / 4) / (4 + f->size);
  uint64_t room = pairs < most ? pairs : most;
  if (room < longest) room = longest;
  if (f->room >= room || f->room >= most) {
    if (f->room >= longest) return ADJ_OK;
  }
  free_entries(f);
  f->ids = adji_alloc(memory, room, sizeof *f->ids, "entries of a region");
  if (!f->ids) return ADJ_E_MEMORY;
  if (f->size) {
    f->distances = adji_alloc(memory, room, f->size, "entries of a region");
    if (!f->distances) return ADJ_E_MEMORY;
  }
  f->room = room;
  return ADJ_OK;
}

typedef struct delivery {
  filling *f;
  uint64_t first, end, tasks; /* rows of the region */
} delivery;

static adj_status deliver(const delivery *d, uint64_t i) {
  filling *f = d->f;
  const region_join *j = &f->j;
  if (!j->left.own[i]) return ADJ_OK;
  uint64_t row = j->left.ids[i], from = f->offsets[i] - f->offsets[d->first], many = f->offsets[i + 1] - f->offsets[i];
  if (many != adji_window_length(f->window, row))
    return adji_fail(ADJ_E_INTERNAL, "row %llu: %llu neighbours found where %llu were counted", (unsigned long long)row,
                     (unsigned long long)many, (unsigned long long)adji_window_length(f->window, row));
  uint64_t to = adji_window_at(f->window, row);
  const uint32_t *names = j->c->join.self_join ? j->left.ids : j->right.ids;
  for (uint64_t e = 0; e < many; e++)
    f->window->ids[to + e] = names[f->ids[from + e]];
  if (f->window->distances && many)
    memcpy((char *)f->window->distances + to * f->size, f->distances + from * f->size, many * f->size);
  return ADJ_OK;
}

static adj_status deliver_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const delivery *d = user;
  uint64_t begin, end;
  adj_status status = ADJ_OK;
  adji_slice(d->end - d->first, d->tasks, task, &begin, &end);
  for (uint64_t i = begin; i < end && !status; i++)
    status = deliver(d, d->first + i);
  return status;
}

/* The first of the region's rows that is not below `row`. */
static uint64_t first_at(const part *p, uint64_t row) {
  uint64_t low = 0, high = p->set.count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (p->ids[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The region's rows first .. end - 1, as many at a time as the buffers have room for. */
static adj_status fill_rows(filling *f, uint64_t first, uint64_t end) {
  region_join *j = &f->j;
  adj_ctx *ctx = j->c->join.ctx;
  adj_status status = get_entries(f, first, end);
  while (first < end && !status) {
    uint64_t last = first;
    while (last < end && f->offsets[last + 1] - f->offsets[first] <= f->room)
      last++;
    uint64_t pairs = f->offsets[last] - f->offsets[first];
    adji_window window = {first, last, f->offsets, f->ids, f->distances, 0};
    delivery d = {f, first, last, 8 * (uint64_t)ctx->threads};
    adji_chunk_run_next(&j->run, (double)f->placed, (double)pairs, f->placed);
    if (pairs) status = adji_engine_fill(&j->engine, &j->run.run, &window);
    if (!status) status = adji_loop(ctx, d.tasks, deliver_some, &d);
    f->placed += pairs;
    first = last;
  }
  return status;
}

static adj_status fill_region(filling *f, uint32_t region) {
  region_join *j = &f->j;
  uint64_t all = 0;
  adj_status status = open_join(j, region);
  if (status) return status;
  uint64_t first = first_at(&j->left, f->window->first_row), end = first_at(&j->left, f->window->end_row);
  if (first < end) {
    j->run.run.fills = true;
    adji_chunk_run_next(&j->run, (double)f->placed, 0, f->placed);
    status = adji_engine_count(&j->engine, &j->run.run, j->degrees, &all);
    if (!status) status = adji_offsets_add_up(j->c->join.ctx, j->degrees, j->left.set.count, f->offsets);
    if (!status) status = fill_rows(f, first, end);
  }
  close_join(j);
  return status;
}

adj_status adji_regions_fill(adji_chunks *c, adji_run *run, const adji_window *window, adji_tally *tally) {
  filling f = {.j = {.c = c}, .window = window};
  f.size = c->join.style.distances ? adji_type_size(c->join.style.type) : 0;
  const adji_chunk_regions *by = c->by_region;
  adji_chunk_run_begin(&f.j.run, run, "join");
  f.j.run.all = (double)adji_window_entries(window);
  adj_status status = get_lists(c, by->left, &f.j.left);
  if (!status && !c->join.self_join) status = get_lists(c, &by->right, &f.j.right);
  if (!status) {
    f.j.degrees = adji_alloc(&c->join.ctx->memory, largest(by->left), sizeof *f.j.degrees, "counts of a region");
    if (!f.j.degrees) status = ADJ_E_MEMORY;
  }
  if (!status) {
    f.offsets =
        adji_alloc(&c->join.ctx->memory, largest(c->by_region->left) + 1, sizeof *f.offsets, "offsets of a region");
    if (!f.offsets) status = ADJ_E_MEMORY;
  }
  if (!status) open_gathers(&f.j);
  for (uint32_t i = 0; i < c->by_region->cuts.count && !status && f.j.run.all > 0; i++)
    if (c->by_region->left->own[i]) status = fill_region(&f, i);
  free_entries(&f);
  adji_free(&c->join.ctx->memory, f.offsets);
  end_joins(&f.j, tally);
  return status;
}
