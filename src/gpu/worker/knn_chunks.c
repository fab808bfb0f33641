/* SPDX-License-Identifier: MIT
 *
 * kNN joins in chunks: sizes that fit the device, the search of a region's rows at home, and the worker. See
 * knn_chunks.h.
 */
#include "gpu/worker/knn_chunks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/staging.h"
#include "gpu/worker/devices.h"
#include "gpu/worker/knn_chunks_private.h"

enum { HALF = ADJI_STAGE_BYTES / 2 };

/* ---- Sizes ------------------------------------------------------------------------------------------- */

/* Bytes of device memory: of a point while a tree is built (index.cu), of a point in the tree with its boxes, and of a
 * row in the table of the result. */
typedef struct device_sizes {
  uint64_t building, tree, row;
} device_sizes;

static device_sizes sizes_of(const adji_gpu_knn_options *options, bool picked) {
  const adji_join *join = options->join;
  uint64_t dim = join->left->dim, size = adji_type_size(join->left->type);
  uint64_t placed = ADJI_GPU_WIDTH(dim) * size, number = 12; /* the number on the curve, and the id */
  device_sizes s = {.building = dim * size + number + (number > placed ? number : placed)};
  s.tree = placed + number + dim * size / 2 + 4;
  s.row = (uint64_t)join->k * (4 + size) + 8 + size;
  if (picked) { /* three more numbers per point */
    s.building += 12;
    s.tree += 12;
  }
  return s;
}

static uint64_t bytes_of(const adji_gpu_knn_options *options, bool picked, uint64_t left, uint64_t right,
                         uint64_t rows) {
  device_sizes s = sizes_of(options, picked);
  uint64_t building = right * s.building, both = right * s.tree;
  if (!options->join->self_join) {
    if (both + left * s.building > building) building = both + left * s.building;
    both += left * s.tree;
  }
  both += rows * s.row;
  return both > building ? both : building;
}

/* A table that holds fewer than one in FEWEST_ROWS of the rows is too small, since the trees are walked again for each
 * table. */
enum { FEWEST_ROWS = 8 };

uint64_t adji_knn_whole_bytes(const adji_gpu_knn_options *options) {
  uint64_t left = options->join->left->count;
  return bytes_of(options, false, left, options->join->right->count, left / FEWEST_ROWS + 1);
}

/* The bytes of the points of both sets. */
static uint64_t point_bytes(const adji_join *join) {
  uint64_t points = join->right->count + (join->self_join ? 0 : join->left->count);
  return adji_mul(points * join->right->dim, adji_type_size(join->right->type));
}

/* The largest size of regions for which the device has memory. If a warp searches for 32 rows, all rows of a region are
 * searched at once, since the queries of a warp would be farther apart if only some were. While a region is searched,
 * the rows of the one before it are on the device, too. About a sixth of picked points are those around the region,
 * which have no rows. A fifth of the memory is kept in reserve, or an eighth if the sizes of regions are known. */
static uint64_t fitting(const adji_gpu_knn_options *options, bool picked, uint64_t device_bytes) {
  uint64_t most = options->join->left->count > options->join->right->count ? options->join->left->count
                                                                           : options->join->right->count;
  uint64_t low = ADJI_LEAST_CHUNK, high = most > low ? most : low, part = options->join->k <= 32 ? 1 : FEWEST_ROWS;
  uint64_t planned = picked ? device_bytes / 8 * 7 : device_bytes / 5 * 4;
  while (low < high) {
    uint64_t middle = high - (high - low) / 2, rows = middle / part;
    if (picked && options->join->self_join) rows -= rows / 6;
    uint64_t kept = rows * options->join->k * (4 + adji_type_size(options->join->left->type));
    if (bytes_of(options, picked, middle, middle, rows) + kept <= planned)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Regions are picked on the device if all points take at most half of it, and if the rest holds regions that are not
 * too small, since picking each takes a pass over the points. */
enum { MOST_PICKED = 256 };

adji_knn_chunking adji_knn_chunks_choose(const adji_gpu_knn_options *options, uint64_t device_bytes, uint64_t size) {
  const adji_join *join = options->join;
  uint64_t points = point_bytes(join),
           most = join->left->count > join->right->count ? join->left->count : join->right->count;
  bool room = !options->no_picks && points <= device_bytes / 2;
  uint64_t picked = size ? size : room ? fitting(options, true, device_bytes - points) : 0;
  if (room && picked >= most / MOST_PICKED) return (adji_knn_chunking){picked, true};
  return (adji_knn_chunking){size ? size : fitting(options, false, device_bytes), false};
}

adj_status adji_knn_chunks_can(const adji_gpu_knn_options *options) {
  const adji_join *join = options->join;
  if (options->brute || options->grid.use || !adji_gpu_knn_can(join, options->measure))
    return adji_fail(ADJ_E_UNSUPPORTED, "only trees search sets in chunks");
  if (join->limits)
    return adji_fail(ADJ_E_UNSUPPORTED, "radii: sets in chunks are not searched with a radius for each query");
  if (join->k > HALF / (4 + adji_type_size(join->left->type)) - ADJI_LINE)
    return adji_fail(ADJ_E_UNSUPPORTED, "rows of %u neighbours are too large for the buffers of a GPU", join->k);
  return ADJ_OK;
}

/* ---- Memory of the window ---------------------------------------------------------------------------- */

typedef struct fresh_memory {
  char *at;
  uint64_t bytes;
} fresh_memory;

static adj_status prefault_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const fresh_memory *f = user;
  uint64_t first = task * ADJI_HUGE_PAGE;
  adji_prefault(f->at + first, f->bytes - first < ADJI_HUGE_PAGE ? f->bytes - first : ADJI_HUGE_PAGE);
  return ADJ_OK;
}

/* Rows go to places all over the window. So each page is provided once, by one lane, before the first row is
 * written. */
static adj_status prefault_window(adji_knn_chunks *c) {
  const adji_window *w = c->pass->window;
  uint64_t entries = c->prefaulted ? 0 : adji_window_entries(w), start = adji_now_ns();
  c->prefaulted = true;
  fresh_memory each[] = {{(char *)w->ids, entries * sizeof *w->ids},
                         {w->distances, w->distances ? entries * c->type : 0}};
  adj_status status = ADJ_OK;
  for (int i = 0; i < 2 && !status; i++)
    if (each[i].bytes)
      status = adji_loop(c->join.ctx, (each[i].bytes + ADJI_HUGE_PAGE - 1) / ADJI_HUGE_PAGE, prefault_some, &each[i]);
  if (entries) adji_trace(c->join.ctx, "prefault", 0, start, entries);
  return status;
}

/* ---- At home ----------------------------------------------------------------------------------------- */

void adji_knn_chunks_close(adji_knn_chunks *c, adji_gpu_knn *knn) {
  if (!knn) return;
  adji_device_stats work = adji_gpu_knn_work(knn);
  adji_device_stats_add(&c->run->device, &work);
  c->candidates += adji_gpu_knn_effort_of(knn).candidates;
  adji_gpu_knn_close(knn);
}

/* The join of the current parts. */
static adji_join join_of(const adji_knn_chunks *c) {
  adji_join join = c->join;
  join.right = &c->part->set;
  join.left = join.self_join ? join.right : &c->left_part->set;
  join.style.measure = c->rooted ? &c->measure : &c->sums;
  join.style.distances = true;
  return join;
}

/* The number of rows that the pool has room for, even if all waiting rows go there. */
static uint64_t pool_room(const adji_knn_chunks *c) {
  uint64_t used = atomic_load(&c->pool.count) + (c->waiting.knn ? c->waiting.end - c->waiting.first : 0);
  return used < c->pool.room ? c->pool.room - used : 0;
}

/* Opens a join. If the device has no room for it, waiting rows are fetched first. */
static adj_status open_join(adji_knn_chunks *c, const adji_gpu_knn_options *options, adji_gpu_knn **knn) {
  uint64_t start = adji_now_ns();
  adj_status status = adji_gpu_knn_open(c->gpu, options, knn);
  if (status == ADJ_E_DEVICE_MEMORY && c->waiting.knn) {
    status = adji_knn_fetch_waiting(c);
    if (!status) status = adji_gpu_knn_open(c->gpu, options, knn);
  }
  adji_trace(c->join.ctx, "index", 0, start, c->part->set.count);
  return status;
}

/* Finds rows from found->first on, up to `end`. While the device searches, the lanes fetch the waiting rows, or provide
 * the memory of the window. */
static adj_status find_rows(adji_knn_chunks *c, adji_gpu_knn *knn, uint64_t end, adji_knn_found *found) {
  adj_status status = adji_gpu_knn_begin(knn, found->first, &found->table);
  if (status) return status;
  found->end = found->table.end_row < end ? found->table.end_row : end;
  status = c->waiting.knn ? adji_knn_fetch_waiting(c) : prefault_window(c);
  adj_status ended = adji_gpu_knn_end(knn);
  return status ? status : ended;
}

/* Searches for rows from *row on, until all are done or the pool has no room for more. The last of them stay on the
 * device until the next piece is searched. */
static adj_status search_rows(adji_knn_chunks *c, uint64_t *row, uint64_t end) {
  adji_join join = join_of(c);
  adji_gpu_knn_options options = c->options;
  adji_gpu_knn *knn = NULL;
  uint64_t room = pool_room(c), most = end - *row < room ? end - *row : room;
  options.join = &join;
  options.measure = join.style.measure;
  options.right_names = c->part->ids;
  if (c->on_device) {
    adji_knn_use_pick(&c->part->picked, &options);
    if (!join.self_join) options.left_rows = &c->left_part->picked.rows;
  }
  options.rows_at_once = options.rows_at_once && options.rows_at_once < most ? options.rows_at_once : most;
  adj_status status = open_join(c, &options, &knn);
  if (c->on_device) { /* trees have copies of the points */
    adji_gpu_pick_drop_points(&c->part->picked);
    adji_gpu_pick_drop_points(&c->left_part->picked);
  }
  while (!status && *row < end && pool_room(c) >= options.rows_at_once) {
    adji_knn_found found = {.knn = knn, .first = *row, .home = (uint32_t)c->part->piece};
    found.part = c->join.self_join ? c->part : c->left_part;
    if (c->on_device) found.numbers = found.part->picked.own_ids;
    uint64_t start = adji_now_ns();
    status = find_rows(c, knn, end, &found);
    if (status) break;
    if (found.end == end) {
      adji_gpu_knn_keep_table(knn);
      c->waiting = found;
      knn = NULL;
    } else {
      status = adji_knn_rows_fetch(c, &found, adji_knn_rows_take);
    }
    if (!status) status = adji_check_cancel(c->join.ctx);
    adji_trace(c->join.ctx, "join", 0, start, found.end - *row);
    c->run->batches++;
    *row = found.end;
  }
  if (status) adji_gpu_quiesce(c->gpu);
  adji_knn_chunks_close(c, knn);
  adji_knn_part_drop(c->part);
  adji_knn_part_drop(c->left_part);
  return status;
}

/* The first of the part's rows whose id is not below `row`. end: the number of all rows. Ids are read only if `row` is
 * neither 0 nor the end. */
static uint64_t first_at(const adji_knn_part *part, uint64_t row, uint64_t end) {
  uint64_t low = row < end ? 0 : part->rows, high = row ? part->rows : 0;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (part->ids[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Loads both parts of a left piece. *home: there are right points in its region. */
static adj_status fill_parts(adji_knn_chunks *c, uint64_t number, bool *home) {
  uint32_t region = c->left->each[number].region;
  uint64_t right = c->join.self_join ? number : c->right.of_region[region];
  *home = c->join.self_join || right < c->right.of_region[region + 1];
  adj_status status = *home ? adji_knn_part_fill(c, &c->right, right, c->part) : ADJ_OK;
  if (status || c->join.self_join) return status;
  return adji_knn_part_fill(c, c->left, number, c->left_part);
}

/* Chooses the parts that the waiting rows do not need. */
static void choose_parts(adji_knn_chunks *c) {
  bool second = c->waiting.knn && (c->waiting.part == &c->parts[0] || c->waiting.part == &c->left_parts[0]);
  c->part = &c->parts[second];
  c->left_part = &c->left_parts[second];
}

/* Makes as much room in the pool as possible, if it has less than `rows` rows need. */
static adj_status empty_pool(adji_knn_chunks *c, uint64_t rows) {
  if (pool_room(c) >= rows) return ADJ_OK;
  adj_status status = adji_knn_fetch_waiting(c);
  if (!status && pool_room(c) < rows) status = adji_knn_pool_flush(c); /* which reuses the part */
  return status;
}

/* Searches for those rows of a left piece that are in the window. */
static adj_status search_piece(adji_knn_chunks *c, uint64_t number) {
  const adji_window *window = c->pass->window;
  bool home;
  choose_parts(c);
  adj_status status = fill_parts(c, number, &home);
  if (status) return status;
  adji_knn_part *part = c->join.self_join ? c->part : c->left_part;
  uint64_t rows = c->join.left->count;
  if (window->first_row || window->end_row < rows || !home) status = adji_knn_part_ids(c, part);
  if (status) return status;
  uint64_t row = first_at(part, window->first_row, rows), end = first_at(part, window->end_row, rows);
  while (row < end && !status) {
    status = empty_pool(c, end - row);
    if (!status) status = fill_parts(c, number, &home);
    if (status) break;
    if (home) {
      status = search_rows(c, &row, end);
      continue;
    }
    for (uint64_t room = pool_room(c); row < end && room; row++, room--)
      adji_knn_pool_put(c, adji_knn_pool_reserve(c, 1), part->ids[row], UINT32_MAX, NULL, NULL, 0);
  }
  return status;
}

/* ---- The window -------------------------------------------------------------------------------------- */

static void free_buffers(adji_knn_chunks *c) {
  adji_knn_chunks_close(c, c->waiting.knn);
  c->waiting.knn = NULL;
  adji_knn_pool_close(c);
  adji_gather_clear(&c->right.gather);
  adji_gather_clear(&c->left_pieces.gather);
  adji_gather_clear(&c->inner_pieces.gather);
  for (int i = 0; i < 2; i++) {
    adji_knn_part_free(c, &c->parts[i]);
    adji_knn_part_free(c, &c->left_parts[i]);
  }
  adji_knn_release(c);
}

adj_status adji_knn_pieces_search(adji_knn_chunks *c, uint64_t first, uint64_t end) {
  const adji_window *window = c->pass->window;
  adj_status status = ADJ_OK;
  for (int i = 0; i < 2 && !status; i++) {
    status = adji_knn_part_open(c, &c->right, &c->parts[i]);
    if (!status && !c->join.self_join) status = adji_knn_part_open(c, c->left, &c->left_parts[i]);
  }
  if (!status) status = adji_knn_pool_open(c, window->end_row - window->first_row);
  c->last = false;
  for (uint64_t i = first; !status && i < end; i++) {
    status = search_piece(c, i);
    if (!status)
      status = adji_run_report(c->run, "join", 0.8 * (double)(i + 1) / (double)c->left->count,
                               c->run->tally.pairs + atomic_load(&c->pairs), false);
  }
  if (!status) status = adji_knn_fetch_waiting(c);
  c->last = c->devices == 1; /* other devices may still have regions to search */
  if (!status) status = adji_knn_pool_flush(c);
  free_buffers(c);
  return status;
}

/* Makes the regions. If the device picks them, the first device gets the points. If that fails, and there are other
 * devices, the host lists the points instead. */
static adj_status make_regions(adji_knn_chunks *c) {
  adj_status status = c->cuts.count ? ADJ_OK : adji_knn_regions_make(c);
  if (!status && c->on_device) status = adji_knn_hold(c);
  if (status != ADJ_E_DEVICE || c->devices == 1) return status;
  adji_log(c->join.ctx, ADJ_LOG_WARN, "%s picks no regions: %s", adji_gpu_worker_name(0), adj_last_error());
  c->on_device = false;
  return adji_knn_regions_make(c);
}

static adj_status fill_window(adji_knn_chunks *c) {
  atomic_store(&c->pairs, 0);
  c->prefaulted = false;
  adj_status status = make_regions(c);
  if (!status) adji_knn_pairs_open(c);
  if (!status && c->devices > 1) {
    status = prefault_window(c); /* before devices share the work, since it may overwrite rows */
    if (!status) status = adji_knn_share(c);
  } else if (!status) {
    status = adji_knn_pieces_search(c, 0, c->left->count);
  }
  if (!status) status = adji_knn_pairs_close(c);
  adji_knn_release(c);
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
  while (status == ADJ_E_DEVICE_MEMORY && (c->on_device || c->size / 2 >= ADJI_LEAST_CHUNK)) {
    if (!c->on_device) c->size /= 2;
    c->on_device = false;
    c->run->redone++;
    adji_knn_regions_clear(c);
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
  adji_knn_regions_clear(c);
  free(c);
}

bool adji_is_knn_chunks(const adji_worker *worker) {
  return worker->destroy == destroy;
}

uint64_t adji_knn_chunks_size(const adji_worker *worker) {
  return ((const adji_knn_chunks *)worker->state)->size;
}

adj_status adji_knn_chunks_create(const adji_gpu_knn_options *options, adji_knn_chunking chunking, adji_worker *out) {
  if (options->picks && !chunking.picks)
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "tuning: test.pick=on: the device has no room for all points, or regions are too small");
  adji_knn_chunks *c = aligned_alloc(ADJI_LINE, sizeof *c);
  if (!c) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  memset(c, 0, sizeof *c);
  c->join = *options->join;
  c->measure = c->sums = *options->measure;
  c->sums.report = ADJI_REPORT_SUM;
  c->rooted = c->measure.report == ADJI_REPORT_ROOT;
  c->options = *options;
  c->size = chunking.size;
  c->on_device = chunking.picks;
  c->type = adji_type_size(c->join.left->type);
  c->point = c->join.left->dim * c->type;
  c->devices = adji_gpu_worker_count(c->join.ctx);
  adj_status status = adji_gpu_of(c->join.ctx, &c->gpu);
  if (!status) status = adji_knn_regions_make(c);
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
