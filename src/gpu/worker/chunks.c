/* SPDX-License-Identifier: MIT
 *
 * Joins in chunks: the join of two chunks, counts, estimates, and the worker.
 *
 * In a self-join, a chunk with itself is a self-join too, which drops the same pairs as the whole join. A chunk with
 * another one is a join of two sets that drops nothing: no id is that of the row. If only ids above the row's are
 * wanted, all ids of a later chunk are, and none of an earlier chunk.
 */
#include "gpu/worker/chunks.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/worker/chunks_private.h"
#include "gpu/worker/devices.h"
#include "gpu/worker/divide.h"
#include "result/offsets.h"

/* About how many right chunks an estimate samples. */
enum { MOST_SAMPLED = 16 };

/* Smaller chunks are not tried: a device without room for them has no room for any join. */
enum { LEAST_SIZE = 256 };

/* ---- Chunks --------------------------------------------------------------------------------------------- */

uint64_t adji_chunk_count(const adji_chunks *c, const adj_dataset *set) {
  return (set->count + c->size - 1) / c->size;
}

adji_chunk adji_chunk_at(const adji_chunks *c, const adj_dataset *set, uint64_t i) {
  uint64_t first = i * c->size;
  return (adji_chunk){first, set->count - first < c->size ? set->count : first + c->size};
}

bool adji_chunk_own(const adji_chunks *c, adji_chunk rows, adji_chunk ids) {
  return c->join.self_join && rows.first >= ids.first && rows.end <= ids.end;
}

bool adji_chunk_skipped(const adji_chunks *c, adji_chunk rows, adji_chunk ids) {
  return c->join.style.one_way && ids.end <= rows.first;
}

bool adji_chunks_shrink(adji_chunks *c, adj_status status) {
  if (status != ADJ_E_DEVICE_MEMORY || c->size / 2 < LEAST_SIZE) return false;
  c->size = (c->size + 1) / 2;
  adji_chunk_regions_free(c);
  return true;
}

/* ---- Joins of two chunks ---------------------------------------------------------------------------------- */

/* A view of some rows of a set. It owns nothing. */
static adj_dataset view_of(const adj_dataset *set, adji_chunk rows) {
  adj_dataset view = *set;
  view.data = set->count ? set->data + rows.first * set->row_stride : set->data;
  view.count = rows.end - rows.first;
  view.label_text = NULL;
  view.label_ends = NULL;
  view.release = NULL;
  return view;
}

adj_status adji_chunk_open(adji_chunks *c, uint32_t device, adji_chunk rows, adji_chunk ids, adji_chunk_pair *p) {
  adj_status status = adji_check_cancel(c->join.ctx);
  if (status) return status;
  bool own = adji_chunk_own(c, rows, ids);
  *p = (adji_chunk_pair){.rows = own ? ids : rows, .ids = ids};
  p->left = view_of(c->join.left, p->rows);
  p->right = view_of(c->join.right, p->ids);
  adji_join join = c->join;
  join.self_join = own;
  join.left = &p->left;
  join.right = own ? &p->left : &p->right;
  join.style = c->style;
  join.style.drop_self = own && c->join.style.drop_self;
  join.style.one_way = own && c->join.style.one_way;
  adji_worker worker;
  status = c->source.open(c->source.state, device, &join, &worker);
  if (!status) adji_engine_init(&p->engine, &join, &worker);
  return status;
}

void adji_chunk_close(adji_chunk_pair *p) {
  adji_engine_clear(&p->engine);
}

/* ---- Count ---------------------------------------------------------------------------------------------------- */

/* The state of one device that counts. */
typedef struct counting {
  adji_chunks *c;
  uint32_t device;
  adji_inner_run run;
  uint32_t *degrees;       /* of all rows; may be NULL */
  uint32_t *chunk_degrees; /* of a chunk; NULL if degrees is NULL */
  uint64_t pairs;
} counting;

typedef struct addition {
  uint32_t *to;
  const uint32_t *more;
} addition;

static void add_some(void *user, uint64_t begin, uint64_t end) {
  const addition *a = user;
  for (uint64_t i = begin; i < end; i++)
    a->to[i] += a->more[i];
}

static adj_status count_pair(counting *counter, adji_chunk rows, adji_chunk ids) {
  adji_chunk_pair pair;
  uint64_t pairs = 0;
  adj_status status = adji_chunk_open(counter->c, counter->device, rows, ids, &pair);
  if (status) return status;
  status = adji_engine_count(&pair.engine, &counter->run.run, counter->chunk_degrees, &pairs);
  adji_chunk_close(&pair);
  counter->pairs += pairs;
  if (!status) status = adji_run_check_pairs(counter->run.whole, counter->pairs);
  if (status || !counter->degrees) return status;
  addition a = {counter->degrees + rows.first, counter->chunk_degrees};
  return adji_each_row(counter->c->join.ctx, rows.end - rows.first, add_some, &a);
}

/* Counts a left chunk with all right chunks. */
static adj_status count_chunk(counting *counter, uint64_t i) {
  adji_chunks *c = counter->c;
  uint64_t rights = adji_chunk_count(c, c->join.right);
  adji_chunk rows = adji_chunk_at(c, c->join.left, i);
  adj_status status = ADJ_OK;
  if (counter->degrees) memset(counter->degrees + rows.first, 0, (rows.end - rows.first) * sizeof *counter->degrees);
  for (uint64_t j = 0; j < rights && !status; j++) {
    adji_chunk ids = adji_chunk_at(c, c->join.right, j);
    adji_inner_run_next(&counter->run, (double)i * (double)rights + (double)j, 1, counter->pairs);
    if (!adji_chunk_skipped(c, rows, ids)) status = count_pair(counter, rows, ids);
  }
  return status;
}

/* Counts left chunks first .. end - 1. After a failure another device counts them. */
static adj_status count_some(void *state, uint32_t device, uint64_t first, uint64_t end, adji_tally *tally) {
  counting *counter = (counting *)state + device;
  uint64_t before = counter->pairs;
  adj_status status = ADJ_OK;
  for (uint64_t i = first; i < end && !status; i++)
    status = count_chunk(counter, i);
  if (status) counter->pairs = before;
  tally->pairs += counter->pairs - before;
  return status;
}

uint64_t adji_chunk_queries(const void *state, uint64_t i) {
  const adji_chunks *c = *(adji_chunks *const *)state;
  adji_chunk rows = adji_chunk_at(c, c->join.left, i);
  return rows.end - rows.first;
}

static adj_status count_all(counting *each, adji_run *run) {
  adji_chunks *c = each->c;
  uint64_t lefts = adji_chunk_count(c, c->join.left);
  adji_tally tally = {0};
  for (uint32_t i = 0; i < c->source.devices; i++) {
    each[i].pairs = 0;
    each[i].run.all = (double)lefts * (double)adji_chunk_count(c, c->join.right);
  }
  adji_division shared = {.state = each,
                          .name = "count",
                          .parts = lefts,
                          .queries = adji_chunk_queries,
                          .devices = c->source.devices,
                          .takes = ADJI_CHUNK_TAKES,
                          .work = count_some};
  return shared.devices > 1 ? adji_divide(&shared, run, &tally) : count_some(each, 0, 0, lefts, &tally);
}

static adj_status count_chunks(adji_chunks *c, adji_run *run, uint32_t *degrees, adji_tally *tally) {
  adji_memory *memory = &c->join.ctx->memory;
  uint64_t rows = c->join.left->count < c->size ? c->join.left->count : c->size;
  counting each[ADJI_MOST_GPUS] = {{.c = c}};
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < c->source.devices; i++) {
    each[i] = (counting){.c = c, .device = i, .degrees = degrees};
    adji_inner_run_begin(&each[i].run, run, "count");
    if (c->source.devices > 1) each[i].run.run.control.progress = NULL; /* the devices report it together */
    if (degrees) each[i].chunk_degrees = adji_alloc(memory, rows, sizeof *degrees, "counts of a chunk");
    if (degrees && !each[i].chunk_degrees) status = ADJ_E_MEMORY;
  }
  if (!status) status = count_all(each, run);
  while (adji_chunks_shrink(c, status)) {
    run->redone++;
    status = count_all(each, run);
  }
  for (uint32_t i = 0; i < c->source.devices; i++) {
    adji_inner_run_end(&each[i].run, tally);
    adji_free(memory, each[i].chunk_degrees);
    tally->pairs += each[i].pairs;
  }
  return status ? status : adji_run_check_pairs(run, tally->pairs);
}

/* Counts by regions, as long as these can be used. */
static adj_status count(adji_chunks *c, adji_run *run, uint32_t *degrees, adji_tally *tally) {
  adj_status status = adji_chunk_regions_make(c);
  while (!status && c->by_region) {
    status = adji_regions_count(c, run, degrees, tally);
    if (!adji_chunks_shrink(c, status)) return status;
    run->redone++;
    status = adji_chunk_regions_make(c);
  }
  return status ? status : count_chunks(c, run, degrees, tally);
}

/* ---- Estimate --------------------------------------------------------------------------------------------------- */

static adj_status estimate_on(adji_chunks *c, uint32_t device, const adji_chunk chunks[2], uint64_t sample,
                              double *pairs, double *candidates) {
  adji_chunk_pair pair;
  adj_status status = adji_chunk_open(c, device, chunks[0], chunks[1], &pair);
  if (status) return status;
  status = c->source.estimate(&pair.engine.workers[0], sample, pairs, candidates);
  uint64_t cells = status ? 0 : c->source.cells(&pair.engine.workers[0]);
  if (cells > c->cells) c->cells = cells;
  adji_chunk_close(&pair);
  return status;
}

/* Estimates by the first device, or by another one if that fails. chunks: a left and a right one. */
static adj_status estimate_pair(adji_chunks *c, const adji_chunk chunks[2], uint64_t sample, double *pairs,
                                double *candidates) {
  adj_status status = estimate_on(c, 0, chunks, sample, pairs, candidates);
  for (uint32_t device = 1; status == ADJ_E_DEVICE && device < c->source.devices; device++) {
    adji_log(c->join.ctx, ADJ_LOG_WARN, "%s makes no estimate: %s", adji_gpu_worker_name(device - 1), adj_last_error());
    status = estimate_on(c, device, chunks, sample, pairs, candidates);
  }
  return status;
}

/* A chunk with itself stands only for itself, since neighbours may be close in the order of the rows. Of many other
 * chunks, some stand for all. */
static adj_status estimate_chunks(adji_chunks *c, uint64_t sample, double *pairs, double *candidates) {
  uint64_t lefts = adji_chunk_count(c, c->join.left), rights = adji_chunk_count(c, c->join.right);
  uint64_t every = rights / MOST_SAMPLED + 1;
  *pairs = *candidates = 0;
  c->cells = 0;
  if (!lefts) return ADJ_OK;
  adji_chunk rows = adji_chunk_at(c, c->join.left, lefts / 2);
  double scale = (double)c->join.left->count / (double)(rows.end - rows.first);
  adj_status status = ADJ_OK;
  for (uint64_t j = 0; j < rights && !status; j++) {
    adji_chunk ids = adji_chunk_at(c, c->join.right, j);
    bool own = adji_chunk_own(c, rows, ids);
    if (adji_chunk_skipped(c, rows, ids) || (!own && j % every != every / 2)) continue;
    double found = 0, compared = 0, weight = own ? scale : scale * (double)every;
    status = estimate_pair(c, (adji_chunk[2]){rows, ids}, sample, &found, &compared);
    *pairs += found * weight;
    *candidates += compared * weight;
  }
  return status;
}

static adj_status estimate_all(adji_chunks *c, uint64_t sample, double *pairs, double *candidates) {
  adj_status status = adji_chunk_regions_make(c);
  if (status) return status;
  return (c->by_region ? adji_regions_estimate : estimate_chunks)(c, sample, pairs, candidates);
}

adj_status adji_chunks_estimate(adji_worker *worker, uint64_t sample, double *pairs, double *candidates) {
  adji_chunks *c = worker->state;
  adj_status status = estimate_all(c, sample, pairs, candidates);
  while (adji_chunks_shrink(c, status))
    status = estimate_all(c, sample, pairs, candidates);
  return status;
}

uint64_t adji_chunks_cells(const adji_worker *worker) {
  return ((const adji_chunks *)worker->state)->cells;
}

uint64_t adji_chunks_size(const adji_worker *worker) {
  return ((const adji_chunks *)worker->state)->size;
}

/* ---- Making it --------------------------------------------------------------------------------------------------- */

static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  adji_chunks *c = state;
  c->run = run;
  c->pass = pass;
  return ADJ_OK;
}

static adj_status fill(adji_chunks *c, adji_run *run, const adji_window *window, adji_tally *tally) {
  adj_status status = adji_chunk_regions_make(c);
  while (!status && c->by_region) {
    status = adji_regions_fill(c, run, window, tally);
    if (!adji_chunks_shrink(c, status)) return status;
    run->redone++;
    status = adji_chunk_regions_make(c);
  }
  return status ? status : adji_chunks_fill(c, run, window, tally);
}

static adj_status alone(void *state, adji_tally *tally) {
  adji_chunks *c = state;
  if (!c->join.left->count) return ADJ_OK;
  return c->pass->kind == ADJI_PASS_COUNT ? count(c, c->run, c->pass->degrees, tally)
                                          : fill(c, c->run, c->pass->window, tally);
}

static void destroy(void *state) {
  adji_chunks *c = state;
  adji_chunk_regions_free(c);
  c->source.destroy(c->source.state);
  free(c);
}

bool adji_is_chunks(const adji_worker *worker) {
  return worker->destroy == destroy;
}

adj_status adji_chunks_use_regions(adji_worker *worker) {
  adji_chunks *c = worker->state;
  c->try_regions = true;
  return adji_chunk_regions_make(c);
}

bool adji_chunks_has_regions(const adji_worker *worker) {
  return ((const adji_chunks *)worker->state)->by_region;
}

adj_status adji_chunks_create(const adji_join *join, const adji_chunk_source *source, uint64_t size, adji_worker *out) {
  adji_chunks *c = calloc(1, sizeof *c);
  if (!c) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  c->join = *join;
  c->source = *source;
  if (!c->source.devices) c->source.devices = 1;
  c->size = size;
  c->style = join->style;
  if (join->style.order == ADJ_ORDER_DISTANCE) {
    c->sums = *join->style.measure;
    c->sums.report = ADJI_REPORT_SUM;
    c->style.measure = &c->sums;
    c->style.order = ADJ_ORDER_ANY;
    c->style.distances = true;
  }
  *out = (adji_worker){.state = c,
                       .name = adji_gpu_worker_name(0),
                       .is_device = true,
                       .large_windows = true,
                       .begin = begin,
                       .alone = alone,
                       .destroy = destroy};
  return ADJ_OK;
}
