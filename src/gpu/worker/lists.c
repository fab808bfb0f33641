/* SPDX-License-Identifier: MIT
 *
 * Lists of queries on their way through a device: see lists.h.
 */
#include "gpu/worker/lists.h"

#include <math.h>
#include <stdatomic.h>

/* LEAST_ROWS: the least rows of a piece, by which lanes share the rows of a list. LEAST_PAIRS: the least entries of a
 * list that is filled, which keep a device busy. */
enum { LEAST_ROWS = 256, LEAST_PAIRS = 1 << 22 };

/* ---- Lists from batches ----------------------------------------------------------------------------- */

static uint64_t clamp(uint64_t wanted, uint64_t least, uint64_t most) {
  uint64_t some = wanted < least ? least : wanted;
  return some < most ? some : most;
}

static uint64_t entries_of(const adji_lists *l, const adji_batch *batch) {
  return l->pass->batch_pairs[batch - l->pass->queue->batches];
}

/* Makes these batches the source of the next lists. */
static void open_batches(adji_lists *l, const adji_batch *batches, uint64_t count) {
  const adji_placer *p = l->placer;
  uint64_t queries = 0, pairs = 0, lists = l->most ? 1 : p->lists_a_take;
  for (uint64_t i = 0; i < count; i++) {
    queries += batches[i].end - batches[i].begin;
    if (l->pass->batch_pairs) pairs += entries_of(l, &batches[i]);
  }
  l->next.batches = batches;
  l->next.count = count;
  l->next.at = l->next.done = 0;
  l->next.queries = clamp(queries / lists + 1, p->least_queries, l->list_queries);
  if (p->multiple > 1) {
    uint64_t rounded = (l->next.queries + p->multiple - 1) / p->multiple * p->multiple;
    l->next.queries = rounded <= l->list_queries      ? rounded
                      : l->list_queries > p->multiple ? l->list_queries / p->multiple * p->multiple
                                                      : l->list_queries;
  }
  if (!l->pass->batch_pairs) return;
  l->next.queries = l->list_queries; /* the number of entries is the limit instead */
  l->next.pairs = clamp(pairs / lists + 1, LEAST_PAIRS, l->list_pairs);
  if (l->next.pairs < l->pass->longest) l->next.pairs = l->list_pairs; /* which is enough for the longest row */
}

/* The number of next queries of the current batch, up to `most`, that have no more than `room` entries together. */
static uint32_t queries_within(const adji_lists *l, uint32_t most, uint64_t room, uint64_t *pairs) {
  const uint32_t *rows = l->pass->order + l->next.batches[l->next.at].begin + l->next.done;
  uint32_t many = 0;
  for (*pairs = 0; many < most; many++) {
    uint64_t length = adji_window_length(l->pass->window, rows[many]);
    if (length > room - *pairs) break;
    *pairs += length;
  }
  return many;
}

/* The number of next queries, all of one batch, for a list that has room for `queries` more queries and `room` more
 * entries. 0: none fits, or none remains. Batches without entries are skipped. */
static uint32_t next_queries(adji_lists *l, uint64_t queries, uint64_t room, uint64_t *pairs) {
  bool measured = l->pass->batch_pairs;
  *pairs = 0;
  while (measured && l->next.at < l->next.count && !l->next.done && !entries_of(l, &l->next.batches[l->next.at]))
    l->next.at++;
  if (l->next.at == l->next.count) return 0;
  const adji_batch *batch = &l->next.batches[l->next.at];
  uint32_t remaining = batch->end - batch->begin - l->next.done, take = remaining;
  if (take > ADJI_LONGEST_RANGE) take = ADJI_LONGEST_RANGE;
  if (take > queries) take = (uint32_t)queries;
  if (!measured) return take;
  if (l->next.done || take < remaining || entries_of(l, batch) > room) return queries_within(l, take, room, pairs);
  *pairs = entries_of(l, batch);
  return take;
}

static void add_range(adji_lists *l, uint32_t take, uint64_t *ranges) {
  const adji_batch *batch = &l->next.batches[l->next.at];
  uint32_t begin = batch->begin + l->next.done;
  l->ranges[(*ranges)++] = (adji_batch){begin, begin + take, 0};
  l->next.done += take;
  if (begin + take < batch->end) return;
  l->next.at++;
  l->next.done = 0;
}

/* The ranges of the next list. There are none at the end. */
static adji_list_ranges next_list(adji_lists *l) {
  adji_list_ranges next = {.ranges = l->ranges};
  uint64_t queries = l->next.queries;
  while (queries && next.count < ADJI_MOST_RANGES) {
    uint64_t more;
    uint32_t take = next_queries(l, queries, l->next.pairs - next.pairs, &more);
    if (!take) break;
    add_range(l, take, &next.count);
    queries -= take;
    next.pairs += more;
  }
  return next;
}

static adj_status begin_list(adji_lists *l, uint32_t slot, bool *some) {
  adji_list_ranges next = next_list(l);
  adji_list *list = &l->list[slot];
  *some = next.count > 0;
  if (!next.count) return ADJ_OK;
  list->lists = l;
  list->slot = slot;
  list->pairs = next.pairs;
  atomic_store(&list->found, 0);
  return l->placer->begin(l, &next, slot, &list->rows);
}

/* ---- Missed queries --------------------------------------------------------------------------------- */

static adj_status note_missed(adji_lists *l, uint32_t slot) {
  uint64_t count, all = l->join->left->count;
  if (!l->misses) return ADJ_OK;
  adj_status status = adji_gpu_knn_missed(l->knn, slot, l->missed_queries, &count);
  l->take_queries += l->list[slot].rows;
  l->take_missed += status ? 0 : count;
  for (uint64_t i = 0; !status && i < count; i++) {
    uint32_t group = l->missed_queries[i] / l->pass->group;
    if (l->is_missed[group]) continue;
    uint64_t begin = (uint64_t)group * l->pass->group, end = begin + l->pass->group;
    l->is_missed[group] = 1;
    l->missed[l->missed_count++] = (adji_batch){(uint32_t)begin, (uint32_t)(end < all ? end : all), 0};
  }
  return status;
}

/* The number of pairs that were counted when the group's rows were placed. */
static uint64_t placed_pairs(const adji_lists *l, const adji_batch *group) {
  const adji_window *to = l->pass->window;
  bool bounded = l->join->limit < (double)INFINITY;
  uint64_t pairs = 0;
  for (uint32_t i = group->begin; i < group->end; i++) {
    uint64_t row = l->pass->order[i];
    if (!adji_window_has(to, row)) continue;
    pairs += bounded ? adji_padded_row_length(to->ids + adji_window_at(to, row), to->k) : adji_join_reach(l->join);
  }
  return pairs;
}

static adj_status return_missed(adji_lists *l, adji_feed *feed, adji_tally *tally) {
  for (uint64_t i = 0; i < l->missed_count; i++) {
    l->is_missed[l->missed[i].begin / l->pass->group] = 0;
    tally->pairs -= placed_pairs(l, &l->missed[i]);
  }
  adj_status status = l->missed_count ? adji_feed_return(feed, l->missed, l->missed_count) : ADJ_OK;
  l->missed_count = 0;
  return status;
}

/* After a take: missed queries go back to the queue, and epsilon grows if there are too many of them. */
static adj_status end_misses(adji_lists *l, adji_feed *feed, adji_tally *tally) {
  uint64_t queries = l->take_queries, missed = l->take_missed;
  bool grew = false;
  l->take_queries = l->take_missed = 0;
  /* Before missed queries go back: if the device fails, all its batches go back. */
  adj_status status = queries ? adji_gpu_knn_judge(l->knn, queries, missed, &grew) : ADJ_OK;
  if (!status) status = return_missed(l, feed, tally);
  if (grew) adji_feed_again(feed);
  return status;
}

/* ---- Rows into place -------------------------------------------------------------------------------- */

/* One in PART_OF_LANES of the lanes help until rates are known. */
enum { PART_OF_LANES = 4 };

/* How many lanes keep up with the copies, which arrive one after the other. With more lanes, each would mostly wait.
 * Many are needed while the memory of the result is fresh. */
static uint64_t enough_lanes(const void *user) {
  const adji_lists *l = ((const adji_list *)user)->lists;
  const adji_transfer_stats *s = &l->stats;
  double seconds = (double)(atomic_load(&s->place_ns) - s->place_ns_before[1]) * 1e-9;
  double bytes = (double)(atomic_load(&s->bytes) - s->bytes_before[1]);
  return 1 + (seconds > 0 && bytes > 0 ? (uint64_t)(l->join->ctx->costs.link_rate * seconds / bytes)
                                       : l->join->ctx->threads / PART_OF_LANES);
}

static void note_stats(adji_transfer_stats *s) {
  s->place_ns_before[1] = s->place_ns_before[0];
  s->bytes_before[1] = s->bytes_before[0];
  s->place_ns_before[0] = atomic_load(&s->place_ns);
  s->bytes_before[0] = atomic_load(&s->bytes);
}

static adj_status place_some(void *user, uint64_t number, uint32_t lane) {
  adji_list *list = user;
  uint64_t first = number * list->each, rows = list->rows - first < list->each ? list->rows - first : list->each;
  adj_status status = list->lists->placer->place(list, first, rows, lane);
  return status ? status : adji_check_cancel(list->lists->join->ctx);
}

/* Places all rows of a list, with all free lanes. */
static adj_status place_list(adji_lists *l, uint32_t slot, adji_feed *feed, adji_tally *tally) {
  adji_list *list = &l->list[slot];
  adj_status status = ADJ_OK;
  list->each = list->rows ? l->placer->rows_at_once(list) : 0;
  if (list->each) {
    uint64_t share = list->rows / (2 * (uint64_t)l->join->ctx->threads) + 1;
    if (share < LEAST_ROWS) share = LEAST_ROWS;
    if (list->each > share) list->each = share;
    note_stats(&l->stats);
    status = adji_feed_parallel(feed, (list->rows + list->each - 1) / list->each, place_some, enough_lanes, list);
  }
  tally->pairs += atomic_load(&list->found);
  tally->candidates += list->candidates;
  return status;
}

/* ---- The loop --------------------------------------------------------------------------------------- */

typedef struct loop {
  adji_lists *lists;
  adji_feed *feed;
  bool open;                         /* there are batches whose lists have not all been submitted */
  uint64_t submitted, found, placed; /* numbers of lists */
  uint32_t ends[ADJI_LISTS];         /* how many takes end with the list in each slot */
  adji_tally tally;                  /* of the placed lists of the oldest take */
} loop;

static adj_status take_done(loop *p) {
  adji_tally tally = p->tally;
  p->tally = (adji_tally){0};
  adj_status status = p->lists->misses ? end_misses(p->lists, p->feed, &tally) : ADJ_OK;
  return status ? status : adji_feed_done(p->feed, &tally);
}

/* Ends a take: the last batches have no more lists. The take is done with its newest list, or is done already. */
static adj_status end_take(loop *p) {
  p->open = false;
  if (p->found == p->submitted) adji_feed_found(p->feed);
  if (p->placed == p->submitted) return take_done(p);
  p->ends[(p->submitted - 1) % ADJI_LISTS]++;
  return ADJ_OK;
}

/* Starts lists as long as there are slots and batches. */
static adj_status begin_lists(loop *p) {
  adj_status status = ADJ_OK;
  uint32_t most = p->lists->most ? p->lists->most : ADJI_LISTS;
  while (!status && p->submitted - p->placed < most) {
    const adji_batch *batches;
    uint64_t count;
    uint32_t slot = (uint32_t)(p->submitted % ADJI_LISTS);
    bool some = false;
    if (!p->open && p->lists->misses && p->submitted > p->placed) return ADJ_OK;
    if (!p->open && !adji_feed_take(p->feed, &batches, &count)) return ADJ_OK;
    if (!p->open) open_batches(p->lists, batches, count);
    p->open = true;
    status = begin_list(p->lists, slot, &some);
    if (!status && !some) status = end_take(p);
    if (!some) continue;
    p->ends[slot] = 0;
    p->submitted++;
  }
  return status;
}

static adj_status wait_for_list(loop *p) {
  adji_lists *l = p->lists;
  uint32_t slot = (uint32_t)(p->found % ADJI_LISTS);
  adji_tally found = l->found;
  adji_feed_sleep(p->feed, true);
  adj_status status = l->placer->wait(l, slot, &found);
  adji_feed_sleep(p->feed, false);
  if (status) return status;
  /* When a range join is filled, the pairs are those that were counted before. In a kNN join, they are counted when
   * rows are placed. */
  if (!l->pass->window) atomic_store(&l->list[slot].found, found.pairs - l->found.pairs);
  if (l->pass->batch_pairs) atomic_store(&l->list[slot].found, l->list[slot].pairs);
  l->list[slot].candidates = found.candidates - l->found.candidates;
  l->found = found;
  p->found++;
  for (uint32_t i = 0; i < p->ends[slot]; i++)
    adji_feed_found(p->feed);
  return note_missed(l, slot);
}

static adj_status place_oldest(loop *p) {
  uint32_t slot = (uint32_t)(p->placed % ADJI_LISTS);
  adj_status status = place_list(p->lists, slot, p->feed, &p->tally);
  if (status) return status;
  p->placed++;
  for (uint32_t i = 0; i < p->ends[slot] && !status; i++)
    status = take_done(p);
  return status;
}

adj_status adji_lists_drain(adji_lists *l, adji_feed *feed) {
  loop p = {.lists = l, .feed = feed};
  adj_status status = begin_lists(&p);
  while (!status && p.submitted > p.placed) {
    status = p.found == p.placed ? wait_for_list(&p) : place_oldest(&p);
    if (!status) status = adji_check_cancel(l->join->ctx);
    if (!status) status = begin_lists(&p); /* before rows are placed, so that the device stays busy */
  }
  if (status) adji_gpu_quiesce(l->gpu);
  return status;
}

/* ---- A pass ----------------------------------------------------------------------------------------- */

static void free_lists(adji_lists *l) {
  adji_memory *memory = &l->join->ctx->memory;
  adji_free(memory, l->ranges);
  adji_free(memory, l->missed);
  adji_free(memory, l->is_missed);
  adji_free(memory, l->missed_queries);
  l->missed_queries = NULL;
  l->ranges = NULL;
  l->missed = NULL;
  l->is_missed = NULL;
}

adj_status adji_lists_begin(adji_lists *l, const adji_pass *pass) {
  adji_memory *memory = &l->join->ctx->memory;
  l->stats = (adji_transfer_stats){0};
  l->pass = pass;
  l->found = (adji_tally){0};
  l->missed_count = l->take_queries = l->take_missed = 0;
  l->ranges = adji_alloc(memory, ADJI_MOST_RANGES, sizeof *l->ranges, "list of queries");
  bool all = l->ranges != NULL;
  if (l->misses && pass->group) {
    uint64_t groups = l->join->left->count / pass->group + 1;
    l->missed = adji_alloc(memory, groups, sizeof *l->missed, "list of queries");
    l->is_missed = adji_alloc_zero(memory, groups, sizeof *l->is_missed, "list of queries");
    l->missed_queries = adji_alloc(memory, l->list_queries, sizeof *l->missed_queries, "list of queries");
    all = all && l->missed && l->is_missed && l->missed_queries;
  }
  if (all) return ADJ_OK;
  free_lists(l);
  return ADJ_E_MEMORY;
}

void adji_lists_end(adji_lists *l, adji_device_stats *stats) {
  free_lists(l);
  stats->down_s += (double)atomic_load(&l->stats.wait_ns) * 1e-9;
  stats->place_s += (double)atomic_load(&l->stats.place_ns) * 1e-9;
  stats->bytes_down += atomic_load(&l->stats.bytes);
}

enum { SAMPLED_RANGE = 1024 };

uint64_t adji_lists_sample(uint64_t count, uint64_t wanted, adji_batch *ranges, uint64_t *queries) {
  uint64_t many = wanted / SAMPLED_RANGE ? wanted / SAMPLED_RANGE : 1;
  uint64_t each = wanted < SAMPLED_RANGE ? wanted : SAMPLED_RANGE;
  if (many > ADJI_MOST_RANGES) many = ADJI_MOST_RANGES;
  *queries = 0;
  for (uint64_t i = 0; i < many; i++) {
    uint64_t begin, end;
    adji_slice(count, many, i, &begin, &end);
    if (end - begin > each) end = begin + each;
    ranges[i] = (adji_batch){(uint32_t)begin, (uint32_t)end, 0};
    *queries += end - begin;
  }
  return many;
}
