/* SPDX-License-Identifier: MIT
 *
 * Single evaluation on cores.
 *
 *   1. Every lane lists the neighbours it finds into chunks of its own, and counts each pair for both of its points.
 *   2. The counts become offsets.
 *   3. The lists are dealt out to the rows of both points.
 *   4. Each row is sorted.
 *
 * Devices that take part keep their pairs until all queries are done. A single device then gets the lists of the cores
 * and does steps 2 to 4: copies included, that takes a quarter of the time that cores need. If there are several
 * devices, or the one has too little memory, the rows of each device are fetched separately. They are counted in step 2
 * and added to the lists in step 4. The work of a device that failed is lost, and cores repeat its queries.
 *
 * On cores alone, results of ids in few dimensions go through bins instead, if there is enough memory: single_bins.c.
 *
 * A list is a record of 32-bit words: row, length, ids, and the sums when they are wanted.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/single_bins.h"
#include "cpu/single_private.h"
#include "result/offsets.h"

typedef adji_single single;
typedef adji_single_chunk chunk;

static const uint64_t CHUNK_WORDS = (uint64_t)1 << 20;

/* ---- 1. Lists ---------------------------------------------------------------------------------------- */

/* Room in the newest chunk of a lane, or in a new one. */
static uint32_t *reserve_words(single *s, uint32_t lane, uint64_t words) {
  chunk *c = s->chunks[lane];
  if (!c || c->room - c->used < words) {
    uint64_t room = words > CHUNK_WORDS ? words : CHUNK_WORDS;
    c = adji_alloc(&s->join->ctx->memory, sizeof(chunk) + room * sizeof(uint32_t), 1, "pairs");
    if (!c) return NULL;
    c->next = s->chunks[lane];
    c->used = c->pairs = 0;
    c->room = room;
    s->chunks[lane] = c;
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

static adj_status keep_list(const adji_walker *w, uint32_t slot, uint32_t row, uint32_t count) {
  single *s = w->walk.user;
  uint32_t *record = reserve_words(s, w->lane, 2 + (uint64_t)count * (1 + s->sum_words));
  if (!record) return ADJ_E_MEMORY;
  s->chunks[w->lane]->pairs += count;
  record[0] = row;
  record[1] = count;
  memcpy(record + 2, w->room.ids[slot], count * sizeof *record);
  if (s->sums) memcpy(record + 2 + count, w->room.sums[slot], (uint64_t)count * s->sum_words * 4);
  return ADJ_OK;
}

static adj_status list_queries(adji_walker *w, const adji_group *group, adji_tally *tally) {
  single *s = w->walk.user;
  uint32_t found[ADJI_LIST_MAX];
  adj_status status =
      adji_row_room_reserve(&w->room, &s->join->ctx->memory, &s->style, group->near_total + group->inside_total);
  for (uint32_t first = 0; first < group->task.query_count && !status; first += ADJI_LIST_MAX) {
    if (adji_group_cancelled(w, group)) return adji_check_cancel(s->join->ctx);
    uint32_t many = group->task.query_count - first;
    if (many > ADJI_LIST_MAX) many = ADJI_LIST_MAX;
    adji_list_queries(w, &s->style, group, first, many, found);
    for (uint32_t k = 0; k < many && !status; k++) {
      tally->pairs += (uint64_t)found[k] << (s->mirror && !s->style.one_way);
      if (!found[k]) continue;
      uint32_t row = group->task.left->ids[group->task.queries[first + k]];
      count_list(s, row, w->room.ids[k], found[k]);
      if (s->result) status = keep_list(w, k, row, found[k]);
    }
  }
  return status;
}

/* A row may have several lists or counts. So all queries of the group can pass over one panel of candidates before the
 * next is fetched. */
typedef adj_status (*panel_fn)(adji_walker *w, const adji_group *panel, adji_tally *tally);

static adj_status by_panels(adji_walker *w, const adji_group *group, adji_panels panels, panel_fn visit,
                            adji_tally *tally) {
  if (group->near_total <= panels.most) return visit(w, group, tally);
  adji_group panel = *group;
  adj_status status = ADJ_OK;
  while (!status && adji_panels_next(&panels, &panel.task)) {
    panel.near_total = adji_total_of(panel.task.ranges, panel.task.range_count);
    status = visit(w, &panel, tally);
    panel.inside_count = 0; /* they were visited with the first panel */
    panel.inside_total = 0;
  }
  return status;
}

static adj_status list_group(adji_walker *w, const adji_group *group, adji_tally *tally) {
  return by_panels(w, group, adji_panels_of(w, group), list_queries, tally);
}

/* ---- Counts only ------------------------------------------------------------------------------------------ */

/* In few dimensions the lanes of vectors hold queries, and nothing is listed. */
static bool counts_both(const single *s, const adji_walk *walk) {
  return !s->result && s->mirror && !s->style.one_way && !walk->index->prefilter.filter &&
         s->join->left->dim <= ADJI_FEW_DIMS;
}

_Static_assert(ADJI_GROUP <= UINT8_MAX, "a byte counts the queries of a group that a candidate belongs to");

static adj_status reserve_mirrored(adji_walker *w, uint64_t candidates) {
  if (!w->mirrored || candidates > w->mirrored_room) {
    uint64_t room = 2 * candidates + sizeof(uint64_t);
    if (!adji_grow(&w->walk.join->ctx->memory, (void **)&w->mirrored, room, 1, 0, "candidates")) return ADJ_E_MEMORY;
    w->mirrored_room = room - sizeof(uint64_t);
  }
  memset(w->mirrored, 0, candidates + sizeof(uint64_t));
  return ADJ_OK;
}

/* Adds the counts of the candidates of a range. Most are zero, so eight are tested at once. */
static void add_mirrored(single *s, const uint32_t *ids, uint64_t count, const uint8_t *many) {
  for (uint64_t i = 0; i < count; i += sizeof(uint64_t)) {
    uint64_t eight, rest = count - i;
    memcpy(&eight, many + i, sizeof eight);
    for (uint64_t j = 0; eight && j < sizeof eight && j < rest; j++)
      if (many[i + j]) add_degree(s, ids[i + j], many[i + j]);
  }
}

/* AT_ONCE: queries that pass over the candidates together, two vectors of f32 with AVX-512. MOST_MIRRORED: candidates
 * of a panel, each of which has a count. */
enum { AT_ONCE = 32, MOST_MIRRORED = 1 << 16 };

static adj_status count_queries(adji_walker *w, const adji_group *group, adji_tally *tally) {
  single *s = w->walk.user;
  adji_task task = group->task;
  uint32_t counts[ADJI_GROUP] = {0};
  adj_status status = reserve_mirrored(w, group->near_total);
  if (status) return status;
  task.mirrored = w->mirrored;
  for (uint32_t first = 0; first < group->task.query_count; first += AT_ONCE) {
    if (adji_group_cancelled(w, group)) return adji_check_cancel(s->join->ctx);
    task.queries = group->task.queries + first;
    task.query_count = group->task.query_count - first < AT_ONCE ? group->task.query_count - first : AT_ONCE;
    adji_count_task(w, group, &task, counts + first);
  }
  task = group->task;
  for (uint32_t k = 0; k < task.query_count; k++) {
    uint32_t many = counts[k] + (uint32_t)group->inside_total;
    tally->pairs += 2 * (uint64_t)many;
    if (many) add_degree(s, task.left->ids[task.queries[k]], many);
  }
  uint64_t at = 0;
  for (uint32_t r = 0; r < task.range_count; r++) {
    uint64_t many = task.ranges[r].end - task.ranges[r].begin;
    add_mirrored(s, task.right->ids + task.ranges[r].begin, many, w->mirrored + at);
    at += many;
  }
  for (uint32_t r = 0; r < group->inside_count; r++)
    for (uint64_t i = group->inside[r].begin; i < group->inside[r].end; i++)
      add_degree(s, task.right->ids[i], task.query_count);
  return ADJ_OK;
}

static adj_status count_group(adji_walker *w, const adji_group *group, adji_tally *tally) {
  return by_panels(w, group, (adji_panels){.group = group, .most = MOST_MIRRORED}, count_queries, tally);
}

/* ---- The pass ---------------------------------------------------------------------------------------- */

static void clear_degrees(void *user, uint64_t begin, uint64_t end) {
  single *s = user;
  for (uint64_t row = begin; row < end; row++)
    atomic_init(&s->degrees[row], adji_single_adds_selves(s));
}

/* Prepares a pass that makes a result: lists are kept. */
static adj_status prepare_result(single *s, adji_run *run) {
  const adji_join *join = s->join;
  adji_memory *memory = &join->ctx->memory;
  s->sums = adji_row_needs_sums(&join->style);
  s->sum_words = !s->sums ? 0 : join->style.type == ADJ_F64 ? 2 : 1;
  s->own_degrees = adji_alloc(memory, s->rows, sizeof *s->own_degrees, "neighbour counts");
  s->chunks = adji_alloc_zero(memory, join->ctx->threads, sizeof *s->chunks, "pairs");
  s->degrees = s->own_degrees;
  run->progress_to = 0.8;
  return s->degrees && s->chunks ? ADJ_OK : ADJ_E_MEMORY;
}

static void prepare_count(single *s) {
  s->style.distances = false;
  s->style.order = ADJ_ORDER_ANY;
  s->degrees = (_Atomic uint32_t *)s->pass->degrees;
}

adj_status adji_single_begin(adji_walk *walk, adji_run *run, const adji_pass *pass, double pairs, adji_single **out) {
  const adji_join *join = walk->join;
  single *s = calloc(1, sizeof *s);
  if (!s) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  *s = (single){.join = join, .pass = pass, .style = join->style, .mirror = join->self_join};
  s->result = pass->result;
  s->rows = join->left->count;
  *out = s;
  adj_status status = ADJ_OK;
  if (s->result && pass->alone && adji_single_bins_suits(join, pairs))
    return adji_single_bins_begin(walk, run, pass, pairs, &s->bins);
  if (s->result)
    status = prepare_result(s, run);
  else
    prepare_count(s);
  walk->counts = counts_both(s, walk);
  walk->forward = s->mirror;
  walk->sums = s->sums;
  walk->visit = walk->counts ? count_group : list_group;
  walk->user = s;
  return status ? status : adji_each_row(join->ctx, s->rows, clear_degrees, s);
}

adj_status adji_single_gather(single *s, adji_walker *walkers, adji_run *run, const adji_active *active) {
  if (s->bins) return adji_single_bins_gather(s->bins, run);
  s->walkers = walkers;
  run->progress_from = run->progress_to;
  adj_status status = adji_single_fetch(s, active, run);
  if (status || s->complete) return status;
  if (!s->result) return adji_single_count_parts(s);
  status = adji_single_make_rows(s, run);
  if (!status && s->sums && !s->join->style.distances) { /* they were needed only to sort */
    adji_free(&s->join->ctx->memory, s->result->distances);
    s->result->distances = NULL;
  }
  return status;
}

void adji_single_end(single *s) {
  if (!s) return;
  adji_memory *memory = &s->join->ctx->memory;
  adji_single_bins_end(s->bins);
  adji_single_free_chunks(s);
  adji_free(memory, s->chunks);
  for (uint32_t i = 0; i < s->part_count; i++)
    adji_part_clear(&s->parts[i], memory);
  adji_free(memory, s->all_chunks);
  adji_free(memory, (void *)s->places);
  adji_free(memory, (void *)s->own_degrees);
  free(s);
}
