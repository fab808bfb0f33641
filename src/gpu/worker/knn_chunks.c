/* SPDX-License-Identifier: MIT
 *
 * kNN joins in chunks: regions, the search of a region's rows at home, the worker. See knn_chunks.h.
 */
#include "gpu/worker/knn_chunks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/conveyor.h"
#include "gpu/device/staging.h"
#include "gpu/worker/devices.h"
#include "gpu/worker/knn_chunks_private.h"
#include "gpu/worker/place.h"
#include "result/rows.h"

enum { HALF = ADJI_STAGE_BYTES / 2 };

/* ---- Sizes ------------------------------------------------------------------------------------------- */

/* Bytes of the device a point or row: while a tree is built (index.cu), in the tree with its boxes, in the table of
 * the result. */
typedef struct device_sizes {
  uint64_t building, tree, row;
} device_sizes;

static device_sizes sizes_of(const adji_gpu_knn_options *options) {
  const adji_join *join = options->join;
  uint64_t dim = join->left->dim, size = adji_type_size(join->left->type);
  uint64_t placed = ADJI_GPU_WIDTH(dim) * size, number = 12; /* on the curve, and id */
  device_sizes s = {.building = dim * size + number + (number > placed ? number : placed)};
  s.tree = placed + number + dim * size / 2 + 4;
  s.row = (uint64_t)join->k * (4 + size) + 8 + size;
  return s;
}

static uint64_t bytes_of(const adji_gpu_knn_options *options, uint64_t left, uint64_t right, uint64_t rows) {
  device_sizes s = sizes_of(options);
  uint64_t building = right * s.building, both = right * s.tree;
  if (!options->join->self_join) {
    if (both + left * s.building > building) building = both + left * s.building;
    both += left * s.tree;
  }
  both += rows * s.row;
  return both > building ? both : building;
}

/* A table with fewer rows than this part of the queries is too small: the trees are walked for each. */
enum { FEWEST_ROWS = 8 };

uint64_t adji_knn_whole_bytes(const adji_gpu_knn_options *options) {
  uint64_t left = options->join->left->count;
  return bytes_of(options, left, options->join->right->count, left / FEWEST_ROWS + 1);
}

/* Rows of a region are searched at once where a warp searches for 32 of them, because some of them would be farther
 * apart. A fifth of the memory is not planned for. */
uint64_t adji_knn_chunks_fitting(const adji_gpu_knn_options *options, uint64_t device_bytes) {
  uint64_t most = options->join->left->count > options->join->right->count ? options->join->left->count
                                                                           : options->join->right->count;
  uint64_t low = ADJI_LEAST_CHUNK, high = most > low ? most : low, part = options->join->k <= 32 ? 1 : FEWEST_ROWS;
  while (low < high) {
    uint64_t middle = high - (high - low) / 2;
    if (bytes_of(options, middle, middle, middle / part) <= device_bytes / 5 * 4)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

adj_status adji_knn_chunks_can(const adji_gpu_knn_options *options) {
  const adji_join *join = options->join;
  if (options->brute || options->grid.use || !adji_gpu_knn_can(join, options->measure))
    return adji_fail(ADJ_E_UNSUPPORTED, "only trees search sets in chunks");
  if (join->limits)
    return adji_fail(ADJ_E_UNSUPPORTED, "radii: sets in chunks are not searched with a radius for each query");
  if (join->k > HALF / adji_type_size(join->left->type))
    return adji_fail(ADJ_E_UNSUPPORTED, "rows of %u neighbours are too large for the buffers of a GPU", join->k);
  return ADJ_OK;
}

/* ---- Pieces ------------------------------------------------------------------------------------------ */

static void clear_pieces(adji_memory *memory, adji_knn_pieces *p) {
  adji_regions_clear(&p->regions);
  adji_free(memory, p->each);
  adji_free(memory, p->of_region);
  *p = (adji_knn_pieces){0};
}

static uint64_t pieces_of(const adji_knn_chunks *c, uint64_t members) {
  return members / c->size + (members % c->size > 0);
}

static adj_status make_pieces(adji_knn_chunks *c, const adj_dataset *set, adji_knn_pieces *out) {
  adji_memory *memory = &c->join.ctx->memory;
  uint32_t regions = c->cuts.count;
  adj_status status = adji_regions_make(c->join.ctx, set, &c->cuts, -1, &out->regions);
  if (status) return status;
  for (uint32_t i = 0; i < regions; i++)
    out->count += pieces_of(c, out->regions.own[i]);
  out->each = adji_alloc(memory, out->count + 1, sizeof *out->each, "regions");
  out->of_region = adji_alloc(memory, (uint64_t)regions + 1, sizeof *out->of_region, "regions");
  if (!out->each || !out->of_region) return ADJ_E_MEMORY;
  uint64_t number = 0;
  for (uint32_t i = 0; i < regions; i++) {
    uint64_t members = out->regions.own[i], many = pieces_of(c, members);
    out->of_region[i] = number;
    for (uint64_t j = 0; j < many; j++) {
      adji_knn_piece *piece = &out->each[number++];
      piece->region = i;
      adji_slice(members, many, j, &piece->first, &piece->end);
      if (piece->end - piece->first > out->largest) out->largest = piece->end - piece->first;
    }
  }
  out->of_region[regions] = number;
  return ADJ_OK;
}

static void clear_regions(adji_knn_chunks *c) {
  clear_pieces(&c->join.ctx->memory, &c->right);
  clear_pieces(&c->join.ctx->memory, &c->left_pieces);
  adji_cuts_clear(c->join.ctx, &c->cuts);
}

/* Cuts follow the larger set. A quarter more regions than needed: a sample says how large they become. */
static adj_status make_regions(adji_knn_chunks *c) {
  const adji_join *join = &c->join;
  uint64_t begin = adji_now_ns();
  const adj_dataset *larger = join->left->count > join->right->count ? join->left : join->right;
  adj_status status = adji_cuts_make(join->ctx, larger, larger->count / c->size * 5 / 4 + 1, &c->cuts);
  if (!status) status = make_pieces(c, join->right, &c->right);
  c->left = &c->right;
  if (!status && !join->self_join) {
    status = make_pieces(c, join->left, &c->left_pieces);
    c->left = &c->left_pieces;
  }
  adji_trace(join->ctx, "regions", 0, begin, c->cuts.count);
  if (status) clear_regions(c);
  return status;
}

/* ---- Parts ------------------------------------------------------------------------------------------- */

static void free_part(adji_knn_chunks *c, adji_knn_part *part) {
  adji_pick_clear(&part->pick);
  adji_free(&c->join.ctx->memory, part->points);
  adji_free(&c->join.ctx->memory, part->ids);
  *part = (adji_knn_part){0};
}

static adj_status get_part(adji_knn_chunks *c, const adji_knn_pieces *of, adji_knn_part *part) {
  adji_memory *memory = &c->join.ctx->memory;
  part->piece = UINT64_MAX;
  part->points = adji_alloc(memory, of->largest + 1, c->point, "points of a region");
  part->ids = adji_alloc(memory, of->largest + 1, sizeof *part->ids, "ids of a region");
  return part->points && part->ids ? ADJ_OK : ADJ_E_MEMORY;
}

adj_status adji_knn_part_fill(const adji_knn_pieces *from, uint64_t number, adji_knn_part *part) {
  const adji_knn_piece *piece = &from->each[number];
  const adji_regions *r = &from->regions;
  if (part->piece == number) return ADJ_OK;
  part->piece = UINT64_MAX;
  adji_pick_clear(&part->pick);
  adj_status status = adji_pick_open(r, piece->region, piece->first, piece->end, &part->pick);
  if (!status) status = adji_pick_list(&part->pick, part->ids, NULL);
  if (status) return status;
  part->pick.keep = part->points;
  part->set = adji_pick_set(&part->pick);
  part->set.low = r->low + (uint64_t)piece->region * part->set.dim;
  part->set.high = r->high + (uint64_t)piece->region * part->set.dim;
  part->piece = number;
  return ADJ_OK;
}

/* ---- Rows from the device ------------------------------------------------------------------------------ */

/* Ids go through the first half of a buffer, sums through the second. */
typedef struct fetching {
  adji_knn_chunks *c;
  const adji_gpu_table *table;
  uint64_t first, end, each; /* rows; each: of a step of the conveyor */
  adji_knn_rows_fn handle;
} fetching;

static uint64_t rows_of(const fetching *f, uint64_t piece, uint64_t *first) {
  *first = f->first + piece * f->each;
  return f->end - *first < f->each ? f->end - *first : f->each;
}

static adj_status copy_rows(void *user, uint64_t piece, uint32_t buffer) {
  const fetching *f = user;
  uint64_t first, rows = rows_of(f, piece, &first), k = f->c->join.k, at = (first - f->table->first_row) * k;
  adj_status status = adji_staging_receive(f->c->gpu, buffer, f->table->ids + at, rows * k * 4);
  if (status) return status;
  return adji_staging_receive(f->c->gpu, buffer + ADJI_STAGE_SECOND,
                              (const char *)f->table->distances + at * f->c->type, rows * k * f->c->type);
}

static adj_status rows_are_here(void *user, uint32_t buffer, bool *here) {
  const fetching *f = user;
  adj_status status = adji_staging_here(f->c->gpu, buffer, here);
  if (status || !*here) return status;
  return adji_staging_here(f->c->gpu, buffer + ADJI_STAGE_SECOND, here);
}

static void handle_rows(void *user, uint64_t piece, uint32_t buffer) {
  const fetching *f = user;
  adji_knn_rows rows = {.scratch = buffer};
  rows.count = rows_of(f, piece, &rows.first);
  rows.ids = adji_staging_at(f->c->gpu, buffer);
  rows.sums = adji_staging_at(f->c->gpu, buffer + ADJI_STAGE_SECOND);
  f->handle(f->c, &rows);
}

adj_status adji_knn_rows_fetch(adji_knn_chunks *c, const adji_gpu_table *table, uint64_t first, uint64_t end,
                               adji_knn_rows_fn handle) {
  uint64_t row = c->join.k * (c->type > 4 ? c->type : 4), share;
  fetching f = {c, table, first, end, HALF / row, handle};
  share = (end - first) / (2 * (uint64_t)c->join.ctx->threads) + 1;
  if (share < f.each) f.each = share;
  adji_conveyor conveyor = {.ctx = c->join.ctx, .user = &f, .buffers = c->join.ctx->threads};
  conveyor.pieces = (end - first + f.each - 1) / f.each;
  conveyor.copy = copy_rows;
  conveyor.here = rows_are_here;
  conveyor.handle = handle_rows;
  adji_conveyor_times times = {0};
  adj_status status = adji_staging_open(c->gpu, c->join.ctx->threads);
  if (!status) status = adji_convey(&conveyor, &times);
  if (status) adji_gpu_quiesce(c->gpu); /* copies in progress still use buffers */
  c->run->device.down_s += (double)times.wait_ns * 1e-9;
  c->run->device.place_s += (double)times.work_ns * 1e-9;
  c->run->device.bytes_down += (end - first) * c->join.k * (4 + c->type);
  return status;
}

/* ---- At home ----------------------------------------------------------------------------------------- */

/* Whether a row that has searched the right points of its region is complete. */
static bool is_complete(const adji_knn_chunks *c, const char *point, const void *sums, uint32_t length) {
  adj_type type = c->join.left->type;
  double reach = adji_reach(&c->measure, type, adji_knn_bound(c, sums, length));
  return !adji_cuts_near(&c->cuts, type, point, reach);
}

/* Rows that are handled at once, so that their sums stay in a core's cache. */
enum { AT_ONCE = 256 };

/* What becomes of a row: it waits in the pool, is in the window already, or goes there. */
typedef enum fate { OPEN, PLACED, COMPLETE } fate;

typedef struct some_rows {
  adji_knn_chunks *c;
  const adji_knn_rows *rows;
  const adji_knn_part *part;
  uint64_t first, count; /* of these rows */
  bool several;          /* their region has several pieces */
  uint64_t open, pairs;
  uint8_t fates[AT_ONCE];
} some_rows;

static uint32_t length_of(const some_rows *s, uint64_t i) {
  uint32_t k = s->c->join.k;
  const uint32_t *ids = s->rows->ids + i * k;
  return ids[k - 1] != ADJ_NO_ID ? k : adji_padded_row_length(ids, k);
}

/* Short rows, which are few, are placed at once. */
static void judge_rows(some_rows *s) {
  adji_knn_chunks *c = s->c;
  uint64_t k = c->join.k;
  s->open = 0;
  for (uint64_t n = 0; n < s->count; n++) {
    uint64_t i = s->first + n, at = s->rows->first + i;
    const char *sums = s->rows->sums + i * k * c->type;
    uint32_t length = length_of(s, i);
    bool complete = !s->several && is_complete(c, s->part->points + at * c->point, sums, length);
    s->fates[n] = (uint8_t)(!complete ? OPEN : length < k ? PLACED : COMPLETE);
    if (s->fates[n] == PLACED)
      adji_row_place_padded(c->pass->window, &c->join.style, s->part->ids[at], s->rows->ids + i * k, sums, length);
    s->open += !complete;
    if (complete) s->pairs += length;
  }
}

/* One place for all of them: every lane takes places from the same counter. */
static void keep_open(const some_rows *s) {
  adji_knn_chunks *c = s->c;
  uint64_t k = c->join.k, to = s->open ? adji_knn_pool_reserve(c, s->open) : 0;
  for (uint64_t n = 0; n < s->count; n++) {
    if (s->fates[n] != OPEN) continue;
    uint64_t i = s->first + n;
    adji_knn_pool_put(c, to++, s->part->ids[s->rows->first + i], (uint32_t)c->part.piece, s->rows->ids + i * k,
                      s->rows->sums + i * k * c->type, length_of(s, i));
  }
}

/* Sums become distances, all of them together, and rows go past the caches to places that are far apart. */
static void place_complete(const some_rows *s) {
  adji_knn_chunks *c = s->c;
  const adji_window *to = c->pass->window;
  void (*stream)(void *, const void *, uint64_t) = c->join.style.kernels->stream_row;
  uint64_t k = c->join.k, size = to->distances ? c->type : 0, from = s->first * k;
  char *sums = s->rows->sums + from * c->type;
  const uint32_t *rows = s->part->ids + s->rows->first + s->first;
  if (size) adji_report_distances(&c->measure, c->join.left->type, sums, s->count * k, sums);
  for (uint64_t n = 0; n < s->count; n++) {
    if (s->fates[n] != COMPLETE) continue;
    uint64_t at = adji_window_at(to, rows[n]);
    if (n + ADJI_ROWS_AHEAD < s->count && adji_window_has(to, rows[n + ADJI_ROWS_AHEAD])) {
      uint64_t ahead = adji_window_at(to, rows[n + ADJI_ROWS_AHEAD]);
      adji_prefetch_row(to->ids + ahead, k * sizeof *to->ids);
      if (size) adji_prefetch_row((const char *)to->distances + ahead * size, k * size);
    }
    stream(to->ids + at, s->rows->ids + from + n * k, k * sizeof *to->ids);
    if (size) stream((char *)to->distances + at * size, sums + n * k * size, k * size);
  }
}

/* Rows that have searched at home: into the window, or to the pool. */
static void take_rows(adji_knn_chunks *c, const adji_knn_rows *rows) {
  some_rows s = {.c = c, .rows = rows, .part = c->join.self_join ? &c->part : &c->left_part};
  uint32_t region = c->left->each[s.part->piece].region;
  s.several = c->right.of_region[region + 1] - c->right.of_region[region] > 1;
  for (; s.first < rows->count; s.first += s.count) {
    s.count = rows->count - s.first < AT_ONCE ? rows->count - s.first : AT_ONCE;
    judge_rows(&s);
    keep_open(&s);
    place_complete(&s);
  }
  adji_rows_placed();
  atomic_fetch_add_explicit(&c->pairs, s.pairs, memory_order_relaxed);
}

void adji_knn_chunks_close(adji_knn_chunks *c, adji_gpu_knn *knn) {
  if (!knn) return;
  adji_device_stats work = adji_gpu_knn_work(knn);
  adji_device_stats_add(&c->run->device, &work);
  c->candidates += adji_gpu_knn_effort_of(knn).candidates;
  adji_gpu_knn_close(knn);
}

/* The join of the parts. */
static adji_join join_of(const adji_knn_chunks *c) {
  adji_join join = c->join;
  join.right = &c->part.set;
  join.left = join.self_join ? join.right : &c->left_part.set;
  join.style.measure = &c->sums;
  join.style.distances = true;
  return join;
}

/* Searches rows from *row on, until all are done or the pool has no room for more. */
static adj_status search_rows(adji_knn_chunks *c, uint64_t *row, uint64_t end) {
  adji_join join = join_of(c);
  adji_gpu_knn_options options = c->options;
  adji_gpu_knn *knn = NULL;
  uint64_t room = c->pool.room - atomic_load(&c->pool.count), most = end - *row < room ? end - *row : room;
  options.join = &join;
  options.measure = &c->sums;
  options.right_names = c->part.ids;
  options.rows_at_once = options.rows_at_once && options.rows_at_once < most ? options.rows_at_once : most;
  adj_status status = adji_gpu_knn_open(c->gpu, &options, &knn);
  while (!status && *row < end && c->pool.room - atomic_load(&c->pool.count) >= options.rows_at_once) {
    adji_gpu_table table;
    uint64_t begun = adji_now_ns();
    status = adji_gpu_knn_begin(knn, *row, &table);
    if (status) break;
    uint64_t last = table.end_row < end ? table.end_row : end;
    status = adji_gpu_knn_end(knn);
    if (!status) status = adji_knn_rows_fetch(c, &table, *row, last, take_rows);
    if (!status) status = adji_check_cancel(c->join.ctx);
    adji_trace(c->join.ctx, "join", 0, begun, last - *row);
    c->run->batches++;
    *row = last;
  }
  if (status) adji_gpu_quiesce(c->gpu);
  adji_knn_chunks_close(c, knn);
  return status;
}

/* The first of the part's rows that is not below `row`. */
static uint64_t first_at(const adji_knn_part *part, uint64_t row) {
  uint64_t low = 0, high = part->set.count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (part->ids[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Puts both parts of a left piece into memory. *home: there are right points in its region. */
static adj_status fill_parts(adji_knn_chunks *c, uint64_t number, bool *home) {
  uint32_t region = c->left->each[number].region;
  uint64_t right = c->join.self_join ? number : c->right.of_region[region];
  *home = c->join.self_join || right < c->right.of_region[region + 1];
  adj_status status = *home ? adji_knn_part_fill(&c->right, right, &c->part) : ADJ_OK;
  if (status || c->join.self_join) return status;
  return adji_knn_part_fill(c->left, number, &c->left_part);
}

/* The rows of a left piece that the window has. */
static adj_status search_piece(adji_knn_chunks *c, uint64_t number) {
  const adji_window *window = c->pass->window;
  const adji_knn_part *part = c->join.self_join ? &c->part : &c->left_part;
  bool home;
  adj_status status = fill_parts(c, number, &home);
  if (status) return status;
  uint64_t row = first_at(part, window->first_row), end = first_at(part, window->end_row);
  while (row < end && !status) {
    uint64_t many = atomic_load(&c->pool.count);
    if (many && c->pool.room - many < end - row) status = adji_knn_pool_flush(c); /* which uses the part */
    if (!status) status = fill_parts(c, number, &home);
    if (status) break;
    if (home) {
      status = search_rows(c, &row, end);
      continue;
    }
    for (uint64_t room = c->pool.room - atomic_load(&c->pool.count); row < end && room; row++, room--)
      adji_knn_pool_put(c, adji_knn_pool_reserve(c, 1), part->ids[row], UINT32_MAX, NULL, NULL, 0);
  }
  return status;
}

/* ---- The window -------------------------------------------------------------------------------------- */

typedef struct fresh {
  char *at;
  uint64_t bytes;
} fresh;

static adj_status prefault_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const fresh *f = user;
  uint64_t first = task * ADJI_HUGE_PAGE;
  adji_prefault(f->at + first, f->bytes - first < ADJI_HUGE_PAGE ? f->bytes - first : ADJI_HUGE_PAGE);
  return ADJ_OK;
}

/* Rows go to places all over the window: each page is provided once, by one lane. */
static adj_status prefault_window(const adji_knn_chunks *c) {
  const adji_window *w = c->pass->window;
  uint64_t entries = adji_window_entries(w);
  fresh each[] = {{(char *)w->ids, entries * sizeof *w->ids}, {w->distances, w->distances ? entries * c->type : 0}};
  adj_status status = ADJ_OK;
  for (int i = 0; i < 2 && !status; i++)
    if (each[i].bytes)
      status = adji_loop(c->join.ctx, (each[i].bytes + ADJI_HUGE_PAGE - 1) / ADJI_HUGE_PAGE, prefault_some, &each[i]);
  return status;
}

static void free_buffers(adji_knn_chunks *c) {
  adji_knn_pool_close(c);
  free_part(c, &c->part);
  free_part(c, &c->left_part);
}

static adj_status fill_window(adji_knn_chunks *c) {
  const adji_window *window = c->pass->window;
  atomic_store(&c->pairs, 0);
  adj_status status = c->cuts.count ? ADJ_OK : make_regions(c);
  if (!status) status = get_part(c, &c->right, &c->part);
  if (!status && !c->join.self_join) status = get_part(c, c->left, &c->left_part);
  if (!status) status = adji_knn_pool_open(c, window->end_row - window->first_row);
  if (!status) status = prefault_window(c);
  for (uint64_t i = 0; i < c->left->count && !status; i++) {
    status = search_piece(c, i);
    if (!status)
      status = adji_run_report(c->run, "join", 0.8 * (double)(i + 1) / (double)c->left->count,
                               c->run->tally.pairs + atomic_load(&c->pairs), false);
  }
  if (!status) status = adji_knn_pool_flush(c);
  free_buffers(c);
  return status;
}

/* ---- The worker -------------------------------------------------------------------------------------- */

static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  adji_knn_chunks *c = state;
  c->run = run;
  c->pass = pass;
  adji_gpu_lock(c->gpu);
  return ADJ_OK;
}

static adj_status alone(void *state, adji_tally *tally) {
  adji_knn_chunks *c = state;
  const adji_window *window = c->pass->window;
  if (window->first_row == window->end_row) return ADJ_OK;
  adji_gpu_use(c->gpu);
  c->candidates = 0;
  adj_status status = fill_window(c);
  while (status == ADJ_E_DEVICE_MEMORY && c->size / 2 >= ADJI_LEAST_CHUNK) {
    c->size /= 2;
    c->run->redone++;
    clear_regions(c);
    status = fill_window(c);
  }
  tally->candidates = c->candidates;
  tally->pairs = atomic_load(&c->pairs);
  return status;
}

static void end(void *state, adji_run *run) {
  adji_knn_chunks *c = state;
  (void)run;
  adji_gpu_unlock(c->gpu);
}

static void destroy(void *state) {
  adji_knn_chunks *c = state;
  clear_regions(c);
  free(c);
}

bool adji_is_knn_chunks(const adji_worker *worker) {
  return worker->destroy == destroy;
}

uint64_t adji_knn_chunks_size(const adji_worker *worker) {
  return ((const adji_knn_chunks *)worker->state)->size;
}

adj_status adji_knn_chunks_create(const adji_gpu_knn_options *options, uint64_t size, adji_worker *out) {
  adji_knn_chunks *c = aligned_alloc(ADJI_LINE, sizeof *c);
  if (!c) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  memset(c, 0, sizeof *c);
  c->join = *options->join;
  c->measure = c->sums = *options->measure;
  c->sums.report = ADJI_REPORT_SUM;
  c->options = *options;
  c->size = size;
  c->type = adji_type_size(c->join.left->type);
  c->point = c->join.left->dim * c->type;
  adj_status status = adji_gpu_of(c->join.ctx, &c->gpu);
  if (!status) status = make_regions(c);
  if (status) {
    free(c);
    return status;
  }
  *out = (adji_worker){.state = c,
                       .name = adji_gpu_worker_name(0),
                       .is_device = true,
                       .large_windows = true,
                       .begin = begin,
                       .alone = alone,
                       .end = end,
                       .destroy = destroy};
  return ADJ_OK;
}
