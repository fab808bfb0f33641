/* SPDX-License-Identifier: MIT
 *
 * Joins in chunks: regions of space. The left points of a region are joined with the right points that may be within
 * the radius around it. In a self-join, all these points are joined with themselves, and only the rows of the region's
 * own points are used. The members of a region ascend by id, so everything that depends on ids (ties, order, one way,
 * self) is as in the whole join.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/worker/chunks_private.h"
#include "gpu/worker/devices.h"
#include "gpu/worker/divide.h"
#include "result/offsets.h"

enum { MOST_DIM = 6 };

/* The most bytes of entries in flight, unless a row is longer. */
static const uint64_t BUFFER = (uint64_t)256 << 20;

/* Bytes that points may be gathered in even if the set is small. */
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

/* Makes `count` regions. *fit: they are small enough. */
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

/* With several devices, rounds up to a multiple of the number of times that they take regions. */
static uint64_t for_all_devices(const adji_chunks *c, uint64_t regions) {
  uint64_t takes = (uint64_t)c->source.devices * ADJI_CHUNK_TAKES;
  return c->source.devices > 1 ? (regions + takes - 1) / takes * takes : regions;
}

/* If regions with their margins do not fit, smaller ones are tried once. If these do not fit either, margins are too
 * large a part of a region, and regions are not used. */
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
    status = make_regions(c, for_all_devices(c, most / c->size * (tries ? 2 : 1) + 1 + (uint64_t)tries), b, &fit);
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

/* The points of a region for the device. */
typedef struct part {
  adji_pick pick;
  adji_gather gather; /* of several regions */
  uint32_t *ids;      /* of its points, when rows are filled */
  uint8_t *own;       /* whether each point is the region's own */
  adj_dataset set;
} part;

typedef struct region_join {
  adji_chunks *c;
  uint32_t device;
  adji_inner_run run;
  part left, right; /* right: in a join of two sets */
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

/* Points of several regions are gathered at once, in a buffer of three eighths of the set's size, or of LEAST_GATHER
 * bytes if that is more, but of at most a quarter of what the limit leaves, divided by the devices. */
static void open_gather(adji_chunks *c, const adji_regions *r, part *p) {
  uint64_t bytes = r->set->count * r->set->dim * adji_type_size(r->set->type) / 8 * 3;
  uint64_t available = adji_memory_available(&c->join.ctx->memory) / (4 * (uint64_t)c->source.devices);
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

/* Prepares a device for its joins. Several devices report their progress together. */
static void begin_joins(adji_chunks *c, adji_run *run, const char *phase, uint32_t device, region_join *j) {
  *j = (region_join){.c = c, .device = device};
  adji_inner_run_begin(&j->run, run, phase);
  if (c->source.devices > 1) j->run.run.control.progress = NULL;
}

/* Ends the joins, and adds what they did to the run. */
static void end_joins(region_join *j, adji_tally *tally) {
  clear_part(j->c, &j->left);
  clear_part(j->c, &j->right);
  adji_free(&j->c->join.ctx->memory, j->degrees);
  adji_inner_run_end(&j->run, tally);
}

static adj_status fill_part(const adji_regions *r, uint32_t region, part *p) {
  adji_pick_clear(&p->pick);
  adj_status status = adji_pick_open(r, region, 0, r->all[region], &p->pick);
  if (!status && p->gather.regions) status = adji_gather_region(&p->gather, region, &p->pick.points);
  if (status) return status;
  p->set = adji_pick_set(&p->pick); /* with the bounds of the whole set, for which the grid was chosen */
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
  status = c->source.open(c->source.state, j->device, &join, &worker);
  if (!status) adji_engine_init(&j->engine, &join, &worker);
  return status;
}

static void close_join(region_join *j) {
  adji_engine_clear(&j->engine);
}

/* ---- Count ------------------------------------------------------------------------------------------- */

typedef struct counting {
  region_join j;
  const uint32_t *member_counts; /* counts of a region's members */
  const uint8_t *own;
  _Atomic uint64_t pairs;
} counting;

static void add_counts(void *user, uint64_t begin, uint64_t end) {
  counting *counter = user;
  uint64_t pairs = 0;
  for (uint64_t i = begin; i < end; i++)
    pairs += counter->own[i] ? counter->member_counts[i] : 0;
  atomic_fetch_add(&counter->pairs, pairs);
}

/* Counts a region. to: receives the counts of its members. */
static adj_status count_region(counting *counter, uint32_t region, uint32_t *to) {
  region_join *j = &counter->j;
  uint64_t all;
  adj_status status = open_join(j, region);
  if (status) return status;
  status = adji_engine_count(&j->engine, &j->run.run, to, &all);
  close_join(j);
  return status;
}

/* Adds up the counts of the region's own members, if rows are not wanted. */
static adj_status add_region(counting *counter, const uint32_t *counts) {
  region_join *j = &counter->j;
  adj_status status = adji_pick_list(&j->left.pick, NULL, j->left.own);
  counter->member_counts = counts;
  counter->own = j->left.own;
  return status ? status : adji_each_row(j->c->join.ctx, j->left.set.count, add_counts, counter);
}

/* A count by all devices. */
typedef struct counting_all {
  adji_chunks *c;
  counting each[ADJI_MOST_GPUS]; /* by device */
  uint32_t *degrees, *counts;    /* degrees: by row; counts: by region */
  uint64_t *begins;              /* where each region's counts begin in counts, and where the last ones end */
} counting_all;

/* The part of the rows' memory that is prefaulted while the device counts a region. */
static adji_ahead part_ahead(const adji_regions *left, uint32_t region, uint32_t *degrees) {
  uint64_t begin, end;
  if (!degrees) return (adji_ahead){0};
  adji_slice(left->set->count, left->cuts->count, region, &begin, &end);
  return (adji_ahead){degrees + begin, NULL, end - begin};
}

/* Counts one region. Without degrees, its counts go to memory that only this device uses. */
static adj_status count_one(counting_all *all, counting *counter, uint32_t region) {
  region_join *j = &counter->j;
  uint64_t before = atomic_load(&counter->pairs);
  adji_inner_run_next(&j->run, (double)region, 1, before);
  j->run.run.ahead = part_ahead(all->c->by_region->left, region, all->degrees);
  if (all->degrees) return count_region(counter, region, all->counts + all->begins[region]);
  adj_status status = count_region(counter, region, j->degrees);
  if (!status) status = add_region(counter, j->degrees);
  if (status) atomic_store(&counter->pairs, before); /* another device may count this region */
  return status;
}

static adj_status count_some(void *state, uint32_t device, uint64_t first, uint64_t end, adji_tally *tally) {
  counting_all *all = state;
  counting *counter = &all->each[device];
  adj_status status = ADJ_OK;
  uint64_t before = atomic_load(&counter->pairs);
  for (uint64_t i = first; i < end && !status; i++)
    status = count_one(all, counter, (uint32_t)i);
  if (status) atomic_store(&counter->pairs, before);
  tally->pairs += atomic_load(&counter->pairs) - before;
  return status;
}

static uint64_t own_queries(const void *state, uint64_t region) {
  return ((const counting_all *)state)->c->by_region->left->own[region];
}

static adj_status count_regions(counting_all *all, adji_run *run) {
  adji_chunks *c = all->c;
  const adji_regions *left = c->by_region->left;
  adji_tally tally = {0};
  adj_status status = ADJ_OK;
  adji_division shared = {.state = all,
                          .name = "count",
                          .parts = left->cuts->count,
                          .queries = own_queries,
                          .devices = c->source.devices,
                          .takes = ADJI_CHUNK_TAKES,
                          .work = count_some};
  if (shared.devices > 1) return adji_divide(&shared, run, &tally);
  for (uint32_t i = 0; i < left->cuts->count && !status; i++)
    if (left->own[i]) status = count_some(all, 0, i, i + 1, &tally);
  return status;
}

/* Allocates memory for the counts of all regions, if rows are wanted. Otherwise each device has memory for one
 * region. */
static adj_status open_counts(counting_all *all) {
  const adji_regions *left = all->c->by_region->left;
  adji_memory *memory = &all->c->join.ctx->memory;
  uint64_t members = 0;
  if (!all->degrees) return ADJ_OK;
  all->begins = adji_alloc(memory, (uint64_t)left->cuts->count + 1, sizeof *all->begins, "counts of regions");
  if (!all->begins) return ADJ_E_MEMORY;
  for (uint32_t i = 0; i <= left->cuts->count; i++) {
    all->begins[i] = members;
    members += i < left->cuts->count ? left->all[i] : 0;
  }
  all->counts = adji_alloc_zero(memory, members, sizeof *all->counts, "counts of regions");
  return all->counts ? ADJ_OK : ADJ_E_MEMORY;
}

static adj_status open_counting(const counting_all *all, counting *counter) {
  const adji_regions *left = all->c->by_region->left;
  adji_memory *memory = &all->c->join.ctx->memory;
  counter->j.left.own = adji_alloc(memory, largest(left), sizeof *counter->j.left.own, "counts of regions");
  if (!all->degrees)
    counter->j.degrees = adji_alloc(memory, largest(left), sizeof *counter->j.degrees, "counts of regions");
  if (!counter->j.left.own || (!all->degrees && !counter->j.degrees)) return ADJ_E_MEMORY;
  open_gathers(&counter->j);
  return ADJ_OK;
}

/* Counts are collected by region, and moved to their rows at the end, since each region has rows in every cache
 * line. */
adj_status adji_regions_count(adji_chunks *c, adji_run *run, uint32_t *degrees, adji_tally *tally) {
  counting_all all = {.c = c, .each = {{.j = {.c = c}}}, .degrees = degrees};
  adji_memory *memory = &c->join.ctx->memory;
  uint32_t devices = c->source.devices;
  uint64_t pairs = 0;
  adj_status status = open_counts(&all);
  for (uint32_t i = 0; i < devices; i++) {
    begin_joins(c, run, "count", i, &all.each[i].j);
    all.each[i].j.run.all = (double)c->by_region->cuts.count;
    if (!status) status = open_counting(&all, &all.each[i]);
  }
  if (!status) status = count_regions(&all, run);
  for (uint32_t i = 0; i < devices; i++) {
    pairs += atomic_load(&all.each[i].pairs);
    end_joins(&all.each[i].j, tally); /* which frees memory that may be reused for the rows */
  }
  if (!status && degrees) status = adji_regions_spread(c->by_region->left, all.counts, degrees, &pairs);
  if (!status) status = adji_run_check_pairs(run, pairs);
  adji_free(memory, all.counts);
  adji_free(memory, all.begins);
  tally->pairs = pairs;
  return status;
}

static adj_status estimate_region(region_join *j, uint32_t region, uint64_t sample, double *pairs, double *candidates) {
  adji_chunks *c = j->c;
  adj_status status = open_join(j, region);
  if (status) return status;
  status = c->source.estimate(&j->engine.workers[0], sample, pairs, candidates);
  c->cells = status ? 0 : c->source.cells(&j->engine.workers[0]);
  close_join(j);
  return status;
}

/* Estimates from the middle region, scaled up to all rows. */
adj_status adji_regions_estimate(adji_chunks *c, uint64_t sample, double *pairs, double *candidates) {
  region_join j;
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
  begin_joins(c, &none, "count", 0, &j);
  status = estimate_region(&j, region, sample, pairs, candidates);
  while (status == ADJ_E_DEVICE && j.device + 1 < c->source.devices) {
    adji_log(c->join.ctx, ADJ_LOG_WARN, "%s makes no estimate: %s", adji_gpu_worker_name(j.device), adj_last_error());
    j.device++;
    status = estimate_region(&j, region, sample, pairs, candidates);
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
  size_t size;   /* of a distance; 0: there are none */
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

/* Makes buffers for rows first .. end - 1 of the region, or at least for the longest of them, unless the present ones
 * are large enough. */
static adj_status get_entries(filling *f, uint64_t first, uint64_t end) {
  adji_memory *memory = &f->j.c->join.ctx->memory;
  uint64_t longest = longest_row(f->offsets, first, end), pairs = f->offsets[end] - f->offsets[first];
  uint64_t available = adji_memory_available(memory), share = available / (4 * (uint64_t)f->j.c->source.devices),
           most = (BUFFER < share ? BUFFER : share) / (4 + f->size);
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

/* The first of the region's rows whose id is not below `row`. */
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

/* Fills the region's rows first .. end - 1, as many at a time as the buffers have room for. */
static adj_status fill_rows(filling *f, uint64_t first, uint64_t end) {
  region_join *j = &f->j;
  adj_ctx *ctx = j->c->join.ctx;
  adj_status status = get_entries(f, first, end);
  while (first < end && !status) {
    uint64_t last = first;
    while (last < end && f->offsets[last + 1] - f->offsets[first] <= f->room)
      last++;
    uint64_t pairs = f->offsets[last] - f->offsets[first];
    adji_window window = {
        .first_row = first, .end_row = last, .offsets = f->offsets, .ids = f->ids, .distances = f->distances};
    delivery d = {f, first, last, 8 * (uint64_t)ctx->threads};
    adji_inner_run_next(&j->run, (double)f->placed, (double)pairs, f->placed);
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
    adji_inner_run_next(&j->run, (double)f->placed, 0, f->placed);
    status = adji_engine_count(&j->engine, &j->run.run, j->degrees, &all);
    if (!status) status = adji_offsets_add_up(j->c->join.ctx, j->degrees, j->left.set.count, f->offsets);
    if (!status) status = fill_rows(f, first, end);
  }
  close_join(j);
  return status;
}

/* ---- All regions ------------------------------------------------------------------------------------- */

typedef struct filling_all {
  adji_chunks *c;
  filling each[ADJI_MOST_GPUS]; /* by device */
} filling_all;

static adj_status open_filling(adji_chunks *c, filling *f) {
  const adji_chunk_regions *by = c->by_region;
  adji_memory *memory = &c->join.ctx->memory;
  adj_status status = get_lists(c, by->left, &f->j.left);
  if (!status && !c->join.self_join) status = get_lists(c, &by->right, &f->j.right);
  if (status) return status;
  f->j.degrees = adji_alloc(memory, largest(by->left), sizeof *f->j.degrees, "counts of a region");
  f->offsets = adji_alloc(memory, largest(by->left) + 1, sizeof *f->offsets, "offsets of a region");
  if (!f->j.degrees || !f->offsets) return ADJ_E_MEMORY;
  open_gathers(&f->j);
  return ADJ_OK;
}

static adj_status fill_some(void *state, uint32_t device, uint64_t first, uint64_t end, adji_tally *tally) {
  (void)tally; /* the pairs were counted before */
  filling_all *all = state;
  adj_status status = ADJ_OK;
  for (uint64_t i = first; i < end && !status; i++)
    status = fill_region(&all->each[device], (uint32_t)i);
  return status;
}

static uint64_t queries_to_fill(const void *state, uint64_t region) {
  return ((const filling_all *)state)->c->by_region->left->own[region];
}

static adj_status fill_regions(filling_all *all, adji_run *run) {
  adji_chunks *c = all->c;
  adji_tally tally = {0};
  adj_status status = ADJ_OK;
  adji_division shared = {.state = all,
                          .name = "join",
                          .parts = c->by_region->cuts.count,
                          .queries = queries_to_fill,
                          .devices = c->source.devices,
                          .takes = ADJI_CHUNK_TAKES,
                          .work = fill_some};
  if (shared.devices > 1) return adji_divide(&shared, run, &tally);
  for (uint32_t i = 0; i < c->by_region->cuts.count && !status; i++)
    if (c->by_region->left->own[i]) status = fill_some(all, 0, i, i + 1, &tally);
  return status;
}

adj_status adji_regions_fill(adji_chunks *c, adji_run *run, const adji_window *window, adji_tally *tally) {
  filling_all all = {.c = c, .each = {{.j = {.c = c}}}};
  adj_status status = ADJ_OK;
  if (!adji_window_entries(window)) return ADJ_OK;
  for (uint32_t i = 0; i < c->source.devices; i++) {
    filling *f = &all.each[i];
    *f = (filling){.window = window, .size = c->join.style.distances ? adji_type_size(c->join.style.type) : 0};
    begin_joins(c, run, "join", i, &f->j);
    f->j.run.all = (double)adji_window_entries(window);
    if (!status) status = open_filling(c, f);
  }
  if (!status) status = fill_regions(&all, run);
  for (uint32_t i = 0; i < c->source.devices; i++) {
    free_entries(&all.each[i]);
    adji_free(&c->join.ctx->memory, all.each[i].offsets);
    end_joins(&all.each[i].j, tally);
  }
  return status;
}
