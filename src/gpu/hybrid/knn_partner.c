/* SPDX-License-Identifier: MIT
 *
 * A GPU that takes part in a kNN join of the cores: the worker of gpu/hybrid/knn_worker.h on a real device.
 */
#include "gpu/hybrid/knn_partner.h"

/* Figures have these names, and outlive a plan. */
const char *adji_gpu_partner_name(uint32_t number) {
  static const char *const names[ADJI_MOST_GPUS] = {"gpu 0", "gpu 1", "gpu 2", "gpu 3",
                                                    "gpu 4", "gpu 5", "gpu 6", "gpu 7"};
  return names[number];
}

#ifdef ADJI_HAVE_CUDA

#include <math.h>
#include <stdlib.h>

#include "gpu/device/staging.h"
#include "gpu/hybrid/knn_worker.h"

/* Bytes of the device for the rows of a list. */
static const uint64_t LIST_BYTES = (uint64_t)512 << 20;

typedef struct partner {
  adji_gpu *gpu;
  adji_gpu_knn *nearest;
  adji_join join;
  adji_list_device device;
  adji_knn_worker worker;
  uint64_t rows_at_once;  /* asked for; 0: as many as a list takes */
  uint32_t *missed;       /* queries of a list that the grid has no rows of; NULL: there is no grid */
  adji_device_stats told; /* of what the device did, until now     */
} partner;

/* ---- What the worker asks for ----------------------------------------------------------------------------- */

static adj_status ask_list(void *state, const adji_batch *ranges, uint64_t count, uint32_t slot, uint64_t *rows) {
  partner *p = state;
  return adji_gpu_knn_list(p->nearest, ranges, count, slot, p->join.ctx->threads, rows);
}
static adj_status ask_listed(void *state, uint32_t slot, uint64_t *candidates) {
  return adji_gpu_knn_listed(((partner *)state)->nearest, slot, candidates);
}
static adj_status ask_fetch(void *state, uint32_t slot, uint64_t first, uint64_t rows, uint32_t lane) {
  partner *p = state;
  bool distances = p->worker.table->distances != NULL;
  return adji_gpu_knn_fetch(p->nearest, slot, first, rows, distances, adji_staging_of(p->join.ctx, lane));
}
static adj_status ask_wait(void *state, uint32_t lane) {
  partner *p = state;
  return adji_staging_wait(p->gpu, adji_staging_of(p->join.ctx, lane));
}
static const void *ask_buffer(void *state, uint32_t lane) {
  partner *p = state;
  return adji_staging_at(p->gpu, adji_staging_of(p->join.ctx, lane));
}
static adj_status ask_missed(void *state, uint32_t slot, const uint32_t **positions, uint64_t *count) {
  partner *p = state;
  *positions = p->missed;
  return adji_gpu_knn_missed(p->nearest, slot, p->missed, count);
}
static void ask_settle(void *state) {
  adji_gpu_quiesce(((partner *)state)->gpu);
}

/* ---- Passes --------------------------------------------------------------------------------------------- */

static uint64_t queries_a_list(const partner *p) {
  uint64_t row = (uint64_t)p->join.k * (4 + adji_type_size(p->join.left->type)) + 16, queries = LIST_BYTES / row + 1;
  if (queries > p->join.left->count) queries = p->join.left->count + 1;
  return p->rows_at_once && p->rows_at_once < queries ? p->rows_at_once : queries;
}

static adj_status make_missed(partner *p) {
  if (!p->device.missed) return ADJ_OK;
  p->missed = adji_alloc(&p->join.ctx->memory, p->worker.list_queries, sizeof *p->missed, "list of queries");
  if (p->missed) return ADJ_OK;
  adji_knn_worker_end(&p->worker, &(adji_device_stats){0});
  return ADJ_E_MEMORY;
}

static void free_missed(partner *p) {
  adji_free(&p->join.ctx->memory, p->missed);
  p->missed = NULL;
}

static adj_status begin_pass(void *state, const adji_shared_work *work) {
  partner *p = state;
  const adji_table *table = work->table;
  p->worker.table = table;
  p->worker.order = work->order;
  p->worker.group = work->group;
  p->worker.list_queries = queries_a_list(p);
  adj_status status = adji_knn_worker_begin(&p->worker);
  if (!status) status = make_missed(p);
  if (status) return status;
  adji_gpu_lock(p->gpu); /* until the pass is over: whoever has the team must not wait for the device */
  status = adji_staging_open(p->gpu, p->join.ctx->threads + 1);
  if (!status) status = adji_gpu_knn_begin_lists(p->nearest, table->first_row, table->end_row, &p->worker.list_queries);
  if (!status) return ADJ_OK;
  adji_gpu_unlock(p->gpu);
  free_missed(p);
  adji_knn_worker_end(&p->worker, &(adji_device_stats){0});
  return status;
}

static adj_status drain(void *state, adji_help *help) {
  partner *p = state;
  adji_gpu_use(p->gpu);
  return adji_knn_worker_drain(&p->worker, help);
}

/* What the device did since this was last asked. */
static void tell_work(partner *p, adji_device_stats *to) {
  adji_device_stats now = adji_gpu_knn_work(p->nearest);
  adji_device_stats_report(&now, &p->told, to);
}

static void end_pass(void *state, adji_device_stats *work) {
  partner *p = state;
  adji_gpu_knn_end_lists(p->nearest);
  tell_work(p, work);
  adji_gpu_unlock(p->gpu);
  free_missed(p);
  adji_knn_worker_end(&p->worker, work);
}

static void destroy(void *state) {
  partner *p = state;
  if (!p) return;
  adji_gpu_lock(p->gpu);
  adji_gpu_knn_close(p->nearest);
  adji_gpu_unlock(p->gpu);
  free(p);
}

/* ---- Making it ---------------------------------------------------------------------------------------- */

adj_status adji_gpu_partner_can(const adji_knn_request *request) {
  if (!adji_gpu_knn_can(request->join, request->measure))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "cores and a GPU share joins in up to six dimensions, by L2, L1 and Linf (and by what is computed "
                     "from these)");
  if (!adji_knn_worker_can(request->join, ADJI_STAGE_BYTES))
    return adji_fail(ADJ_E_UNSUPPORTED, "rows of %u neighbours are too large for the buffers of a GPU",
                     request->join->k);
  return ADJ_OK;
}

static adj_status open_device(partner *p, const adji_knn_request *request, uint32_t number) {
  adj_status status = adji_gpu_at(p->join.ctx, number, &p->gpu);
  if (status) return status;
  adji_gpu_knn_options options = {.join = request->join,
                                  .measure = request->measure,
                                  .rows_at_once = request->rows_at_once,
                                  .budget = request->budget,
                                  .blocks = request->blocks,
                                  .alone = request->alone,
                                  .together = request->together,
                                  .cut = request->cut,
                                  .grid = request->grid};
  adji_gpu_lock(p->gpu);
  status = adji_gpu_knn_open(p->gpu, &options, &p->nearest);
  adji_gpu_unlock(p->gpu);
  return status;
}

bool adji_gpu_partner_there(adj_ctx *ctx) {
  uint32_t count = 0;
  return !adji_gpu_count(ctx, &count) && count;
}

uint32_t adji_gpu_partner_count(adj_ctx *ctx) {
  uint32_t count = 0;
  return adji_gpu_count(ctx, &count) || !count ? 1 : count;
}

adj_status adji_gpu_partner_create(const adji_knn_request *request, uint32_t number, adji_partner *out) {
  partner *p = calloc(1, sizeof *p);
  if (!p) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  p->join = *request->join;
  p->rows_at_once = request->rows_at_once;
  p->device = (adji_list_device){p,        ask_list,   ask_listed, ask_fetch,
                                 ask_wait, ask_buffer, ask_settle, request->grid.use ? ask_missed : NULL};
  p->worker.device = &p->device;
  p->worker.join = &p->join;
  p->worker.list_ranges = ADJI_MOST_RANGES;
  p->worker.buffer_bytes = ADJI_STAGE_BYTES;
  adj_status status = open_device(p, request, number);
  if (status) {
    free(p);
    return status;
  }
  *out = (adji_partner){p, adji_gpu_partner_name(number), begin_pass, drain, end_pass, destroy, NULL, NULL, NULL};
  return ADJ_OK;
}

adj_status adji_gpu_partner_follow(adji_partner *made, const uint32_t *rows) {
  partner *p = made->state;
  adji_gpu_lock(p->gpu);
  adj_status status = adji_gpu_knn_follow(p->nearest, rows);
  if (!status) status = adji_gpu_wait(p->gpu);
  adji_gpu_unlock(p->gpu);
  return status;
}

/* The time of up to so many queries; *queries: how many they were. */
static adj_status time_some(partner *p, uint64_t *queries, double *seconds) {
  uint64_t rows, candidates, many = adji_list_sample(p->join.left->count, *queries, p->worker.ranges, queries);
  uint64_t begin = adji_now_ns();
  adj_status status = adji_gpu_knn_list(p->nearest, p->worker.ranges, many, 0, p->join.ctx->threads, &rows);
  if (!status) status = adji_gpu_knn_listed(p->nearest, 0, &candidates);
  *seconds = (double)(adji_now_ns() - begin) * 1e-9;
  return status;
}

/* A quarter of the queries first: what the others take beyond that is what more of them would take, for a few do not
 * keep a device busy. */
static adj_status try_list(partner *p, uint64_t queries, double *seconds) {
  uint64_t count = p->join.left->count;
  if (queries > count) queries = count;
  adj_status status = adji_staging_open(p->gpu, p->join.ctx->threads + 1);
  if (!status) status = adji_gpu_knn_begin_lists(p->nearest, 0, count, &queries); /* or fewer */
  if (status) return status;
  uint64_t few = queries / 4 + 1;
  double first, all;
  status = time_some(p, &few, &first);
  if (!status) status = time_some(p, &queries, &all);
  if (status)
    adji_gpu_quiesce(p->gpu);
  else
    *seconds = all + fmax(all - first, all / 8) * (double)(count - queries) / fmax((double)queries - (double)few, 1);
  adji_gpu_knn_end_lists(p->nearest);
  return status;
}

static double copy_seconds(const partner *p) {
  double entry = 4 + (p->join.style.distances ? (double)adji_type_size(p->join.left->type) : 0);
  return (double)p->join.left->count * p->join.k * entry / p->join.ctx->costs.copy_rate;
}

adj_status adji_gpu_partner_try(adji_partner *made, uint64_t queries, double *seconds) {
  partner *p = made->state;
  *seconds = 0;
  if (!p->join.left->count) return ADJ_OK;
  adj_status status = adji_knn_worker_begin(&p->worker);
  if (status) return status;
  adji_gpu_lock(p->gpu);
  status = try_list(p, queries, seconds);
  adji_gpu_unlock(p->gpu);
  adji_knn_worker_end(&p->worker, &(adji_device_stats){0});
  *seconds += copy_seconds(p);
  return status;
}

double adji_gpu_partner_guess(const adji_partner *made, double searches) {
  const partner *p = made->state;
  double points = (double)p->join.right->count + (p->join.self_join ? 0 : (double)p->join.left->count);
  return searches * points * p->join.ctx->costs.device_tree_ns * 1e-9 / adji_gpu_multiprocessors(p->gpu) +
         copy_seconds(p);
}

adj_status adji_gpu_partner_alone(adji_partner *made, adji_engine *out) {
  partner *p = made->state;
  adj_status status = adji_gpu_knn_adopt(&p->join, p->gpu, p->nearest, out);
  if (status) return status;
  *made = (adji_partner){0};
  free(p);
  return ADJ_OK;
}

#else

/* What it cannot do is no matter where there is no device: that is what will be told. */
adj_status adji_gpu_partner_can(const adji_knn_request *request) {
  (void)request;
  return ADJ_OK;
}

bool adji_gpu_partner_there(adj_ctx *ctx) {
  (void)ctx;
  return false;
}

uint32_t adji_gpu_partner_count(adj_ctx *ctx) {
  (void)ctx;
  return 1;
}

adj_status adji_gpu_partner_create(const adji_knn_request *request, uint32_t number, adji_partner *out) {
  (void)request;
  (void)number;
  (void)out;
  return adji_gpu_missing();
}

adj_status adji_gpu_partner_follow(adji_partner *partner, const uint32_t *rows) {
  (void)partner;
  (void)rows;
  return adji_gpu_missing();
}

adj_status adji_gpu_partner_try(adji_partner *partner, uint64_t queries, double *seconds) {
  (void)partner;
  (void)queries;
  (void)seconds;
  return adji_gpu_missing();
}

double adji_gpu_partner_guess(const adji_partner *partner, double searches) {
  (void)partner;
  (void)searches;
  return 0;
}

adj_status adji_gpu_partner_alone(adji_partner *partner, adji_engine *out) {
  (void)partner;
  (void)out;
  return adji_gpu_missing();
}

#endif
