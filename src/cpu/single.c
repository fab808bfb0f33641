/* SPDX-License-Identifier: MIT
 *
 * Collecting with each candidate evaluated once.
 *
 *   1. Every lane lists the neighbours it finds into chunks of its own, and counts them for both
 *      points of the pair.
 *   2. The counts become offsets.
 *   3. The lists are dealt out to the rows of both points.
 *   4. Each row is brought into order.
 *
 * Devices that take part keep what they find until all queries are done. One of them gets the lists of the cores then,
 * and does the other steps, which takes it and the copies a quarter of the time that it takes cores. Otherwise, with
 * several devices or where there is no room for that, what they found is fetched, as rows of their own, which are
 * counted in step 2 and added to those of the lists in step 4. What a device that fails has done is of no use, and
 * cores do these queries again.
 *
 * A list is a record of 32-bit words: row, length, ids, and the sums when they are wanted.
 */
#include "cpu/single.h"

#include <string.h>

#include "cpu/single_private.h"

typedef adji_single once;
typedef adji_single_lane lane;
typedef adji_single_chunk chunk;

static const uint64_t CHUNK_WORDS = (uint64_t)1 << 20;
enum { PANEL_BYTES = 1 << 20, SMALLEST_PANEL = 512, SLICE_ROWS = 4096 };

/* ---- 1. Lists ---------------------------------------------------------------------------------------- */

static uint32_t *reserve_words(lane *l, uint64_t words) {
  chunk *c = l->chunks;
  if (!c || c->room - c->used < words) {
    uint64_t room = words > CHUNK_WORDS ? words : CHUNK_WORDS;
    c = adji_alloc(&l->once->join->ctx->memory, sizeof(chunk) + room * sizeof(uint32_t), 1, "pairs");
    if (!c) return NULL;
    c->next = l->chunks;
    c->used = c->pairs = 0;
    c->room = room;
    l->chunks = c;
  }
  uint32_t *words_at = c->words + c->used;
  c->used += words;
  return words_at;
}

static void add_degree(once *o, uint32_t row, uint32_t many) {
  atomic_fetch_add_explicit(&o->degrees[row], many, memory_order_relaxed);
}

static void count_list(once *o, uint32_t row, const uint32_t *ids, uint32_t count) {
  if (o->style.one_way) {
    for (uint32_t i = 0; i < count; i++)
      add_degree(o, adji_single_lower(row, ids[i]), 1);
    return;
  }
  add_degree(o, row, count);
  if (!o->mirror) return;
  for (uint32_t i = 0; i < count; i++)
    __builtin_prefetch((const void *)&o->degrees[ids[i]], 1);
  for (uint32_t i = 0; i < count; i++)
    add_degree(o, ids[i], 1);
}

static adj_status keep_list(lane *l, uint32_t slot, uint32_t row, uint32_t count) {
  once *o = l->once;
  uint32_t *record = reserve_words(l, 2 + (uint64_t)count * (1 + o->sum_words));
  if (!record) return ADJ_E_MEMORY;
  l->chunks->pairs += count;
  record[0] = row;
  record[1] = count;
  memcpy(record + 2, l->room.ids[slot], count * sizeof *record);
  if (o->sums) memcpy(record + 2 + count, l->room.sums[slot], (uint64_t)count * o->sum_words * 4);
  return ADJ_OK;
}

static adj_status list_queries(lane *l, const adji_group *group, adji_tally *tally) {
  once *o = l->once;
  uint32_t found[ADJI_LIST_MAX];
  adj_status status =
      adji_row_room_reserve(&l->room, &o->join->ctx->memory, &o->style, group->near_total + group->inside_total);
  for (uint32_t first = 0; first < group->task.query_count && !status; first += ADJI_LIST_MAX) {
    if (adji_group_cancelled(&l->walker, group)) return adji_check_cancel(o->join->ctx);
    uint32_t many = group->task.query_count - first;
    if (many > ADJI_LIST_MAX) many = ADJI_LIST_MAX;
    adji_list_queries(&l->walker, &o->style, group, first, many, &l->room, found);
    for (uint32_t k = 0; k < many && !status; k++) {
      tally->pairs += (uint64_t)found[k] << (o->mirror && !o->style.one_way);
      if (!found[k]) continue;
      uint32_t row = group->task.left->ids[group->task.queries[first + k]];
      count_list(o, row, l->room.ids[k], found[k]);
      if (o->result) status = keep_list(l, k, row, found[k]);
    }
  }
  return status;
}

/* Candidates whose coordinates, or codes, fill about half of a core's second cache. */
static uint32_t panel_size(const once *o) {
  uint64_t bytes = o->options->prefilter ? o->join->right->dim : o->join->right->dim * adji_type_size(o->style.type);
  uint64_t size = PANEL_BYTES / bytes;
  return size > SMALLEST_PANEL ? (uint32_t)size : SMALLEST_PANEL;
}

/* A row may have several lists, so all queries of the group can pass over one panel of candidates
 * before the next is fetched. */
static adj_status list_group(void *user, const adji_group *group, adji_tally *tally) {
  lane *l = user;
  uint32_t most = panel_size(l->once);
  if (group->near_total <= most) return list_queries(l, group, tally);
  adji_group panel = *group;
  adj_status status = ADJ_OK;
  for (uint32_t r = 0; r < group->task.range_count && !status; r++) {
    adji_range range = group->task.ranges[r];
    for (uint64_t at = range.begin; at < range.end && !status; at += most) {
      adji_range part = {(uint32_t)at, range.end - at > most ? (uint32_t)at + most : range.end};
      panel.task.ranges = &part;
      panel.task.range_count = 1;
      panel.near_total = part.end - part.begin;
      status = list_queries(l, &panel, tally);
      panel.inside_count = 0; /* once is enough */
      panel.inside_total = 0;
    }
  }
  return status;
}

static adj_status list_batch(void *user, const adji_batch *batch, uint32_t lane_number, adji_tally *tally) {
  once *o = user;
  lane *l = &o->lanes[lane_number];
  adji_walk walk = {NULL, list_group, l};
  return adji_walk_batch(&l->walker, batch, &walk, tally);
}

adj_status adji_single_gather(once *o) {
  adj_ctx *ctx = o->join->ctx;
  uint64_t count = 0;
  for (uint32_t i = 0; i < ctx->threads; i++)
    for (chunk *c = o->lanes[i].chunks; c; c = c->next)
      count++;
  if (!adji_grow(&ctx->memory, (void **)&o->todo, count + 1, sizeof *o->todo, 0, "pairs")) return ADJ_E_MEMORY;
  o->todo_count = 0;
  for (uint32_t i = 0; i < ctx->threads; i++)
    for (chunk *c = o->lanes[i].chunks; c; c = c->next)
      o->todo[o->todo_count++] = c;
  return ADJ_OK;
}

/* The batches of devices that failed, whose numbers are in done_by, by cores. */
static adj_status list_again(once *o, const adji_single_work *work, const uint8_t *done_by, const bool *lost,
                             adji_run *run) {
  const adji_queue *queue = work->queue;
  adji_queue again;
  adj_status status = adji_queue_init(&again, o->join->ctx, queue->count + 1);
  if (status) return status;
  for (uint64_t i = 0; i < queue->count && !status; i++) {
    if (!done_by[i] || !lost[done_by[i] - 1]) continue;
    uint64_t queries = queue->batches[i].end - queue->batches[i].begin;
    adji_worker_stats *device = &run->workers[adji_run_worker(run, work->begun->partners[done_by[i] - 1]->state)];
    device->queries -= queries;
    device->failed += queries;
    run->workers[0].queries += queries;
    status = adji_queue_add(&again, queue->batches[i]);
  }
  if (!status) status = adji_run_pass(run, &again, &(adji_pass){"join", o, list_batch}, NULL);
  adji_queue_clear(&again);
  return status;
}

/* What lanes found, to a device that has the rest. */
static adj_status hand_over(once *o, const adji_partner *partner, adji_run *run) {
  adji_memory *memory = &o->join->ctx->memory;
  adj_status status = adji_single_gather(o);
  adji_found_list *lists = adji_alloc(memory, o->todo_count, sizeof *lists, "pairs");
  adji_found found = {.lists = lists, .count = o->todo_count, .sum_words = o->sum_words};
  for (uint64_t i = 0; lists && i < o->todo_count; i++) {
    const chunk *c = o->todo[i];
    lists[i] = (adji_found_list){c->words, c->used, c->pairs};
    found.pairs += c->pairs;
  }
  if (!status) status = lists ? partner->add(partner->state, run, &found) : ADJ_E_MEMORY;
  adji_free(memory, lists);
  return status;
}

/* What a device found: all of the result, if it has room for what lanes found too, or a part of it. */
static adj_status fetch_from(once *o, const adji_partner *partner, adji_run *run) {
  adj_status status = o->hands_over ? hand_over(o, partner, run) : ADJ_E_DEVICE_MEMORY;
  if (status == ADJ_E_DEVICE_MEMORY) return adji_parts_add(&o->parts, o->join, run, partner, o->result);
  if (!status) status = adji_parts_whole(o->join, run, partner, o->result);
  o->complete = !status;
  return status;
}

/* What devices found, and what those that failed did not. */
static adj_status fetch_parts(once *o, const adji_single_work *work, const uint8_t *done_by, adji_run *run) {
  bool lost[ADJI_MOST_DEVICES] = {false}, some = false;
  for (uint32_t d = 0; d < work->begun->count; d++) {
    const adji_partner *partner = work->begun->partners[d];
    adj_status status = fetch_from(o, partner, run);
    if (status == ADJ_E_MEMORY || status == ADJ_CANCELLED || status == ADJ_E_LIMIT) return status;
    if (!status) continue;
    adji_log(o->join->ctx, ADJ_LOG_WARN, "what %s did is done again: %s", partner->name, adj_last_error());
    lost[d] = some = true;
  }
  return some ? list_again(o, work, done_by, lost, run) : ADJ_OK;
}

/* All queries, by cores and devices. */
static adj_status list_all(once *o, const adji_single_work *work, const char *name, adji_run *run) {
  adji_partners_begun begun = *work->begun;
  adji_memory *memory = &o->join->ctx->memory;
  o->hands_over = begun.count == 1 && o->result && !adji_single_adds_selves(o); /* which are no pairs */
  if (begun.count) {
    begun.done_by = adji_alloc_zero(memory, work->queue->count, 1, "work queue");
    if (!begun.done_by) return ADJ_E_MEMORY;
  }
  adj_status status =
      adji_partners_run(work->partners, &begun, run, work->queue, &(adji_pass){name, o, list_batch}, NULL);
  run->progress_from = run->progress_to;
  if (!status) status = fetch_parts(o, work, begun.done_by, run);
  adji_free(memory, begun.done_by);
  return status;
}

/* ---- All of it --------------------------------------------------------------------------------------- */

static adj_status open_once(once *o) {
  adj_ctx *ctx = o->join->ctx;
  o->lanes = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof *o->lanes, "workers");
  if (!o->lanes) return ADJ_E_MEMORY;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < ctx->threads && !status; i++) {
    o->lanes[i].once = o;
    status = adji_walker_init(&o->lanes[i].walker, o->join, o->options, o->mirror, o->sums);
  }
  for (uint64_t row = 0; row < o->rows; row++)
    atomic_init(&o->degrees[row], adji_single_adds_selves(o));
  return status;
}

void adji_single_free_chunks(once *o) {
  adj_ctx *ctx = o->join->ctx;
  for (uint32_t i = 0; o->lanes && i < ctx->threads; i++)
    while (o->lanes[i].chunks) {
      chunk *c = o->lanes[i].chunks;
      o->lanes[i].chunks = c->next;
      adji_free(&ctx->memory, c);
    }
}

static void close_once(once *o) {
  adj_ctx *ctx = o->join->ctx;
  adji_single_free_chunks(o);
  for (uint32_t i = 0; o->lanes && i < ctx->threads; i++) {
    adji_walker_clear(&o->lanes[i].walker);
    adji_row_room_clear(&o->lanes[i].room);
  }
  adji_free(&ctx->memory, o->lanes);
  adji_parts_clear(&o->parts, &ctx->memory);
  adji_free(&ctx->memory, o->todo);
  adji_free(&ctx->memory, (void *)o->places);
}

static adj_status collect_steps(once *o, const adji_single_work *work, adji_run *run) {
  adj_status status = open_once(o);
  if (!status) status = list_all(o, work, "join", run);
  if (status || o->complete) return status;
  return adji_single_make_rows(o, run->control.max_pairs);
}

adj_status adji_single_collect(const adji_single_work *work, adji_run *run, adj_result *result) {
  const adji_join *join = work->join;
  adji_memory *memory = &join->ctx->memory;
  once o = {.join = join, .options = work->options, .style = join->style, .mirror = join->self_join, .result = result};
  o.rows = result->rows;
  o.sums = adji_row_needs_sums(&join->style);
  o.sum_words = !o.sums ? 0 : join->style.type == ADJ_F64 ? 2 : 1;
  o.slices = o.rows / SLICE_ROWS + 1;
  o.degrees = adji_alloc(memory, o.rows, sizeof *o.degrees, "neighbour counts");
  if (!o.degrees) return ADJ_E_MEMORY;
  run->progress_to = 0.8;
  adj_status status = collect_steps(&o, work, run);
  close_once(&o);
  adji_free(memory, (void *)o.degrees);
  if (!status && !o.complete && o.sums && !join->style.distances) { /* they were needed for the order only */
    adji_free(memory, result->distances);
    result->distances = NULL;
  }
  return status;
}

adj_status adji_single_count(const adji_single_work *work, adji_run *run, uint32_t *degrees, uint64_t *total) {
  const adji_join *join = work->join;
  once o = {.join = join, .options = work->options, .style = join->style, .mirror = join->self_join};
  o.rows = join->left->count;
  o.slices = o.rows / SLICE_ROWS + 1;
  o.style.distances = false;
  o.style.order = ADJ_ORDER_ANY;
  o.degrees = (_Atomic uint32_t *)degrees;
  adj_status status = open_once(&o);
  if (!status) status = list_all(&o, work, "count", run);
  if (!status) status = adji_single_count_parts(&o);
  close_once(&o);
  *total = 0;
  for (uint64_t row = 0; row < o.rows && !status; row++)
    *total += degrees[row];
  return status ? status : adji_single_check(*total, run->control.max_pairs);
}
