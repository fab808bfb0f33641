/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a kNN join: lists of queries, and their rows into place.
 */
#include "gpu/hybrid/knn_worker.h"

#include <math.h>
#include <stdatomic.h>

#include "gpu/hybrid/list_place.h"

/* What is taken at a time is cut into so many lists, so that rows of one are put into place while the next is searched;
 * but each list ends with its slowest queries, which leave the most of a device idle, so there must not be many. Pieces
 * are shared out to lanes. */
enum { LISTS_A_TIME = 2, LEAST_LIST = 1 << 20, LEAST_PIECE = 2048 };

/* Lists end with a node of the host's tree, where they can: the queries of a warp are then of one node. */
enum { WHOLE_NODES = 1024 };

/* ---- Rows into place ------------------------------------------------------------------------------------ */

static uint64_t distance_bytes(const adji_knn_worker *w) {
  return w->table->distances ? adji_type_size(w->join->left->type) : 0;
}

static uint64_t place_rows(const adji_knn_worker *w, const char *from, uint64_t rows) {
  const adji_table *to = w->table;
  uint64_t size = distance_bytes(w), k = to->k, pairs = 0;
  adji_list_piece piece = adji_list_piece_of(rows, to->k, size);
  const uint32_t *numbers = (const uint32_t *)(const void *)from;
  const char *ids = from + piece.ids, *distances = from + piece.distances;
  void (*stream)(void *, const void *, uint64_t) = w->join->style.kernels->stream_row;
  bool bounded = w->join->limit < (double)INFINITY;
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t at = (numbers[i] - to->first_row) * k;
    if (i + ADJI_ROWS_AHEAD < rows) {
      uint64_t ahead = (numbers[i + ADJI_ROWS_AHEAD] - to->first_row) * k;
      adji_ask_for_row(to->ids + ahead, k * sizeof *to->ids);
      if (size) adji_ask_for_row((const char *)to->distances + ahead * size, k * size);
    }
    stream(to->ids + at, ids + i * k * sizeof *to->ids, k * sizeof *to->ids);
    if (size) stream((char *)to->distances + at * size, distances + i * k * size, k * size);
    if (bounded) pairs += adji_table_row_length((const uint32_t *)(const void *)ids + i * k, to->k);
  }
  adji_rows_placed();
  return bounded ? pairs : rows * adji_join_reach(w->join);
}

static adj_status fetch_piece(void *user, uint64_t number, uint32_t lane) {
  adji_knn_list *l = user;
  adji_knn_worker *w = l->worker;
  const adji_list_device *device = w->device;
  uint64_t first = number * l->each, rows = l->rows - first < l->each ? l->rows - first : l->each;
  uint64_t begin = adji_now_ns();
  adj_status status = device->fetch(device->state, l->slot, first, rows, lane);
  if (!status) status = device->wait(device->state, lane);
  if (status) return status;
  uint64_t arrived = adji_now_ns();
  atomic_fetch_add(&l->pairs, place_rows(w, device->buffer(device->state, lane), rows));
  adji_trace(w->join->ctx, "place", lane, begin, rows);
  atomic_fetch_add(&w->stats.wait_ns, arrived - begin);
  atomic_fetch_add(&w->stats.place_ns, adji_now_ns() - arrived);
  atomic_fetch_add(&w->stats.bytes, adji_list_piece_of(rows, w->table->k, distance_bytes(w)).bytes);
  return adji_check_cancel(w->join->ctx);
}

static uint64_t rows_a_buffer(const adji_join *join, uint64_t distance, uint64_t bytes) {
  uint64_t row = 4 + (uint64_t)join->k * (4 + distance), spare = 16; /* of both paddings */
  return bytes > spare ? (bytes - spare) / row : 0;
}

static uint64_t enough_helpers(const void *user) {
  const adji_knn_worker *w = ((const adji_knn_list *)user)->worker;
  return adji_list_helpers(w->join->ctx, &w->stats);
}

/* All rows of a list, by all lanes that are free. */
static adj_status fetch_list(void *user, uint32_t slot, adji_help *help, adji_tally *tally) {
  adji_knn_worker *w = user;
  adji_knn_list *l = &w->lists[slot];
  if (!l->rows) return ADJ_OK;
  l->each = rows_a_buffer(w->join, distance_bytes(w), w->buffer_bytes);
  if (!l->each) return adji_fail(ADJ_E_INTERNAL, "a row does not fit a buffer");
  uint64_t share = l->rows / (2 * (uint64_t)w->join->ctx->threads) + 1;
  if (share < LEAST_PIECE) share = LEAST_PIECE;
  if (l->each > share) l->each = share;
  adji_list_stats_next(&w->stats);
  adj_status status = adji_help_loop(help, (l->rows + l->each - 1) / l->each, fetch_piece, enough_helpers, l);
  tally->pairs += atomic_load(&l->pairs);
  tally->candidates += l->candidates;
  return status;
}

/* ---- Lists ------------------------------------------------------------------------------------------ */

static void open_batches(void *user, const adji_batch *batches, uint64_t count) {
  adji_knn_worker *w = user;
  uint64_t queries = 0;
  for (uint64_t i = 0; i < count; i++)
    queries += batches[i].end - batches[i].begin;
  uint64_t each = queries / LISTS_A_TIME + 1;
  if (each < LEAST_LIST) each = LEAST_LIST;
  each = (each + WHOLE_NODES - 1) / WHOLE_NODES * WHOLE_NODES;
  if (each > w->list_queries)
    each = w->list_queries > WHOLE_NODES ? w->list_queries / WHOLE_NODES * WHOLE_NODES : w->list_queries;
  w->next = (adji_knn_cursor){.batches = batches, .count = count, .each = each};
}

/* The queries of the next list; returns in how many ranges. */
static uint64_t next_list(adji_knn_worker *w) {
  adji_knn_cursor *c = &w->next;
  uint64_t many = 0, queries = c->each;
  while (c->at < c->count && queries && many < w->list_ranges) {
    const adji_batch *batch = &c->batches[c->at];
    uint32_t begin = batch->begin + c->done, take = batch->end - begin;
    if (take > ADJI_LONGEST_RANGE) take = ADJI_LONGEST_RANGE;
    if (take > queries) take = (uint32_t)queries;
    w->ranges[many++] = (adji_batch){begin, begin + take, 0};
    queries -= take;
    c->done += take;
    if (begin + take < batch->end) continue;
    c->at++;
    c->done = 0;
  }
  return many;
}

static adj_status ask_list(void *user, uint32_t slot, bool *some) {
  adji_knn_worker *w = user;
  adji_knn_list *l = &w->lists[slot];
  uint64_t ranges = next_list(w);
  *some = ranges > 0;
  if (!ranges) return ADJ_OK;
  l->worker = w;
  l->slot = slot;
  atomic_store(&l->pairs, 0);
  return w->device->list(w->device->state, w->ranges, ranges, slot, &l->rows);
}

/* ---- What the device could not find ----------------------------------------------------------------------- */

static adji_batch group_at(const adji_knn_worker *w, uint32_t group) {
  uint64_t begin = (uint64_t)group * w->group, end = begin + w->group, count = w->join->left->count;
  return (adji_batch){(uint32_t)begin, (uint32_t)(end < count ? end : count), 0};
}

static adj_status note_missed(adji_knn_worker *w, uint32_t slot) {
  const uint32_t *positions;
  uint64_t count;
  if (!w->device->missed) return ADJ_OK;
  adj_status status = w->device->missed(w->device->state, slot, &positions, &count);
  for (uint64_t i = 0; !status && i < count; i++) {
    uint32_t group = positions[i] / w->group;
    if (w->is_missed[group]) continue;
    w->is_missed[group] = 1;
    w->missed[w->missed_count++] = group_at(w, group);
  }
  return status;
}

/* What place_rows counted of the group's rows. */
static uint64_t placed_pairs(const adji_knn_worker *w, const adji_batch *group) {
  const adji_table *to = w->table;
  bool bounded = w->join->limit < (double)INFINITY;
  uint64_t pairs = 0;
  for (uint32_t i = group->begin; i < group->end; i++) {
    uint64_t row = w->order[i];
    if (row < to->first_row || row >= to->end_row) continue;
    pairs += bounded ? adji_table_row_length(to->ids + (row - to->first_row) * to->k, to->k) : adji_join_reach(w->join);
  }
  return pairs;
}

static adj_status give_back(void *user, adji_help *help, adji_tally *tally) {
  adji_knn_worker *w = user;
  for (uint64_t i = 0; i < w->missed_count; i++) {
    w->is_missed[w->missed[i].begin / w->group] = 0;
    tally->pairs -= placed_pairs(w, &w->missed[i]);
  }
  adj_status status = w->missed_count ? adji_help_give_back(help, w->missed, w->missed_count) : ADJ_OK;
  w->missed_count = 0;
  return status;
}

/* ---- A drain ---------------------------------------------------------------------------------------------- */

static adj_status listed(void *user, uint32_t slot) {
  adji_knn_worker *w = user;
  uint64_t candidates = w->candidates;
  adj_status status = w->device->listed(w->device->state, slot, &candidates);
  w->lists[slot].candidates = candidates - w->candidates;
  w->candidates = candidates;
  return status ? status : note_missed(w, slot);
}

static void settle(void *user) {
  adji_knn_worker *w = user;
  w->device->settle(w->device->state);
}

adj_status adji_knn_worker_drain(adji_knn_worker *w, adji_help *help) {
  adji_list_steps steps = {w, open_batches, ask_list, listed, fetch_list, settle, w->device->missed ? give_back : NULL};
  return adji_list_loop(w->join->ctx, &steps, help);
}

/* ---- A pass ----------------------------------------------------------------------------------------- */

bool adji_knn_worker_can(const adji_join *join, uint64_t buffer_bytes) {
  return rows_a_buffer(join, adji_type_size(join->left->type), buffer_bytes) > 0;
}

static void free_lists(adji_knn_worker *w) {
  adji_memory *memory = &w->join->ctx->memory;
  adji_free(memory, w->ranges);
  adji_free(memory, w->missed);
  adji_free(memory, w->is_missed);
  w->ranges = NULL;
  w->missed = NULL;
  w->is_missed = NULL;
}

adj_status adji_knn_worker_begin(adji_knn_worker *w) {
  adji_list_stats_clear(&w->stats);
  w->candidates = 0;
  w->missed_count = 0;
  adji_memory *memory = &w->join->ctx->memory;
  if (w->device->missed && !w->group) return adji_fail(ADJ_E_INTERNAL, "queries without groups");
  w->ranges = adji_alloc(memory, w->list_ranges, sizeof *w->ranges, "list of queries");
  bool all = w->ranges != NULL;
  if (w->device->missed) {
    uint64_t groups = w->join->left->count / w->group + 1;
    w->missed = adji_alloc(memory, groups, sizeof *w->missed, "list of queries");
    w->is_missed = adji_alloc_zero(memory, groups, sizeof *w->is_missed, "list of queries");
    all = all && w->missed && w->is_missed;
  }
  if (all) return ADJ_OK;
  free_lists(w);
  return ADJ_E_MEMORY;
}

void adji_knn_worker_end(adji_knn_worker *w, adji_device_stats *work) {
  free_lists(w);
  adji_list_stats_tell(&w->stats, work);
}
