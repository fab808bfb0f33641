/* SPDX-License-Identifier: MIT
 *
 * Staged rows: see staged.h.
 *
 * Rows of the result are in the order of ids, and queries are in the order of the index, so consecutive queries have
 * scattered rows. If rows were written one by one to their places, each row of a large result would miss the caches and
 * the TLB, and so would its length and its offset. So rows pass through bins:
 *
 *   1. Every lane appends finished rows to bins of its own, one for each stretch of the result. A stretch fits the
 *      cache of a core. If the result fits no cache, the newest short rows of each bin are collected in one and then
 *      written to the bin together, past the caches: bins are in too many places for caches, TLB and prefetchers.
 *   2. The number of entries in all bins gives the beginning of each stretch.
 *   3. A lane takes the bins of a stretch, of all lanes. The lengths of their rows become offsets, then the rows are
 *      copied.
 *
 * So memory is written and read in order, except for what is in a cache.
 *
 * A bin (cpu/bins.h) has records. If the caller puts rows into place itself (result->binned), steps 2 and 3 are left
 * out, and rows have the caller's numbers.
 */
#include "cpu/staged.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/bins.h"
#include "distance/stream_row.h"

/* Longer records go to their bin at once. Measured with one core and with eight processes on two: with 1 KiB in place
 * of 2 for the newest records, joins of 10 M points in 3-D took 5 % longer, and without them 10 and 15 %. */
enum { HEADER = ADJI_RECORD, LINE_WORDS = 16, NEWEST_WORDS = 511, SHORT_WORDS = 80 };

/* The newest records of a bin. */
typedef struct newest {
  uint32_t used, words[NEWEST_WORDS];
} newest;

struct adji_staged {
  const adji_join *join;
  const adji_range_index *index;
  adj_result *result;
  uint64_t rows;
  uint32_t distance_words; /* 32-bit words of a distance: 0, 1 or 2 */
  adji_bins own, *bins;    /* of this join, or the caller's */
  newest *newest;          /* of each bin, lane by lane; NULL: all records go to the bins at once */
  uint64_t *begins;        /* first entry of each stretch, and the end of the last one */
  uint32_t *labels;        /* of the points of the right index, by position; NULL: rows have ids */
  /* The caller's bins: what the queries are called in records, by position, and the lengths of each lane's rows. */
  uint32_t *names;
  adji_lengths *lengths;
};
typedef adji_staged staged;

/* ---- 1. Rows into bins -------------------------------------------------------------------------------- */

/* Finishes a row of `found` neighbours in the bin. own: what the query is listed as. Returns the number that remain. */
static uint32_t finish_row(const adji_row_style *style, adji_row_room *room, uint32_t slot, uint32_t own,
                           uint32_t found, uint32_t *to) {
  /* By inner product, a point may not be its own neighbour. */
  bool has_self = !style->drop_self || adji_measure_grows(style->measure);
  if (adji_row_is_plain(style) && has_self) return adji_row_place_plain(style, room->ids[slot], found, own, to);
  uint32_t count = adji_row_order(style, room, slot, own, found);
  memcpy(to, room->ids[slot], count * sizeof *to);
  if (!style->distances) return count;
  adji_report_distances(style->measure, style->type, room->sums[slot], count, room->sums[slot]);
  memcpy(to + count, room->sums[slot], count * adji_type_size(style->type));
  return count;
}

/* The row number of a query, or its label. Labels ascend with the rows of the right set. */
static uint32_t own_id(const adji_walker *w, uint32_t position, uint32_t row) {
  const staged *s = w->walk.user;
  if (!s->labels || !s->join->self_join) return row;
  return w->walk.index->symmetric ? s->labels[position] : s->result->labels[row];
}

static void note_row(adji_lengths *lengths, uint32_t count) {
  uint32_t last = ADJI_LENGTHS - 1;
  lengths->rows[count < last ? count : last]++;
  if (count >= last) lengths->longest += count;
}

static newest *newest_of(const staged *s, uint32_t lane, uint64_t number) {
  return &s->newest[lane * s->bins->count + number];
}

/* Moves the newest records of a bin to the bin. */
static adj_status flush_bin(const staged *s, uint32_t lane, uint64_t number) {
  newest *n = newest_of(s, lane, number);
  if (!n->used) return ADJ_OK;
  adji_bin *b = adji_bins_reserve(s->bins, lane, (uint32_t)(number << s->bins->shift), n->used);
  if (!b) return ADJ_E_MEMORY;
  s->join->style.kernels->stream_row(b->at, n->words, n->used * sizeof *n->words);
  b->at += n->used;
  n->used = 0;
  return ADJ_OK;
}

static adj_status flush_lane(void *user, uint64_t lane, uint32_t worker) {
  (void)worker;
  const staged *s = user;
  adj_status status = ADJ_OK;
  for (uint64_t i = 0; i < s->bins->count && !status; i++)
    status = flush_bin(s, (uint32_t)lane, i);
  adji_stream_fence();
  return status;
}

/* The place for a record of at most so many words, among the newest or in the bin. NULL: out of memory. */
static uint32_t *reserve_record(const staged *s, uint32_t lane, uint32_t name, uint64_t words, newest **among) {
  uint64_t number = name >> s->bins->shift;
  *among = s->newest && words <= SHORT_WORDS ? newest_of(s, lane, number) : NULL;
  if (*among) {
    if ((*among)->used + words > NEWEST_WORDS && flush_bin(s, lane, number)) return NULL;
    return (*among)->words + (*among)->used;
  }
  const adji_bin *b = adji_bins_reserve(s->bins, lane, name, words);
  return b ? b->at : NULL;
}

static adj_status stage_row(adji_walker *w, const adji_row_style *style, uint32_t slot, uint32_t position,
                            uint32_t found, adji_tally *tally) {
  if (!found) return ADJ_OK;
  staged *s = w->walk.user;
  uint64_t entry = 1 + (uint64_t)s->distance_words;
  uint32_t row = w->walk.index->left->view.ids[position];
  uint32_t name = s->names ? s->names[position] : row;
  newest *among;
  uint32_t *record = reserve_record(s, w->lane, name, HEADER + found * entry, &among);
  if (!record) return ADJ_E_MEMORY;
  uint32_t count = finish_row(style, &w->room, slot, own_id(w, position, row), found, record + HEADER);
  if (!count) return ADJ_OK;
  record[0] = name;
  record[1] = count;
  adji_bin *b = &s->bins->lanes[w->lane].bins[name >> s->bins->shift];
  b->entries += count;
  if (among) {
    among->used += (uint32_t)(HEADER + count * entry);
  } else {
    b->at += HEADER + count * entry;
    __builtin_prefetch(b->at, 1); /* for the next row of this bin: rows of many other bins come before */
    __builtin_prefetch(b->at + LINE_WORDS, 1);
  }
  if (s->lengths) note_row(&s->lengths[w->lane], count);
  tally->pairs += count;
  return ADJ_OK;
}

static void fetch_bins(const adji_walker *w, const adji_task *task) {
  const staged *s = w->walk.user;
  const adji_bin *bins = s->bins->lanes[w->lane].bins;
  const uint32_t *names = s->names ? s->names : task->left->ids;
  for (uint32_t k = 0; k < task->query_count; k++) {
    uint64_t number = names[task->queries[k]] >> s->bins->shift;
    __builtin_prefetch(&bins[number], 1);
    if (s->newest) __builtin_prefetch(newest_of(s, w->lane, number), 1);
  }
}

static adj_status stage_group(adji_walker *w, const adji_group *group, adji_tally *tally) {
  const adji_join *join = w->walk.join;
  adji_row_style style = join->style;
  adji_group ordered;
  uint32_t found[ADJI_LIST_MAX];
  if (style.drop_self && adji_group_is_alone(w, group)) return ADJ_OK;
  adj_status status =
      adji_row_room_reserve(&w->room, &join->ctx->memory, &style, group->near_total + group->inside_total);
  fetch_bins(w, &group->task);
  if (!status && !w->walk.index->prefilter.filter && adji_ordered_pays(join, group)) {
    status = adji_ordered_copy(w, group, &ordered);
    group = &ordered;
    style.in_order = true;
  }
  for (uint32_t first = 0; !status && first < group->task.query_count; first += ADJI_LIST_MAX) {
    if (adji_group_cancelled(w, group)) return adji_check_cancel(join->ctx);
    uint32_t many = group->task.query_count - first;
    if (many > ADJI_LIST_MAX) many = ADJI_LIST_MAX;
    adji_list_queries(w, &style, group, first, many, found);
    for (uint32_t k = 0; k < many && !status; k++)
      status = stage_row(w, &style, k, group->task.queries[first + k], found[k], tally);
  }
  return status;
}

/* ---- 2. Beginnings of the stretches ---------------------------------------------------------------------- */

static adj_status count_entries(staged *s, const adji_run *run) {
  uint64_t pairs = 0;
  for (uint64_t i = 0; i < s->bins->count; i++) {
    s->begins[i] = pairs;
    for (uint32_t l = 0; l < s->join->ctx->threads; l++)
      pairs += s->bins->lanes[l].bins[i].entries;
  }
  s->begins[s->bins->count] = s->result->pairs = pairs;
  return adji_run_check_pairs(run, pairs);
}

static adj_status make_room(const staged *s) {
  adj_result *result = s->result;
  adji_memory *memory = &s->join->ctx->memory;
  uint64_t pairs = result->pairs;
  result->offsets = adji_alloc_zero(memory, s->rows + 1, sizeof *result->offsets, "row offsets");
  result->ids = result->offsets ? adji_alloc(memory, pairs, sizeof *result->ids, "result") : NULL;
  if (!result->ids) return ADJ_E_MEMORY;
  result->offsets[s->rows] = pairs;
  if (!s->distance_words) return ADJ_OK;
  result->distances = adji_alloc(memory, pairs, 4 * (size_t)s->distance_words, "result");
  return result->distances ? ADJ_OK : ADJ_E_MEMORY;
}

/* ---- 3. Rows into place ----------------------------------------------------------------------------------- */

typedef void (*record_fn)(const staged *s, const uint32_t *record);

static void each_record(const staged *s, uint64_t number, record_fn fn) {
  uint64_t entry = 1 + (uint64_t)s->distance_words;
  for (uint32_t l = 0; l < s->join->ctx->threads; l++) {
    const adji_bin *b = &s->bins->lanes[l].bins[number];
    for (const adji_chunk *c = b->chunks; c; c = c->next) {
      const uint32_t *end = adji_bin_end(b, c);
      for (const uint32_t *record = c->words; record < end; record += HEADER + record[1] * entry)
        fn(s, record);
    }
  }
}

static void note_length(const staged *s, const uint32_t *record) {
  s->result->offsets[record[0]] = record[1];
}

static void copy_row(const staged *s, const uint32_t *record) {
  uint64_t to = s->result->offsets[record[0]], count = record[1], size = 4 * (uint64_t)s->distance_words;
  memcpy(s->result->ids + to, record + HEADER, count * sizeof *record);
  if (size) memcpy((char *)s->result->distances + to * size, record + HEADER + count, count * size);
}

static adj_status place_bin(void *user, uint64_t number, uint32_t lane_number) {
  (void)lane_number;
  const staged *s = user;
  uint64_t *offsets = s->result->offsets, at = s->begins[number], row = number << s->bins->shift;
  uint64_t end = (number + 1) << s->bins->shift < s->rows ? (number + 1) << s->bins->shift : s->rows;
  each_record(s, number, note_length);
  for (; row < end; row++) {
    uint64_t length = offsets[row];
    offsets[row] = at;
    at += length;
  }
  if (at != s->begins[number + 1]) return adji_fail(ADJ_E_INTERNAL, "the lengths of staged rows do not add up");
  each_record(s, number, copy_row);
  return ADJ_OK;
}

/* The rows stay in the caller's bins. */
static void leave_bins(staged *s) {
  adji_binned *binned = s->result->binned;
  binned->lengths = (adji_lengths){0};
  for (uint32_t l = 0; l < s->join->ctx->threads; l++) {
    for (uint32_t i = 0; i < ADJI_LENGTHS; i++)
      binned->lengths.rows[i] += s->lengths[l].rows[i];
    binned->lengths.longest += s->lengths[l].longest;
  }
  binned->filled = true;
}

adj_status adji_staged_gather(staged *s, adji_run *run) {
  uint64_t begin = adji_now_ns();
  run->progress_from = run->progress_to;
  adj_status status = s->newest ? adji_loop(s->join->ctx, s->join->ctx->threads, flush_lane, s) : ADJ_OK;
  if (!status) status = count_entries(s, run);
  if (!status && s->names) {
    leave_bins(s);
    return ADJ_OK;
  }
  if (!status) status = make_room(s);
  if (!status) status = adji_loop(s->join->ctx, s->bins->count, place_bin, s);
  s->result->labelled = !status && s->labels;
  adji_trace(s->join->ctx, "deal", 0, begin, s->rows);
  return status;
}

/* ---- The pass --------------------------------------------------------------------------------------------- */

/* Stretches have four megabytes of the result, twice the cache of a core, but there are several per lane. With more
 * bins, filling them would cost more than is saved when rows are copied. */
static adj_status open_bins(staged *s, double pairs) {
  enum { STRETCH = 4 << 20, BINS_A_LANE = 16, MOST_BINS = 2048, LEAST_BIN = 4096, LARGE = 64 << 20, SHARE = 16 };
  adji_memory *memory = &s->join->ctx->memory;
  double lanes = s->join->ctx->threads, entry = 4 * (1 + (double)s->distance_words);
  double bytes = pairs * entry, wanted = bytes / STRETCH, total = bytes + 4 * HEADER * (double)s->rows;
  if (wanted < BINS_A_LANE * lanes) wanted = BINS_A_LANE * lanes;
  if (wanted > MOST_BINS) wanted = MOST_BINS;
  if (wanted > total / lanes / LEAST_BIN) wanted = total / lanes / LEAST_BIN; /* a small result has few bins */
  while (!s->names && (double)(s->rows >> s->own.shift) > wanted && s->own.shift < 31)
    s->own.shift++;
  if (!s->names) s->own.count = (s->rows >> s->own.shift) + 1;
  s->begins = adji_alloc(memory, s->bins->count + 1, sizeof *s->begins, "rows");
  if (!s->begins) return ADJ_E_MEMORY;
  uint64_t newest_count = s->join->ctx->threads * s->bins->count;
  if (total > LARGE && total > SHARE * (double)(newest_count * sizeof *s->newest)) {
    s->newest = adji_alloc_zero(memory, newest_count, sizeof *s->newest, "rows");
    if (!s->newest) return ADJ_E_MEMORY;
  }
  return adji_bins_open(s->bins, total);
}

/* Values of points, by id, in the order of an index. */
typedef struct gathering {
  const uint32_t *ids, *from;
  uint32_t *to;
} gathering;

static void gather_slice(void *user, uint64_t begin, uint64_t end) {
  const gathering *g = user;
  for (uint64_t i = begin; i < end; i++)
    g->to[i] = g->from[g->ids[i]];
}

static adj_status gather_labels(const staged *s, const adji_view *view, const uint32_t *labels, uint32_t **out) {
  enum { SLICE = 1 << 16 };
  *out = adji_alloc_zero(&s->join->ctx->memory, view->count + ADJI_PAD, sizeof **out, "labels of points");
  gathering g = {view->ids, labels, *out};
  return *out ? adji_loop_slices(s->join->ctx, view->count, view->count / SLICE + 1, gather_slice, &g) : ADJ_E_MEMORY;
}

/* The labels of the right points in the order of the index: rows then have labels at no further cost. The same for the
 * names of the left points. */
static adj_status open_labels(staged *s) {
  const adj_result *result = s->result;
  adj_status status = gather_labels(s, &s->index->right.view, result->labels, &s->labels);
  if (status || !result->binned) return status;
  s->bins = &result->binned->bins;
  s->lengths = adji_alloc_zero(&s->join->ctx->memory, s->join->ctx->threads, sizeof *s->lengths, "rows");
  if (!s->lengths) return ADJ_E_MEMORY;
  return gather_labels(s, &s->index->left->view, result->binned->names, &s->names);
}

adj_status adji_staged_begin(adji_walk *walk, adji_run *run, const adji_pass *pass, double pairs, adji_staged **out) {
  const adji_join *join = walk->join;
  staged *s = calloc(1, sizeof *s);
  if (!s) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  *s = (staged){.join = join, .index = walk->index, .result = pass->result, .rows = join->left->count};
  *out = s;
  s->own.ctx = join->ctx;
  s->bins = &s->own;
  if (join->style.distances) s->distance_words = (uint32_t)adji_type_size(join->style.type) / 4;
  walk->counts = false;
  walk->sums = adji_row_needs_sums(&join->style);
  walk->row_length = s->rows ? (uint64_t)(pairs / (double)s->rows) : 0;
  walk->visit = stage_group;
  walk->user = s;
  run->progress_to = 0.9;
  adj_status status = pass->result->labels ? open_labels(s) : ADJ_OK;
  walk->right_ids = s->labels;
  walk->names = s->names;
  return status ? status : open_bins(s, pairs);
}

void adji_staged_end(staged *s) {
  if (!s) return;
  adji_memory *memory = &s->join->ctx->memory;
  if (!s->names || !s->result->binned->filled) adji_bins_close(s->bins);
  adji_free(memory, s->newest);
  adji_free(memory, s->begins);
  adji_free(memory, s->labels);
  adji_free(memory, s->names);
  adji_free(memory, s->lengths);
  free(s);
}
