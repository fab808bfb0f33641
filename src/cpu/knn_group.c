/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of a group of queries.
 *
 * 1. The leaves around the queries' own leaf come first; in a join of two sets, those around a leaf near them. They
 *    give a good first bound on the distance of the k-th neighbour.
 * 2. The tree is searched from the root, nearest nodes first, for leaves that are closer to the box of the group than
 *    the worst k-th neighbour of its queries.
 * 3. Whenever enough leaves are collected, each query visits those close enough to it, and the reach of the group
 *    shrinks.
 *
 * Ties go to the lower id, so a node as far as the k-th neighbour counts only if it holds a lower id. This keeps a
 * million equal points from being visited a million times.
 */
#include "cpu/knn_group.h"

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
  if (!g->ordered) {
    adji_kbest_reset(&g->best[q], g->join->limit);
    return;
  }
  void *list = (char *)g->lists + q * g->list_stride;
  uint32_t room = (g->k + 7) / 8 * 8;
  if (g->right->type == ADJ_F64) {
    for (uint32_t i = 0; i < room; i++)
      ((adji_near_f64 *)list)[i] = (adji_near_f64){g->join->limit, ADJ_NO_ID};
  } else {
    uint64_t none = adji_near_make_f32((float)g->join->limit, ADJ_NO_ID);
    for (uint32_t i = 0; i < room; i++)
      ((uint64_t *)list)[i] = none;
  }
}

/* Loads the selected queries, points of a leaf, and starts their lists. */
static void load_queries(adji_knn_group *g, uint64_t leaf) {
  if (g->left->type == ADJ_F64)
    copy_double(g, leaf);
  else
    copy_float(g, leaf);
  for (uint32_t q = 0; q < g->query_count; q++)
    start_list(g, q);
}

/* Selects the point at place i of a leaf as a query. */
static void add_query(adji_knn_group *g, uint32_t i, uint32_t row) {
  uint32_t q = g->query_count++;
  g->places[q] = i;
  g->rows[q] = row;
  g->own[q] = g->join->style.drop_self ? row : ADJ_NO_ID;
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
  adji_list_leaves_fn list = g->kernels->list_leaves;
  const char *coords = g->coords;
  for (uint32_t q = 0; q < g->query_count; q++) {
    task->queries = coords + (uint64_t)q * task->dim * adji_type_size(style->type);
    uint32_t found = list(task, g->best[q].limit, g->ids, g->sums);
    if (g->own[q] != ADJ_NO_ID) found = adji_drop_id(style->type, g->ids, g->sums, found, g->own[q]);
    adji_kbest_add(&g->best[q], g->ids, g->sums, found);
  }
}

/* Compares every query with the collected leaves. */
static void visit_leaves(adji_knn_group *g, adji_tally *tally) {
  if (!g->leaves.count) return;
  adji_knn_task task = {.coords = g->right->coords,
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
                        .best_stride = g->list_stride};
  if (g->ordered)
    g->kernels->knn(&task);
  else
    visit_leaves_buffered(g, &task);
  tally->candidates += task.candidates;
  g->leaves.count = 0;
  measure_reach(g);
}

static void add_leaf(adji_knn_group *g, uint64_t leaf) {
  const adji_tree_level *level = &g->right->level[0];
  uint32_t at = g->leaves.count++, dim = g->right->dim;
  uint64_t from = leaf / ADJI_FAN * dim * 2 * ADJI_FAN + leaf % ADJI_FAN;
  g->leaves.number[at] = (uint32_t)leaf;
  g->leaves.least_ids[at] = level->least_ids[leaf];
  for (uint32_t j = 0; j < 2 * dim; j++) {
    uint64_t to = (uint64_t)j * ADJI_LEAVES + at;
    if (g->right->type == ADJ_F64)
      ((double *)g->leaves.bounds)[to] = ((const double *)level->bounds)[from + (uint64_t)j * ADJI_FAN];
    else
      ((float *)g->leaves.bounds)[to] = ((const float *)level->bounds)[from + (uint64_t)j * ADJI_FAN];
  }
}

/* ---- The search ------------------------------------------------------------------------------ */

/* The lower bounds of the nodes of a chunk. */
typedef struct chunk_bounds {
  double wide[ADJI_FAN]; /* f64 */
  float narrow[ADJI_FAN];
  uint32_t near; /* bit i: node i is within reach */
} chunk_bounds;

/* A box to measure from, dim entries each, and how far. */
typedef struct box_reach {
  const void *low, *high;
  double reach;
} box_reach;

static void bound_chunk(const adji_knn_group *g, box_reach from, uint32_t level_number, uint64_t chunk,
                        chunk_bounds *out) {
  const adji_tree_level *level = &g->right->level[level_number];
  bool wide = g->right->type == ADJ_F64;
  const char *boxes = (const char *)level->bounds + chunk * g->right->dim * 2 * ADJI_FAN * (wide ? 8 : 4);
  out->near = g->kernels->box_bounds(g->join->style.measure, from.low, from.high, g->right->dim, boxes, from.reach,
                                     wide ? (void *)out->wide : (void *)out->narrow);
  uint64_t remaining = level->count - chunk * ADJI_FAN;
  if (remaining < ADJI_FAN) out->near &= (UINT32_C(1) << remaining) - 1;
}

static inline double bound_at(const adji_knn_group *g, const chunk_bounds *bounds, uint32_t i) {
  return g->right->type == ADJ_F64 ? bounds->wide[i] : (double)bounds->narrow[i];
}

/* The node of a chunk that is nearest to the first query. */
static uint32_t nearest_node(const adji_knn_group *g, uint32_t level, uint64_t chunk) {
  chunk_bounds bounds;
  bound_chunk(g, (box_reach){g->coords, g->coords, 0}, level, chunk, &bounds);
  if (bounds.near) return (uint32_t)__builtin_ctz(bounds.near);
  bound_chunk(g, (box_reach){g->coords, g->coords, INFINITY}, level, chunk, &bounds);
  uint32_t nearest = 0;
  for (uint32_t others = bounds.near & ~UINT32_C(1); others; others &= others - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(others);
    nearest = bound_at(g, &bounds, i) < bound_at(g, &bounds, nearest) ? i : nearest;
  }
  return nearest;
}

/* A leaf near the queries, if they have none of their own: from the root, the nearest node of each level. */
static uint64_t near_leaf(const adji_knn_group *g) {
  uint64_t node = 0;
  for (uint32_t level = g->right->levels; level-- > 0;)
    node = node * ADJI_FAN + nearest_node(g, level, node);
  return node;
}

/* Visits the leaves around one: enough for k neighbours. */
static void visit_nearby(adji_knn_group *g, uint64_t leaf, adji_tally *tally) {
  uint64_t many = g->k == 1 ? ADJI_FAN : 1, count = g->right->level[0].count;
  while (many * g->right->leaf < g->k + (uint64_t)g->k / 2 && many < ADJI_LEAVES)
    many *= 2;
  g->first_seen = leaf / many * many;
  g->end_seen = g->first_seen + many < count ? g->first_seen + many : count;
  add_leaf(g, leaf);
  for (uint64_t l = g->first_seen; l < g->end_seen; l++)
    if (l != leaf) add_leaf(g, l);
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

/* Visits the children of a node, which are chunk `chunk` of the level: collects leaves, pushes nodes. */
static void open_node(adji_knn_group *g, uint32_t level_number, uint64_t chunk) {
  const uint32_t *least_ids = g->right->level[level_number].least_ids + chunk * ADJI_FAN;
  chunk_bounds bounds;
  bound_chunk(g, (box_reach){g->low, g->high, g->reach}, level_number, chunk, &bounds);
  for (uint32_t from = g->depth; bounds.near; bounds.near &= bounds.near - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(bounds.near);
    uint64_t node = chunk * ADJI_FAN + i;
    double bound = bound_at(g, &bounds, i);
    if (!in_reach(g, bound, least_ids[i])) continue;
    if (level_number)
      push(g, from, (adji_tree_visit){bound, least_ids[i], level_number, node});
    else if (node < g->first_seen || node >= g->end_seen)
      add_leaf(g, node);
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

static void place_rows(adji_knn_group *g, const adji_window *window, adji_tally *tally) {
  for (uint32_t q = 0; q < g->query_count; q++) {
    uint32_t found = g->k ? read_list(g, q) : 0;
    adji_row_place_padded(window, &g->join->style, g->rows[q], g->ids, g->sums, found);
    tally->pairs += found;
  }
}

/* Rows lie in the order of ids, far apart: they are fetched while the search goes on. */
static void fetch_row(const adji_window *window, uint32_t row) {
  uint64_t at = (row - window->first_row) * window->k;
  for (uint32_t i = 0; i < window->k && i < 64; i += 16) {
    __builtin_prefetch(window->ids + at + i, 1);
    if (window->distances) __builtin_prefetch((const float *)window->distances + at + i, 1);
  }
}

static void find_neighbours(adji_knn_group *g, uint64_t leaf, adji_tally *tally) {
  g->first_seen = g->end_seen = 0;
  if (!g->k) return;
  load_queries(g, leaf);
  visit_nearby(g, g->left == g->right ? leaf : near_leaf(g), tally);
  search(g, tally);
}

void adji_knn_group_fill(adji_knn_group *g, uint64_t leaf, const adji_window *window, adji_tally *tally) {
  uint32_t count = adji_tree_leaf_count(g->left, leaf);
  const uint32_t *rows = g->left->ids + leaf * g->left->leaf;
  for (uint32_t i = 0; i < count;) {
    for (g->query_count = 0; i < count && g->query_count < g->max_queries; i++) {
      if (window && !adji_window_has(window, rows[i])) continue;
      add_query(g, i, rows[i]);
      if (window) fetch_row(window, rows[i]);
    }
    if (!g->query_count) continue;
    find_neighbours(g, leaf, tally);
    if (window) place_rows(g, window, tally);
  }
}

/* ---- Creation -------------------------------------------------------------------------------- */

enum { KEYS_AT_ONCE = 1 << 16 };

static adj_status make_lists(adji_knn_group *g) {
  adji_memory *memory = &g->join->ctx->memory;
  size_t key = g->right->type == ADJ_F64 ? sizeof(adji_near_f64) : sizeof(uint64_t);
  if (g->ordered) {
    g->list_stride = ((uint64_t)g->k + 7) / 8 * 8 * key;
    g->lists = adji_alloc(memory, g->list_stride, g->max_queries, "lists of neighbours");
    return g->lists ? ADJ_OK : ADJ_E_MEMORY;
  }
  g->best = adji_alloc(memory, adji_kbest_bytes(g->right->type, g->k, g->max_queries), 1, "lists of neighbours");
  if (!g->best) return ADJ_E_MEMORY;
  adji_kbest_init(g->best, g->join->ctx->isa, g->right->type, g->k, g->max_queries);
  return ADJ_OK;
}

adj_status adji_knn_group_init(adji_knn_group *g, const adji_join *join, const adji_tree *left,
                               const adji_tree *right) {
  adji_memory *memory = &join->ctx->memory;
  size_t size = adji_type_size(left->type);
  *g = (adji_knn_group){.join = join, .left = left, .right = right, .k = adji_join_reach(join)};
  g->kernels = &join->style.kernels->typed[left->type == ADJ_F64]->tree[join->style.measure->step];
  g->ordered = g->k <= ADJI_KNN_MOST_K;
  g->max_queries = left->leaf;
  if (!g->ordered && g->k > KEYS_AT_ONCE / g->max_queries)
    g->max_queries = g->k < KEYS_AT_ONCE ? KEYS_AT_ONCE / g->k : 1;
  uint64_t row = (uint64_t)ADJI_LEAVES * right->leaf + ADJI_BOX_LANES;
  if (row < g->k) row = g->k;
  g->coords = adji_alloc(memory, (uint64_t)left->leaf * left->dim, size, "queries");
  g->low = adji_alloc(memory, left->dim, size, "queries");
  g->high = adji_alloc(memory, left->dim, size, "queries");
  g->leaves.bounds = adji_alloc_zero(memory, (uint64_t)2 * left->dim * ADJI_LEAVES + ADJI_BOX_LANES, size, "queries");
  g->ids = adji_alloc(memory, row, sizeof *g->ids, "row of neighbours");
  g->sums = adji_alloc(memory, row, size, "row of neighbours");
  if (!g->coords || !g->low || !g->high || !g->leaves.bounds || !g->ids || !g->sums) return ADJ_E_MEMORY;
  return g->k ? make_lists(g) : ADJ_OK;
}

void adji_knn_group_clear(adji_knn_group *g) {
  if (!g->join) return;
  adji_memory *memory = &g->join->ctx->memory;
  adji_free(memory, g->best);
  adji_free(memory, g->lists);
  adji_free(memory, g->coords);
  adji_free(memory, g->low);
  adji_free(memory, g->high);
  adji_free(memory, g->leaves.bounds);
  adji_free(memory, g->ids);
  adji_free(memory, g->sums);
}
