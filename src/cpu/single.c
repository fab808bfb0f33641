/* SPDX-License-Identifier: MIT
 *
 * Single evaluation on cores.
 *
 *   1. Every lane lists the neighbours it finds into chunks of its own, and counts them for both points of the pair.
 *   2. The counts become offsets.
 *   3. The lists are dealt out to the rows of both points.
 *   4. Each row is sorted.
 *
 * Devices that take part keep what they find until all queries are done. A single device then gets the lists of the
 * cores and does the other steps: with the copies that takes a quarter of the time that cores need. With several
 * devices, or without room on the one, what they found is fetched as rows of their own. These are counted in step 2 and
 * added to the lists in step 4. What a failed device has done is lost, and cores do its queries again.
 *
 * A list is a record of 32-bit words: row, length, ids, and the sums when they are wanted.
 */
#include "cpu/single.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/single_private.h"
#include "queue/lanes.h"

typedef adji_single single;
typedef adji_single_lane lane;
typedef adji_single_chunk chunk;

static const uint64_t CHUNK_WORDS = (uint64_t)1 << 20;
enum { PANEL_BYTES = 1 << 20, SMALLEST_PANEL = 512, SLICE_ROWS = 4096 };

/* ---- 1. Lists ---------------------------------------------------------------------------------------- */

static uint32_t *reserve_words(lane *l, uint64_t words) {
  chunk *c = l->chunks;
  if (!c || c->room - c->used < words) {
    uint64_t room = words > CHUNK_WORDS ? words : CHUNK_WORDS;
    c = adji_alloc(&l->single->join->ctx->memory, sizeof(chunk) + room * sizeof(uint32_t), 1, "pairs");
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

static void add_degree(single *s, uint32_t row, uint32_t many) {
  atomic_fetch_add_explicit(&s->degrees[row], many, memory_order_relaxed);
}

static void count_list(single *s, uint32_t row, const uint32_t *ids, uint32_t count) {
  if (s->style.one_way) {
    for (uint32_t i = 0; i < count; i++)
      add_degree(s, adji_single_lower(row, ids[i]), 1);
    return;
  }
  add_degree(s, row, count);
  if (!s->mirror) return;
  for (uint32_t i = 0; i < count; i++)
    __builtin_prefetch((const void *)&s->degrees[ids[i]], 1);
  for (uint32_t i = 0; i < count; i++)
    add_degree(s, ids[i], 1);
}

static adj_status keep_list(lane *l, uint32_t slot, uint32_t row, uint32_t count) {
  single *s = l->single;
  uint32_t *record = reserve_words(l, 2 + (uint64_t)count * (1 + s->sum_words));
  if (!record) return ADJ_E_MEMORY;
  l->chunks->pairs += count;
  record[0] = row;
  record[1] = count;
  memcpy(record + 2, l->room.ids[slot], count * sizeof *record);
  if (s->sums) memcpy(record + 2 + count, l->room.sums[slot], (uint64_t)count * s->sum_words * 4);
  return ADJ_OK;
}

static adj_status list_queries(lane *l, const adji_group *group, adji_tally *tally) {
  single *s = l->single;
  uint32_t found[ADJI_LIST_MAX];
  adj_status status =
      adji_row_room_reserve(&l->room, &s->join->ctx->memory, &s->style, group->near_total + group->inside_total);
  for (uint32_t first = 0; first < group->task.query_count && !status; first += ADJI_LIST_MAX) {
    if (adji_group_cancelled(&l->walker, group)) return adji_check_cancel(s->join->ctx);
    uint32_t many = group->task.query_count - first;
    if (many > ADJI_LIST_MAX) many = ADJI_LIST_MAX;
    adji_list_queries(&l->walker, &s->style, group, first, many, &l->room, found);
    for (uint32_t k = 0; k < many && !status; k++) {
      tally->pairs += (uint64_t)found[k] << (s->mirror && !s->style.one_way);
      if (!found[k]) continue;
      uint32_t row = group->task.left->ids[group->task.queries[first + k]];
      count_list(s, row, l->room.ids[k], found[k]);
      if (s->result) status = keep_list(l, k, row, found[k]);
    }
  }
  return status;
}

/* Candidates whose coordinates, or codes, fill about half of a core's second cache. */
static uint32_t panel_size(const single *s) {
  uint64_t bytes =
      s->index->prefilter.filter ? s->join->right->dim : s->join->right->dim * adji_type_size(s->style.type);
  uint64_t size = PANEL_BYTES / bytes;
  return size > SMALLEST_PANEL ? (uint32_t)size : SMALLEST_PANEL;
}

/* A row may have several lists, so all queries of the group can pass over one panel of candidates
 * before the next is fetched. */
static adj_status list_group(void *user, const adji_group *group, adji_tally *tally) {
  lane *l = user;
  uint32_t most = panel_size(l->single);
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
      panel.inside_count = 0; /* listed with the first panel */
      panel.inside_total = 0;
    }
  }
  return status;
}

static adj_status list_batch(void *user, const adji_batch *batch, uint32_t lane_number, adji_tally *tally) {
  single *s = user;
  lane *l = &s->lanes[lane_number];
  adji_walk walk = {NULL, list_group, l};
  return adji_walk_batch(&l->walker, batch, &walk, tally);
}

/* ---- What devices found ------------------------------------------------------------------------------ */

/* The batches of devices that failed, by cores. */
static adj_status list_again(single *s, const adji_active *active, const bool *lost, adji_run *run) {
  const adji_queue *queue = s->pass->queue;
  adji_queue again;
  uint32_t devices = adji_active_devices_from(active);
  adj_status status = adji_queue_init(&again, s->join->ctx, queue->count + 1);
  if (status) return status;
  for (uint64_t i = 0; i < queue->count && !status; i++) {
    if (!active->done_by[i] || !lost[active->done_by[i] - 1]) continue;
    uint64_t queries = queue->batches[i].end - queue->batches[i].begin;
    const adji_worker *worker = active->workers[devices + active->done_by[i] - 1];
    adji_worker_stats *device = &run->workers[adji_run_worker(run, worker->state)];
    device->queries -= queries;
    device->failed += queries;
    run->workers[0].queries += queries;
    status = adji_queue_add(&again, queue->batches[i]);
  }
  adji_pass pass = *s->pass;
  pass.name = "join";
  pass.queue = &again;
  pass.alone = true;
  if (!status)
    status = adji_pass_run(run, &pass, &(adji_active){.workers = {active->workers[0]}, .count = 1}, NULL, NULL);
  adji_queue_clear(&again);
  return status;
}

/* What lanes found, to a device that has the rest. */
static adj_status hand_over(single *s, const adji_worker *device, adji_run *run) {
  adji_memory *memory = &s->join->ctx->memory;
  adj_status status = adji_single_gather_chunks(s);
  adji_found_list *lists = adji_alloc(memory, s->todo_count, sizeof *lists, "pairs");
  adji_found found = {.lists = lists, .count = s->todo_count, .sum_words = s->sum_words};
  for (uint64_t i = 0; lists && i < s->todo_count; i++) {
    const chunk *c = s->todo[i];
    lists[i] = (adji_found_list){c->words, c->used, c->pairs};
    found.pairs += c->pairs;
  }
  if (!status) status = lists ? device->add(device->state, run, &found) : ADJ_E_MEMORY;
  adji_free(memory, lists);
  return status;
}

/* The whole result, if the device has room for what lanes found too, or its part of it. Selves are in no list, so a
 * result with them is not made by a device. */
static adj_status fetch_from(single *s, const adji_worker *device, adji_run *run, bool only_device) {
  bool hands_over = only_device && s->result && !adji_single_adds_selves(s);
  adj_status status = hands_over ? hand_over(s, device, run) : ADJ_E_DEVICE_MEMORY;
  if (status == ADJ_E_DEVICE_MEMORY) return adji_parts_add(&s->parts, s->join, run, device, s->result);
  if (!status) status = adji_parts_whole(s->join, run, device, s->result);
  s->complete = !status;
  return status;
}

/* What devices found, and what those that failed did not. */
static adj_status fetch_parts(single *s, const adji_active *active, adji_run *run) {
  bool lost[ADJI_MOST_DEVICES] = {false}, some = false;
  uint32_t devices = adji_active_devices(active);
  for (uint32_t d = 0; d < devices; d++) {
    const adji_worker *device = active->workers[adji_active_devices_from(active) + d];
    adj_status status = fetch_from(s, device, run, devices == 1);
    if (status == ADJ_E_MEMORY || status == ADJ_CANCELLED || status == ADJ_E_LIMIT) return status;
    if (!status) continue;
    adji_log(s->join->ctx, ADJ_LOG_WARN, "the queries of %s are done again: %s", device->name, adj_last_error());
    lost[d] = some = true;
  }
  return some ? list_again(s, active, lost, run) : ADJ_OK;
}

/* ---- The pass ---------------------------------------------------------------------------------------- */

typedef struct clearing {
  single *s;
  uint32_t value;
} clearing;

static adj_status clear_degrees(void *user, uint64_t slice, uint32_t lane_number) {
  (void)lane_number;
  const clearing *c = user;
  uint64_t begin, end;
  adji_slice(c->s->rows, c->s->slices, slice, &begin, &end);
  for (uint64_t row = begin; row < end; row++)
    atomic_init(&c->s->degrees[row], c->value);
  return ADJ_OK;
}

static adj_status open_lanes(single *s) {
  adj_ctx *ctx = s->join->ctx;
  s->lanes = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof *s->lanes, "workers");
  if (!s->lanes) return ADJ_E_MEMORY;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < ctx->threads && !status; i++) {
    s->lanes[i].single = s;
    status = adji_walker_init(&s->lanes[i].walker, s->join, s->index, s->mirror, s->sums);
  }
  clearing c = {s, adji_single_adds_selves(s)};
  return status ? status : adji_loop(ctx, s->slices, clear_degrees, &c);
}

/* For a result: lists are kept. */
static adj_status prepare_result(single *s, adji_run *run) {
  const adji_join *join = s->join;
  s->sums = adji_row_needs_sums(&join->style);
  s->sum_words = !s->sums ? 0 : join->style.type == ADJ_F64 ? 2 : 1;
  s->own_degrees = adji_alloc(&join->ctx->memory, s->rows, sizeof *s->own_degrees, "neighbour counts");
  s->degrees = s->own_degrees;
  run->progress_to = 0.8;
  return s->degrees ? ADJ_OK : ADJ_E_MEMORY;
}

static void prepare_count(single *s) {
  s->style.distances = false;
  s->style.order = ADJ_ORDER_ANY;
  s->degrees = (_Atomic uint32_t *)s->pass->degrees;
}

adj_status adji_single_begin(const adji_join *join, const adji_range_index *index, adji_run *run, const adji_pass *pass,
                             adji_single **out) {
  single *s = calloc(1, sizeof *s);
  if (!s) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  *s = (single){.join = join, .index = index, .pass = pass, .style = join->style, .mirror = join->self_join};
  s->result = pass->result;
  s->rows = join->left->count;
  s->slices = s->rows / SLICE_ROWS + 1;
  adj_status status = ADJ_OK;
  if (s->result)
    status = prepare_result(s, run);
  else
    prepare_count(s);
  if (!status) status = open_lanes(s);
  if (status)
    adji_single_end(s);
  else
    *out = s;
  return status;
}

adj_status adji_single_drain(single *s, adji_feed *feed) {
  return adji_lanes_drain(feed, list_batch, s);
}

adj_status adji_single_gather(single *s, adji_run *run, const adji_active *active) {
  run->progress_from = run->progress_to;
  adj_status status = fetch_parts(s, active, run);
  if (status || s->complete) return status;
  if (!s->result) return adji_single_count_parts(s);
  status = adji_single_make_rows(s, run);
  if (!status && s->sums && !s->join->style.distances) { /* they were needed for the order only */
    adji_free(&s->join->ctx->memory, s->result->distances);
    s->result->distances = NULL;
  }
  return status;
}

void adji_single_end(single *s) {
  if (!s) return;
  adj_ctx *ctx = s->join->ctx;
  adji_single_free_chunks(s);
  for (uint32_t i = 0; s->lanes && i < ctx->threads; i++) {
    adji_walker_clear(&s->lanes[i].walker);
    adji_row_room_clear(&s->lanes[i].room);
  }
  adji_free(&ctx->memory, s->lanes);
  adji_parts_clear(&s->parts, &ctx->memory);
  adji_free(&ctx->memory, s->todo);
  adji_free(&ctx->memory, (void *)s->places);
  adji_free(&ctx->memory, (void *)s->own_degrees);
  free(s);
}
