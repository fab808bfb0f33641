/* SPDX-License-Identifier: MIT
 *
 * The kNN join on cores: the queue of batches, and the pass that fills the table.
 *
 * A group is the queries of one leaf. It looks for its neighbours together (cpu/knn_group.c): the
 * tree is searched once for all of them, and what is loaded serves all of them.
 */
#include "cpu/knn.h"

#include <math.h>
#include <stdlib.h>

#include "cpu/knn_group.h"
#include "queue/partners.h"

typedef struct knn_engine {
  adji_join join;
  adji_knn_options options;
  adji_queue queue;
  /* Of the pass at work. */
  const adji_table *table;
  adji_knn_group *groups; /* one per lane */
  adji_partners partners;
} knn_engine;

/* ---- The queue -------------------------------------------------------------------------------------- */

/* Queries in batches of 0.5 %, and of a quarter of that for the last 5 %, so that the lanes finish together
 * (papers on hybrid kNN joins, "work queue"). */
static adj_status fill_plain_queue(knn_engine *e) {
  const adji_tree *left = e->options.left;
  uint64_t leaves = left->levels ? left->level[0].count : 0, each = e->options.batch / left->leaf;
  if (!e->options.batch) each = leaves / 200;
  if (!each) each = 1;
  adj_status status = adji_queue_init(&e->queue, e->join.ctx, leaves / each + 64);
  e->queue.round_robin = e->options.round_robin;
  for (uint64_t first = 0; first < leaves && !status;) {
    uint64_t many = !e->options.batch && first > leaves / 20 * 19 && each >= 4 ? each / 4 : each;
    uint64_t end = first + many < leaves ? first + many : leaves, points = end * left->leaf;
    if (points > left->count) points = left->count;
    adji_batch batch = {(uint32_t)(first * left->leaf), (uint32_t)points, 0};
    batch.work = batch.end - batch.begin;
    status = adji_queue_add(&e->queue, batch);
    first = end;
  }
  return status;
}

/* Beside devices: small enough that the cores are done together whatever a device leaves to them. */
enum { SHARED_BATCH = 1024, SHARED_BATCHES = 2048 };

static double bound_of(const adji_tree *tree, uint64_t leaf, uint32_t dim, bool high) {
  uint64_t at = leaf / ADJI_FAN * 2 * tree->dim * ADJI_FAN + (2 * (uint64_t)dim + high) * ADJI_FAN + leaf % ADJI_FAN;
  const void *bounds = tree->level[0].bounds;
  return tree->type == ADJ_F64 ? ((const double *)bounds)[at] : (double)((const float *)bounds)[at];
}

/* The volume of the box around some leaves. */
static double volume_of(const adji_tree *tree, uint64_t first, uint64_t end) {
  double volume = 1;
  for (uint32_t j = 0; j < tree->dim; j++) {
    double low = bound_of(tree, first, j, false), high = bound_of(tree, first, j, true);
    for (uint64_t leaf = first + 1; leaf < end; leaf++) {
      low = fmin(low, bound_of(tree, leaf, j, false));
      high = fmax(high, bound_of(tree, leaf, j, true));
    }
    volume *= high - low;
  }
  return volume;
}

static adj_status add_batches(knn_engine *e, uint64_t each, double *densities) {
  const adji_tree *left = e->options.left;
  uint64_t leaves = left->levels ? left->level[0].count : 0, count = 0;
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; first < leaves && !status; first += each) {
    uint64_t end = first + each < leaves ? first + each : leaves, points = end * left->leaf;
    if (points > left->count) points = left->count;
    adji_batch batch = {(uint32_t)(first * left->leaf), (uint32_t)points, 0};
    batch.work = batch.end - batch.begin;
    densities[count++] = batch.work / volume_of(left, first, end);
    status = adji_queue_add(&e->queue, batch);
  }
  return status;
}

/* Batches of up to 1,024 queries, densest first (HybridKNN-Join 4.3), and in the order of the tree where they are about
 * as dense. */
static adj_status fill_shared_queue(knn_engine *e) {
  const adji_tree *left = e->options.left;
  adji_memory *memory = &e->join.ctx->memory;
  uint64_t leaves = left->levels ? left->level[0].count : 0;
  uint64_t wanted = left->count / SHARED_BATCHES < SHARED_BATCH ? left->count / SHARED_BATCHES : SHARED_BATCH;
  uint64_t each = (e->options.batch ? e->options.batch : wanted) / left->leaf;
  if (!each) each = 1;
  uint64_t count = leaves / each + 1;
  double *densities = adji_alloc(memory, count, sizeof *densities, "work queue");
  if (!densities) return ADJ_E_MEMORY;
  adj_status status = adji_queue_init(&e->queue, e->join.ctx, count);
  if (!status) status = add_batches(e, each, densities);
  if (!status) status = adji_queue_sort_roughly(&e->queue, densities);
  adji_free(memory, densities);
  return status;
}

/* ---- A pass ----------------------------------------------------------------------------------------- */

static adj_status fill_batch(void *user, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  knn_engine *e = user;
  uint32_t leaf = e->options.left->leaf;
  adj_status status = ADJ_OK;
  for (uint64_t first = batch->begin; first < batch->end && !status; first += leaf) {
    status = adji_knn_group_fill(&e->groups[lane], first / leaf, e->table, tally);
    if (!status) status = adji_check_cancel(e->join.ctx);
  }
  return status;
}

/* The pass, with the devices that want to take part in it. */
static adj_status run_pass(knn_engine *e, adji_run *run) {
  adji_pass pass = {"join", e, fill_batch};
  adji_shared_work work = {.table = e->table, .order = e->options.left->ids, .group = e->options.left->leaf};
  adji_partners_begun begun;
  adji_partners_begin(&e->partners, e->join.ctx, &work, &begun);
  adj_status status = adji_partners_run(&e->partners, &begun, run, &e->queue, &pass, NULL);
  adji_partners_end(&begun, run);
  return status;
}

static adj_status knn_fill(void *state, adji_run *run, const adji_table *table) {
  knn_engine *e = state;
  adj_ctx *ctx = e->join.ctx;
  e->table = table;
  e->groups = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof *e->groups, "workers");
  if (!e->groups) return ADJ_E_MEMORY;
  adj_status status = ADJ_OK;
  for (uint32_t lane = 0; lane < ctx->threads && !status; lane++)
    status = adji_knn_group_init(&e->groups[lane], &e->join, e->options.left, e->options.right);
  if (!status) status = run_pass(e, run);
  for (uint32_t lane = 0; lane < ctx->threads; lane++)
    adji_knn_group_clear(&e->groups[lane]);
  adji_free(&ctx->memory, e->groups);
  return status;
}

/* The first leaf warms up what the others use. */
adj_status adji_knn_try(const adji_engine *engine, uint64_t leaves, double *query_ns, double *candidates) {
  const knn_engine *e = engine->state;
  const adji_tree *left = e->options.left;
  *query_ns = *candidates = 0;
  if (!left->count) return ADJ_OK;
  uint64_t all = left->level[0].count, begin = 0, queries = 0;
  adji_knn_group group;
  adji_tally tally = {0};
  adj_status status = adji_knn_group_init(&group, &e->join, left, e->options.right);
  for (uint64_t i = 0; i <= leaves && !status; i++) {
    uint64_t leaf = (2 * (i ? i : 1) - 1) * all / (2 * leaves);
    adji_knn_group_try(&group, leaf, &tally);
    queries += i ? adji_tree_leaf_count(left, leaf) : 0;
    if (!i) {
      begin = adji_now_ns();
      tally = (adji_tally){0};
    }
    status = adji_check_cancel(e->join.ctx);
  }
  *query_ns = (double)(adji_now_ns() - begin) / (double)(queries + !queries);
  *candidates = (double)tally.candidates / (double)(queries + !queries);
  adji_knn_group_clear(&group);
  return status;
}

static void knn_destroy(void *state) {
  knn_engine *e = state;
  if (!e) return;
  adji_partners_destroy(&e->partners);
  adji_queue_clear(&e->queue);
  free(e);
}

adj_status adji_knn_create(const adji_join *join, const adji_knn_options *options, adji_engine *out) {
  knn_engine *e = calloc(1, sizeof *e);
  if (!e) return adji_fail(ADJ_E_MEMORY, "no memory for the engine");
  e->join = *join;
  e->options = *options;
  adj_status status = options->partner_count ? fill_shared_queue(e) : fill_plain_queue(e);
  if (status) { /* partners are still the caller's */
    knn_destroy(e);
    return status;
  }
  e->partners.share = options->share;
  for (uint32_t i = 0; i < options->partner_count; i++)
    e->partners.each[e->partners.count++] = options->partners[i];
  *out = (adji_engine){.state = e, .nearest = knn_fill, .destroy = knn_destroy};
  return ADJ_OK;
}
