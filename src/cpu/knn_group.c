/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of a group of queries.
 *
 * 1. The leaves around the queries' own leaf come first; in a join of two sets, those around a leaf near the queries.
 *    They give a good first bound on the distance of the k-th neighbour.
 * 2. The tree is searched from the root, nearest nodes first, for leaves that are closer to the box of the group than
 *    the worst k-th neighbour of its queries.
 * 3. Whenever enough leaves are collected, each query visits those close enough to it, and the reach of the group
 *    shrinks.
 *
 * In few dimensions a single search within a limit for each query is tried first (cpu/knn_group_pool.c).
 *
 * In many dimensions the search collects nodes of 16 leaves, and queries find the leaves near them
 * (distance/knn_near_body.h).
 *
 * Ties go to the lower id, so a node as far as the k-th neighbour counts only if it holds a lower id. This keeps a
 * million equal points from being visited a million times.
 */
#include "cpu/knn_group_private.h"

#include <math.h>

/* ---- Queries --------------------------------------------------------------------------------- */

/* Copies the coordinates of the selected points of a leaf, and the box of the leaf. */
#define COPY(T)                                                                                 \
  static void copy_##T(adji_knn_group *g, uint64_t leaf) {                                      \
    const adji_tree *tree = g->left;                                                            \
    const T *from = (const T *)tree->coords + leaf * tree->dim * tree->leaf;                    \
    const T *box = (const T *)tree->level[0].bounds;                                            \
    box += leaf / ADJI_FAN * tree->dim * 2 * ADJI_FAN + leaf % ADJI_FAN;                        \
    for (uint32_t j = 0; j < tree->dim; j++, from += tree->leaf, box += (size_t)2 * ADJI_FAN) { \
      T *to = (T *)g->coords + j;                                                               \
      for (uint32_t q = 0; q < g->query_count; q++)                                             \
        to[(uint64_t)q * tree->dim] = from[g->places[q]];                                       \
      ((T *)g->low)[j] = box[0];                                                                \
      ((T *)g->high)[j] = box[ADJI_FAN];                                                        \
    }                                                                                           \
  }
COPY(float)
COPY(double)

static void start_list(adji_knn_group *g, uint32_t q) {
  double limit = adji_join_limit(g->join, g->rows[q]);
  if (!g->ordered) {
    adji_kbest_reset(&g->best[q], limit);
    return;
  }
  void *list = (char *)g->lists + q * g->list_stride;
  uint32_t room = (g->k + 7) / 8 * 8;
  if (g->right->type == ADJ_F64) {
    for (uint32_t i = 0; i < room; i++)
      ((adji_near_f64 *)list)[i] = (adji_near_f64){limit, ADJ_NO_ID};
  } else {
    uint64_t none = adji_near_make_f32((float)limit, ADJ_NO_ID);
    for (uint32_t i = 0; i < room; i++)
      ((uint64_t *)list)[i] = none;
  }
}

/* Loads the selected queries, points of a leaf. */
static void load_queries(adji_knn_group *g, uint64_t leaf) {
  if (g->left->type == ADJ_F64)
    copy_double(g, leaf);
  else
    copy_float(g, leaf);
}

/* Whether both trees have the same points in the same leaves. */
static bool is_same_tree(const adji_knn_group *g) {
  return g->left && g->left->coords == g->right->coords;
}

/* The id that a query must not find: its own, or none. */
static uint32_t own_id(const adji_knn_group *g, uint32_t row) {
  if (!g->join->style.drop_self) return ADJ_NO_ID;
  return g->labels ? g->labels[row] : row;
}

/* Selects point i of a leaf as a query. */
static void add_query(adji_knn_group *g, uint32_t i, uint32_t row, uint32_t own) {
  uint32_t q = g->query_count++;
  g->places[q] = i;
  g->rows[q] = row;
  g->own[q] = own;
}

/* ---- Reach: how far neighbours can be -------------------------------------------------------- */

static void measure_reach(adji_knn_group *g) {
  g->reach = -1;
  g->reach_id = 0;
  for (uint32_t q = 0; q < g->query_count; q++) {
    double sum;
    uint32_t id = ADJ_NO_ID;
    const char *list = (const char *)g->lists + q * g->list_stride;
    if (!g->ordered) {
      sum = g->best[q].limit;
    } else if (g->right->type == ADJ_F64) {
      const adji_near_f64 *last = (const adji_near_f64 *)(const void *)list + (g->k - 1);
      sum = last->sum;
      id = (uint32_t)last->id;
    } else {
      uint64_t last = ((const uint64_t *)(const void *)list)[g->k - 1];
      sum = (double)adji_near_sum_f32(last);
      id = (uint32_t)last;
    }
    if (sum > g->reach) g->reach_id = 0;
    if (sum >= g->reach) {
      g->reach = sum;
      g->reach_id = id > g->reach_id ? id : g->reach_id;
    }
  }
}

static inline bool in_reach(const adji_knn_group *g, double bound, uint32_t least_id) {
  return bound < g->reach || (bound == g->reach && least_id <= g->reach_id);
}

/* ---- Visiting leaves ------------------------------------------------------------------------- */

static void visit_leaves_buffered(adji_knn_group *g, adji_knn_task *task) {
  const adji_row_style *style = &g->join->style;
  adji_list_leaves_fn list = g->search.kernels->list_leaves;
  const char *coords = g->coords;
  for (uint32_t q = 0; q < g->query_count; q++) {
    task->queries = coords + (uint64_t)q * task->dim * adji_type_size(style->type);
    uint32_t found = list(task, g->best[q].limit, g->ids, g->sums);
    if (g->own[q] != ADJ_NO_ID) found = adji_drop_id(style->type, g->ids, g->sums, found, g->own[q]);
    adji_kbest_add(&g->best[q], g->ids, g->sums, found);
  }
}

adji_knn_task adji_knn_group_task(adji_knn_group *g) {
  return (adji_knn_task){.coords = g->right->coords,
                         .ids = g->right->ids,
                         .dim = g->right->dim,
                         .leaf = g->right->leaf,
                         .queries = g->coords,
                         .own = g->own,
                         .query_count = g->query_count,
                         .leaves = &g->leaves,
                         .measure = g->join->style.measure,
                         .k = g->k,
                         .best = g->lists,
                         .best_stride = g->list_stride,
                         .first_seen = g->first_seen,
                         .end_seen = g->end_seen};
}

/* Compares every query with the collected leaves. */
static void visit_leaves(adji_knn_group *g, adji_tally *tally) {
  if (!g->leaves.count) return;
  adji_knn_task task = adji_knn_group_task(g);
  if (g->pools.active)
    adji_pool_leaves(g, &task);
  else if (g->lowest)
    g->search_below(&task, g->right->level);
  else if (g->ordered)
    g->search.kernels->knn(&task);
  else
    visit_leaves_buffered(g, &task);
  tally->candidates += task.candidates;
  g->leaves.count = 0;
  if (!g->pools.active) measure_reach(g);
}

/* Collects the leaves in `mask` of a chunk, or the nodes if the search collects nodes. */
static void collect(adji_knn_group *g, uint64_t chunk, uint32_t mask) {
  uint64_t first = chunk * ADJI_FAN;
  const void *boxes = adji_chunk_boxes(g->right, g->lowest, chunk);
  g->search.typed->add_leaves(&g->leaves, g->right->dim, mask, (uint32_t)first, boxes,
                              g->right->level[g->lowest].least_ids + first);
}

/* ---- The search ------------------------------------------------------------------------------ */

/* The leaves of a chunk, or the nodes, that were visited before the search, as a mask. */
static uint32_t seen_mask(const adji_knn_group *g, uint64_t chunk) {
  uint64_t first = chunk * ADJI_FAN, end = first + ADJI_FAN, each = g->lowest ? ADJI_FAN : 1;
  if (g->first_seen / each > first) first = g->first_seen / each;
  if (g->end_seen / each < end) end = g->end_seen / each;
  if (first >= end) return 0;
  return ((UINT32_C(1) << (end - first)) - 1) << first % ADJI_FAN;
}

/* Whether many leaves lie between the queries of a group, so that a leaf bounds few of them. */
static bool is_sparse(const adji_knn_group *g) {
  enum { SPARSE = 8 };
  return g->left && g->left->count < g->right->count / SPARSE;
}

/* From here on nodes are collected: first the node of leaf `leaf`. The leaves visited before are in no other node. */
static void visit_node(adji_knn_group *g, uint64_t leaf, adji_tally *tally) {
  uint64_t node = leaf / ADJI_FAN;
  g->lowest = 1;
  collect(g, node / ADJI_FAN, UINT32_C(1) << node % ADJI_FAN);
  visit_leaves(g, tally);
  g->first_seen = node * ADJI_FAN;
  g->end_seen = g->first_seen + ADJI_FAN;
}

/* Visits the leaves around `leaf`: enough of them for k neighbours. */
static void visit_nearby(adji_knn_group *g, uint64_t leaf, adji_tally *tally) {
  uint64_t many = g->k == 1 || is_sparse(g) ? ADJI_FAN : 1, count = g->right->level[0].count;
  while (many * g->right->leaf < g->k + (uint64_t)g->k / 2 && many < ADJI_LEAVES)
    many *= 2;
  g->first_seen = leaf / many * many;
  g->end_seen = g->first_seen + many < count ? g->first_seen + many : count;
  uint32_t own = UINT32_C(1) << leaf % ADJI_FAN;
  collect(g, leaf / ADJI_FAN, own);
  for (uint64_t chunk = g->first_seen / ADJI_FAN; chunk * ADJI_FAN < g->end_seen; chunk++)
    collect(g, chunk, seen_mask(g, chunk) & ~(chunk == leaf / ADJI_FAN ? own : 0));
  visit_leaves(g, tally);
}

/* Pushes a node onto the stack of nodes to visit. The siblings begin at `from`; the nearest of them goes on top. */
static void push(adji_knn_group *g, uint32_t from, adji_tree_visit visit) {
  uint32_t i = g->depth++;
  for (; i > from; i--) {
    const adji_tree_visit *below = &g->stack[i - 1];
    if (below->bound > visit.bound || (below->bound == visit.bound && below->least_id > visit.least_id)) break;
    g->stack[i] = *below;
  }
  g->stack[i] = visit;
}

/* Visits the children of a node, which are chunk `chunk` of the level: collects leaves or pushes nodes. */
static void open_node(adji_knn_group *g, uint32_t level_number, uint64_t chunk) {
  const uint32_t *least_ids = g->right->level[level_number].least_ids + chunk * ADJI_FAN;
  adji_chunk_bounds bounds;
  adji_bound_chunk(&g->search, (adji_box_reach){g->low, g->high, g->reach}, level_number, chunk, &bounds);
  for (uint32_t tied = bounds.tied; tied; tied &= tied - 1)
    if (least_ids[__builtin_ctz(tied)] > g->reach_id) bounds.near &= ~(tied & -tied);
  if (level_number == g->lowest) {
    collect(g, chunk, bounds.near & ~seen_mask(g, chunk));
    return;
  }
  for (uint32_t from = g->depth; bounds.near; bounds.near &= bounds.near - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(bounds.near);
    double bound = adji_bound_at(&g->search, &bounds, i);
    push(g, from, (adji_tree_visit){bound, least_ids[i], level_number, chunk * ADJI_FAN + i});
  }
}

static void search(adji_knn_group *g, adji_tally *tally) {
  g->depth = 0;
  open_node(g, g->right->levels - 1, 0);
  while (g->depth) {
    adji_tree_visit top = g->stack[--g->depth];
    if (!in_reach(g, top.bound, top.least_id)) continue;
    open_node(g, top.level - 1, top.node);
    if (g->leaves.count > ADJI_LEAVES - ADJI_FAN) visit_leaves(g, tally);
  }
  visit_leaves(g, tally);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Writes the neighbours in the list of a query to ids and sums. */
static uint32_t read_list(adji_knn_group *g, uint32_t q) {
  if (!g->ordered) return (uint32_t)adji_kbest_finish(&g->best[q], true, g->ids, g->sums);
  const void *list = (const char *)g->lists + q * g->list_stride;
  uint32_t found = g->k;
  if (g->right->type == ADJ_F64) {
    const adji_near_f64 *keys = list;
    while (found && keys[found - 1].id == ADJ_NO_ID)
      found--;
    for (uint32_t i = 0; i < found; i++) {
      g->ids[i] = (uint32_t)keys[i].id;
      ((double *)g->sums)[i] = keys[i].sum;
    }
    return found;
  }
  const uint64_t *keys = list;
  uint32_t *bits = g->sums;
  while (found && (uint32_t)keys[found - 1] == ADJ_NO_ID)
    found--;
  for (uint32_t i = 0; i < found; i++) {
    g->ids[i] = (uint32_t)keys[i];
    bits[i] = (uint32_t)(keys[i] >> 32);
  }
  return found;
}

/* Adds the sum of a k-th neighbour to the mean of recent ones. */
static void update_mean(adji_knn_group *g, double sum) {
  static const double SHARE = 0.125;
  adji_guess *guess = &g->guess;
  guess->mean = guess->mean > 0 ? guess->mean + SHARE * (sum - guess->mean) : sum;
}

static double sum_at(const adji_knn_group *g, uint32_t i) {
  return g->right->type == ADJ_F64 ? ((const double *)g->sums)[i] : (double)((const float *)g->sums)[i];
}

/* The same for the row in g->ids and g->sums. */
static void update_mean_from_row(adji_knn_group *g, uint32_t found) {
  if (g->guess.enabled && found >= g->k) update_mean(g, sum_at(g, found - 1));
}

/* Places the row of query q, from list `slot`. */
static void place_row(adji_knn_group *g, uint32_t q, uint32_t slot, const adji_window *window, adji_tally *tally) {
  uint32_t found = g->k ? read_list(g, slot) : 0;
  update_mean_from_row(g, found);
  if (!window) return;
  adji_row_place_padded(window, &g->join->style, g->rows[q], g->ids, g->sums, found);
  tally->pairs += found;
}

/* Whether f32 values go to rows unchanged, except for roots of sums. */
static bool places_directly(const adji_knn_group *g, const adji_window *window) {
  adji_report report = g->join->style.measure->report;
  return window && window->k == g->k && g->right->type == ADJ_F32 &&
         (report == ADJI_REPORT_ROOT || report == ADJI_REPORT_SUM);
}

/* Places the row of query q from its pool, without a copy if no value has to be changed. False: the limit was wrong. */
static bool place_from_pool(adji_knn_group *g, uint32_t q, const adji_window *window, adji_tally *tally) {
  if (!adji_pool_is_usable(g, q)) return false;
  adji_picked to = {.ids = g->ids, .sums = g->sums};
  bool directly = places_directly(g, window);
  if (directly) {
    uint64_t at = adji_window_at(window, g->rows[q]);
    to = (adji_picked){.ids = window->ids + at, .roots = g->join->style.measure->report == ADJI_REPORT_ROOT};
    if (window->distances) to.sums = (float *)window->distances + at;
  }
  if (!adji_pool_pick(g, q, &to)) {
    adji_pool_select(g, q);
    place_row(g, q, 0, window, tally);
    return true;
  }
  update_mean(g, to.last);
  if (!window) return true;
  adji_window_note_last(window, g->right->type, g->rows[q], to.last);
  if (!directly) adji_row_place_padded(window, &g->join->style, g->rows[q], g->ids, g->sums, g->k);
  tally->pairs += g->k;
  return true;
}

/* The right leaf that the search for the queries of a left leaf begins with. */
static uint64_t near_leaf(const adji_knn_group *g, uint64_t leaf) {
  if (is_same_tree(g)) return leaf;
  return adji_near_leaf(&g->search, g->coords, adji_near_chunk(&g->search, g->coords));
}

/* Searches within the limits of all queries. The rows of queries whose limits were good are finished. The other queries
 * remain in the group. */
static void search_pools(adji_knn_group *g, const adji_window *window, adji_tally *tally) {
  search(g, tally);
  g->pools.active = false;
  uint32_t remaining = 0;
  for (uint32_t q = 0; q < g->query_count; q++) {
    if (place_from_pool(g, q, window, tally)) continue;
    g->rows[remaining] = g->rows[q];
    g->own[remaining] = g->own[q];
    g->places[remaining++] = g->places[q];
  }
  g->query_count = remaining;
}

static void find_by_pools(adji_knn_group *g, uint64_t leaf, const adji_window *window, adji_tally *tally) {
  if (!g->pools.enabled) return;
  load_queries(g, leaf);
  if (adji_pool_guess(g)) {
    search_pools(g, window, tally);
    if (g->query_count) load_queries(g, leaf);
  }
  if (g->query_count && adji_pool_bound(g, near_leaf(g, leaf))) search_pools(g, window, tally);
}

static void find_neighbours(adji_knn_group *g, uint64_t leaf, adji_tally *tally) {
  g->first_seen = g->end_seen = 0;
  if (!g->k) return;
  load_queries(g, leaf);
  for (uint32_t q = 0; q < g->query_count; q++)
    start_list(g, q);
  leaf = near_leaf(g, leaf);
  visit_nearby(g, leaf, tally);
  if (g->search_below && g->right->levels > 1) visit_node(g, leaf, tally);
  search(g, tally);
  g->lowest = 0;
}

/* Places the row of a query with at most one neighbour. */
static void place_nearest(const adji_knn_group *g, uint32_t row, const adji_nearest *task, uint32_t i,
                          const adji_window *window) {
  bool wide = g->right->type == ADJ_F64;
  uint32_t id = task->found[i];
  if (id == ADJ_NO_ID || g->join->style.measure->report != ADJI_REPORT_ROOT || window->k != 1) {
    const void *sum = wide ? (const void *)&task->sums.f64[i] : (const void *)&task->sums.f32[i];
    adji_row_place_padded(window, &g->join->style, row, &id, sum, id != ADJ_NO_ID);
    return;
  }
  uint64_t at = adji_window_at(window, row);
  window->ids[at] = id;
  adji_window_note_last(window, g->right->type, row, wide ? task->sums.f64[i] : task->sums.f32[i]);
  if (!window->distances) return;
  if (wide)
    ((double *)window->distances)[at] = sqrt(task->sums.f64[i]);
  else
    ((float *)window->distances)[at] = sqrtf(task->sums.f32[i]);
}

/* Sets the largest sum of query i. -1: the query is not searched for. */
static void limit_nearest(adji_nearest *task, adj_type type, uint32_t i, double limit) {
  if (type == ADJ_F64)
    task->sums.f64[i] = limit;
  else
    task->sums.f32[i] = (float)limit;
}

/* Fills rows for k = 1, all in one call of a kernel. */
static void fill_nearest(const adji_knn_group *g, uint64_t leaf, uint64_t wanted, const adji_window *window,
                         adji_tally *tally) {
  const adji_tree *left = g->left, *right = g->right;
  uint64_t size = adji_type_size(right->type);
  const uint32_t *rows = left->ids + leaf * left->leaf;
  adji_nearest task = {.level = right->level, .levels = right->levels, .dim = right->dim};
  task.coords = right->coords;
  task.ids = right->ids;
  task.queries = (const char *)left->coords + leaf * left->dim * left->leaf * size;
  task.box = (const char *)adji_chunk_boxes(left, 0, leaf / ADJI_FAN) + leaf % ADJI_FAN * size;
  task.count = adji_tree_leaf_count(left, leaf);
  for (uint32_t i = 0; i < ADJI_LEAF; i++)
    limit_nearest(&task, right->type, i, wanted >> i & 1 ? adji_join_limit(g->join, rows[i]) : -1);
  tally->candidates += g->find_nearest(&task);
  for (uint32_t i = 0; i < task.count && window; i++) {
    if (!(wanted >> i & 1)) continue;
    place_nearest(g, rows[i], &task, i, window);
    tally->pairs += task.found[i] != ADJ_NO_ID;
  }
}

void adji_knn_group_fill(adji_knn_group *g, uint64_t leaf, uint64_t wanted, const adji_window *window,
                         adji_tally *tally) {
  if (g->find_nearest) {
    fill_nearest(g, leaf, wanted, window, tally);
    return;
  }
  const uint32_t *rows = g->left->ids + leaf * g->left->leaf;
  bool same = is_same_tree(g) && g->join->style.drop_self;
  const uint32_t *own = same ? g->right->ids + leaf * g->right->leaf : NULL;
  while (wanted) {
    for (g->query_count = 0; wanted && g->query_count < g->max_queries; wanted &= wanted - 1) {
      uint32_t i = (uint32_t)__builtin_ctzll(wanted);
      add_query(g, i, rows[i], own ? own[i] : own_id(g, rows[i]));
    }
    find_by_pools(g, leaf, window, tally);
    if (!g->query_count) continue;
    find_neighbours(g, leaf, tally);
    for (uint32_t q = 0; q < g->query_count; q++)
      place_row(g, q, q, window, tally);
  }
}

/* ---- One query ------------------------------------------------------------------------------- */

/* Consecutive queries are close to each other, so the sums of their k-th neighbours are similar. All points within a
 * guess are listed, without keeping a sorted list during the search, and the k nearest of them are selected. If at
 * least k points are listed, no other point comes before the k-th: its sum is above the guess. Otherwise the tree is
 * searched again without a guess.
 *
 * The scale shrinks a little with every success and grows with every failure, so that about one query in thirty fails.
 * If the sums of neighbours differ too much for that, guessing stops for a while. */
enum { MOST_LISTED = 64, MOST_CREDIT = 64, FAILURE_COST = 6, PAUSE_CREDIT = -256 };
static const double SHRINK = 0.998, GROW = 1.06, LARGEST_SCALE = 16;

/* The guess for a row; 0: none. */
static double guess_for(adji_knn_group *g, uint32_t row) {
  adji_guess *guess = &g->guess;
  if (!guess->enabled || !(guess->mean > 0) || g->join->style.drop_self) return 0;
  if (guess->credit < 0 && ++guess->credit < 0) return 0;
  double current = guess->mean * guess->scale;
  return current <= adji_join_limit(g->join, row) ? current : 0;
}

static bool find_by_guess(adji_knn_group *g, adji_knn_task *task, const adji_leaves *near) {
  adji_guess *guess = &g->guess;
  adji_tree_found list = {g->ids, g->sums, 0, (uint32_t)g->row_room - ADJI_BOX_LANES};
  g->listing.depth = !near;
  g->listing.nodes[0].level = g->right->levels;
  g->listing.nodes[0].number = 0;
  task->leaves = near;
  if (near)
    g->search.kernels->list_near(task, g->right->level, guess->current, &list);
  else
    g->search.kernels->list_tree(task, g->right->level, guess->current, &g->listing, &list);
  bool few = list.count < g->k, many = g->listing.depth || list.count > MOST_LISTED;
  guess->scale *= few ? GROW : many ? 1 / GROW : SHRINK;
  guess->scale = guess->scale > LARGEST_SCALE ? LARGEST_SCALE : guess->scale;
  guess->credit += few || many ? -FAILURE_COST : guess->credit < MOST_CREDIT;
  if (guess->credit < 0) guess->credit = PAUSE_CREDIT;
  if (few || many) return false;
  g->search.typed->knn_select(task, list.ids, list.sums, list.count);
  return true;
}

adj_status adji_knn_group_enable_guesses(adji_knn_group *g) {
  g->guess = (adji_guess){.enabled = adji_searches_tree_at_once(g->join), .scale = 1.5, .credit = MOST_CREDIT};
  return adji_near_nodes_init(&g->near, g->right);
}

/* near: nodes that hold all points within the guess, if there is a guess; NULL: search from the root. */
static uint32_t find_one(adji_knn_group *g, uint32_t row, uint64_t chunk, const adji_leaves *near, adji_tally *tally) {
  g->query_count = 0;
  add_query(g, 0, row, own_id(g, row));
  if (chunk == ADJI_NO_CHUNK) chunk = adji_near_chunk(&g->search, g->coords);
  if (adji_searches_tree_at_once(g->join)) {
    adji_knn_task task = adji_knn_group_task(g);
    task.limit = adji_join_limit(g->join, row);
    if (!(g->guess.current > 0) || !find_by_guess(g, &task, near))
      g->search.typed->knn_tree(&task, g->right->level, g->right->levels, chunk);
    tally->candidates += task.candidates;
  } else {
    start_list(g, 0);
    visit_nearby(g, adji_near_leaf(&g->search, g->coords, chunk), tally);
    search(g, tally);
  }
  uint32_t found = read_list(g, 0);
  if (found == g->k) g->last_sum = sum_at(g, found - 1);
  return found;
}

uint32_t adji_knn_group_find(adji_knn_group *g, uint32_t row, uint64_t chunk, adji_tally *tally) {
  g->guess.current = 0;
  return g->k ? find_one(g, row, chunk, NULL, tally) : 0;
}

/* The nodes reach a little farther than the current guess, since guesses change from query to query. */
uint32_t adji_knn_group_next(adji_knn_group *g, const adji_point_order *order, uint64_t i, adji_tally *tally) {
  static const double FARTHER = 1.25;
  if (!g->k) return 0;
  adji_near_nodes *near = &g->near;
  const adji_leaves *nodes = NULL;
  uint32_t row = adji_point_row(order, i);
  double current = g->guess.current = guess_for(g, row);
  if (current > 0) {
    bool kept = i >= near->begin && i < near->end && current <= near->limit;
    nodes = adji_near_nodes_at(near, &g->search, g->join->left, order, i, kept ? current : FARTHER * current);
  }
  uint32_t found = find_one(g, row, adji_point_chunk(order, i), nodes, tally);
  update_mean_from_row(g, found);
  return found;
}

/* ---- Creation -------------------------------------------------------------------------------- */

enum { KEYS_AT_ONCE = 1 << 16 };

/* Allocates lists of k neighbours, and room for the longest row. */
static adj_status make_lists(adji_knn_group *g) {
  adji_memory *memory = &g->join->ctx->memory;
  bool wide = g->right->type == ADJ_F64;
  uint64_t key = wide ? sizeof(adji_near_f64) : sizeof(uint64_t), row = (uint64_t)ADJI_LEAVES * g->right->leaf;
  g->list_stride = ((uint64_t)g->k + 7) / 8 * 8 * key;
  uint64_t bytes =
      g->ordered ? g->list_stride * g->max_queries : adji_kbest_bytes(g->right->type, g->k, g->max_queries);
  if (bytes > g->list_bytes) {
    if (!adji_grow(memory, &g->list_memory, bytes, 1, 0, "lists of neighbours")) return ADJ_E_MEMORY;
    g->list_bytes = bytes;
  }
  g->lists = g->list_memory;
  g->best = g->ordered ? NULL : g->list_memory;
  if (!g->ordered) adji_kbest_init(g->best, g->join->ctx->isa, g->right->type, g->k, g->max_queries);
  adj_status status = adji_pools_init(g);
  if (status) return status;
  if (!g->left) row = (uint64_t)2 * ADJI_TREE_STEP * g->right->leaf; /* see find_by_guess() */
  row = (row < g->k ? g->k : row) + ADJI_BOX_LANES;
  if (row <= g->row_room) return ADJ_OK;
  if (!adji_grow(memory, (void **)&g->ids, row, sizeof *g->ids, 0, "row of neighbours") ||
      !adji_grow(memory, &g->sums, row, adji_type_size(g->right->type), 0, "row of neighbours"))
    return ADJ_E_MEMORY;
  g->row_room = row;
  return ADJ_OK;
}

/* Whether there are kernels for this size of leaves, these lists and this metric. */
static bool suits_kernels(const adji_knn_group *g) {
  return g->left && g->ordered && g->right->leaf == ADJI_LEAF && g->join->style.measure->step == ADJI_STEP_L2;
}

/* Chooses the kernels. Searching below nodes (distance/knn_near_body.h), with a million points and k = 8, took 30 %
 * longer in two dimensions and 15 % in three, where there are pools as well, but 34 % less in six. */
static void choose_kernels(adji_knn_group *g) {
  enum { BELOW_LEAST = 5, NEAREST_LEAST = 2, NEAREST_MOST = 6 };
  const char *isa = g->join->ctx->isa;
  uint32_t dim = g->right->dim;
  g->search_below = NULL;
  g->find_nearest = NULL;
  if (!suits_kernels(g)) return;
  if (g->k > 1 && dim >= BELOW_LEAST) g->search_below = g->search.typed->knn_near;
  if (g->k == 1 && !g->join->style.drop_self && dim >= NEAREST_LEAST && dim <= NEAREST_MOST)
    g->find_nearest = adji_nearest_for(isa, g->right->type == ADJ_F64);
}

adj_status adji_knn_group_set_join(adji_knn_group *g, const adji_join *join) {
  g->join = join;
  g->search = adji_tree_search_of(join, g->right);
  g->k = adji_join_reach(join);
  g->ordered = g->k <= ADJI_KNN_MOST_K;
  g->max_queries = g->left ? g->left->leaf : 1;
  if (!g->ordered && g->k > KEYS_AT_ONCE / g->max_queries)
    g->max_queries = g->k < KEYS_AT_ONCE ? KEYS_AT_ONCE / g->k : 1;
  choose_kernels(g);
  return g->k ? make_lists(g) : ADJ_OK;
}

adj_status adji_knn_group_init(adji_knn_group *g, const adji_join *join, const adji_tree *left,
                               const adji_tree *right) {
  adji_memory *memory = &join->ctx->memory;
  size_t size = adji_type_size(right->type);
  *g = (adji_knn_group){.join = join, .left = left, .right = right};
  g->coords = adji_alloc(memory, (uint64_t)(left ? left->leaf : 1) * right->dim, size, "queries");
  /* A single query is its own box. */
  g->low = left ? adji_alloc(memory, right->dim, size, "queries") : g->coords;
  g->high = left ? adji_alloc(memory, right->dim, size, "queries") : g->coords;
  g->leaves.bounds = adji_alloc_zero(memory, (uint64_t)2 * right->dim * ADJI_LEAF_ROOM, size, "queries");
  if (!g->coords || !g->low || !g->high || !g->leaves.bounds) return ADJ_E_MEMORY;
  return adji_knn_group_set_join(g, join);
}

void adji_knn_group_clear(adji_knn_group *g) {
  if (!g->join) return;
  adji_memory *memory = &g->right->ctx->memory;
  adji_free(memory, g->list_memory);
  adji_free(memory, g->coords);
  if (g->left) adji_free(memory, g->low);
  if (g->left) adji_free(memory, g->high);
  adji_free(memory, g->leaves.bounds);
  adji_near_nodes_clear(&g->near, g->right);
  adji_pools_clear(g);
  adji_free(memory, g->ids);
  adji_free(memory, g->sums);
  *g = (adji_knn_group){0};
}
