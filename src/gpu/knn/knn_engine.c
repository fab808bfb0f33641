/* SPDX-License-Identifier: MIT
 *
 * The engine of kNN joins on a GPU, through trees or by brute force: rows are found on the device, as many at once as
 * it has memory for, and stay there until they were fetched.
 */
#include "gpu/knn/knn_engine.h"

#ifdef ADJI_HAVE_CUDA

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/staging.h"
#include "gpu/knn/knn.h"

typedef struct knn_engine {
  adji_gpu *gpu;
  adji_gpu_knn *nearest;
  adji_join join;
  adji_device_stats told; /* of what the device did, until now */
} knn_engine;

/* What the device did since this was last asked. */
static void tell_work(knn_engine *e, adji_device_stats *to) {
  adji_device_stats now = adji_gpu_knn_work(e->nearest);
  adji_device_stats_report(&now, &e->told, to);
}

/* ---- Pairs ------------------------------------------------------------------------------------------- */

enum { ROWS_AT_ONCE = 1 << 14 };

typedef struct row_counter {
  const adji_table *table;
  _Atomic uint64_t pairs;
} row_counter;

static adj_status count_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  row_counter *c = user;
  const adji_table *t = c->table;
  uint64_t first = t->first_row + task * ROWS_AT_ONCE, end = first + ROWS_AT_ONCE, pairs = 0;
  for (uint64_t row = first; row < end && row < t->end_row; row++)
    pairs += adji_table_row_length(t->ids + (row - t->first_row) * t->k, t->k);
  atomic_fetch_add(&c->pairs, pairs);
  return ADJ_OK;
}

/* Without a radius, every row is as long as can be. */
static adj_status count_pairs(knn_engine *e, adji_run *run, const adji_table *table) {
  uint64_t rows = table->end_row - table->first_row;
  row_counter counter = {.table = table};
  adj_status status = ADJ_OK;
  if (e->join.limit < (double)INFINITY)
    status = adji_loop(e->join.ctx, (rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, count_some, &counter);
  else
    atomic_store(&counter.pairs, rows * adji_join_reach(&e->join));
  run->tally.pairs += atomic_load(&counter.pairs);
  uint64_t most = run->control.max_pairs;
  if (!status && most && run->tally.pairs > most)
    status =
        adji_fail(ADJ_E_LIMIT, "max_pairs: the result has more than the %llu pairs allowed", (unsigned long long)most);
  return status;
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

/* Ids and distances of the rows from first on, on the device and where they go. Returns how many arrays these are. */
static uint32_t arrays_of(const knn_engine *e, const adji_gpu_table *from, const adji_table *to, uint64_t first,
                          adji_array arrays[2]) {
  uint64_t size = adji_type_size(e->join.left->type);
  uint64_t there = (first - from->first_row) * to->k, here = (first - to->first_row) * to->k;
  arrays[0] = (adji_array){from->ids + there, to->ids + here, sizeof *to->ids};
  if (!to->distances) return 1;
  arrays[1] = (adji_array){(const char *)from->distances + there * size, (char *)to->distances + here * size, size};
  return 2;
}

/* Rows from row on, up to the last that is found with it. While the device computes, the lanes
 * touch the memory that the rows will go to: fresh memory takes as long to get as to copy to. */
static adj_status find_some(knn_engine *e, adji_run *run, const adji_table *table, uint64_t row, uint64_t *end) {
  adji_gpu_table found;
  adj_status status = adji_gpu_knn_begin(e->nearest, row, &found);
  if (status) return status;
  *end = found.end_row < table->end_row ? found.end_row : table->end_row;
  adji_array arrays[2];
  uint32_t count = arrays_of(e, &found, table, row, arrays);
  uint64_t entries = (*end - row) * table->k;
  status = adji_prefault_arrays(e->gpu, arrays, count, entries);
  adj_status ended = adji_gpu_knn_end(e->nearest);
  if (!status) status = ended;
  if (!status) status = adji_download_arrays(e->gpu, arrays, count, entries, &run->device);
  return status;
}

static adj_status find_rows(knn_engine *e, adji_run *run, const adji_table *table) {
  uint64_t before = adji_gpu_knn_effort_of(e->nearest).candidates, rows = table->end_row - table->first_row;
  adj_status status = ADJ_OK;
  for (uint64_t row = table->first_row; row < table->end_row && !status;) {
    uint64_t begin = adji_now_ns(), end = row;
    status = find_some(e, run, table, row, &end);
    adji_trace(e->join.ctx, "join", 0, begin, end - row);
    run->batches++;
    row = end;
    if (!status) status = adji_check_cancel(e->join.ctx);
    if (!status)
      status = adji_run_report(run, "join", (double)(row - table->first_row) / (double)rows, run->tally.pairs, false);
  }
  run->tally.candidates += adji_gpu_knn_effort_of(e->nearest).candidates - before;
  tell_work(e, &run->device);
  return status;
}

static adj_status knn_rows(void *state, adji_run *run, const adji_table *table) {
  knn_engine *e = state;
  adji_gpu_lock(e->gpu);
  adj_status status = find_rows(e, run, table);
  adji_gpu_unlock(e->gpu);
  return status ? status : count_pairs(e, run, table);
}

static void knn_destroy(void *state) {
  knn_engine *e = state;
  adji_gpu_lock(e->gpu);
  adji_gpu_knn_close(e->nearest);
  adji_gpu_unlock(e->gpu);
  free(e);
}

adj_status adji_gpu_knn_adopt(const adji_join *join, struct adji_gpu *gpu, struct adji_gpu_knn *nearest,
                              adji_engine *out) {
  knn_engine *e = calloc(1, sizeof *e);
  if (!e) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  *e = (knn_engine){.gpu = gpu, .nearest = nearest, .join = *join};
  *out = (adji_engine){.state = e, .nearest = knn_rows, .destroy = knn_destroy};
  return ADJ_OK;
}

/* Up to so many queries, brute force reads the points once, and building a tree reads them many times. */
enum { FEW_QUERIES = 16 };

static adj_status check_choice(const adji_knn_request *request) {
  if (request->brute && !adji_select_takes(request->choice.select, request->join->k))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "tuning: of test.select= only radix, sample and sort are for k above %d, which is %u",
                     (int)ADJI_SELECT_MOST, request->join->k);
  return ADJ_OK;
}

adj_status adji_gpu_knn_choose(adji_knn_request *request, adji_algorithm algorithm, const char **reason) {
  bool can = adji_gpu_knn_can(request->join, request->measure), few = request->join->left->count <= FEW_QUERIES;
  if (algorithm && algorithm != ADJI_ALGORITHM_BRUTE && !can)
    return adji_fail(
        ADJ_E_UNSUPPORTED,
        "algorithm: on a GPU trees and grids are for up to six dimensions, and for L2, L1 and Linf (and what is "
        "computed from these); \"brute\" is for all others");
  request->brute = algorithm ? algorithm == ADJI_ALGORITHM_BRUTE : few || !can;
  request->grid.use = algorithm == ADJI_ALGORITHM_GRID;
  *reason = request->grid.use ? "asked for; queries that find too few are searched for in wider cells, or in a tree"
            : algorithm       ? "asked for"
            : !request->brute ? "in few dimensions a tree leaves few candidates"
            : !can            ? "trees on a GPU are for up to six dimensions, and L2, L1 and Linf"
                              : "for few queries a tree is not worth building";
  return check_choice(request);
}

adj_status adji_gpu_knn_create(const adji_knn_request *request, adji_engine *out) {
  const adji_join *join = request->join;
  knn_engine *e = calloc(1, sizeof *e);
  if (!e) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  e->join = *join;
  adj_status status = adji_gpu_of(join->ctx, &e->gpu);
  adji_gpu_knn_options options = {.join = join,
                                  .measure = request->measure,
                                  .rows_at_once = request->rows_at_once,
                                  .budget = request->budget,
                                  .blocks = request->blocks,
                                  .alone = request->alone,
                                  .together = request->together,
                                  .cut = request->cut,
                                  .brute = request->brute ? &request->choice : NULL,
                                  .grid = request->grid};
  if (!status) {
    adji_gpu_lock(e->gpu);
    status = adji_gpu_knn_open(e->gpu, &options, &e->nearest);
    adji_gpu_unlock(e->gpu);
  }
  if (status) {
    free(e);
    return status;
  }
  *out = (adji_engine){.state = e, .nearest = knn_rows, .destroy = knn_destroy};
  return ADJ_OK;
}

uint64_t adji_gpu_knn_engine_chunk(const adji_engine *engine) {
  return adji_gpu_knn_chunk(((const knn_engine *)engine->state)->nearest);
}

#else

adj_status adji_gpu_knn_choose(adji_knn_request *request, adji_algorithm algorithm, const char **reason) {
  (void)request;
  (void)algorithm;
  (void)reason;
  return adji_gpu_missing();
}

adj_status adji_gpu_knn_create(const adji_knn_request *request, adji_engine *out) {
  (void)request;
  (void)out;
  return adji_gpu_missing();
}

uint64_t adji_gpu_knn_engine_chunk(const adji_engine *engine) {
  (void)engine;
  return 0;
}

#endif
