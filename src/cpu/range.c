/* SPDX-License-Identifier: MIT
 *
 * The range join on cores: a worker that counts the neighbours of queries, lists them into rows, or evaluates each pair
 * once (cpu/single.c).
 */
#include "cpu/range.h"

#include <stdlib.h>
#include <string.h>

#include "core/fetch.h"
#include "cpu/range_queue.h"
#include "cpu/single.h"
#include "cpu/staged.h"
#include "cpu/walk.h"
#include "distance/stream_row.h"

/* Queries per batch. Beside devices small joins have smaller batches, so that all workers finish together. */
enum { DEFAULT_BATCH = 1024, MOST_BATCH = 4096, BATCHES_A_THREAD = 64, SHARED_BATCHES = 2048, LEAST_BATCH = 64 };
enum { COUNTS_AHEAD = 24 };

typedef struct range_cores {
  adji_join join;
  adji_lent base;
  adji_range_index index;
  uint64_t batch;         /* queries; 0: the default */
  bool stages;            /* collects results by staging their rows */
  double pairs;           /* estimated number of pairs */
  adji_range_queue queue; /* HEGJoin's queue; if it has rows, it replaces the cores' own */
  /* The current pass. */
  adji_walker *walkers;
  bool halves; /* each unordered pair is met once and counts for both of its points */
  uint32_t *degrees;
  adji_single *single;
  adji_staged *staged;
} range_cores;

/* ---- The queue ------------------------------------------------------------------------------------- */

static uint64_t batch_queries(const range_cores *c, bool shared) {
  uint64_t each = c->index.left->view.count / SHARED_BATCHES;
  if (c->batch) return c->batch;
  if (shared) return each > DEFAULT_BATCH ? DEFAULT_BATCH : each < LEAST_BATCH ? LEAST_BATCH : each;
  each = c->index.left->view.count / ((uint64_t)BATCHES_A_THREAD * c->join.ctx->threads);
  return each < DEFAULT_BATCH ? DEFAULT_BATCH : each > MOST_BATCH ? MOST_BATCH : each;
}

/* Queries per batch of HEGJoin's queue, whatever the size of the join. */
static uint64_t queue_batch(const range_cores *c) {
  return c->batch ? c->batch : DEFAULT_BATCH;
}

/* Batches of consecutive queries. The work of a cell is estimated as the square of its population, which is its cost
 * where the density varies slowly. A cell with queries in several batches adds a part of its work to each. */
typedef struct weighing {
  const adji_index *left;
  adji_queue *queue;
} weighing;

static void weigh_batches(void *user, uint64_t begin, uint64_t end) {
  const weighing *w = user;
  const uint32_t *starts = w->left->cell_starts;
  if (begin == end) return;
  uint64_t cell = adji_cell_of(w->left, w->queue->batches[begin].begin, 0);
  for (uint64_t i = begin; i < end; i++) {
    adji_batch *batch = &w->queue->batches[i];
    for (uint32_t p = batch->begin; p < batch->end;) {
      while (starts[cell + 1] <= p)
        cell++;
      uint32_t to = starts[cell + 1] < batch->end ? starts[cell + 1] : batch->end;
      batch->work += (double)(to - p) * ((double)(starts[cell + 1] - starts[cell]) + 1);
      p = to;
    }
  }
}

static adj_status fill_queue(void *state, bool shared, adji_queue *queue) {
  enum { SLICE_BATCHES = 16 };
  const range_cores *c = state;
  uint64_t each = batch_queries(c, shared), count = c->index.left->view.count;
  if (c->queue.rows) return adji_range_queue_fill(c->join.ctx, &c->queue, queue_batch(c), queue);
  weighing w = {c->index.left, queue};
  adj_status status = adji_queue_init(queue, c->join.ctx, count / each + 16);
  for (uint64_t p = 0; p < count && !status; p += each)
    status = adji_queue_add(queue, (adji_batch){(uint32_t)p, (uint32_t)(count - p < each ? count : p + each), 0});
  if (!status)
    status = adji_loop_slices(c->join.ctx, queue->count, queue->count / SLICE_BATCHES + 1, weigh_batches, &w);
  if (status) return status;
  /* Batches whose work is within a factor of two stay in order. Threads then work near each other, and find candidates
   * in the cache that they share. */
  return adji_queue_sort_roughly(queue, NULL);
}

/* ---- Count ------------------------------------------------------------------------------------------ */

/* Whether a query is its own neighbour. At distance 0 it always is; by inner product it may not be. */
static bool belongs_to_itself(const adji_join *join, const adji_view *view, uint32_t query) {
  const adji_row_style *style = &join->style;
  double limit = adji_join_limit(join, view->ids[query]);
  uint64_t stride = view->stride;
  if (style->type == ADJ_F64) {
    const double *x = (const double *)view->coords + query;
    return adji_sum_f64(style->measure, x, stride, x, stride, view->dim) <= limit;
  }
  const float *x = (const float *)view->coords + query;
  return (double)adji_sum_f32(style->measure, x, stride, x, stride, view->dim) <= limit;
}

static adj_status count_group(adji_walker *w, const adji_group *group, adji_tally *tally) {
  const range_cores *c = w->walk.user;
  const adji_task *task = &group->task;
  uint32_t counts[ADJI_GROUP];
  /* A point is at distance 0 of itself, so it was counted and is subtracted. Halves compare no point with itself. */
  const adji_join *join = &c->join;
  bool drop = join->style.drop_self && !c->halves, always = adji_measure_grows(join->style.measure);
  for (uint32_t k = 0; k < task->query_count; k++) {
    counts[k] = 0 - (uint32_t)(drop && always);
    /* Rows are scattered in memory, so the counts of later queries are prefetched. */
    if (c->degrees) __builtin_prefetch(&c->degrees[task->left->ids[task->queries[k] + COUNTS_AHEAD]], 1);
  }
  if (adji_group_is_alone(w, group))
    counts[0] += !c->halves;
  else
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

/* The longest list that a query of [first, first + many) can have. */
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

static adj_status place_row(adji_walker *w, const adji_row_style *style, uint32_t slot, uint32_t row, uint32_t found,
                            adji_tally *tally) {
  const adji_window *window = w->walk.window;
  uint64_t length = window->offsets[row + (uint64_t)1] - window->offsets[row];
  if (adji_row_is_plain(style) && found - style->drop_self == length) {
    uint32_t *to = window->ids + (window->offsets[row] - window->offsets[window->first_row]);
    tally->pairs += adji_row_place_plain(style, w->room.ids[slot], found, row, to);
    return ADJ_OK;
  }
  uint32_t count = adji_row_order(style, &w->room, slot, row, found);
  tally->pairs += count;
  return adji_row_place(style, &w->room, slot, row, count, window);
}

/* Rows are in the order of ids, so consecutive queries write to scattered places. These are prefetched once the offsets
 * have arrived (cpu/walk.c), only a few at a time, since more prefetches would be dropped. */
enum { PLACES_AHEAD = 12, MOST_LINES = 8, LINE_IDS = 16 };

ADJI_FETCHES fetch_places(const adji_window *window, const uint32_t *rows, const uint32_t *queries, uint32_t many) {
  for (uint32_t k = 0; k < many; k++) {
    uint64_t row = rows[queries[k] + PLACES_AHEAD];
    if (!adji_window_has(window, row)) continue;
    const uint32_t *place = window->ids + (window->offsets[row] - window->offsets[window->first_row]);
    uint64_t lines = adji_window_length(window, row) / LINE_IDS + 1;
    for (uint64_t i = 0; i <= lines && i < MOST_LINES; i++)
      __builtin_prefetch(place + i * LINE_IDS, 1);
  }
}

static adj_status fill_queries(adji_walker *w, const adji_row_style *style, const adji_group *group, uint32_t first,
                               uint32_t many, adji_tally *tally) {
  uint32_t found[ADJI_LIST_MAX];
  adj_status status =
      adji_row_room_reserve(&w->room, &w->walk.join->ctx->memory, style, longest_list(&w->walk, group, first, many));
  if (status) return status;
  fetch_places(w->walk.window, group->task.left->ids, group->task.queries + first, many);
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

/* Counts one-way rows by listing them, since the ids decide. */
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

/* A pass that counts, and keeps only the total. */
static void walk_for_total(range_cores *c, adji_walk *walk) {
  c->halves = false;
  c->degrees = NULL;
  *walk = (adji_walk){.join = &c->join, .index = &c->index, .counts = true, .visit = count_group, .user = c};
}

static void walk_for_count(range_cores *c, const adji_pass *pass, adji_walk *walk) {
  c->degrees = pass->degrees;
  c->halves = walk->forward = pass->halves && pass->alone && c->index.symmetric;
  if (c->halves || !c->join.style.one_way) return;
  walk->counts = false;
  walk->visit = count_one_way;
  walk->sums = adji_row_needs_sums(&c->join.style);
}

static void end(void *state, adji_run *run) {
  (void)run;
  range_cores *c = state;
  adji_single_end(c->single);
  c->single = NULL;
  adji_staged_end(c->staged);
  c->staged = NULL;
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
    walk.counts = false;
    walk.visit = fill_group;
    walk.sums = adji_row_needs_sums(&c->join.style);
  } else if (c->stages && pass->alone && pass->result) {
    status = adji_staged_begin(&walk, run, pass, c->pairs, &c->staged);
  } else {
    status = adji_single_begin(&walk, run, pass, c->pairs, &c->single);
  }
  if (!status) status = adji_walkers_open(&walk, &c->walkers);
  if (status) end(c, run);
  return status;
}

/* Walks a batch. One of HEGJoin's queue is walked by runs of consecutive queries of the index. */
static adj_status walk_batch(const range_cores *c, const adji_batch *batch, uint32_t lane, adji_tally *found) {
  adj_status status = ADJ_OK;
  if (!c->queue.rows) return adji_walk_batch(&c->walkers[lane], batch, found);
  for (uint32_t i = batch->begin, end; i < batch->end && !status; i = end) {
    end = adji_range_queue_run(&c->queue, i, batch->end);
    uint32_t first = c->queue.positions[i];
    status = adji_walk_batch(&c->walkers[lane], &(adji_batch){first, first + (end - i), 0}, found);
  }
  return status;
}

/* With halves, each pair counts for both of its points, and every point is its own neighbour unless the style drops
 * that. */
static adj_status process(void *state, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  const range_cores *c = state;
  const adji_row_style *style = &c->join.style;
  adji_tally found = {0};
  adj_status status = walk_batch(c, batch, lane, &found);
  if (c->staged) adji_stream_fence(); /* another thread may gather what this one has written */
  if (c->halves && !style->one_way) found.pairs *= 2;
  if (c->halves && !style->one_way && !style->drop_self) found.pairs += batch->end - batch->begin;
  tally->pairs += found.pairs;
  tally->candidates += found.candidates;
  return status;
}

static adj_status gather(void *state, adji_run *run, const adji_active *active) {
  range_cores *c = state;
  if (c->staged) return adji_staged_gather(c->staged, run);
  return c->single ? adji_single_gather(c->single, c->walkers, run, active) : ADJ_OK;
}

/* ---- Estimate --------------------------------------------------------------------------------------- */

/* Places spread evenly over the order of the index. At each, a few neighbouring queries are searched, which share the
 * search for candidates if that is the larger part of the work. */
typedef struct sampling {
  const range_cores *cores;
  uint64_t places, each;
  uint64_t per_task;       /* places per task */
  adji_tally *tallies;     /* per task */
  uint64_t *ns;            /* per task; NULL: not timed */
  adji_tally *alone;       /* per timed task: some of its queries, each in a group of its own; or NULL */
  _Atomic uint64_t filled; /* places with neighbours */
} sampling;

enum { SAMPLE_TASK = 32, ALONE_STEP = 16 };

static uint64_t position_of(const sampling *s, uint64_t place) {
  uint64_t count = s->cores->index.left->view.count;
  return (uint64_t)((double)(count - s->each) * ((double)place + 0.5) / (double)s->places);
}

/* Walks the queries at a place; again: those after them, if there are enough. */
static adj_status sample_place(sampling *s, uint64_t place, uint64_t task, uint32_t lane, bool again) {
  uint64_t at = position_of(s, place);
  if (again && at + 2 * s->each <= s->cores->index.left->view.count) at += s->each;
  adji_batch few = {(uint32_t)at, (uint32_t)(at + s->each), 0};
  return adji_walk_batch(&s->cores->walkers[lane], &few, &s->tallies[task]);
}

static adj_status sample_queries(void *user, uint64_t task, uint32_t lane) {
  sampling *s = user;
  adj_status status = ADJ_OK;
  uint64_t filled = 0;
  for (uint64_t i = task * s->per_task; i < s->places && i < (task + 1) * s->per_task && !status; i++) {
    uint64_t before = s->tallies[task].pairs;
    status = sample_place(s, i, task, lane, false);
    filled += s->tallies[task].pairs > before;
  }
  atomic_fetch_add(&s->filled, filled);
  return status;
}

/* Walks some queries alone. In few dimensions a query in a group has the candidates of the whole group (cpu/walk.c). */
static adj_status walk_alone(const sampling *s, uint64_t task, uint32_t lane, uint64_t at) {
  adj_status status = ADJ_OK;
  for (uint64_t q = 0; q < s->each && !status; q += ALONE_STEP) {
    adji_batch one = {(uint32_t)(at + q), (uint32_t)(at + q + 1), 0};
    status = adji_walk_batch(&s->cores->walkers[lane], &one, &s->alone[task]);
  }
  return status;
}

/* Times a place. If that was short, the next queries are timed instead: the first ones have loaded the data that a
 * batch would find in the caches. */
static adj_status time_place(void *user, uint64_t task, uint32_t lane) {
  enum { SHORT_NS = 50000 };
  sampling *s = user;
  uint64_t begin = adji_thread_ns();
  adj_status status = sample_place(s, task, task, lane, false);
  s->ns[task] = adji_thread_ns() - begin;
  if (status) return status;
  if (s->ns[task] <= SHORT_NS) {
    s->tallies[task] = (adji_tally){0};
    begin = adji_thread_ns();
    status = sample_place(s, task, task, lane, true);
    s->ns[task] = adji_thread_ns() - begin;
  }
  if (status || !s->alone) return status;
  return walk_alone(s, task, lane, position_of(s, task));
}

/* Runs the tasks. *found receives the sum of their tallies. */
static adj_status run_sample(sampling *s, adji_task_fn each_task, adji_tally *found) {
  adj_ctx *ctx = s->cores->join.ctx;
  uint64_t tasks = (s->places + s->per_task - 1) / s->per_task;
  *found = (adji_tally){0};
  s->tallies = adji_alloc_zero(&ctx->memory, tasks, sizeof *s->tallies, "estimate");
  if (!s->tallies) return ADJ_E_MEMORY;
  adj_status status = adji_loop(ctx, tasks, each_task, s);
  for (uint64_t t = 0; t < tasks; t++) {
    found->pairs += s->tallies[t].pairs;
    found->candidates += s->tallies[t].candidates;
  }
  adji_free(&ctx->memory, s->tallies);
  return status;
}

static adj_status count_sample(const range_cores *c, uint64_t sample, adji_range_estimates *out) {
  uint64_t count = c->index.left->view.count;
  sampling s = {.cores = c, .each = 1, .places = sample < count ? sample : count, .per_task = SAMPLE_TASK};
  if (c->join.left->dim > 3 && count > 4 * sample && sample >= 6) {
    s.each = c->index.prefilter.filter ? 4 : 2;
    s.places = c->index.prefilter.filter ? sample / 6 : sample / 4;
  }
  adji_tally found;
  adj_status status = run_sample(&s, sample_queries, &found);
  double scale = (double)count / (double)(s.places * s.each);
  out->pairs = (double)found.pairs * scale;
  out->candidates = (double)found.candidates * scale;
  if (s.each == 1) out->filled = (double)s.filled / (double)s.places;
  return status;
}

/* Whether the join takes so long that a trial is a small part of it. Small joins are planned by costs alone, so that
 * their plans are the same in every run. */
static bool is_worth_timing(const range_cores *c, const adji_range_estimates *found) {
  static const double LEAST_NS = 1e6, CANDIDATE_NS = 0.1, DIM_NS = 0.03, ROW_NS = 60, PAIR_NS = 0.05;
  double evaluation = found->candidates * (CANDIDATE_NS + DIM_NS * c->join.left->dim);
  return evaluation + found->pairs * PAIR_NS + (double)c->join.left->count * ROW_NS > LEAST_NS;
}

/* Estimates for all queries from a timed sample: time, and candidates with queries in groups and with each alone. */
typedef struct timing {
  double ns, candidates, alone;
} timing;

/* Times one query in 64. In many dimensions the queries of a place share panels, as a whole group does. In few
 * dimensions there are more places, since points are distributed more unevenly. */
static adj_status time_sample(const range_cores *c, timing *out) {
  enum { SHARE = 64, MOST_PLACES = 32, FEWER_PLACES = 16, FEWEST = 16, MANY_DIMS = 16, MOST_EACH = 128 };
  uint64_t count = c->index.left->view.count, ns[MOST_PLACES] = {0}, total = 0, sample = count / SHARE;
  if (sample < FEWEST) sample = FEWEST < count ? FEWEST : count;
  uint64_t each = c->join.left->dim < MANY_DIMS ? sample / MOST_PLACES : ADJI_GROUP;
  if (each < FEWEST) each = FEWEST;
  if (each > MOST_EACH) each = MOST_EACH;
  adji_tally alone[MOST_PLACES] = {0};
  sampling s = {.cores = c, .each = sample < each ? sample : each, .per_task = 1, .ns = ns};
  if (c->join.left->dim <= ADJI_FEW_DIMS) s.alone = alone;
  uint64_t most = c->join.left->dim < MANY_DIMS ? MOST_PLACES : FEWER_PLACES;
  s.places = sample / s.each < most ? sample / s.each : most;
  adji_tally found;
  adj_status status = run_sample(&s, time_place, &found);
  uint64_t candidates_alone = 0;
  for (uint64_t i = 0; i < s.places; i++) {
    total += ns[i];
    candidates_alone += alone[i].candidates;
  }
  double scale = (double)count / (double)(s.places * s.each);
  uint64_t steps = (s.each + ALONE_STEP - 1) / ALONE_STEP;
  *out = (timing){.ns = (double)total * scale, .candidates = (double)found.candidates * scale};
  out->alone = s.alone ? (double)candidates_alone * (double)count / (double)(s.places * steps) : out->candidates;
  return status;
}

/* Corrects a time by the candidates per query of the other sample, which has more places. The factor is limited, since
 * boxes drop more and accept more for one query than for a group. */
static double correct_time(double ns, double candidates, double counted) {
  double more = counted / candidates;
  return ns * (more > 2.5 ? 2.5 : more > 0.5 ? more : 0.5);
}

/* Times the recursion over boxes on the same index, and keeps it if it is clearly faster. In clusters most cells hold
 * hardly a point, and a few cells hold most points. */
static adj_status try_ego(range_cores *c, double cells_ns, adji_range_estimates *out) {
  static const double CLEARLY = 0.8;
  timing ego = {0};
  adji_walk walk;
  c->index.ego = true;
  walk_for_total(c, &walk);
  adj_status status = adji_walkers_open(&walk, &c->walkers);
  if (!status) status = time_sample(c, &ego);
  end(c, NULL);
  c->index.ego = !status && ego.ns < CLEARLY * cells_ns;
  if (c->index.ego) out->count_ns *= ego.ns / cells_ns;
  return status;
}

bool adji_range_is_ego(const adji_engine *engine) {
  return ((const range_cores *)engine->workers[0].state)->index.ego;
}

adj_status adji_range_estimate(adji_engine *engine, uint64_t sample, bool may_ego, adji_range_estimates *out) {
  range_cores *c = engine->workers[0].state;
  uint64_t count = c->index.left->view.count;
  *out = (adji_range_estimates){0};
  if (!count || !c->index.right.view.count) return ADJ_OK;
  adji_walk walk;
  walk_for_total(c, &walk);
  adj_status status = adji_walkers_open(&walk, &c->walkers);
  if (!status) status = count_sample(c, sample, out);
  timing trial = {0};
  bool timed = !status && is_worth_timing(c, out);
  if (timed) status = time_sample(c, &trial);
  if (timed) out->count_ns = correct_time(trial.ns, trial.alone, out->candidates);
  if (timed && trial.alone > 0) out->candidates *= trial.candidates / trial.alone;
  if (c->join.style.one_way) out->pairs = (out->pairs - (double)(c->join.style.drop_self ? 0 : count)) / 2;
  end(c, NULL);
  bool can_ego =
      timed && may_ego && !c->index.ego && c->index.has_boxes && c->index.right.view.count == c->join.right->count;
  if (!status && can_ego) status = try_ego(c, trial.ns, out);
  if (!status && c->index.prefilter.filter) status = adji_estimate_pairs(&c->join, &c->index, &out->pairs);
  return status;
}

/* ---- The worker ------------------------------------------------------------------------------------- */

static void destroy(void *state) {
  range_cores *c = state;
  adji_range_queue_clear(&c->join.ctx->memory, &c->queue);
  adji_range_index_clear(&c->index);
  adji_give_back(&c->base);
  free(c);
}

adj_status adji_range_create(const adji_join *join, const adji_lent *base, uint64_t batch, adji_engine *out) {
  range_cores *c = calloc(1, sizeof *c);
  if (!c) {
    adji_give_back(base);
    return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  }
  c->join = *join;
  c->base = *base;
  c->batch = batch;
  adj_status status = adji_range_index_build(join, base->what, &c->index);
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

void adji_range_set_single(adji_engine *engine, bool single, bool single_count) {
  const range_cores *c = engine->workers[0].state;
  engine->single = single && c->index.symmetric;
  engine->single_count = single_count && c->index.symmetric;
}

adj_status adji_range_set_queue(adji_engine *engine, adji_range_queue *queue, double *results) {
  range_cores *c = engine->workers[0].state;
  adji_range_queue_clear(&c->join.ctx->memory, &c->queue);
  engine->order = c->index.left->view.ids;
  if (!queue) return ADJ_OK;
  adj_status status = adji_range_queue_map(c->join.ctx, c->index.left->view.ids, queue_batch(c), queue);
  if (status) return status;
  c->queue = *queue;
  *queue = (adji_range_queue){0};
  *results = adji_range_queue_results(&c->queue);
  engine->order = c->queue.rows;
  return ADJ_OK;
}

void adji_range_set_staged(adji_engine *engine, bool stages, double pairs) {
  range_cores *c = engine->workers[0].state;
  c->stages = stages;
  c->pairs = pairs;
}
