/* SPDX-License-Identifier: MIT
 *
 * The range join on cores: the queue of batches, and the passes that count and fill.
 */
#include "cpu/range.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/estimate.h"
#include "cpu/ordered.h"
#include "cpu/single.h"
#include "cpu/walk.h"
#include "queue/partners.h"

/* Beside devices batches are smaller in small joins, so that all are done together whatever a device leaves. */
enum { DEFAULT_BATCH = 1024, SHARED_BATCHES = 2048, LEAST_BATCH = 64, COUNTS_AHEAD = 24 };

typedef struct range_engine {
  adji_join join;
  adji_range_options options;
  adji_queue queue;
  bool once; /* counts are found by evaluating each pair once; with partners rows are too */
  adji_partners partners;
} range_engine;

/* One lane of a pass. */
typedef struct lane {
  _Alignas(64) adji_walker walker; /* no two share a cache line */
  adji_row_room room;
  adji_ordered ordered;
  const struct pass *pass;
} lane;

typedef struct pass {
  range_engine *engine;
  lane *lanes;
  uint32_t *degrees;
  const adji_window *window;
} pass;

/* ---- The queue ------------------------------------------------------------------------------------- */

static uint64_t batch_queries(const range_engine *e) {
  uint64_t each = e->options.left->view.count / SHARED_BATCHES;
  if (e->options.batch) return e->options.batch;
  if (!e->partners.count || each > DEFAULT_BATCH) return DEFAULT_BATCH;
  return each < LEAST_BATCH ? LEAST_BATCH : each;
}

/* Batches of consecutive queries. The work of a cell is estimated by the square of its population,
 * which is what it costs where the density varies slowly; a cell with more queries than a batch is
 * cut. */
static adj_status fill_queue(range_engine *e) {
  const adji_index *left = e->options.left;
  uint64_t each = batch_queries(e), count = left->view.count;
  adj_status status = adji_queue_init(&e->queue, e->join.ctx, count / each + 16);
  adji_batch batch = {0};
  for (uint64_t c = 0; c < left->cell_count && !status; c++) {
    double population = left->cell_starts[c + 1] - left->cell_starts[c];
    for (uint32_t p = left->cell_starts[c]; p < left->cell_starts[c + 1] && !status;) {
      uint64_t room = each - (batch.end - batch.begin);
      uint32_t take = left->cell_starts[c + 1] - p < room ? left->cell_starts[c + 1] - p : (uint32_t)room;
      batch.end = p += take;
      batch.work += take * (population + 1);
      if (batch.end - batch.begin < each && batch.end < count) continue;
      status = adji_queue_add(&e->queue, batch);
      batch = (adji_batch){.begin = p, .end = p};
    }
  }
  if (status) return status;
  if (e->partners.count) return adji_queue_sort_roughly(&e->queue, NULL);
  adji_queue_sort(&e->queue);
  return ADJ_OK;
}

/* ---- Count ------------------------------------------------------------------------------------------ */

/* Whether a query is its own neighbour: at distance 0 it always is, by its inner product perhaps. */
static bool belongs_to_itself(const adji_join *join, const adji_view *view, uint32_t query) {
  const adji_row_style *style = &join->style;
  uint64_t stride = view->stride;
  if (style->type == ADJ_F64) {
    const double *x = (const double *)view->coords + query;
    return adji_sum_f64(style->measure, x, stride, x, stride, view->dim) <= join->limit;
  }
  const float *x = (const float *)view->coords + query;
  return (double)adji_sum_f32(style->measure, x, stride, x, stride, view->dim) <= join->limit;
}

static adj_status count_group(void *user, const adji_group *group, adji_tally *tally) {
  const lane *l = user;
  const pass *p = l->pass;
  const adji_task *task = &group->task;
  uint32_t counts[ADJI_GROUP];
  /* A point belongs to itself, at distance 0: it was counted and is taken off again. */
  const adji_join *join = &p->engine->join;
  bool drop = join->style.drop_self, always = adji_measure_grows(join->style.measure);
  for (uint32_t k = 0; k < task->query_count; k++) {
    counts[k] = 0 - (uint32_t)(drop && always);
    /* Rows are far apart, so the places of the counts to come are fetched ahead. */
    if (p->degrees) __builtin_prefetch(&p->degrees[task->left->ids[task->queries[k] + COUNTS_AHEAD]], 1);
  }
  adji_count_queries(&l->walker, group, counts);
  for (uint32_t k = 0; k < task->query_count && drop && !always; k++)
    counts[k] -= belongs_to_itself(join, task->left, task->queries[k]);
  for (uint32_t k = 0; k < task->query_count; k++) {
    tally->pairs += counts[k];
    if (p->degrees) p->degrees[task->left->ids[task->queries[k]]] = counts[k];
  }
  return ADJ_OK;
}

static adj_status count_batch(void *user, const adji_batch *batch, uint32_t lane_number, adji_tally *tally) {
  pass *p = user;
  lane *l = &p->lanes[lane_number];
  adji_walk walk = {NULL, count_group, l};
  return adji_walk_batch(&l->walker, batch, &walk, tally);
}

/* ---- Fill ------------------------------------------------------------------------------------------- */

/* The most neighbours a query of [first, first + many) can list. */
static uint64_t longest_list(const pass *p, const adji_group *group, uint32_t first, uint32_t many) {
  if (p->engine->join.style.one_way) return group->near_total + group->inside_total;
  uint64_t longest = 0;
  for (uint32_t k = first; k < first + many; k++) {
    uint64_t row = group->task.left->ids[group->task.queries[k]];
    uint64_t length = p->window->offsets[row + 1] - p->window->offsets[row] + 1;
    if (length > longest) longest = length;
  }
  return longest;
}

/* Rows of ids alone, all neighbours wanted: dropped, sorted and placed by one kernel. */
static bool plain_rows(const adji_row_style *style) {
  return !adji_row_needs_sums(style) && !style->one_way && !style->in_order;
}

static adj_status place_row(lane *l, const adji_row_style *style, uint32_t slot, uint32_t row, uint32_t found,
                            adji_tally *tally) {
  const adji_window *window = l->pass->window;
  uint64_t length = window->offsets[row + (uint64_t)1] - window->offsets[row];
  if (plain_rows(style) && found - style->drop_self == length) {
    uint32_t *to = window->ids + (window->offsets[row] - window->offsets[window->first_row]);
    tally->pairs += style->kernels->place_ids(l->room.ids[slot], found, style->drop_self ? row : ADJ_NO_ID,
                                              style->order == ADJ_ORDER_ID, to);
    return ADJ_OK;
  }
  uint32_t count = adji_row_order(style, &l->room, slot, row, found);
  tally->pairs += count;
  return adji_row_place(style, &l->room, slot, row, count, window);
}

static adj_status fill_queries(lane *l, const adji_row_style *style, const adji_group *group, uint32_t first,
                               uint32_t many, adji_tally *tally) {
  const pass *p = l->pass;
  uint32_t found[ADJI_LIST_MAX];
  adj_status status =
      adji_row_room_reserve(&l->room, &p->engine->join.ctx->memory, style, longest_list(p, group, first, many));
  if (status) return status;
  adji_list_queries(&l->walker, style, group, first, many, &l->room, found);
  for (uint32_t k = 0; k < many && !status; k++)
    status = place_row(l, style, k, group->task.left->ids[group->task.queries[first + k]], found[k], tally);
  return status;
}

static adj_status fill_group(void *user, const adji_group *group, adji_tally *tally) {
  lane *l = user;
  const adji_join *join = &l->pass->engine->join;
  adji_row_style style = join->style;
  adji_group ordered;
  adj_status status = ADJ_OK;
  if (!l->walker.options->prefilter && adji_ordered_pays(join, group)) {
    status = adji_ordered_copy(&l->ordered, join, group, &ordered);
    group = &ordered;
    style.in_order = true;
  }
  for (uint32_t first = 0; first < group->task.query_count && !status; first += ADJI_LIST_MAX) {
    if (adji_group_cancelled(&l->walker, group)) return adji_check_cancel(join->ctx);
    uint32_t many = group->task.query_count - first;
    status = fill_queries(l, &style, group, first, many < ADJI_LIST_MAX ? many : ADJI_LIST_MAX, tally);
  }
  return status;
}

static adj_status fill_batch(void *user, const adji_batch *batch, uint32_t lane_number, adji_tally *tally) {
  pass *p = user;
  lane *l = &p->lanes[lane_number];
  adji_walk walk = {p->window, fill_group, l};
  return adji_walk_batch(&l->walker, batch, &walk, tally);
}

/* One-way rows are counted by listing: the ids decide. */
static adj_status count_one_way(void *user, const adji_group *group, adji_tally *tally) {
  lane *l = user;
  const pass *p = l->pass;
  const adji_row_style *style = &p->engine->join.style;
  uint32_t found[ADJI_LIST_MAX];
  adj_status status =
      adji_row_room_reserve(&l->room, &p->engine->join.ctx->memory, style, group->near_total + group->inside_total);
  for (uint32_t first = 0; first < group->task.query_count && !status; first += ADJI_LIST_MAX) {
    uint32_t many = group->task.query_count - first;
    if (many > ADJI_LIST_MAX) many = ADJI_LIST_MAX;
    adji_list_queries(&l->walker, style, group, first, many, &l->room, found);
    for (uint32_t k = 0; k < many; k++) {
      uint32_t row = group->task.left->ids[group->task.queries[first + k]], above = 0;
      for (uint32_t i = 0; i < found[k]; i++)
        above += l->room.ids[k][i] > row;
      if (p->degrees) p->degrees[row] = above;
      tally->pairs += above;
    }
  }
  return status;
}

static adj_status count_one_way_batch(void *user, const adji_batch *batch, uint32_t lane_number, adji_tally *tally) {
  pass *p = user;
  lane *l = &p->lanes[lane_number];
  adji_walk walk = {NULL, count_one_way, l};
  return adji_walk_batch(&l->walker, batch, &walk, tally);
}

/* ---- Passes ----------------------------------------------------------------------------------------- */

static void close_lanes(pass *p) {
  adj_ctx *ctx = p->engine->join.ctx;
  for (uint32_t i = 0; p->lanes && i < ctx->threads; i++) {
    adji_walker_clear(&p->lanes[i].walker);
    adji_row_room_clear(&p->lanes[i].room);
    adji_ordered_clear(&p->lanes[i].ordered);
  }
  adji_free(&ctx->memory, p->lanes);
}

static adj_status open_lanes(pass *p, bool forward, bool sums) {
  adj_ctx *ctx = p->engine->join.ctx;
  p->lanes = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof *p->lanes, "workers");
  if (!p->lanes) return ADJ_E_MEMORY;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < ctx->threads && !status; i++) {
    p->lanes[i].pass = p;
    status = adji_walker_init(&p->lanes[i].walker, &p->engine->join, &p->engine->options, forward, sums);
  }
  return status;
}

/* The total of a self-join needs each unordered pair only once. */
static adj_status count_total(range_engine *e, adji_run *run, uint64_t *total) {
  range_engine half = *e;
  half.join.style.drop_self = false; /* not among the candidates */
  pass p = {.engine = &half};
  adji_tally tally = {0};
  adj_status status = open_lanes(&p, true, false);
  if (!status) status = adji_run_pass(run, &e->queue, &(adji_pass){"count", &p, count_batch}, &tally);
  close_lanes(&p);
  uint64_t own = e->join.style.drop_self || e->join.style.one_way ? 0 : e->join.left->count;
  *total = tally.pairs * (e->join.style.one_way ? 1 : 2) + own;
  return status;
}

/* Every candidate from both its points: with devices, which share the queries by whole rows, too. */
static adj_status count_rows(range_engine *e, const adji_partners_begun *begun, adji_run *run, uint32_t *degrees,
                             uint64_t *total) {
  pass p = {.engine = e, .degrees = degrees};
  adji_tally tally = {0};
  bool one_way = e->join.style.one_way;
  adji_pass work = {"count", &p, one_way ? count_one_way_batch : count_batch};
  adj_status status = open_lanes(&p, false, one_way && adji_row_needs_sums(&e->join.style));
  if (!status) status = adji_partners_run(&e->partners, begun, run, &e->queue, &work, &tally);
  close_lanes(&p);
  *total = tally.pairs;
  return status;
}

/* Whether each pair can be found once, for both its points. */
static bool finds_once(const range_engine *e) {
  return e->once && e->options.symmetric;
}

static adj_status count_once(range_engine *e, const adji_partners_begun *begun, adji_run *run, uint32_t *degrees,
                             uint64_t *total) {
  adji_single_work work = {&e->join, &e->options, &e->queue, &e->partners, begun};
  adji_memory *memory = &e->join.ctx->memory;
  uint32_t *mine = degrees ? degrees : adji_alloc(memory, e->join.left->count, sizeof *mine, "neighbour counts");
  adj_status status = mine ? adji_single_count(&work, run, mine, total) : ADJ_E_MEMORY;
  if (!degrees) adji_free(memory, mine);
  return status;
}

static adj_status range_count(void *state, adji_run *run, uint32_t *degrees, uint64_t *total) {
  range_engine *e = state;
  adji_shared_work work = {.order = e->options.left->view.ids, .batches = e->queue.batches};
  work.once = finds_once(e);
  if (!work.once) work.degrees = degrees;
  adji_partners_begun begun;
  adji_partners_begin(&e->partners, e->join.ctx, &work, &begun);
  if (!begun.count && !degrees && e->options.symmetric && !run->control.max_pairs) return count_total(e, run, total);
  adj_status status = work.once && (begun.count || degrees) ? count_once(e, &begun, run, degrees, total)
                                                            : count_rows(e, &begun, run, degrees, total);
  adji_partners_end(&begun, run);
  return status;
}

static adj_status fill_rows(range_engine *e, const adji_partners_begun *begun, adji_run *run,
                            const adji_window *window) {
  pass p = {.engine = e, .window = window};
  adj_status status = open_lanes(&p, false, adji_row_needs_sums(&e->join.style));
  if (!status)
    status = adji_partners_run(&e->partners, begun, run, &e->queue, &(adji_pass){"join", &p, fill_batch}, NULL);
  close_lanes(&p);
  return status;
}

/* What devices must know of the rows before they are filled: how many entries a batch has. */
typedef struct measuring {
  const adji_queue *queue;
  const adji_shared_work *work;
  uint64_t *pairs;
  _Atomic uint64_t longest;
} measuring;

enum { MEASURED_BATCHES = 64, ROWS_AHEAD = 16 };

static void measure_batch(measuring *m, uint64_t number, uint64_t *longest) {
  const adji_batch *batch = &m->queue->batches[number];
  const adji_window *window = m->work->window;
  const uint32_t *order = m->work->order;
  uint64_t sum = 0;
  for (uint32_t i = batch->begin; i < batch->end; i++) {
    if (i + ROWS_AHEAD < batch->end) __builtin_prefetch(&window->offsets[order[i + ROWS_AHEAD]]);
    uint64_t length = adji_window_length(window, order[i]);
    sum += length;
    if (length > *longest) *longest = length;
  }
  m->pairs[number] = sum;
}

static adj_status measure_batches(void *user, uint64_t task, uint32_t lane_number) {
  (void)lane_number;
  measuring *m = user;
  uint64_t end = (task + 1) * MEASURED_BATCHES, longest = 0;
  if (end > m->queue->count) end = m->queue->count;
  for (uint64_t i = task * MEASURED_BATCHES; i < end; i++)
    measure_batch(m, i, &longest);
  uint64_t before = atomic_load(&m->longest);
  while (longest > before && !atomic_compare_exchange_weak(&m->longest, &before, longest))
    ;
  return ADJ_OK;
}

static adj_status fill_shared(range_engine *e, adji_run *run, const adji_window *window) {
  adji_shared_work work = {.order = e->options.left->view.ids, .window = window, .batches = e->queue.batches};
  measuring m = {.queue = &e->queue, .work = &work};
  adji_memory *memory = &e->join.ctx->memory;
  work.batch_pairs = m.pairs = adji_alloc(memory, e->queue.count, sizeof *m.pairs, "work queue");
  if (!m.pairs) return ADJ_E_MEMORY;
  uint64_t tasks = (e->queue.count + MEASURED_BATCHES - 1) / MEASURED_BATCHES;
  adj_status status = adji_loop(e->join.ctx, tasks, measure_batches, &m);
  work.longest = atomic_load(&m.longest);
  adji_partners_begun begun = {.count = 0};
  if (!status) adji_partners_begin(&e->partners, e->join.ctx, &work, &begun);
  if (!status) status = fill_rows(e, &begun, run, window);
  adji_partners_end(&begun, run);
  adji_free(memory, m.pairs);
  return status;
}

static adj_status range_fill(void *state, adji_run *run, const adji_window *window) {
  range_engine *e = state;
  adji_partners_begun nobody = {.count = 0};
  return e->partners.count ? fill_shared(e, run, window) : fill_rows(e, &nobody, run, window);
}

static adj_status range_collect(void *state, adji_run *run, adj_result *result) {
  range_engine *e = state;
  adji_shared_work shared = {.order = e->options.left->view.ids, .batches = e->queue.batches};
  adji_partners_begun begun = {.count = 0};
  shared.once = shared.keep = true;
  if (finds_once(e)) adji_partners_begin(&e->partners, e->join.ctx, &shared, &begun);
  adji_single_work work = {&e->join, &e->options, &e->queue, &e->partners, &begun};
  adj_status status = adji_single_collect(&work, run, result);
  adji_partners_end(&begun, run);
  return status;
}

/* ---- Estimate --------------------------------------------------------------------------------------- */

/* Places spread evenly over the order of the index; at each, a few neighbouring queries that share
 * the search for their candidates where that is the larger part. */
typedef struct sampling {
  pass pass;
  uint64_t places, each;
  adji_tally *tallies; /* per task */
} sampling;

enum { SAMPLE_TASK = 32 };

static adj_status sample_queries(void *user, uint64_t task, uint32_t lane_number) {
  sampling *s = user;
  lane *l = &s->pass.lanes[lane_number];
  adji_walk walk = {NULL, count_group, l};
  uint64_t count = s->pass.engine->options.left->view.count;
  adj_status status = ADJ_OK;
  for (uint64_t i = task * SAMPLE_TASK; i < s->places && i < (task + 1) * SAMPLE_TASK && !status; i++) {
    uint64_t at = (uint64_t)((double)(count - s->each) * ((double)i + 0.5) / (double)s->places);
    adji_batch few = {(uint32_t)at, (uint32_t)(at + s->each), 0};
    status = adji_walk_batch(&l->walker, &few, &walk, &s->tallies[task]);
  }
  return status;
}

adj_status adji_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates) {
  range_engine *e = engine->state;
  uint64_t count = e->options.left->view.count;
  *pairs = *candidates = 0;
  if (!count || !e->options.right->view.count) return ADJ_OK;
  sampling s = {.pass = {.engine = e}, .each = 1, .places = sample < count ? sample : count};
  if (e->join.left->dim > 3 && count > 4 * sample) {
    s.each = e->options.prefilter ? 4 : 2;
    s.places = e->options.prefilter ? sample / 6 : sample / 4;
  }
  uint64_t tasks = (s.places + SAMPLE_TASK - 1) / SAMPLE_TASK;
  s.tallies = adji_alloc_zero(&e->join.ctx->memory, tasks, sizeof *s.tallies, "estimate");
  if (!s.tallies) return ADJ_E_MEMORY;
  adj_status status = open_lanes(&s.pass, false, false);
  if (!status) status = adji_loop(e->join.ctx, tasks, sample_queries, &s);
  double scale = (double)count / (double)(s.places * s.each);
  for (uint64_t t = 0; t < tasks; t++) {
    *pairs += (double)s.tallies[t].pairs * scale;
    *candidates += (double)s.tallies[t].candidates * scale;
  }
  if (e->join.style.one_way) *pairs = (*pairs - (double)(e->join.style.drop_self ? 0 : count)) / 2;
  close_lanes(&s.pass);
  adji_free(&e->join.ctx->memory, s.tallies);
  if (!status && e->options.prefilter) status = adji_estimate_pairs(&e->join, &e->options, pairs);
  return status;
}

void adji_range_set_single(adji_engine *engine, bool once) {
  ((range_engine *)engine->state)->once = once;
}

adj_status adji_range_share(adji_engine *engine, const adji_partner *partners, uint32_t count,
                            const adji_share_options *share) {
  range_engine *e = engine->state;
  e->partners.count = count;
  adji_queue_clear(&e->queue);
  adj_status status = fill_queue(e);
  e->partners.share = *share;
  for (uint32_t i = 0; i < count; i++)
    e->partners.each[i] = partners[i];
  if (status) e->partners.count = 0; /* still the caller's */
  engine->large_windows = e->partners.count > 0;
  return status;
}

/* ---- The engine ------------------------------------------------------------------------------------- */

static void range_destroy(void *state) {
  range_engine *e = state;
  if (!e) return;
  adji_partners_destroy(&e->partners);
  adji_queue_clear(&e->queue);
  free(e);
}

adj_status adji_range_create(const adji_join *join, const adji_range_options *options, adji_engine *out) {
  range_engine *e = calloc(1, sizeof *e);
  if (!e) return adji_fail(ADJ_E_MEMORY, "no memory for the engine");
  e->join = *join;
  e->options = *options;
  adj_status status = fill_queue(e);
  if (status) {
    range_destroy(e);
    return status;
  }
  *out = (adji_engine){
      .state = e, .count = range_count, .fill = range_fill, .collect = range_collect, .destroy = range_destroy};
  return ADJ_OK;
}
