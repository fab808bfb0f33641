/* SPDX-License-Identifier: MIT
 *
 * The range join on cores: a worker that counts the neighbours of queries, lists them into rows, or evaluates each pair
 * once (cpu/single.c).
 */
#include "cpu/range.h"

#include <stdlib.h>

#include "cpu/single.h"
#include "cpu/walk.h"

/* Queries a batch. Beside devices small joins have smaller batches, so that all workers finish together. */
enum { DEFAULT_BATCH = 1024, SHARED_BATCHES = 2048, LEAST_BATCH = 64, COUNTS_AHEAD = 24 };

typedef struct range_cores {
  adji_join join;
  adji_range_index index;
  uint64_t batch; /* queries; 0: the default */
  /* Of the pass at work. */
  adji_walker *walkers;
  bool halves; /* each unordered pair is met once, and counts for both its points */
  uint32_t *degrees;
  adji_single *single;
} range_cores;

/* ---- The queue ------------------------------------------------------------------------------------- */

static uint64_t batch_queries(const range_cores *c, bool shared) {
  uint64_t each = c->index.left->view.count / SHARED_BATCHES;
  if (c->batch) return c->batch;
  if (!shared || each > DEFAULT_BATCH) return DEFAULT_BATCH;
  return each < LEAST_BATCH ? LEAST_BATCH : each;
}

/* Batches of consecutive queries. The work of a cell is estimated by the square of its population, which is what it
 * costs where the density varies slowly. A cell with more queries than a batch is cut. */
static adj_status fill_queue(void *state, bool shared, adji_queue *queue) {
  const range_cores *c = state;
  const adji_index *left = c->index.left;
  uint64_t each = batch_queries(c, shared), count = left->view.count;
  adj_status status = adji_queue_init(queue, c->join.ctx, count / each + 16);
  adji_batch batch = {0};
  for (uint64_t cell = 0; cell < left->cell_count && !status; cell++) {
    double population = left->cell_starts[cell + 1] - left->cell_starts[cell];
    for (uint32_t p = left->cell_starts[cell]; p < left->cell_starts[cell + 1] && !status;) {
      uint64_t room = each - (batch.end - batch.begin);
      uint32_t take = left->cell_starts[cell + 1] - p < room ? left->cell_starts[cell + 1] - p : (uint32_t)room;
      batch.end = p += take;
      batch.work += take * (population + 1);
      if (batch.end - batch.begin < each && batch.end < count) continue;
      status = adji_queue_add(queue, batch);
      batch = (adji_batch){.begin = p, .end = p};
    }
  }
  if (status) return status;
  if (shared) return adji_queue_sort_roughly(queue, NULL);
  adji_queue_sort(queue);
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

static adj_status count_group(adji_walker *w, const adji_group *group, adji_tally *tally) {
  const range_cores *c = w->walk.user;
  const adji_task *task = &group->task;
  uint32_t counts[ADJI_GROUP];
  /* A point is at distance 0 of itself: it was counted and is subtracted. Halves do not meet it. */
  const adji_join *join = &c->join;
  bool drop = join->style.drop_self && !c->halves, always = adji_measure_grows(join->style.measure);
  for (uint32_t k = 0; k < task->query_count; k++) {
    counts[k] = 0 - (uint32_t)(drop && always);
    /* Rows are far apart, so the places of the counts to come are fetched ahead. */
    if (c->degrees) __builtin_prefetch(&c->degrees[task->left->ids[task->queries[k] + COUNTS_AHEAD]], 1);
  }
  adji_count_queries(w, group, counts);
  for (uint32_t k = 0; k < task->query_count && drop && !always; k++)
    counts[k] -= belongs_to_itself(join, task->left, task->queries[k]);
  for (uint32_t k = 0; k < task->query_count; k++) {
    tally->pairs += counts[k];
    if (c->degrees) c->degrees[task->left->ids[task->queries[k]]] = counts[k];
  }
  return ADJ_OK;
}

/* ---- Fill ------------------------------------------------------------------------------------------- */

/* The most neighbours a query of [first, first + many) can list. */
static uint64_t longest_list(const adji_walk *walk, const adji_group *group, uint32_t first, uint32_t many) {
  if (walk->join->style.one_way) return group->near_total + group->inside_total;
  uint64_t longest = 0;
  for (uint32_t k = first; k < first + many; k++) {
    uint64_t row = group->task.left->ids[group->task.queries[k]];
    uint64_t length = walk->window->offsets[row + 1] - walk->window->offsets[row] + 1;
    if (length > longest) longest = length;
  }
  return longest;
}

/* Rows of ids alone, all neighbours wanted: dropped, sorted and placed by one kernel. */
static bool plain_rows(const adji_row_style *style) {
  return !adji_row_needs_sums(style) && !style->one_way && !style->in_order;
}

static adj_status place_row(adji_walker *w, const adji_row_style *style, uint32_t slot, uint32_t row, uint32_t found,
                            adji_tally *tally) {
  const adji_window *window = w->walk.window;
  uint64_t length = window->offsets[row + (uint64_t)1] - window->offsets[row];
  if (plain_rows(style) && found - style->drop_self == length) {
    uint32_t *to = window->ids + (window->offsets[row] - window->offsets[window->first_row]);
    tally->pairs += style->kernels->place_ids(w->room.ids[slot], found, style->drop_self ? row : ADJ_NO_ID,
                                              style->order == ADJ_ORDER_ID, to);
    return ADJ_OK;
  }
  uint32_t count = adji_row_order(style, &w->room, slot, row, found);
  tally->pairs += count;
  return adji_row_place(style, &w->room, slot, row, count, window);
}

static adj_status fill_queries(adji_walker *w, const adji_row_style *style, const adji_group *group, uint32_t first,
                               uint32_t many, adji_tally *tally) {
  uint32_t found[ADJI_LIST_MAX];
  adj_status status =
      adji_row_room_reserve(&w->room, &w->walk.join->ctx->memory, style, longest_list(&w->walk, group, first, many));
  if (status) return status;
  adji_list_queries(w, style, group, first, many, found);
  for (uint32_t k = 0; k < many && !status; k++)
    status = place_row(w, style, k, group->task.left->ids[group->task.queries[first + k]], found[k], tally);
  return status;
}

static adj_status fill_group(adji_walker *w, const adji_group *group, adji_tally *tally) {
  const adji_join *join = w->walk.join;
  adji_row_style style = join->style;
  adji_group ordered;
  adj_status status = ADJ_OK;
  if (!w->walk.index->prefilter.filter && adji_ordered_pays(join, group)) {
    status = adji_ordered_copy(w, group, &ordered);
    group = &ordered;
    style.in_order = true;
  }
  for (uint32_t first = 0; first < group->task.query_count && !status; first += ADJI_LIST_MAX) {
    if (adji_group_cancelled(w, group)) return adji_check_cancel(join->ctx);
    uint32_t many = group->task.query_count - first;
    status = fill_queries(w, &style, group, first, many < ADJI_LIST_MAX ? many : ADJI_LIST_MAX, tally);
  }
  return status;
}

/* One-way rows are counted by listing: the ids decide. */
static adj_status count_one_way(adji_walker *w, const adji_group *group, adji_tally *tally) {
  const range_cores *c = w->walk.user;
  const adji_row_style *style = &c->join.style;
  uint32_t found[ADJI_LIST_MAX];
  adj_status status =
      adji_row_room_reserve(&w->room, &c->join.ctx->memory, style, group->near_total + group->inside_total);
  for (uint32_t first = 0; first < group->task.query_count && !status; first += ADJI_LIST_MAX) {
    uint32_t many = group->task.query_count - first;
    if (many > ADJI_LIST_MAX) many = ADJI_LIST_MAX;
    adji_list_queries(w, style, group, first, many, found);
    for (uint32_t k = 0; k < many; k++) {
      uint32_t row = group->task.left->ids[group->task.queries[first + k]], above = 0;
      for (uint32_t i = 0; i < found[k]; i++)
        above += w->room.ids[k][i] > row;
      if (c->degrees) c->degrees[row] = above;
      tally->pairs += above;
    }
  }
  return status;
}

/* ---- Passes ----------------------------------------------------------------------------------------- */

/* Counts, and keeps the total only. */
static void walk_for_total(range_cores *c, adji_walk *walk) {
  c->halves = false;
  c->degrees = NULL;
  *walk = (adji_walk){.join = &c->join, .index = &c->index, .visit = count_group, .user = c};
}

static void walk_for_count(range_cores *c, const adji_pass *pass, adji_walk *walk) {
  c->degrees = pass->degrees;
  c->halves = walk->forward = pass->halves && pass->alone && c->index.symmetric;
  if (c->halves || !c->join.style.one_way) return;
  walk->visit = count_one_way;
  walk->sums = adji_row_needs_sums(&c->join.style);
}

static void end(void *state, adji_run *run) {
  (void)run;
  range_cores *c = state;
  adji_single_end(c->single);
  c->single = NULL;
  adji_walkers_close(c->join.ctx, c->walkers);
  c->walkers = NULL;
}

static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  range_cores *c = state;
  adji_walk walk;
  adj_status status = ADJ_OK;
  walk_for_total(c, &walk);
  if (pass->kind == ADJI_PASS_COUNT) {
    walk_for_count(c, pass, &walk);
  } else if (pass->kind == ADJI_PASS_FILL) {
    walk.window = pass->window;
    walk.visit = fill_group;
    walk.sums = adji_row_needs_sums(&c->join.style);
  } else {
    status = adji_single_begin(&walk, run, pass, &c->single);
  }
  if (!status) status = adji_walkers_open(&walk, &c->walkers);
  if (status) end(c, run);
  return status;
}

/* Of halves, each pair counts for both its points, and every point is its own neighbour unless it is dropped. */
static adj_status process(void *state, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  const range_cores *c = state;
  const adji_row_style *style = &c->join.style;
  adji_tally found = {0};
  adj_status status = adji_walk_batch(&c->walkers[lane], batch, &found);
  if (c->halves && !style->one_way) found.pairs *= 2;
  if (c->halves && !style->one_way && !style->drop_self) found.pairs += batch->end - batch->begin;
  tally->pairs += found.pairs;
  tally->candidates += found.candidates;
  return status;
}

static adj_status gather(void *state, adji_run *run, const adji_active *active) {
  range_cores *c = state;
  return c->single ? adji_single_gather(c->single, c->walkers, run, active) : ADJ_OK;
}

/* ---- Estimate --------------------------------------------------------------------------------------- */

/* Places spread evenly over the order of the index; at each, a few neighbouring queries that share
 * the search for their candidates where that is the larger part. */
typedef struct sampling {
  const range_cores *cores;
  uint64_t places, each;
  adji_tally *tallies; /* per task */
} sampling;

enum { SAMPLE_TASK = 32 };

static adj_status sample_queries(void *user, uint64_t task, uint32_t lane) {
  sampling *s = user;
  uint64_t count = s->cores->index.left->view.count;
  adj_status status = ADJ_OK;
  for (uint64_t i = task * SAMPLE_TASK; i < s->places && i < (task + 1) * SAMPLE_TASK && !status; i++) {
    uint64_t at = (uint64_t)((double)(count - s->each) * ((double)i + 0.5) / (double)s->places);
    adji_batch few = {(uint32_t)at, (uint32_t)(at + s->each), 0};
    status = adji_walk_batch(&s->cores->walkers[lane], &few, &s->tallies[task]);
  }
  return status;
}

adj_status adji_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates) {
  range_cores *c = engine->workers[0].state;
  uint64_t count = c->index.left->view.count;
  *pairs = *candidates = 0;
  if (!count || !c->index.right.view.count) return ADJ_OK;
  sampling s = {.cores = c, .each = 1, .places = sample < count ? sample : count};
  if (c->join.left->dim > 3 && count > 4 * sample) {
    s.each = c->index.prefilter.filter ? 4 : 2;
    s.places = c->index.prefilter.filter ? sample / 6 : sample / 4;
  }
  uint64_t tasks = (s.places + SAMPLE_TASK - 1) / SAMPLE_TASK;
  s.tallies = adji_alloc_zero(&c->join.ctx->memory, tasks, sizeof *s.tallies, "estimate");
  if (!s.tallies) return ADJ_E_MEMORY;
  adji_walk walk;
  walk_for_total(c, &walk);
  adj_status status = adji_walkers_open(&walk, &c->walkers);
  if (!status) status = adji_loop(c->join.ctx, tasks, sample_queries, &s);
  double scale = (double)count / (double)(s.places * s.each);
  for (uint64_t t = 0; t < tasks; t++) {
    *pairs += (double)s.tallies[t].pairs * scale;
    *candidates += (double)s.tallies[t].candidates * scale;
  }
  if (c->join.style.one_way) *pairs = (*pairs - (double)(c->join.style.drop_self ? 0 : count)) / 2;
  end(c, NULL);
  adji_free(&c->join.ctx->memory, s.tallies);
  if (!status && c->index.prefilter.filter) status = adji_estimate_pairs(&c->join, &c->index, pairs);
  return status;
}

/* ---- The worker ------------------------------------------------------------------------------------- */

static void destroy(void *state) {
  range_cores *c = state;
  adji_range_index_clear(&c->index);
  free(c);
}

adj_status adji_range_create(const adji_join *join, const adji_range_index_options *options, uint64_t batch,
                             adji_engine *out) {
  range_cores *c = calloc(1, sizeof *c);
  if (!c) {
    adji_grid_clear(join->ctx, options->grid);
    adji_code_scale_clear(options->code_scale);
    return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  }
  c->join = *join;
  c->batch = batch;
  adj_status status = adji_range_index_build(join, options, &c->index);
  if (status) {
    destroy(c);
    return status;
  }
  adji_engine_init(out, join,
                   &(adji_worker){.state = c,
                                  .name = "cpu",
                                  .collects = true,
                                  .fill_queue = fill_queue,
                                  .begin = begin,
                                  .process = process,
                                  .gather = gather,
                                  .end = end,
                                  .destroy = destroy});
  out->order = c->index.left->view.ids;
  return ADJ_OK;
}

const adji_range_index *adji_range_index_of(const adji_engine *engine) {
  return &((const range_cores *)engine->workers[0].state)->index;
}

void adji_range_set_single(adji_engine *engine, bool single) {
  const range_cores *c = engine->workers[0].state;
  engine->single = single && c->index.symmetric;
}
