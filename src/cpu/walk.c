/* SPDX-License-Identifier: MIT
 *
 * The walk over a batch. Cells are visited in order, so that the cursors of index/neighbours.h only move forward. A
 * group has the queries of one cell or of a few consecutive ones: finding candidates and calling kernels is paid once
 * for all of them. Bounding boxes shorten long ranges of candidates first.
 */
#include "cpu/walk.h"

#include <string.h>

enum { SAMPLED_ROWS = 256, FEW_EMPTY = 4 };

/* Whether the window has all rows and, as far as a sample tells, hardly any is empty. */
static bool wants_all(const adji_window *window, uint64_t rows) {
  if (window->first_row > 0 || window->end_row < rows) return false;
  uint32_t empty = 0;
  for (uint64_t i = 0; i < SAMPLED_ROWS; i++)
    empty += adji_window_length(window, rows * i / SAMPLED_ROWS) == 0;
  return empty <= FEW_EMPTY;
}

/* The most cells from the first to the last of a group. Along a periodic axis a point and its image must not both be
 * candidates. They are a period apart, measured in slabs, plus or minus one slab. */
static uint64_t most_span(const adji_grid *grid, uint64_t wanted) {
  if (!grid->axis_count) return 0;
  const adji_axis *row = &grid->axes[grid->axis_count - 1];
  uint64_t span = wanted * row->reach;
  if (!(row->period > 0)) return span;
  uint64_t period = (uint64_t)(row->period * row->inverse), least = 2 * (uint64_t)row->reach + 2;
  return period < least ? 0 : span < period - least ? span : period - least;
}

/* Queries per group, one for each lane of a vector of f32, and how many radii apart they may be. Measured on two cores
 * with AVX-512: with 8 or 32 queries counting took up to 50 % longer, and with 2 instead of 16 radii up to 40 %. Where
 * points are sparse, queries that are farther apart form a group too, as long as it has no more than FAR candidates:
 * comparing these costs less than a group for each query. */
enum { GROUP = 16, COUNT_SPAN = 16, LIST_SPAN = 8, FAR_SPAN = 4096 };
enum { FAR_COUNTED = 1024, FAR_LISTED = 512, FEWER_LANES = 4 };

/* In many dimensions candidates cost more than finding them, so groups have the queries of one cell. */
static adji_group_shape shape_of(const adji_walk *walk) {
  if (walk->join->limits) return (adji_group_shape){.wanted = 1, .most = 1};
  if (walk->join->left->dim > ADJI_FEW_DIMS) return (adji_group_shape){.wanted = 1, .most = ADJI_GROUP};
  const adji_grid *grid = &walk->index->grid;
  adji_group_shape shape = {.wanted = GROUP, .most = ADJI_GROUP, .far_span = most_span(grid, FAR_SPAN)};
  shape.span = most_span(grid, walk->counts ? COUNT_SPAN : LIST_SPAN);
  shape.far_candidates = (walk->counts ? FAR_COUNTED : FAR_LISTED) / (walk->index->left->wide ? 1 : FEWER_LANES);
  return shape;
}

static void choose_counts(adji_walker *w) {
  const adji_row_style *style = &w->walk.join->style;
  w->count = style->kernels->typed[style->type == ADJ_F64]->count[style->measure->step];
  if (style->type == ADJ_F64)
    w->narrow = adji_count_narrow_for(style->kernels->isa, style->measure, w->walk.join->right->dim);
}

static adj_status open_walker(adji_walker *w, const adji_walk *walk, uint32_t lane) {
  const adji_range_index *index = walk->index;
  adji_memory *memory = &walk->join->ctx->memory;
  w->walk = *walk;
  w->lane = lane;
  w->right = index->right.view;
  if (walk->right_ids) w->right.ids = walk->right_ids;
  w->all_wanted = walk->window ? wants_all(walk->window, walk->join->left->count) : !walk->names;
  w->split.compare_all = walk->sums;
  w->limited = index->boxes;
  w->shape = shape_of(walk);
  choose_counts(w);
  adj_status status = ADJ_OK;
  if (!index->ego) status = adji_neighbours_init(&w->neighbours, &index->grid, &index->right, walk->forward);
  if (!status && index->has_boxes) {
    w->box = adji_alloc(memory, 2 * (uint64_t)index->right.view.dim, 8, "bounding box");
    if (!w->box) status = ADJ_E_MEMORY;
  }
  if (!status && index->prefilter.filter)
    status = adji_prefilter_init(&w->prefilter, &index->prefilter, walk->join->style.type, memory);
  if (!status)
    status = adji_panel_init(&w->panel, memory, index->right.view.dim, adji_type_size(walk->join->style.type));
  return status;
}

adj_status adji_walkers_open(const adji_walk *walk, adji_walker **out) {
  adj_ctx *ctx = walk->join->ctx;
  *out = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof **out, "workers");
  adj_status status = *out ? ADJ_OK : ADJ_E_MEMORY;
  for (uint32_t lane = 0; lane < ctx->threads && !status; lane++)
    status = open_walker(&(*out)[lane], walk, lane);
  return status;
}

void adji_walkers_close(adj_ctx *ctx, adji_walker *walkers) {
  adji_memory *memory = &ctx->memory;
  for (uint32_t lane = 0; walkers && lane < ctx->threads; lane++) {
    adji_walker *w = &walkers[lane];
    adji_neighbours_clear(&w->neighbours);
    adji_free(memory, w->split.near);
    adji_free(memory, w->split.inside);
    adji_free(memory, w->box);
    adji_prefilter_clear(&w->prefilter);
    adji_panel_clear(&w->panel);
    adji_row_room_clear(&w->room);
    adji_ordered_clear(&w->ordered, memory);
    adji_free(memory, w->mirrored);
  }
  adji_free(memory, walkers);
}

/* Ranges shorter than this are compared without a look at their boxes. */
enum { SHORT_RANGE = 2 * ADJI_BLOCK };

static adj_status reserve_split(adji_walker *w, const adji_range *ranges, uint32_t count) {
  uint64_t room = 0;
  for (uint32_t r = 0; r < count; r++)
    room += (ranges[r].end - ranges[r].begin) / ADJI_BLOCK + 3;
  if (room <= w->split_room) return ADJ_OK;
  adji_memory *memory = &w->walk.join->ctx->memory;
  room *= 2;
  if (!adji_grow(memory, (void **)&w->split.near, room, sizeof(adji_range), 0, "candidates") ||
      !adji_grow(memory, (void **)&w->split.inside, room, sizeof(adji_range), 0, "candidates"))
    return ADJ_E_MEMORY;
  w->split_room = room;
  return ADJ_OK;
}

/* Splits the ranges into those that must be compared with the group and those that belong as a whole. If `forward`,
 * the candidates start among the queries; those up to the last query must be compared. */
static adj_status split_ranges(adji_walker *w, uint32_t query_count, const adji_range *ranges, uint32_t count) {
  adj_status status = reserve_split(w, ranges, count);
  if (status) return status;
  const adji_boxes *boxes = w->walk.join->limits ? &w->limited : &w->walk.index->boxes;
  w->split.near_count = w->split.inside_count = 0;
  adji_box_of(&w->walk.index->left->view, boxes->type, w->queries, query_count, w->box);
  uint32_t after_queries = w->queries[query_count - 1] + 1;
  for (uint32_t r = 0; r < count; r++) {
    adji_range range = ranges[r];
    if (w->walk.forward && range.begin < after_queries) { /* among the queries: must be compared */
      uint32_t end = range.end < after_queries ? range.end : after_queries;
      uint32_t begin = range.begin > w->queries[0] ? range.begin : w->queries[0];
      if (begin < end) w->split.near[w->split.near_count++] = (adji_range){begin, end};
      range.begin = after_queries;
    }
    if (range.begin >= range.end) continue;
    if (range.end - range.begin < SHORT_RANGE)
      w->split.near[w->split.near_count++] = range;
    else
      adji_boxes_split(boxes, w->box, range, &w->split);
  }
  return ADJ_OK;
}

static adj_status visit_group(adji_walker *w, uint32_t query_count, const adji_range *ranges, uint32_t count,
                              adji_tally *tally) {
  adji_group group = {.task = {.left = &w->walk.index->left->view,
                               .right = &w->right,
                               .queries = w->queries,
                               .query_count = query_count,
                               .ranges = ranges,
                               .range_count = count,
                               .limit = w->walk.join->limit,
                               .forward = w->walk.forward,
                               .measure = w->walk.join->style.measure}};
  if (w->walk.join->limits) { /* the group has one query */
    group.task.limit = adji_join_limit(w->walk.join, group.task.left->ids[w->queries[0]]);
    if (w->walk.index->has_boxes) adji_boxes_limit(&w->limited, group.task.limit);
  }
  if (w->walk.index->has_boxes) {
    adj_status status = split_ranges(w, query_count, ranges, count);
    if (status) return status;
    group.task.ranges = w->split.near;
    group.task.range_count = w->split.near_count;
    group.inside = w->split.inside;
    group.inside_count = w->split.inside_count;
    group.inside_total = adji_total_of(group.inside, group.inside_count);
  }
  group.near_total = adji_total_of(group.task.ranges, group.task.range_count);
  tally->candidates += group.near_total * query_count;
  adj_status status = w->walk.visit(w, &group, tally);
  return status || !adji_group_is_long(&group) ? status : adji_check_cancel(w->walk.join->ctx);
}

/* Rows are in the order of ids, so consecutive queries have scattered rows. The next queries are known, so their
 * offsets are prefetched. */
enum { OFFSETS_AHEAD = 32 };

static inline void fetch_ahead(const adji_window *window, const uint32_t *rows_at) {
  const uint64_t *offsets = window->offsets + rows_at[OFFSETS_AHEAD];
  __builtin_prefetch(offsets);
  __builtin_prefetch(offsets + 1);
}

static inline bool is_wanted(const adji_walker *w, uint32_t position) {
  const adji_window *window = w->walk.window;
  if (!window) return w->walk.names[position] != ADJI_NO_NAME;
  uint64_t row = w->walk.index->left->view.ids[position];
  return row >= window->first_row && row < window->end_row && window->offsets[row + 1] > window->offsets[row];
}

/* Collects the wanted queries from *position to end, until the group is full. Returns their number. */
static uint32_t collect_queries(adji_walker *w, uint32_t *position, uint32_t end) {
  const uint32_t *rows = w->walk.index->left->view.ids;
  const adji_window *window = w->walk.window;
  uint32_t many = 0, p = *position;
  for (; p < end && many < w->shape.most; p++) {
    w->queries[many] = p;
    many += w->all_wanted || is_wanted(w, p);
    if (window) fetch_ahead(window, rows + p);
  }
  *position = p;
  return many;
}

/* The place of a walk, and the stretch of queries from there on that form a group. */
typedef struct walk_place {
  uint32_t position, end;
  uint64_t cell;     /* the cell that holds the position */
  uint64_t row_end;  /* last cell number of the row    */
  uint64_t from, to; /* cell numbers of the stretch    */
} walk_place;

/* The number of queries that the group from `position` on should have. Long rows that must be sorted get a large group,
 * for which the candidates are sorted once (cpu/walk_ordered.c). */
static uint32_t wanted_from(const adji_walker *w, uint32_t position) {
  const adji_window *window = w->walk.window;
  if (w->shape.most == 1) return w->shape.wanted;
  uint64_t row = w->walk.index->left->view.ids[position];
  uint64_t length = !window ? w->walk.row_length : adji_window_has(window, row) ? adji_window_length(window, row) : 0;
  bool is_long = length && adji_ordered_suits(w->walk.join, length);
  return is_long && w->shape.wanted < ADJI_GROUP ? ADJI_GROUP : w->shape.wanted;
}

/* Finds the next stretch: whole vectors of queries of one cell or, if it has too few, queries of consecutive cells of a
 * row that are not too far apart. */
static void find_stretch(adji_walker *w, uint32_t batch_end, uint64_t span, walk_place *at) {
  const adji_index *left = w->walk.index->left;
  uint32_t wanted = wanted_from(w, at->position), cell_end = left->cell_starts[at->cell + 1];
  uint32_t available = cell_end - at->position;
  at->from = at->to = left->cell_keys[at->cell];
  if (available >= wanted) {
    at->end = at->position + (available < w->shape.most ? available & ~(wanted - 1) : w->shape.most);
  } else {
    if (at->from > at->row_end || !at->row_end) at->row_end = adji_row_end(&w->neighbours, at->from);
    uint64_t last = at->row_end - at->from > span ? at->from + span : at->row_end;
    uint64_t cell = adji_last_cell(left, at->cell, (uint64_t)at->position + wanted, last);
    at->to = left->cell_keys[cell];
    at->end = left->cell_starts[cell + 1] - at->position < wanted ? left->cell_starts[cell + 1] : at->position + wanted;
  }
  if (at->end > batch_end) at->end = batch_end;
}

static void skip_unwanted(const adji_walker *w, uint32_t batch_end, walk_place *at) {
  const uint32_t *rows = w->walk.index->left->view.ids;
  const adji_window *window = w->walk.window;
  if (w->all_wanted) return;
  for (; at->position < batch_end && !is_wanted(w, at->position); at->position++)
    if (window) fetch_ahead(window, rows + at->position);
}

/* Finds the next stretch and its number of candidate ranges. Returns false at the end of the batch. */
static bool find_group(adji_walker *w, uint32_t batch_end, walk_place *at, uint32_t *ranges) {
  const uint32_t *starts = w->walk.index->left->cell_starts;
  skip_unwanted(w, batch_end, at);
  if (at->position == batch_end) return false;
  while (starts[at->cell + 1] <= at->position)
    at->cell++;
  find_stretch(w, batch_end, w->shape.far_span, at);
  *ranges = adji_neighbours_find(&w->neighbours, at->from, at->to);
  if (at->to - at->from <= w->shape.span || adji_total_of(w->neighbours.found, *ranges) <= w->shape.far_candidates)
    return true;
  find_stretch(w, batch_end, w->shape.span, at);
  adji_neighbours_shorten(&w->neighbours);
  *ranges = adji_neighbours_find(&w->neighbours, at->from, at->to);
  return true;
}

/* Super-EGO: the candidate range is the whole right set, and the recursion over its boxes joins it with the group of
 * queries. */
static adj_status walk_all_candidates(adji_walker *w, const adji_batch *batch, adji_tally *tally) {
  adj_status status = ADJ_OK;
  uint32_t right = w->walk.index->right.view.count;
  for (uint32_t p = batch->begin; p < batch->end && !status;) {
    adji_range all = {w->walk.forward ? p : 0, right};
    uint32_t many = collect_queries(w, &p, batch->end);
    if (many) status = visit_group(w, many, &all, 1, tally);
    if (!status) status = adji_check_cancel(w->walk.join->ctx);
  }
  return status;
}

adj_status adji_walk_batch(adji_walker *w, const adji_batch *batch, adji_tally *tally) {
  if (w->walk.index->ego) return walk_all_candidates(w, batch, tally);
  const adji_index *left = w->walk.index->left;
  walk_place at = {.position = batch->begin, .cell = adji_cell_of(left, batch->begin, w->last_cell)};
  adji_neighbours_seek(&w->neighbours, left->cell_keys[at.cell]);
  adj_status status = ADJ_OK;
  while (at.position < batch->end && !status) {
    uint32_t ranges;
    if (!find_group(w, batch->end, &at, &ranges)) break;
    uint32_t many = collect_queries(w, &at.position, at.end);
    status = visit_group(w, many, w->neighbours.found, ranges, tally);
    if (!status && many == ADJI_GROUP) status = adji_check_cancel(w->walk.join->ctx);
  }
  w->last_cell = at.cell;
  return status;
}

/* ---- Neighbours of a group ------------------------------------------------------------------- */

/* Copies the ids of candidates that belong without being compared. */
static uint32_t append_inside(const adji_group *group, uint32_t *ids, uint32_t found) {
  for (uint32_t r = 0; r < group->inside_count; r++) {
    uint32_t many = group->inside[r].end - group->inside[r].begin;
    memcpy(ids + found, group->task.right->ids + group->inside[r].begin, many * sizeof *ids);
    found += many;
  }
  return found;
}

/* The fewest queries that share a copied panel. */
enum { LEAST_SHARING = 16 };

/* The panel of a group's candidates, if enough queries share it. Candidates in order (walk_ordered.c) are already a
 * copy. */
static adji_panel *panel_of(adji_walker *w, const adji_group *group) {
  bool shared = group->task.query_count >= LEAST_SHARING && group->task.right == &w->right;
  return shared ? &w->panel : NULL;
}

void adji_list_queries(adji_walker *w, const adji_row_style *style, const adji_group *group, uint32_t first,
                       uint32_t many, uint32_t *found) {
  const adji_row_room *room = &w->room;
  adji_task task = group->task;
  task.queries += first;
  task.query_count = many;
  void *const *sums = adji_row_needs_sums(style) ? room->sums : NULL;
  memset(found, 0, ADJI_LIST_MAX * sizeof *found);
  adji_range copied;
  if (!w->walk.index->prefilter.filter && panel_of(w, group)) adji_panel_use(&w->panel, &task, &copied);
  if (w->walk.index->prefilter.filter)
    adji_prefilter_list(&w->prefilter, style, &task, room->ids, sums, found);
  else
    style->kernels->typed[style->type == ADJ_F64]->list[style->measure->step](&task, room->ids, sums, found);
  for (uint32_t k = 0; k < many && group->inside_count; k++)
    found[k] = append_inside(group, room->ids[k], found[k]);
}

/* The narrow kernel first copies the queries, which pays if there are enough candidates. If many pairs are at the
 * limit, as on a lattice, too many results are unsure, and it pauses. */
void adji_count_task(adji_walker *w, const adji_group *group, const adji_task *task, uint32_t *counts) {
  enum { LEAST_NARROW = 32, UNSURE = 64, PAUSE = 256 };
  if (!w->narrow || group->near_total < LEAST_NARROW || w->wide_groups) {
    w->count(task, counts);
    if (w->wide_groups) w->wide_groups--;
  } else if (w->narrow(task, w->count, counts) * UNSURE > group->near_total) {
    w->wide_groups = PAUSE;
  }
}

/* Counts neighbours in the ranges of the task, which has all queries of the group. */
static void count_ranges(adji_walker *w, const adji_group *group, const adji_task *ranges, uint32_t *counts) {
  enum { LANES = 32 }; /* in few dimensions: two vectors of f32 */
  uint32_t total = ranges->query_count, few = ranges->right->dim <= ADJI_FEW_DIMS ? LANES : ADJI_LIST_MAX;
  uint32_t each = w->walk.index->prefilter.filter ? ADJI_LIST_MAX : adji_group_is_long(group) ? few : total;
  adji_task task = *ranges;
  adji_range copied;
  if (!w->walk.index->prefilter.filter && panel_of(w, group)) adji_panel_use(&w->panel, &task, &copied);
  for (uint32_t first = 0; first < total && !adji_group_cancelled(w, group); first += each) {
    task.queries = ranges->queries + first;
    task.query_count = total - first < each ? total - first : each;
    if (w->walk.index->prefilter.filter)
      adji_prefilter_list(&w->prefilter, &w->walk.join->style, &task, NULL, NULL, counts + first);
    else
      adji_count_task(w, group, &task, counts + first);
  }
}

adji_panels adji_panels_of(const adji_walker *w, const adji_group *group) {
  bool filtered = w->walk.index->prefilter.filter;
  return (adji_panels){.group = group, .most = filtered ? w->prefilter.most : w->panel.most, .several = filtered};
}

bool adji_panels_next(adji_panels *panels, adji_task *task) {
  const adji_task *all = &panels->group->task;
  if (panels->next == all->range_count) return false;
  adji_range range = all->ranges[panels->next];
  uint64_t begin = range.begin + panels->done, rest = range.end - begin;
  if (panels->done || rest > panels->most || !panels->several) { /* a part of one range, or all of it */
    bool cut = rest > panels->most;
    panels->part = (adji_range){(uint32_t)begin, cut ? (uint32_t)begin + panels->most : range.end};
    panels->done = cut ? panels->done + panels->most : 0;
    panels->next += !cut;
    task->ranges = &panels->part;
    task->range_count = 1;
    return true;
  }
  task->ranges = all->ranges + panels->next;
  task->range_count = 0;
  for (uint64_t total = rest; total <= panels->most;) {
    task->range_count++;
    if (++panels->next == all->range_count) break;
    total += all->ranges[panels->next].end - all->ranges[panels->next].begin;
  }
  return true;
}

/* All queries of the group pass over one panel of candidates before the next is fetched. */
void adji_count_queries(adji_walker *w, const adji_group *group, uint32_t *counts) {
  for (uint32_t k = 0; k < group->task.query_count; k++)
    counts[k] += (uint32_t)group->inside_total;
  adji_panels panels = adji_panels_of(w, group);
  if (group->task.query_count < LEAST_SHARING || (group->near_total <= panels.most && group->task.range_count > 1)) {
    count_ranges(w, group, &group->task, counts);
    return;
  }
  adji_task panel = group->task;
  while (adji_panels_next(&panels, &panel))
    count_ranges(w, group, &panel, counts);
}
